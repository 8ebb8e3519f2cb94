/** A box: a rectangle along the axes. */

/** In board pixels unless said otherwise; empty where x0 > x1. */
export interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export function emptyBox(): Box {
  return { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
}

export function isEmpty(box: Box): boolean {
  return box.x0 > box.x1 || box.y0 > box.y1;
}

export function touches(a: Box, b: Box): boolean {
  return a.x0 <= b.x1 && b.x0 <= a.x1 && a.y0 <= b.y1 && b.y0 <= a.y1;
}

/** Whether all of `inner` lies within `box`. */
export function holds(box: Box, inner: Box): boolean {
  return box.x0 <= inner.x0 && box.y0 <= inner.y0 && inner.x1 <= box.x1 && inner.y1 <= box.y1;
}

/** Widens `box` until it holds `other` too. */
export function include(box: Box, other: Box): void {
  box.x0 = Math.min(box.x0, other.x0);
  box.y0 = Math.min(box.y0, other.y0);
  box.x1 = Math.max(box.x1, other.x1);
  box.y1 = Math.max(box.y1, other.y1);
}

export function padded(box: Box, by: number): Box {
  return { x0: box.x0 - by, y0: box.y0 - by, x1: box.x1 + by, y1: box.y1 + by };
}
