/** What keeps the house in order: which part may know which, how long a file may be, and where the page and the clock are. */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/** Lines after which a file gives its reason at its top: "one long file, since …". */
const LONG = 500;

interface Source {
  readonly path: string;
  readonly lines: readonly string[];
  /** Paths of the project's own files that it imports. */
  readonly imports: readonly string[];
}

function sources(...folders: string[]): Source[] {
  const paths = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.tsx?$/.test(name) && !name.includes("node_modules"))
      .map((name) => posix.join(folder, name)),
  );
  expect(paths.length).toBeGreaterThan(5);
  return paths.sort().map((path) => {
    const text = readFileSync(join(ROOT, path), "utf8");
    const imported = text.matchAll(/(?:from|import) "(\.[^"]+)"/g);
    const imports = [...imported].map(([, name]) => posix.join(posix.dirname(path), name ?? ""));
    return { path, lines: text.split("\n"), imports };
  });
}

/** Lines of code that match; comments are free. */
function code({ lines }: Source, pattern: RegExp): string[] {
  return lines.filter((line) => pattern.test(line.replace(/\/\/.*/, "")) && !/^\s*(\/\*|\*)/.test(line));
}

test("every file says first what it is, and gives a reason when it is long", () => {
  for (const { path, lines } of sources("src", "app", "operators", "tests")) {
    expect(lines[0], path).toMatch(/^\/\*\*/);
    if (lines.length > LONG) {
      expect(lines.slice(0, 25).join("\n"), `${path} has ${lines.length} lines`).toMatch(/ long file,/);
    }
  }
});

test("the pages know the library by its index alone", () => {
  for (const { path, imports } of sources("app", "operators")) {
    const foreign = imports.filter((name) => name.startsWith("src/") && name !== "src/index.ts");
    expect(foreign, path).toEqual([]);
  }
});

test("the canvas knows no panels, and the library no board", () => {
  for (const { path, imports } of sources("app/canvas", "src")) {
    const below = path.startsWith("src/") ? /^src\// : /^(src\/index\.ts|app\/canvas\/)/;
    expect(
      imports.filter((name) => !below.test(name)),
      path,
    ).toEqual([]);
  }
});

test("inside the library dependencies point down", () => {
  const levels = [
    ["index"],
    ["client"],
    ["connection", "orphans", "timeline", "author"],
    ["websocket", "long-poll"],
    ["poster"],
    ["session"],
    ["storage", "live-board", "replica"],
    ["identity"],
    ["outbox", "history", "board"],
    ["codec"],
  ].map((names) => names.map((name) => `src/${name}.ts`));
  for (const { path, imports } of sources("src")) {
    const level = levels.findIndex((names) => names.includes(path));
    if (level < 0) continue;
    const above = levels.slice(0, level).flat();
    expect(
      imports.filter((name) => above.includes(name)),
      path,
    ).toEqual([]);
  }
});

test("what decides has no clock and does no I/O", () => {
  const pure = [
    "outbox",
    "pipeline",
    "history",
    "will",
    "replica",
    "backoff",
    "choice",
    "live-board",
    "board",
    "codec",
  ];
  const impure =
    /\b(Date\.now|performance\.|setTimeout|setInterval|fetch\(|new WebSocket|indexedDB|Math\.random)/;
  for (const source of sources("src")) {
    if (!pure.some((name) => source.path === `src/${name}.ts`)) continue;
    expect(code(source, impure), source.path).toEqual([]);
  }
});

test("the library touches the page in two files", () => {
  const page = /\b(document|window|sessionStorage|localStorage|location)\s*[.[]/;
  for (const source of sources("src")) {
    if (["src/page.ts", "src/wakeups.ts"].includes(source.path)) continue;
    expect(code(source, page), source.path).toEqual([]);
  }
});
