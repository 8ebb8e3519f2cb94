/**
 * A reveal: how many points of someone else's stroke show by now.
 *
 * Points come in the bursts of network batches. Each burst is spread over the time since the one before, at most
 * {@link SPREAD}, so that the line grows like a line; and it never shows later than {@link SPREAD} after it came.
 */

/** How long after it came a point shows at the latest, in ms. */
export const SPREAD = 100;
/** More bursts than that within {@link SPREAD} are taken as one. */
const BURSTS_MAX = 32;

interface Burst {
  readonly due: number;
  readonly count: number;
}

export class Reveal {
  #from: Burst = { due: 0, count: 0 };
  #bursts: Burst[] = [];

  /** All up to `count` shows at once. */
  jump(count: number, now: number): void {
    this.#from = { due: now, count };
    this.#bursts = [];
  }

  /** There are `count` points now. */
  push(count: number, now: number): void {
    if (this.#bursts.length === 0) {
      this.#from = { due: now, count: this.#from.count };
    } else if (this.#bursts.length >= BURSTS_MAX) {
      this.#bursts.pop();
    }
    this.#bursts.push({ due: now + SPREAD, count });
  }

  /** Points that came. */
  get total(): number {
    return (this.#bursts.at(-1) ?? this.#from).count;
  }

  /** Whether all shows that came. */
  get done(): boolean {
    return this.#bursts.length === 0;
  }

  /** How many points show at that time. */
  at(now: number): number {
    let next = this.#bursts[0];
    while (next && next.due <= now) {
      this.#from = next;
      this.#bursts.shift();
      next = this.#bursts[0];
    }
    if (!next) {
      return this.#from.count;
    }
    const part = Math.max(0, (now - this.#from.due) / (next.due - this.#from.due));
    return Math.floor(this.#from.count + (next.count - this.#from.count) * part);
  }
}
