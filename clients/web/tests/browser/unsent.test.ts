/** Ink that no server has yet: it survives reloads, closed tabs, many tabs and a killed browser, and is stored once. */
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import type { Page } from "./support/browser.ts";
import { type ChromiumBrowser, type ChromiumPerson, startChromium } from "./support/chromium.ts";
import { personFor, proxyFor, relayFor, watched } from "./support/company.ts";
import { atOrigin, entryOf, expectKept, ink, Ledger, openPaper, shown, showsAll } from "./support/ledger.ts";
import { MortalChromium } from "./support/mortal-chromium.ts";
import { live, ready, saved, unsent } from "./support/page.ts";
import type { ProxyServer } from "./support/proxy.ts";
import type { Relay } from "./support/relay.ts";
import { wordOf } from "./support/status.ts";
import { until } from "./support/wait.ts";

const ROOM = "unsent";
/** Points of the stroke in which a page is reloaded, and how many are drawn by then. */
const TORN = { points: 61, drawn: 41 } as const;
/** Until ink is sent that a killed page left behind, in milliseconds: nobody takes it before its lease of 6 s is over. */
const LEFT_BEHIND = 60_000;

let browser: ChromiumBrowser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

interface Setting {
  readonly relay: Relay;
  readonly proxy: ProxyServer;
  readonly ledger: Ledger;
}

async function setting(t: TestContext): Promise<Setting> {
  const relay = await relayFor(t);
  return { relay, proxy: await proxyFor(t, relay), ledger: new Ledger() };
}

/** A new tab on the board, live, that opens without a network from now on. */
async function tab(t: TestContext, person: Pick<ChromiumPerson, "page">, proxy: ProxyServer): Promise<Page> {
  const page = watched(t, await person.page());
  await openPaper(page, proxy.url, ROOM);
  await until("the page itself is kept", () =>
    page.evaluate(async () => (await navigator.serviceWorker.ready).active?.state === "activated"),
  );
  return page;
}

/** A tab of somebody who was here before, with or without a network. */
async function tabAgain(
  t: TestContext,
  person: Pick<ChromiumPerson, "page">,
  proxy: ProxyServer,
): Promise<Page> {
  const page = watched(t, await person.page());
  await page.open(`${proxy.url}/b/${ROOM}`);
  await ready(page);
  await atOrigin(page);
  return page;
}

/** Waits until the disk has what the server lacks: then no crash can take it. */
async function keptOnDisk(page: Page): Promise<void> {
  await until("the outbox is on the disk", async () => {
    const rows = await page.evaluate(async () => {
      const database = await new Promise<IDBDatabase>((resolve, reject) => {
        const opening = indexedDB.open(`inkrelay ${location.origin}`);
        opening.onsuccess = () => resolve(opening.result);
        opening.onerror = () => reject(opening.error);
      });
      const identities = await new Promise<{ readonly unsent: number }[]>((resolve, reject) => {
        const reading = database.transaction("identities").objectStore("identities").getAll();
        reading.onsuccess = () => resolve(reading.result);
        reading.onerror = () => reject(reading.error);
      });
      database.close();
      return identities.map((identity) => identity.unsent);
    });
    return rows.reduce((sum, count) => sum + count, 0) === (await unsent(page));
  });
}

async function allSent(page: Page, within?: number): Promise<void> {
  await live(page, within);
  await saved(page, within);
  await until("it says so", async () => (await wordOf(page)) === "Saved");
}

/** Waits until as much shows as these ledgers have: what a closed page left is sent apart from a new page's own. */
async function showsCount(page: Page, ledgers: readonly Ledger[]): Promise<void> {
  const wanted = ledgers.flatMap(({ entries }) => entries).sort();
  let last: string[] = [];
  const look = async () => {
    last = await shown(page);
    return last.length === wanted.length;
  };
  await until("all shows", look, LEFT_BEHIND).catch(() => expect(last.sort()).toEqual(wanted));
}

test.concurrent.for([{ network: "a network" }, { network: "no network" }])(
  "a page is reloaded in mid-stroke, with $network: what was drawn is there, and the hand draws on with its next stroke",
  async ({ network }, t) => {
    const { relay, proxy, ledger } = await setting(t);
    const page = await tab(t, await personFor(t, browser), proxy);
    await ledger.draw(page, ink(0));
    await saved(page);
    if (network === "no network") proxy.goOffline();
    await ledger.draw(page, ink(1));
    const torn = ink(2, TORN.points);
    let drawn = 1;
    // The pointer goes on over the new page, and draws nothing there: it went down in the old one.
    await page.stroke(torn, {
      batch: 4,
      between: async () => {
        drawn += 4;
        if (drawn !== TORN.drawn) return;
        await page.reload();
        await ready(page);
        await atOrigin(page);
      },
    });
    ledger.entries.push(entryOf(torn.slice(0, TORN.drawn)));
    await ledger.draw(page, ink(3));
    if (network === "no network") {
      expect(await shown(page)).toEqual(expect.arrayContaining(ledger.entries.slice(1)));
      expect(await unsent(page)).toBeGreaterThan(3);
      proxy.goOnline();
    }
    await allSent(page);
    await showsAll(page, await expectKept(relay.url, ROOM, [ledger]));
  },
);

test.concurrent.for([{ network: "a network again" }, { network: "no network yet" }])(
  "a tab is closed with unsent ink, and opened with $network: every stroke is there, once",
  async ({ network }, t) => {
    const { relay, proxy, ledger } = await setting(t);
    const person = await personFor(t, browser);
    const first = await tab(t, person, proxy);
    await ledger.draw(first, ink(0));
    await saved(first);
    proxy.goOffline();
    for (let at = 1; at < 6; at += 1) await ledger.drawSlowly(first, ink(at));
    // Closed at once: nothing waits for the disk.
    await first.close();
    if (network === "a network again") proxy.goOnline();
    const again = await tabAgain(t, person, proxy);
    const later = new Ledger();
    if (network === "no network yet") {
      await until("it shows what waits", async () => {
        const seen = new Set(await shown(again));
        return ledger.entries.slice(1).every((entry) => seen.has(entry));
      });
      expect(await unsent(again)).toBeGreaterThan(5);
      await later.draw(again, ink(6));
      proxy.goOnline();
    }
    await allSent(again);
    await showsCount(again, [ledger, later]);
    await showsAll(again, await expectKept(relay.url, ROOM, [ledger, later]));
  },
);

test.concurrent("two tabs are closed with unsent ink, and two are opened again: every stroke is there, once", async (t) => {
  const { relay, proxy } = await setting(t);
  const person = await personFor(t, browser);
  const tabs = [await tab(t, person, proxy), await tab(t, person, proxy)] as const;
  const ledgers = [new Ledger(), new Ledger()] as const;
  for (const at of [0, 1] as const) await ledgers[at].draw(tabs[at], ink(at));
  await Promise.all(tabs.map((page) => saved(page)));
  proxy.goOffline();
  for (let stroke = 1; stroke < 4; stroke += 1) {
    for (const at of [0, 1] as const) await ledgers[at].draw(tabs[at], ink(10 * stroke + at));
  }
  await Promise.all(tabs.map((page) => page.close()));
  const again = [await tabAgain(t, person, proxy), await tabAgain(t, person, proxy)] as const;
  // Which of them goes on as which of the two before is not told: their ink has an order of its own.
  const later = [new Ledger(), new Ledger()] as const;
  for (const at of [0, 1] as const) await later[at].draw(again[at], ink(40 + at));
  proxy.goOnline();
  await Promise.all(again.map((page) => allSent(page)));
  const everyone = [...ledgers, ...later];
  for (const page of again) await showsCount(page, everyone);
  const picture = await expectKept(relay.url, ROOM, everyone);
  for (const page of again) await showsAll(page, picture);
});

test.concurrent("the browser is killed with unsent ink, and started again: every stroke is there, once", async (t) => {
  const { relay, proxy, ledger } = await setting(t);
  const mortal = await MortalChromium.start();
  t.onTestFinished(() => mortal.stop());
  const page = await tab(t, mortal, proxy);
  await ledger.draw(page, ink(0));
  await saved(page);
  proxy.goOffline();
  for (let at = 1; at < 6; at += 1) await ledger.draw(page, ink(at));
  // And a stroke that has no end yet.
  const open = ink(6, TORN.points);
  let drawn = 1;
  await page
    .stroke(open, {
      batch: 4,
      between: async () => {
        drawn += 4;
        if (drawn !== TORN.drawn) return;
        // Points wait for the end of their frame; a browser that is killed in it takes them along.
        const entry = entryOf(open.slice(0, TORN.drawn));
        await until("the stroke shows so far", async () => (await shown(page)).includes(entry));
        await keptOnDisk(page);
        await mortal.kill();
        throw new Killed();
      },
    })
    .catch((error: unknown) => {
      if (!(error instanceof Killed)) throw error;
    });
  ledger.entries.push(entryOf(open.slice(0, TORN.drawn)));
  await mortal.restart();
  proxy.goOnline();
  const again = await tabAgain(t, mortal, proxy);
  const later = new Ledger();
  await later.draw(again, ink(7));
  await showsCount(again, [ledger, later]);
  await allSent(again);
  await showsAll(again, await expectKept(relay.url, ROOM, [ledger, later]));
});

class Killed extends Error {}
