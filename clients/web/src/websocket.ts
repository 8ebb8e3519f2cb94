/** The WebSocket transport: opens sockets, and runs a session over one. */
import { CloseCode, closeRemedy } from "./code.ts";
import { decodeServerFrame } from "./codec.ts";
import { readBytes } from "./http.ts";
import { again, type Ended, endedBy, lost, type Session } from "./session.ts";

const SUBPROTOCOL = "v1.msgpack.inkrelay";
/** Bytes that wait for a slow network; beyond it, nothing more is given to the socket for a while. */
const BUFFERED_BYTES_MAX = 512 * 1024;
/** Then it is looked again after this time, in ms. */
const BUFFERED_PAUSE_MS = 50;
/** Who heard something so lately, in ms, need not probe. */
const JUST_HEARD_MS = 1_000;

/** Opens a socket within that time in ms. Without one: why not. */
export function openSocket(url: string, within: number, signal: AbortSignal): Promise<WebSocket | string> {
  return new Promise((resolve) => {
    let socket: WebSocket;
    try {
      socket = new WebSocket(url, SUBPROTOCOL);
    } catch (error) {
      // Such as a page over https and a server without.
      resolve(`no WebSocket can be opened: ${error instanceof Error ? error.message : String(error)}`);
      return;
    }
    socket.binaryType = "arraybuffer";
    const done = (result: WebSocket | string) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      socket.onopen = null;
      socket.onclose = null;
      // A browser throws nothing for an error that nobody hears; in Node it would.
      socket.onerror = () => {};
      if (result !== socket) socket.close();
      resolve(result);
    };
    const onAbort = () => done("it is no longer wanted");
    const timer = setTimeout(() => done("no WebSocket could be opened in time"), within);
    signal.addEventListener("abort", onAbort);
    socket.onopen = () => done(socket);
    socket.onerror = () => done("no WebSocket could be opened");
    socket.onclose = () => done("no WebSocket could be opened");
    if (signal.aborted) onAbort();
  });
}

/** How long to wait for what, in ms; see {@link Timing}. */
export interface SocketTiming {
  readonly open: number;
  readonly silence: number;
  readonly probe: number;
  readonly answer: number;
}

/** A session over an open socket, until it ends. */
export class SocketRun {
  readonly #socket: WebSocket;
  readonly #older: WebSocket | null;
  readonly #url: string;
  readonly #session: Session;
  readonly #timing: SocketTiming;
  /** Ends the probe that goes on. */
  #probing: AbortController | null = null;
  #welcomed = false;
  #heard = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #resolve: (ended: Ended) => void = () => {};
  /** Why it ended; never rejects. */
  readonly ended: Promise<Ended>;

  /** `older`: a socket of the same client that may be dead; the new one's welcome ends it. */
  constructor(
    socket: WebSocket,
    older: WebSocket | null,
    url: string,
    session: Session,
    timing: SocketTiming,
  ) {
    this.#socket = socket;
    this.#older = older;
    this.#url = url;
    this.#session = session;
    this.#timing = timing;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    socket.onmessage = (event: MessageEvent<unknown>) => this.#onMessage(event.data);
    socket.onclose = (event) => this.#end(closed(event.code, event.reason));
    socket.onerror = () => {};
    // It may have been closed since it was opened.
    if (socket.readyState !== WebSocket.OPEN) {
      this.#end(lost("the connection broke"));
      return;
    }
    socket.send(whole(session.hello()));
    session.sendBy(() => this.#pump());
    this.#pump();
  }

  /** Says goodbye. */
  close(): void {
    this.#end({ kind: "closed" });
  }

  /** Ends it as that. */
  end(ended: Ended): void {
    this.#end(ended);
  }

  /**
   * The device woke up, and the socket may be dead without knowing. The protocol has no question that a server would
   * have to answer, so the probe is a second socket: whichever is heard of first is the one to go on with. With the
   * same ticket it takes the place of the first.
   */
  async wake(): Promise<void> {
    if (this.#probing !== null || performance.now() - this.#heard < JUST_HEARD_MS) return;
    const probing = new AbortController();
    this.#probing = probing;
    const result = await openSocket(this.#url, this.#timing.probe, probing.signal);
    if (typeof result !== "string") {
      // It was heard of, or ended, in the same moment.
      if (probing.signal.aborted) result.close();
      else this.#end({ kind: "moved", socket: result, older: this.#socket });
    } else if (!probing.signal.aborted) {
      this.#end(again("the network does not answer", null));
    }
  }

  #onMessage(data: unknown): void {
    this.#heard = performance.now();
    // The socket lives.
    this.#endProbe();
    if (!(data instanceof ArrayBuffer)) {
      this.#end(lost("the server sent text where binary was agreed"));
      return;
    }
    const frame = readBytes(decodeServerFrame, new Uint8Array(data));
    if (frame === null) {
      this.#end(again("the server sent what is no frame", null));
      return;
    }
    const ended = this.#session.onFrame(frame, this.#heard);
    if (ended !== null) {
      this.#end(ended);
      return;
    }
    if (frame.kind === "welcome") {
      this.#welcomed = true;
      this.#older?.close(CloseCode.DONE);
    }
    this.#session.wake();
  }

  #endProbe(): void {
    this.#probing?.abort();
    this.#probing = null;
  }

  /** Sends what there is, and looks whether the other side still lives. */
  #pump(): void {
    clearTimeout(this.#timer);
    const now = performance.now();
    const silentAt = this.#heard + (this.#welcomed ? this.#timing.silence : this.#timing.open);
    const due = this.#session.outbox.answerDue(this.#timing.answer);
    if (now >= silentAt) {
      this.#end(lost("nothing came from the server for too long"));
      return;
    }
    if (due !== null && now >= due) {
      this.#end(lost("the server did not answer to draws"));
      return;
    }
    let wakeAt = silentAt;
    if (this.#welcomed) {
      if (this.#socket.bufferedAmount > BUFFERED_BYTES_MAX) {
        wakeAt = now + BUFFERED_PAUSE_MS;
      } else {
        const { frames, again: askAgain } = this.#session.frames(now);
        for (const frame of frames) this.#socket.send(whole(frame));
        if (askAgain !== null) wakeAt = Math.min(wakeAt, askAgain);
      }
      const answerDue = this.#session.outbox.answerDue(this.#timing.answer);
      if (answerDue !== null) wakeAt = Math.min(wakeAt, answerDue);
    }
    // A timer may fire a little early by another clock; one ms more spares a second round.
    this.#timer = setTimeout(() => this.#pump(), Math.max(wakeAt - now, 0) + 1);
  }

  #end(ended: Ended): void {
    clearTimeout(this.#timer);
    this.#endProbe();
    this.#session.sendBy(null);
    this.#socket.onmessage = null;
    this.#socket.onclose = null;
    this.#older?.close(CloseCode.DONE);
    if (ended.kind !== "moved") this.#socket.close(CloseCode.DONE);
    this.#resolve(ended);
  }
}

/** What a close says. */
function closed(code: number, reason: string): Ended {
  if (code === CloseCode.REPLACED) return { kind: "replaced" };
  const why = reason === "" ? `the server closed the connection with code ${code}` : reason;
  if (code === CloseCode.UNAUTHORIZED) return { kind: "unauthorized", why };
  if (code === CloseCode.GOING_AWAY) return again(why, null, true);
  // A server has no reason to be done before its client is; proxies say so when a socket was idle.
  if (code === CloseCode.DONE) return lost(why);
  const remedy = closeRemedy(code);
  if (remedy !== "retry") return endedBy(remedy, String(code), why, null);
  // What is cut without a word, or for being slow, may be a network that has no liking for sockets.
  const isServers = code === CloseCode.TRY_AGAIN_LATER || code === CloseCode.OUT_OF_STEP;
  return isServers ? again(why, null) : lost(code === 1006 ? "the connection broke" : why);
}

/** A buffer of its own: one that is shared with others cannot be sent. */
function whole(bytes: Uint8Array): ArrayBuffer {
  const out = new ArrayBuffer(bytes.length);
  new Uint8Array(out).set(bytes);
  return out;
}
