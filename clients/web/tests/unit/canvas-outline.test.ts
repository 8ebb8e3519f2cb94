/** Outlines: what they depend on, and that no stroke breaks them. */
import { describe, expect, test } from "vitest";
import { Outline, type Polygon, reach, stride } from "../../app/canvas/outline.ts";
import { Channel, type Stroke } from "../../src/index.ts";
import { stroke } from "./canvas-strokes.ts";

/** All pieces, as they come out when the points come in steps of that many. */
function outline(of: Stroke, step = Number.POSITIVE_INFINITY): Polygon[] {
  const made = new Outline(of.style, of.channels);
  const total = of.values.length / stride(of.channels);
  const pieces: Polygon[] = [];
  const gather = (count: number) => {
    made.grow(of.values, count);
    while (pieces.length < made.whole) {
      pieces.push(made.piece(pieces.length));
    }
    return made.tail(of.values);
  };
  for (let count = step; count < total; count += step) {
    gather(count);
  }
  const tail = gather(total);
  return [...pieces, tail];
}

function wave(points: number, length = 4): Stroke {
  return stroke(Array.from({ length: points }, (_, i) => [i * length, 40 * Math.sin(i / 5)]));
}

function farthest(polygons: readonly Polygon[], of: Stroke): number {
  const step = stride(of.channels);
  let far = 0;
  for (const [x, y] of polygons.flat()) {
    let near = Number.POSITIVE_INFINITY;
    for (let at = 0; at < of.values.length; at += step) {
      const [px, py] = [of.values[at] ?? 0, of.values[at + 1] ?? 0];
      near = Math.min(near, Math.hypot(px - (of.values[0] ?? 0) - x, py - (of.values[1] ?? 0) - y));
    }
    far = Math.max(far, near);
  }
  return far;
}

test("it is the same whether points came one by one or at once, whole or not", () => {
  const whole = wave(1000);
  const zigzag = stroke(Array.from({ length: 400 }, (_, i) => [i * 2, i % 2 === 0 ? 0 : 200]));
  for (const of of [whole, zigzag]) {
    expect(outline(of, 1)).toEqual(outline(of));
    expect(outline(of, 17)).toEqual(outline(of));
    expect(outline({ ...of, closed: false })).toEqual(outline(of));
  }
});

test("it stays within reach of the points, which here are at most 24 sixteenths apart", () => {
  const pressed = stroke([], {
    channels: Channel.PRESSURE,
    values: Array.from({ length: 300 }, (_, i) => [i * 12, Math.round(900 * Math.sin(i / 60)), 255]).flat(),
  });
  const dense = stroke(Array.from({ length: 900 }, (_, i) => [i / 4, 40 * Math.sin(i / 60)]));
  for (const of of [dense, pressed]) {
    expect(farthest(outline(of), of)).toBeLessThanOrEqual(reach(of.style) + 24);
  }
});

test("it begins at the first and ends at the last point: ink does not lag", () => {
  const polygons = outline(wave(57, 9));
  const last = polygons.at(-1) ?? [];
  const end = [56 * 9 * 16, 40 * 16 * Math.sin(56 / 5)] as const;
  expect(Math.min(...last.map(([x, y]) => Math.hypot(x - end[0], y - end[1])))).toBeLessThan(64);
  expect(Math.max(...last.map(([x]) => x))).toBeGreaterThan(end[0]);
});

test("harder is wider, and a highlighter knows no pressure", () => {
  const height = (tool: number, pressure: number) => {
    const values = Array.from({ length: 40 }, (_, i) => [i * 160, 0, pressure]).flat();
    const of = stroke([], { channels: Channel.PRESSURE, values, style: { tool, rgba: 255, width: 160 } });
    return Math.max(...outline(of).flatMap((polygon) => polygon.map(([, y]) => y)));
  };
  expect(height(0, 250)).toBeGreaterThan(height(0, 128) * 1.3);
  expect(height(0, 20)).toBeLessThan(height(0, 128) * 0.8);
  expect(height(1, 20)).toBeCloseTo(height(1, 250));
});

describe("F4: strokes that would break it", () => {
  const cases: [string, Stroke][] = [
    ["one point", stroke([[5, 5]])],
    ["one point at the edge of the board", stroke([[2 ** 26, -(2 ** 26)]])],
    ["equal points", stroke(Array.from({ length: 50 }, () => [7, 7]))],
    [
      "two points",
      stroke([
        [0, 0],
        [0.0625, 0],
      ]),
    ],
    [
      "from edge to edge",
      stroke([
        [-(2 ** 26), -(2 ** 26)],
        [2 ** 26, 2 ** 26],
        [-(2 ** 26), 2 ** 26],
      ]),
    ],
    ["no width", { ...wave(20), style: { tool: 0, rgba: 255, width: 0 } }],
    ["all width", { ...wave(20), style: { tool: 0, rgba: 255, width: 65_535 } }],
    ["there and back", stroke(Array.from({ length: 100 }, (_, i) => [i % 2 === 0 ? 0 : 50, 0]))],
    ["pressure out of range", stroke([], { channels: 1, values: [0, 0, -1, 160, 0, 99_999, 320, 0, 0] })],
  ];
  test.each(cases)("%s", (_, of) => {
    const polygons = outline(of);
    const corners = polygons.flat();
    expect(corners.length).toBeGreaterThan(2);
    expect(corners.every(([x, y]) => Number.isFinite(x) && Number.isFinite(y))).toBe(true);
  });

  test("no points: nothing", () => {
    expect(outline(stroke([])).flat()).toEqual([]);
  });

  test("100,000 points that come in bursts cost what their number does, not its square", () => {
    const of = wave(100_000);
    const start = performance.now();
    const pieces = outline(of, 100);
    expect(pieces.length).toBeGreaterThan(100);
    // Made anew from the start at every burst it would take minutes.
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});

test("a dot is round", () => {
  const [polygon = []] = outline(stroke([[3, 4]]));
  const far = polygon.map(([x, y]) => Math.hypot(x, y));
  expect(Math.max(...far) - Math.min(...far)).toBeLessThan(0.01);
  expect(far[0]).toBeGreaterThan(20);
});
