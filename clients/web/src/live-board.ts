/**
 * The live board: the log's strokes, and on top one's own draws that the log lacks yet.
 *
 * At any time it shows what a {@link Board} of the log, followed by one's own pending draws in their order, would show.
 * To get there, pending draws are taken back before the log grows and applied again on top of it. That costs what the
 * pending draws cost, once per batch of records, and is left out for what cannot disturb them: the next own record that
 * comes back, and more points of others. Of a stroke that merely changed from pending to confirmed nobody is told.
 */
import type { Draw, LogRecord, StrokeName, Style } from "./draw.ts";
import { Ledger, type Line, type Undo } from "./ledger.ts";
import { type Change, Listeners, type Picture, SELF, type Stroke } from "./stroke.ts";

/** One of one's own draws, as the outbox holds it. */
export interface OwnDraw {
  /** Names it for as long as the outbox holds it; not its `n`, which changes when an earlier draw is refused. */
  readonly id: number;
  /** The number that the store will know it by. */
  readonly n: number;
  /** In names of strokes and draws, {@link SELF} stands for oneself. */
  readonly draw: Draw;
}

/** A draw that the log lacks. As many as the outbox holds at most. */
interface Pending {
  readonly id: number;
  n: number;
  draw: Draw;
  /** Its stroke, if it is a begin that once had an effect: the same one when it is applied again. */
  line: Line | null;
  /** How to take it back; `null` while it changes nothing. */
  undo: Undo | null;
}

type Pointed = { readonly points: readonly number[]; readonly end: boolean };

/** How a line looked, from the first value that pending draws put there. */
interface Tail {
  readonly from: number;
  readonly values: readonly number[];
  readonly closed: boolean;
}

export class LiveBoard implements Picture {
  private ledger = new Ledger();
  /** The log that a reset builds, while the old one still shows. */
  private next: Ledger | null = null;
  private pending: Pending[] = [];
  private self: number = SELF;
  private readonly listeners = new Listeners();

  strokes(): readonly Stroke[] {
    return this.ledger.strokes();
  }

  find([author, number]: StrokeName): Stroke | undefined {
    return this.ledger.find([this.resolve(author), number]);
  }

  subscribe(listener: (change: Change) => void): () => void {
    return this.listeners.add(listener);
  }

  /** How many of one's own draws the log lacks. */
  get pendingDraws(): number {
    return this.pending.length;
  }

  /** Takes the next records of the log, in order. Those that are one's own are no longer pending. */
  apply(records: readonly LogRecord[]): void {
    const disturbing = records.findIndex((record) => !this.applyBelow(record));
    if (disturbing < 0) this.settle();
    else {
      this.rebase(() => {
        for (const record of records.slice(disturbing)) this.ledger.record(record, this.confirm(record));
      });
    }
  }

  /** Shows a draw of one's own, the newest. Costs only its own points. */
  push({ id, n, draw }: OwnDraw): void {
    const pending: Pending = { id, n, draw, line: null, undo: null };
    this.pending.push(pending);
    this.applyPending(pending);
    this.settle();
  }

  /** That draw was refused and is gone. The pending ones behind it move up by one number. */
  onRefused(id: number): void {
    const place = this.pending.findIndex((pending) => pending.id === id);
    if (place < 0) return;
    this.rebase(() => {
      this.pending.splice(place, 1);
      for (const later of this.pending.slice(place)) later.n -= 1;
    });
  }

  /** Who one is. What is pending is of that author from now on. */
  identify(client: number): void {
    if (client === this.self) return;
    this.rebase(() => {
      this.self = client;
    });
  }

  /**
   * Takes all that the outbox holds, in order, with its numbers of now: after numbers changed, or after the log lost
   * records. Draws that were acked may be among them: those that the log has are left out.
   */
  sync(draws: Iterable<OwnDraw>): void {
    this.rebase(() => this.replacePending(draws, this.ledger.newestOf(this.self)));
  }

  /** A reset begins. The old picture shows until {@link finishReset}; one that did not get there is forgotten. */
  beginReset(): void {
    this.next = new Ledger();
  }

  /** Records of a reset, in order. */
  addReset(records: readonly LogRecord[]): void {
    for (const record of records) this.next?.record(record);
  }

  /** The reset broke off and counts for nothing. */
  abortReset(): void {
    this.next = null;
  }

  /**
   * The reset is complete, and is the picture from now on, with one's own draws on top that it does not hold.
   * @param draws all that the outbox holds, as in {@link sync}; left out, what is pending stays so
   * @param storedN the newest own `n` that is known to stand at or before the reset's position: a snapshot may draw the
   * board without the very records that drew it, so its records alone do not tell
   */
  finishReset(draws?: Iterable<OwnDraw>, storedN = 0): void {
    if (!this.next) return;
    this.takeAllBack();
    for (const { line } of this.pending) if (line) line.shown = false;
    this.ledger = this.next;
    this.next = null;
    this.replacePending(draws ?? this.pending, Math.max(storedN, this.ledger.newestOf(this.self)));
    for (const pending of this.pending) this.applyPending(pending);
    this.ledger.settle();
    this.listeners.tell({ reset: true, appeared: this.ledger.strokes(), grown: [], vanished: [] });
  }

  /** Takes a record that leaves the pending draws as they are; `false`, and nothing is done, if it may not. */
  private applyBelow(record: LogRecord): boolean {
    const { author, n, at, draw } = record;
    const [first] = this.pending;
    if (author !== this.self) {
      // Pending draws neither extend others' strokes nor see their points.
      if (first && draw && draw.kind !== "extend") return false;
      this.ledger.record(record);
      return true;
    }
    // The log followed by the pending draws is the same sequence as before.
    if (first?.n !== n || !draw || !isSameDraw(draw, this.resolveNames(first.draw))) return false;
    if (first.undo?.kind === "begin") first.undo.line.stroke.at = at;
    this.ledger.passed(author, n);
    this.pending.shift();
    return true;
  }

  /** Changes what lies below the pending draws, or those themselves. */
  private rebase(change: () => void): void {
    const before = this.takeAllBack();
    change();
    for (const pending of this.pending) this.applyPending(pending);
    for (const [line, tail] of before) {
      if (!this.ledger.holds(line)) restore(line.stroke, tail);
      else if (isSame(line.stroke, tail)) this.ledger.unchanged(line);
      else this.ledger.changed(line);
    }
    this.settle();
  }

  /** Takes all pending draws back, and returns how the lines that they touched looked. */
  private takeAllBack(): Map<Line, Tail> {
    const before = new Map<Line, Tail>();
    for (const { undo } of this.pending) {
      if (!undo || undo.kind === "operation" || before.has(undo.line)) continue;
      const { values, closed } = undo.line.stroke;
      const from = undo.kind === "begin" ? 0 : undo.length;
      before.set(undo.line, { from, values: values.slice(from), closed });
    }
    for (let place = this.pending.length - 1; place >= 0; place -= 1) {
      const pending = this.pending[place];
      if (pending?.undo) this.ledger.takeBack(pending.undo);
      if (pending) pending.undo = null;
    }
    return before;
  }

  private applyPending(pending: Pending): void {
    const { n, draw, line } = pending;
    pending.undo = this.ledger.apply(this.self, n, null, this.resolveNames(draw), line ?? undefined);
    if (pending.undo?.kind === "begin") pending.line = pending.undo.line;
  }

  /**
   * Takes what a record confirms out of the pending draws; they have been taken back.
   * @returns the line that it made as a pending draw
   */
  private confirm({ author, n, draw }: LogRecord): Line | undefined {
    if (author !== this.self || this.pending.length === 0) return undefined;
    // Own numbers stand in the log without gaps (P-1): with this one it has all before it.
    const behind = this.pending.findIndex((pending) => pending.n > n);
    const confirmed = this.pending.splice(0, behind < 0 ? this.pending.length : behind);
    const last = confirmed.at(-1);
    return last?.n === n && last.line && draw && begins(draw, last.line.stroke) ? last.line : undefined;
  }

  private replacePending(draws: Iterable<OwnDraw>, storedN: number): void {
    const lines = new Map(this.pending.map((pending) => [pending.id, pending.line]));
    this.pending = [];
    for (const { id, n, draw } of draws) {
      if (n <= storedN) continue;
      const line = lines.get(id) ?? null;
      const keeps = line !== null && begins(draw, line.stroke);
      this.pending.push({ id, n, draw, line: keeps ? line : null, undo: null });
    }
  }

  private resolveNames(draw: Draw): Draw {
    const resolve = ([author, number]: readonly [number, number]) => [this.resolve(author), number] as const;
    if (draw.kind === "erase") return { kind: "erase", strokes: draw.strokes.map(resolve) };
    if (draw.kind === "revoke") return { kind: "revoke", draws: draw.draws.map(resolve) };
    return draw;
  }

  private resolve(author: number): number {
    return author === SELF ? this.self : author;
  }

  private settle(): void {
    const change = this.ledger.settle();
    if (change) this.listeners.tell(change);
  }
}

/** A stroke that goes away still has its points, by which a canvas finds what to paint anew. */
function restore(stroke: Stroke, { from, values, closed }: Tail): void {
  stroke.values.length = from;
  for (const value of values) stroke.values.push(value);
  stroke.closed = closed;
}

function isSame({ values, closed }: Stroke, tail: Tail): boolean {
  if (closed !== tail.closed || values.length !== tail.from + tail.values.length) return false;
  return tail.values.every((value, index) => values[tail.from + index] === value);
}

function isSameDraw(a: Draw, b: Draw): boolean {
  switch (a.kind) {
    case "begin":
      return b.kind === "begin" && isSameBegin(a, b.stroke, b.channels, b.style) && isSamePoints(a, b);
    case "extend":
      return b.kind === "extend" && a.stroke === b.stroke && isSamePoints(a, b);
    case "erase":
      return b.kind === "erase" && isSameNames(a.strokes, b.strokes);
    case "revoke":
      return b.kind === "revoke" && isSameNames(a.draws, b.draws);
    default:
      return a.kind === b.kind;
  }
}

function isSamePoints(a: Pointed, b: Pointed): boolean {
  if (a.end !== b.end || a.points.length !== b.points.length) return false;
  return a.points.every((value, index) => value === b.points[index]);
}

function isSameNames(a: readonly StrokeName[], b: readonly StrokeName[]): boolean {
  return a.length === b.length && a.every(([author, of], at) => author === b[at]?.[0] && of === b[at]?.[1]);
}

function isSameBegin(draw: Draw, number: number, channels: number, style: Style): boolean {
  if (draw.kind !== "begin" || draw.stroke !== number || draw.channels !== channels) return false;
  const { tool, rgba, width } = draw.style;
  return tool === style.tool && rgba === style.rgba && width === style.width;
}

function begins(draw: Draw, { number, channels, style }: Stroke): boolean {
  return isSameBegin(draw, number, channels, style);
}
