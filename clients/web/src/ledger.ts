/**
 * The ledger: the strokes, erases, clears and revokes of a log so far, and which strokes show (SPEC.md, B-1 to B-20).
 *
 * Applying a draw costs what its own points cost. What shows is worked out when it is asked for: in one pass over the
 * operations if any came, since a chain of revokes that each revoke the one before would cost the square of its length
 * if it were kept up to date; and else only for the strokes that are new.
 *
 * Newest draws can be taken back again, which is how one's own draws stay on top of a log that still grows below them.
 */
import type { Draw, LogRecord, StrokeName } from "./draw.ts";
import { Channel } from "./draw.ts";
import { COORDINATE_MAX } from "./limits.ts";
import { valuesPerPoint } from "./record.ts";
import { type Change, Stroke } from "./stroke.ts";

/** A stroke with what the ledger needs to know of it. */
export interface Line {
  readonly stroke: Stroke;
  /** Whether listeners were told that it shows. */
  shown: boolean;
  /** The newest pass that found it erased. */
  erasedIn: number;
}

/** What can be revoked. Names are resolved when the draw is applied: only what stood before it counts. */
type Operation =
  | { readonly kind: "erase"; readonly lines: readonly Line[]; revokedIn: number }
  /** Hides that many lines from the front. */
  | { readonly kind: "clear"; readonly lines: number; revokedIn: number }
  | { readonly kind: "revoke"; readonly operations: readonly Operation[]; revokedIn: number };

/** How to take a draw back. */
export type Undo =
  | { readonly kind: "begin"; readonly line: Line }
  | { readonly kind: "extend"; readonly line: Line; readonly length: number }
  | { readonly kind: "operation"; readonly author: number; readonly n: number };

export class Ledger {
  /** All strokes, shown or not, in the order of their begins. */
  private readonly lines: Line[] = [];
  private readonly lineIndex = new Names<Line>();
  private readonly operations: Operation[] = [];
  private readonly operationIndex = new Names<Operation>();
  /** By author, the largest `n` of its records. */
  private readonly newest = new Map<number, number>();

  private pass = 0;
  private operationsChanged = false;
  /** What happened since the last {@link settle}. */
  private readonly begun = new Set<Line>();
  private readonly grown = new Set<Line>();
  private readonly removed = new Set<Line>();

  /**
   * Takes the next record of the log. One that cannot have its effect changes nothing.
   * @param reuse the line that this record's begin made when it was not yet in the log; it has been taken back
   */
  record({ author, n, at, draw }: LogRecord, reuse?: Line): void {
    this.passed(author, n);
    if (draw) this.apply(author, n, at, draw, reuse);
  }

  /** Notes that the log has a record. */
  passed(author: number, n: number): void {
    if (n > this.newestOf(author)) this.newest.set(author, n);
  }

  /** The largest `n` that the log has of an author; 0 for none. */
  newestOf(author: number): number {
    return this.newest.get(author) ?? 0;
  }

  /**
   * Takes a draw that the log may lack yet.
   * @param at `null` while the log lacks it
   * @returns how to take it back; `null` when it changed nothing
   */
  apply(author: number, n: number, at: number | null, draw: Draw, reuse?: Line): Undo | null {
    switch (draw.kind) {
      case "begin":
        return this.begin(author, n, at, draw, reuse);
      case "extend":
        return this.extend(author, draw);
      case "erase": {
        const lines = draw.strokes.flatMap(([of, stroke]) => this.lineIndex.get(of, stroke) ?? []);
        return this.operate(author, n, { kind: "erase", lines, revokedIn: 0 });
      }
      case "revoke": {
        const operations = draw.draws.flatMap(([of, which]) => this.operationIndex.get(of, which) ?? []);
        return this.operate(author, n, { kind: "revoke", operations, revokedIn: 0 });
      }
      case "clear":
        return this.operate(author, n, { kind: "clear", lines: this.lines.length, revokedIn: 0 });
      case "opaque":
      case "unknown":
        return null;
    }
  }

  /** Takes the newest draw back. What is taken back in the wrong order leaves the ledger in disorder. */
  takeBack(undo: Undo): void {
    switch (undo.kind) {
      case "begin": {
        const { stroke } = undo.line;
        this.lines.pop();
        this.lineIndex.delete(stroke.author, stroke.number, undo.line);
        this.begun.delete(undo.line);
        this.removed.add(undo.line);
        break;
      }
      case "extend":
        undo.line.stroke.values.length = undo.length;
        undo.line.stroke.closed = false;
        this.grown.add(undo.line);
        break;
      case "operation": {
        const operation = this.operations.pop();
        if (operation) this.operationIndex.delete(undo.author, undo.n, operation);
        this.operationsChanged = true;
      }
    }
  }

  /** Whether that very line is here, shown or not. */
  holds({ stroke }: Line): boolean {
    return this.lineIndex.get(stroke.author, stroke.number)?.stroke === stroke;
  }

  /** The strokes that show, in the order of their begins. Settle first. */
  strokes(): Stroke[] {
    const strokes: Stroke[] = [];
    for (const line of this.lines) if (line.shown) strokes.push(line.stroke);
    return strokes;
  }

  /** The stroke of that name if it shows. Settle first. */
  find([author, number]: StrokeName): Stroke | undefined {
    const line = this.lineIndex.get(author, number);
    return line?.shown ? line.stroke : undefined;
  }

  /** Says that a line is as it was when {@link settle} last told of it, though it was taken back and came again. */
  unchanged(line: Line): void {
    this.grown.delete(line);
  }

  /** Says that a line's points or end may have changed. */
  changed(line: Line): void {
    this.grown.add(line);
  }

  /** Works out what shows, and how that differs from the last time; `null` when it does not. */
  settle(): Change | null {
    const appeared: Line[] = [];
    const vanished: Line[] = [];
    for (const line of this.removed) {
      if (line.shown && !this.begun.has(line)) vanished.push(line);
    }
    for (const line of vanished) line.shown = false;
    if (this.operationsChanged) this.compare(appeared, vanished);
    else for (const line of this.begun) if (!line.shown) appeared.push(line);
    for (const line of appeared) line.shown = true;
    const isNew = new Set(appeared);
    const grown = [...this.grown].filter((line) => line.shown && !isNew.has(line));
    this.operationsChanged = false;
    for (const set of [this.begun, this.grown, this.removed]) set.clear();
    if (appeared.length + grown.length + vanished.length === 0) return null;
    const strokes = (lines: readonly Line[]) => lines.map((line) => line.stroke);
    return { reset: false, appeared: strokes(appeared), grown: strokes(grown), vanished: strokes(vanished) };
  }

  private compare(appeared: Line[], vanished: Line[]): void {
    this.pass += 1;
    const { pass, lines } = this;
    let cleared = 0;
    // A revoke names earlier operations only, so from the end on each is settled when its turn comes.
    for (let place = this.operations.length - 1; place >= 0; place -= 1) {
      const operation = this.operations[place];
      if (!operation || operation.revokedIn === pass) continue;
      if (operation.kind === "erase") for (const line of operation.lines) line.erasedIn = pass;
      else if (operation.kind === "clear") cleared = Math.max(cleared, operation.lines);
      else for (const revoked of operation.operations) revoked.revokedIn = pass;
    }
    lines.forEach((line, place) => {
      const shows = place >= cleared && line.erasedIn !== pass;
      if (shows === line.shown) return;
      if (shows) appeared.push(line);
      else vanished.push(line);
      line.shown = shows;
    });
  }

  private begin(
    author: number,
    n: number,
    at: number | null,
    draw: Draw & { readonly kind: "begin" },
    reuse: Line | undefined,
  ): Undo | null {
    // The door takes no other from the anonymous author. So none of its strokes is ever open.
    if (author === 0 && !(draw.stroke === 0 && draw.end)) return null;
    const number = author === 0 ? n : draw.stroke;
    if (this.lineIndex.get(author, number)) return null;
    const line = reuse ?? newLine(new Stroke(author, number, draw.style, draw.channels, at, 0));
    const { stroke } = line;
    stroke.values.length = 0;
    line.erasedIn = 0;
    if (!pushPoints(stroke, draw.points)) return null;
    stroke.author = author;
    stroke.at = at;
    stroke.closed = draw.end;
    stroke.order = this.lines.length;
    this.lines.push(line);
    this.lineIndex.set(author, number, line);
    this.begun.add(line);
    return { kind: "begin", line };
  }

  private extend(author: number, draw: Draw & { readonly kind: "extend" }): Undo | null {
    const line = this.lineIndex.get(author, draw.stroke);
    if (!line || line.stroke.closed) return null;
    const { length } = line.stroke.values;
    if (!pushPoints(line.stroke, draw.points)) return null;
    line.stroke.closed = draw.end;
    this.grown.add(line);
    return { kind: "extend", line, length };
  }

  private operate(author: number, n: number, operation: Operation): Undo {
    this.operations.push(operation);
    // Of two with the same author and `n`, which no store of ours makes, a revoke means the first.
    if (!this.operationIndex.get(author, n)) this.operationIndex.set(author, n, operation);
    this.operationsChanged = true;
    return { kind: "operation", author, n };
  }
}

function newLine(stroke: Stroke): Line {
  return { stroke, shown: false, erasedIn: 0 };
}

/** Turns differences into coordinates and keeps them all, or none and returns `false`. */
function pushPoints(stroke: Stroke, points: readonly number[]): boolean {
  const { values, channels } = stroke;
  const size = valuesPerPoint(channels);
  if (points.length % size !== 0) return false;
  const hasPressure = (channels & Channel.PRESSURE) !== 0;
  const before = values.length;
  let x = values[before - size] ?? 0;
  let y = values[before - size + 1] ?? 0;
  for (let at = 0; at < points.length; at += size) {
    x += points[at] ?? 0;
    y += points[at + 1] ?? 0;
    if (Math.abs(x) > COORDINATE_MAX || Math.abs(y) > COORDINATE_MAX) {
      values.length = before;
      return false;
    }
    values.push(x, y);
    for (let channel = 2; channel < size; channel += 1) {
      const value = points[at + channel] ?? 0;
      values.push(hasPressure && channel === 2 ? Math.min(Math.max(value, 0), 255) : value);
    }
  }
  return true;
}

/** Values by author and number. Two maps, since a key of one map would have to be a string made for every look-up. */
class Names<Value> {
  private readonly authors = new Map<number, Map<number, Value>>();

  get(author: number, number: number): Value | undefined {
    return this.authors.get(author)?.get(number);
  }

  set(author: number, number: number, value: Value): void {
    const numbers = this.authors.get(author);
    if (numbers) numbers.set(number, value);
    else this.authors.set(author, new Map([[number, value]]));
  }

  /** Only where that very value stands. */
  delete(author: number, number: number, value: Value): void {
    const numbers = this.authors.get(author);
    if (numbers?.get(number) === value) numbers.delete(number);
  }
}
