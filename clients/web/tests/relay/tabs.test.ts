/** Tabs: what they draw survives them, and is stored once; many on one board do not get in each other's way. */
import "fake-indexeddb/auto";
import { openDB } from "idb";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { WebSocket } from "ws";
import { encodeHello } from "../../src/codec.ts";
import { Outbox, type OutboxState } from "../../src/outbox.ts";
import { noPage } from "../../src/page.ts";
import { Storage } from "../../src/storage.ts";
import { Hop } from "../support/hop.ts";
import { logOf, newRoom, PEN, Person, pictureOf } from "../support/people.ts";
import { Relay } from "../support/relay.ts";
import { until } from "../support/until.ts";

let relay: Relay;
let hop: Hop;
const people: Person[] = [];

/** A tab: all of them have one database. */
async function tab(room: string, options: Parameters<typeof Person.open>[2] = {}): Promise<Person> {
  const person = await Person.open(hop.url, room, { storage: "indexeddb", ...options });
  people.push(person);
  return person;
}

async function closeTab(person: Person): Promise<void> {
  people.splice(people.indexOf(person), 1);
  await person.client.close();
}

function goOffline(): void {
  hop.refusesAll = true;
  hop.cut();
}

function storageOf(server: string, now: () => number): Promise<Storage> {
  return Storage.open({ server, kind: "indexeddb", page: noPage, now });
}

beforeAll(async () => {
  relay = await Relay.start();
});
beforeEach(async () => {
  hop = await Hop.start(relay.port);
});
afterEach(async () => {
  await Promise.all(people.splice(0).map(({ client }) => client.close()));
  await hop.stop();
});
afterAll(() => relay.kill());

it("a reload keeps who one is, what is unsent, and what can be undone", async () => {
  const room = newRoom();
  const before = await tab(room);
  before.stroke([[1, 1]]);
  await before.client.flush();
  const { id } = before.client;
  goOffline();
  before.stroke([[2, 2]]);
  // In the middle of a stroke.
  const open = before.client.begin(PEN, 0, [3, 3]);
  before.client.extend(open, [1, 1]);
  await closeTab(before);
  const after = await tab(room);
  expect(after.client.id).toBe(id);
  expect(after.client.unsent).toBe(3);
  expect(after.picture).toContain("2 2");
  expect(after.picture).toContain("3 3 4 4");
  expect(after.client.canUndo).toBe(true);
  hop.refusesAll = false;
  await after.client.flush();
  await after.shows(["1 1", "2 2", "3 3 4 4"]);
  expect(pictureOf(await logOf(relay.url, room))).toEqual(["1 1", "2 2", "3 3 4 4"]);
  after.client.undo();
  after.client.undo();
  after.client.undo();
  await after.client.flush();
  expect(pictureOf(await logOf(relay.url, room))).toEqual([]);
});

it("G7: a stale tab that draws before it has joined adds to what others did, and takes nothing back", async () => {
  const room = newRoom();
  const stale = await tab(room);
  for (let stroke = 0; stroke < 5; stroke += 1) stale.stroke([[stroke, 0]]);
  await stale.client.flush();
  const { id } = stale.client;
  if (id === null) throw new Error("no id after a flush");
  await closeTab(stale);
  const ben = await Person.open(relay.url, room);
  people.push(ben);
  await ben.live();
  for (let stroke = 0; stroke < 20; stroke += 1) ben.stroke([[stroke, 1]]);
  ben.client.erase([1, 2, 3].map((stroke) => [id, stroke] as const));
  await ben.client.flush();
  const before = ben.picture;
  goOffline();
  const again = await tab(room);
  again.stroke([[9, 9]]);
  // What it drew in the last minute it has at hand, and nothing of it is sent again.
  expect(again.picture).toEqual(["0 0", "1 0", "2 0", "3 0", "4 0", "9 9"]);
  expect(again.client.unsent).toBe(1);
  hop.refusesAll = false;
  await again.client.flush();
  await again.shows([...before, "9 9"]);
  await ben.shows([...before, "9 9"]);
  expect(before).toHaveLength(22);
});

it("two tabs on one board are two participants, and each one's draws are stored once", async () => {
  const room = newRoom();
  const [one, two] = [await tab(room), await tab(room)];
  await Promise.all([one.live(), two.live()]);
  expect(one.client.id).not.toBe(two.client.id);
  for (let stroke = 0; stroke < 20; stroke += 1) {
    one.stroke([[stroke, 1]]);
    two.stroke([[stroke, 2]]);
    if (stroke === 10) hop.cut();
  }
  await Promise.all([one.client.flush(), two.client.flush()]);
  const picture = pictureOf(await logOf(relay.url, room));
  expect(picture).toHaveLength(40);
  expect(new Set(picture).size).toBe(40);
  await one.shows(picture);
  await two.shows(picture);
});

it("what closed tabs left unsent is posted by the one that is open, once", async () => {
  const room = newRoom();
  const tabs = [await tab(room), await tab(room), await tab(room)];
  for (const [index, person] of tabs.entries()) {
    person.stroke([[index, 0]]);
    await person.client.flush();
  }
  goOffline();
  for (const [index, person] of tabs.entries()) {
    person.stroke([
      [index, 1],
      [index, 2],
    ]);
    await closeTab(person);
  }
  hop.refusesAll = false;
  const later = await tab(room);
  // One identity is its own now, and two are orphans.
  const all = ["0 0", "1 0", "2 0", "0 1 0 2", "1 1 1 2", "2 1 2 2"];
  await until(
    () => [...later.picture].sort().join() === [...all].sort().join(),
    () => later.picture,
  );
  expect(later.client.participants).toHaveLength(1);
  const log = await logOf(relay.url, room);
  expect(log).toHaveLength(9);
  // Nothing is left to post for the next.
  await closeTab(later);
  const storage = await storageOf(hop.url, Date.now);
  expect(await storage.claimOrphan(room)).toBeNull();
  await storage.close();
});

it("what crashed tabs left is posted when their leases are over, also of one that never was connected", async () => {
  const room = newRoom();
  // Their leases were over a second ago.
  const past = () => Date.now() - 7_000;
  for (const x of [1, 2]) {
    const storage = await storageOf(hop.url, past);
    const identity = await storage.claim(room, true);
    const outbox = new Outbox(1);
    outbox.push({
      kind: "begin",
      stroke: outbox.takeStroke(),
      style: PEN,
      channels: 0,
      points: [x, x],
      end: true,
    });
    const changes = outbox.changes();
    if (changes === null) throw new Error("a push is a change");
    await identity.save({ ...changes, history: null });
    // And is never released. What it still renews is over at once.
  }
  const later = await tab(room);
  await until(
    () => [...later.picture].sort().join() === "1 1,2 2",
    () => later.picture,
  );
  expect(pictureOf(await logOf(relay.url, room)).sort()).toEqual(["1 1", "2 2"]);
});

it("4410: whoever is replaced draws on as somebody else, and fights nobody", async () => {
  const room = newRoom();
  const ann = await tab(room);
  ann.stroke([[1, 1]]);
  await ann.client.flush();
  const { id } = ann.client;
  // Somebody has a copy of the ticket.
  const ticket = await ticketOf(hop.url, room);
  const thief = new WebSocket(
    `${relay.url.replace("http", "ws")}/v1/rooms/${room}/ws`,
    "v1.msgpack.inkrelay",
  );
  const closes: number[] = [];
  thief.on("close", (code: number) => closes.push(code));
  await new Promise((done) => thief.on("open", done));
  thief.send(encodeHello({ ticket, position: null, profile: null, token: null }));
  await until(
    () => ann.client.id !== id && ann.isLive,
    () => [ann.client.id, ann.states],
  );
  ann.stroke([[2, 2]]);
  await ann.client.flush();
  expect(closes).toEqual([]);
  thief.close();
  await ann.shows(["1 1", "2 2"]);
  expect(pictureOf(await logOf(relay.url, room))).toEqual(["1 1", "2 2"]);
});

/** The ticket of a room's one identity, as the database has it. */
async function ticketOf(server: string, room: string): Promise<string> {
  const database = await openDB(`inkrelay ${server}`);
  const rows: { readonly state: OutboxState | null }[] = await database.getAllFromIndex(
    "identities",
    "room",
    room,
  );
  database.close();
  const ticket = rows[0]?.state?.ticket;
  if (typeof ticket !== "string") throw new Error("no ticket is saved");
  return ticket;
}
