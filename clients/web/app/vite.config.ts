/** The build of the board: its page first, its list of files for the service worker. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const ROOT = import.meta.dirname;
const WORKER = "service-worker.js";

/** Tells the service worker which files the page is made of, and gives that set a name. */
function shell(): Plugin {
  return {
    name: "shell",
    apply: "build",
    enforce: "post",
    generateBundle(_options, bundle) {
      const hash = createHash("sha256");
      const files: string[] = [];
      const add = (name: string, content: string | Uint8Array) => {
        files.push(name === "index.html" ? "/" : `/${name}`);
        hash.update(name).update("\0").update(content);
      };
      for (const [name, output] of Object.entries(bundle)) {
        if (name !== WORKER) add(name, output.type === "chunk" ? output.code : output.source);
      }
      for (const name of readdirSync(join(ROOT, "public")))
        add(name, readFileSync(join(ROOT, "public", name)));
      const worker = bundle[WORKER];
      if (worker?.type !== "chunk") this.error(`${WORKER} was not built`);
      const value = JSON.stringify({ version: hash.digest("hex").slice(0, 16), files: files.sort() });
      worker.code = `const SHELL = ${value};\n${worker.code}`;
    },
  };
}

/** WebKit runs a module before styles that stand behind it have come: nothing would have a size yet. */
function stylesFirst(): Plugin {
  return {
    name: "styles-first",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler(html) {
        const styles = html.match(/ *<link rel="stylesheet"[^>]*>\n/g) ?? [];
        const rest = styles.reduce((text, style) => text.replace(style, ""), html);
        return rest.replace(/ *<script type="module"/, (script) => styles.join("") + script);
      },
    },
  };
}

// Preact needs no plug-in: the compiler takes `jsxImportSource` from tsconfig.json.
export default defineConfig({
  root: ROOT,
  base: "/",
  plugins: [shell(), stylesFirst()],
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    sourcemap: false,
    // Every browser that runs the page knows how to preload modules.
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: join(ROOT, "index.html"), "service-worker": join(ROOT, "service-worker.ts") },
      output: {
        // The worker's name must stay, or a browser would never find the next one.
        entryFileNames: (chunk) => (chunk.name === "service-worker" ? WORKER : "assets/[name]-[hash].js"),
      },
    },
  },
});
