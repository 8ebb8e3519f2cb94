/** Without a network for a moment, and for long: what is drawn stays, is stored once, and people are told the truth. */
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { clientFor, pageFor, personFor, proxyFor, relayFor, watched } from "./support/company.ts";
import { expectKept, ink, Ledger, openPaper, shown, showsAll } from "./support/ledger.ts";
import {
  difference,
  live,
  openBoard,
  pixels,
  saved,
  stateOf,
  unsent,
  unsentChanges,
} from "./support/page.ts";
import type { ProxyServer } from "./support/proxy.ts";
import type { Relay } from "./support/relay.ts";
import { saidBy, watchStatus, wordOf } from "./support/status.ts";
import { sleep, until } from "./support/wait.ts";

/** How long somebody draws, in milliseconds. */
const DRAWING = 60_000;
/** Between two short failures, and how long each lasts; in milliseconds. */
const BETWEEN_BLIPS = 4_000;
const BLIP = 500;
/** A long failure, in milliseconds. */
const DARK = 30_000;
/** The page may look connected no longer than that, in milliseconds, with ink that nobody acks. */
const TRUTH = 3_500;
/** Until a client is back that waits 15 s between two tries at most, on a loaded machine; in milliseconds. */
const BACK = 60_000;

/** Someone behind a network of their own. */
interface Setting {
  readonly relay: Relay;
  readonly proxy: ProxyServer;
  readonly page: ChromiumPage;
  readonly offline: (is: boolean) => Promise<void>;
}

/** How a network fails. */
const FAILURES: readonly {
  readonly how: string;
  readonly fail: (setting: Setting) => Promise<void> | void;
  readonly mend: (setting: Setting) => Promise<void> | void;
}[] = [
  {
    how: "the browser says so, and its sockets stall",
    fail: ({ offline }) => offline(true),
    mend: ({ offline }) => offline(false),
  },
  {
    how: "everything is cut",
    fail: ({ proxy }) => proxy.goOffline(),
    mend: ({ proxy }) => proxy.goOnline(),
  },
  {
    how: "everything stalls without a word",
    fail: ({ proxy }) => proxy.set({ stalled: true }),
    mend: ({ proxy }) => proxy.clear(),
  },
];

let browser: ChromiumBrowser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

async function setting(t: TestContext, room: string): Promise<Setting> {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  const person = await personFor(t, browser);
  const page = watched(t, await person.page());
  await openPaper(page, proxy.url, room);
  return { relay, proxy, page, offline: (is) => person.offline(is) };
}

describe("C4: half a second every few seconds, while drawing for a minute", () => {
  test.concurrent.for(FAILURES)("$how", async ({ fail, mend }, t) => {
    const place = await setting(t, "blips");
    const { relay, page } = place;
    await watchStatus(page);
    const ledger = new Ledger();
    const end = Date.now() + DRAWING;
    const disturb = async () => {
      while (Date.now() < end) {
        await sleep(BETWEEN_BLIPS);
        await fail(place);
        await sleep(BLIP);
        await mend(place);
      }
    };
    const disturbed = disturb();
    for (let at = 0; Date.now() < end; at += 1) await ledger.drawSlowly(page, ink(at, 60));
    await disturbed;
    await saved(page, BACK);
    await until("it says so", async () => (await wordOf(page)) === "Saved");
    const picture = await expectKept(relay.url, "blips", [ledger]);
    await showsAll(page, picture);
    // A good part was drawn while something was on its way.
    const said = await saidBy(page);
    expect(Math.max(...said.map(({ unsent }) => unsent))).toBeGreaterThan(5);
    expect(said.filter(({ word, unsent }) => word === "Saved" && unsent > 0)).toEqual([]);
  });
});

describe("C5: half a minute, with ink before, in it and after", () => {
  test.concurrent.for(FAILURES)("$how", async ({ fail, mend }, t) => {
    const place = await setting(t, "dark");
    const { relay, page } = place;
    await watchStatus(page);
    const ledger = new Ledger();
    await fail(place);
    const failed = Date.now();
    for (let at = 0; at < 5; at += 1) await ledger.drawSlowly(page, ink(at, 60));
    const drawn = Date.now();
    expect(await unsent(page)).toBeGreaterThan(5);
    await until("it says how much is unsent", async () => {
      return (await wordOf(page)) === `Offline · ${await unsentChanges(page)} unsent`;
    });
    await sleep(Math.max(0, failed + DARK - Date.now()));
    const mended = Date.now();
    await mend(place);
    for (let at = 5; at < 10; at += 1) await ledger.drawSlowly(page, ink(at, 60));
    await until("it says that all is saved", async () => (await wordOf(page)) === "Saved", BACK);
    expect(await unsent(page)).toBe(0);
    const said = await saidBy(page);
    await page.close();

    expect(said.filter(({ word, unsent }) => word === "Saved" && unsent > 0)).toEqual([]);
    const dark = said.filter(({ at }) => at > drawn + TRUTH && at < mended);
    expect(dark.length).toBeGreaterThan(100);
    expect(dark.filter(({ word }) => word === "Live" || word === "Saved")).toEqual([]);
    // What waits is told until it is acked, and no sooner is it nothing.
    expect(dark.every(({ unsent }) => unsent > 5)).toBe(true);

    const picture = await expectKept(relay.url, "dark", [ledger]);
    expect(picture).toHaveLength(10);
    const fresh = await pageFor(t, browser);
    await openBoard(fresh, relay.url, "dark");
    await showsAll(fresh, picture);
  });
});

test.concurrent.for(FAILURES.slice(0, 2))(
  "C1: away and back five times, nothing is delivered again: $how",
  async ({ fail, mend }, t) => {
    const place = await setting(t, "again");
    const { relay, page } = place;
    const others = await clientFor(t, relay.url, "again");
    const ledger = new Ledger();
    const away = async () => {
      await fail(place);
      await until("it notices", async () => (await stateOf(page))?.kind === "offline");
    };
    const back = async () => {
      await mend(place);
      await page.evaluate(() => globalThis.inkrelay.client?.retry());
      await live(page, BACK);
    };
    await away();
    for (let at = 0; at < 10; at += 1) ledger.drawAs(others, ink(at));
    await others.saved();
    await back();
    await showsAll(page, ledger.entries);
    const before = await pixels(page, "#stage");
    await page.evaluate(() => {
      globalThis.changes = 0;
      globalThis.inkrelay.client?.board.subscribe(() => {
        globalThis.changes += 1;
      });
    });
    for (let round = 0; round < 5; round += 1) {
      await away();
      await back();
    }
    expect(await page.evaluate(() => globalThis.changes)).toBe(0);
    expect(difference(before, await pixels(page, "#stage"))).toBe(null);
    expect(await shown(page)).toEqual(ledger.entries);
  },
);

declare global {
  /** Changes of the board that the page was told of. */
  var changes: number;
}
