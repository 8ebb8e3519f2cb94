/** The eraser: which strokes lie under its way. Pure. */
import type { Stroke } from "../../src/index.ts";
import { type Box, padded } from "./box.ts";
import type { Point } from "./camera.ts";
import { reach, stride } from "./outline.ts";

/** The box within which a stroke can be hit on the way from one point to another, in board pixels. */
export function wayBox(from: Point, to: Point, radius: number): Box {
  return padded(
    {
      x0: Math.min(from.x, to.x),
      y0: Math.min(from.y, to.y),
      x1: Math.max(from.x, to.x),
      y1: Math.max(from.y, to.y),
    },
    radius,
  );
}

/** Whether a round eraser that goes from one point to another touches a stroke. All in board pixels. */
export function hits(stroke: Stroke, from: Point, to: Point, radius: number): boolean {
  const { values } = stroke;
  const step = stride(stroke.channels);
  const near = radius + Math.min(stroke.style.width / 2, reach(stroke.style)) / 16;
  const a = { x: (values[0] ?? NaN) / 16, y: (values[1] ?? NaN) / 16 };
  if (values.length < 2 * step) {
    return fromSegment(a, from, to) <= near;
  }
  for (let at = step; at + step <= values.length; at += step) {
    const b = { x: (values[at] ?? NaN) / 16, y: (values[at + 1] ?? NaN) / 16 };
    if (apart(a, b, from, to) <= near) {
      return true;
    }
    a.x = b.x;
    a.y = b.y;
  }
  return false;
}

/** How far two segments are from each other. */
function apart(a: Point, b: Point, c: Point, d: Point): number {
  if (crosses(a, b, c, d)) {
    return 0;
  }
  return Math.min(fromSegment(a, c, d), fromSegment(b, c, d), fromSegment(c, a, b), fromSegment(d, a, b));
}

function crosses(a: Point, b: Point, c: Point, d: Point): boolean {
  return side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
}

function side(a: Point, b: Point, p: Point): number {
  return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
}

function fromSegment(p: Point, a: Point, b: Point): number {
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.min(1, Math.max(0, ((p.x - a.x) * dx + (p.y - a.y) * dy) / length));
  return Math.hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}
