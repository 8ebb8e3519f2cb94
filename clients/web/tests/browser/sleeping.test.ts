/** Pages that sleep, stop reading or read slowly: they end with everything, and nobody else notices. */
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { clientFor, personFor, proxyFor, relayFor, watched } from "./support/company.ts";
import { expectKept, ink, Ledger, openPaper, shown, showsAll } from "./support/ledger.ts";
import { live, liveByWebSocket, saved, stateOf } from "./support/page.ts";
import type { ProxyServer } from "./support/proxy.ts";
import { sleep, until } from "./support/wait.ts";

const ROOM = "sleepers";
/** How long a page is frozen, in milliseconds: its timers and the last word of the server are long past by then. */
const SLEEP = 8_000;
/**
 * After waking up: the probe goes out, and the page is connected again, in milliseconds. It takes seconds where much
 * else runs; without the probe the page would notice after 37 s, when nothing was heard for 45.
 */
const PROBE = 5_000;
const AGAIN = 20_000;
/** When the relay gives up who takes nothing, and what everybody else waits at most meanwhile, in milliseconds. */
const STALL = 20_000;
const UNHINDERED = 10_000;
/** More bytes than all buffers between a relay and a page that does not read: the kernel's take some megabytes. */
const FLOOD_BYTES = 24 * 1024 * 1024;
/** Bytes of one draw that no board shows, and how many go in one request. */
const OPAQUE_BYTES = 60 * 1024;
const OPAQUE_DRAWS = 4;
/** A line on which a burst takes many seconds, in bytes a second. */
const SLOW_LINE = 20_000;
const BURST = 3_000;
/** For the burst on the slow line, in milliseconds. */
const BURST_TIME = 120_000;

let browser: ChromiumBrowser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

async function someone(t: TestContext): Promise<ChromiumPage> {
  return watched(t, await (await personFor(t, browser)).page());
}

/** As the system tells a page that it is seen again. */
async function wake(page: ChromiumPage): Promise<void> {
  await page.evaluate(() => {
    document.dispatchEvent(new Event("visibilitychange"));
    window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: false }));
  });
}

/** Who is in the room, as the relay says. */
async function participants(server: string): Promise<number[]> {
  const response = await fetch(`${server}/v1/rooms/${ROOM}`);
  const { participants }: { participants: [number, string, number][] } = await response.json();
  return participants.map(([client]) => client);
}

/** Whom the page lists, itself included. */
function listed(page: ChromiumPage): Promise<number[]> {
  return page.evaluate(() => (globalThis.inkrelay.client?.participants ?? []).map(({ client }) => client));
}

/** When the next connection comes to a proxy, as of `Date.now()`. */
function nextConnection(proxy: ProxyServer, within: number): Promise<number> {
  const { connections } = proxy;
  return until("somebody connects", () => proxy.connections > connections && Date.now(), within);
}

test.concurrent.for([
  { network: "forgot the old socket", silent: false },
  { network: "answers nothing yet", silent: true },
])("G6: a page wakes up on a dead socket, and the network $network", async ({ silent }, t) => {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  const page = await someone(t);
  await openPaper(page, proxy.url, ROOM);
  const others = await clientFor(t, relay.url, ROOM);
  await others.live("websocket");
  const own = await page.evaluate(() => globalThis.inkrelay.client?.id);
  await liveByWebSocket(page);
  await page.frozen(true);
  const letGo = proxy.hold();
  const ledger = new Ledger();
  for (let at = 0; at < 30; at += 1) ledger.drawAs(others, ink(at));
  await others.saved();
  if (silent) proxy.set({ stalled: true });
  await sleep(SLEEP);
  const probed = nextConnection(proxy, 30_000);
  await page.frozen(false);
  const thawed = Date.now();
  await wake(page);
  expect((await probed) - thawed).toBeLessThan(PROBE);
  if (silent) {
    await until("it says that it is offline", async () => (await stateOf(page))?.kind !== "live");
    expect(Date.now() - thawed).toBeLessThan(AGAIN);
    proxy.clear();
    await live(page);
  }
  await showsAll(page, ledger.entries);
  if (!silent) expect(Date.now() - thawed).toBeLessThan(AGAIN);
  // Nobody is there twice: not now, and not when the old socket's end is told at last.
  const everyone = [own, others.client.id].sort();
  await until("both are listed, once", async () => `${(await listed(page)).sort()}` === `${everyone}`);
  letGo();
  await page.stroke(ink(40));
  await saved(page);
  expect((await listed(page)).sort()).toEqual(everyone);
  expect((await participants(relay.url)).sort()).toEqual(everyone);
  expect((await shown(page)).length).toBe(31);
});

test.concurrent("C6: the old socket's late end leaves the new session alone", async (t) => {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  const [page, other] = [await someone(t), await someone(t)];
  await openPaper(page, proxy.url, ROOM);
  await openPaper(other, relay.url, ROOM);
  const own = await page.evaluate(() => globalThis.inkrelay.client?.id);
  await liveByWebSocket(page);
  const letGo = proxy.hold();
  const { handshakes } = proxy;
  await until("it goes on over another socket", async () => {
    await wake(page);
    return proxy.handshakes > handshakes;
  });
  const ledgers = [new Ledger(), new Ledger()] as const;
  await ledgers[0].draw(page, ink(0));
  await saved(page);
  letGo();
  await ledgers[1].draw(other, ink(50));
  await ledgers[0].draw(page, ink(1));
  await Promise.all([saved(page), saved(other)]);
  const picture = await expectKept(relay.url, ROOM, ledgers);
  for (const each of [page, other]) {
    await showsAll(each, picture);
    expect((await listed(each)).filter((client) => client === own)).toHaveLength(1);
  }
  expect((await stateOf(page))?.kind).toBe("live");
  expect(await page.evaluate(() => globalThis.inkrelay.client?.id)).toBe(own);
});

test.concurrent("A3: a page that stops reading is closed, and has everything when it goes on", async (t) => {
  const relay = await relayFor(t, { flags: ["--stall-time", `${STALL}ms`] });
  const proxy = await proxyFor(t, relay);
  const page = await someone(t);
  await openPaper(page, proxy.url, ROOM);
  const own = (await page.evaluate(() => globalThis.inkrelay.client?.id)) ?? 0;
  const drawer = await clientFor(t, relay.url, ROOM);
  const reader = await clientFor(t, relay.url, ROOM);
  await Promise.all([drawer.live(), reader.live()]);
  await page.frozen(true);
  const ledger = new Ledger();
  let slowest = 0;
  for (let sent = 0, at = 0; sent < FLOOD_BYTES; sent += OPAQUE_BYTES * OPAQUE_DRAWS, at += 1) {
    await flood(relay.url);
    const began = Date.now();
    ledger.drawAs(drawer, ink(at));
    await until("who reads has it", () => reader.picture.length === ledger.entries.length);
    slowest = Math.max(slowest, Date.now() - began);
  }
  await until(
    "who does not read is given up",
    async () => !(await participants(relay.url)).includes(own),
    60_000,
  );
  // Those who read waited for nobody.
  expect(slowest).toBeLessThan(UNHINDERED);
  await page.frozen(false);
  await showsAll(page, ledger.entries, 120_000);
  await live(page);
  await page.stroke(ink(99));
  await saved(page);
  await until("it is back, once", async () => {
    return (await participants(relay.url)).filter((client) => client === own).length === 1;
  });
});

test.concurrent("A4: a page on a slow line misses nothing of a burst, and hears what comes after it", async (t) => {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  const page = await someone(t);
  await openPaper(page, proxy.url, ROOM);
  const drawer = await clientFor(t, relay.url, ROOM);
  await drawer.live();
  proxy.set({ bytesPerSecond: SLOW_LINE });
  const ledger = new Ledger();
  for (let at = 0; at < BURST; at += 1) ledger.drawAs(drawer, ink(at, 4));
  await drawer.saved();
  for (let at = BURST; at < BURST + 10; at += 1) {
    ledger.drawAs(drawer, ink(at, 4));
    await drawer.saved();
  }
  await showsAll(page, ledger.entries, BURST_TIME);
  expect(await expectKept(relay.url, ROOM, [ledger])).toEqual(ledger.entries);
});

/** Draws that all receive and no board shows: an array of arrays `[5, bin]`, by nobody in particular. */
async function flood(server: string): Promise<void> {
  const draws = Array.from({ length: OPAQUE_DRAWS }, () => {
    const head = Buffer.from([0x92, 0x05, 0xc5, OPAQUE_BYTES >> 8, OPAQUE_BYTES & 0xff]);
    return Buffer.concat([head, Buffer.alloc(OPAQUE_BYTES)]);
  });
  const response = await fetch(`${server}/v1/rooms/${ROOM}/draws`, {
    method: "POST",
    headers: { "content-type": "application/msgpack" },
    body: Buffer.concat([Buffer.from([0x90 + OPAQUE_DRAWS]), ...draws]),
  });
  expect(response.status).toBe(200);
}
