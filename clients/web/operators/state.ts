/** The relay's state at one moment, as `/api/state` tells it. Counts only grow: two states tell a rate. */
import { fields, list, number, optional, text } from "./json.ts";

/** How often something was up to each bound, in seconds, and above the one before; the last bound is infinite. */
export type Buckets = readonly (readonly [bound: number, count: number])[];

export interface State {
  /** Milliseconds since 1970, by the relay's clock. */
  readonly at: number;
  readonly version: string;
  readonly isDraining: boolean;
  readonly connections: number;
  readonly sessions: { readonly websocket: number; readonly longPoll: number; readonly events: number };
  readonly rooms: number;
  readonly tailBytes: number;
  readonly draws: number;
  readonly receivedBytes: number;
  readonly recordsSent: number;
  readonly sentBytes: number;
  readonly resumes: number;
  readonly resets: number;
  readonly gapsHealed: number;
  readonly slowReadersClosed: number;
  /** By code; those that never came are missing. */
  readonly refused: ReadonlyMap<string, number>;
  readonly append: Buckets;
  readonly delivery: Buckets;
  readonly store: {
    readonly description: string;
    readonly isUp: boolean;
    /** Milliseconds; `null` when it gave no answer. */
    readonly roundtrip: number | null;
    readonly reconnects: number;
  };
  /** The part of the last second in which each worker was not idle, 0 to 1. */
  readonly workers: readonly number[];
  readonly queueDepth: number;
  /** `null` where the relay's system does not tell. */
  readonly process: ProcessState | null;
}

export interface ProcessState {
  /** Seconds. */
  readonly cpu: number;
  readonly residentBytes: number;
  readonly openFiles: number;
  readonly maxOpenFiles: number | null;
  readonly threads: number;
  /** Seconds since 1970. */
  readonly startedAt: number;
  /** Busy and all ticks of each core of the machine. */
  readonly cores: readonly (readonly [busy: number, all: number])[];
  readonly memoryBytes: number;
  readonly availableBytes: number;
}

/** Reads a state; what the relay does not tell is 0, empty or `null`. */
export function parseState(json: unknown): State {
  const it = fields(json);
  const sessions = fields(it.sessions);
  const store = fields(it.store);
  return {
    at: number(it.at_ms),
    version: text(it.version),
    isDraining: it.is_draining === true,
    connections: number(it.connections),
    sessions: {
      websocket: number(sessions.websocket),
      longPoll: number(sessions.long_poll),
      events: number(sessions.events),
    },
    rooms: number(it.rooms),
    tailBytes: number(it.tail_bytes),
    draws: number(it.draws),
    receivedBytes: number(it.received_bytes),
    recordsSent: number(it.records_sent),
    sentBytes: number(it.sent_bytes),
    resumes: number(it.resumes),
    resets: number(it.resets),
    gapsHealed: number(it.gaps_healed),
    slowReadersClosed: number(it.slow_readers_closed),
    refused: new Map(Object.entries(fields(it.refused)).map(([code, count]) => [code, number(count)])),
    append: parseBuckets(it.append),
    delivery: parseBuckets(it.delivery),
    store: {
      description: text(store.description),
      isUp: store.is_up === true,
      roundtrip: optional(store.roundtrip_ms),
      reconnects: number(store.reconnects),
    },
    workers: list(it.workers).map(number),
    queueDepth: number(it.queue_depth),
    process: it.process === null || it.process === undefined ? null : parseProcess(fields(it.process)),
  };
}

function parseBuckets(json: unknown): Buckets {
  return list(json).map((pair) => {
    const [bound, count] = list(pair);
    return [optional(bound) ?? Number.POSITIVE_INFINITY, number(count)];
  });
}

function parseProcess(it: ReturnType<typeof fields>): ProcessState {
  return {
    cpu: number(it.cpu_s),
    residentBytes: number(it.resident_bytes),
    openFiles: number(it.open_files),
    maxOpenFiles: optional(it.max_open_files),
    threads: number(it.threads),
    startedAt: number(it.started_at_s),
    cores: list(it.cores).map((core) => {
      const [busy, all] = list(core);
      return [number(busy), number(all)];
    }),
    memoryBytes: number(it.memory_bytes),
    availableBytes: number(it.available_bytes),
  };
}
