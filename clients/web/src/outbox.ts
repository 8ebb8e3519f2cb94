/** The outbox: what this client drew, in order, until the store has it and for a minute longer. */
import type { Draw, DrawName, SessionLimits, StrokeName } from "./draw.ts";

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
  | { readonly kind: "pointless" };

/** Draws to send in one message; numbers `n` to `lastN`. */
export interface Batch {
  readonly n: number;
  readonly lastN: number;
  /** Each as its bytes; at least one. */
  readonly draws: readonly Uint8Array[];
}

/** What to do next. */
export type Next =
  | { readonly kind: "batch"; readonly batch: Batch }
  /** Ask again at that time, in milliseconds of the caller's clock. */
  | { readonly kind: "wait"; readonly at: number }
  /** Nothing, until there is a push, an answer or a save. */
  | { readonly kind: "idle" };

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
}

/** What is saved beside the draws. Opaque to all but the outbox; a structured clone of it is as good. */
export interface OutboxState {
  readonly client: number | null;
  readonly ticket: string | null;
}

/** What has to be saved, all in one transaction. */
export interface OutboxChanges {
  /** To be told to {@link Outbox.onPersisted} when it is saved. */
  readonly revision: number;
  readonly put: readonly QueuedDraw[];
  readonly remove: readonly DrawId[];
  readonly state: OutboxState;
}

export declare class Outbox {
  /** With that many batches in flight at most; goes on from what was saved. Restored draws count as saved. */
  constructor(window: number, saved?: { state: OutboxState | null; draws: readonly QueuedDraw[] }, now?: number);

  /** Takes a draw. It may name strokes and draws of one's own by SELF. */
  push(draw: Draw): Pushed;
  /** A stroke number that was never used before. */
  takeStroke(): number;
  /** Draws that the store is not known to have. */
  readonly pending: number;
  readonly newest: DrawId;
  /** All draws up to this one are stored or refused. */
  readonly settled: DrawId;
  /** Draws here, oldest first: kept ones and those that wait; `stored` tells which. */
  draws(): Iterable<QueuedDraw & { readonly stored: boolean }>;
  readonly client: number | null;
  readonly ticket: string | null;

  /** What changed since the last call, to be saved in one transaction; `null` when nothing did. */
  changes(): OutboxChanges | null;
  /** All changes up to that revision are saved (or there is no place to save them). Sending waits for that. */
  onPersisted(revision: number): void;

  /** The next batch, if there is one to send now. Only after {@link Outbox.onWelcome} of this connection. */
  next(now: number): Next;
  /** When the oldest batch in flight must have been answered, if `timeout` ms are granted; `null` without one. */
  answerDue(timeout: number): number | null;

  /** A session is open. Returns draws that break its limits, or "lost": numbering cannot go on; take a new client. */
  onWelcome(client: number, ticket: string, limits: SessionLimits, now: number): readonly Refused[] | "lost";
  /** All up to `n` are stored. Returns the newest of them if that is news. */
  onAck(n: number, now: number): DrawId | null;
  /** The server expects number `expected`. */
  onGap(expected: number, now: number): "ok" | "lost";
  /** Number `n` was refused for good. Returns it and what can have no effect without it. */
  onRefused(n: number, code: string, message: string): readonly Refused[];
  /** A batch up to `lastN` was refused, and it is not known for which draw: they go again one by one. */
  onRefusedSomewhere(lastN: number): void;
  /** No answer to the batch that begins with `n`: again from there, not before `at`. */
  onRetry(n: number, at: number): void;
  onDisconnected(): void;
  /** The log may have lost its newest records: everything kept is offered again. */
  offerKept(): void;
  /** From now on with a new client id and no ticket; `lost`: the kept draws are known to be lost, and go again. */
  onNewClient(lost: boolean): void;
  /** Another tab has this identity now. Only draws that were never saved stay, for a new identity. */
  onTakenOver(): void;

  /** Own draw `n` of the log, of the present client id: which one it is, if it is still here. */
  idOf(n: number): DrawId | null;
  /** What others call that draw of one's own; `null` when it was refused, is not numbered yet, or is forgotten. */
  nameOf(id: DrawId): DrawName | null;
  /** What others call that stroke of one's own; two names when the client id changed in mid-stroke. */
  namesOfStroke(stroke: number): readonly StrokeName[];
}
