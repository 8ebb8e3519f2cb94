/** A board of thousands of strokes: it arrives whole at slow pages too, and no frame paints more than what changed. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { crowd, store } from "./support/crowd.ts";
import { watchFaults } from "./support/faults.ts";
import { openBoard, saved, settled, setView, shows } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { until } from "./support/wait.ts";

const STROKES = 5_000;
/** How many times slower a tablet of some age is. */
const SLOW = 6;
const JOIN_MS = 120_000;
/** A frame that fills more paths than that paints what did not change: a fifth of the board is near what shows. */
const FILLS_MAX = STROKES / 2;

interface Seen {
  /** What the client said of its connection, each change once. */
  readonly states: string[];
  /** What the progress bar said. */
  readonly progress: number[];
  /** Paths filled in each frame. */
  readonly fills: number[];
}

declare global {
  var seenOfCrowd: Seen;
}

/** Runs in the page before anything else. */
function watch(): void {
  const seen: Seen = { states: [], progress: [], fills: [] };
  globalThis.seenOfCrowd = seen;
  let fills = 0;
  const { fill } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fill = new Proxy(fill, {
    apply: (call, context, args) => {
      fills += 1;
      Reflect.apply(call, context, args);
    },
  });
  const look = () => {
    seen.fills.push(fills);
    fills = 0;
    const state = globalThis.inkrelay?.client?.state.kind;
    if (state !== undefined && seen.states.at(-1) !== state) seen.states.push(state);
    const bar = document.querySelector<HTMLProgressElement>(".joining progress");
    if (bar !== null && seen.progress.at(-1) !== bar.value) seen.progress.push(bar.value);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

describe("a crowded board", () => {
  let browser: ChromiumBrowser;
  let relay: Relay;
  beforeAll(async () => {
    [browser, relay] = await Promise.all([startChromium(), Relay.start()]);
    await crowd(relay.url, "crowd", { strokes: STROKES });
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  async function someone(): Promise<ChromiumPage> {
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    const faults = await watchFaults(page);
    onTestFinished(() => expect(faults).toEqual([]));
    await page.tab.addInitScript(watch);
    return page;
  }

  const viewOf = (page: ChromiumPage) => page.evaluate(() => ({ ...globalThis.inkrelay.stage.view }));
  const fills = (page: ChromiumPage) => page.evaluate(() => globalThis.seenOfCrowd.fills.splice(0));

  test("D3: four join at the same moment, one of them slow: all get everything, and nobody is thrown out", async () => {
    const pages = await Promise.all(Array.from({ length: 4 }, someone));
    await pages[0]?.slow(SLOW);
    await Promise.all(pages.map((page) => page.open(`${relay.url}/b/crowd`)));
    await Promise.all(pages.map((page) => shows(page, STROKES, JOIN_MS)));
    for (const page of pages) {
      await until("it is live", () => page.evaluate(() => globalThis.seenOfCrowd.states.includes("live")));
      const { states, progress } = await page.evaluate(() => globalThis.seenOfCrowd);
      // A look per frame may miss a state, and sees no other.
      expect(["connecting", "joining", "live"].filter((state) => states.includes(state))).toEqual(states);
      expect([...progress].sort((a, b) => a - b)).toEqual(progress);
      expect(progress.every((have) => have <= STROKES * 10)).toBe(true);
    }
    const slow = await pages[0]?.evaluate(() => globalThis.seenOfCrowd.progress.length);
    expect(slow).toBeGreaterThan(2);
  });

  test("panning and drawing paint what changed, and not the board", async () => {
    const page = await someone();
    await openBoard(page, relay.url, "crowd", JOIN_MS);
    await shows(page, STROKES, JOIN_MS);
    await setView(page, { x: 0, y: 0, zoom: 1 });
    await settled(page);
    await fills(page);

    await page.tab.keyboard.down("Space");
    await page.tab.mouse.move(800, 600);
    await page.tab.mouse.down();
    for (let step = 0; step < 60; step++) await page.tab.mouse.move(800 - step * 8, 600 - step * 6);
    await page.tab.mouse.up();
    await page.tab.keyboard.up("Space");
    await settled(page);
    expect(await viewOf(page)).toMatchObject({ x: 472, y: 354, zoom: 1 });
    const panning = await fills(page);
    // It came to places that were not painted yet.
    expect(panning.some((count) => count > 0)).toBe(true);
    expect(Math.max(...panning)).toBeLessThan(FILLS_MAX);

    const line = Array.from({ length: 200 }, (_, step): [number, number] => [
      200 + step * 3,
      300 + (step % 40),
    ]);
    await page.stroke(line, { batch: 4 });
    await settled(page);
    const drawing = await fills(page);
    expect(drawing.some((count) => count > 0)).toBe(true);
    // The stroke itself, on its own layer, and in the end in the tiles that it lies in.
    expect(Math.max(...drawing)).toBeLessThan(40);
    await shows(page, STROKES + 1);
    await saved(page);
    await page.press("Control", "z");
    await shows(page, STROKES);
    await saved(page);
  });

  test("opens where all ink is in sight; after a reload where one was; and stays where one draws first", async () => {
    const page = await someone();
    await openBoard(page, relay.url, "crowd", JOIN_MS);
    const seen = await viewOf(page);
    expect(seen.zoom).toBeLessThan(0.3);
    await page.evaluate(() => globalThis.inkrelay.stage.setView({ x: 70, y: -30, zoom: 0.5 }));
    await page.reload();
    await until("it is live again", () =>
      page.evaluate(() => globalThis.inkrelay?.client?.state.kind === "live"),
    );
    expect(await viewOf(page)).toEqual({ x: 70, y: -30, zoom: 0.5 });

    // A single stroke far away, which is revealed point by point.
    await store(relay.url, "far", [[0, 1, [0, 0x1f1f1fff, 64], 0, [80_000, -80_000, 1_600, 1_600], true]]);
    const other = await someone();
    await openBoard(other, relay.url, "far");
    const { x, y, zoom } = await viewOf(other);
    expect([Math.round(x), Math.round(y), zoom]).toEqual([5_050, -4_950, 1]);

    // Who draws while the board is still on its way stays there.
    const drawer = await someone();
    let drew = () => {};
    const drawn = new Promise<void>((resolve) => {
      drew = resolve;
    });
    await drawer.tab.routeWebSocket(/\/ws$/, async (socket) => {
      await drawn;
      socket.connectToServer();
    });
    await drawer.open(`${relay.url}/b/far`);
    await drawer.stroke([
      [400, 300],
      [450, 320],
    ]);
    drew();
    await shows(drawer, 2);
    await saved(drawer);
    expect(await viewOf(drawer)).toEqual({ x: 0, y: 0, zoom: 1 });
  });
});
