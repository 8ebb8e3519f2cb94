/** A record as bytes: a draw stamped with its author, the author's number for it, and the server's time. */
import { Encoder } from "@msgpack/msgpack";
import type { Draw, LogRecord, Style } from "./draw.ts";
import { CLIENT_MAX, COORDINATE_MAX, DRAW_DEPTH, RGBA_MAX, WIDTH_MAX } from "./limits.ts";
import { Fields, Malformed, Reader } from "./msgpack.ts";

const SAFE = Number.MAX_SAFE_INTEGER;
const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;
const KIND = { BEGIN: 0, EXTEND: 1, ERASE: 2, REVOKE: 3, CLEAR: 4, OPAQUE: 5 } as const;

const encoder = new Encoder();

/** How many integers one point takes, x and y included. */
export function valuesPerPoint(channels: number): number {
  return 2 + (channels & 1) + ((channels >> 1) & 1) + 2 * ((channels >> 2) & 1);
}

/** Reads one whole record. A draw that cannot be read is `null`. @throws {@link Malformed} when it is no record. */
export function decodeRecord(bytes: Uint8Array): LogRecord {
  return readRecord(new Reader(bytes));
}

/** Reads the next record of several. */
export function readRecord(reader: Reader): LogRecord {
  const fields = new Fields(reader);
  const author = fields.required().within(0, CLIENT_MAX, "an author is at most 2^48 - 1");
  const n = fields.required().within(1, SAFE, "the n of a record is 1 to 2^53 - 1");
  const at = fields.required().within(0, SAFE, "the at of a record is at most 2^53 - 1");
  const from = fields.required().at;
  const draw = readDrawOrNull(reader);
  if (draw === null) {
    reader.at = from;
    reader.skip();
  }
  fields.close();
  return { author, n, at, draw };
}

/** Reads `[record, …]`. */
export function readRecords(reader: Reader): LogRecord[] {
  const records: LogRecord[] = [];
  for (let left = reader.array(); left > 0; left -= 1) records.push(readRecord(reader));
  return records;
}

/** Reads one whole draw and holds it to the rules that need no author. @throws {@link Malformed}, the rule it breaks. */
export function decodeDraw(bytes: Uint8Array): Draw {
  return readDraw(new Reader(bytes));
}

/**
 * A draw's bytes, each value in its shortest form; made once, and sent as often as needed. One of an unknown kind is
 * written without whatever it held.
 * @throws {@link Malformed} when the server would refuse it for its shape: a coordinate that is no integer, no whole
 * points, a name that still has {@link SELF} for an author. So what is sent has always been read back.
 */
export function encodeDraw(draw: Draw): Uint8Array {
  const bytes = encoder.encode(wireDraw(draw));
  decodeDraw(bytes);
  return bytes;
}

function wireDraw(draw: Draw): readonly unknown[] {
  switch (draw.kind) {
    case "begin": {
      const { tool, rgba, width } = draw.style;
      const fields = [KIND.BEGIN, draw.stroke, [tool, rgba, width], draw.channels, draw.points];
      return draw.end ? [...fields, true] : fields;
    }
    case "extend": {
      const fields = [KIND.EXTEND, draw.stroke, draw.points];
      return draw.end ? [...fields, true] : fields;
    }
    case "erase":
      return [KIND.ERASE, draw.strokes];
    case "revoke":
      return [KIND.REVOKE, draw.draws];
    case "clear":
      return [KIND.CLEAR];
    case "opaque":
      return [KIND.OPAQUE, draw.data];
    case "unknown":
      return [draw.number];
  }
}

function readDrawOrNull(reader: Reader): Draw | null {
  try {
    return readDraw(reader);
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

function readDraw(reader: Reader): Draw {
  const from = reader.at;
  reader.skipTellable(DRAW_DEPTH);
  const end = reader.at;
  reader.at = from;
  const draw = readKind(new Fields(reader));
  reader.at = end;
  return draw;
}

function readKind(fields: Fields): Draw {
  const kind = fields.required().int();
  if (kind < 0) throw new Malformed("a draw's kind is an integer from 0 up");
  switch (kind) {
    case KIND.BEGIN: {
      const stroke = readStroke(fields);
      const style = readStyle(fields.required());
      const channels = fields.required().within(0, 7, "channels are the bits 1 pressure, 2 time and 4 tilt");
      const points = readPoints(fields);
      if (points.length === 0 || points.length % valuesPerPoint(channels) !== 0) {
        throw new Malformed("a begin holds at least one point, and whole points only");
      }
      if (Math.abs(points[0] ?? 0) > COORDINATE_MAX || Math.abs(points[1] ?? 0) > COORDINATE_MAX) {
        throw new Malformed("a coordinate is within 2^30 sixteenths of a pixel of the origin");
      }
      return { kind: "begin", stroke, style, channels, points, end: readEnd(fields) };
    }
    case KIND.EXTEND: {
      const stroke = readStroke(fields);
      const points = readPoints(fields);
      const end = readEnd(fields);
      if (points.length === 0 && !end) throw new Malformed("an extend holds points or closes its stroke");
      return { kind: "extend", stroke, points, end };
    }
    case KIND.ERASE:
      return { kind: "erase", strokes: readPairs(fields, 0) };
    case KIND.REVOKE:
      return { kind: "revoke", draws: readPairs(fields, 1) };
    case KIND.CLEAR:
      return { kind: "clear" };
    case KIND.OPAQUE:
      return { kind: "opaque", data: fields.required().bin() };
    default:
      return { kind: "unknown", number: kind };
  }
}

function readStroke(fields: Fields): number {
  return fields.required().within(0, SAFE, "a stroke's number is an integer, 0 to 2^53 - 1");
}

function readStyle(reader: Reader): Style {
  const fields = new Fields(reader);
  const tool = fields.required().int();
  if (tool < 0) throw new Malformed("a tool is an integer from 0 up");
  const rgba = fields.required().within(0, RGBA_MAX, "rgba is an integer of 32 bits");
  const width = fields.required().within(0, WIDTH_MAX, "a width is 0 to 65535 sixteenths of a pixel");
  fields.close();
  return { tool, rgba, width };
}

function readPoints(fields: Fields): number[] {
  const reader = fields.required();
  const points: number[] = [];
  for (let left = reader.array(); left > 0; left -= 1) {
    points.push(reader.within(INT32_MIN, INT32_MAX, "every integer of points fits 32 signed bits"));
  }
  return points;
}

function readEnd(fields: Fields): boolean {
  return fields.optional()?.bool() ?? false;
}

function readPairs(fields: Fields, min: 0 | 1): (readonly [number, number])[] {
  const reader = fields.required();
  const pairs: (readonly [number, number])[] = [];
  for (let left = reader.array(); left > 0; left -= 1) {
    const pair = new Fields(reader);
    const author = pair.required().within(0, CLIENT_MAX, "a pair's client is at most 2^48 - 1");
    const number = pair.required().within(min, SAFE, "a pair's number is 0, or 1 for a draw, to 2^53 - 1");
    pair.close();
    pairs.push([author, number]);
  }
  if (pairs.length === 0) throw new Malformed("an erase or revoke names at least one");
  return pairs;
}
