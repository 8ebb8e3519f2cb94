/** Bodies: the JSON of HTTP answers, read field by field. What is not as it should be is {@link Malformed}. */
import type { DrawName, Participant, Role, SessionLimits } from "./draw.ts";
import type { Welcome } from "./frame.ts";
import { CLIENT_MAX, CREDENTIAL_BYTES, RGBA_MAX } from "./limits.ts";
import { Malformed } from "./msgpack.ts";
import type { Position } from "./position.ts";

/** The answer to a POST of draws. */
export interface Posted {
  /** Of the first draw; `null` for a retry of a batch that is not the latest. */
  readonly seq: number | null;
  /** The head of the log. */
  readonly position: Position;
  /** How many of the draws are new. */
  readonly stored: number;
}

/** Why an HTTP call was refused. */
export interface Problem {
  readonly status: number;
  /** `null` when it was not the server that answered, but something in between. */
  readonly code: string | null;
  /** In plain words. */
  readonly message: string;
  readonly retryMs: number | null;
  /** The `n` that a gap should have begun at. */
  readonly expected: number | null;
  /** Of the draw refused, from 0. */
  readonly index: number | null;
  /** Where to take the snapshot. */
  readonly snapshot: string | null;
}

/** Reads what a session call answers. @throws {@link Malformed} */
export function parseSession(text: string): Welcome {
  const body = object(json(text));
  const ticket = body.ticket;
  if (typeof ticket !== "string" || ticket.length > CREDENTIAL_BYTES) throw new Malformed("no ticket");
  return {
    client: integer(body.client, CLIENT_MAX),
    ticket,
    position: position(body.position),
    role: role(body.role),
    limits: limits(body.limits),
  };
}

/** Reads what a POST of draws answers. @throws {@link Malformed} */
export function parsePosted(text: string): Posted {
  const body = object(json(text));
  const seq = body.seq;
  return {
    seq: seq === null || seq === undefined ? null : integer(seq),
    position: position(body.position),
    stored: integer(body.stored),
  };
}

/**
 * Reads an answer that is no success. Never throws: a proxy's page in HTML is a problem too.
 * @param retryAfter the header `Retry-After`; only its form in seconds is read
 */
export function parseProblem(status: number, retryAfter: string | null, text: string): Problem {
  let body: Record<string, unknown> = {};
  try {
    body = object(json(text));
  } catch {
    // Then only the status speaks.
  }
  const code = string(body.code);
  const seconds = /^\d{1,9}$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : null;
  return {
    status,
    code,
    message: string(body.detail) ?? `the server answered with HTTP status ${status}`,
    retryMs: integerOrNull(body.retry_ms) ?? seconds,
    expected: integerOrNull(body.expected),
    index: integerOrNull(body.index),
    snapshot: string(body.snapshot),
  };
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Malformed("an answer is no JSON");
  }
}

function object(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Malformed("an answer is no JSON object");
  }
  return Object.fromEntries(Object.entries(value));
}

function integerOrNull(value: unknown): number | null {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

function integer(value: unknown, max = Number.MAX_SAFE_INTEGER): number {
  const read = integerOrNull(value);
  if (read === null || read > max)
    throw new Malformed("an answer lacks an integer, or has one out of its range");
  return read;
}

function string(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/** The first five of an array, which position and limits both have; elements of later versions are left out. */
function five(value: unknown): readonly [number, number, number, number, number] {
  if (!Array.isArray(value)) throw new Malformed("an answer lacks an array");
  const items: readonly unknown[] = value;
  return [integer(items[0]), integer(items[1]), integer(items[2]), integer(items[3]), integer(items[4])];
}

function position(value: unknown): Position {
  const [epoch, seq, author, n, at] = five(value);
  if (epoch === 0 || author > CLIENT_MAX) throw new Malformed("an answer's position is out of its range");
  return { epoch, seq, author, n, at };
}

function limits(value: unknown): SessionLimits {
  const [bytesPerDraw, drawsPerBatch, bytesPerMessage, batchesPerSecond, lastN] = five(value);
  return { bytesPerDraw, drawsPerBatch, bytesPerMessage, batchesPerSecond, lastN };
}

function role(value: unknown): Role {
  if (value !== 0 && value !== 1 && value !== 2) throw new Malformed("no such role");
  return value;
}

/** What a room tells of itself, as far as it is of interest here. */
export interface RoomInfo {
  readonly participants: readonly Participant[];
  /** Whether only moderators draw. Servers before this field lock nothing. */
  readonly locked: boolean;
}

/** Reads what a room tells of itself. @throws {@link Malformed} */
export function parseRoomInfo(text: string): RoomInfo {
  const body = object(json(text));
  return { participants: people(body.participants), locked: body.locked === true };
}

/** What an answer to a moderator says. */
export interface ModerationAnswer {
  readonly done: boolean;
  readonly erased: number;
  /** Author and number of each record that was appended. */
  readonly records: readonly DrawName[];
}

/** Reads an answer to a moderator. @throws {@link Malformed} */
export function parseModerated(text: string): ModerationAnswer {
  const body = object(json(text));
  const records: readonly unknown[] = Array.isArray(body.records) ? body.records : [];
  return {
    done: body.done !== false,
    erased: integerOrNull(body.erased) ?? 0,
    records: records.map((item): DrawName => {
      if (!Array.isArray(item)) throw new Malformed("no name of a record");
      const [author, n]: readonly unknown[] = item;
      return [integer(author, CLIENT_MAX), integer(n)];
    }),
  };
}

function people(list: unknown): Participant[] {
  if (!Array.isArray(list)) throw new Malformed("no participants");
  return list.map((item: unknown) => {
    if (!Array.isArray(item)) throw new Malformed("no participant");
    const [client, name, rgba]: readonly unknown[] = item;
    if (typeof name !== "string") throw new Malformed("a participant has a name");
    return { client: integer(client, CLIENT_MAX), name, rgba: integer(rgba, RGBA_MAX) };
  });
}
