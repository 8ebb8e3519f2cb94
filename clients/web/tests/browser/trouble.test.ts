/** What the real board says and does when something is in the way: roles, full rooms, refusals, servers that go, no network. */
import type { Page as Tab } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { store } from "./support/crowd.ts";
import { live, openBoard, ready, saved, setView, shows, stateOf, unsent } from "./support/page.ts";
import { readPng, readSvg, savedFile } from "./support/pictures.ts";
import { Relay, type RelayOptions } from "./support/relay.ts";
import { someone, someoneAt } from "./support/someone.ts";
import { until } from "./support/wait.ts";

const STROKE: readonly (readonly [number, number])[] = [
  [300, 300],
  [400, 320],
  [500, 300],
];

/** How many unsent draws the page's storage has, by its own count. */
async function kept(page: ChromiumPage): Promise<number> {
  return page.evaluate(async () => {
    const done = <T>(request: IDBRequest<T>) =>
      new Promise<T>((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
    const [found] = await indexedDB.databases();
    if (found?.name === undefined) return 0;
    const database = await done(indexedDB.open(found.name));
    try {
      const rows: { unsent: number }[] = await done(
        database.transaction("identities").objectStore("identities").getAll(),
      );
      return rows.reduce((sum, { unsent }) => sum + unsent, 0);
    } finally {
      database.close();
    }
  });
}

describe("trouble", () => {
  let browser: ChromiumBrowser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser.close());

  async function relayWith(options: RelayOptions): Promise<Relay> {
    const relay = await Relay.start(options);
    onTestFinished(() => relay.stop());
    return relay;
  }

  const statusOf = (tab: Tab) => tab.locator(".status-word").textContent();

  test("a viewer sees others draw, and has no tools and nothing that could clear", async () => {
    const relay = await relayWith({ flags: ["--role", "viewer"] });
    const page = await someoneAt(browser, relay.url, "museum");
    const { tab } = page;
    await tab.getByText("View only: your link lets you watch.").waitFor();
    await page.press("p");
    await page.stroke(STROKE);
    await page.press("Control", "z");
    expect(await unsent(page)).toBe(0);
    expect(await page.evaluate(() => globalThis.inkrelay.client?.board.strokes().length)).toBe(0);
    await tab.getByRole("button", { name: "Menu" }).click();
    expect(await tab.getByRole("button", { name: "Clear board…" }).count()).toBe(0);
    expect(await tab.getByRole("button", { name: "Time-lapse" }).count()).toBe(1);
  });

  test("a full board refuses what is drawn, says so, and shows what is stored", async () => {
    const relay = await relayWith({ flags: ["--max-room", "2KiB"] });
    const page = await someoneAt(browser, relay.url, "full");
    const { tab } = page;
    await page.stroke(STROKE);
    await saved(page);
    await shows(page, 1);
    await page.stroke(
      Array.from({ length: 900 }, (_, at): [number, number] => [200 + (at % 600), 200 + ((at * 7) % 300)]),
    );
    await tab.locator(".toast", { hasText: "this board is full" }).waitFor();
    await until("nothing waits", async () => (await unsent(page)) === 0);
    const notice = tab.getByRole("alert").filter({ hasText: "This board is full." });
    await notice.getByRole("button", { name: "New board" }).waitFor();
    expect(await statusOf(tab)).toBe("Board full");
    const shown = await page.evaluate(() => globalThis.inkrelay.client?.board.strokes().length ?? 0);
    const other = await someone(browser);
    await openBoard(other, relay.url, "full");
    await until(
      "both see the same",
      async () =>
        (await other.evaluate(() => globalThis.inkrelay.client?.board.strokes().length ?? 0)) === shown,
    );
  });

  test("a server that is sent away is announced, drawing goes on, and it comes back with all of it", async () => {
    const relay = await relayWith({ store: "embedded" });
    const page = await someoneAt(browser, relay.url, "drain");
    const { tab } = page;
    await page.stroke(STROKE);
    await saved(page);
    await relay.terminate();
    await tab.getByText("The server is restarting.").waitFor();
    await page.stroke([
      [300, 400],
      [400, 420],
    ]);
    await shows(page, 2);
    await until("the corner counts", async () => /^Offline · \d+ unsent$/.test((await statusOf(tab)) ?? ""));
    await tab.getByText(/kept on this device/).waitFor();
    await relay.restart();
    await live(page);
    await saved(page);
    await until("it says so", async () => (await statusOf(tab)) === "Saved");
    await tab.getByText("The server is restarting.").waitFor({ state: "detached" });
    await shows(page, 2);
    const late = await someone(browser);
    await openBoard(late, relay.url, "drain");
    await shows(late, 2);
  });

  test("without a network the page opens from what is kept, with its ink, and sends it later", async () => {
    const relay = await relayWith({});
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, relay.url, "installed");
    await setView(page, { x: 40, y: 30, zoom: 1 });
    const manifest = await page.evaluate(async () => {
      const link = document.querySelector<HTMLLinkElement>('link[rel="manifest"]');
      const found: unknown = await (await fetch(link?.href ?? "")).json();
      return JSON.stringify(found);
    });
    expect(JSON.parse(manifest)).toMatchObject({ display: "standalone", icons: expect.any(Array) });
    await until("the page is kept", () =>
      page.evaluate(async () => (await navigator.serviceWorker.ready).active?.state === "activated"),
    );
    await relay.terminate();
    await until("it notices", async () => (await stateOf(page))?.kind === "offline");
    await page.stroke(STROKE);
    await until("all that waits is kept", async () => {
      const waiting = (await unsent(page)) ?? 0;
      return waiting > 0 && (await kept(page)) === waiting;
    });
    await page.open("about:blank");
    await page.close();

    // A tab that had no time to say goodbye keeps its ink to itself for some seconds, in case it still lives.
    const again = await until("a new tab has the ink", async () => {
      const tab = await person.page();
      await tab.open(`${relay.url}/b/installed`);
      await ready(tab);
      if (((await unsent(tab)) ?? 0) > 0) return tab;
      await tab.close();
      return undefined;
    });
    await shows(again, 1);
    expect(await unsent(again)).toBeGreaterThan(0);
    await again.stroke([
      [300, 500],
      [400, 520],
    ]);
    await shows(again, 2);
    await relay.restart();
    await again.evaluate(() => globalThis.inkrelay.client?.retry());
    await live(again);
    await saved(again);
    const late = await someone(browser);
    await openBoard(late, relay.url, "installed");
    await shows(late, 2);
  });

  test("pictures hold all ink, also what is out of sight, and none that was erased", async () => {
    const relay = await relayWith({});
    const page = await someoneAt(browser, relay.url, "pictures", { acceptDownloads: true });
    const far = [0, 1, [1, 0x2f9e44ff, 320], 0, [32_000, 16_000, 1_600, 0], true];
    const hidden = [0, 2, [0, 0x1f1f1fff, 64], 0, [-99_000, 0, 160, 0], true];
    await store(relay.url, "pictures", [far, hidden, [2, [[0, 99]]]]);
    await page.stroke(STROKE);
    await shows(page, 3);
    const author = await page.evaluate(() => globalThis.inkrelay.client?.board.strokes()[1]?.author);
    await page.evaluate((author) => globalThis.inkrelay.client?.erase([[author ?? 0, 2]]), author ?? 0);
    await shows(page, 2);
    await saved(page);
    const svg = await readSvg(page, await savedFile(page, "Save as SVG"));
    expect(svg.paths).toBe(2);
    // From the stroke in sight to the end of the one that is not, with paper around them.
    expect(svg.width).toBeGreaterThan(2_100 + 212);
    expect(svg.width).toBeLessThan(2_100 + 212 + 100);
    const png = await readPng(page, await savedFile(page, "Save as PNG"));
    expect(Math.abs(png.width - svg.width * 2)).toBeLessThan(2);
    expect(Math.abs(png.height - svg.height * 2)).toBeLessThan(2);
    // 100 by 20 pixels of highlighter and a thin line, twice as large.
    expect(png.inked).toBeGreaterThan(4 * 100 * 20);
  });
});
