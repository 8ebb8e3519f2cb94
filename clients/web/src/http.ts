/** The HTTP side: addresses, requests and answers, and what a problem says. */
import { Malformed, type Problem, parseProblem } from "./codec.ts";

/** Bytes of one answer at most; a snapshot is the longest. */
const ANSWER_BYTES_MAX = 256 * 1024 * 1024;
/** How long an answer may take that need not wait for anything, in ms. A server answers within 5 s. */
export const REQUEST_TIMEOUT_MS = 15_000;

export const MSGPACK = "application/msgpack";
export const JSON_TYPE = "application/json";

/** A room on a server. */
export class Endpoint {
  readonly #base: string;
  readonly #room: string;

  /** Throws a `TypeError` when `server` is no address of a server. */
  constructor(server: string, room: string) {
    const url = new URL(server);
    const scheme = { "http:": "http:", "https:": "https:", "ws:": "http:", "wss:": "https:" }[url.protocol];
    if (scheme === undefined) throw new TypeError(`${server} is no address of a server`);
    this.#base = `${scheme}//${url.host}${url.pathname.replace(/\/+$/, "")}`;
    this.#room = encodeURIComponent(room);
  }

  /** `/v1/rooms/{room}/{tail}` below the server's own path; without a tail, the room itself. */
  url(tail = ""): string {
    const room = `${this.#base}/v1/rooms/${this.#room}`;
    return tail === "" ? room : `${room}/${tail}`;
  }

  websocket(): string {
    return this.url("ws").replace(/^http/, "ws");
  }
}

/** What became of a request. */
export type Outcome =
  | { readonly kind: "answer"; readonly headers: Headers; readonly body: Uint8Array }
  /** The server, or something on the way, said no. */
  | { readonly kind: "problem"; readonly problem: Problem }
  /** No answer, half of one, or one that cannot be read: whether the request had its effect is unknown. */
  | { readonly kind: "none"; readonly why: string };

/** Who asks. */
export interface Credentials {
  readonly ticket: string | null;
  readonly token: string | null;
}

/** What to ask for. */
export interface Request {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly accept: string;
  readonly credentials: Credentials;
  /** Of the body. */
  readonly contentType?: string;
  readonly body?: Uint8Array | string;
  /** The number of the first draw of a batch. */
  readonly n?: number;
  /** For the whole answer, in ms. */
  readonly timeout: number;
}

/** Sends a request and reads the whole answer. Never throws. */
export async function ask(request: Request, signal: AbortSignal): Promise<Outcome> {
  // `AbortSignal.any` and `.timeout` are younger than the browsers that this runs in.
  const abort = new AbortController();
  const onAbort = () => abort.abort();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    abort.abort();
  }, request.timeout);
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) abort.abort();
  try {
    const response = await fetch(request.url, {
      method: request.method,
      // A token that no header can hold throws here, and is no request.
      headers: headersOf(request),
      body: typeof request.body === "string" ? request.body : request.body ? copy(request.body) : null,
      signal: abort.signal,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
    if (!response.ok) {
      const retryAfter = response.headers.get("Retry-After");
      return { kind: "problem", problem: parseProblem(response.status, retryAfter, await response.text()) };
    }
    if (Number(response.headers.get("Content-Length") ?? 0) > ANSWER_BYTES_MAX) {
      abort.abort();
      return { kind: "none", why: `the answer has more than ${ANSWER_BYTES_MAX} bytes` };
    }
    return { kind: "answer", headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
  } catch {
    // What browsers say here is for developers, and differs in each.
    return { kind: "none", why: late ? "the server does not answer" : "the server cannot be reached" };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

function headersOf({ accept, credentials, contentType, n }: Request): Headers {
  const headers = new Headers({ Accept: accept });
  if (credentials.ticket !== null) headers.set("Inkrelay-Ticket", credentials.ticket);
  if (credentials.token !== null) headers.set("Authorization", `Bearer ${credentials.token}`);
  if (contentType !== undefined) headers.set("Content-Type", contentType);
  if (n !== undefined) headers.set("Inkrelay-N", String(n));
  return headers;
}

/** What such bytes are read as; `null` when they are none. */
export function readBytes<T>(read: (bytes: Uint8Array) => T, bytes: Uint8Array): T | null {
  try {
    return read(bytes);
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

/** As {@link readBytes}, of text. */
export function readText<T>(read: (text: string) => T, bytes: Uint8Array): T | null {
  return readBytes((bytes) => read(new TextDecoder().decode(bytes)), bytes);
}

/** A body of a buffer of its own: one that is shared with others cannot be sent. */
function copy(bytes: Uint8Array): ArrayBuffer {
  const out = new ArrayBuffer(bytes.length);
  new Uint8Array(out).set(bytes);
  return out;
}
