/** The timeline: a room's whole log, page by page from its start, read without taking part. */
import { Backoff } from "./backoff.ts";
import { decodePoll } from "./codec.ts";
import type { LogRecord } from "./draw.ts";
import { ask, type Endpoint, MSGPACK, REQUEST_TIMEOUT_MS, readBytes } from "./http.ts";
import { POLL_RECORDS_MAX } from "./limits.ts";
import { sleep } from "./sleep.ts";

/** Attempts at one page. */
const ATTEMPTS_MAX = 5;
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 4_000;

/** Some records of the log. */
export interface LogPage {
  /** The number of the first. */
  readonly first: number;
  readonly records: readonly LogRecord[];
  /** The newest record's number. */
  readonly head: number;
}

/** The log so far, in order. Throws an `Error` when a page is not to be had, or when the signal aborts. */
export async function* readTimeline(
  endpoint: Endpoint,
  token: string | null,
  signal: AbortSignal,
): AsyncGenerator<LogPage, void, void> {
  let after = "0";
  for (;;) {
    const { page, next } = await readPage(endpoint, token, after, signal);
    if (page.records.length > 0) yield page;
    // Without a next position the same page would come again and again.
    const isLast = page.records.length === 0 || page.first + page.records.length > page.head;
    if (isLast || next === null || next === after) return;
    after = next;
  }
}

async function readPage(
  endpoint: Endpoint,
  token: string | null,
  after: string,
  signal: AbortSignal,
): Promise<{ readonly page: LogPage; readonly next: string | null }> {
  const query = new URLSearchParams({ after, wait: "0", limit: String(POLL_RECORDS_MAX) });
  const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS);
  // A poll with a ticket would count as being here.
  const reader = { ticket: null, token };
  let why = "";
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    if (attempt > 0) await sleep(backoff.next(Math.random()), signal);
    if (signal.aborted) throw new Error("the history is no longer wanted");
    const url = endpoint.url(`draws?${query}`);
    const outcome = await ask(
      { method: "GET", url, accept: MSGPACK, credentials: reader, timeout: REQUEST_TIMEOUT_MS },
      signal,
    );
    if (outcome.kind === "none") {
      why = outcome.why;
    } else if (outcome.kind === "problem") {
      why = outcome.problem.message;
      if (outcome.problem.code === "position_gone") break;
    } else {
      const polled = readBytes(decodePoll, outcome.body);
      if (polled !== null) {
        const { seq: first, records } = polled;
        const head = Number(outcome.headers.get("Inkrelay-Head"));
        const page = { first, records, head: Number.isSafeInteger(head) ? head : first + records.length - 1 };
        return { page, next: outcome.headers.get("Inkrelay-Position") };
      }
      why = "the server's answer cannot be read";
    }
  }
  if (signal.aborted) throw new Error("the history is no longer wanted");
  throw new Error(`the history cannot be read: ${why}`);
}
