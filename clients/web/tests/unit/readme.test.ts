/** The README's examples: those of a page stand in one file together, and all compile against the library. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/** How long the compiler may take, in milliseconds. */
const COMPILE_MS = 60_000;

/** What the examples leave to the reader's own code. */
const OWN_CODE = `
import type { LogRecord, Participant, Stroke, Style } from "inkrelay-client";
declare global {
  const canvas: {
    clear(): void;
    paint(style: Style, channels: number, values: readonly number[]): void;
    remove(stroke: Stroke): void;
  };
  const timeLapse: { add(records: readonly LogRecord[], head: number): void };
  function showPeople(people: readonly Participant[]): void;
  function showPen(who: number, x: number, y: number): void;
  function showButtons(canUndo: boolean, canRedo: boolean): void;
}
`;

test(
  "the examples compile",
  () => {
    const readme = readFileSync(join(ROOT, "README.md"), "utf8");
    const blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code ?? "");
    const inNode = blocks.filter((code) => code.includes('from "ws"'));
    const inPage = blocks.filter((code) => !inNode.includes(code));
    expect([inPage.length, inNode.length]).toEqual([3, 1]);
    // Within the project, so that its packages are found.
    const folder = mkdtempSync(join(ROOT, "node_modules/.readme-"));
    try {
      writeFileSync(join(folder, "own-code.ts"), OWN_CODE);
      writeFileSync(join(folder, "page.ts"), inPage.join("\n"));
      writeFileSync(join(folder, "node.ts"), inNode.join("\n"));
      const config = {
        extends: "../../tsconfig.json",
        compilerOptions: { paths: { "inkrelay-client": ["../../src/index.ts"] }, types: ["node"] },
        include: ["*.ts"],
        exclude: [],
      };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
      const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
      expect(compile(compiler, folder)).toBe("");
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
  COMPILE_MS,
);

/** What the compiler has to say. */
function compile(compiler: string, folder: string): string {
  try {
    return execFileSync(process.execPath, [compiler, "-p", folder], {
      encoding: "utf8",
      timeout: COMPILE_MS,
    });
  } catch (error) {
    return error instanceof Error && "stdout" in error ? String(error.stdout) : String(error);
  }
}
