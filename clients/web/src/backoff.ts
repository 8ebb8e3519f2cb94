/** How long to wait before trying again: longer each time, and never in step with other clients. */

/** Milliseconds of a server's retry time that are believed at most: five minutes. */
export const RETRY_MS_MAX = 5 * 60 * 1000;
/** Beyond that many doublings every wait is at its bound anyway. */
const DOUBLINGS_MAX = 20;

/**
 * Doubles from `first` to `max`; each wait is drawn from the upper half of its step.
 *
 * Without the randomness, all clients of a server that went away would come back in the same moment, again and
 * again. The lower half is left out so that a first wait is never nothing.
 */
export class Backoff {
  readonly #first: number;
  readonly #max: number;
  #failures = 0;

  /** Both in ms. */
  constructor(first: number, max: number) {
    this.#first = first;
    this.#max = Math.max(first, max);
  }

  /** The next wait in ms. `random` is from 0 up to 1. */
  next(random: number): number {
    const step = Math.min(this.#first * 2 ** Math.min(this.#failures, DOUBLINGS_MAX), this.#max);
    this.#failures += 1;
    return step / 2 + (step / 2) * clamp(random);
  }

  /** It worked: the next failure waits the first step again. */
  reset(): void {
    this.#failures = 0;
  }
}

/** The wait in ms that a server asked for, plus up to half of it. `random` is from 0 up to 1. */
export function asked(retryMs: number, random: number): number {
  const wait = Math.min(Math.max(retryMs, 0), RETRY_MS_MAX);
  return wait + (wait / 2) * clamp(random);
}

function clamp(random: number): number {
  return Math.min(Math.max(random, 0), 1);
}
