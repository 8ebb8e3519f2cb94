/**
 * The long-poll transport: plain HTTP, for networks that let no WebSocket through.
 *
 * A session begins as on a socket: `POST sessions` tells role, limits and the last `n` stored. Then one GET waits for
 * records while at most one POST sends draws. Numbers, ticket and position are the same as on a socket, so a
 * client goes from one to the other and back without losing or doubling anything.
 */
import { problemRemedy } from "./code.ts";
import { decodePoll, decodeSnapshot, parseRoomInfo } from "./codec.ts";
import {
  ask,
  type Endpoint,
  JSON_TYPE,
  MSGPACK,
  type Outcome,
  REQUEST_TIMEOUT_MS,
  readBytes,
  readText,
} from "./http.ts";
import { POLL_WAIT_MAX_S } from "./limits.ts";
import { formatPosition } from "./position.ts";
import { endedByProblem, openSession, Poster } from "./poster.ts";
import { again, type Ended, type Session } from "./session.ts";
import { sleep } from "./sleep.ts";

/** The pause after a poll that came back empty sooner than it should, in ms: a proxy may answer for the server. */
const EMPTY_PAUSE_MS = 250;
/** How often it is asked who else is here, in ms. */
const PEOPLE_INTERVAL_MS = 5_000;
/** For a snapshot, in ms: a long board takes its time on a slow line. */
const SNAPSHOT_TIMEOUT_MS = 8 * REQUEST_TIMEOUT_MS;
/** Who heard something so lately, in ms, is not asked again after waking up. */
const JUST_HEARD_MS = 1_000;

/** How long to wait for what, in ms; see {@link Timing}. */
export interface PollTiming {
  readonly open: number;
  readonly poll: number;
  readonly answer: number;
}

/** A session by long-polling, until it ends. */
export class PollRun {
  readonly #endpoint: Endpoint;
  readonly #session: Session;
  readonly #timing: PollTiming;
  readonly #abort = new AbortController();
  #heard = performance.now();
  readonly #poster: Poster;
  #resolve: (ended: Ended) => void = () => {};
  /** Why it ended; never rejects. */
  readonly ended: Promise<Ended>;

  constructor(endpoint: Endpoint, session: Session, timing: PollTiming) {
    this.#endpoint = endpoint;
    this.#session = session;
    this.#timing = { ...timing, poll: Math.min(timing.poll, POLL_WAIT_MAX_S * 1000) };
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#poster = new Poster(endpoint, session, timing.answer, this.#abort.signal, (ended) =>
      this.end(ended),
    );
    void this.#run();
  }

  end(ended: Ended): void {
    this.#session.sendBy(null);
    this.#abort.abort();
    this.#resolve(ended);
  }

  /** The device woke up, and the poll that waits may have nobody at its other end: everything is asked anew. */
  wake(): void {
    if (performance.now() - this.#heard < JUST_HEARD_MS) return;
    this.end({ kind: "moved", socket: null, older: null });
  }

  async #run(): Promise<void> {
    const welcome = await openSession(this.#endpoint, this.#session, this.#timing.open, this.#abort.signal);
    if (this.#abort.signal.aborted) return;
    if ("kind" in welcome) {
      this.end(welcome);
      return;
    }
    this.#heard = performance.now();
    const ended = this.#session.onWelcome(welcome, this.#heard);
    if (ended !== null) {
      this.end(ended);
      return;
    }
    this.#session.sendBy(() => this.#poster.send());
    this.#poster.send();
    void this.#askForPeople();
    await this.#poll();
  }

  /** Polls until the session ends. */
  async #poll(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      const began = performance.now();
      const after = this.#session.replica.position;
      const query = new URLSearchParams({
        after: after === null ? "0" : formatPosition(after),
        wait: String(Math.floor(this.#timing.poll / 1000)),
      });
      const answer = await this.#ask("GET", `draws?${query}`, this.#timing.poll + REQUEST_TIMEOUT_MS);
      if (signal.aborted) return;
      let ended: Ended | null = null;
      let pause = 0;
      if (answer.kind === "none") {
        ended = again(answer.why, null);
      } else if (answer.kind === "problem") {
        const { code, retryMs } = answer.problem;
        const remedy = code === null ? null : problemRemedy(code, answer.problem.status);
        if (remedy === "reset") {
          ended = await this.#takeSnapshot();
        } else if (remedy === "retry" && code !== "draining") {
          pause = this.#session.retryAfter(retryMs);
        } else {
          ended = endedByProblem(answer.problem);
        }
      } else {
        this.#heard = performance.now();
        const page = readBytes(decodePoll, answer.body);
        if (page === null) {
          ended = again("the server's answer cannot be read", null);
        } else {
          const head = Number(answer.headers.get("Inkrelay-Head") ?? 0);
          this.#session.replica.onPolled(page.epoch, Number.isSafeInteger(head) ? head : 0);
          ended = this.#session.onRecords(page.seq, page.records);
          if (page.records.length === 0 && this.#heard - began < EMPTY_PAUSE_MS) pause = EMPTY_PAUSE_MS;
        }
      }
      if (signal.aborted) return;
      if (ended !== null) {
        this.end(ended);
        return;
      }
      if (pause > 0) await sleep(pause, signal);
    }
  }

  async #takeSnapshot(): Promise<Ended | null> {
    const answer = await this.#ask("GET", "snapshot", SNAPSHOT_TIMEOUT_MS);
    if (this.#abort.signal.aborted) return null;
    if (answer.kind === "none") return again(answer.why, null);
    if (answer.kind === "problem") return endedByProblem(answer.problem);
    const snapshot = readBytes(decodeSnapshot, answer.body);
    if (snapshot === null) return again("the server's answer cannot be read", null);
    this.#heard = performance.now();
    return this.#session.onReset(snapshot.position, snapshot.records, false);
  }

  /** A socket is told who is here; a poll has to ask. */
  async #askForPeople(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      const answer = await this.#ask("GET", "", REQUEST_TIMEOUT_MS);
      if (signal.aborted) return;
      if (answer.kind === "answer") {
        const room = readText(parseRoomInfo, answer.body);
        if (room !== null) this.#session.onRoomInfo(room.participants, room.locked);
      }
      await sleep(PEOPLE_INTERVAL_MS, signal);
    }
  }

  #ask(method: "GET" | "POST", tail: string, timeout: number): Promise<Outcome> {
    return ask(
      {
        method,
        url: this.#endpoint.url(tail),
        accept: tail === "" ? JSON_TYPE : MSGPACK,
        credentials: this.#session.credentials,
        timeout,
      },
      this.#abort.signal,
    );
  }
}
