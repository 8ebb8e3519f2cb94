/** The poster: sends what an outbox holds over HTTP, at most one batch at a time. */
import { problemRemedy } from "./code.ts";
import { encodeBatch, type Problem, parsePosted, parseSession, type Welcome } from "./codec.ts";
import { ask, type Endpoint, JSON_TYPE, MSGPACK, type Outcome, readText } from "./http.ts";
import type { Batch } from "./outbox.ts";
import { again, type Ended, endedBy, type Session } from "./session.ts";

/** See the module. */
export class Poster {
  readonly #endpoint: Endpoint;
  readonly #session: Session;
  readonly #signal: AbortSignal;
  readonly #answerMs: number;
  readonly #onEnded: (ended: Ended) => void;
  #isPosting = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * Sends until the signal. `answerMs`: how long an answer may take; `onEnded` hears of what ends the session. Send
   * only after its welcome.
   */
  constructor(
    endpoint: Endpoint,
    session: Session,
    answerMs: number,
    signal: AbortSignal,
    onEnded: (ended: Ended) => void,
  ) {
    this.#endpoint = endpoint;
    this.#session = session;
    this.#answerMs = answerMs;
    this.#signal = signal;
    this.#onEnded = onEnded;
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
  }

  /** Sends one batch after the other, for as long as there are any. */
  send(): void {
    if (!this.#isPosting) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isPosting = true;
    const signal = this.#signal;
    while (!signal.aborted) {
      if (this.#session.takeNewProfile()) {
        // The answer says nothing that is not known; a failure shows itself elsewhere.
        await openSession(this.#endpoint, this.#session, this.#answerMs, signal);
        continue;
      }
      const now = performance.now();
      const next = this.#session.outbox.next(now);
      if (next.kind === "batch") {
        const answer = await ask(
          {
            method: "POST",
            url: this.#endpoint.url("draws"),
            accept: JSON_TYPE,
            credentials: this.#session.credentials,
            contentType: MSGPACK,
            body: encodeBatch(next.batch.draws),
            n: next.batch.n,
            timeout: this.#answerMs,
          },
          signal,
        );
        if (signal.aborted) break;
        const ended = this.#onAnswer(next.batch, answer);
        if (ended !== null) {
          this.#onEnded(ended);
          break;
        }
        continue;
      }
      if (next.kind === "wait") {
        this.#timer = setTimeout(() => this.send(), Math.max(next.at - now, 0) + 1);
      }
      break;
    }
    this.#isPosting = false;
  }

  /** Takes the answer to a batch. */
  #onAnswer(batch: Batch, answer: Outcome): Ended | null {
    const now = performance.now();
    if (answer.kind === "none") return again(answer.why, null);
    if (answer.kind === "answer") {
      // Anybody can answer with 200; a server says what it stored.
      if (readText(parsePosted, answer.body) === null)
        return again("the server's answer cannot be read", null);
      this.#session.onAck(batch.lastN, now);
      return null;
    }
    const { problem } = answer;
    // A proxy has a limit of its own on what may be sent, and no code for it.
    const code = problem.code ?? (problem.status === 413 ? "too_large" : null);
    if (code === null) return again(problem.message, problem.retryMs);
    const remedy = problemRemedy(code, problem.status);
    // All others that nothing helps against are about who asks and where: the draws are as good as before.
    const isOfDraws = remedy === "drop" || code === "room_full" || code === "malformed";
    let n: number | null = null;
    if (remedy === "renumber") n = problem.expected;
    else if (remedy === "retry") n = batch.n;
    else if (isOfDraws && problem.index !== null) n = batch.n + problem.index;
    else if (isOfDraws && batch.draws.length === 1) n = batch.n;
    else if (isOfDraws) {
      this.#session.onRefusedSomewhere(batch.lastN);
      return null;
    }
    if (n === null) return endedByProblem(problem);
    return this.#session.onError(code, problem.message, problem.retryMs, n, now);
  }
}

/** `POST sessions`: resumes the ticket's client, or makes a new one without a ticket. Within that time, in ms. */
export async function openSession(
  endpoint: Endpoint,
  session: Session,
  within: number,
  signal: AbortSignal,
): Promise<Welcome | Ended> {
  session.takeNewProfile();
  const { profile } = session;
  const answer = await ask(
    {
      method: "POST",
      url: endpoint.url("sessions"),
      accept: JSON_TYPE,
      credentials: session.credentials,
      contentType: JSON_TYPE,
      body: JSON.stringify(profile === null ? {} : { profile: [profile.name, profile.rgba] }),
      timeout: within,
    },
    signal,
  );
  if (answer.kind === "none") return again(answer.why, null);
  if (answer.kind === "problem") return endedByProblem(answer.problem);
  return readText(parseSession, answer.body) ?? again("the server's answer cannot be read", null);
}

/** What a problem means for a whole session. One that is not ours was said by something on the way. */
export function endedByProblem(problem: Problem): Ended {
  const { code, message, retryMs } = problem;
  return code === null
    ? again(message, retryMs)
    : endedBy(problemRemedy(code, problem.status), code, message, retryMs);
}
