/**
 * The outline: what a stroke's points look like as a filled shape.
 *
 * It depends on the stroke's style, channels and points only: never on whether the stroke is whole, who drew it or
 * when its points came. So live ink, finished ink, PNG and SVG all show the same shape, and so do all windows.
 *
 * Points become a spine (smoothed, with a radius that follows pressure or, without that, the pen's speed), and the
 * spine is cut into pieces of bounded length that `perfect-freehand` outlines each: when a stroke grows only its last
 * piece is made anew. All pieces run in the same sense, so that filling them as one path ("nonzero") leaves no seams.
 *
 * All numbers are sixteenths of a board pixel, relative to the stroke's first point: rasterizers count in 32-bit
 * floats, which far out on the board are too coarse for absolute places.
 */
import { getStrokeOutlinePoints, type StrokePoint } from "perfect-freehand";
import { Channel, type Style, Tool } from "../../src/index.ts";
import { type Box, emptyBox } from "./box.ts";

/** Takes an outline. A `Path2D` is one. */
export interface Sink {
  moveTo(x: number, y: number): void;
  quadraticCurveTo(cx: number, cy: number, x: number, y: number): void;
  closePath(): void;
}

/** A part of an outline, closed: x, y of each corner. Rounded off when traced. */
export type Polygon = readonly (readonly [number, number])[];

/** Spine points per piece, and by how many it reaches into those beside it: so far, their sides run alike. */
const PIECE = 256;
const LAP = 3;
/** How far the pen goes, in its own widths, before a line has a direction: a pen trembles while it lands. */
const LANDING = 0.5;
/** How much of a pen's width pressure governs. */
const THINNING = 0.55;
/** How far a spine point goes towards the pen's: for small steps, which may be a tremble, and from the long step on all
 * the way, so that fast ink neither lags nor cuts corners. In sixteenths. */
const FOLLOW = 0.5;
const LONG_STEP = 24 * 16;
/** How fast the width follows pressure, per point. */
const PRESSURE_FOLLOW = 0.45;
/** Without pressure, how fast the width follows the pen's speed, and how much of the width that governs. */
const SPEED_FOLLOW = 0.25;
const SLOW_PRESSURE = 0.62;
const FAST_PRESSURE = 0.12;
/** The step between two points that counts as fast: pen widths and, on top, sixteenths. */
const FAST_WIDTHS = 2;
const FAST_STEP = 16 * 16;
/** Turns sharper than that (a cosine) get their sides marked, or thin lines between far points would be pinched. */
const SHARP = 0.4;
/** How far from the corner, in pen widths: nearer than a third they would be left out as too near to each other. */
const MARK = 0.5;
/** Without pressure, lines begin a little thinner than they go on. */
const FIRST_PRESSURE = 0.45;
/** Thinner ink could not be seen. */
const SIZE_MIN = 8;
/** Corners of a dot. */
const DOT_CORNERS = 24;

/** How many values stand for one point. */
export function stride(channels: number): number {
  return (
    2 +
    (channels & Channel.PRESSURE ? 1 : 0) +
    (channels & Channel.TIME ? 1 : 0) +
    (channels & Channel.TILT ? 2 : 0)
  );
}

/** The largest distance of the outline from the stroke's points, in sixteenths. */
export function reach(style: Style): number {
  const size = Math.max(SIZE_MIN, style.width);
  return style.tool === Tool.HIGHLIGHTER ? size / 2 : size * (0.5 + THINNING / 2);
}

/** One point in front of the pen, guessed. */
export interface Guess {
  readonly x: number;
  readonly y: number;
}

/** One stroke's outline, which grows with it. */
export class Outline {
  readonly #size: number;
  readonly #flat: boolean;
  readonly #pressed: boolean;
  readonly #stride: number;
  readonly #options;
  /** Relative to the first point. The last one may lie behind the pen: {@link tail} goes on to it. */
  readonly #spine: StrokePoint[] = [];
  #points = 0;
  #originX = 0;
  #originY = 0;

  constructor(style: Style, channels: number) {
    this.#size = Math.max(SIZE_MIN, style.width);
    this.#flat = style.tool === Tool.HIGHLIGHTER;
    this.#pressed = (channels & Channel.PRESSURE) !== 0 && !this.#flat;
    this.#stride = stride(channels);
    this.#options = {
      size: this.#size,
      thinning: this.#flat ? 0 : THINNING,
      smoothing: 0.35,
      simulatePressure: false,
      last: true,
    };
  }

  /** Takes in the points up to `count`, as many as are new. */
  grow(values: readonly number[], count: number): void {
    if (this.#points === 0 && count > 0) {
      this.#originX = values[0] ?? 0;
      this.#originY = values[1] ?? 0;
    }
    for (; this.#points < count; this.#points++) {
      const at = this.#points * this.#stride;
      const x = (values[at] ?? 0) - this.#originX;
      const y = (values[at + 1] ?? 0) - this.#originY;
      const next = follow(this.#spine.at(-1), x, y, this.#target(values[at + 2]), this.#size, false);
      // The first point lies at 0, 0.
      const landing = this.#spine.length === 1 && Math.hypot(x, y) < this.#size * LANDING;
      if (next && !landing) {
        append(this.#spine, next, this.#size);
      }
    }
  }

  /** How many pieces will not change any more. */
  get whole(): number {
    // The newest spine point may still move the one before it.
    return Math.max(0, Math.floor((this.#spine.length - 2 - LAP) / PIECE));
  }

  /** The piece of that number, below {@link whole}. */
  piece(number: number): Polygon {
    const from = Math.max(0, number * PIECE - LAP);
    return this.#outlined(this.#spine.slice(from, (number + 1) * PIECE + LAP + 1));
  }

  /** The last piece, right up to the pen, and on to where it is guessed to be next. */
  tail(values: readonly number[], guesses: readonly Guess[] = []): Polygon {
    if (this.#points === 0) {
      return [];
    }
    const spine = this.#spine.slice(Math.max(0, this.whole * PIECE - LAP));
    const at = (this.#points - 1) * this.#stride;
    const pressure = this.#target(values[at + 2]);
    const ends = [{ x: values[at] ?? 0, y: values[at + 1] ?? 0 }, ...guesses];
    for (const end of ends) {
      const x = end.x - this.#originX;
      const y = end.y - this.#originY;
      const tip = follow(spine.at(-1), x, y, pressure, this.#size, true);
      if (tip) {
        const before = spine.at(-1);
        // A tip that turns back within the pen's own width is a tremble, and would end the line in a blob.
        const back = before ? tip.vector[0] * before.vector[0] + tip.vector[1] * before.vector[1] < 0 : false;
        if (!back || tip.distance > this.#size / 4) {
          append(spine, tip, this.#size);
        }
      }
    }
    return this.#outlined(spine);
  }

  /** The pressure that a point's own value asks for: 0 to 1; `null` where speed decides. */
  #target(value: number | undefined): number | null {
    if (this.#flat) {
      return 0.5;
    }
    return this.#pressed ? Math.min(255, Math.max(0, value ?? 128)) / 255 : null;
  }

  #outlined(spine: StrokePoint[]): Polygon {
    const first = spine[0];
    if (!first) {
      return [];
    }
    const last = spine.at(-1);
    if (!last || spine.length === 1) {
      const radius = this.#size * (0.5 - (this.#flat ? 0 : THINNING) * (0.5 - first.pressure));
      return dot(first.point[0], first.point[1], Math.max(radius, SIZE_MIN / 2));
    }
    const corners = getStrokeOutlinePoints(spine, this.#options);
    return corners.every(([x, y]) => Number.isFinite(x) && Number.isFinite(y))
      ? corners
      : dot(last.point[0], last.point[1], this.#size / 2);
  }
}

/** The spine's next point on the way from `previous` to the pen, or nothing where it would be too near. `whole`: right up to the pen. */
function follow(
  previous: StrokePoint | undefined,
  x: number,
  y: number,
  target: number | null,
  size: number,
  whole: boolean,
): StrokePoint | undefined {
  if (!previous) {
    const pressure = target ?? FIRST_PRESSURE;
    return { point: [x, y], pressure, vector: [0, 0], distance: 0, runningLength: 0 };
  }
  const way = Math.hypot(x - previous.point[0], y - previous.point[1]);
  const part = whole ? 1 : FOLLOW + (1 - FOLLOW) * Math.min(1, way / LONG_STEP);
  const dx = (x - previous.point[0]) * part;
  const dy = (y - previous.point[1]) * part;
  const distance = Math.hypot(dx, dy);
  // Steps much shorter than the pen is wide only make it tremble.
  if (distance < (whole ? 0.5 : Math.min(24, Math.max(1, size * 0.06)))) {
    return undefined;
  }
  let pressure = previous.pressure;
  if (target === null) {
    const speed = Math.min(1, distance / (size * FAST_WIDTHS + FAST_STEP));
    const meant = SLOW_PRESSURE + (FAST_PRESSURE - SLOW_PRESSURE) * speed;
    pressure += (meant - pressure) * SPEED_FOLLOW * Math.min(1, (4 * distance) / FAST_STEP);
  } else {
    pressure += (target - pressure) * PRESSURE_FOLLOW;
  }
  return {
    point: [previous.point[0] + dx, previous.point[1] + dy],
    pressure,
    vector: [-dx / distance, -dy / distance],
    distance,
    runningLength: previous.runningLength + distance,
  };
}

/** Puts a point at the end of a spine. Changes nothing before the last two points. */
function append(spine: StrokePoint[], next: StrokePoint, size: number): void {
  const last = spine.at(-1);
  const before = spine.at(-2);
  const mark = size * MARK;
  if (last && !before) {
    // The first point has no way behind it. Its pressure is measured while the pen still lands.
    const pressure = (last.pressure + next.pressure) / 2;
    spine[spine.length - 1] = { ...last, pressure, vector: next.vector };
  } else if (last && before && last.vector[0] * next.vector[0] + last.vector[1] * next.vector[1] < SHARP) {
    if (last.distance > 2.5 * size) {
      const [x, y] = last.vector;
      spine[spine.length - 1] = {
        ...last,
        point: [last.point[0] + x * mark, last.point[1] + y * mark],
        distance: last.distance - mark,
        runningLength: last.runningLength - mark,
      };
      spine.push({ ...last, distance: mark });
    }
    if (next.distance > 2.5 * size) {
      const [x, y] = next.vector;
      spine.push({
        ...next,
        point: [last.point[0] - x * mark, last.point[1] - y * mark],
        distance: mark,
        runningLength: last.runningLength + mark,
      });
      spine.push({ ...next, distance: next.distance - mark });
      return;
    }
  }
  spine.push(next);
}

function dot(x: number, y: number, radius: number): Polygon {
  const corners: [number, number][] = [];
  // Rounding off cuts corners; so they stand out by as much.
  const r = (radius * 2) / (1 + Math.cos(Math.PI / DOT_CORNERS) ** 2);
  for (let corner = 0; corner < DOT_CORNERS; corner++) {
    const angle = (-2 * Math.PI * corner) / DOT_CORNERS;
    corners.push([x + r * Math.cos(angle), y + r * Math.sin(angle)]);
  }
  return corners;
}

/** Draws a polygon with its corners rounded off: from middle to middle of its sides. */
export function trace(polygon: Polygon, sink: Sink, dx = 0, dy = 0, factor = 1): void {
  const first = polygon[0];
  const last = polygon.at(-1);
  if (!first || !last || polygon.length < 3) {
    return;
  }
  sink.moveTo(((last[0] + first[0]) / 2 + dx) * factor, ((last[1] + first[1]) / 2 + dy) * factor);
  let corner = first;
  for (let i = 1; i <= polygon.length; i++) {
    const next = polygon[i] ?? first;
    sink.quadraticCurveTo(
      (corner[0] + dx) * factor,
      (corner[1] + dy) * factor,
      ((corner[0] + next[0]) / 2 + dx) * factor,
      ((corner[1] + next[1]) / 2 + dy) * factor,
    );
    corner = next;
  }
  sink.closePath();
}

/** The box around a polygon, in its own units. */
export function around(polygon: Polygon): Box {
  const box = emptyBox();
  for (const [x, y] of polygon) {
    box.x0 = Math.min(box.x0, x);
    box.y0 = Math.min(box.y0, y);
    box.x1 = Math.max(box.x1, x);
    box.y1 = Math.max(box.y1, y);
  }
  return box;
}
