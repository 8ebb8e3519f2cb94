/** The pipeline: batches on their way to the server, and when and how large the next may be. */
import type { SessionLimits } from "./draw.ts";
import { FRAME_BYTES } from "./frame.ts";

/** Draws in one batch at most, also when the server sets no limit. */
export const BATCH_DRAWS_MAX = 512;
/** Bytes of one message at most, also when the server sets no limit. */
export const BATCH_BYTES_MAX = 256 * 1024;

const NO_LIMITS: SessionLimits = {
  ...{ bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN: 0 },
};

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

/** See the module. */
export class Pipeline {
  limits = NO_LIMITS;
  readonly #window: number;
  /** The last number of each batch that has no answer yet; as many as the window allows. */
  #inFlight: number[] = [];
  #answeredAt: number | null = null;
  #notBefore = Number.NEGATIVE_INFINITY;
  /** Up to this number a batch holds one draw, to find the one that was refused without being named. */
  #singlyThrough = 0;
  /** The number that a server named when it gave no answer: until a batch begins there or before, it drops all. */
  #againFrom = Number.POSITIVE_INFINITY;

  constructor(window: number) {
    this.#window = Math.max(window, 1);
  }

  get isFull(): boolean {
    return this.#inFlight.length >= this.#window;
  }

  get isEmpty(): boolean {
    return this.#inFlight.length === 0;
  }

  /** When the next batch may go. */
  get notBefore(): number {
    return this.#notBefore;
  }

  /** Since when the oldest batch waits. */
  get answeredAt(): number | null {
    return this.#answeredAt;
  }

  /** Where the next batch begins, whose draws from `waiting` on were not sent and from `first` on are here. */
  begin(first: number, waiting: number): number {
    return Math.min(Math.max(this.#againFrom, first), waiting);
  }

  /** How many draws a batch that begins with `n` may hold. */
  maxDraws(n: number): number {
    return n <= this.#singlyThrough ? 1 : within(BATCH_DRAWS_MAX, this.limits.drawsPerBatch);
  }

  get maxBytes(): number {
    return within(BATCH_BYTES_MAX, this.limits.bytesPerMessage);
  }

  /** Bytes of the longest draw that is allowed, as far as that is known. */
  get drawBytes(): number {
    const { bytesPerDraw, bytesPerMessage } = this.limits;
    const inMessage = Math.max(within(Number.POSITIVE_INFINITY, bytesPerMessage) - FRAME_BYTES, 0);
    return within(inMessage, bytesPerDraw);
  }

  onSent(lastN: number, now: number): void {
    this.#againFrom = Number.POSITIVE_INFINITY;
    this.#inFlight.push(lastN);
    this.#answeredAt ??= now;
    const rate = this.limits.batchesPerSecond;
    this.#notBefore = rate === 0 ? Number.NEGATIVE_INFINITY : now + 1000 / rate;
  }

  /** All up to that number is stored. */
  onStored(through: number, now: number): void {
    const waiting = this.#inFlight.filter((last) => last > through);
    if (waiting.length < this.#inFlight.length) this.#answeredAt = now;
    if (waiting.length === 0) this.#answeredAt = null;
    this.#inFlight = waiting;
  }

  /** What was on its way counts for nothing any more. */
  clear(): void {
    [this.#inFlight, this.#answeredAt] = [[], null];
  }

  sendSingly(through: number): void {
    this.#singlyThrough = through;
  }

  /** What has a number above `n` will have another. */
  onRenumbered(n: number): void {
    this.#singlyThrough = Math.min(this.#singlyThrough, n);
  }

  sendAgain(from: number, at: number): void {
    this.#againFrom = Math.min(this.#againFrom, from);
    this.#notBefore = Math.max(this.#notBefore, at);
  }

  /** A new connection drops nothing. */
  forgetAgain(): void {
    this.#againFrom = Number.POSITIVE_INFINITY;
  }
}

function within(max: number, limit: number): number {
  return limit === 0 ? max : Math.min(max, limit);
}
