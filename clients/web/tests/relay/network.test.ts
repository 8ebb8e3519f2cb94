/** What networks do to a client, and what must come of it: nothing lost, doubled or reordered. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { Hop } from "../support/hop.ts";
import { logOf, newRoom, PEN, Person, pictureOf } from "../support/people.ts";
import { Relay } from "../support/relay.ts";
import { until } from "../support/until.ts";

let relay: Relay;
let hop: Hop;
const people: Person[] = [];

async function join(
  server: string,
  room: string,
  options: Parameters<typeof Person.open>[2] = {},
): Promise<Person> {
  const person = await Person.open(server, room, options);
  people.push(person);
  return person;
}

/** Draws one stroke of so many points, one every few ms, as a pen does. */
async function drawSlowly(person: Person, points: number, onPoint: (index: number) => void): Promise<string> {
  const stroke = person.client.begin(PEN, 0, [0, 0]);
  const values = [0, 0];
  for (let index = 1; index < points; index += 1) {
    onPoint(index);
    person.client.extend(stroke, [1, index % 7], index === points - 1);
    values.push(index, (values.at(-1) ?? 0) + (index % 7));
    await new Promise((done) => setTimeout(done, 4));
  }
  return values.join(" ");
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

it("B5: a socket refused in mid-stroke, and let through again: the same 500 points, once, in order", async () => {
  const room = newRoom();
  const ann = await join(hop.url, room);
  const ben = await join(relay.url, room);
  await ann.live("websocket");
  const transports = new Set<string>();
  ann.client.on("state", (state) => {
    if (state.kind === "live") transports.add(state.transport);
  });
  const drawn = drawSlowly(ann, 500, (index) => {
    if (index !== 100) return;
    hop.refusesSockets = true;
    hop.cutSockets();
  });
  await ann.live("long-poll");
  hop.refusesSockets = false;
  const values = await drawn;
  await ann.live("websocket");
  await ann.client.flush();
  expect(transports).toEqual(new Set(["long-poll", "websocket"]));
  await ben.shows([values]);
  expect(ann.picture).toEqual([values]);
  const log = await logOf(relay.url, room);
  expect(log).toHaveLength(500);
  expect(log.map(({ n }) => n)).toEqual(Array.from({ length: 500 }, (_, index) => index + 1));
});

it("C4: cut every few hundred ms while drawing: every point is there, once, in order", async () => {
  const room = newRoom();
  const ann = await join(hop.url, room);
  const ben = await join(hop.url, room);
  await ann.live();
  const cutting = setInterval(() => hop.cut(), 300);
  const pictures: string[] = [];
  for (let stroke = 0; stroke < 4; stroke += 1) pictures.push(await drawSlowly(ann, 150, () => {}));
  clearInterval(cutting);
  await ann.client.flush();
  await ben.shows(pictures);
  expect(pictureOf(await logOf(relay.url, room))).toEqual(pictures);
  expect(ann.states.filter(({ kind }) => kind === "offline").length).toBeGreaterThan(2);
});

it("a socket that opens and is cut at once leads to long-polling, and back up later", async () => {
  const room = newRoom();
  const ann = await join(hop.url, room);
  const cutting = setInterval(() => {
    hop.cutSockets();
  }, 1);
  await ann.live("long-poll");
  clearInterval(cutting);
  ann.stroke([[1, 1]]);
  await ann.client.flush();
  await ann.live("websocket");
  expect(pictureOf(await logOf(relay.url, room))).toEqual(["1 1"]);
});

it("a server that is not there says nothing against sockets", async () => {
  hop.refusesAll = true;
  const ann = await join(hop.url, newRoom());
  await until(
    () => ann.states.filter(({ kind }) => kind === "offline").length >= 5,
    () => ann.states,
  );
  hop.refusesAll = false;
  await until(
    () => ann.isLive,
    () => ann.states,
  );
  expect(ann.client.state).toEqual({ kind: "live", transport: "websocket" });
});

it("C1: five empty reconnects deliver nothing", async () => {
  const room = newRoom();
  const ann = await join(hop.url, room, { transport: "websocket" });
  const ben = await join(relay.url, room);
  await ann.live();
  hop.refusesAll = true;
  hop.cut();
  for (let stroke = 0; stroke < 10; stroke += 1) ben.stroke([[stroke, stroke]]);
  await ben.client.flush();
  hop.refusesAll = false;
  await ann.shows(ben.picture);
  const changes: unknown[] = [];
  ann.client.board.subscribe((change) => changes.push(change));
  for (let round = 0; round < 5; round += 1) {
    const before = ann.states.length;
    hop.cut();
    await until(
      () => ann.states.slice(before).some(({ kind }) => kind === "offline"),
      () => ann.states,
    );
    await ann.live();
  }
  expect(changes).toEqual([]);
  expect(ann.picture).toHaveLength(10);
});

it.each(["websocket", "long-poll"] as const)(
  "C2: an answer is lost: the same n again, stored once (%s)",
  async (transport) => {
    const room = newRoom();
    const ann = await join(hop.url, room, { transport });
    await ann.live(transport);
    if (transport === "long-poll") {
      hop.swallows = 1;
      ann.stroke([[5, 5]]);
    } else {
      // Draws reach the relay, and what it says does not come back.
      hop.muteSockets();
      ann.stroke([[5, 5]]);
    }
    await ann.client.flush();
    const log = await logOf(relay.url, room);
    expect(log.map(({ n }) => n)).toEqual([1]);
    expect(ann.refused).toEqual([]);
    expect(hop.swallows).toBe(0);
  },
);

it("G6: a socket that is dead without a word is noticed on waking up", async () => {
  const room = newRoom();
  const ann = await join(hop.url, room);
  const ben = await join(relay.url, room);
  await ann.live();
  await ben.live();
  hop.hold();
  for (let stroke = 0; stroke < 30; stroke += 1) ben.stroke([[stroke, 0]]);
  await ben.client.flush();
  // Nothing was heard for longer than a second: else there would be no question.
  await new Promise((done) => setTimeout(done, 1_200));
  expect(ann.picture).toEqual([]);
  const woke = Date.now();
  ann.wake();
  await ann.shows(ben.picture);
  expect(Date.now() - woke).toBeLessThan(4_000);
  expect(ann.client.participants.filter(({ client }) => client === ann.client.id)).toHaveLength(1);
});

it("waking up with a socket that lives is not seen by anybody", async () => {
  const room = newRoom();
  const ann = await join(hop.url, room);
  const ben = await join(relay.url, room);
  await ann.live();
  await ben.live();
  const before = ann.states.length;
  const seen: number[] = [];
  ben.client.on("participants", (participants) => seen.push(participants.length));
  const { upgrades } = hop;
  // Nothing happens before a second without a word.
  await until(
    () => {
      ann.wake();
      return hop.upgrades === upgrades + 1;
    },
    () => hop.upgrades,
  );
  // The newer one has taken the place of the older.
  await until(
    () => hop.openSockets === 1,
    () => hop.openSockets,
  );
  ann.stroke([[7, 7]]);
  await ann.client.flush();
  await ben.shows(["7 7"]);
  // Just heard: no other socket.
  ann.wake();
  expect(ann.states.slice(before)).toEqual([]);
  expect(hop.upgrades).toBe(upgrades + 1);
  expect(seen.every((count) => count === 2)).toBe(true);
});

it("a network that is gone without a word is noticed by silence, and draws by their answers", async () => {
  const room = newRoom();
  const quiet = await join(hop.url, room, { timing: { silence: 1_500 } });
  const drawing = await join(hop.url, room, { timing: { answer: 1_500 } });
  await quiet.live();
  await drawing.live();
  hop.hold(true);
  drawing.stroke([[1, 1]]);
  for (const { states } of [quiet, drawing]) {
    await until(
      () => states.at(-1)?.kind === "offline",
      () => states,
    );
  }
  hop.release();
  await drawing.client.flush();
  await quiet.shows(["1 1"]);
});

it("the device says it is offline: said at once, and tried again all the same", async () => {
  const ann = await join(relay.url, newRoom());
  await ann.live();
  ann.goOffline();
  await until(
    () => ann.states.at(-1)?.kind === "offline",
    () => ann.states,
  );
  await ann.live("websocket");
});
