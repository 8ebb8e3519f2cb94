/** The HTTP side: addresses, requests and answers, and what a problem says. */
import { type Remedy, remedyOf } from "./code.ts";

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

/** What an answer of 400 or more says. */
export class Problem {
  constructor(
    readonly status: number,
    /** Empty when it is not one of ours. */
    readonly code: string,
    /** In plain words. */
    readonly message: string,
    readonly retryMs: number | null,
    /** The `n` that a gap wants. */
    readonly expected: number | null,
    /** The place of the draw at fault in its batch, from 0. */
    readonly index: number | null,
  ) {}

  static parse(status: number, retryAfter: string | null, body: string): Problem {
    const fields = parseObject(body);
    const number = (name: string): number | null => {
      const value = fields.get(name);
      return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
    };
    const text = (name: string): string => {
      const value = fields.get(name);
      return typeof value === "string" ? value : "";
    };
    const retryAfterS = /^\d{1,9}$/.test(retryAfter ?? "") ? Number(retryAfter) : null;
    return new Problem(
      status,
      text("code"),
      text("detail") || text("title") || `the server answered with HTTP status ${status}`,
      number("retry_ms") ?? (retryAfterS === null ? null : retryAfterS * 1000),
      number("expected"),
      number("index"),
    );
  }

  /** What to do about it; `undefined` when it is not one of ours, as when a proxy answered. */
  get remedy(): Remedy | undefined {
    return remedyOf(this.code);
  }
}

/** There was no answer, half of one, or one that cannot be read: whether the request had its effect is unknown. */
export class NoAnswer {
  constructor(readonly why: string) {}
}

/** What a request got. */
export interface Answer {
  readonly headers: Headers;
  readonly body: Uint8Array;
}

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
export async function ask(request: Request, signal: AbortSignal): Promise<Answer | Problem | NoAnswer> {
  const headers = new Headers({ Accept: request.accept });
  const { ticket, token } = request.credentials;
  if (ticket !== null) headers.set("Inkrelay-Ticket", ticket);
  if (token !== null) headers.set("Authorization", `Bearer ${token}`);
  if (request.contentType !== undefined) headers.set("Content-Type", request.contentType);
  if (request.n !== undefined) headers.set("Inkrelay-N", String(request.n));
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
      headers,
      body: typeof request.body === "string" ? request.body : request.body ? copy(request.body) : null,
      signal: abort.signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
    if (!response.ok) {
      return Problem.parse(response.status, response.headers.get("Retry-After"), await response.text());
    }
    if (Number(response.headers.get("Content-Length") ?? 0) > ANSWER_BYTES_MAX) {
      abort.abort();
      return new NoAnswer(`the answer has more than ${ANSWER_BYTES_MAX} bytes`);
    }
    return { headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
  } catch {
    // What browsers say here is for developers, and differs in each.
    return new NoAnswer(late ? "the server does not answer" : "the server cannot be reached");
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** The body of an answer in JSON, by field; empty when it is no object. */
export function fieldsOf(body: Uint8Array): ReadonlyMap<string, unknown> {
  return parseObject(new TextDecoder().decode(body));
}

function parseObject(text: string): ReadonlyMap<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return new Map(typeof value === "object" && value !== null ? Object.entries(value) : []);
  } catch {
    return new Map();
  }
}

/** A body of a buffer of its own: one that is shared with others cannot be sent. */
function copy(bytes: Uint8Array): ArrayBuffer {
  const out = new ArrayBuffer(bytes.length);
  new Uint8Array(out).set(bytes);
  return out;
}
