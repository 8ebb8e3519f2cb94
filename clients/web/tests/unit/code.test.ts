/** The codes and remedies, held to the tables of PROTOCOL.md. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import {
  CloseCode,
  closeRemedy,
  ERROR_CODES,
  frameRemedy,
  problemRemedy,
  type Remedy,
} from "../../src/code.ts";

const document = readFileSync(new URL("../../../../protocol/PROTOCOL.md", import.meta.url), "utf8");

/** The cells of every row whose first cell matches. */
function rows(first: RegExp): string[][] {
  const cut = (line: string) => line.split("|").map((cell) => cell.trim());
  return document
    .split("\n")
    .map(cut)
    .filter((cells) => cells.length > 3 && first.test(cells[1] ?? ""));
}

const WORDS: Record<Remedy, string> = {
  retry: "sends it again",
  drop: "drops the draw",
  renumber: "sends from the `n` expected",
  reset: "forgets the board and takes the snapshot",
  newSession: "takes a new session",
  giveUp: "tells its user",
};

// C-7
it("knows every error code of the table and no other", () => {
  const table = rows(/^`[a-z_]+`$/).filter((cells) => /^\d{3}$/.test(cells[2] ?? ""));
  expect(table.map((cells) => (cells[1] ?? "").replaceAll("`", "")).sort()).toEqual(
    Object.keys(ERROR_CODES).sort(),
  );
  for (const [, code = "", status = "", does = ""] of table) {
    const name = code.replaceAll("`", "");
    const remedy = problemRemedy(name, Number(status));
    expect(does.startsWith(WORDS[remedy]), `${name}: ${does}`).toBe(true);
    expect(frameRemedy(name, null)).toBe(remedy);
  }
});

it("acts by the status or the retry time where it does not know the code", () => {
  expect(problemRemedy("haunted", 422)).toBe("drop");
  expect(problemRemedy("haunted", 503)).toBe("retry");
  expect(problemRemedy("haunted", 400)).toBe("giveUp");
  expect(problemRemedy("toString", 400)).toBe("giveUp");
  expect(frameRemedy("haunted", null)).toBe("drop");
  expect(frameRemedy("haunted", 250)).toBe("retry");
});

it("gives no ink up for what a proxy says", () => {
  for (const status of [200, 302, 400, 401, 403, 404, 502]) expect(problemRemedy(null, status)).toBe("retry");
  expect(problemRemedy(null, 413)).toBe("drop");
});

// C-1
it("reconnects after the close codes that say so, and after those it does not know", () => {
  const table = rows(/^\d{4}$/);
  expect(table.map((cells) => Number(cells[1])).sort()).toEqual(Object.values(CloseCode).sort());
  for (const [, code, , does = ""] of table) {
    expect(closeRemedy(Number(code)) === "retry", does).toBe(does.includes("reconnects"));
  }
  expect(closeRemedy(CloseCode.UNAUTHORIZED)).toBe("newSession");
  for (const code of [1005, 1006, 4999]) expect(closeRemedy(code)).toBe("retry");
});
