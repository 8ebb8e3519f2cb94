/** Everything at once: people draw, erase, undo and reload, and the network does its worst. All end with one picture. */
import "fake-indexeddb/auto";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { Hop } from "../support/hop.ts";
import { logOf, newRoom, PEN, Person, pictureOf } from "../support/people.ts";
import { Relay } from "../support/relay.ts";
import { until } from "../support/until.ts";
import { generator } from "../unit/random.ts";

/** For so many steps of a few ms. */
const STEPS = 600;

let relay: Relay;
const hops: Hop[] = [];
const people: Person[] = [];

beforeAll(async () => {
  relay = await Relay.start();
});
afterEach(async () => {
  await Promise.all(people.splice(0).map(({ client }) => client.close()));
  await Promise.all(hops.splice(0).map((hop) => hop.stop()));
});
afterAll(() => relay.kill());

const fresh = Math.floor(Math.random() * 2 ** 31);

it.each([1, 2, fresh])("seed %i", async (seed) => {
  const random = generator(seed);
  const refused: unknown[] = [];
  const room = newRoom();
  for (let count = 0; count < 3; count += 1) {
    const hop = await Hop.start(relay.port);
    hops.push(hop);
    people.push(await open(hop, room));
  }
  const strokes = new Map<Person, number>();
  for (let step = 0; step < STEPS; step += 1) {
    const who = random(people.length);
    const [person, hop] = [people[who], hops[who]];
    if (person === undefined || hop === undefined) throw new Error("somebody is missing");
    draw(person, strokes, random);
    if (random(40) === 0) disturb(hop, person, random);
    if (random(100) === 0) {
      refused.push(...person.refused);
      await person.client.close();
      people[who] = await open(hop, room);
    }
    await new Promise((done) => setTimeout(done, 5));
  }
  for (const hop of hops) {
    hop.refusesSockets = false;
    hop.refusesAll = false;
    hop.release();
  }
  await Promise.all(people.map((person) => person.saved()));
  const log = await logOf(relay.url, room);
  const picture = pictureOf(log);
  for (const person of people) await person.shows(picture);
  // P-1: each one's draws, once and without gaps.
  const numbers = new Map<number, number>();
  for (const { author, n } of log) {
    expect(n, `seed ${seed}`).toBe((numbers.get(author) ?? 0) + 1);
    numbers.set(author, n);
  }
  expect(numbers.size).toBe(3);
  expect([...refused, ...people.flatMap((person) => person.refused)]).toEqual([]);
  await until(
    () => people.every(({ isLive }) => isLive),
    () => people.map(({ client }) => client.state),
  );
});

function open(hop: Hop, room: string): Promise<Person> {
  const timing = { answer: 1_500, silence: 3_000, young: 300 };
  return Person.open(hop.url, room, { storage: "indexeddb", timing });
}

function draw(person: Person, strokes: Map<Person, number>, random: (bound: number) => number): void {
  const { client } = person;
  const stroke = strokes.get(person);
  if (stroke === undefined) {
    strokes.set(person, client.begin(PEN, 0, [random(1_000), random(1_000)]));
  } else if (random(10) > 0) {
    client.extend(stroke, [random(9) - 4, random(9) - 4]);
  } else {
    client.extend(stroke, [], true);
    strokes.delete(person);
    const shown = client.board.strokes();
    const victim = shown[random(Math.max(shown.length, 1))];
    const what = random(6);
    if (what === 0) client.undo();
    else if (what === 1) client.redo();
    else if (what === 2 && victim !== undefined) client.erase([[victim.author, victim.number]]);
    else if (what === 3 && random(4) === 0) client.clear();
  }
}

function disturb(hop: Hop, person: Person, random: (bound: number) => number): void {
  switch (random(7)) {
    case 0:
      hop.refusesSockets = !hop.refusesSockets;
      hop.cutSockets();
      break;
    case 1:
      hop.refusesAll = !hop.refusesAll;
      hop.cut();
      break;
    case 2:
      hop.hold();
      break;
    case 3:
      hop.muteSockets();
      break;
    case 4:
      hop.swallows += 1;
      break;
    case 5:
      person.wake();
      break;
    default:
      hop.cut();
  }
}
