/** G7: ink that was drawn before there was a board. */
import { expect, test } from "vitest";
import { EarlyInk } from "../../app/canvas/early-ink.ts";
import type { Hand } from "../../app/canvas/stage.ts";
import { type Change, Channel, SELF, type Style } from "../../src/index.ts";

const STYLE: Style = { tool: 0, rgba: 255, width: 64 };

/** Writes down what it is told to draw. */
class Notes implements Hand {
  readonly calls: unknown[][] = [];
  begin(style: Style, channels: number, points: readonly number[]): number {
    this.calls.push(["begin", style.width, channels, [...points]]);
    return 100 + this.calls.length;
  }
  extend(stroke: number, points: readonly number[], end = false): void {
    this.calls.push(["extend", stroke, [...points], end]);
  }
  cancel(): void {}
  erase(): void {}
  beginGroup(): void {}
  endGroup(): void {}
  pointer(): void {}
}

test("it shows, with absolute points", () => {
  const early = new EarlyInk();
  const changes: Change[] = [];
  early.subscribe((change) => changes.push(change));
  const number = early.begin(STYLE, Channel.PRESSURE, [160, 320, 99, 16, 0, 98]);
  early.extend(number, [-16, 16, 97], true);
  const [stroke] = early.strokes();
  expect(stroke).toMatchObject({
    author: SELF,
    closed: true,
    values: [160, 320, 99, 176, 320, 98, 160, 336, 97],
  });
  expect(early.find([SELF, number])).toBe(stroke);
  expect(changes.map(({ appeared, grown }) => [appeared.length, grown.length])).toEqual([
    [1, 0],
    [0, 1],
  ]);
});

test("it is handed over in its order, as it would have been drawn, and then it is gone", () => {
  const early = new EarlyInk();
  const whole = early.begin(STYLE, 0, [1, 2, 3, 4]);
  early.extend(whole, [5, 6], true);
  early.cancel(early.begin(STYLE, 0, [9, 9]));
  const erased = early.begin(STYLE, 0, [8, 8]);
  early.erase([[SELF, erased]]);
  const open = early.begin(STYLE, 0, [7, 7]);
  const hand = new Notes();
  expect(early.handOver(hand)).toEqual(new Map([[open, 103]]));
  expect(hand.calls).toEqual([
    ["begin", 64, 0, [1, 2, 3, 4, 5, 6]],
    ["extend", 101, [], true],
    ["begin", 64, 0, [7, 7]],
  ]);
  expect(early.strokes()).toEqual([]);
  expect(early.handOver(new Notes())).toEqual(new Map());
});
