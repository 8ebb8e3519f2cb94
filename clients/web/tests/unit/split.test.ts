/** Draws in parts come to the same as the whole. */
import { expect, test } from "vitest";
import { Board } from "../../src/board.ts";
import { encodeDraw } from "../../src/codec.ts";
import type { Draw } from "../../src/draw.ts";
import { type Points, split } from "../../src/split.ts";
import { generator } from "./random.ts";

const STYLE = { tool: 0, rgba: 0x000000ff, width: 32 };
const within = (max: number) => (part: Draw) => encodeDraw(part).length <= max;

function shown(draws: readonly Draw[]) {
  const board = new Board();
  for (const [index, draw] of draws.entries()) board.apply({ author: 7, n: index + 1, at: 0, draw });
  return board.strokes().map(({ number, values, closed }) => ({ number, values: [...values], closed }));
}

test("parts of strokes draw what the whole draws, each within the limit, whatever each point carries", () => {
  const random = generator(7);
  for (let channels = 0; channels < 8; channels += 1) {
    const each = 2 + (channels & 1) + ((channels >> 1) & 1) + 2 * ((channels >> 2) & 1);
    for (const count of [1, 2, 3, 64, 501]) {
      const points = Array.from({ length: count * each }, () => random(100));
      const begin: Points = { kind: "begin", stroke: 1, style: STYLE, channels, points, end: false };
      const extend: Points = { kind: "extend", stroke: 1, points, end: true };
      const parts = [begin, extend].flatMap((draw) => split(draw, channels, within(64)));
      expect(parts.every(within(64))).toBe(true);
      expect(shown(parts)).toEqual(shown([begin, extend]));
      expect(shown(parts)).toMatchObject([{ closed: true }]);
    }
  }
});

test("what fits stays whole, and what cannot be halved stays as it is", () => {
  const end: Points = { kind: "extend", stroke: 1, points: [], end: true };
  const point: Points = { kind: "begin", stroke: 1, style: STYLE, channels: 0, points: [1, 2], end: true };
  for (const draw of [end, point]) {
    expect(split(draw, 0, () => true)).toEqual([draw]);
    expect(split(draw, 0, () => false)).toEqual([draw]);
  }
});
