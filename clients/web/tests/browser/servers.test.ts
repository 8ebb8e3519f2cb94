/** Bad servers, and what a server refuses: pages go on, tell people once, and lose nothing. */
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { logOf } from "../support/people.ts";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { clientFor, personFor, proxyFor, relayFor, watched } from "./support/company.ts";
import { expectKept, ink, Ledger, openPaper, pictureOf, shown, showsAll } from "./support/ledger.ts";
import { live, saved, stateOf, strokes } from "./support/page.ts";
import { Redis } from "./support/redis.ts";
import { Relay } from "./support/relay.ts";
import { sleep, until } from "./support/wait.ts";

const ROOM = "servers";
/** Until a page is back that waits 15 s between two tries at most, in milliseconds. */
const BACK = 60_000;
/** Rounds of coming back around the time at which an empty room is dropped, and that time in milliseconds. */
const ROUNDS = 8;
const IDLE = 300;
/** Pairs of strokes that come at once, and the time in milliseconds in which a waiting poll has to bring each. */
const PAIRS = 10;
const WOKEN = 15_000;

let browser: ChromiumBrowser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

async function someone(t: TestContext): Promise<ChromiumPage> {
  return watched(t, await (await personFor(t, browser)).page());
}

test.concurrent("B1, B2: a page that polls is woken by every pair of strokes that come in one moment", async (t) => {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  proxy.set({ sockets: "refuse" });
  const page = await someone(t);
  await openPaper(page, proxy.url, ROOM);
  expect(await stateOf(page)).toEqual({ kind: "live", transport: "long-poll" });
  const drawers = [await clientFor(t, relay.url, ROOM), await clientFor(t, relay.url, ROOM)] as const;
  await Promise.all(drawers.map((drawer) => drawer.live("websocket")));
  const ledgers = [new Ledger(), new Ledger()] as const;
  for (let pair = 0; pair < PAIRS; pair += 1) {
    // Between two polls, and in the middle of one.
    await sleep(pair * 40);
    const began = Date.now();
    for (const who of [0, 1] as const) ledgers[who].drawAs(drawers[who], ink(10 * pair + who));
    await until("both show", async () => (await shown(page)).length === 2 * (pair + 1));
    expect(Date.now() - began).toBeLessThan(WOKEN);
  }
  await showsAll(page, await expectKept(relay.url, ROOM, ledgers));
  expect(await stateOf(page)).toEqual({ kind: "live", transport: "long-poll" });
});

test.concurrent("C2: an ack is lost on its way: the draws are sent again, and stored once", async (t) => {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  const page = await someone(t);
  await openPaper(page, proxy.url, ROOM);
  const ledger = new Ledger();
  await ledger.draw(page, ink(0));
  await saved(page);
  proxy.set({ muted: true });
  await ledger.draw(page, ink(1));
  await until("they are stored", async () => {
    return pictureOf(await logOf(relay.url, ROOM)).join() === ledger.entries.join();
  });
  expect(await page.evaluate(() => globalThis.inkrelay.client?.unsent)).toBeGreaterThan(0);
  proxy.cut("sockets");
  proxy.clear();
  await ledger.draw(page, ink(2));
  await saved(page, BACK);
  await showsAll(page, await expectKept(relay.url, ROOM, [ledger]));
});

test.concurrent.for([
  { secret: "the same secret", flags: ["--secret", "a secret that outlives the store"] },
  { secret: "another secret", flags: [] },
])(
  "C3: a server comes back with an empty store and $secret: the page's board is the new log's",
  async ({ flags }, t) => {
    const relay = await relayFor(t, { flags });
    const proxy = await proxyFor(t, relay);
    const page = await someone(t);
    await openPaper(page, proxy.url, ROOM);
    const ledger = new Ledger();
    for (let at = 0; at < 3; at += 1) await ledger.draw(page, ink(at));
    await saved(page);
    // Somebody who does not come back: what only they drew is lost with the store.
    const gone = await clientFor(t, relay.url, ROOM);
    gone.stroke([[1_600, 1_600]]);
    await gone.saved();
    await until("it shows there", async () => (await shown(page)).length === 4);
    await gone.client.close();
    await relay.kill();
    await ledger.draw(page, ink(3));
    await relay.restart();
    await live(page, BACK);
    await saved(page, BACK);
    await ledger.draw(page, ink(4));
    await saved(page);
    const picture = await expectKept(relay.url, ROOM, [ledger]);
    await showsAll(page, picture);
  },
);

test.concurrent("C7: the last ones leave, and come back around the time at which the room is dropped", async (t) => {
  const relay = await relayFor(t, { flags: ["--room-idle", `${IDLE}ms`], store: "embedded" });
  const proxy = await proxyFor(t, relay);
  const [ada, ben] = [await someone(t), await someone(t)];
  for (const page of [ada, ben]) await openPaper(page, proxy.url, ROOM);
  const ledger = new Ledger();
  for (let round = 0; round < ROUNDS; round += 1) {
    proxy.goOffline();
    for (const page of [ada, ben]) {
      await until("it is gone", async () => (await stateOf(page))?.kind === "offline");
    }
    await sleep(IDLE - 50 + (100 * round) / (ROUNDS - 1));
    proxy.goOnline();
    for (const page of [ada, ben]) await page.evaluate(() => globalThis.inkrelay.client?.retry());
    for (let at = 0; at < 3; at += 1) await ledger.draw(ada, ink(3 * round + at));
    await saved(ada, BACK);
    await live(ben, BACK);
    // Live: nothing else has to happen for it.
    await showsAll(ben, ledger.entries);
  }
  await expectKept(relay.url, ROOM, [ledger]);
});

test.concurrent("D1: a stroke over the limit is told once, in words, and not tried again", async (t) => {
  const relay = await relayFor(t, { flags: ["--max-draw", "30"] });
  const proxy = await proxyFor(t, relay);
  const page = await someone(t);
  await openPaper(page, proxy.url, ROOM);
  const ledger = new Ledger();
  await ledger.draw(page, ink(0));
  await saved(page);
  const { handshakes } = proxy;
  await page.evaluate(() => {
    globalThis.states = [];
    globalThis.inkrelay.client?.on("state", ({ kind }) => globalThis.states.push(kind));
    globalThis.inkrelay.client?.on("refused", ({ code }) => globalThis.states.push(code));
    // One point that takes more than one draw may.
    const far = [2 ** 30, 2 ** 30, 255, 100_000, 90, 90];
    const style = { tool: 0, rgba: 0x1a2b3cff, width: 32 };
    const stroke = globalThis.inkrelay.client?.begin(style, 7, far) ?? 0;
    globalThis.inkrelay.client?.extend(stroke, [1, 1, 1, 1, 1, 1], true);
  });
  await page.tab.getByText("Your last change was not kept: too large for one stroke.").waitFor();
  await ledger.draw(page, ink(1));
  await saved(page);
  // Once, and nothing happened to the connection.
  expect(await page.evaluate(() => globalThis.states)).toEqual(["too_large"]);
  expect(proxy.handshakes).toBe(handshakes);
  await showsAll(page, await expectKept(relay.url, ROOM, [ledger]));
});

test.concurrent("D1: a hand that draws faster than one draw may hold loses nothing", async (t) => {
  const relay = await relayFor(t, { flags: ["--max-draw", "256"] });
  const page = await someone(t);
  await openPaper(page, relay.url, ROOM);
  // While the page is busy its frames wait, and one of them gets all points of the time.
  await page.slow(40);
  const ledger = new Ledger();
  await ledger.draw(page, ink(0, 500), { batch: 500 });
  await page.slow(1);
  await saved(page);
  const [stroke] = await strokes(page);
  expect(stroke?.closed).toBe(true);
  await showsAll(page, await expectKept(relay.url, ROOM, [ledger]));
});

test.concurrent("E1: Redis is killed and started again under two servers, with a page on each", async (t) => {
  const redis = await Redis.start(true);
  t.onTestFinished(() => redis.stop());
  const relays = [
    await Relay.start({ store: "redis", flags: ["--redis", redis.url] }),
    await Relay.start({ store: "redis", flags: ["--redis", redis.url] }),
  ] as const;
  for (const relay of relays) t.onTestFinished(() => relay.stop());
  const pages = [await someone(t), await someone(t)] as const;
  const ledgers = [new Ledger(), new Ledger()] as const;
  for (const who of [0, 1] as const) await openPaper(pages[who], relays[who].url, ROOM);
  let isOver = false;
  const draw = async (who: 0 | 1) => {
    for (let at = 0; !isOver; at += 1) {
      await ledgers[who].drawSlowly(pages[who], ink(2 * at + who, 40));
    }
    await ledgers[who].drawSlowly(pages[who], ink(200 + who, 40));
  };
  const drawing = Promise.all([draw(0), draw(1)]);
  await until("all draw", () => ledgers.every(({ entries }) => entries.length > 2));
  await redis.kill();
  const then = ledgers.map(({ entries }) => entries.length);
  // Both go on drawing while there is no store.
  await until("all draw on", () =>
    ledgers.every(({ entries }, who) => entries.length > (then[who] ?? 0) + 5),
  );
  await redis.restart();
  const back = ledgers.map(({ entries }) => entries.length);
  await until("and on", () => ledgers.every(({ entries }, who) => entries.length > (back[who] ?? 0) + 2));
  isOver = true;
  await drawing;
  for (const page of pages) await saved(page, BACK);
  const picture = await expectKept(relays[0].url, ROOM, ledgers);
  for (const page of pages) await showsAll(page, picture, BACK);
  // Nobody is deaf: what one draws now shows at the other at once.
  await ledgers[0].draw(pages[0], ink(300));
  await saved(pages[0]);
  await showsAll(pages[1], [...picture, ...ledgers[0].entries.slice(-1)]);
});

declare global {
  /** Kinds of states, and codes of refusals, that a page's client told. */
  var states: string[];
}
