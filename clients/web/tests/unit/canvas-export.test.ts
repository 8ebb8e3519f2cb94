/** Pictures of a board. */
import { describe, expect, test } from "vitest";
import { frameOf, scaleWithin, sheetOf, toSvg } from "../../app/canvas/export.ts";
import { HandPicture, stroke } from "./canvas-strokes.ts";

describe("SVG", () => {
  test("holds every stroke, in painting order, as in light", () => {
    const picture = new HandPicture();
    picture.all = [
      stroke(
        [
          [0, 0],
          [50, 60],
        ],
        { order: 2, style: { tool: 1, rgba: 0xfacc15ff, width: 320 } },
      ),
      stroke(
        [
          [0, 0],
          [50, 60],
        ],
        { order: 1, style: { tool: 0, rgba: 0x123456ff, width: 64 } },
      ),
      stroke([[1e6, 7]], { order: 3, style: { tool: 0, rgba: 0x00ff0080, width: 0 } }),
    ];
    const svg = toSvg(picture);
    const fills = [
      ...svg.matchAll(/<path fill="(#[0-9a-f]{6})"( fill-opacity="[0-9.]+")? d="M[-0-9. MQZ]+Z"\/>/g),
    ];
    expect(fills.map((match) => [match[1], match[2]])).toEqual([
      ["#123456", undefined],
      ["#facc15", ' fill-opacity="0.4"'],
      ["#00ff00", ' fill-opacity="0.502"'],
    ]);
    expect(svg.startsWith('<svg xmlns="http://www.w3.org/2000/svg"')).toBe(true);
    expect(svg).toContain('fill="#fdfcf8"');
    expect(svg).not.toMatch(/NaN|Infinity|e[+-]?\d/);
    expect(svg.trim().endsWith("</svg>")).toBe(true);
  });

  test("of an empty board is a sheet of paper", () => {
    expect(toSvg(new HandPicture())).toContain('viewBox="-320 -240 640 480"');
  });
});

describe("the scale of a PNG", () => {
  const box = (width: number, height: number) => ({ x0: 0, y0: 0, x1: width, y1: height });
  test("is the one that is asked for where it fits", () => {
    expect(scaleWithin(box(1000, 1000), 2)).toBe(2);
  });
  test("is lowered where a canvas could not be that large", () => {
    expect(scaleWithin(box(10_000, 10_000), 2) * 10_000).toBeLessThanOrEqual(4096);
    expect(scaleWithin(box(1e6, 10), 2) * 1e6).toBeLessThanOrEqual(8192);
  });
  test("that is none is 1", () => {
    expect(scaleWithin(box(10, 10), Number.NaN)).toBe(1);
    expect(scaleWithin(box(10, 10), -3)).toBe(1);
  });
});

describe("what a PNG shows", () => {
  const frame = (scale: number, ...xs: number[]) => {
    const picture = new HandPicture();
    picture.all = xs.map((x, order) => stroke([[x, 0]], { order, number: order }));
    return frameOf(sheetOf(picture), scale);
  };
  test("is all ink where that is legible, at a lower scale if need be", () => {
    expect(frame(2, 0, 1000)).toMatchObject({ scale: 2, whole: true });
    const wide = frame(2, 0, 30_000);
    expect(wide.whole).toBe(true);
    expect(wide.scale).toBeLessThan(0.3);
    expect((wide.box.x1 - wide.box.x0) * wide.scale).toBeCloseTo(8192);
  });
  test("is the place with most ink where all of it would be dust", () => {
    const { box, scale, whole } = frame(2, 0, 100, 2 ** 26);
    expect(whole).toBe(false);
    expect(scale).toBe(2);
    expect([box.x0 < 0, box.x1 > 100, box.x1 < 500]).toEqual([true, true, true]);
  });
  test("is a sheet of paper for an empty board", () => {
    expect(frame(2)).toEqual({ box: { x0: -320, y0: -240, x1: 320, y1: 240 }, scale: 2, whole: true });
  });
});
