/**
 * The replica: this client's place in a room's log.
 *
 * No clock and no I/O. Records count only in order and once: what is here already is left out, and a hole is a
 * fault that the connection answers by resuming from `position`. A reset comes in parts, and only its last part
 * moves the position: broken off, everything starts over.
 */
import type { LogRecord } from "./draw.ts";
import type { Position } from "./position.ts";

/** The epoch of a log without records. */
const EMPTY_EPOCH = 1;

/** Why records cannot be taken: in plain words. The connection resumes, and the server sets it right. */
export class OutOfOrder {
  constructor(readonly why: string) {}
}

/** A reset whose last part came: forget the board, and apply these. */
export interface Reset {
  readonly records: readonly LogRecord[];
  /** Whether the log is another incarnation than the one read before. */
  readonly newEpoch: boolean;
}

/** See the module. */
export class Replica {
  #position: Position | null = null;
  #epoch = EMPTY_EPOCH;
  #resetting: { readonly to: Position; readonly records: LogRecord[] } | null = null;
  /** The head as the server last told it. */
  #head = 0;
  #caughtUp = false;
  /** The newest heartbeat's head and where this replica was then, if it was behind. */
  #lagged: { readonly head: number; readonly was: number } | null = null;

  /** The last record that is here; `null` at the start. */
  get position(): Position | null {
    return this.#position;
  }

  /** The number of the last record that is here. */
  get seq(): number {
    return this.#position?.seq ?? 0;
  }

  /** The newest record's number that the server told of. */
  get head(): number {
    return Math.max(this.#head, this.seq);
  }

  /** Records that came so far: those of an unfinished reset, or all up to the position. */
  get have(): number {
    return this.#resetting?.records.length ?? this.seq;
  }

  /** Whether everything that the log held at the welcome is here. */
  get caughtUp(): boolean {
    return this.#caughtUp;
  }

  /** A session begins, and tells the log's head. What was unfinished before is gone. */
  onConnected(head: Position): void {
    this.#resetting = null;
    this.#epoch = head.epoch;
    this.#head = head.seq;
    this.#lagged = null;
    const here = this.#position;
    // Anything else is followed by records or by a reset.
    this.#caughtUp =
      head.seq === 0 ? here === null : here !== null && here.seq === head.seq && sameIdentity(here, head);
  }

  /** The connection is gone. */
  onDisconnected(): void {
    this.#resetting = null;
    this.#caughtUp = false;
  }

  /** A poll tells the epoch each time, and the head. */
  onPolled(epoch: number, head: number): void {
    this.#epoch = epoch;
    this.#head = Math.max(this.#head, head);
    if (this.#resetting === null && this.seq >= head) this.#caughtUp = true;
  }

  /** Takes records, the first of which has that number. Returns how many from the front are no news. */
  onRecords(first: number, records: readonly LogRecord[]): number | OutOfOrder {
    if (this.#resetting !== null) return new OutOfOrder("records came between the parts of a reset");
    const here = this.#position;
    const seq = here?.seq ?? 0;
    if (first > seq + 1) {
      return new OutOfOrder(`record ${seq + 1} was to come next, and ${first} came`);
    }
    const repeats = Math.min(seq + 1 - first, records.length);
    const again = records[seq - first];
    if (here !== null && again !== undefined && !sameIdentity(here, again)) {
      return new OutOfOrder(`record ${seq} is not the one that was here`);
    }
    const last = records.at(-1);
    if (last !== undefined && records.length > repeats) {
      const { author, n, at } = last;
      this.#position = { epoch: this.#epoch, seq: first + records.length - 1, author, n, at };
    }
    if (this.seq >= this.#head) this.#caughtUp = true;
    return repeats;
  }

  /** Takes one part of a reset to a position. `null`: another part follows, and until then nothing has changed. */
  onReset(to: Position, records: readonly LogRecord[], more: boolean): Reset | null | OutOfOrder {
    this.#resetting ??= { to, records: [] };
    const { to: was, records: all } = this.#resetting;
    if (was.epoch !== to.epoch || was.seq !== to.seq || !sameIdentity(was, to)) {
      return new OutOfOrder("parts of two resets were mixed");
    }
    for (const record of records) all.push(record);
    if (more) return null;
    // A socket tells the epoch only when it opens: who came when the log was empty still knows it by the one
    // that all empty logs have.
    const newEpoch = this.#position !== null && (this.#position.epoch !== to.epoch || to.seq === 0);
    this.#resetting = null;
    this.#epoch = to.epoch;
    this.#position = to.seq > 0 ? to : null;
    // The head told before was perhaps another log's.
    this.#head = to.seq;
    this.#caughtUp = true;
    return { records: all, newEpoch };
  }

  /**
   * Takes the head that a heartbeat told. Returns whether records are overdue: two heartbeats in a row were
   * ahead, and nothing came in between. One alone may just have overtaken its records.
   */
  onHeartbeat(head: number): boolean {
    const here = this.seq;
    const lagged = this.#lagged;
    const overdue = lagged !== null && lagged.was === here && lagged.head > here && head > here;
    this.#lagged = head > here ? { head, was: here } : null;
    if (head <= here && this.#resetting === null) this.#caughtUp = true;
    return overdue;
  }
}

interface Identity {
  readonly author: number;
  readonly n: number;
  readonly at: number;
}

function sameIdentity(a: Identity, b: Identity): boolean {
  return a.author === b.author && a.n === b.n && a.at === b.at;
}
