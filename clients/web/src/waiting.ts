/** What waits for the store as people count it: a stroke is one change, however many draws it is made of. */
import type { Draw } from "./draw.ts";

/** Counts as draws come and go, in constant time; what it holds is bounded by the draws that wait. */
export class Waiting {
  /** Per own stroke, how many of its draws wait. */
  readonly #strokes = new Map<number, number>();
  /** Draws that are no part of an own stroke. */
  #others = 0;

  /** Strokes of which something waits, and other draws that wait. */
  get changes(): number {
    return this.#strokes.size + this.#others;
  }

  add(draw: Draw): void {
    this.#count(draw, 1);
  }

  /** One that was added leaves; an extend that became a begin of the same stroke is still the same. */
  remove(draw: Draw): void {
    this.#count(draw, -1);
  }

  clear(): void {
    this.#strokes.clear();
    this.#others = 0;
  }

  #count(draw: Draw, by: 1 | -1): void {
    if (draw.kind !== "begin" && draw.kind !== "extend") {
      this.#others += by;
      return;
    }
    const draws = (this.#strokes.get(draw.stroke) ?? 0) + by;
    if (draws > 0) this.#strokes.set(draw.stroke, draws);
    else this.#strokes.delete(draw.stroke);
  }
}
