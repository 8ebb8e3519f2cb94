/** Wheels and trackpads. */
import { expect, test } from "vitest";
import { wheelWay, wheelZoom } from "../../app/canvas/view-input.ts";

test("a wheel counts in pixels, lines or pages", () => {
  expect(wheelWay({ deltaX: 3, deltaY: -4, deltaMode: 0 })).toEqual({ x: 3, y: -4 });
  expect(wheelWay({ deltaX: 0, deltaY: 3, deltaMode: 1 })).toEqual({ x: 0, y: 48 });
  expect(wheelWay({ deltaX: 0, deltaY: 1, deltaMode: 2 })).toEqual({ x: 0, y: 400 });
});

test("up zooms in, down zooms out by as much, and one notch is no leap", () => {
  expect(wheelZoom({ x: 0, y: -5 })).toBeGreaterThan(1);
  expect(wheelZoom({ x: 0, y: -5 }) * wheelZoom({ x: 0, y: 5 })).toBeCloseTo(1);
  expect(wheelZoom({ x: 0, y: -1000 })).toBeLessThan(1.3);
});
