/** What servers do to a client: crash, lose, drain, refuse. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join as path } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { SELF } from "../../src/index.ts";
import { logOf, newRoom, PEN, Person, pictureOf } from "../support/people.ts";
import { Relay } from "../support/relay.ts";
import { until } from "../support/until.ts";

let relay: Relay | null = null;
const people: Person[] = [];

async function start(...args: string[]): Promise<Relay> {
  relay = await Relay.start(args);
  return relay;
}

async function join(room: string, options: Parameters<typeof Person.open>[2] = {}): Promise<Person> {
  if (relay === null) throw new Error("start a relay first");
  const person = await Person.open(relay.url, room, options);
  people.push(person);
  return person;
}

afterEach(async () => {
  await Promise.all(people.splice(0).map(({ client }) => client.close()));
  await relay?.kill();
  relay = null;
});

it("killed in mid-drawing and started again: every point is there, once, in order", async () => {
  const data = await mkdtemp(path(tmpdir(), "inkrelay-"));
  try {
    const first = await start("--data", data);
    const room = newRoom();
    const [ann, ben] = [await join(room), await join(room, { transport: "long-poll" })];
    await ann.live();
    const stroke = ann.client.begin(PEN, 0, [0, 0]);
    const values = [0, 0];
    let restarted: Promise<unknown> = Promise.resolve();
    for (let index = 1; index < 400; index += 1) {
      if (index === 150)
        restarted = first.kill().then(() => start("--data", data, "--listen", `127.0.0.1:${first.port}`));
      ann.client.extend(stroke, [2, -1], index === 399);
      values.push(index * 2, -index);
      await new Promise((done) => setTimeout(done, 4));
    }
    await restarted;
    await ann.client.flush();
    await ben.shows([values.join(" ")]);
    const log = await logOf(first.url, room);
    expect(log.map(({ n }) => n)).toEqual(Array.from({ length: 400 }, (_, index) => index + 1));
    expect(pictureOf(log)).toEqual([values.join(" ")]);
  } finally {
    await relay?.kill();
    await rm(data, { recursive: true, force: true });
  }
});

it.each(["websocket", "long-poll"] as const)(
  "a store that lost everything gets back what was drawn in the last minute (%s)",
  async (transport) => {
    const args = ["--memory", "--secret", "a secret that outlives the store"];
    const first = await start(...args);
    const room = newRoom();
    const [ann, ben] = [await join(room, { transport }), await join(room, { transport })];
    ann.stroke([
      [1, 1],
      [2, 2],
    ]);
    await ann.client.flush();
    ben.stroke([[3, 3]]);
    await ben.client.flush();
    await ann.shows(["1 1 2 2", "3 3"]);
    await first.kill();
    await start(...args, "--listen", `127.0.0.1:${first.port}`);
    await until(
      () => ann.states.some(({ kind }) => kind === "offline"),
      () => ann.states,
    );
    await Promise.all([ann.live(), ben.live()]);
    const both = () =>
      [ann.picture, ben.picture].every((picture) => [...picture].sort().join() === "1 1 2 2,3 3");
    await until(both, () => [ann.picture, ben.picture]);
    await Promise.all([ann.saved(), ben.saved()]);
    const log = await logOf(first.url, room);
    expect(log).toHaveLength(3);
    expect(pictureOf(log).sort()).toEqual(["1 1 2 2", "3 3"]);
  },
);

it.each(["websocket", "long-poll"] as const)(
  "a server of another secret and store: a new client id, and what it lost and what waits is stored once (%s)",
  async (transport) => {
    const first = await start("--memory");
    const room = newRoom();
    const ann = await join(room, { transport });
    ann.stroke([
      [7, 7],
      [8, 8],
    ]);
    await ann.client.flush();
    await ann.shows(["7 7 8 8"]);
    const { id } = ann.client;
    await first.kill();
    await until(
      () => ann.states.at(-1)?.kind === "offline",
      () => ann.states,
    );
    ann.stroke([[9, 9]]);
    await start("--memory", "--listen", `127.0.0.1:${first.port}`);
    await ann.client.flush();
    expect(ann.client.id).not.toBe(id);
    await ann.shows(["7 7 8 8", "9 9"]);
    expect(pictureOf(await logOf(first.url, room))).toEqual(["7 7 8 8", "9 9"]);
    ann.client.undo();
    ann.client.undo();
    await ann.client.flush();
    await ann.shows([]);
  },
);

it("a server of another secret over the same store: a new client id, and nothing twice", async () => {
  const data = await mkdtemp(path(tmpdir(), "inkrelay-"));
  try {
    const first = await start("--data", data, "--secret", "one secret that is long enough");
    const room = newRoom();
    const ann = await join(room);
    ann.stroke([[7, 7]]);
    await ann.client.flush();
    await ann.shows(["7 7"]);
    await first.kill();
    ann.stroke([[9, 9]]);
    const other = ["--data", data, "--secret", "another secret that is long enough"];
    await start(...other, "--listen", `127.0.0.1:${first.port}`);
    await ann.client.flush();
    await ann.shows(["7 7", "9 9"]);
    expect(pictureOf(await logOf(first.url, room))).toEqual(["7 7", "9 9"]);
  } finally {
    await relay?.kill();
    await rm(data, { recursive: true, force: true });
  }
});

it.each(["websocket", "long-poll"] as const)(
  "a draining server is said to drain, and drawing goes on (%s)",
  async (transport) => {
    const args = ["--memory", "--secret", "a secret that outlives the store"];
    const first = await start(...args);
    const room = newRoom();
    const ann = await join(room, { transport });
    await ann.live();
    const stopped = first.stop();
    await until(
      // A waiting poll is answered with nothing, and the next one finds nobody.
      () =>
        ann.states.some((state) => state.kind === "offline" && (state.draining || transport === "long-poll")),
      () => ann.states,
    );
    ann.stroke([[4, 4]]);
    await stopped;
    await start(...args, "--listen", `127.0.0.1:${first.port}`);
    await ann.client.flush();
    await ann.live();
    expect(pictureOf(await logOf(first.url, room))).toEqual(["4 4"]);
  },
);

describe("refusals", () => {
  it.each(["websocket", "long-poll"] as const)(
    "D1: a draw that is too large is told once, and the connection lives (%s)",
    async (transport) => {
      await start("--memory", "--max-draw", "30");
      const room = newRoom();
      const ann = await join(room, { transport });
      // Before the limits are known, and after: one point that takes more.
      const far = [2 ** 30, 2 ** 30, 255, 100_000, 90, 90];
      const early = ann.client.begin(PEN, 7, far);
      ann.client.extend(early, [1, 1, 1, 1, 1, 1], true);
      ann.stroke([[1, 1]]);
      await ann.client.flush();
      expect(ann.refused.map(({ code }) => code)).toEqual(["too_large"]);
      const late = ann.client.begin(PEN, 7, far);
      ann.client.extend(late, [1, 1, 1, 1, 1, 1], true);
      ann.stroke([[2, 2]]);
      await ann.client.flush();
      expect(ann.refused.map(({ code }) => code)).toEqual(["too_large", "too_large"]);
      expect(ann.states.every(({ kind }) => kind !== "offline")).toBe(true);
      expect(ann.picture).toEqual(["1 1", "2 2"]);
      expect(pictureOf(await logOf(relay?.url ?? "", room))).toEqual(["1 1", "2 2"]);
    },
  );

  it.each([
    ["as shipped, before it is known", [], 60_000, 1_000, 1],
    ["small", ["--max-draw", "64"], 1_000, 1, 11],
  ] as const)(
    "D1: what is over the limit for one draw goes as several (limit %s)",
    async (_, limit, count, by, undos) => {
      await start("--memory", ...limit);
      const room = newRoom();
      const ann = await join(room);
      if (limit.length > 0) await ann.live();
      const ways = Array.from({ length: count }, (_, index) => (index < 2 ? 0 : by));
      const long = ann.client.begin(PEN, 0, ways);
      ann.client.extend(long, ways.slice(2), true);
      const others = Array.from({ length: 40 }, (_, at) => ann.stroke([[at, at]]));
      await ann.client.flush();
      const places = Array.from({ length: 2 * count - 2 }, (_, index) => by * Math.floor(index / 2)).join(
        " ",
      );
      const picture = [places, ...others.map((_, at) => `${at} ${at}`)];
      expect(pictureOf(await logOf(relay?.url ?? "", room))).toEqual(picture);
      // What was erased together is taken back together, as far as one draw can name it.
      ann.client.erase([long, ...others].map((stroke) => [SELF, stroke]));
      expect(ann.picture).toEqual([]);
      for (let step = 0; step < undos; step += 1) ann.client.undo();
      await ann.client.flush();
      expect(ann.picture).toEqual(picture);
      expect(pictureOf(await logOf(relay?.url ?? "", room))).toEqual(picture);
      expect(ann.refused).toEqual([]);
    },
  );

  it.each(["websocket", "long-poll"] as const)(
    "a viewer's draws are refused and gone; reading goes on (%s)",
    async (transport) => {
      await start("--memory", "--role", "viewer");
      const ann = await join(newRoom(), { transport });
      ann.stroke([
        [1, 1],
        [2, 2],
      ]);
      ann.stroke([[3, 3]]);
      await ann.saved();
      expect(ann.client.role).toBe(0);
      expect(ann.picture).toEqual([]);
      expect(ann.refused.map(({ code }) => code)).toEqual(["forbidden", "forbidden"]);
      expect(ann.client.canUndo).toBe(false);
      await ann.live(transport);
    },
  );

  it.each(["websocket", "long-poll"] as const)(
    "a full room is told, and can still be read (%s)",
    async (transport) => {
      await start("--memory", "--max-room", "2KiB");
      const room = newRoom();
      const ann = await join(room, { transport });
      await ann.live();
      for (let stroke = 0; ann.refused.length === 0 && stroke < 100; stroke += 1) {
        ann.stroke(Array.from({ length: 20 }, (_, index) => [stroke, index * 100] as const));
        await ann.client.flush();
      }
      expect(new Set(ann.refused.map(({ code }) => code))).toEqual(new Set(["room_full"]));
      // Nothing waits, and yet not all was kept.
      expect([ann.client.full, ann.client.unsent, ann.client.unsentChanges]).toEqual([true, 0, 0]);
      expect(ann.states.every(({ kind }) => kind !== "offline")).toBe(true);
      const picture = pictureOf(await logOf(relay?.url ?? "", room));
      await ann.shows(picture);
      const late = await join(room);
      await late.shows(picture);
    },
  );

  it("a burst beyond the rate is stored whole, a little later", async () => {
    await start("--memory", "--max-rate", "5");
    const ann = await join(newRoom(), { transport: "long-poll" });
    for (let stroke = 0; stroke < 12; stroke += 1) {
      ann.stroke([[stroke, stroke]]);
      await new Promise((done) => setTimeout(done, 20));
    }
    await ann.client.flush();
    expect(ann.refused).toEqual([]);
    expect(ann.picture).toHaveLength(12);
  });

  it("a room that may not be is refused for good, until somebody asks again", async () => {
    await start("--memory");
    const ann = await join("no room at all");
    await until(
      () => ann.client.state.kind === "refused",
      () => ann.states,
    );
    expect(ann.client.state).toMatchObject({ kind: "refused", code: "malformed" });
    const before = ann.states.length;
    ann.client.retry();
    await until(
      () => ann.states.length > before,
      () => ann.states,
    );
    expect(ann.client.state.kind).toBe("refused");
  });
});
