/** Names: what others call the strokes and draws of one's own that have left the outbox. */
import type { DrawName, StrokeName } from "./draw.ts";

/** Ranges of each kind at most; beyond it the oldest are forgotten. A range ends where a draw was refused or the client id changed. */
export const RANGES_MAX = 1024;

/** Draws `from` to `through` have numbers `n`, `n` + 1… of that client. */
interface DrawRange {
  readonly from: number;
  through: number;
  readonly client: number;
  readonly n: number;
}

/** Strokes `from` to `through` were begun as that client. */
interface StrokeRange {
  readonly from: number;
  through: number;
  readonly client: number;
}

/** What is saved of them. */
export interface NamesState {
  readonly draws: readonly Readonly<DrawRange>[];
  readonly strokes: readonly Readonly<StrokeRange>[];
}

/**
 * Ranges, since a client's draws and strokes are numbered in one go until something unusual happens: a day of drawing
 * is a handful of them. Strokes keep their numbers when the client id changes; that tells which id a stroke has.
 */
export class Names {
  readonly #draws: DrawRange[];
  readonly #strokes: StrokeRange[];

  constructor(saved?: NamesState) {
    this.#draws = (saved?.draws ?? []).map((range) => ({ ...range }));
    this.#strokes = (saved?.strokes ?? []).map((range) => ({ ...range }));
  }

  addDraw(id: number, client: number, n: number): void {
    const last = this.#draws.at(-1);
    const follows =
      last !== undefined &&
      last.client === client &&
      last.through + 1 === id &&
      last.n + id - last.from === n;
    if (follows) last.through = id;
    else this.#draws.push({ from: id, through: id, client, n });
    if (this.#draws.length > RANGES_MAX) this.#draws.shift();
  }

  addStroke(stroke: number, client: number): void {
    const last = this.#strokes.at(-1);
    if (last?.client === client && last.through + 1 === stroke) last.through = stroke;
    else this.#strokes.push({ from: stroke, through: stroke, client });
    if (this.#strokes.length > RANGES_MAX) this.#strokes.shift();
  }

  ofDraw(id: number): DrawName | null {
    const range = this.#draws.findLast(({ from, through }) => from <= id && id <= through);
    return range ? [range.client, range.n + id - range.from] : null;
  }

  ofStroke(stroke: number): StrokeName[] {
    const ranges = this.#strokes.filter(({ from, through }) => from <= stroke && stroke <= through);
    return ranges.map(({ client }) => [client, stroke]);
  }

  state(): NamesState {
    return {
      draws: this.#draws.map((range) => ({ ...range })),
      strokes: this.#strokes.map((range) => ({ ...range })),
    };
  }
}
