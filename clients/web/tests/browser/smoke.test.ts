/** What the tests of the board stand on: each engine opens a page, is drawn in, and is read. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Browser, Point } from "./support/browser.ts";
import { type ChromiumBrowser, startChromium } from "./support/chromium.ts";
import { ENGINES } from "./support/engines.ts";
import { difference, inked, pixels } from "./support/page.ts";
import { type Site, startSite } from "./support/site.ts";
import { sleep, until } from "./support/wait.ts";

/** Keeps each pointer event that it sees. */
const PAGE = `<!doctype html><meta charset="utf-8"><title>seen</title>
<style>html, body { margin: 0; height: 100%; touch-action: none }</style>
<script>
  globalThis.seen = [];
  for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) {
    addEventListener(type, (event) => {
      const coalesced = event.getCoalescedEvents?.() ?? [];
      for (const one of coalesced.length > 0 ? coalesced : [event]) {
        seen.push({
          type, pointer: one.pointerType, id: one.pointerId, x: one.clientX, y: one.clientY,
          pressure: one.pressure, buttons: event.buttons, tiltX: one.tiltX, tiltY: one.tiltY, width: one.width,
        });
      }
    });
  }
</script>`;

interface Seen {
  readonly type: string;
  readonly pointer: string;
  readonly id: number;
  readonly x: number;
  readonly y: number;
  readonly pressure: number;
  readonly buttons: number;
  readonly tiltX: number;
  readonly tiltY: number;
  readonly width: number;
}

declare global {
  var seen: Seen[];
  var ticks: number;
}

let site: Site;
beforeAll(async () => {
  site = await startSite(PAGE);
});
afterAll(() => site.close());

/** A spiral of whole pixels, since not all drivers take others. */
const SPIRAL: readonly Point[] = Array.from({ length: 300 }, (_, step): Point => {
  const [angle, radius] = [step / 12, 20 + step / 2];
  const [x, y] = [400 + radius * Math.cos(angle), 350 + radius * Math.sin(angle)];
  return [Math.round(x), Math.round(y), 0.2 + (step % 50) / 100];
});

describe.each(ENGINES)("$name", ({ name, start }) => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await start();
  });
  afterAll(() => browser.close());

  async function person() {
    const person = await browser.person();
    onTestFinished(() => person.close());
    return person;
  }

  test("a stroke arrives point by point", async () => {
    const page = await (await person()).page();
    await page.open(site.url);
    for (const tool of browser.tools) {
      await page.evaluate(() => void globalThis.seen.splice(0));
      await page.stroke(SPIRAL, { tool });
      const events = await page.evaluate(() => globalThis.seen);
      expect(new Set(events.map((event) => event.pointer))).toEqual(new Set([tool]));
      const places = events.filter(({ type, buttons }) => type === "pointermove" && buttons === 1);
      // The first was gone to before the pen went down; a move that leads nowhere is not told.
      const wanted = SPIRAL.map(([x, y]) => `${x} ${y}`).filter((place, at, all) => place !== all[at - 1]);
      expect(places.map(({ x, y }) => `${x} ${y}`)).toEqual(wanted.slice(1));
      const others = events.filter((event) => !places.includes(event)).map((event) => event.type);
      // A finger does not hover.
      const hovers = tool === "touch" ? [] : ["pointermove"];
      expect(others).toEqual([...hovers, "pointerdown", "pointerup"]);
      if (name === "chromium" && tool === "pen") {
        expect(places.at(-1)?.pressure).toBeCloseTo(SPIRAL.at(-1)?.[2] ?? 0);
      }
    }
  });

  test("two people draw at the same time, each in a window that is painted", async () => {
    const pages = [await (await person()).page(), await (await person()).page()];
    await Promise.all(
      pages.map(async (page) => {
        await page.open(site.url);
        await page.stroke(SPIRAL.slice(0, 100));
        const frame = () => new Promise<string>((resolve) => requestAnimationFrame(() => resolve("painted")));
        expect(await page.evaluate(frame)).toBe("painted");
        const size = await page.evaluate(() => [innerWidth, innerHeight, devicePixelRatio]);
        expect(size).toEqual([1024, 768, 1]);
        expect((await page.evaluate(() => globalThis.seen)).length).toBeGreaterThan(100);
      }),
    );
  });

  test("what a page stored is there after a reload and in a new tab, and not at another person's", async () => {
    const ada = await person();
    const page = await ada.page();
    await page.open(site.url);
    await page.evaluate(() => localStorage.setItem("ink", "wet"));
    await page.reload();
    const stored = () => localStorage.getItem("ink");
    expect(await page.evaluate(stored)).toBe("wet");
    await page.close();
    const again = await ada.page();
    await again.open(site.url);
    expect(await again.evaluate(stored)).toBe("wet");
    const other = await (await person()).page();
    await other.open(site.url);
    expect(await other.evaluate(stored)).toBe(null);
    expect(Buffer.from(await other.screenshot()).toString("latin1", 1, 4)).toBe("PNG");
  });

  test("two windows are compared pixel by pixel", async () => {
    const pages = [
      await (await person()).page(),
      await (await person()).page(),
      await (await person()).page(),
    ];
    const shown = await Promise.all(
      pages.map(async (page, at) => {
        await page.open(site.url);
        await page.evaluate((isOther) => {
          for (const colour of ["#fff", "#06c"]) {
            const canvas = document.createElement("canvas");
            document.body.append(canvas);
            [canvas.width, canvas.height] = [700, 500];
            const context = canvas.getContext("2d");
            if (context === null) throw new Error("no canvas");
            context.fillStyle = colour;
            context.ellipse(350, 250, colour === "#fff" ? 900 : 200.5, 900, 0.3, 0, isOther ? 6.28 : 6.2);
            context.ellipse(350, 250, 100.3, 100, 0, 0, 7);
            context.fill("evenodd");
          }
        }, at === 2);
        return pixels(page);
      }),
    );
    const [one, same, other] = shown;
    if (one === undefined || same === undefined || other === undefined) throw new Error("three windows");
    expect([one.width, one.height, one.data.length]).toEqual([700, 500, 700 * 500 * 4]);
    expect(difference(one, same)).toBe(null);
    expect(difference(one, other)).toMatch(/pixels between/);
    expect(inked(one)).toBeGreaterThan(1000);
  });

  test("what goes wrong in the page is told", async () => {
    const page = await (await person()).page();
    await page.open(site.url);
    const failing = page.evaluate(() => Promise.reject(new Error("spilt ink")));
    await expect(failing).rejects.toThrow("spilt ink");
  });
});

describe("only chromium", () => {
  let browser: ChromiumBrowser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser.close());

  async function page(options?: Parameters<ChromiumBrowser["person"]>[0]) {
    const person = await browser.person(options);
    onTestFinished(() => person.close());
    const page = await person.page();
    await page.open(site.url);
    return { person, page };
  }

  test("a pen has pressure and tilt", async () => {
    const { page: drawn } = await page();
    await drawn.pen("hover", { x: 10, y: 10 });
    await drawn.pen("down", { x: 20, y: 20, pressure: 0.25, tiltX: 30, tiltY: -45 });
    await drawn.pen("move", { x: 30.5, y: 20.25, pressure: 0.75, tiltX: 31, tiltY: -44 });
    await drawn.pen("up", { x: 30.5, y: 20.25 });
    const events = await drawn.evaluate(() => globalThis.seen);
    expect(events.map(({ type, pointer }) => `${pointer} ${type}`)).toEqual([
      "pen pointermove",
      "pen pointerdown",
      "pen pointermove",
      "pen pointerup",
    ]);
    expect(events[1]).toMatchObject({ pressure: 0.25, tiltX: 30, tiltY: -45 });
    expect(events[2]).toMatchObject({ x: 30.5, y: 20.25, pressure: 0.75, tiltX: 31, tiltY: -44 });
  });

  test("fingers touch, move and are cancelled, each by itself", async () => {
    const { page: touched } = await page({ hasTouch: true });
    await touched.touch("start", [{ id: 1, x: 100, y: 100 }]);
    await touched.touch("start", [
      { id: 1, x: 100, y: 100 },
      { id: 2, x: 200, y: 200, radius: 40 },
    ]);
    await touched.touch("move", [
      { id: 1, x: 110, y: 100 },
      { id: 2, x: 220, y: 200, radius: 40 },
    ]);
    await touched.touch("end", [{ id: 2, x: 220, y: 200, radius: 40 }]);
    await touched.touch("cancel");
    const events = await touched.evaluate(() => globalThis.seen);
    expect(new Set(events.map((event) => event.id)).size).toBe(2);
    expect(events.map((event) => event.type)).toEqual([
      "pointerdown",
      "pointerdown",
      "pointermove",
      "pointermove",
      "pointerup",
      "pointercancel",
    ]);
    expect(events[1]?.width).toBe(80);
  });

  test("a page is frozen, slowed down, and cut off from the network", async () => {
    const { person, page: put } = await page();
    await put.evaluate(() => {
      globalThis.ticks = 0;
      setInterval(() => {
        globalThis.ticks += 1;
      }, 1);
    });
    const ticks = () => put.evaluate(() => globalThis.ticks);
    await until("it runs", async () => (await ticks()) > 5);
    await put.frozen(true);
    const answer = ticks();
    expect(await Promise.race([answer, sleep(200).then(() => "nothing")])).toBe("nothing");
    await put.frozen(false);
    const then = await answer;
    await until("it runs again", async () => (await ticks()) > then);
    await put.slow(4);
    await put.slow(1);
    const reached = () =>
      fetch("/x").then(
        () => true,
        () => false,
      );
    await person.offline(true);
    expect(await put.evaluate(reached)).toBe(false);
    await person.offline(false);
    await until("the network is back", () => put.evaluate(reached));
  });
});
