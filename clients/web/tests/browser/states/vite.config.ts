import { defineConfig } from "vite";

// Served from the package's folder, since the page takes from `app`, `src` and `tests`.
export default defineConfig({
  root: new URL("../../..", import.meta.url).pathname,
  publicDir: "app/public",
});
