/** What the eraser touches. */
import { expect, test } from "vitest";
import { hits } from "../../app/canvas/eraser.ts";
import { Channel } from "../../src/index.ts";
import { stroke } from "./canvas-strokes.ts";

const LINE = stroke([
  [0, 0],
  [100, 0],
]);

test("a way that crosses a stroke touches it, however far its ends and the stroke's points are", () => {
  expect(hits(LINE, { x: 50, y: -500 }, { x: 50, y: 500 }, 1)).toBe(true);
  expect(hits(LINE, { x: 150, y: -500 }, { x: 150, y: 500 }, 1)).toBe(false);
});

test("near is its radius and half the stroke's width", () => {
  const at = (y: number) => hits(LINE, { x: 50, y }, { x: 50, y }, 10);
  expect(at(11.9)).toBe(true);
  expect(at(12.1)).toBe(false);
});

test("beyond a stroke's end it is round", () => {
  const at = (x: number, y: number) => hits(LINE, { x, y }, { x, y }, 10);
  expect(at(111.9, 0)).toBe(true);
  expect(at(109, 9)).toBe(false);
});

test("dots, strokes of equal points and none", () => {
  const here = { x: 5, y: 5 };
  expect(hits(stroke([[0, 0]]), here, here, 6)).toBe(true);
  expect(hits(stroke([[0, 0]]), here, here, 4)).toBe(false);
  const equal = stroke([
    [0, 0],
    [0, 0],
  ]);
  expect(hits(equal, here, here, 6)).toBe(true);
  expect(hits(stroke([]), here, here, 1e9)).toBe(false);
});

test("channels are no places", () => {
  const pressed = stroke([], {
    channels: Channel.PRESSURE | Channel.TILT,
    values: [0, 0, 255, 90, 90, 160, 0, 255, 0, 0],
  });
  expect(hits(pressed, { x: 5, y: 0 }, { x: 5, y: 0 }, 1)).toBe(true);
  expect(hits(pressed, { x: 16, y: 5 }, { x: 16, y: 5 }, 1)).toBe(false);
});
