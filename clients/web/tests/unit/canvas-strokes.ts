/** Strokes made by hand, and a picture of them. */
import type { Change, Picture, Stroke, StrokeName } from "../../src/index.ts";

/** Places in board pixels; what is not named is a black pen of 4 pixels, without channels, whole. */
export function stroke(points: readonly (readonly [number, number])[], more: Partial<Stroke> = {}): Stroke {
  return {
    author: 1,
    number: 1,
    style: { tool: 0, rgba: 0x000000ff, width: 64 },
    channels: 0,
    at: 0,
    order: 1,
    closed: true,
    values: points.flatMap(([x, y]) => [Math.round(x * 16), Math.round(y * 16)]),
    ...more,
  };
}

/** A picture that changes when it is told to. */
export class HandPicture implements Picture {
  all: Stroke[] = [];
  #listener: ((change: Change) => void) | null = null;

  strokes(): readonly Stroke[] {
    return this.all;
  }
  find([author, number]: StrokeName): Stroke | undefined {
    return this.all.find((each) => each.author === author && each.number === number);
  }
  subscribe(listener: (change: Change) => void): () => void {
    this.#listener = listener;
    return () => {
      this.#listener = null;
    };
  }
  tell(change: Partial<Change>): void {
    this.#listener?.({ reset: false, appeared: [], grown: [], vanished: [], ...change });
  }
  get watched(): boolean {
    return this.#listener !== null;
  }
}
