/**
 * A measure, not a test: how a board of thousands of strokes feels in Chromium. `make web-measure` prints the table.
 * Gaps are those between frames, so that what stops the page shows whatever it was. Compare tables of one machine only.
 */
import { afterAll, beforeAll, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "../browser/support/chromium.ts";
import { crowd } from "../browser/support/crowd.ts";
import { saved, settled, shows } from "../browser/support/page.ts";
import { Relay } from "../browser/support/relay.ts";
import { until } from "../browser/support/wait.ts";
import { longestTasks } from "./main-thread.ts";

const STROKES = 5_000;
/** How slow a tablet of some age is, by processor. */
const SLOW = 6;
const TOGETHER = 4;
const JOIN_MS = 240_000;

interface Gaps {
  readonly median: number;
  readonly p95: number;
  readonly worst: number;
  readonly frames: number;
}

interface Joined {
  readonly firstInk: number;
  readonly allInk: number;
}

declare global {
  var frameGaps: number[];
  var joined: Joined | null;
}

let relay: Relay;
let browser: ChromiumBrowser;
const rows: Record<string, Record<string, number>> = {};

beforeAll(async () => {
  [relay, browser] = await Promise.all([Relay.start({ flags: ["--max-rate", "0"] }), startChromium()]);
  await crowd(relay.url, "crowd", { strokes: STROKES });
});
afterAll(async () => {
  await browser.close();
  await relay.stop();
  console.table(rows);
});

/** Runs in the page before anything else: notes each frame's gap, and when ink shows. */
function watch(strokes: number): void {
  globalThis.frameGaps = [];
  globalThis.joined = null;
  let last = performance.now();
  let firstInk = 0;
  const look = () => {
    const now = performance.now();
    globalThis.frameGaps.push(now - last);
    last = now;
    const board = globalThis.inkrelay?.client?.board;
    const shown = board === undefined || globalThis.joined !== null ? [] : board.strokes();
    if (shown.length > 0 && firstInk === 0) firstInk = now;
    if (shown.length === strokes && shown.at(-1)?.closed === true) {
      globalThis.joined = { firstInk, allInk: 0 };
      void globalThis.inkrelay.stage.settled().then(() => {
        globalThis.joined = { firstInk, allInk: performance.now() };
      });
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

async function someone(): Promise<ChromiumPage> {
  const page = await (await browser.person({ hasTouch: true })).page();
  await page.tab.addInitScript(watch, STROKES);
  return page;
}

async function gaps(page: ChromiumPage): Promise<Gaps> {
  return page.evaluate(() => {
    const sorted = globalThis.frameGaps.splice(0).sort((a, b) => a - b);
    const at = (part: number) => Math.round(sorted[Math.floor((sorted.length - 1) * part)] ?? 0);
    return { median: at(0.5), p95: at(0.95), worst: at(1), frames: sorted.length };
  });
}

async function join(page: ChromiumPage): Promise<Joined & Gaps> {
  await page.open(`${relay.url}/b/crowd`);
  const joined = await until(
    "all ink shows",
    async () => {
      const now = await page.evaluate(() => globalThis.joined);
      return now !== null && now.allInk > 0 && now;
    },
    JOIN_MS,
  );
  return { firstInk: Math.round(joined.firstInk), allInk: Math.round(joined.allInk), ...(await gaps(page)) };
}

/** Frames of nothing between two things that are measured. */
async function calm(page: ChromiumPage): Promise<void> {
  await settled(page);
  await gaps(page);
}

test("alone", async () => {
  const page = await someone();
  rows.joining = { ...(await join(page)) };
  await page.evaluate(() => globalThis.inkrelay.stage.setView({ x: 0, y: 0, zoom: 1 }));
  await calm(page);

  await page.tab.keyboard.down("Space");
  await page.tab.mouse.move(800, 600);
  await page.tab.mouse.down();
  for (let step = 0; step < 120; step++) await page.tab.mouse.move(800 - step * 5, 600 - step * 3);
  await page.tab.mouse.up();
  await page.tab.keyboard.up("Space");
  rows.panning = { ...(await gaps(page)) };

  await calm(page);
  const fingers = (span: number) => [
    { id: 1, x: 512 - span, y: 384 },
    { id: 2, x: 512 + span, y: 384 },
  ];
  await page.touch("start", fingers(200));
  for (let step = 0; step < 60; step++) await page.touch("move", fingers(200 - step * 3));
  for (let step = 60; step > 0; step--) await page.touch("move", fingers(200 - step * 3));
  await page.touch("end");
  rows.pinching = { ...(await gaps(page)) };

  await calm(page);
  const spiral = Array.from({ length: 400 }, (_, step): [number, number, number] => {
    return [512 + (40 + step / 2) * Math.cos(step / 12), 384 + (40 + step / 2) * Math.sin(step / 12), 0.5];
  });
  await page.stroke(spiral, { tool: "pen", batch: 4 });
  rows.drawing = { ...(await gaps(page)) };
  await saved(page);

  await calm(page);
  await page.tab.keyboard.press("f");
  await settled(page);
  rows.fitting = { ...(await gaps(page)) };
  await page.tab.keyboard.press("Control+z");
  await shows(page, STROKES);
  await saved(page);
  await page.tab.close();
});

test("four at once, slow", async () => {
  const pages = await Promise.all(Array.from({ length: TOGETHER }, someone));
  await Promise.all(pages.map((page) => page.slow(SLOW)));
  const longest = await longestTasks(browser, async () => {
    const joins = await Promise.all(pages.map(join));
    for (const [at, joined] of joins.entries()) rows[`slow ${at + 1} of ${TOGETHER}`] = { ...joined };
  });
  console.log(
    `four slow joins: the main thread was taken for at most ${longest.other} ms of its own time at a stretch, ` +
      `and for ${longest.script} ms to start the page's script`,
  );
});
