/** The connection: which transport is used when, and what happens between two of them. */
import { asked, Backoff } from "./backoff.ts";
import { Choice } from "./choice.ts";
import { problemRemedy } from "./code.ts";
import { ask, type Endpoint, JSON_TYPE, MSGPACK } from "./http.ts";
import { PollRun } from "./long-poll.ts";
import type { State, Timing, Transport } from "./options.ts";
import { formatPosition } from "./position.ts";
import { endedByProblem, openSession } from "./poster.ts";
import { again, type Ended, lost, type Session } from "./session.ts";
import { sleep } from "./sleep.ts";
import type { Wakeup } from "./wakeups.ts";
import { openSocket, SocketRun } from "./websocket.ts";

/** An attempt that began so lately, in ms, is not begun anew after waking up. */
const JUST_BEGUN_MS = 1_000;

/** A server that said it would come back is taken at its word for that long, in ms. */
const RESTART_MS = 60_000;

const AGAIN_AT_ONCE: Ended = { kind: "moved", socket: null, older: null };

/** Who hears of it, and lends a hand. */
export interface ConnectionHost {
  onState(state: State): void;
  /** Somebody else goes on as this client: draw as another one from now on. Never rejects. */
  takeAnotherIdentity(): Promise<void>;
}

type Moved = Extract<Ended, { kind: "moved" }>;

/** See the module. */
export class Connection {
  readonly #endpoint: Endpoint;
  readonly #session: Session;
  readonly #timing: Timing;
  readonly #host: ConnectionHost;
  readonly #choice: Choice;
  readonly #backoff: Backoff;
  #state: State = { kind: "connecting" };
  #run: SocketRun | PollRun | null = null;
  /** Ends the attempt or wait that goes on, as that. */
  #interrupt: ((ended: Ended) => void) | null = null;
  #attemptBegan = 0;
  /** An open socket to go on with. */
  #carried: Moved | null = null;
  #isResting = false;
  #isClosed = false;
  /** The connection was live, and only moves to another socket: nobody is to be told. */
  #isMoving = false;
  /** When the server said that it goes away, and has not been back since; `null`: it did not. */
  #drainingSince: number | null = null;

  constructor(
    endpoint: Endpoint,
    session: Session,
    transport: Transport,
    timing: Timing,
    host: ConnectionHost,
  ) {
    this.#endpoint = endpoint;
    this.#session = session;
    this.#timing = timing;
    this.#host = host;
    this.#choice = new Choice(transport, timing);
    this.#backoff = new Backoff(timing.backoffFirst, timing.backoffMax);
  }

  get state(): State {
    return this.#state;
  }

  /** Connects, and stays connected until it is closed. Never rejects. */
  async keep(): Promise<void> {
    while (!this.#isClosed) {
      const began = performance.now();
      const carried = this.#carried;
      this.#carried = null;
      const isSocket = carried !== null || this.#choice.usesSockets;
      const ended = isSocket ? await this.#bySocket(carried) : await this.#byPolling();
      this.#run = null;
      this.#session.onDisconnected();
      const now = performance.now();
      const lived = now - began;
      if (lived >= this.#timing.young) this.#backoff.reset();
      if (isSocket) this.#choice.onSocketEnded(lived, ended.kind === "lost" && ended.blame, now);
      if (this.#isClosed) return;
      if (ended.kind === "moved") {
        this.#carried = ended.socket === null ? null : ended;
        this.#isMoving = this.#state.kind === "live";
        continue;
      }
      this.#isMoving = false;
      await this.#recover(ended);
    }
  }

  /** Tries to connect now instead of after the wait. */
  retry(): void {
    if (this.#isResting) this.#interrupt?.(AGAIN_AT_ONCE);
  }

  onWakeup(wakeup: Wakeup): void {
    if (wakeup === "offline") {
      this.#drainingSince = null;
      // The device may be wrong, and a server on it needs no network: so it is tried again as ever.
      const ended = again("this device has no network", null);
      if (this.#run !== null) this.#run.end(ended);
      else if (!this.#isResting) this.#interrupt?.(ended);
    } else if (this.#run !== null) {
      void this.#run.wake();
    } else if (this.#isResting) {
      if (this.#state.kind !== "refused") this.#interrupt?.(AGAIN_AT_ONCE);
    } else if (performance.now() - this.#attemptBegan >= JUST_BEGUN_MS) {
      this.#interrupt?.(AGAIN_AT_ONCE);
    }
  }

  /** The replica moved. */
  onProgress(): void {
    const { replica } = this.#session;
    const run = this.#run;
    if (run === null) return;
    if (replica.caughtUp) {
      this.#isMoving = false;
      this.#drainingSince = null;
      const transport = run instanceof SocketRun ? "websocket" : "long-poll";
      const { state } = this;
      if (state.kind !== "live" || state.transport !== transport) this.#tell({ kind: "live", transport });
    } else if (!this.#isMoving) {
      this.#tell({ kind: "joining", have: replica.have, head: replica.head });
    }
  }

  /** Somebody else goes on as this client. Nothing is sent as it from now on. */
  onTakenOver(): void {
    if (this.#run !== null) this.#run.end({ kind: "replaced" });
    else this.#interrupt?.({ kind: "replaced" });
  }

  close(): void {
    this.#isClosed = true;
    this.#run?.end({ kind: "closed" });
    this.#interrupt?.({ kind: "closed" });
  }

  #tell(state: State): void {
    this.#state = state;
    this.#host.onState(state);
  }

  async #bySocket(carried: Moved | null): Promise<Ended> {
    const url = this.#endpoint.websocket();
    const socket =
      carried?.socket ??
      (await this.#attempt(async (signal) => {
        const opened = await openSocket(url, this.#timing.open, signal);
        return typeof opened === "string" ? this.#whyNoSocket(opened, signal) : opened;
      }));
    if ("kind" in socket) return socket;
    const run = new SocketRun(socket, carried?.older ?? null, url, this.#session, this.#timing);
    this.#run = run;
    return run.ended;
  }

  async #byPolling(): Promise<Ended> {
    // Who was live and woke up is to know soon whether that is over.
    const open = this.#isMoving ? this.#timing.probe : this.#timing.open;
    const run = new PollRun(this.#endpoint, this.#session, { ...this.#timing, open });
    this.#run = run;
    const looking = new AbortController();
    void this.#findSocket(run, looking.signal);
    const ended = await run.ended;
    looking.abort();
    return ended;
  }

  /** Looks for a socket whenever it is time to, and moves there. */
  async #findSocket(run: PollRun, signal: AbortSignal): Promise<void> {
    for (;;) {
      const due = this.#choice.socketDue;
      if (due === null) return;
      await sleep(Math.max(due - performance.now(), 0), signal);
      if (signal.aborted) return;
      const socket = await openSocket(this.#endpoint.websocket(), this.#timing.open, signal);
      if (typeof socket !== "string") {
        // A draw whose answer is still to come goes again on the socket, and is stored once.
        if (signal.aborted) socket.close();
        else run.end({ kind: "moved", socket, older: null });
        return;
      }
      if (!signal.aborted) this.#choice.onSocketEnded(0, true, performance.now());
    }
  }

  /** A browser does not say why a socket could not be opened; the same server answers a plain question. */
  async #whyNoSocket(why: string, signal: AbortSignal): Promise<Ended> {
    const outcome = await ask(
      {
        method: "GET",
        url: this.#endpoint.url(),
        accept: JSON_TYPE,
        credentials: this.#session.credentials,
        timeout: this.#timing.open,
      },
      signal,
    );
    switch (outcome.kind) {
      case "none":
        return again(outcome.why, null);
      case "problem":
        return endedByProblem(outcome.problem);
      case "answer":
        return lost(why);
    }
  }

  /** Waits as the end of a connection demands, or sees to what it asks for. */
  async #recover(ended: Exclude<Ended, Moved>): Promise<void> {
    switch (ended.kind) {
      case "closed":
        return;
      case "lost":
        return this.#rest(ended.why, ended.retryMs, ended.draining);
      case "replaced":
        await this.#host.takeAnotherIdentity();
        return this.#rest("another tab draws as this participant", null, false);
      case "unauthorized": {
        // Ticket or token? Over HTTP the server says which.
        const answer = await this.#attempt((signal) =>
          openSession(this.#endpoint, this.#session, this.#timing.open, signal),
        );
        const said: Ended = "kind" in answer ? answer : again(ended.why, null);
        if (said.kind === "moved" || said.kind === "unauthorized") return this.#rest(ended.why, null, false);
        return this.#recover(said);
      }
      case "new-client":
        // Without a ticket it was not the ticket.
        if (!ended.lost && this.#session.outbox.ticket === null)
          return this.#stop("invalid_token", ended.why);
        return this.#becomeNew(ended.why, ended.lost);
      case "refused":
        return this.#stop(ended.code, ended.message);
    }
  }

  /** Goes on as a new client, with what the store is known not to have any more. */
  async #becomeNew(why: string, isLost: boolean): Promise<void> {
    const isOther = isLost || (await this.#isOtherLog());
    // Without an answer the ticket stays, and is refused once more when there is one.
    if (isOther !== null) this.#session.onNewClient(isOther);
    return this.#rest(why, null, false);
  }

  /**
   * Whether the server has another log than the one that was read here: a server that knows nobody's ticket any more
   * may have lost what it acked, too. `null` when it does not answer.
   */
  async #isOtherLog(): Promise<boolean | null> {
    const { position } = this.#session.replica;
    if (position === null) return false;
    const query = new URLSearchParams({ after: formatPosition(position), wait: "0", limit: "1" });
    const answer = await this.#attempt((signal) =>
      ask(
        {
          method: "GET",
          url: this.#endpoint.url(`draws?${query}`),
          accept: MSGPACK,
          credentials: { ...this.#session.credentials, ticket: null },
          timeout: this.#timing.open,
        },
        signal,
      ),
    );
    if (answer.kind === "answer") return false;
    if (answer.kind !== "problem") return null;
    const { code, status } = answer.problem;
    return code !== null && problemRemedy(code, status) === "reset";
  }

  async #rest(why: string, retryMs: number | null, draining: boolean): Promise<void> {
    const random = Math.random();
    const wait = retryMs === null ? this.#backoff.next(random) : asked(retryMs, random);
    const now = performance.now();
    if (draining) this.#drainingSince = now;
    // While it restarts it cannot be reached, and that is no other reason.
    const restarts = this.#drainingSince !== null && now - this.#drainingSince < RESTART_MS;
    this.#tell({ kind: "offline", why, retryAt: Date.now() + wait, draining: restarts });
    this.#isResting = true;
    const ended = await this.#attempt(async (signal) => {
      await sleep(wait, signal);
      return AGAIN_AT_ONCE;
    });
    this.#isResting = false;
    if (ended.kind === "replaced") await this.#host.takeAnotherIdentity();
  }

  /** Waits for someone to want another try. */
  async #stop(code: string, message: string): Promise<void> {
    this.#tell({ kind: "refused", code, message });
    this.#isResting = true;
    const ended = await this.#attempt(() => new Promise<Ended>(() => {}));
    this.#isResting = false;
    if (ended.kind === "replaced") await this.#host.takeAnotherIdentity();
  }

  /** Does something that can be interrupted. */
  async #attempt<T>(what: (signal: AbortSignal) => Promise<T>): Promise<T | Ended> {
    const abort = new AbortController();
    this.#attemptBegan = performance.now();
    const interrupted = new Promise<Ended>((resolve) => {
      this.#interrupt = resolve;
    });
    if (this.#isClosed) abort.abort();
    const result = await Promise.race([what(abort.signal), interrupted]);
    abort.abort();
    this.#interrupt = null;
    return result;
  }
}
