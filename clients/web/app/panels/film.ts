/**
 * The film: a log that can be wound to any record, forward and backward. Every record's effect is worked out once, as
 * changes that can be undone; so that going back costs as much as going forward, and no board is ever rebuilt.
 */
import {
  Board,
  type Change,
  type LogRecord,
  type Picture,
  type Stroke,
  type StrokeName,
} from "../../src/index.ts";

/** A hidden stroke has this many values. */
const HIDDEN = -1;
/** Numbers per effect: which stroke, and how long it was before and is after. */
const EFFECT = 3;

/** A stroke of the film, and the whole one that it grows to. */
interface Part {
  readonly whole: Stroke;
  readonly shown: Stroke;
  /** How many values show at the film's place; {@link HIDDEN}: none, it is not on the board. */
  length: number;
}

/** A log as a picture that changes with its place. */
export class Film implements Picture {
  readonly #board = new Board();
  readonly #parts: Part[] = [];
  readonly #indexOf = new Map<Stroke, number>();
  /** Where each record's effects begin in {@link #effects}, and behind the last one where they end. */
  readonly #starts: number[] = [0];
  readonly #effects: number[] = [];
  /** How many values of each stroke show after the last record that was added. */
  readonly #lengths: number[] = [];
  readonly #listeners = new Set<(change: Change) => void>();
  #place = 0;

  /** How many records it has. */
  get length(): number {
    return this.#starts.length - 1;
  }

  /** How many of them are shown. */
  get place(): number {
    return this.#place;
  }

  constructor() {
    this.#board.subscribe((change) => {
      for (const stroke of [...change.appeared, ...change.grown, ...change.vanished]) {
        const shows = this.#board.find([stroke.author, stroke.number]) === stroke;
        this.#note(this.#part(stroke), shows ? stroke.values.length : HIDDEN);
      }
    });
  }

  /** Adds the log's next record, behind those it has. */
  add(record: LogRecord): void {
    this.#board.apply(record);
    this.#starts.push(this.#effects.length);
  }

  #part(whole: Stroke): number {
    const known = this.#indexOf.get(whole);
    if (known !== undefined) return known;
    const shown: Stroke = { ...whole, closed: false, values: [] };
    const index = this.#parts.push({ whole, shown, length: HIDDEN }) - 1;
    this.#indexOf.set(whole, index);
    return index;
  }

  #note(index: number, after: number): void {
    const before = this.#lengths[index] ?? HIDDEN;
    if (before === after) return;
    this.#effects.push(index, before, after);
    this.#lengths[index] = after;
  }

  /** Winds to where that many records are shown, and tells what changed. */
  seek(place: number): void {
    const target = Math.max(0, Math.min(this.length, Math.floor(place)));
    const before = new Map<Part, number>();
    const set = (index: number | undefined, length: number | undefined) => {
      const part = this.#parts[index ?? HIDDEN];
      if (part === undefined || length === undefined) return;
      if (!before.has(part)) before.set(part, part.length);
      part.length = length;
    };
    const from = this.#starts[this.#place] ?? 0;
    const to = this.#starts[target] ?? 0;
    for (let i = from; i < to; i += EFFECT) set(this.#effects[i], this.#effects[i + 2]);
    for (let i = from - EFFECT; i >= to; i -= EFFECT) set(this.#effects[i], this.#effects[i + 1]);
    this.#place = target;
    this.#tell(before);
  }

  #tell(before: ReadonlyMap<Part, number>): void {
    const appeared: Stroke[] = [];
    const grown: Stroke[] = [];
    const vanished: Stroke[] = [];
    for (const [part, length] of before) {
      if (part.length === length) continue;
      if (part.length === HIDDEN) {
        vanished.push(part.shown);
        continue;
      }
      cut(part);
      (length === HIDDEN ? appeared : grown).push(part.shown);
    }
    if (appeared.length + grown.length + vanished.length === 0) return;
    appeared.sort((a, b) => a.order - b.order);
    const change: Change = { reset: false, appeared, grown, vanished };
    for (const listener of this.#listeners) listener(change);
  }

  strokes(): readonly Stroke[] {
    return this.#parts
      .filter((part) => part.length !== HIDDEN)
      .map((part) => part.shown)
      .sort((a, b) => a.order - b.order);
  }

  find([author, number]: StrokeName): Stroke | undefined {
    return this.strokes().find((stroke) => stroke.author === author && stroke.number === number);
  }

  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Brings what shows of a stroke to its length. */
function cut({ whole, shown, length }: Part): void {
  if (shown.values.length > length) shown.values.length = length;
  for (let i = shown.values.length; i < length; i++) shown.values.push(whole.values[i] ?? 0);
  shown.closed = whole.closed && length === whole.values.length;
}
