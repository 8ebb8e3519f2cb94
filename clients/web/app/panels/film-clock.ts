/** The clock of a time-lapse: when, in the film, each record comes. Long pauses are shortened. */

/** Nothing happens for longer than that: the film goes on. In ms. */
export const PAUSE_MAX = 600;
/** At the speed that is chosen at first, a film takes about this long, in ms. */
const GOOD_LENGTH = 40_000;

export const SPEEDS: readonly number[] = [1, 2, 4, 8, 16, 32, 64];

/** Times of a film's records: those of `at` (ms since 1970), with pauses shortened; the first is at 0. */
export function filmTimes(at: readonly number[]): Float64Array<ArrayBuffer> {
  const times = new Float64Array(at.length);
  let film = 0;
  for (let i = 1; i < at.length; i++) {
    // Several servers' clocks stamp one log, so that time may run backward between two records.
    const gap = Math.max(0, (at[i] ?? 0) - (at[i - 1] ?? 0));
    film += Math.min(gap, PAUSE_MAX);
    times[i] = film;
  }
  return times;
}

/** How many records have come by that time. */
export function recordsBy(times: Float64Array, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((times[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The slowest speed at which a film of that length is not too long to watch. */
export function goodSpeed(length: number): number {
  return SPEEDS.find((speed) => length / speed <= GOOD_LENGTH) ?? SPEEDS[SPEEDS.length - 1] ?? 1;
}

/** The speed after this one; after the fastest comes the slowest. */
export function nextSpeed(speed: number): number {
  return SPEEDS[(SPEEDS.indexOf(speed) + 1) % SPEEDS.length] ?? 1;
}

/** `m:ss`. */
export function clockWords(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
