/** A stroke, and what a canvas hears of strokes: pictures and their changes. */
import type { StrokeName, Style } from "./draw.ts";
import { callAll } from "./emitter.ts";

/** One stroke. The same object from its begin to its end; only its points, `closed`, `order` and `author` change. */
export class Stroke {
  /** Who drew it; {@link SELF} for one's own before the server said who that is. */
  author: number;
  /** The author's own number for it; for the anonymous author, the `n` of its record. */
  readonly number: number;
  readonly style: Style;
  readonly channels: number;
  /** Server's time of its begin, in ms since 1970; `null` while the log does not have it. */
  at: number | null;
  /** Strokes are painted in this order. It never changes for two strokes that both are on the board. */
  order: number;
  /** Whether it is whole, so that no more points can follow. */
  closed = false;
  /** Flat: x, y and the channels' values of each point; absolute; sixteenths of a CSS pixel. */
  readonly values: number[] = [];

  /** @internal */
  constructor(
    author: number,
    number: number,
    style: Style,
    channels: number,
    at: number | null,
    order: number,
  ) {
    this.author = author;
    this.number = number;
    this.style = style;
    this.channels = channels;
    this.at = at;
    this.order = order;
  }
}

/** Stands for oneself where a client id is wanted, also before the server has handed one out. */
export const SELF = -1;

/** What became of the picture since the last change. A stroke may stand in several lists. */
export interface Change {
  /** Forget the whole picture; what shows now stands in `appeared`. */
  readonly reset: boolean;
  /** New, or shown again. Not always on top: compare `order`. */
  readonly appeared: readonly Stroke[];
  /** Has more points, or was closed, or (a draw of one's own was refused) fewer points. */
  readonly grown: readonly Stroke[];
  /** Erased, cleared or undone. */
  readonly vanished: readonly Stroke[];
}

/** What a canvas shows: a board that tells of its changes. */
export interface Picture {
  /** The strokes that show, in the order in which to paint them. */
  strokes(): readonly Stroke[];
  /** The stroke of that name if it shows. */
  find(name: StrokeName): Stroke | undefined;
  /** Calls back after every change, at most once per batch of records. Returns how to end that. */
  subscribe(listener: (change: Change) => void): () => void;
}

/** Who wants to hear of changes. */
export class Listeners {
  private readonly listeners = new Set<(change: Change) => void>();

  add(listener: (change: Change) => void): () => void {
    // A function of its own each time, so that who subscribes twice also hears twice.
    const own = (change: Change) => listener(change);
    this.listeners.add(own);
    return () => {
      this.listeners.delete(own);
    };
  }

  tell(change: Change): void {
    callAll(this.listeners, change);
  }
}
