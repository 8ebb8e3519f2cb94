/**
 * The outbox: what this client drew, in order, until the store has it and for a minute longer.
 *
 * No clock and no I/O: time is an argument, {@link Outbox.next} says what to send and {@link Outbox.changes} what to
 * save. The rules are those of the idempotent producer. A client numbers its draws 1, 2, 3…; an answer that never came
 * is an unknown, and the same numbers go out again; a draw that was refused leaves the numbering, and the later ones
 * move up. What was acked stays for a minute, so that a store that lost its newest writes gets it back.
 *
 * Entries stand in one queue, numbered from `first` without gaps:
 *
 *     first ──── stored ──── sent ──── last
 *       kept      in flight   waiting
 *
 * Nothing is sent before it is saved. Were a draw sent first and the page then lost, the next page would not know of
 * it and give its number to another draw; the server would take that one for a repetition, and its ink would be gone.
 * For the same reason nothing is sent while a change of the numbering (a refusal, a new client id) is not saved, and a
 * state that is saved says up to which number a server may have seen draws: a number beyond that was used by somebody
 * else who holds the ticket, and acks nothing of ours.
 *
 * Draws are kept as they were meant, not as bytes: an erase may name a stroke of one's own and a revoke a draw of
 * one's own whose client id or number is not settled before it is sent.
 *
 * It is one long file, since all of it keeps one invariant: the order of the numbers above, through every answer.
 */
import { encodeDraw } from "./codec.ts";
import type { Draw, DrawName, SessionLimits, StrokeName } from "./draw.ts";
import { FRAME_BYTES } from "./frame.ts";
import { Names, type NamesState } from "./names.ts";
import { measure, type Namer, namesOwn, type OwnDraw, resolve } from "./own-draw.ts";
import { type Meant, OwnStrokes, type PenState } from "./own-strokes.ts";
import { type Next, Pipeline } from "./pipeline.ts";
import { type Points, split } from "./split.ts";
import { SELF } from "./stroke.ts";
import { Waiting } from "./waiting.ts";

export type { Batch, Next } from "./pipeline.ts";

/** Draws that wait for an ack at most. */
export const PENDING_DRAWS_MAX = 65_536;
/** Bytes of draws that wait for an ack at most. */
export const PENDING_BYTES_MAX = 16 * 1024 * 1024;
/** How long a draw is kept after its ack, in milliseconds. */
export const KEEP_MS = 60_000;
/** Bytes of draws that are kept after their ack at most. Beyond it the oldest go early; should the store lose just these, the client takes a new id. */
export const KEPT_BYTES_MAX = 16 * 1024 * 1024;
/** What is longer is sent in parts, also while the server's limit is not known: that is the limit as shipped, in bytes. */
const PART_BYTES_MAX = 64 * 1024;
/** Bytes of an erase or a revoke beside its names, and of the longest name, at most. */
const [NAMES_BYTES, NAME_BYTES] = [8, 19];
const UNREADABLE = encodeDraw({ kind: "opaque", data: new Uint8Array() });

/**
 * Names one draw of one's own: 1, 2, 3… in the order of {@link Outbox.push}, also over reloads. It is not the draw's
 * `n`: a draw that is refused gives its number to the next. A revoke names a draw of one's own as `[SELF, DrawId]`, an
 * erase a stroke of one's own as `[SELF, stroke]`.
 */
export type DrawId = number;

/** What became of a draw that was offered to the outbox. */
export type Pushed =
  | { readonly kind: "taken"; readonly id: DrawId }
  /** Too much waits for acks: so many draws, so many bytes. */
  | { readonly kind: "full"; readonly draws: number; readonly bytes: number }
  /** It breaks an announced limit. */
  | { readonly kind: "too_large"; readonly bytes: number; readonly max: number }
  /** It can have no effect: an extend of a stroke that was refused or is closed, a revoke of what was refused. */
  | { readonly kind: "pointless" }
  /** No server would take it: a coordinate that is no integer or out of range, for example. */
  | { readonly kind: "invalid" };

/** A draw that left the outbox unstored. `code` as in PROTOCOL.md, or `pointless`: what it needs was refused. */
export interface Refused {
  readonly id: DrawId;
  readonly code: string;
  readonly message: string;
}

/** One draw as it is saved. */
export interface QueuedDraw {
  readonly id: DrawId;
  readonly draw: Draw;
  /** Of an extend: where the pen was, so that it can begin the stroke anew under another client id. */
  readonly pen?: PenState;
}

/** What is saved beside the draws. */
export interface OutboxState {
  readonly client: number | null;
  readonly ticket: string | null;
  /** The numbers of the first and last draw that are saved; `last` is below `first` when there is none. */
  readonly first: number;
  readonly last: number;
  /** The store has all up to this number. */
  readonly stored: number;
  /** The newest number that a server can have from here. */
  readonly offered: number;
  readonly newest: DrawId;
  readonly nextStroke: number;
  readonly names: NamesState;
}

/** What has to be saved, all in one transaction. */
export interface OutboxChanges {
  /** To be told to {@link Outbox.onPersisted} when it is saved. */
  readonly revision: number;
  /** New ones, and some that take the place of those with the same id. */
  readonly put: readonly QueuedDraw[];
  readonly remove: readonly DrawId[];
  readonly state: OutboxState;
}

interface Entry {
  readonly id: DrawId;
  draw: Draw;
  /** See {@link QueuedDraw}. */
  pen: PenState | null;
  /** Its length in bytes, or a little more while its names are not settled. */
  bytes: number;
  /** Where the bytes cannot change any more. */
  encoded: Uint8Array | null;
  /** When its ack came; `null` while it waits. */
  storedAt: number | null;
  /** The revision that saves it. */
  readonly savedIn: number;
}

/** See the module. */
export class Outbox {
  #entries: Entry[] = [];
  #client: number | null = null;
  #ticket: string | null = null;
  /** The number of the first entry. */
  #first = 1;
  /** The store has all up to this number. */
  #stored = 0;
  /** The newest number sent since the numbering was last brought in step; at least `stored`. */
  #sent = 0;
  /** The newest number that any server can have from here; at least `sent`. */
  #offered = 0;
  #newest: DrawId = 0;
  #names: Names;
  #pendingBytes = 0;
  readonly #waiting = new Waiting();
  #keptBytes = 0;
  /** Whether all that is kept is to be offered again when nothing is in flight any more. */
  #offersKept = false;
  /** The newest word of the store: a draw was refused since the room is full, and none was taken after it. */
  #roomFull = false;
  readonly #pipeline: Pipeline;
  readonly #strokes = new OwnStrokes();
  /** Whether this client id had a welcome here, so that any draw may be sent as soon as it is saved. */
  #welcomed = false;

  #put = new Map<DrawId, Entry>();
  #remove: DrawId[] = [];
  #changed = false;
  /** The newest revision handed out. What changes now is saved by the one after it. */
  #revision = 0;
  #persisted = 0;
  /** No batch goes out before this revision is saved: it changes the numbering. */
  #barrier = 0;

  /**
   * With `window` batches in flight at most. Goes on from what was saved; `now` in milliseconds of the clock that all
   * other times are of.
   */
  constructor(
    window: number,
    saved?: { readonly state: OutboxState | null; readonly draws: readonly QueuedDraw[] },
    now = 0,
  ) {
    this.#pipeline = new Pipeline(window);
    this.#names = new Names(saved?.state?.names);
    if (saved?.state) this.#restore(saved.state, saved.draws, now);
  }

  #restore(state: OutboxState, draws: readonly QueuedDraw[], now: number): void {
    for (const { id, draw, pen } of draws) {
      this.#strokes.follow({ draw, pen: pen ?? null });
      // One that cannot be read any more still has its number.
      const { bytes, encoded } = this.#size(draw) ?? { bytes: UNREADABLE.length, encoded: UNREADABLE };
      this.#entries.push({ id, draw, pen: pen ?? null, bytes, encoded, storedAt: null, savedIn: 0 });
      this.#pendingBytes += bytes;
      this.#waiting.add(draw);
    }
    [this.#client, this.#ticket] = [state.client, state.ticket];
    [this.#newest, this.#strokes.next] = [state.newest, state.nextStroke];
    [this.#first, this.#stored] = [state.first, state.first - 1];
    this.#offered = Math.max(this.#stored, Math.min(state.offered, this.#last));
    // Those acked count as kept from now on: when their acks came is not known any more.
    this.onAck(state.stored, now);
    this.#rewind();
    this.#changed = this.#remove.length > 0;
  }

  /**
   * Takes a draw. It may name strokes and draws of one's own by SELF. A stroke of which an extend was not taken cannot
   * go on: its later points would stand in the wrong place.
   */
  push(draw: Draw): Pushed {
    const pushed = this.#take(draw);
    if (pushed.kind !== "taken" && draw.kind === "extend") this.#strokes.breakOff(draw.stroke);
    return pushed;
  }

  #take(draw: Draw): Pushed {
    const meant = this.#meant(draw);
    if (meant === null) return { kind: "pointless" };
    const size = this.#size(meant.draw);
    if (size === null) return { kind: "invalid" };
    const max = this.#pipeline.drawBytes;
    if (size.bytes > max) return { kind: "too_large", bytes: size.bytes, max };
    if (this.pending >= PENDING_DRAWS_MAX || this.#pendingBytes + size.bytes > PENDING_BYTES_MAX) {
      return { kind: "full", draws: this.pending, bytes: this.#pendingBytes };
    }
    this.#strokes.follow(meant);
    this.#newest += 1;
    const entry: Entry = { ...meant, ...size, id: this.#newest, storedAt: null, savedIn: this.#revision + 1 };
    this.#pendingBytes += entry.bytes;
    this.#waiting.add(entry.draw);
    this.#entries.push(entry);
    this.#put.set(entry.id, entry);
    this.#changed = true;
    return { kind: "taken", id: entry.id };
  }

  /**
   * A stroke's points as several draws, each within the limits as far as that can be and they are known: a page that was
   * busy for long has many points to tell at once. To be pushed one after the other, before anything else.
   */
  parts(draw: Points): readonly Points[] {
    const meant = draw.kind === "begin" ? { draw, pen: null } : this.#strokes.meant(draw);
    if (meant === null) return [draw];
    const max = this.#partBytes;
    return split(meant.draw, meant.pen?.channels ?? 0, (part) => (this.#size(part)?.bytes ?? 0) <= max);
  }

  /** How many names an erase or a revoke may hold, however long they are: as {@link Outbox.parts}, and at least one. */
  get namesMax(): number {
    return Math.max(Math.floor((this.#partBytes - NAMES_BYTES) / NAME_BYTES), 1);
  }

  get #partBytes(): number {
    return Math.min(PART_BYTES_MAX, this.#pipeline.drawBytes);
  }

  /** The draw as it has to be sent now, and where its pen was; `null` when it can have no effect. */
  #meant(draw: Draw): Meant | null {
    switch (draw.kind) {
      case "extend":
        return this.#strokes.meant(draw);
      case "erase": {
        const own = (author: number) => (author === this.#client ? SELF : author);
        const strokes = draw.strokes.map(([author, stroke]): StrokeName => [own(author), stroke]);
        return { draw: { kind: "erase", strokes }, pen: null };
      }
      case "revoke":
        return this.#isPointless(draw.draws) ? null : { draw, pen: null };
      default:
        return { draw, pen: null };
    }
  }

  /** A stroke number that was never used before. One that is not saved was never sent. */
  takeStroke(): number {
    this.#strokes.next += 1;
    return this.#strokes.next - 1;
  }

  /** Draws that the store is not known to have. */
  get pending(): number {
    return this.#last - this.#stored;
  }

  /** The same for people: own strokes of which something waits, and other draws that wait. 0 just when `pending` is. */
  get pendingChanges(): number {
    return this.#waiting.changes;
  }

  /** Whether the room takes no more, as far as is known: from a refusal for that reason until a later draw is stored. */
  get roomFull(): boolean {
    return this.#roomFull;
  }

  /** The newest draw that was pushed; 0 for none. */
  get newest(): DrawId {
    return this.#newest;
  }

  get client(): number | null {
    return this.#client;
  }

  get ticket(): string | null {
    return this.#ticket;
  }

  /**
   * The draws that are here, oldest first: kept ones, and those that wait. As they would be sent now, with SELF for a
   * client id that is not known yet.
   */
  *draws(): Iterable<OwnDraw> {
    for (const [index, entry] of this.#entries.entries()) yield this.#own(entry, this.#first + index);
  }

  /** That draw, if it is here. */
  draw(id: DrawId): OwnDraw | null {
    const index = this.#find(id);
    const entry = index === null ? undefined : this.#entries[index];
    return entry && index !== null ? this.#own(entry, this.#first + index) : null;
  }

  #own({ id, draw, storedAt }: Entry, n: number): OwnDraw {
    return { id, n, draw: resolve(draw, this.#namer, this.#client ?? SELF, n), stored: storedAt !== null };
  }

  /** What changed since the last call, to be saved in one transaction; `null` when nothing did. */
  changes(): OutboxChanges | null {
    if (!this.#changed) return null;
    this.#revision += 1;
    const put = [...this.#put.values()].map(({ id, draw, pen }) => (pen ? { id, draw, pen } : { id, draw }));
    const remove = this.#remove;
    [this.#put, this.#remove, this.#changed] = [new Map(), [], false];
    return { revision: this.#revision, put, remove, state: this.#state() };
  }

  #state(): OutboxState {
    return {
      ...{
        client: this.#client,
        ticket: this.#ticket,
        first: this.#first,
        last: this.#last,
        stored: this.#stored,
      },
      offered: this.#welcomed ? this.#last : this.#offered,
      ...{ newest: this.#newest, nextStroke: this.#strokes.next, names: this.#names.state() },
    };
  }

  /** All changes up to that revision are saved, or there is no place to save them. */
  onPersisted(revision: number): void {
    this.#persisted = Math.max(this.#persisted, Math.min(revision, this.#revision));
  }

  /**
   * The next batch, if there is one to send now. Ask only after this connection's welcome was told to
   * {@link Outbox.onWelcome}: it says where the numbers of a ticket go on.
   */
  next(now: number): Next {
    this.#forgetOld(now);
    const waits = this.#barrier > this.#persisted || this.#offersKept || this.#pipeline.isFull;
    if (waits || this.#sent === this.#last) return { kind: "idle" };
    if (now < this.#pipeline.notBefore) return { kind: "wait", at: this.#pipeline.notBefore };
    const n = this.#pipeline.begin(this.#first, this.#sent + 1);
    const draws = this.#gather(n);
    if (draws.length === 0) return { kind: "idle" };
    const lastN = n + draws.length - 1;
    this.#sent = Math.max(this.#sent, lastN);
    this.#offered = Math.max(this.#offered, this.#sent);
    this.#pipeline.onSent(lastN, now);
    return { kind: "batch", batch: { n, lastN, draws } };
  }

  #gather(n: number): Uint8Array[] {
    const [maxDraws, maxBytes] = [this.#pipeline.maxDraws(n), this.#pipeline.maxBytes];
    const draws: Uint8Array[] = [];
    let bytes = FRAME_BYTES;
    for (let index = this.#index(n); draws.length < maxDraws; index += 1) {
      const entry = this.#entries[index];
      if (!entry || entry.savedIn > this.#persisted) break;
      const encoded = this.#encode(entry, this.#first + index);
      bytes += encoded.length;
      // One that is larger than a batch likes to be, but within what the server announced, goes alone.
      if (bytes > maxBytes && draws.length > 0) break;
      draws.push(encoded);
    }
    return draws;
  }

  /** When the oldest batch in flight must have been answered, if `timeout` ms are granted; `null` if there is none. */
  answerDue(timeout: number): number | null {
    const { answeredAt } = this.#pipeline;
    return answeredAt === null ? null : answeredAt + timeout;
  }

  /** All draws up to `n` are stored. Returns the newest of them if that is news. */
  onAck(n: number, now: number): DrawId | null {
    const through = Math.min(n, this.#offered);
    let newest: DrawId | null = null;
    while (this.#stored < through) {
      const entry = this.#entries[this.#index(this.#stored + 1)];
      if (!entry) break;
      entry.storedAt = now;
      newest = entry.id;
      this.#pendingBytes -= entry.bytes;
      this.#waiting.remove(entry.draw);
      this.#keptBytes += entry.bytes;
      this.#stored += 1;
      this.#changed = true;
    }
    if (newest !== null) this.#roomFull = false;
    this.#sent = Math.max(this.#sent, this.#stored);
    this.#pipeline.onStored(this.#stored, now);
    this.#offerWhenAnswered();
    this.#forgetOld(now);
    return newest;
  }

  /**
   * A session is open. Returns the draws that break its limits; they have left the outbox. Or "lost": the store lost
   * draws that are not kept here, and nothing has changed; then take a new client ({@link Outbox.onNewClient}).
   */
  onWelcome(client: number, ticket: string, limits: SessionLimits, now: number): readonly Refused[] | "lost" {
    if (this.#client !== null && this.#client !== client) this.onNewClient(false);
    if (this.#bringInStep(limits.lastN, now) === "lost") return "lost";
    this.#pipeline.limits = limits;
    const isNews = !this.#welcomed || this.#client !== client || this.#ticket !== ticket;
    [this.#client, this.#ticket, this.#welcomed] = [client, ticket, true];
    if (isNews) this.#renumbered();
    const refused: Refused[] = [];
    const max = this.#pipeline.drawBytes;
    for (let n = this.#stored + 1; n <= this.#last; ) {
      const bytes = this.#entries[this.#index(n)]?.bytes ?? 0;
      if (bytes <= max) n += 1;
      else
        refused.push(...this.#refuse(n, "too_large", `the draw has ${bytes} bytes, and ${max} are allowed`));
    }
    return refused;
  }

  /** The server expects number `expected`. "lost" as of {@link Outbox.onWelcome}. */
  onGap(expected: number, now: number): "ok" | "lost" {
    return this.#bringInStep(Math.max(expected - 1, 0), now);
  }

  /**
   * Number `n` was refused for good, and so nothing of its batch is stored. It leaves the outbox, and with it what can
   * have no effect without it; the later ones move up, and sending starts again behind what is stored.
   */
  onRefused(n: number, code: string, message: string): readonly Refused[] {
    const isOpen = n > this.#stored && n <= this.#offered;
    this.#rewind();
    return isOpen ? this.#refuse(n, code, message) : [];
  }

  /** A batch up to `lastN` was refused, and for which of its draws is not known: they go again one by one. */
  onRefusedSomewhere(lastN: number): void {
    this.#rewind();
    this.#pipeline.sendSingly(lastN);
  }

  /** There is no answer to the batch that begins with `n`: what was sent goes again from there, not before `at`. */
  onRetry(n: number, at: number): void {
    this.#rewind();
    this.#pipeline.sendAgain(n, at);
  }

  /** The connection is gone; what became of the batches in flight is unknown. */
  onDisconnected(): void {
    this.#pipeline.forgetAgain();
    this.#rewind();
  }

  /**
   * The log may have lost its newest records: everything kept is offered again, with its numbers. What the store still
   * has it answers as stored. It waits until what is in flight is answered: a draw that was sent twice could be refused
   * twice, and the second refusal would hit whichever draw has its number by then.
   */
  offerKept(): void {
    this.#offersKept = true;
    this.#offerWhenAnswered();
  }

  /** The log is another one: how full the old one was says nothing of it. */
  onOtherLog(): void {
    this.#roomFull = false;
  }

  /**
   * The next numbers belong to a new client id, which the next welcome tells. What waits goes with new numbers, from 1;
   * so do the kept draws if they are known to be `lost`, and otherwise they are forgotten. A stroke that was begun under
   * the old id and is not whole goes on as a second one, which begins where the pen was.
   */
  onNewClient(lost: boolean): void {
    if (lost) this.#rollBack(this.#first - 1);
    this.#forgetKept();
    this.#newNumbering();
  }

  /**
   * Another tab took over what was saved, while this one was frozen, and sends it. Only draws that were never saved
   * stay here, for the new identity that this tab takes: they are saved anew with the next {@link Outbox.changes}.
   */
  onTakenOver(): void {
    const mine = this.#entries.filter((entry) => entry.savedIn > this.#persisted);
    for (const [index, entry] of this.#entries.entries()) {
      if (entry.savedIn > this.#persisted) continue;
      const n = this.#first + index;
      this.#remember(entry, n <= this.#stored ? n : null);
    }
    this.#entries = mine.map((entry) => ({ ...entry, storedAt: null, savedIn: this.#revision + 1 }));
    this.#put = new Map(this.#entries.map((entry) => [entry.id, entry]));
    this.#remove = [];
    this.#keptBytes = 0;
    this.#waiting.clear();
    for (const { draw } of mine) this.#waiting.add(draw);
    this.#pendingBytes = mine.reduce((bytes, entry) => bytes + entry.bytes, 0);
    this.#newNumbering();
  }

  #newNumbering(): void {
    [this.#first, this.#stored, this.#offered] = [1, 0, 0];
    [this.#client, this.#ticket, this.#welcomed, this.#offersKept] = [null, null, false, false];
    this.#pipeline.forgetAgain();
    this.#pipeline.onRenumbered(0);
    this.#rewind();
    this.#renumbered();
    this.#strokes.startEra();
    for (const entry of this.#entries) {
      const begin = this.#strokes.carryOver(entry);
      if (begin) this.#replace(entry, begin);
    }
  }

  #replace(entry: Entry, draw: Draw): void {
    const size = this.#size(draw);
    // Out of range: it has no effect as an extend either.
    if (size === null) return;
    const { bytes, encoded } = size;
    this.#pendingBytes += bytes - entry.bytes;
    Object.assign(entry, { draw, pen: null, bytes, encoded } satisfies Partial<Entry>);
    this.#put.set(entry.id, entry);
  }

  /** What others call one's own; with SELF for a client id that is not known yet. */
  readonly #namer: Namer = {
    nameOfDraw: (id) => {
      const index = this.#find(id);
      return index === null ? this.#names.ofDraw(id) : [this.#client ?? SELF, this.#first + index];
    },
    // Two names when the client id changed in mid-stroke.
    namesOfStroke: (stroke) => {
      const names = this.#names.ofStroke(stroke);
      if (this.#strokes.isBegun(stroke)) names.push([this.#client ?? SELF, stroke]);
      return names;
    },
  };

  /**
   * The names of a stroke of one's own on the board: none when it was refused or is forgotten, two when the client id
   * changed in mid-stroke.
   */
  namesOfStroke(stroke: number): readonly StrokeName[] {
    return this.#namer.namesOfStroke(stroke);
  }

  get #last(): number {
    return this.#first + this.#entries.length - 1;
  }

  #index(n: number): number {
    return n - this.#first;
  }

  /** Where the entry is. Ids ascend, with holes where draws were refused. */
  #find(id: DrawId): number | null {
    let [from, to] = [0, this.#entries.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#entries[middle]?.id ?? id) < id) from = middle + 1;
      else to = middle;
    }
    return this.#entries[from]?.id === id ? from : null;
  }

  /** Whether a revoke of these has no effect, since all of them are of one's own and refused or forgotten. */
  #isPointless(draws: readonly DrawName[], gone?: ReadonlySet<DrawId>): boolean {
    return draws.every(([author, id]) => {
      if (author !== SELF) return false;
      return gone?.has(id) || (this.#find(id) === null && this.#names.ofDraw(id) === null);
    });
  }

  /** Its length in bytes, and the bytes where they are settled; `null` when no server would take it. */
  #size(draw: Draw): { bytes: number; encoded: Uint8Array | null } | null {
    const encoded = measure(draw);
    return encoded && { bytes: encoded.length, encoded: namesOwn(draw) ? null : encoded };
  }

  #encode({ draw, encoded }: Entry, n: number): Uint8Array {
    return encoded ?? encodeDraw(resolve(draw, this.#namer, this.#client ?? 0, n));
  }

  #refuse(n: number, code: string, message: string): Refused[] {
    const index = this.#index(n);
    const entry = this.#entries[index];
    if (!entry) return [];
    if (code === "room_full") this.#roomFull = true;
    const gone = new Set<DrawId>([entry.id]);
    const { draw } = entry;
    const stroke = draw.kind === "begin" || draw.kind === "extend" ? draw.stroke : null;
    if (draw.kind !== "opaque") {
      for (const later of this.#entries.slice(index + 1)) {
        const isLost =
          (later.draw.kind === "extend" && later.draw.stroke === stroke) ||
          (later.draw.kind === "revoke" && this.#isPointless(later.draw.draws, gone));
        if (isLost) gone.add(later.id);
      }
    }
    const lost = this.#entries.filter(({ id }) => gone.has(id));
    this.#entries = this.#entries.filter(({ id }) => !gone.has(id));
    for (const { id, draw, bytes } of lost) {
      this.#pendingBytes -= bytes;
      this.#waiting.remove(draw);
      this.#put.delete(id);
      this.#remove.push(id);
    }
    if (stroke !== null) this.#strokes.breakOff(stroke);
    if (draw.kind === "begin") this.#strokes.forget(draw.stroke);
    this.#offered = Math.min(this.#offered, n - 1);
    this.#pipeline.onRenumbered(n - 1);
    this.#renumbered();
    return lost.map(({ id }) =>
      id === entry.id
        ? { id, code, message }
        : { id, code: "pointless", message: "what it belongs to was refused" },
    );
  }

  /** Nothing goes out before what changed now is saved. */
  #renumbered(): void {
    this.#changed = true;
    this.#barrier = this.#revision + 1;
  }

  #rewind(): void {
    this.#sent = this.#stored;
    this.#pipeline.clear();
    this.#offerWhenAnswered();
  }

  #offerWhenAnswered(): void {
    if (this.#offersKept && this.#pipeline.isEmpty) this.#rollBack(this.#first - 1);
  }

  #bringInStep(lastN: number, now: number): "ok" | "lost" {
    if (lastN + 1 < this.#first) return "lost";
    // Now it is known what is lost.
    this.#pipeline.forgetAgain();
    this.#offersKept = false;
    if (lastN < this.#stored) {
      this.#rollBack(lastN);
      return "ok";
    }
    this.#rewind();
    this.onAck(lastN, now);
    if (lastN > this.#offered) {
      // Another holder of the ticket drew these. What waits here comes after them, and the kept ones before them can
      // no longer be offered without a gap.
      this.#forgetKept();
      const through = Math.min(lastN, Number.MAX_SAFE_INTEGER - PENDING_DRAWS_MAX);
      [this.#first, this.#stored, this.#offered] = [through + 1, through, through];
      this.#rewind();
      this.#renumbered();
    }
    return "ok";
  }

  /** Takes back the acks after `lastN`, whose next is kept. */
  #rollBack(lastN: number): void {
    this.#offersKept = false;
    for (const entry of this.#entries.slice(this.#index(lastN + 1), this.#index(this.#stored + 1))) {
      entry.storedAt = null;
      this.#keptBytes -= entry.bytes;
      this.#pendingBytes += entry.bytes;
      this.#waiting.add(entry.draw);
    }
    this.#stored = lastN;
    this.#changed = true;
    this.#rewind();
  }

  #forgetOld(now: number): void {
    let count = 0;
    let keptBytes = this.#keptBytes;
    for (const { storedAt, bytes } of this.#entries) {
      if (storedAt === null || (now - storedAt < KEEP_MS && keptBytes <= KEPT_BYTES_MAX)) break;
      keptBytes -= bytes;
      count += 1;
    }
    if (count > 0) this.#forget(count);
  }

  #forgetKept(): void {
    const count = this.#index(this.#stored + 1);
    if (count > 0) this.#forget(count);
  }

  #forget(count: number): void {
    for (const entry of this.#entries.splice(0, count)) {
      this.#keptBytes -= entry.bytes;
      this.#remember(entry, this.#first);
      this.#put.delete(entry.id);
      this.#remove.push(entry.id);
      this.#first += 1;
    }
    this.#changed = true;
  }

  /** Keeps the names of what leaves the queue; `n` is `null` while it is not settled. */
  #remember({ id, draw }: Entry, n: number | null): void {
    if (draw.kind === "begin") this.#strokes.forget(draw.stroke);
    if (this.#client === null) return;
    if (draw.kind === "begin") this.#names.addStroke(draw.stroke, this.#client);
    if (n !== null) this.#names.addDraw(id, this.#client, n);
  }
}
