/**
 * Connections and servers that end in mid-stroke, in every engine: the other side has the same points in the same
 * order, once.
 */
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import type { Browser, Page } from "./support/browser.ts";
import { pageFor, personFor, proxyFor, relayFor, watched } from "./support/company.ts";
import { ENGINES } from "./support/engines.ts";
import { expectKept, ink, Ledger, openPaper, showsAll } from "./support/ledger.ts";
import { live, saved, shows, stateOf } from "./support/page.ts";
import type { RelayOptions } from "./support/relay.ts";
import { until } from "./support/wait.ts";

const ROOM = "again";
/** A long stroke: it takes seconds, in which much can happen. */
const LONG = 500;
/** Tabs that are closed one after the other. */
const TABS = 5;
/** Until a page is live again, in milliseconds: it waits 15 s between two tries at most. */
const BACK = 60_000;
/** Until a page that polls looks for a socket again, in milliseconds: it does so after 30 s, then after 60. */
const UP_AGAIN = 120_000;

/** Two people, each behind a network of their own. */
async function setting(t: TestContext, browser: Browser, options?: RelayOptions) {
  const relay = await relayFor(t, options);
  const [hers, his] = [await proxyFor(t, relay), await proxyFor(t, relay)];
  const [ada, ben] = [await pageFor(t, browser), await pageFor(t, browser)];
  return { relay, hers, his, ada, ben };
}

async function isLiveBy(page: Page, transport: "websocket" | "long-poll", within = BACK): Promise<void> {
  await until(
    `the page is live by ${transport}`,
    async () => {
      const state = await stateOf(page);
      return state?.kind === "live" && state.transport === transport;
    },
    within,
  );
}

describe.each(ENGINES)("$name", ({ start }) => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await start();
  });
  afterAll(() => browser.close());

  test("the server is killed and started again while two people draw", async (t) => {
    const { relay, hers, his, ada, ben } = await setting(t, browser, { store: "embedded" });
    await openPaper(ada, hers.url, ROOM);
    await openPaper(ben, his.url, ROOM);
    const ledgers = [new Ledger(), new Ledger()] as const;
    let restarted: Promise<void> | null = null;
    const killOnce = (drawn: number) => {
      if (drawn > 100) restarted ??= relay.kill().then(() => relay.restart());
    };
    const draw = async (ledger: Ledger, page: Page, first: number) => {
      await ledger.drawSlowly(page, ink(first, 200), killOnce);
      for (let at = first + 1; at < first + 4; at += 1) await ledger.drawSlowly(page, ink(at));
    };
    await Promise.all([draw(ledgers[0], ada, 0), draw(ledgers[1], ben, 50)]);
    expect(restarted).not.toBeNull();
    await restarted;
    for (const page of [ada, ben]) await saved(page, BACK);
    const picture = await expectKept(relay.url, ROOM, ledgers);
    for (const page of [ada, ben]) {
      await live(page, BACK);
      await showsAll(page, picture);
    }
  });

  test("a network that lets no WebSocket through: the long poll does", async (t) => {
    const { relay, hers, his, ada, ben } = await setting(t, browser);
    for (const proxy of [hers, his]) proxy.set({ sockets: "refuse" });
    await openPaper(ada, hers.url, ROOM);
    await openPaper(ben, his.url, ROOM);
    const ledgers = [new Ledger(), new Ledger()] as const;
    await Promise.all([ledgers[0].drawSlowly(ada, ink(0, 100)), ledgers[1].drawSlowly(ben, ink(50, 100))]);
    for (const page of [ada, ben]) {
      await isLiveBy(page, "long-poll");
      await saved(page);
    }
    const picture = await expectKept(relay.url, ROOM, ledgers);
    for (const page of [ada, ben]) await showsAll(page, picture);
  });

  test("a proxy cuts the socket in mid-stroke, again and again", async (t) => {
    const { relay, hers, his, ada, ben } = await setting(t, browser);
    await openPaper(ada, hers.url, ROOM);
    await openPaper(ben, his.url, ROOM);
    // Ben's is cut too, in the middle of frames that bring him her points.
    const ledger = new Ledger();
    await ledger.drawSlowly(ada, ink(0, LONG), (drawn) => {
      if (drawn % 100 !== 1) return;
      hers.cut("sockets");
      his.set({ socketBytes: 2_000 });
    });
    his.clear();
    await saved(ada, BACK);
    const picture = await expectKept(relay.url, ROOM, [ledger]);
    for (const page of [ada, ben]) {
      await live(page, BACK);
      await showsAll(page, picture);
    }
    expect(hers.handshakes).toBeGreaterThan(1);
    expect(his.handshakes).toBeGreaterThan(1);
  });

  test("tabs are closed in the moment of their last point, without a network: every stroke is there, once", async (t) => {
    const relay = await relayFor(t);
    const proxy = await proxyFor(t, relay);
    const person = await personFor(t, browser);
    const ledgers: Ledger[] = [];
    for (let at = 0; at < TABS; at += 1) {
      const page = watched(t, await person.page());
      await openPaper(page, proxy.url, ROOM);
      proxy.goOffline();
      const ledger = new Ledger();
      ledgers.push(ledger);
      await ledger.draw(page, ink(at));
      await page.close();
      proxy.goOnline();
    }
    const last = watched(t, await person.page());
    await openPaper(last, proxy.url, ROOM);
    await shows(last, TABS, BACK);
    await showsAll(last, await expectKept(relay.url, ROOM, ledgers));
  });

  test("B5: a 500-point stroke goes from the socket to the long poll and back", async (t) => {
    const { relay, hers, his, ada, ben } = await setting(t, browser);
    await openPaper(ada, hers.url, ROOM);
    await openPaper(ben, his.url, ROOM);
    await isLiveBy(ada, "websocket");
    const ledger = new Ledger();
    await ledger.drawSlowly(ada, ink(0, LONG), async (drawn) => {
      // In mid-stroke, from one transport to the other and, as far as the pen is concerned, back.
      if (drawn === 1 + LONG / 5) {
        hers.set({ sockets: "refuse" });
        hers.cut("sockets");
        await isLiveBy(ada, "long-poll");
      } else if (drawn === 1 + (3 * LONG) / 5) {
        hers.clear();
        await isLiveBy(ada, "websocket", UP_AGAIN);
      }
    });
    await saved(ada, BACK);
    const picture = await expectKept(relay.url, ROOM, [ledger]);
    expect(picture).toHaveLength(1);
    for (const page of [ada, ben]) await showsAll(page, picture);
  });
});
