import { defineConfig } from "vite";

// Preact needs no plug-in: the compiler takes `jsxImportSource` from tsconfig.json.
export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  build: { outDir: "../dist", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, sourcemap: false },
});
