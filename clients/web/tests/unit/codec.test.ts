/** The codec beyond the vectors: what hostile or foreign bytes may not do, and the JSON of HTTP answers. */
import { decode as decodeAny } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import {
  decodePoll,
  decodeRecord,
  decodeServerFrame,
  decodeSnapshot,
  encodeBatch,
  encodeDraw,
  encodeDraws,
  encodePointer,
  FRAME_BYTES,
  Malformed,
  parsePosted,
  parseProblem,
  parseSession,
} from "../../src/codec.ts";
import type { Draw } from "../../src/draw.ts";
import { Reader } from "../../src/msgpack.ts";
import { generator } from "./random.ts";

const bytes = (...parts: (number | readonly number[])[]) => new Uint8Array(parts.flat());
const ascii = (text: string) => [...Buffer.from(text)];

const BEGIN: Draw = {
  kind: "begin",
  stroke: 1,
  style: { tool: 0, rgba: 0x1a2b3cff, width: 32 },
  channels: 0,
  points: [160, 160, 16, -8],
  end: false,
};

describe("reading", () => {
  it("takes a draw of a later version whatever its keys and numbers are", () => {
    // {"__proto__": 2^64 - 1, "a": -2^63}, which a reader that makes objects of it would not survive.
    const proto = [0xa9, ...ascii("__proto__"), 0xcf, ...new Array<number>(8).fill(255)];
    const draw = [0x92, 6, 0x82, ...proto, 0xa1, 0x61, 0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0];
    const frame = decodeServerFrame(bytes(0x93, 66, 1, 0x91, [0x94, 7, 1, 9], draw));
    const record = { author: 7, n: 1, at: 9, draw: { kind: "unknown", number: 6 } };
    expect(frame).toEqual({ kind: "records", seq: 1, records: [record] });
  });

  it("tells a draw that cannot be read from a record that cannot, and goes on behind it", () => {
    const broken = [0x94, 7, 1, 9, 0x92, 0x02, 0x90];
    const clear = [0x94, 7, 2, 9, 0x91, 0x04];
    const frame = decodeServerFrame(bytes(0x93, 66, 1, 0x92, broken, clear));
    expect(frame).toMatchObject({
      records: [
        { n: 1, draw: null },
        { n: 2, draw: { kind: "clear" } },
      ],
    });
  });

  // F-13
  it("takes no float for an integer", () => {
    const one = [0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0];
    expect(() => decodeServerFrame(bytes(0x93, 67, one, 1))).toThrow(Malformed);
    const points = decodeRecord(bytes(0x94, 7, 1, 9, 0x93, 1, 1, 0x92, one, 1));
    expect(points.draw).toBeNull();
  });

  // F-6, F-7
  it("believes no length and no depth", () => {
    for (const head of [0xc6, 0xc9, 0xdb, 0xdd, 0xdf]) {
      const lie = bytes(0x92, 66, head, 255, 255, 255, 255, new Array<number>(100).fill(0));
      expect(() => decodeServerFrame(lie)).toThrow(Malformed);
    }
    expect(() => new Reader(bytes(new Array<number>(1_000_000).fill(0x91), 0))).toThrow(Malformed);
    // Each of these maps says that it holds all that follows it.
    expect(() => new Reader(bytes(new Array<number>(1_000_000).fill(0x8f)))).toThrow(Malformed);
  });

  it("throws nothing but Malformed at any bytes", () => {
    const seed = 20261130;
    const random = generator(seed);
    const whole = encodeDraws(1, [encodeDraw(BEGIN), encodeDraw({ kind: "erase", strokes: [[7, 1]] })]);
    for (let round = 0; round < 5_000; round += 1) {
      const some = whole.slice(0, 1 + random(whole.length));
      for (let flips = random(4); flips >= 0; flips -= 1) some[random(some.length)] = random(256);
      some[1] = 65 + random(9);
      for (const decode of [decodeServerFrame, decodeRecord, decodePoll, decodeSnapshot]) {
        try {
          decode(some);
        } catch (error) {
          expect(error, `seed ${seed}, round ${round}`).toBeInstanceOf(Malformed);
        }
      }
    }
  });

  it("reads polls and snapshots", () => {
    const record = [0x94, 7, 1, 9, 0x91, 0x04];
    const records = [{ author: 7, n: 1, at: 9, draw: { kind: "clear" } }];
    expect(decodePoll(bytes(0x93, 5, 1, 0x91, record))).toEqual({ epoch: 5, seq: 1, records });
    expect(decodePoll(bytes(0x94, 5, 2, 0x90, 0xc0))).toEqual({ epoch: 5, seq: 2, records: [] });
    const position = { epoch: 5, seq: 1, author: 7, n: 1, at: 9 };
    expect(decodeSnapshot(bytes(0x96, 5, 1, 0x91, record, 7, 1, 9))).toEqual({ position, records });
    expect(() => decodeSnapshot(bytes(0x95, 5, 1, 0x90, 7, 1))).toThrow(Malformed);
  });
});

describe("writing", () => {
  it("makes what any MessagePack reader takes, with every array's length", () => {
    for (const length of [1, 15, 16, 512, 65_535, 65_536]) {
      const draws = new Array<Uint8Array>(length).fill(encodeDraw({ kind: "clear" }));
      const frame = encodeDraws(2 ** 53 - 1, draws);
      expect(frame.length).toBeLessThanOrEqual(FRAME_BYTES + 2 * length);
      expect(decodeAny(frame)).toEqual([2, 2 ** 53 - 1, new Array(length).fill([4])]);
      expect(decodeAny(encodeBatch(draws))).toHaveLength(length);
    }
  });

  it("refuses to make what a server would refuse", () => {
    const broken: Draw[] = [
      { ...BEGIN, points: [0.5, 0] },
      { ...BEGIN, points: [] },
      { ...BEGIN, points: [1, 2, 3] },
      { ...BEGIN, points: [Number.NaN, 0] },
      { ...BEGIN, points: [2 ** 30 + 1, 0] },
      { ...BEGIN, points: [0, 0, 2 ** 31, 0] },
      { ...BEGIN, style: { ...BEGIN.style, width: 65_536 } },
      { kind: "extend", stroke: 1, points: [], end: false },
      { kind: "erase", strokes: [] },
      { kind: "erase", strokes: [[-1, 1]] },
      { kind: "revoke", draws: [[7, 0]] },
    ];
    for (const draw of broken) expect(() => encodeDraw(draw), JSON.stringify(draw)).toThrow(Malformed);
  });

  // S-11
  it("keeps pointers on the board", () => {
    expect(decodeAny(encodePointer(1.4, -2e12))).toEqual([3, 1, -(2 ** 30)]);
    expect(decodeAny(encodePointer(Number.NaN, -0.2))).toEqual([3, 0, 0]);
  });
});

describe("answers", () => {
  const position = [5, 1, 7, 1, 9];
  const session = {
    client: 7,
    ticket: "t",
    position,
    role: 1,
    limits: [65536, 512, 262144, 120, 41],
    later: 1,
  };

  it("reads a session", () => {
    expect(parseSession(JSON.stringify(session))).toEqual({
      client: 7,
      ticket: "t",
      position: { epoch: 5, seq: 1, author: 7, n: 1, at: 9 },
      role: 1,
      limits: {
        bytesPerDraw: 65536,
        drawsPerBatch: 512,
        bytesPerMessage: 262144,
        batchesPerSecond: 120,
        lastN: 41,
      },
    });
    const broken = ["", "null", "[]", "{}", { ...session, role: 3 }, { ...session, limits: [1] }];
    for (const one of [...broken, { ...session, position: [0, 0, 0, 0, 0] }, { ...session, client: 1.5 }]) {
      expect(() => parseSession(typeof one === "string" ? one : JSON.stringify(one))).toThrow(Malformed);
    }
  });

  // P-11
  it("reads what a POST answers", () => {
    const posted = parsePosted(JSON.stringify({ seq: null, position, stored: 0 }));
    expect(posted).toMatchObject({ seq: null, stored: 0, position: { epoch: 5 } });
    expect(() => parsePosted("{}")).toThrow(Malformed);
  });

  it("reads problems, also those that a proxy makes", () => {
    const gap = { status: 409, code: "gap", detail: "a gap", expected: 7 };
    expect(parseProblem(409, null, JSON.stringify(gap))).toMatchObject({
      code: "gap",
      expected: 7,
      retryMs: null,
    });
    const busy = { code: "draining", detail: "later", retry_ms: 250 };
    expect(parseProblem(503, "1", JSON.stringify(busy))).toMatchObject({ message: "later", retryMs: 250 });
    expect(parseProblem(502, "2", "<html>")).toMatchObject({ code: null, retryMs: 2000 });
    expect(parseProblem(502, "Mon, 30 Nov 2026 12:00:00 GMT", "[1]")).toMatchObject({
      code: null,
      retryMs: null,
    });
  });
});
