/** The vectors: bytes and what they mean, shared by every client and server (`protocol/vectors/README.md`). */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Board, type Stroke } from "../../src/board.ts";
import {
  decodeDraw,
  decodeRecord,
  decodeServerFrame,
  encodeBatch,
  encodeDraw,
  encodeDraws,
  encodeHello,
  encodePointer,
  encodeProfile,
  encodeToken,
  Malformed,
  type ServerFrame,
} from "../../src/codec.ts";
import type { Draw, Profile } from "../../src/draw.ts";
import { Reader } from "../../src/msgpack.ts";
import { formatPosition, matches, type Position, parsePosition } from "../../src/position.ts";
import { valuesPerPoint } from "../../src/record.ts";

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Case = { readonly [key: string]: Json };

/** Counts what was read, so that a group that nobody reads, in a file or added later, is a failure. */
const read = new Set<string>();

function file(name: string): { readonly [group: string]: readonly Json[] } {
  const url = new URL(`../../../../protocol/vectors/${name}`, import.meta.url);
  const { about, ...groups } = JSON.parse(readFileSync(url, "utf8"));
  expect(about).toBeTypeOf("string");
  return groups;
}

const FILES = [
  "frames.json",
  "invalid-frames.json",
  "draws.json",
  "invalid-draws.json",
  "records.json",
  "positions.json",
  "boards.json",
] as const;

function group(name: (typeof FILES)[number], key: string): readonly Json[] {
  read.add(`${name} ${key}`);
  const cases = file(name)[key] ?? [];
  expect(cases.length, `${name} ${key}`).toBeGreaterThan(0);
  return cases;
}

function cases(name: (typeof FILES)[number], key: string): [string, Case][] {
  return group(name, key).map((one) => {
    if (typeof one !== "object" || one === null || Array.isArray(one)) throw new Error("a case is an object");
    const fields: Case = Object.fromEntries(Object.entries(one));
    return [String(fields.name ?? fields.text ?? JSON.stringify(one)), fields];
  });
}

const text = (value: Json | undefined): string => {
  if (typeof value !== "string") throw new Error(`no string: ${JSON.stringify(value)}`);
  return value;
};
const number = (value: Json | undefined): number => {
  if (typeof value !== "number") throw new Error(`no number: ${JSON.stringify(value)}`);
  return value;
};
const list = (value: Json | undefined): readonly Json[] => {
  if (!Array.isArray(value)) throw new Error(`no array: ${JSON.stringify(value)}`);
  return value;
};
const fields = (value: Json | undefined): Case => {
  if (typeof value !== "object" || value === null) throw new Error(`no object: ${JSON.stringify(value)}`);
  return Object.fromEntries(Object.entries(value));
};

const unhex = (value: Json | undefined): Uint8Array => new Uint8Array(Buffer.from(text(value), "hex"));
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

/** What an encoder makes; `null` where decoding loses something. */
const canonical = (one: Case): string | null => {
  const value = one.canonical === undefined ? one.hex : one.canonical;
  return value === null ? null : text(value);
};

const toPosition = (value: Json | undefined): Position => {
  const [epoch, seq, author, n, at] = list(value).map(number);
  return { epoch: epoch ?? 0, seq: seq ?? 0, author: author ?? 0, n: n ?? 0, at: at ?? 0 };
};
const fromPosition = ({ epoch, seq, author, n, at }: Position): Json => [epoch, seq, author, n, at];
const toProfile = (value: Json | undefined): Profile => {
  const [name, rgba] = list(value);
  return { name: text(name), rgba: number(rgba) };
};

/** The bytes of each element of an array. */
function elements(bytes: Uint8Array): Uint8Array[] {
  const reader = new Reader(bytes);
  return Array.from({ length: reader.array() }, () => {
    const from = reader.at;
    reader.skip();
    return bytes.slice(from, reader.at);
  });
}

function fromServerFrame(frame: ServerFrame, expected: Case): Json {
  // Records are compared decoded: a client keeps no bytes of theirs.
  const records = (got: unknown) => {
    expect(got).toEqual(list(expected.records).map((record) => decodeRecord(unhex(record))));
    return expected.records ?? null;
  };
  switch (frame.kind) {
    case "welcome": {
      const { client, ticket, role, limits } = frame;
      const { bytesPerDraw, drawsPerBatch, bytesPerMessage, batchesPerSecond, lastN } = limits;
      const numbers = [bytesPerDraw, drawsPerBatch, bytesPerMessage, batchesPerSecond, lastN];
      return {
        type: "welcome",
        client,
        ticket,
        position: fromPosition(frame.position),
        role,
        limits: numbers,
      };
    }
    case "records":
      return { type: "records", seq: frame.seq, records: records(frame.records) };
    case "ack":
      return { type: "ack", n: frame.n, seq: frame.seq };
    case "reset": {
      const position = fromPosition(frame.position);
      return { type: "reset", position, records: records(frame.records), more: frame.more };
    }
    case "participants": {
      const participants = frame.participants.map(({ client, name, rgba }) => [client, name, rgba]);
      return { type: "participants", participants };
    }
    case "pointer":
      return { type: "pointer", client: frame.client, x: frame.x, y: frame.y };
    case "heartbeat":
      return { type: "heartbeat", position: fromPosition(frame.position) };
    case "error":
      return { type: "error", code: frame.code, message: frame.message, retry_ms: frame.retryMs, n: frame.n };
    case "goAway":
      return { type: "go_away", reason: frame.reason, retry_ms: frame.retryMs };
    case "lock":
      return { type: "lock", locked: frame.locked };
    case "unknown":
      return { type: "unknown", tag: frame.tag };
  }
}

function fromDraw(draw: Draw): Json {
  switch (draw.kind) {
    case "begin": {
      const { kind, stroke, channels, points, end } = draw;
      const style = [draw.style.tool, draw.style.rgba, draw.style.width];
      return { kind, stroke, style, channels, points, end };
    }
    case "erase":
      return { kind: draw.kind, strokes: draw.strokes };
    case "revoke":
      return { kind: draw.kind, draws: draw.draws };
    case "opaque":
      return { kind: draw.kind, data: hex(draw.data) };
    default:
      return { ...draw };
  }
}

describe("frames.json", () => {
  // F-1 to F-4, F-8
  it.each(cases("frames.json", "server"))("server: %s", (_, one) => {
    const frame = decodeServerFrame(unhex(one.hex));
    expect(fromServerFrame(frame, fields(one.frame))).toEqual(one.frame);
  });

  it.each(cases("frames.json", "client"))("client: %s", (_, one) => {
    const bytes = encodeClient(fields(one.frame));
    // Of a tag that this version does not know, which a client never sends, nothing can be encoded.
    if (bytes === null) expect(one.canonical).toBeNull();
    else if (fields(one.frame).type === "draws") {
      // The array's head goes out in its shortest form, also where the vector keeps a longer one.
      const { n, draws } = fields(one.frame);
      expect(hex(bytes).endsWith(elements(unhex(draws)).map(hex).join(""))).toBe(true);
      const shortest = hex(encodeBatch(elements(unhex(draws))));
      expect(hex(bytes)).toBe(canonical(one)?.replace(text(draws), shortest));
      expect(number(n)).toBeGreaterThan(0);
    } else expect(hex(bytes)).toBe(canonical(one));
  });
});

function encodeClient(frame: Case): Uint8Array | null {
  switch (frame.type) {
    case "hello":
      return encodeHello({
        ticket: frame.ticket === null ? null : text(frame.ticket),
        position: frame.position === null ? null : toPosition(frame.position),
        profile: frame.profile === null ? null : toProfile(frame.profile),
        token: frame.token === null ? null : text(frame.token),
      });
    case "draws":
      return encodeDraws(number(frame.n), elements(unhex(frame.draws)));
    case "pointer":
      return encodePointer(number(frame.x), number(frame.y));
    case "profile":
      return encodeProfile(toProfile(frame.profile));
    case "token":
      return encodeToken(text(frame.token));
    case "unknown":
      return null;
    default:
      throw new Error(`no such frame: ${JSON.stringify(frame)}`);
  }
}

describe("invalid-frames.json", () => {
  // F-5 to F-7, F-9, F-13, F-16
  it.each(cases("invalid-frames.json", "server"))("server: %s", (_, one) => {
    expect(() => decodeServerFrame(unhex(one.hex))).toThrow(Malformed);
  });

  /**
   * A client reads no frames of clients. But what is wrong with the bytes themselves is wrong in both directions, and so
   * is every field that frames of both share; where a case is told by its first integer alone, it is the client's tag.
   */
  it.each(cases("invalid-frames.json", "client"))("client: %s", (_, one) => {
    const decode = () => decodeServerFrame(unhex(one.hex));
    if (isTagOfClient(unhex(one.hex))) expect(decode()).toMatchObject({ kind: "unknown" });
    else expect(decode).toThrow(Malformed);
  });

  it("client_json: for those who read JSON frames of clients", () => {
    expect(group("invalid-frames.json", "client_json").length).toBeGreaterThan(0);
  });
});

/** Well-formed, and no frame of a server: what is wrong then stands in fields that only a server reads. */
function isTagOfClient(bytes: Uint8Array): boolean {
  try {
    const reader = new Reader(bytes);
    if (reader.array() === 0) return false;
    const tag = reader.int();
    return tag >= 1 && tag <= 5;
  } catch {
    return false;
  }
}

describe("draws.json", () => {
  // D-7 to D-13
  it.each(cases("draws.json", "draws"))("%s", (_, one) => {
    const draw = decodeDraw(unhex(one.hex));
    expect(fromDraw(draw)).toEqual(one.draw);
    const expected = canonical(one);
    // A tool beyond 2^53 is read as the nearest double, and this client draws with no such tool.
    const exact = draw.kind !== "begin" || Number.isSafeInteger(draw.style.tool);
    if (expected !== null && exact) expect(hex(encodeDraw(draw))).toBe(expected);
    expect(one.author === undefined || number(one.author) === 0).toBe(true);
  });

  it("json_batches: for servers, which turn JSON into MessagePack; what they make is read here", () => {
    for (const [name, one] of cases("draws.json", "json_batches")) {
      for (const bytes of elements(unhex(one.hex))) {
        const isDraw = bytes[0] !== 0xa4 && hex(bytes) !== "9105" && !hex(bytes).startsWith("920591");
        if (isDraw) expect(() => decodeDraw(bytes), name).not.toThrow();
        else expect(() => decodeDraw(bytes), name).toThrow(Malformed);
      }
    }
  });
});

describe("invalid-draws.json", () => {
  // D-4 to D-12. What depends on who sends it (D-16 to D-18) and on limits that come with the welcome (D-14, D-15) is the
  // server's to judge, and the outbox's: the draws themselves are well-formed.
  it.each(cases("invalid-draws.json", "batches"))("%s", (_, one) => {
    const code = text(one.code);
    if (code === "malformed") {
      expect(() => {
        if (elements(unhex(one.hex)).length === 0) throw new Malformed("a batch holds at least one draw");
      }).toThrow(Malformed);
      return;
    }
    const draws = elements(unhex(one.hex));
    if (one.index === undefined) {
      expect([code, draws.length > number(one.draws_per_batch)]).toEqual(["too_large", true]);
      return;
    }
    const index = number(one.index);
    const bytes = draws[index] ?? new Uint8Array();
    for (const before of draws.slice(0, index)) expect(() => decodeDraw(before)).not.toThrow();
    if (code === "too_large") expect(bytes.length).toBeGreaterThan(number(one.bytes_per_draw));
    else if (code === "forbidden" || one.author === 0) expect(() => decodeDraw(bytes)).not.toThrow();
    else expect(() => decodeDraw(bytes)).toThrow(Malformed);
  });

  it("json_batches: for servers, which read JSON", () => {
    expect(group("invalid-draws.json", "json_batches").length).toBeGreaterThan(0);
  });
});

describe("records.json", () => {
  it.each(cases("records.json", "records"))("%s", (_, one) => {
    const { author, n, at, draw } = decodeRecord(unhex(one.hex));
    expect([author, n, at]).toEqual([one.author, one.n, one.at]);
    let expected: Draw | null = null;
    try {
      expected = decodeDraw(unhex(one.draw));
    } catch (error) {
      expect(error).toBeInstanceOf(Malformed);
    }
    expect(draw).toEqual(expected);
  });

  it.each(cases("records.json", "invalid"))("invalid: %s", (_, one) => {
    expect(() => decodeRecord(unhex(one.hex))).toThrow(Malformed);
  });
});

describe("positions.json", () => {
  it.each(cases("positions.json", "positions"))("%s", (_, one) => {
    const position = toPosition(one.position);
    expect(formatPosition(position)).toBe(one.text);
    expect(parsePosition(text(one.text))).toEqual(position);
    const heartbeat = decodeServerFrame(new Uint8Array([0x92, 71, ...unhex(one.hex)]));
    expect(heartbeat).toEqual({ kind: "heartbeat", position });
    const hello = encodeHello({ ticket: null, position, profile: null, token: null });
    expect(hex(hello)).toBe(`9501c0${text(one.hex)}c0c0`);
  });

  // A bare seq is for people with `curl`: this client neither sends nor gets one.
  it.each(cases("positions.json", "after"))("after %s", (_, one) => {
    const position = parsePosition(text(one.text));
    if (!text(one.text).includes(".")) expect(position).toBeNull();
    else if (one.after === null) expect(position?.seq).toBe(0);
    else expect(position).toEqual(toPosition(one.after));
  });

  it.each(group("positions.json", "invalid").map((one) => [text(one)]))("invalid: %s", (one) => {
    expect(parsePosition(one)).toBeNull();
  });

  //
  it.each(cases("positions.json", "matching"))("%s", (_, one) => {
    expect(matches(toPosition(one.a), toPosition(one.b))).toBe(one.match);
    expect(matches(toPosition(one.b), toPosition(one.a))).toBe(one.match);
  });
});

function fromStroke(stroke: Stroke): Json {
  const size = valuesPerPoint(stroke.channels);
  const points: number[][] = [];
  for (let at = 0; at < stroke.values.length; at += size) points.push(stroke.values.slice(at, at + size));
  const style = [stroke.style.tool, stroke.style.rgba, stroke.style.width];
  const { author, number: name, channels, closed } = stroke;
  return { author, stroke: name, style, channels, points, closed };
}

describe("boards.json", () => {
  // B-1 to B-20
  it.each(cases("boards.json", "boards"))("%s", (_, one) => {
    const records = list(one.records).map((record) => decodeRecord(unhex(record)));
    const board = new Board();
    for (const record of records) board.apply(record);
    expect(board.strokes().map(fromStroke)).toEqual(one.strokes);
    board.reset();
    expect(board.strokes()).toEqual([]);
    board.applyAll(records);
    expect(board.strokes().map(fromStroke)).toEqual(one.strokes);
  });
});

it("no group is left out", () => {
  const all = FILES.flatMap((name) => Object.keys(file(name)).map((key) => `${name} ${key}`));
  expect([...read].sort()).toEqual(all.sort());
});
