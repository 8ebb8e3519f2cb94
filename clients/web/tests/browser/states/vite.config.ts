import { defineConfig } from "vite";

export default defineConfig({
  root: new URL("../../..", import.meta.url).pathname,
  publicDir: "app/public",
  plugins: [
    {
      name: "fake-stage",
      enforce: "pre",
      resolveId(id) {
        if (!id.endsWith("canvas/stage.ts") || process.env.REAL_STAGE) return null;
        return new URL("./fake-stage.ts", import.meta.url).pathname;
      },
    },
  ],
});
