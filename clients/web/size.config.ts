/** Bundles the library with all that it needs, as a page would, to measure it: `npm run size`. */
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    // Not into `dist`: that is served.
    outDir: "node_modules/.size",
    target: "es2022",
    modulePreload: false,
    // Not a `lib` build: those keep their white space.
    rolldownOptions: {
      input: "src/index.ts",
      preserveEntrySignatures: "strict",
      output: { entryFileNames: "client.js" },
    },
  },
});
