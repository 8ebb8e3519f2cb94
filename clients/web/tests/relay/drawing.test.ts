/** Drawing and receiving over a real relay. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { logOf, newRoom, PEN, Person, pictureOf } from "../support/people.ts";
import { Relay } from "../support/relay.ts";
import { until } from "../support/until.ts";

let relay: Relay;
const people: Person[] = [];

async function join(room: string, options: Parameters<typeof Person.open>[2] = {}): Promise<Person> {
  const person = await Person.open(relay.url, room, options);
  people.push(person);
  return person;
}

beforeAll(async () => {
  relay = await Relay.start();
});
afterEach(async () => {
  await Promise.all(people.splice(0).map(({ client }) => client.close()));
});
afterAll(() => relay.kill());

describe.each(["websocket", "long-poll"] as const)("by %s", (transport) => {
  it("what one draws the other sees, and a late joiner too", async () => {
    const room = newRoom();
    const [ann, ben] = [await join(room, { transport }), await join(room, { transport })];
    await ann.live(transport);
    await ben.live(transport);
    ann.stroke([
      [0, 0],
      [160, 80],
      [200, -40],
    ]);
    ben.stroke([[16, 16]]);
    await Promise.all([ann.saved(), ben.saved()]);
    const picture = pictureOf(await logOf(relay.url, room));
    expect([...picture].sort()).toEqual(["0 0 160 80 200 -40", "16 16"]);
    await ann.shows(picture);
    await ben.shows(picture);
    const late = await join(room, { transport });
    await late.live();
    expect(late.picture).toEqual(picture);
  });

  it("draws at once, before there is a connection", async () => {
    const ann = await join(newRoom(), { transport });
    expect(ann.client.state.kind).toBe("connecting");
    ann.stroke([
      [1, 2],
      [3, 4],
    ]);
    expect(ann.picture).toEqual(["1 2 3 4"]);
    expect(ann.client.unsent).toBe(2);
    await ann.client.flush();
    expect(ann.client.unsent).toBe(0);
    expect(ann.picture).toEqual(["1 2 3 4"]);
  });

  it("people see each other, by name and colour", async () => {
    const room = newRoom();
    const ann = await join(room, { transport, profile: { name: "Ann", rgba: 0xff0000ff } });
    const ben = await join(room, { transport, profile: { name: "Ben", rgba: 0x00ff00ff } });
    const names = () => ann.client.participants.map(({ name }) => name).sort();
    await until(() => names().join() === "Ann,Ben", names);
    ben.client.setProfile({ name: "Bob", rgba: 0x00ff00ff });
    await until(() => names().join() === "Ann,Bob", names);
  });
});

it("undo takes back one's own alone, and a late joiner agrees (C12)", async () => {
  const room = newRoom();
  const [ann, ben] = [await join(room), await join(room)];
  ann.stroke([[1, 1]]);
  await ann.client.flush();
  ben.stroke([[2, 2]]);
  await ben.client.flush();
  ann.stroke([[3, 3]]);
  await ann.client.flush();
  await ben.shows(["1 1", "2 2", "3 3"]);
  ben.client.undo();
  ben.client.undo();
  ann.client.undo();
  expect(ben.client.canUndo).toBe(false);
  await Promise.all([ann.client.flush(), ben.client.flush()]);
  const late = await join(room);
  for (const person of [ann, ben, late]) await person.shows(["1 1"]);
  ann.client.redo();
  for (const person of [ann, ben, late]) await person.shows(["1 1", "3 3"]);
});

it("clear and erase can be undone; erases of one gesture together", async () => {
  const room = newRoom();
  const [ann, ben] = [await join(room), await join(room)];
  const strokes = [ann.stroke([[1, 1]]), ann.stroke([[2, 2]])];
  await ann.client.flush();
  const { id } = ann.client;
  if (id === null) throw new Error("no id after a flush");
  await ben.shows(["1 1", "2 2"]);
  ben.client.beginGroup();
  for (const stroke of strokes) ben.client.erase([[id, stroke]]);
  ben.client.endGroup();
  await ann.shows([]);
  ben.client.undo();
  await ann.shows(["1 1", "2 2"]);
  ann.client.clear();
  await ben.shows([]);
  ann.client.undo();
  await ben.shows(["1 1", "2 2"]);
});

it("what is undone before the first welcome is undone for all", async () => {
  const room = newRoom();
  const ann = await join(room);
  ann.stroke([[1, 1]]);
  const cancelled = ann.stroke([[2, 2]]);
  ann.client.cancel(cancelled);
  ann.client.clear();
  expect(ann.picture).toEqual([]);
  ann.client.undo();
  expect(ann.picture).toEqual(["1 1"]);
  await ann.client.flush();
  const ben = await join(room);
  await ben.shows(["1 1"]);
  expect(ann.picture).toEqual(["1 1"]);
});

it("a name of any length is shortened to what the server takes", async () => {
  const room = newRoom();
  const ann = await join(room, { profile: { name: `${"🖋".repeat(70)}\ud800`, rgba: -1 } });
  await until(
    () => ann.client.participants.length > 0,
    () => ann.states,
  );
  expect(ann.client.participants).toEqual([
    { client: ann.client.id, name: "🖋".repeat(64), rgba: 0xffffffff },
  ]);
});

it("pointers reach the others, the newest at least", async () => {
  const room = newRoom();
  const [ann, ben] = [await join(room), await join(room)];
  await ann.live("websocket");
  await ben.live("websocket");
  const seen: { client: number; x: number; y: number }[] = [];
  ben.client.on("pointer", (pointer) => seen.push(pointer));
  for (let x = 0; x <= 100; x += 1) ann.client.pointer(x, -x);
  await until(
    () => seen.at(-1)?.x === 100,
    () => seen,
  );
  expect(seen.at(-1)).toEqual({ client: ann.client.id, x: 100, y: -100 });
  // A hundred moves in one moment are no hundred frames.
  expect(seen.length).toBeLessThan(10);
});

it("what one task draws goes in one batch", async () => {
  const room = newRoom();
  const ann = await join(room);
  await ann.live();
  const stroke = ann.client.begin(PEN, 0, [0, 0]);
  for (let i = 0; i < 20; i += 1) ann.client.extend(stroke, [1, 1], i === 19);
  await ann.client.flush();
  const ats = new Set((await logOf(relay.url, room)).map(({ at }) => at));
  expect(ats.size).toBe(1);
});

it("history tells the whole log, page by page", async () => {
  const room = newRoom();
  const ann = await join(room);
  for (let i = 0; i < 5_000; i += 1) ann.client.begin(PEN, 0, [i, 0], true);
  await ann.client.flush();
  let next = 1;
  let pages = 0;
  for await (const { first, records, head } of ann.client.history()) {
    expect(first).toBe(next);
    expect(head).toBe(5_000);
    next += records.length;
    pages += 1;
  }
  expect(next).toBe(5_001);
  expect(pages).toBeGreaterThan(1);
  const aborted = new AbortController();
  aborted.abort();
  await expect(ann.client.history(aborted.signal)[Symbol.asyncIterator]().next()).rejects.toThrow();
});
