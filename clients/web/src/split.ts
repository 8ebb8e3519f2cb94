/** Splitting: points of a stroke that are too many for one draw go as several draws that come to the same. */
import type { Draw } from "./draw.ts";
import { valuesPerPoint } from "./record.ts";

/** A draw that holds points of a stroke. */
export type Points = Extract<Draw, { kind: "begin" | "extend" }>;

/**
 * The draw, or in halves of halves what it takes until each fits; one point that does not fit stays as it is.
 * @param channels of the stroke, for an extend
 */
export function split(draw: Points, channels: number, fits: (part: Points) => boolean): readonly Points[] {
  const { stroke, points, end } = draw;
  const carried = draw.kind === "begin" ? draw.channels : channels;
  const each = valuesPerPoint(carried);
  const count = Math.floor(points.length / each);
  if (count < 2 || fits(draw)) return [draw];
  const middle = Math.ceil(count / 2) * each;
  const head: Points = { ...draw, points: points.slice(0, middle), end: false };
  const tail: Points = { kind: "extend", stroke, points: points.slice(middle), end };
  return [head, tail].flatMap((half) => split(half, carried, fits));
}
