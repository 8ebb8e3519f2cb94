/**
 * Early ink: what is drawn before there is a board to draw on, because the page has just been opened. It shows like
 * any ink, and is handed over, stroke by stroke, as soon as there is someone to take it. So it is added to the board
 * and never replaces what is there.
 */
import {
  type Change,
  type Picture,
  SELF,
  type Stroke,
  type StrokeName,
  type Style,
} from "../../src/index.ts";
import { stride } from "./outline.ts";
import type { Hand } from "./stage.ts";

/** Strokes that wait; those beyond are not taken: nobody draws as many before a page is there. */
const STROKES_MAX = 1000;

interface Early {
  readonly stroke: Stroke;
  /** As they go to the wire: the first point absolute, then differences. */
  readonly points: number[];
}

export class EarlyInk implements Hand, Picture {
  readonly #strokes = new Map<number, Early>();
  readonly #listeners = new Set<(change: Change) => void>();
  #next = 1;

  begin(style: Style, channels: number, points: readonly number[]): number {
    const number = this.#next++;
    if (this.#strokes.size < STROKES_MAX) {
      const stroke: Stroke = {
        author: SELF,
        number,
        style,
        channels,
        at: null,
        order: number,
        closed: false,
        values: [],
      };
      this.#strokes.set(number, { stroke, points: [] });
      this.#append(number, points);
      this.#tell({ appeared: [stroke] });
    }
    return number;
  }

  extend(number: number, points: readonly number[], end = false): void {
    const early = this.#strokes.get(number);
    if (early) {
      this.#append(number, points);
      early.stroke.closed ||= end;
      this.#tell({ grown: [early.stroke] });
    }
  }

  cancel(number: number): void {
    const early = this.#strokes.get(number);
    if (early) {
      this.#strokes.delete(number);
      this.#tell({ vanished: [early.stroke] });
    }
  }

  erase(strokes: readonly StrokeName[]): void {
    for (const [, number] of strokes) {
      this.cancel(number);
    }
  }

  beginGroup(): void {}
  endGroup(): void {}
  pointer(): void {}

  strokes(): readonly Stroke[] {
    return [...this.#strokes.values()].map((early) => early.stroke);
  }

  find([, number]: StrokeName): Stroke | undefined {
    return this.#strokes.get(number)?.stroke;
  }

  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Hands everything over; returns the new number of each stroke that is still being drawn. */
  handOver(hand: Hand): Map<number, number> {
    const open = new Map<number, number>();
    for (const [number, { stroke, points }] of this.#strokes) {
      const taken = hand.begin(stroke.style, stroke.channels, points);
      if (stroke.closed) {
        hand.extend(taken, [], true);
      } else {
        open.set(number, taken);
      }
    }
    this.#strokes.clear();
    return open;
  }

  #append(number: number, points: readonly number[]): void {
    const early = this.#strokes.get(number);
    if (!early) {
      return;
    }
    const { values, channels } = early.stroke;
    const step = stride(channels);
    for (let at = 0; at < points.length; at++) {
      const place = values.length % step;
      const before = place < 2 ? (values[values.length - step] ?? 0) : 0;
      values.push((points[at] ?? 0) + before);
    }
    early.points.push(...points);
  }

  #tell(change: Partial<Change>): void {
    for (const listener of this.#listeners) {
      listener({ reset: false, appeared: [], grown: [], vanished: [], ...change });
    }
  }
}
