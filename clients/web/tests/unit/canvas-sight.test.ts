/** Which part of the ink is looked at. */
import { expect, test } from "vitest";
import { type Box, emptyBox, holds } from "../../app/canvas/box.ts";
import { fits, fitted, projected, SIGHT_ZOOM_MIN, shown, ZOOM_MIN } from "../../app/canvas/camera.ts";
import { type Spot, sight } from "../../app/canvas/sight.ts";

const LAPTOP = { width: 1280, height: 720 };
const PHONE = { width: 390, height: 844 };
const FAR = 2 ** 26;

function around(x: number, y: number, by = 20): Box {
  return { x0: x - by, y0: y - by, x1: x + by, y1: y + by };
}

/** Oldest first. */
function spots(...boxes: readonly Box[]): Spot[] {
  return boxes.map((box, order) => ({ order, box, end: () => around(box.x1, box.y1) }));
}

function looked(ink: readonly Spot[], size: typeof PHONE, zoomMin: number): Box {
  const view = fitted(
    sight(ink, (box) => fits(box, size, zoomMin)),
    size,
  );
  expect(view.zoom).toBeGreaterThanOrEqual(zoomMin);
  return shown(projected(view, size, 1));
}

test("all of it where that fits, and nothing of an empty board", () => {
  const ink = spots(around(0, 0), around(5000, 3000));
  expect(sight(ink, (box) => fits(box, LAPTOP, ZOOM_MIN))).toEqual({ x0: -20, y0: -20, x1: 5020, y1: 3020 });
  expect(sight([], (box) => fits(box, LAPTOP, ZOOM_MIN))).toEqual(emptyBox());
});

test("two strokes far apart: the newer one, in whatever order they are given", () => {
  const ink = spots(around(0, 0), around(60_000, 0));
  for (const given of [ink, [...ink].reverse()]) {
    expect(holds(looked(given, LAPTOP, ZOOM_MIN), around(60_000, 0))).toBe(true);
  }
});

test("a single stroke far out hides no board, wherever it is in the order", () => {
  const home = Array.from({ length: 20 }, (_, i) => around(i * 100, i * 50));
  for (const at of [0, 10, 20]) {
    const boxes = [...home];
    boxes.splice(at, 0, around(FAR, FAR));
    const seen = looked(spots(...boxes), LAPTOP, SIGHT_ZOOM_MIN);
    expect(home.every((box) => holds(seen, box))).toBe(true);
  }
});

test("nor do many of them, each at a place of its own", () => {
  const home = [around(0, 0), around(100, 0), around(200, 0)];
  const far = Array.from({ length: 30 }, (_, i) => around(FAR - i * 1e6, FAR));
  for (const boxes of [
    [...home, ...far],
    [...far, ...home],
  ]) {
    const seen = looked(spots(...boxes), LAPTOP, SIGHT_ZOOM_MIN);
    expect(home.every((box) => holds(seen, box))).toBe(true);
  }
});

test("on a phone: ink that is too far apart to be recognised is not shown as dust", () => {
  const ink = spots(around(0, 0), around(10_000, 0));
  for (const zoomMin of [ZOOM_MIN, SIGHT_ZOOM_MIN]) {
    expect(holds(looked(ink, PHONE, zoomMin), around(10_000, 0))).toBe(true);
  }
});

test("a stroke that is too large alone shows its end, which has ink", () => {
  const ink = spots({ x0: 0, y0: 0, x1: FAR, y1: FAR / 2 });
  expect(holds(looked(ink, LAPTOP, ZOOM_MIN), around(FAR, FAR / 2))).toBe(true);
});
