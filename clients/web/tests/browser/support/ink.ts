/** Recorded ink: what people drew with other programs, as strokes to draw again in a window. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Point } from "./browser.ts";
import { ROOT } from "./relay.ts";

const FOLDER = join(ROOT, "../shared/data/ink");

/** Whether the recordings are there. */
export const HAS_INK = existsSync(FOLDER);
/** For `test.skipIf(!HAS_INK)(…)`, at the end of the test's name. */
export const WHERE = HAS_INK ? "" : ` (SKIPPED: there is no recorded ink in ${FOLDER})`;

/** One stroke as it was recorded, in the units of its recording. */
export type Recorded = readonly Point[];

/** The strokes of `freehand-inputs.json` that were drawn by hand; the others are edge cases. */
export const BY_HAND = ["hey", "he2", "waves", "corners", "scribble"] as const;

/** The stroke of a file that holds one, such as `freehand-sample`. */
export function recordedStroke(name: "freehand-sample" | "freehand-flash"): Recorded {
  return pointsOf(read(`${name}.json`), name);
}

/** A stroke of `freehand-inputs.json`. */
export function recordedInput(name: string): Recorded {
  const all = read("freehand-inputs.json");
  const found =
    typeof all === "object" && all !== null ? Object.entries(all).find(([key]) => key === name) : undefined;
  if (found === undefined) throw new Error(`there is no stroke ${name}`);
  return pointsOf(found[1], name);
}

/** The strokes of an InkML file: x, y and, where it has one, the pressure from 0 to 1. */
export function recordedInkml(name: "journal" | "onenote-web"): Recorded[] {
  const xml = readFileSync(join(FOLDER, `${name}.inkml`), "utf8");
  const channels = [...xml.matchAll(/<(?:\w+:)?channel ([^>]*)>/g)].map(([, attributes = ""]) => {
    return { name: /name="(\w+)"/.exec(attributes)?.[1], max: Number(/max="([^"]+)"/.exec(attributes)?.[1]) };
  });
  const traces = [...xml.matchAll(/<(?:\w+:)?trace\b[^>]*>([^<]*)</g)].map(([, points = ""]) => points);
  const at = (wanted: string) => channels.findIndex((channel) => channel.name === wanted);
  const [x, y, force] = [at("X"), at("Y"), at("F")];
  const strokes = traces.map((trace) =>
    traceOf(trace).flatMap((values): Point[] => {
      const [px, py, pf] = [values[x], values[y], values[force]];
      if (px === undefined || py === undefined) return [];
      return [pf === undefined ? [px, py] : [px, py, pf / (channels[force]?.max ?? 1)]];
    }),
  );
  return strokes.filter((stroke) => stroke.length > 0);
}

/**
 * The points of a trace, each with its values. A value stands for itself, or after `'` for the difference from the one
 * before, or after `"` for the difference between differences; each holds for its channel until another comes.
 */
function traceOf(text: string): number[][] {
  const channels: { sign: string; value: number; speed: number }[] = [];
  return text.split(",").map((point) =>
    [...point.matchAll(/([!'"]?)\s*(-?\d+(?:\.\d+)?)/g)].map(([, sign = "", written = ""], at) => {
      const before = channels[at] ?? { sign: "!", value: 0, speed: 0 };
      const rule = sign === "" ? before.sign : sign;
      const base = rule === "!" ? 0 : before.value + (rule === '"' ? before.speed : 0);
      const value = base + Number(written);
      channels[at] = { sign: rule, value, speed: value - before.value };
      return value;
    }),
  );
}

/** A part of the window, in CSS pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/**
 * Strokes moved and scaled, all alike, so that together they fill a box. Places are rounded to quarters of a pixel, or
 * to whole pixels for drivers that take no others; a point at the place of the one before it is left out, since
 * browsers tell of no move that leads nowhere.
 */
export function fitted(strokes: readonly Recorded[], box: Box, whole = true): Point[][] {
  const all = strokes.flat();
  const bounds = (values: number[]) => {
    let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return { low, span: Math.max(high - low, 1e-9) };
  };
  const [xs, ys] = [bounds(all.map(([x]) => x)), bounds(all.map(([, y]) => y))];
  const scale = Math.min(box.width / xs.span, box.height / ys.span);
  const grain = whole ? 1 : 4;
  const place = (value: number, low: number, start: number) =>
    Math.round((start + (value - low) * scale) * grain) / grain;
  return strokes.map((stroke) => {
    const points: Point[] = [];
    for (const [x, y, pressure = 0.5] of stroke) {
      const point: Point = [place(x, xs.low, box.x), place(y, ys.low, box.y), pressure];
      const before = points.at(-1);
      if (before?.[0] !== point[0] || before[1] !== point[1]) points.push(point);
    }
    return points;
  });
}

/** Parts of a box, side by side in rows: one for each of so many. */
export function tiles(box: Box, count: number, columns: number): Box[] {
  const rows = Math.ceil(count / columns);
  const [width, height] = [box.width / columns, box.height / rows];
  return Array.from({ length: count }, (_, at) => ({
    x: box.x + (at % columns) * width + width * 0.1,
    y: box.y + Math.floor(at / columns) * height + height * 0.1,
    width: width * 0.8,
    height: height * 0.8,
  }));
}

function read(file: string): unknown {
  return JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
}

/** Points as `[x, y]`, `[x, y, pressure, ms]` or `{x, y}`. */
function pointsOf(value: unknown, name: string): Recorded {
  if (!Array.isArray(value) || value.length === 0) throw new Error(`${name} is no stroke`);
  return value.map((point: unknown): Point => {
    const [x, y, pressure] = Array.isArray(point) ? point : coordinates(point);
    if (typeof x !== "number" || typeof y !== "number") throw new Error(`${name} has a point without place`);
    return typeof pressure === "number" ? [x, y, pressure] : [x, y];
  });
}

function coordinates(point: unknown): unknown[] {
  if (typeof point !== "object" || point === null || !("x" in point && "y" in point)) return [];
  return [point.x, point.y];
}
