/** The build of the page of states. */
import { join } from "node:path";
import { defineConfig } from "vite";

const WEB = join(import.meta.dirname, "../../..");

// Served from the package's folder, since the page takes from `app`, `src` and `tests`.
export default defineConfig({
  root: WEB,
  publicDir: "app/public",
  build: { target: "es2022", rollupOptions: { input: join(import.meta.dirname, "index.html") } },
});
