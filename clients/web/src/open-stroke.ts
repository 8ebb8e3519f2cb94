/** An open stroke: one of one's own that has no end yet, and where its pen is. */
import type { Draw, Style } from "./draw.ts";
import { valuesPerPoint } from "./record.ts";

type Begin = Extract<Draw, { kind: "begin" }>;
type Extend = Extract<Draw, { kind: "extend" }>;

/** What it takes to go on with a stroke: what it is drawn with, and its last point, absolute. */
export interface PenState {
  readonly style: Style;
  readonly channels: number;
  readonly x: number;
  readonly y: number;
}

/** See the module. `era` counts client ids: the one under which it was begun. */
export interface OpenStroke {
  readonly pen: PenState;
  readonly era: number;
}

/** Where the pen is after a begin. */
export function penAfterBegin(draw: Begin): PenState {
  const { style, channels } = draw;
  return moved({ style, channels, x: 0, y: 0 }, draw.points);
}

/** Where the pen is after an extend. */
export function penAfterExtend(draw: Extend, pen: PenState): PenState {
  return moved(pen, draw.points);
}

function moved(pen: PenState, points: readonly number[]): PenState {
  let { x, y } = pen;
  for (let at = 0; at < points.length; at += valuesPerPoint(pen.channels)) {
    x += points[at] ?? 0;
    y += points[at + 1] ?? 0;
  }
  return { ...pen, x, y };
}

/** Makes the extend a stroke of its own that begins where the pen was: its author has a new client id. */
export function beginAnew(draw: Extend, pen: PenState): Begin {
  const [dx = 0, dy = 0, ...rest] = draw.points;
  // A begin needs a point, and an end that came alone has none: the pen's own, with nothing on its channels.
  const others = draw.points.length > 0 ? rest : Array<number>(valuesPerPoint(pen.channels) - 2).fill(0);
  const points = [pen.x + dx, pen.y + dy, ...others];
  return {
    kind: "begin",
    stroke: draw.stroke,
    style: pen.style,
    channels: pen.channels,
    points,
    end: draw.end,
  };
}
