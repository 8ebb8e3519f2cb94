/** Frames: what goes over the WebSocket, in both directions. */
import { Encoder } from "@msgpack/msgpack";
import type { LogRecord, Participant, Profile, Role, SessionLimits } from "./draw.ts";
import { CLIENT_MAX, COORDINATE_MAX, CREDENTIAL_BYTES, RGBA_MAX } from "./limits.ts";
import { Fields, Malformed, Reader } from "./msgpack.ts";
import type { Position } from "./position.ts";
import { readRecords } from "./record.ts";

const SAFE = Number.MAX_SAFE_INTEGER;
const TAG = { HELLO: 1, DRAWS: 2, POINTER: 3, PROFILE: 4, TOKEN: 5 } as const;

/** A frame from a server. */
export type ServerFrame =
  /** The session is open; then what the client lacks follows. `position` is the head of the log. */
  | ({ readonly kind: "welcome" } & Welcome)
  /** The next records that the client lacks; `seq` numbers the first. */
  | { readonly kind: "records"; readonly seq: number; readonly records: readonly LogRecord[] }
  /** All of the client's draws up to `n` are stored, and number `n` stands at `seq`. */
  | { readonly kind: "ack"; readonly n: number; readonly seq: number }
  /** Forget the board; these records draw it as of the position. With `more`, another part follows. */
  | {
      readonly kind: "reset";
      readonly position: Position;
      readonly records: readonly LogRecord[];
      readonly more: boolean;
    }
  /** Everyone who is here. */
  | { readonly kind: "participants"; readonly participants: readonly Participant[] }
  /** Where somebody else's pen hovers, in sixteenths of a CSS pixel. */
  | { readonly kind: "pointer"; readonly client: number; readonly x: number; readonly y: number }
  /** Nothing was sent for a while; the head of the log. */
  | { readonly kind: "heartbeat"; readonly position: Position }
  /** Something was refused or got no answer. `n` is the first draw refused, or for a gap the number expected. */
  | {
      readonly kind: "error";
      readonly code: string;
      readonly message: string;
      readonly retryMs: number | null;
      readonly n: number | null;
    }
  /** The server is draining: reconnect after that time. */
  | { readonly kind: "goAway"; readonly reason: string; readonly retryMs: number }
  /** Whether only moderators draw. */
  | { readonly kind: "lock"; readonly locked: boolean }
  /** Of a tag that a later version knows. */
  | { readonly kind: "unknown"; readonly tag: number };

/** How a session begins, over either transport. */
export interface Welcome {
  readonly client: number;
  /** Resumes the client id. A secret. */
  readonly ticket: string;
  readonly position: Position;
  readonly role: Role;
  readonly limits: SessionLimits;
}

/** The first frame of a connection. */
export interface Hello {
  readonly ticket: string | null;
  /** The last record that the client has; `null`: from the start. */
  readonly position: Position | null;
  readonly profile: Profile | null;
  readonly token: string | null;
}

const encoder = new Encoder();

/** Bytes that a frame of draws or a batch has besides its draws, at most: a head, the tag, `n`, and the array's head. */
export const FRAME_BYTES = 1 + 1 + 9 + 5;

export function encodeHello(hello: Hello): Uint8Array {
  const { ticket, position, profile, token } = hello;
  const fields = [ticket, position && wirePosition(position), profile && wireProfile(profile), token];
  return encoder.encode([TAG.HELLO, ...fields]);
}

/** Draws to store, each as `encodeDraw` made it; `n` numbers the first. At least one. */
export function encodeDraws(n: number, draws: readonly Uint8Array[]): Uint8Array {
  const number = encoder.encode(n);
  return join([Uint8Array.of(0x93, TAG.DRAWS), number, encodeBatch(draws)]);
}

/** The same draws as the body of a POST. */
export function encodeBatch(draws: readonly Uint8Array[]): Uint8Array {
  return join([arrayHead(draws.length), ...draws]);
}

/** Where the pen hovers, in sixteenths of a CSS pixel. Brought into the board, and to whole numbers. */
export function encodePointer(x: number, y: number): Uint8Array {
  return encoder.encode([TAG.POINTER, coordinate(x), coordinate(y)]);
}

export function encodeProfile(profile: Profile): Uint8Array {
  return encoder.encode([TAG.PROFILE, wireProfile(profile)]);
}

export function encodeToken(token: string): Uint8Array {
  return encoder.encode([TAG.TOKEN, token]);
}

/** Reads one whole frame. @throws {@link Malformed} when the bytes are none. */
export function decodeServerFrame(bytes: Uint8Array): ServerFrame {
  const fields = new Fields(new Reader(bytes));
  const tag = fields.required().int();
  if (tag < 0) throw new Malformed("a frame's tag is an integer from 0 up");
  const frame = readFrame(tag, fields);
  fields.close();
  return frame;
}

function readFrame(tag: number, fields: Fields): ServerFrame {
  switch (tag) {
    case 65:
      return {
        kind: "welcome",
        client: readClient(fields),
        ticket: fields.required().str(CREDENTIAL_BYTES),
        position: readPosition(fields.required()),
        role: readRole(fields.required()),
        limits: readLimits(fields.required()),
      };
    case 66:
      return { kind: "records", seq: readSafe(fields), records: readRecords(fields.required()) };
    case 67:
      return { kind: "ack", n: readSafe(fields), seq: readSafe(fields) };
    case 68: {
      const epoch = readEpoch(fields);
      const seq = readSafe(fields);
      const records = readRecords(fields.required());
      const more = fields.required().bool();
      const position = { epoch, seq, author: readClient(fields), n: readSafe(fields), at: readSafe(fields) };
      return { kind: "reset", position, records, more };
    }
    case 69:
      return { kind: "participants", participants: readParticipants(fields.required()) };
    case 70:
      return {
        kind: "pointer",
        client: readClient(fields),
        x: readCoordinate(fields),
        y: readCoordinate(fields),
      };
    case 71:
      return { kind: "heartbeat", position: readPosition(fields.required()) };
    case 72: {
      const code = fields.required().str();
      const message = fields.required().str();
      return { kind: "error", code, message, retryMs: readOptional(fields), n: readOptional(fields) };
    }
    case 73:
      return { kind: "goAway", reason: fields.required().str(), retryMs: readSafe(fields) };
    case 75:
      return { kind: "lock", locked: fields.required().bool() };
    default:
      return { kind: "unknown", tag };
  }
}

/** The answer to a poll: `seq` numbers the first record, or the next if there is none. */
export interface Polled {
  readonly epoch: number;
  readonly seq: number;
  readonly records: readonly LogRecord[];
}

/** Reads a poll's answer. @throws {@link Malformed} when it is none. */
export function decodePoll(bytes: Uint8Array): Polled {
  const fields = new Fields(new Reader(bytes));
  const polled = { epoch: readEpoch(fields), seq: readSafe(fields), records: readRecords(fields.required()) };
  fields.close();
  return polled;
}

/** Records that draw the board as of a position. */
export interface Snapshot {
  readonly position: Position;
  readonly records: readonly LogRecord[];
}

/** Reads a snapshot. @throws {@link Malformed} when it is none. */
export function decodeSnapshot(bytes: Uint8Array): Snapshot {
  const fields = new Fields(new Reader(bytes));
  const epoch = readEpoch(fields);
  const seq = readSafe(fields);
  const records = readRecords(fields.required());
  const position = { epoch, seq, author: readClient(fields), n: readSafe(fields), at: readSafe(fields) };
  fields.close();
  return { position, records };
}

function readSafe(fields: Fields): number {
  return fields.required().within(0, SAFE, "an integer is 0 to 2^53 - 1");
}

function readOptional(fields: Fields): number | null {
  return fields.optional()?.within(0, SAFE, "an integer is 0 to 2^53 - 1") ?? null;
}

function readEpoch(fields: Fields): number {
  return fields.required().within(1, SAFE, "an epoch is 1 to 2^53 - 1");
}

function readClient(fields: Fields): number {
  return fields.required().within(0, CLIENT_MAX, "a client is at most 2^48 - 1");
}

function readCoordinate(fields: Fields): number {
  const reason = "a coordinate is within 2^30 sixteenths of a pixel of the origin";
  return fields.required().within(-COORDINATE_MAX, COORDINATE_MAX, reason);
}

function readRole(reader: Reader): Role {
  const role = reader.int();
  if (role !== 0 && role !== 1 && role !== 2) throw new Malformed("no such role");
  return role;
}

function readPosition(reader: Reader): Position {
  const fields = new Fields(reader);
  const position = {
    epoch: readEpoch(fields),
    seq: readSafe(fields),
    author: readClient(fields),
    n: readSafe(fields),
    at: readSafe(fields),
  };
  fields.close();
  return position;
}

function readLimits(reader: Reader): SessionLimits {
  const fields = new Fields(reader);
  const limits = {
    bytesPerDraw: readSafe(fields),
    drawsPerBatch: readSafe(fields),
    bytesPerMessage: readSafe(fields),
    batchesPerSecond: readSafe(fields),
    lastN: readSafe(fields),
  };
  fields.close();
  return limits;
}

function readParticipants(reader: Reader): Participant[] {
  const participants: Participant[] = [];
  for (let left = reader.array(); left > 0; left -= 1) {
    const fields = new Fields(reader);
    const client = readClient(fields);
    const name = fields.required().str();
    participants.push({ client, name, rgba: fields.required().within(0, RGBA_MAX, "rgba has 32 bits") });
    fields.close();
  }
  return participants;
}

function wirePosition({ epoch, seq, author, n, at }: Position): readonly number[] {
  return [epoch, seq, author, n, at];
}

function wireProfile({ name, rgba }: Profile): readonly [string, number] {
  return [name, rgba];
}

function coordinate(value: number): number {
  // `| 0` would wrap what lies far outside; and NaN becomes the origin.
  return Math.round(Math.min(Math.max(value, -COORDINATE_MAX), COORDINATE_MAX)) || 0;
}

function arrayHead(length: number): Uint8Array {
  if (length <= 0x0f) return Uint8Array.of(0x90 | length);
  if (length <= 0xffff) return Uint8Array.of(0xdc, length >> 8, length & 0xff);
  return Uint8Array.of(0xdd, length >>> 24, (length >> 16) & 0xff, (length >> 8) & 0xff, length & 0xff);
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
