/** A reader's place in the log: gaps, repeats and resets. */
import { describe, expect, it } from "vitest";
import type { LogRecord } from "../../src/draw.ts";
import type { Position } from "../../src/position.ts";
import { START } from "../../src/position.ts";
import { OutOfOrder, Replica } from "../../src/replica.ts";

function record(n: number): LogRecord {
  return { author: 7, n, at: 1_000 + n, draw: { kind: "clear" } };
}

function position(epoch: number, seq: number): Position {
  return { epoch, seq, author: 7, n: seq, at: 1_000 + seq };
}

it("records count once and in order (R-1, R-6)", () => {
  const replica = new Replica();
  replica.onConnected(position(9, 3));
  expect(replica.caughtUp).toBe(false);
  expect(replica.onRecords(1, [record(1), record(2)])).toBe(0);
  expect(replica.onRecords(1, [record(1), record(2), record(3)])).toBe(2);
  expect(replica.onRecords(2, [record(2), record(3)])).toBe(2);
  expect(replica.position).toEqual(position(9, 3));
  expect(replica.caughtUp).toBe(true);
  expect(replica.onRecords(5, [record(5)])).toBeInstanceOf(OutOfOrder);
  expect(replica.onRecords(3, [record(8)])).toBeInstanceOf(OutOfOrder);
  expect(replica.onRecords(2, [record(2), record(8), record(4)])).toBeInstanceOf(OutOfOrder);
  expect(replica.seq).toBe(3);
});

describe("a reset (R-7)", () => {
  it("counts only when its last part is there", () => {
    const replica = new Replica();
    replica.onConnected(position(9, 1));
    replica.onRecords(1, [record(1)]);
    replica.onDisconnected();
    replica.onConnected(position(10, 2));
    expect(replica.caughtUp).toBe(false);
    expect(replica.onReset(position(10, 2), [record(1)], true)).toBeNull();
    expect(replica.have).toBe(1);
    expect(replica.position).toEqual(position(9, 1));
    expect(replica.onRecords(2, [record(2)])).toBeInstanceOf(OutOfOrder);
    const reset = replica.onReset(position(10, 2), [record(2)], false);
    expect(reset).toEqual({ records: [record(1), record(2)], newEpoch: true });
    expect(replica.position).toEqual(position(10, 2));
    expect(replica.caughtUp).toBe(true);
    //
    expect(replica.onRecords(3, [record(3)])).toBe(0);
    expect(replica.position).toEqual(position(10, 3));
  });

  it("that is broken off starts over", () => {
    const replica = new Replica();
    replica.onConnected(position(10, 2));
    expect(replica.onReset(position(10, 2), [record(1)], true)).toBeNull();
    replica.onDisconnected();
    replica.onConnected(position(10, 2));
    expect(replica.onReset(position(10, 2), [record(2)], false)).toEqual({
      records: [record(2)],
      newEpoch: false,
    });
  });

  it("whose parts are mixed with another's is refused", () => {
    const replica = new Replica();
    replica.onConnected(position(10, 2));
    expect(replica.onReset(position(10, 2), [], true)).toBeNull();
    expect(replica.onReset(position(11, 2), [], false)).toBeInstanceOf(OutOfOrder);
  });

  it("to an empty log is the start, and a new incarnation for who had records", () => {
    const replica = new Replica();
    replica.onConnected(position(9, 1));
    replica.onRecords(1, [record(1)]);
    expect(replica.onReset(START, [], false)).toEqual({ records: [], newEpoch: true });
    expect(replica.position).toBeNull();
  });
});

describe("whether all is here", () => {
  it("at the head, yes; also under another epoch's name (R-2)", () => {
    const replica = new Replica();
    replica.onConnected(START);
    expect(replica.caughtUp).toBe(true);
    replica.onRecords(1, [record(1)]);
    replica.onDisconnected();
    expect(replica.caughtUp).toBe(false);
    replica.onConnected(position(77, 1));
    expect(replica.caughtUp).toBe(true);
  });

  it("at the same number of another log, no: a reset is to come (R-3)", () => {
    const replica = new Replica();
    replica.onConnected(position(9, 1));
    replica.onRecords(1, [record(1)]);
    replica.onConnected({ ...position(9, 1), at: 5 });
    expect(replica.caughtUp).toBe(false);
    replica.onConnected(START);
    expect(replica.caughtUp).toBe(false);
  });

  it("two heartbeats ahead with nothing in between: records are overdue", () => {
    const replica = new Replica();
    replica.onConnected(START);
    expect(replica.onHeartbeat(1)).toBe(false);
    replica.onRecords(1, [record(1)]);
    expect(replica.onHeartbeat(2)).toBe(false);
    expect(replica.onHeartbeat(2)).toBe(true);
  });

  it("a poll's head tells", () => {
    const replica = new Replica();
    replica.onConnected(position(9, 2));
    replica.onPolled(9, 3);
    replica.onRecords(1, [record(1), record(2)]);
    expect(replica.caughtUp).toBe(false);
    replica.onPolled(9, 3);
    replica.onRecords(3, [record(3)]);
    expect(replica.caughtUp).toBe(true);
  });
});
