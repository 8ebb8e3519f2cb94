/**
 * The history: what two states in a row tell, for the last ten minutes and no longer, so that a page that is open for a
 * week holds as much as one that is open for ten minutes.
 */
import type { Buckets, State } from "./state.ts";

/** Moments that are kept, one a second. */
export const KEPT = 600;
/** Cores and workers that are shown one by one; of more there are the mean and the busiest. */
export const SHOWN_ONE_BY_ONE = 8;

/** A value at each moment; `null` where it is not known. */
export type Values = (number | null)[];

export class History {
  /** Seconds since 1970. */
  readonly times: number[] = [];
  readonly #tracks = new Map<string, Values>();
  #before: State | null = null;

  /** Takes the next state. `null` when the relay gave none, at that time in milliseconds. */
  push(state: State | null, at: number): void {
    this.times.push((state?.at ?? at) / 1000);
    const values = state === null ? new Map<string, number | null>() : measured(this.#before, state);
    for (const name of values.keys()) {
      if (!this.#tracks.has(name)) this.#tracks.set(name, new Array(this.times.length - 1).fill(null));
    }
    for (const [name, track] of this.#tracks) track.push(values.get(name) ?? null);
    while (this.times.length > KEPT) {
      this.times.shift();
      for (const track of this.#tracks.values()) track.shift();
    }
    for (const [name, track] of this.#tracks) {
      // What has not been told for all that time is no longer there, such as a core.
      if (track.every((value) => value === null)) this.#tracks.delete(name);
    }
    this.#before = state;
  }

  /** The values of a track, as long as {@link times}. */
  track(name: string): Values {
    return this.#tracks.get(name) ?? new Array(this.times.length).fill(null);
  }

  has(name: string): boolean {
    return this.#tracks.has(name);
  }

  /** The newest value of a track. */
  latest(name: string): number | null {
    return this.#tracks.get(name)?.at(-1) ?? null;
  }

  /** How many numbers are held, for whoever wonders. */
  get size(): number {
    return this.times.length * (this.#tracks.size + 1);
  }
}

function measured(before: State | null, now: State): Map<string, number | null> {
  const values = new Map<string, number | null>([
    ["websocket", now.sessions.websocket],
    ["longPoll", now.sessions.longPoll],
    ["events", now.sessions.events],
    ["connections", now.connections],
    ["rooms", now.rooms],
    ["tailBytes", now.tailBytes],
    ["roundtrip", now.store.roundtrip],
    ["queueDepth", now.queueDepth],
    ["residentBytes", now.process?.residentBytes ?? null],
    ["machineBytes", now.process === null ? null : now.process.memoryBytes - now.process.availableBytes],
    ["openFiles", now.process?.openFiles ?? null],
  ]);
  several(values, "worker", now.workers);
  const seconds = before === null ? 0 : (now.at - before.at) / 1000;
  // The first state tells no rate, and neither does one after a restart: then its counts are smaller.
  if (before === null || seconds <= 0 || now.draws < before.draws || now.recordsSent < before.recordsSent)
    return values;
  const rate = (count: (state: State) => number) => Math.max(0, count(now) - count(before)) / seconds;
  values.set(
    "draws",
    rate((state) => state.draws),
  );
  values.set(
    "receivedBytes",
    rate((state) => state.receivedBytes),
  );
  values.set(
    "recordsSent",
    rate((state) => state.recordsSent),
  );
  values.set(
    "sentBytes",
    rate((state) => state.sentBytes),
  );
  values.set(
    "refused",
    rate((state) => sum(state.refused.values())),
  );
  values.set(
    "slowReaders",
    rate((state) => state.slowReadersClosed),
  );
  values.set(
    "resets",
    rate((state) => state.resets),
  );
  values.set(
    "resumes",
    rate((state) => state.resumes),
  );
  values.set(
    "gapsHealed",
    rate((state) => state.gapsHealed),
  );
  values.set(
    "reconnects",
    rate((state) => state.store.reconnects),
  );
  for (const name of ["append", "delivery"] as const) {
    const buckets = between(before[name], now[name]);
    values.set(`${name}50`, milliseconds(quantile(buckets, 0.5)));
    values.set(`${name}99`, milliseconds(quantile(buckets, 0.99)));
  }
  const earlier = before.process;
  if (now.process !== null && earlier !== null) {
    const cores = now.process.cores.map(([busy, all], index) => {
      const [busyBefore, allBefore] = earlier.cores[index] ?? [busy, all];
      return all > allBefore ? (busy - busyBefore) / (all - allBefore) : 0;
    });
    several(values, "core", cores);
    const share = (now.process.cpu - earlier.cpu) / seconds / Math.max(1, cores.length);
    values.set("relayCpu", Math.max(0, share));
  }
  return values;
}

/** One track each, or the mean and the busiest of many. */
function several(values: Map<string, number | null>, name: string, parts: readonly number[]): void {
  if (parts.length <= SHOWN_ONE_BY_ONE) {
    parts.forEach((part, index) => {
      values.set(`${name}${index}`, part);
    });
  } else {
    values.set(`${name}Mean`, sum(parts) / parts.length);
    values.set(
      `${name}Max`,
      parts.reduce((most, part) => Math.max(most, part), 0),
    );
  }
}

function milliseconds(seconds: number | null): number | null {
  return seconds === null ? null : seconds * 1000;
}

function sum(numbers: Iterable<number>): number {
  let all = 0;
  for (const number of numbers) all += number;
  return all;
}

function between(before: Buckets, now: Buckets): Buckets {
  return now.map(([bound, count], index) => [bound, Math.max(0, count - (before[index]?.[1] ?? 0))]);
}

/** The value below which that part of all is, as far as buckets tell; `null` when there are none. */
export function quantile(buckets: Buckets, part: number): number | null {
  const all = sum(buckets.map(([, count]) => count));
  if (all === 0) return null;
  let below = 0;
  let low = 0;
  for (const [bound, count] of buckets) {
    if (below + count >= part * all && count > 0) {
      // Above the last bound nothing is known but that.
      if (!Number.isFinite(bound)) return low;
      return low + ((part * all - below) / count) * (bound - low);
    }
    below += count;
    if (Number.isFinite(bound)) low = bound;
  }
  return low;
}
