/** G7: pages that show or know an old board add to what others did meanwhile, and take nothing back. */
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { logOf } from "../support/people.ts";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { pageFor, personFor, proxyFor, relayFor, watched } from "./support/company.ts";
import { atOrigin, ink, Ledger, openPaper, pictureOf, shown, showsAll } from "./support/ledger.ts";
import { ready, saved, shows, stateOf, strokes, unsent } from "./support/page.ts";
import { until } from "./support/wait.ts";

const ROOM = "stale";
/** By which each piece of data is late, in milliseconds: a handshake and a welcome are two round trips. */
const LATE = 800;
/** How long joining takes at least on that line, in milliseconds. */
const SLOW_JOIN = 3_000;

let browser: ChromiumBrowser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

/**
 * A draws five strokes and closes; B adds twenty and erases three. What there is then: the strokes of both, in the
 * board's order, without the three.
 */
async function setting(t: TestContext) {
  const relay = await relayFor(t);
  const proxy = await proxyFor(t, relay);
  const ada = await personFor(t, browser);
  const first = watched(t, await ada.page());
  await openPaper(first, proxy.url, ROOM);
  const [hers, his] = [new Ledger(), new Ledger()];
  for (let at = 0; at < 5; at += 1) await hers.draw(first, ink(at));
  await saved(first);
  await until("the page itself is kept", () =>
    first.evaluate(async () => (await navigator.serviceWorker.ready).active?.state === "activated"),
  );
  await first.close();
  const ben = await pageFor(t, browser);
  await openPaper(ben, relay.url, ROOM);
  await shows(ben, 5);
  for (let at = 20; at < 40; at += 1) await his.draw(ben, ink(at));
  const erased = (await strokes(ben)).slice(1, 4).map(({ author, number }) => [author, number] as const);
  await ben.evaluate((names) => globalThis.inkrelay.client?.erase(names), erased);
  await saved(ben);
  const picture = [hers.entries[0] ?? "", hers.entries[4] ?? "", ...his.entries];
  await showsAll(ben, picture);
  return { relay, proxy, ada, ben, picture };
}

async function tab(t: TestContext, person: { page(): Promise<ChromiumPage> }): Promise<ChromiumPage> {
  return watched(t, await person.page());
}

test.concurrent.for([{ how: "the browser is offline" }, { how: "the network is gone" }])(
  "opened without a network, then with one: $how",
  async ({ how }, t) => {
    const { relay, proxy, ada, ben, picture } = await setting(t);
    if (how === "the browser is offline") await ada.offline(true);
    else proxy.goOffline();
    const stale = await tab(t, ada);
    await stale.open(`${proxy.url}/b/${ROOM}`);
    await ready(stale);
    await atOrigin(stale);
    await until("it knows that it is offline", async () => (await stateOf(stale))?.kind === "offline");
    const early = new Ledger();
    await early.draw(stale, ink(60));
    await until("her ink shows", async () => (await shown(stale)).includes(early.entries[0] ?? ""));
    expect(await unsent(stale)).toBeGreaterThan(0);
    if (how === "the browser is offline") await ada.offline(false);
    else proxy.goOnline();
    await saved(stale, 60_000);
    const all = [...picture, ...early.entries];
    for (const page of [stale, ben]) await showsAll(page, all);
    expect(pictureOf(await logOf(relay.url, ROOM))).toEqual(all);
  },
);

test.concurrent.for([{ who: "who was here before" }, { who: "a stranger" }])(
  "drawn at once while the board takes its time: $who",
  async ({ who }, t) => {
    const { relay, proxy, ada, ben, picture } = await setting(t);
    proxy.set({ delay: LATE });
    const page = await tab(t, who === "a stranger" ? await personFor(t, browser) : ada);
    await page.open(`${proxy.url}/b/${ROOM}`);
    const loaded = Date.now();
    // Real input, as soon as there is a page to point at: nothing of the board is here yet.
    const drawn = page.stroke(ink(60));
    expect(["connecting", null]).toContain((await stateOf(page))?.kind ?? null);
    await drawn;
    expect(["connecting", null]).toContain((await stateOf(page))?.kind ?? null);
    await ready(page);
    await saved(page, 60_000);
    expect(Date.now() - loaded).toBeGreaterThan(SLOW_JOIN);
    proxy.clear();
    const log = pictureOf(await logOf(relay.url, ROOM));
    expect(log.slice(0, picture.length)).toEqual(picture);
    expect(log).toHaveLength(picture.length + 1);
    expect(log.at(-1)).toMatch(/^12 points/);
    for (const each of [page, ben]) await showsAll(each, log);
  },
);
