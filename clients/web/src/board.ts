/**
 * The board: what a log looks like when drawn. A total function of the log, so that every reader that applied the
 * same records in the same order sees the same strokes (SPEC.md, B-1 to B-20).
 */
import type { LogRecord, StrokeName, Style } from "./draw.ts";

/** One stroke. The same object from its begin to its end; only its points, `closed`, `order` and `author` change. */
export class Stroke {
  /** @internal */
  constructor(
    /** Who drew it; {@link SELF} for one's own before the server said who that is. */
    public author: number,
    /** The author's own number for it; for the anonymous author, the `n` of its record. */
    readonly number: number,
    readonly style: Style,
    readonly channels: number,
    /** Server's time of its begin, in ms since 1970; `null` while the log does not have it. */
    public at: number | null,
    /** Strokes are painted in this order. It never changes for two strokes that both are on the board. */
    public order: number,
  ) {}
  /** Whether it is whole, so that no more points can follow. */
  closed = false;
  /** Flat: x, y and the channels' values of each point; absolute; sixteenths of a CSS pixel. */
  readonly values: number[] = [];
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

/** The strict twin of the Rust board: apply records in order, then ask for the strokes. */
export declare class Board {
  apply(record: LogRecord): void;
  strokes(): Stroke[];
  reset(): void;
}
