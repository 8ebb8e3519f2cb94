/** The camera's sums. */
import { describe, expect, test } from "vitest";
import { emptyBox } from "../../app/canvas/box.ts";
import {
  between,
  fitted,
  gripped,
  limited,
  panned,
  projected,
  resized,
  toBoard,
  toStage,
  ZOOM_MAX,
  ZOOM_MIN,
  zoomedAbout,
} from "../../app/canvas/camera.ts";

const SIZE = { width: 801, height: 600 };

test("panning moves the board with the finger", () => {
  expect(panned({ x: 0, y: 0, zoom: 2 }, 10, -20)).toEqual({ x: -5, y: 10, zoom: 2 });
});

test("zooming keeps the point under the pointer", () => {
  const at = { x: 123, y: 456 };
  const before = { x: 40, y: -7, zoom: 1.3 };
  const after = zoomedAbout(before, SIZE, at, 1.7);
  expect(after.zoom).toBeCloseTo(2.21);
  const point = (view: typeof before) => ({
    x: view.x + (at.x - SIZE.width / 2) / view.zoom,
    y: view.y + (at.y - SIZE.height / 2) / view.zoom,
  });
  expect(point(after).x).toBeCloseTo(point(before).x);
  expect(point(after).y).toBeCloseTo(point(before).y);
});

test("at the limit of zoom the point stays too", () => {
  const view = zoomedAbout({ x: 0, y: 0, zoom: ZOOM_MAX }, SIZE, { x: 1, y: 1 }, 5);
  expect(view).toEqual({ x: 0, y: 0, zoom: ZOOM_MAX });
});

test("a pinch keeps what lies between the fingers", () => {
  const view = gripped(
    { x: 0, y: 0, zoom: 1 },
    SIZE,
    { x: 400.5, y: 300, span: 100 },
    { x: 450.5, y: 320, span: 50 },
  );
  expect(view.zoom).toBe(0.5);
  expect(view.x).toBeCloseTo(-100);
  expect(view.y).toBeCloseTo(-40);
});

describe("limits", () => {
  test("of zoom and of place", () => {
    expect(limited({ x: 1e9, y: -1e9, zoom: 1e9 })).toEqual({ x: 2 ** 26, y: -(2 ** 26), zoom: ZOOM_MAX });
    expect(limited({ x: 0, y: 0, zoom: 0 }).zoom).toBe(ZOOM_MIN);
  });
  test("what is no number is no view", () => {
    expect(limited({ x: Number.NaN, y: Number.NaN, zoom: Number.NaN })).toEqual({ x: 0, y: 0, zoom: 1 });
  });
});

test("fitting shows a whole box, or the middle of an empty board", () => {
  expect(fitted(emptyBox(), SIZE)).toEqual({ x: 0, y: 0, zoom: 1 });
  const view = fitted({ x0: -1000, y0: 100, x1: 3000, y1: 300 }, SIZE);
  expect([view.x, view.y]).toEqual([1000, 200]);
  expect(4000 * view.zoom).toBeLessThanOrEqual(SIZE.width);
  expect(4000 * view.zoom).toBeGreaterThan(SIZE.width * 0.8);
  expect(fitted({ x0: 5, y0: 5, x1: 5, y1: 5 }, SIZE).zoom).toBe(2);
});

test("a stage of another size shows the same place at its top left", () => {
  const before = { x: 12, y: -7, zoom: 0.8 };
  const size = { width: 500, height: 900 };
  const corner = { x: 0, y: 0 };
  const was = toBoard(projected(before, SIZE, 2), corner);
  const is = toBoard(projected(resized(before, SIZE, size), size, 2), corner);
  expect(Math.abs(is.x - was.x)).toBeLessThan(1);
  expect(Math.abs(is.y - was.y)).toBeLessThan(1);
  expect(resized(before, SIZE, SIZE)).toEqual(before);
});

test("between two views: begins at one, ends at the other, and zooms evenly", () => {
  const from = { x: 0, y: 0, zoom: 1 };
  const to = { x: 100, y: 50, zoom: 4 };
  expect(between(from, to, 0)).toEqual(from);
  expect(between(from, to, 1)).toEqual(to);
  expect(between(from, to, 0.5).zoom).toBeCloseTo(2);
  expect(between(from, { ...from, x: 10 }, 0.5).x).toBe(5);
});

test("the origin lies on whole device pixels, and there and back is the same place", () => {
  const projection = projected({ x: 12.34, y: 5.678, zoom: 1.37 }, SIZE, 2);
  expect(Number.isInteger(projection.originX)).toBe(true);
  expect(Number.isInteger(projection.originY)).toBe(true);
  const point = { x: 17.25, y: 333.5 };
  const back = toStage(projection, toBoard(projection, point));
  expect(back.x).toBeCloseTo(point.x);
  expect(back.y).toBeCloseTo(point.y);
  const middle = toBoard(projection, { x: SIZE.width / 2, y: SIZE.height / 2 });
  expect(Math.abs(middle.x - 12.34)).toBeLessThan(1 / projection.scale);
});
