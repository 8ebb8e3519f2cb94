/** Strokes of one's own: their numbers, which of them are begun in the outbox, and where the pen is in the open ones. */
import type { Draw, Style } from "./draw.ts";
import { valuesPerPoint } from "./record.ts";

type Begin = Extract<Draw, { kind: "begin" }>;
type Extend = Extract<Draw, { kind: "extend" }>;

/** Strokes that are being drawn at once at most; of more the oldest can no longer be extended. */
const OPEN_MAX = 1024;

/** What it takes to go on with a stroke: what it is drawn with, and its last point, absolute. */
export interface PenState {
  readonly style: Style;
  readonly channels: number;
  readonly x: number;
  readonly y: number;
}

/** A draw as it has to be sent; of an extend, where the pen was before it. */
export interface Meant<D extends Draw = Draw> {
  readonly draw: D;
  readonly pen: PenState | null;
}

/**
 * A client id may change in mid-stroke, and under the new one nothing is begun yet. The next extend then becomes a begin
 * of the same stroke number, where the pen was: on the board the stroke goes on as a second one.
 */
export class OwnStrokes {
  /** The number of the next stroke. */
  next = 1;
  readonly #begun = new Set<number>();
  /** Strokes without an end, as of the newest draw; `era` tells under which client id they were begun. */
  readonly #open = new Map<number, { readonly pen: PenState; readonly era: number }>();
  /** Counts the client ids. */
  #era = 0;

  /** Whether its begin is in the outbox. */
  isBegun(stroke: number): boolean {
    return this.#begun.has(stroke);
  }

  /** `null`: the stroke is closed, refused or was never begun. */
  meant(draw: Extend): Meant<Begin | Extend> | null {
    const open = this.#open.get(draw.stroke);
    if (!open) return null;
    return open.era === this.#era ? { draw, pen: open.pen } : { draw: beginAnew(draw, open.pen), pen: null };
  }

  /** That draw is in the outbox now. */
  follow({ draw, pen }: Meant): void {
    if (draw.kind === "begin") {
      this.next = Math.max(this.next, draw.stroke + 1);
      this.#begun.add(draw.stroke);
      const { style, channels } = draw;
      this.#move(draw, { style, channels, x: 0, y: 0 });
    } else if (draw.kind === "extend" && pen !== null) {
      this.#move(draw, pen);
    }
  }

  #move({ stroke, points, end }: Begin | Extend, pen: PenState): void {
    this.#open.delete(stroke);
    if (end) return;
    let { x, y } = pen;
    for (let at = 0; at < points.length; at += valuesPerPoint(pen.channels)) {
      x += points[at] ?? 0;
      y += points[at + 1] ?? 0;
    }
    this.#open.set(stroke, { pen: { ...pen, x, y }, era: this.#era });
    if (this.#open.size <= OPEN_MAX) return;
    const [oldest] = this.#open.keys();
    if (oldest !== undefined) this.#open.delete(oldest);
  }

  /** Points of it are missing, so that later ones would stand in the wrong place: it cannot go on. */
  breakOff(stroke: number): void {
    this.#open.delete(stroke);
  }

  /** Its begin left the outbox. */
  forget(stroke: number): void {
    this.#begun.delete(stroke);
  }

  /** The client id changed. Then tell of each draw that waits, in order, by {@link OwnStrokes.carryOver}. */
  startEra(): void {
    this.#era += 1;
    this.#begun.clear();
  }

  /** A draw that goes under the new client id; returns what has to take its place, if something has. */
  carryOver({ draw, pen }: Meant): Begin | null {
    if (draw.kind !== "begin" && draw.kind !== "extend") return null;
    const isFirst = !this.#begun.has(draw.stroke);
    this.#begun.add(draw.stroke);
    const open = this.#open.get(draw.stroke);
    if (open) this.#open.set(draw.stroke, { pen: open.pen, era: this.#era });
    return isFirst && draw.kind === "extend" && pen ? beginAnew(draw, pen) : null;
  }
}

function beginAnew(draw: Extend, pen: PenState): Begin {
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
