/** The outbox: numbers, acks, refusals, and what a new client id does to names (SPEC.md, P-1 to P-15). */
import { expect, test } from "vitest";
import { decodeDraw } from "../../src/codec.ts";
import type { Draw, SessionLimits } from "../../src/draw.ts";
import { KEEP_MS, Outbox, type OutboxState, PENDING_DRAWS_MAX, type QueuedDraw } from "../../src/outbox.ts";
import type { Batch } from "../../src/pipeline.ts";
import { SELF } from "../../src/stroke.ts";

const limits = (lastN = 0, more: Partial<SessionLimits> = {}): SessionLimits => ({
  ...{ bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN },
  ...more,
});
const style = { tool: 0, rgba: 255, width: 32 };
const begin = (stroke: number, end = false, at = 0): Draw => ({
  ...{ kind: "begin", stroke, style, channels: 0, points: [at, at], end },
});
const extend = (stroke: number, end = false): Draw => ({ kind: "extend", stroke, points: [1, 2], end });
const clear: Draw = { kind: "clear" };

/** What was saved, as the database would hold it. */
class Disk {
  state: OutboxState | null = null;
  readonly draws = new Map<number, QueuedDraw>();

  save(outbox: Outbox): void {
    const changes = outbox.changes();
    if (!changes) return;
    for (const draw of changes.put) this.draws.set(draw.id, draw);
    for (const id of changes.remove) this.draws.delete(id);
    this.state = changes.state;
    outbox.onPersisted(changes.revision);
  }

  load(now = 0): Outbox {
    const draws = [...this.draws.values()].sort((a, b) => a.id - b.id);
    return new Outbox(4, structuredClone({ state: this.state, draws }), now);
  }
}

function opened(client = 7, window = 4): { outbox: Outbox; disk: Disk } {
  const [outbox, disk] = [new Outbox(window), new Disk()];
  welcome(outbox, disk, client);
  return { outbox, disk };
}

function welcome(outbox: Outbox, disk: Disk, client: number, lastN = 0): void {
  expect(outbox.onWelcome(client, `ticket ${client}`, limits(lastN), 0)).toEqual([]);
  disk.save(outbox);
}

function push(outbox: Outbox, draw: Draw): number {
  const pushed = outbox.push(draw);
  if (pushed.kind !== "taken") throw new Error(pushed.kind);
  return pushed.id;
}

function batch(outbox: Outbox, now = 0): Batch {
  const next = outbox.next(now);
  if (next.kind !== "batch") throw new Error(`${next.kind} instead of a batch`);
  return next.batch;
}

const sent = (outbox: Outbox) => batch(outbox).draws.map((bytes) => decodeDraw(bytes));

test("draws are numbered from 1, in batches within the limits and the window", () => {
  const { outbox, disk } = opened(7, 2);
  outbox.onWelcome(7, "ticket 7", limits(0, { drawsPerBatch: 2, batchesPerSecond: 10 }), 0);
  for (let stroke = 1; stroke <= 6; stroke += 1) push(outbox, begin(stroke, true));
  disk.save(outbox);
  expect(batch(outbox, 0)).toMatchObject({ n: 1, lastN: 2 });
  expect(outbox.next(0)).toEqual({ kind: "wait", at: 100 });
  expect(batch(outbox, 100)).toMatchObject({ n: 3, lastN: 4 });
  expect(outbox.next(200)).toEqual({ kind: "idle" });
  expect(outbox.answerDue(1000)).toBe(1000);
  expect(outbox.onAck(2, 250)).toBe(2);
  expect(outbox.answerDue(1000)).toBe(1250);
  expect(batch(outbox, 250)).toMatchObject({ n: 5, lastN: 6 });
  expect(outbox.pending).toBe(4);
});

test("nothing is sent before it is saved, and no draw before its welcome's ticket is", () => {
  const outbox = new Outbox(4);
  push(outbox, clear);
  const first = outbox.changes();
  outbox.onPersisted(first?.revision ?? 0);
  outbox.onWelcome(7, "ticket", limits(), 0);
  expect(outbox.next(0)).toEqual({ kind: "idle" });
  const second = outbox.changes();
  expect(second?.state).toMatchObject({ client: 7, ticket: "ticket", first: 1, last: 1, offered: 1 });
  push(outbox, clear);
  outbox.onPersisted(second?.revision ?? 0);
  expect(batch(outbox)).toMatchObject({ n: 1, lastN: 1 });
  expect(outbox.next(0)).toEqual({ kind: "idle" });
});

test("P-6 a refused draw's number goes to the next, once that is saved", () => {
  const { outbox, disk } = opened();
  const ids = [1, 2, 3].map((stroke) => push(outbox, begin(stroke, true)));
  disk.save(outbox);
  batch(outbox);
  expect(outbox.onRefused(2, "forbidden", "no")).toEqual([{ id: ids[1], code: "forbidden", message: "no" }]);
  expect(outbox.next(0)).toEqual({ kind: "idle" });
  disk.save(outbox);
  expect(sent(outbox)).toMatchObject([{ stroke: 1 }, { stroke: 3 }]);
  expect(outbox.draw(ids[2] ?? 0)?.n).toBe(2);
  expect(outbox.onAck(2, 0)).toBe(ids[2]);
  expect(outbox.pending).toBe(0);
});

test("with a refused begin go its extends, and with a refused erase the revoke of it", () => {
  const { outbox, disk } = opened();
  const first = push(outbox, begin(1));
  push(outbox, extend(1));
  const erase = push(outbox, { kind: "erase", strokes: [[9, 1]] });
  const undo = push(outbox, { kind: "revoke", draws: [[SELF, erase]] });
  push(outbox, { kind: "revoke", draws: [[SELF, undo]] });
  push(outbox, begin(2, true));
  disk.save(outbox);
  batch(outbox);
  expect(outbox.onRefused(1, "invalid_draw", "").map(({ id }) => id)).toEqual([first, first + 1]);
  expect(outbox.push(extend(1))).toEqual({ kind: "pointless" });
  disk.save(outbox);
  batch(outbox);
  expect(outbox.onRefused(1, "forbidden", "").map(({ id, code }) => [id, code])).toEqual([
    [erase, "forbidden"],
    [undo, "pointless"],
    [undo + 1, "pointless"],
  ]);
  expect(outbox.push({ kind: "revoke", draws: [[SELF, erase]] })).toEqual({ kind: "pointless" });
  disk.save(outbox);
  expect(sent(outbox)).toMatchObject([{ kind: "begin", stroke: 2 }]);
});

test("a revoke names a queued draw by the number that it has when it is sent", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, true));
  const erase = push(outbox, { kind: "erase", strokes: [[SELF, 1]] });
  push(outbox, { kind: "revoke", draws: [[SELF, erase]] });
  disk.save(outbox);
  expect(sent(outbox)).toMatchObject([{}, { strokes: [[7, 1]] }, { draws: [[7, 2]] }]);
  outbox.onRefused(1, "forbidden", "");
  disk.save(outbox);
  expect(sent(outbox)).toMatchObject([{ kind: "erase" }, { draws: [[7, 1]] }]);
});

test("names of what left the outbox outlive a reload and a new client id", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, true));
  push(outbox, { kind: "opaque", data: new Uint8Array([1]) });
  const erase = push(outbox, { kind: "erase", strokes: [[SELF, 1]] });
  disk.save(outbox);
  batch(outbox);
  outbox.onRefused(2, "invalid_draw", "");
  outbox.onAck(1, 0);
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(2, 0);
  outbox.next(KEEP_MS);
  disk.save(outbox);
  expect(disk.draws.size).toBe(0);

  const again = disk.load();
  again.onNewClient(false);
  welcome(again, disk, 8);
  push(again, { kind: "revoke", draws: [[SELF, erase]] });
  push(again, begin(again.takeStroke(), true));
  push(again, {
    kind: "erase",
    strokes: [
      [SELF, 1],
      [SELF, 2],
    ],
  });
  disk.save(again);
  expect(sent(again)).toMatchObject([
    { draws: [[7, 2]] },
    { stroke: 2 },
    {
      strokes: [
        [7, 1],
        [8, 2],
      ],
    },
  ]);
});

test("a stroke that is drawn while the client id changes goes on under the new one", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, false, 100));
  push(outbox, extend(1));
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(2, 0);
  push(outbox, extend(1));
  push(outbox, extend(1));
  disk.save(outbox);
  const again = disk.load();
  for (const it of [outbox, again]) {
    it.onNewClient(false);
    const other = new Disk();
    welcome(it, other, 8);
    push(it, extend(1));
    push(it, { kind: "erase", strokes: [[SELF, 1]] });
    other.save(it);
    expect(sent(it)).toMatchObject([
      { kind: "begin", stroke: 1, points: [102, 104], style, end: false },
      { kind: "extend", stroke: 1, points: [1, 2] },
      { kind: "extend", stroke: 1, points: [1, 2] },
      {
        kind: "erase",
        strokes: [
          [7, 1],
          [8, 1],
        ],
      },
    ]);
  }
});

test("an end that comes alone after a new client id is one point, and no server refuses it", () => {
  const { outbox, disk } = opened();
  push(outbox, { kind: "begin", stroke: 1, style, channels: 5, points: [10, 20, 128, 3, 4], end: false });
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(1, 0);
  outbox.onNewClient(false);
  push(outbox, { kind: "extend", stroke: 1, points: [], end: true });
  welcome(outbox, disk, 8);
  expect(sent(outbox)).toMatchObject([{ kind: "begin", channels: 5, points: [10, 20, 0, 0, 0], end: true }]);
  expect(outbox.push(extend(1))).toEqual({ kind: "pointless" });
});

test("P-14 what the store lost is sent again, with its numbers; without the first of it as a new client", () => {
  const { outbox, disk } = opened();
  for (let stroke = 1; stroke <= 4; stroke += 1) push(outbox, begin(stroke, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(2, 0);
  outbox.onAck(4, 1000);
  outbox.onDisconnected();
  expect(outbox.onWelcome(7, "ticket 7", limits(3), 2000)).toEqual([]);
  expect(batch(outbox)).toMatchObject({ n: 4, lastN: 4 });
  outbox.onAck(4, 2000);
  outbox.next(KEEP_MS);
  outbox.onDisconnected();
  expect(outbox.onWelcome(7, "ticket 7", limits(1), KEEP_MS)).toBe("lost");
  outbox.onNewClient(true);
  disk.save(outbox);
  welcome(outbox, disk, 8);
  expect(sent(outbox)).toMatchObject([{ stroke: 3 }, { stroke: 4 }]);
});

test("kept draws are offered again when nothing is in flight, also after a reload", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(1, 0);
  push(outbox, begin(2, true));
  disk.save(outbox);
  batch(outbox);
  outbox.offerKept();
  expect(outbox.next(0)).toEqual({ kind: "idle" });
  outbox.onAck(2, 0);
  expect(batch(outbox)).toMatchObject({ n: 1, lastN: 2 });
  outbox.onAck(2, 0);
  disk.save(outbox);
  const again = disk.load(50_000);
  expect([...again.draws()].map(({ n, stored }) => [n, stored])).toEqual([
    [1, true],
    [2, true],
  ]);
  again.onWelcome(7, "ticket 7", limits(1), 60_001);
  disk.save(again);
  expect(batch(again, 60_001)).toMatchObject({ n: 2, lastN: 2 });
});

test("an unknown answer: the same again, not before the time, from the number that was named", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, true));
  disk.save(outbox);
  batch(outbox);
  push(outbox, begin(2, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onRetry(1, 500);
  outbox.onAck(1, 100);
  expect(outbox.next(100)).toEqual({ kind: "wait", at: 500 });
  expect(batch(outbox, 500)).toMatchObject({ n: 1, lastN: 2 });
});

test("a refusal that names none of a batch's draws is found one by one", () => {
  const { outbox, disk } = opened();
  for (let stroke = 1; stroke <= 3; stroke += 1) push(outbox, begin(stroke, true));
  disk.save(outbox);
  expect(batch(outbox)).toMatchObject({ n: 1, lastN: 3 });
  outbox.onRefusedSomewhere(3);
  expect([batch(outbox).lastN, batch(outbox).lastN, batch(outbox).lastN]).toEqual([1, 2, 3]);
});

test("numbers that another holder of the ticket used ack nothing of ours", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(1, 0);
  disk.save(outbox);
  const again = disk.load();
  push(again, begin(2, true));
  disk.save(again);
  const third = disk.load();
  welcome(third, disk, 7, 5);
  expect(batch(third)).toMatchObject({ n: 6, lastN: 6 });
});

test("draws over an announced limit leave the outbox, and no more are taken than may wait", () => {
  const { outbox } = opened();
  const long = { kind: "extend", stroke: 1, points: Array<number>(100).fill(9), end: false } as const;
  push(outbox, begin(1));
  push(outbox, long);
  const refused = outbox.onWelcome(7, "ticket 7", limits(0, { bytesPerDraw: 64 }), 0);
  expect(refused).toMatchObject([{ id: 2, code: "too_large" }]);
  // Later points would stand in the wrong place.
  expect(outbox.push(extend(1))).toEqual({ kind: "pointless" });
  push(outbox, begin(2));
  expect(outbox.push({ ...long, stroke: 2 })).toMatchObject({ kind: "too_large", max: 64 });
  expect(outbox.push(extend(2))).toEqual({ kind: "pointless" });
  push(outbox, begin(1));
  expect(outbox.push({ kind: "extend", stroke: 1, points: [0.5, 1], end: false })).toEqual({
    kind: "invalid",
  });
  for (let count = outbox.pending; count < PENDING_DRAWS_MAX; count += 1) push(outbox, clear);
  expect(outbox.push(clear)).toMatchObject({ kind: "full", draws: PENDING_DRAWS_MAX });
});

test("who was frozen and lost the identity keeps only what was never saved", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1, false, 50));
  push(outbox, { kind: "erase", strokes: [[9, 9]] });
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(2, 0);
  push(outbox, extend(1));
  disk.save(outbox);
  const own = push(outbox, extend(1));
  outbox.changes();
  outbox.onTakenOver();
  const other = new Disk();
  welcome(outbox, other, 8);
  expect([...other.draws.keys()]).toEqual([own]);
  push(outbox, { kind: "revoke", draws: [[SELF, 2]] });
  push(outbox, { kind: "erase", strokes: [[SELF, 1]] });
  other.save(outbox);
  expect(sent(outbox)).toMatchObject([
    { kind: "begin", stroke: 1, points: [52, 54] },
    { kind: "revoke", draws: [[7, 2]] },
    {
      kind: "erase",
      strokes: [
        [7, 1],
        [8, 1],
      ],
    },
  ]);
});

test("what waits is told as strokes and other draws, through acks, refusals, reloads and new client ids", () => {
  const { outbox, disk } = opened();
  push(outbox, begin(1));
  for (let at = 0; at < 60; at += 1) push(outbox, extend(1));
  push(outbox, begin(2));
  push(outbox, extend(2, true));
  push(outbox, clear);
  expect([outbox.pending, outbox.pendingChanges]).toEqual([64, 3]);
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(60, 0);
  expect([outbox.pending, outbox.pendingChanges]).toEqual([4, 3]);
  disk.save(outbox);
  expect(disk.load().pendingChanges).toBe(3);
  outbox.onAck(61, 0);
  expect(outbox.pendingChanges).toBe(2);
  outbox.onRefused(62, "too_large", "");
  expect([outbox.pending, outbox.pendingChanges]).toEqual([1, 1]);
  outbox.onNewClient(true);
  expect([outbox.pending, outbox.pendingChanges]).toEqual([62, 2]);
  disk.save(outbox);
  outbox.onTakenOver();
  expect([outbox.pending, outbox.pendingChanges]).toEqual([0, 0]);
});

test("a room is full from the refusal on, until a later draw is stored or the log is another one", () => {
  const { outbox, disk } = opened();
  for (const stroke of [1, 2, 3]) push(outbox, begin(stroke, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(1, 0);
  outbox.onRefused(2, "too_large", "");
  expect(outbox.roomFull).toBe(false);
  disk.save(outbox);
  batch(outbox);
  outbox.onRefused(2, "room_full", "");
  expect(outbox.roomFull).toBe(true);
  outbox.onAck(1, 0);
  expect(outbox.roomFull).toBe(true);
  push(outbox, begin(4, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onAck(2, 0);
  expect(outbox.roomFull).toBe(false);
  push(outbox, begin(5, true));
  disk.save(outbox);
  batch(outbox);
  outbox.onRefused(3, "room_full", "");
  outbox.onOtherLog();
  expect(outbox.roomFull).toBe(false);
});
