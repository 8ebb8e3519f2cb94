/** Pens, palms and fingers on the board, as Chromium can synthesize them: who draws, who moves the board, and who does nothing. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { WINDOW } from "./support/browser.ts";
import { type ChromiumBrowser, type ChromiumPage, type Finger, startChromium } from "./support/chromium.ts";
import { inkNow, openBoard, type PlainStroke, saved, setView, shows, strokes } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { sleep, until } from "./support/wait.ts";

/** What a tablet's window is like. */
const TABLET = { hasTouch: true, isMobile: true, viewport: WINDOW } as const;

/** What a browser would answer by itself, and must not: on touching, pressing long, tapping twice, dragging. */
const REFUSED = [
  ...["touchstart", "touchmove", "touchend"],
  ...["mousedown", "contextmenu", "selectstart", "dragstart", "dblclick"],
];

let browser: ChromiumBrowser;
let relay: Relay;
let rooms = 0;
beforeAll(async () => {
  relay = await Relay.start();
  browser = await startChromium();
});
afterAll(async () => {
  await browser.close();
  await relay.stop();
});

async function open(room: string): Promise<ChromiumPage> {
  const person = await browser.person(TABLET);
  onTestFinished(() => person.close());
  const page = await person.page();
  const errors: string[] = [];
  page.tab.on("pageerror", (error) => errors.push(String(error)));
  onTestFinished(() => expect(errors).toEqual([]));
  await openBoard(page, relay.url, room);
  await setView(page, { x: 0, y: 0, zoom: 1 });
  return page;
}

/** A tablet and someone who watches from another one. */
async function two(): Promise<{ page: ChromiumPage; other: ChromiumPage; room: string }> {
  rooms += 1;
  const room = `fingers-${rooms}`;
  return { page: await open(room), other: await open(room), room };
}

/** The x, y of each point in the window. */
function places({ values, channels }: PlainStroke): (readonly [number, number])[] {
  const stride = 2 + (channels & 1) + (channels & 4 ? 2 : 0);
  const found: (readonly [number, number])[] = [];
  for (let at = 0; at < values.length; at += stride) {
    found.push([(values[at] ?? 0) / 16 + WINDOW.width / 2, (values[at + 1] ?? 0) / 16 + WINDOW.height / 2]);
  }
  return found;
}

const view = (page: ChromiumPage) => page.evaluate(() => ({ ...globalThis.inkrelay.stage.view }));

/** The page itself was neither zoomed nor scrolled, and nothing in it is selected. */
async function isUnmoved(page: ChromiumPage): Promise<void> {
  const state = await page.evaluate(() => ({
    scale: visualViewport?.scale,
    left: visualViewport?.pageLeft,
    top: visualViewport?.pageTop,
    scrolled: [scrollX, scrollY, document.documentElement.scrollTop, document.body.scrollTop],
    selected: String(getSelection()),
  }));
  expect(state).toEqual({ scale: 1, left: 0, top: 0, scrolled: [0, 0, 0, 0], selected: "" });
}

/** A finger's way from one place to another. */
async function swipe(
  page: ChromiumPage,
  from: Finger,
  to: { x: number; y: number },
  steps = 10,
): Promise<void> {
  await page.touch("start", [from]);
  for (let step = 1; step <= steps; step++) {
    const part = step / steps;
    const [x, y] = [from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part];
    await page.touch("move", [{ ...from, x, y }]);
  }
}

/** Both windows show these strokes and no others, whole. */
async function bothShow(
  pages: { page: ChromiumPage; other: ChromiumPage },
  count: number,
): Promise<PlainStroke[]> {
  await saved(pages.page);
  await shows(pages.page, count);
  await shows(pages.other, count);
  const own = await strokes(pages.page);
  expect(await strokes(pages.other)).toEqual(own);
  return own;
}

describe("a pen", () => {
  test("G1: 40 quick strokes 30 ms apart are 40 strokes of at least 3 points, here and elsewhere", async () => {
    const pages = await two();
    const { page } = pages;
    const hooks = await page.evaluate((types) => {
      const host = document.getElementById("stage");
      const canvas = host?.querySelector("canvas");
      if (!host || !canvas) throw new Error("there is no stage");
      // Only where its listener is not passive can an event be refused.
      const refused = types.filter(
        (type) => !canvas.dispatchEvent(new Event(type, { bubbles: true, cancelable: true })),
      );
      return { touchAction: getComputedStyle(host).touchAction, refused };
    }, REFUSED);
    expect(hooks.touchAction).toBe("none");
    expect(hooks.refused).toEqual(REFUSED);

    const begins: [number, number][] = [];
    for (let stroke = 0; stroke < 40; stroke++) {
      const [x, y] = [170 + (stroke % 10) * 68, 140 + Math.floor(stroke / 10) * 120];
      begins.push([x, y]);
      await page.pen("down", { x, y, pressure: 0.4 });
      for (const step of [1, 2, 3])
        await page.pen("move", { x: x + step * 3, y: y + step * 22, pressure: 0.6 });
      await page.pen("up", { x: x + 9, y: y + 66 });
      await sleep(30);
    }
    const drawn = await bothShow(pages, 40);
    expect(drawn.map((stroke) => places(stroke)[0])).toEqual(begins);
    for (const stroke of drawn) expect(places(stroke).length).toBeGreaterThanOrEqual(3);
  });

  test("has pressure and tilt, and both are in the log", async () => {
    const pages = await two();
    const { page, room } = pages;
    await page.pen("hover", { x: 200, y: 300 });
    await page.pen("down", { x: 200, y: 300, pressure: 0.2, tiltX: 30, tiltY: -45 });
    for (let step = 1; step <= 10; step++) {
      await page.pen("move", {
        x: 200 + step * 30,
        y: 300,
        pressure: (51 + step * 15) / 255,
        tiltX: 30 - step,
        tiltY: -45 + step,
      });
    }
    await page.pen("up", { x: 500, y: 300 });
    const [stroke] = await bothShow(pages, 1);
    expect(stroke?.channels).toBe(5);

    const answer: unknown = await (await fetch(`${relay.url}/v1/rooms/${room}/draws`)).json();
    const values: number[] = [];
    let channels: unknown;
    const records: unknown = Array.isArray(answer) ? answer[2] : [];
    for (const record of Array.isArray(records) ? records : []) {
      const draw: unknown = Array.isArray(record) ? record[3] : [];
      if (!Array.isArray(draw)) continue;
      if (draw[0] === 0) channels = draw[3];
      const points: unknown = draw[0] === 0 ? draw[4] : draw[0] === 1 ? draw[2] : [];
      if (Array.isArray(points)) values.push(...points.map(Number));
    }
    expect(channels).toBe(5);
    const rows = Array.from({ length: values.length / 5 }, (_, at) => values.slice(at * 5 + 2, at * 5 + 5));
    const wanted = Array.from({ length: 11 }, (_, step) => [51 + step * 15, 30 - step, -45 + step]);
    expect(rows).toEqual(wanted);
  });

  test("G2: draws on while a palm lies, moves and is taken away; fingers pan then, and the palm drew nothing", async () => {
    const pages = await two();
    const { page } = pages;
    const palm = { id: 7, x: 760, y: 560, radius: 45 };
    await page.touch("start", [palm]);
    await page.pen("down", { x: 200, y: 200 });
    await page.pen("move", { x: 230, y: 210 });
    await page.touch("move", [{ ...palm, x: 775, y: 575 }]);
    await page.pen("move", { x: 260, y: 220 });
    await page.touch("cancel");
    await page.pen("move", { x: 290, y: 230 });
    await page.pen("move", { x: 320, y: 240 });
    await page.pen("up", { x: 320, y: 240 });
    const [stroke] = await bothShow(pages, 1);
    expect(stroke && places(stroke)).toEqual(
      [0, 1, 2, 3, 4].map((step) => [200 + step * 30, 200 + step * 10]),
    );
    expect(await view(page)).toEqual({ x: 0, y: 0, zoom: 1 });

    // A palm that comes while the pen is near, or just was, moves nothing either.
    await page.pen("down", { x: 200, y: 300 });
    await swipe(page, { id: 7, x: 700, y: 500, radius: 40 }, { x: 600, y: 400 });
    await page.pen("move", { x: 300, y: 300 });
    await page.pen("up", { x: 300, y: 300 });
    await page.touch("end");
    expect(await view(page)).toEqual({ x: 0, y: 0, zoom: 1 });
    await bothShow(pages, 2);

    // Later, a finger pans, and two pinch.
    await sleep(600);
    await swipe(page, { id: 3, x: 500, y: 400 }, { x: 600, y: 450 });
    await page.touch("end");
    const panned = await view(page);
    expect(panned.x).toBeLessThan(-70);
    expect(panned.y).toBeLessThan(-30);
    await bothShow(pages, 2);
    await isUnmoved(page);
  });

  test("takes back what a palm has drawn that came before it", async () => {
    const pages = await two();
    const { page, other } = pages;
    await swipe(page, { id: 7, x: 760, y: 560, radius: 45 }, { x: 780, y: 590 });
    await until("the palm's ink is elsewhere", async () => (await strokes(other)).length === 1);
    await page.pen("down", { x: 200, y: 200 });
    await page.touch("move", [{ id: 7, x: 740, y: 520, radius: 45 }]);
    await page.pen("move", { x: 260, y: 220 });
    await page.touch("end");
    await page.pen("move", { x: 320, y: 240 });
    await page.pen("up", { x: 320, y: 240 });
    const [stroke] = await bothShow(pages, 1);
    expect(stroke && places(stroke)).toEqual([
      [200, 200],
      [260, 220],
      [320, 240],
    ]);
    expect(stroke?.channels).toBe(1);
  });
});

describe("pointercancel", () => {
  /** Chromium's driver cancels touches only: a pen is cancelled by an event of our own, and has to be known for that. */
  const knowPen = (page: ChromiumPage) =>
    page.evaluate(() => {
      const host = document.getElementById("stage");
      host?.addEventListener(
        "pointerdown",
        ({ pointerId }) => {
          globalThis.addEventListener(
            "test:cancel",
            () => {
              const init = { bubbles: true, pointerId, pointerType: "pen", clientX: 0, clientY: 0 };
              host.dispatchEvent(new PointerEvent("pointercancel", init));
            },
            { once: true },
          );
        },
        { once: true },
      );
    });

  test("of a pen keeps its points so far; what comes behind it is no part of the stroke", async () => {
    const pages = await two();
    const { page } = pages;
    await knowPen(page);
    await page.pen("down", { x: 200, y: 200 });
    for (let step = 1; step <= 5; step++) await page.pen("move", { x: 200 + step * 20, y: 200 });
    await page.evaluate(() => void globalThis.dispatchEvent(new Event("test:cancel")));
    await page.pen("up", { x: 300, y: 200 });
    await page.pen("hover", { x: 500, y: 500 });
    const [stroke] = await bothShow(pages, 1);
    expect(stroke && places(stroke)).toEqual([0, 1, 2, 3, 4, 5].map((step) => [200 + step * 20, 200]));
  });

  test("of a finger removes its stroke everywhere; the next one is drawn", async () => {
    const pages = await two();
    const { page, other } = pages;
    await swipe(page, { id: 1, x: 300, y: 300 }, { x: 500, y: 340 });
    await until("the finger's ink is elsewhere", async () => (await strokes(other)).length === 1);
    expect(await inkNow(page)).toBeGreaterThan(300);
    await page.touch("cancel");
    await bothShow(pages, 0);
    await until("its ink is gone", async () => (await inkNow(page)) === 0 && (await inkNow(other)) === 0);
    await swipe(page, { id: 1, x: 300, y: 300 }, { x: 500, y: 340 });
    await page.touch("end");
    await bothShow(pages, 1);
  });
});

describe("fingers without a pen", () => {
  test("one draws; two pan; and the page stays where it is", async () => {
    const pages = await two();
    const { page } = pages;
    await swipe(page, { id: 1, x: 200, y: 600 }, { x: 700, y: 150 }, 20);
    await page.touch("end");
    const [stroke] = await bothShow(pages, 1);
    expect(stroke && places(stroke)).toHaveLength(21);
    expect(stroke?.channels).toBe(0);
    expect(await view(page)).toEqual({ x: 0, y: 0, zoom: 1 });

    const at = (step: number): Finger[] => [
      { id: 1, x: 400 + step * 10, y: 300 + step * 5 },
      { id: 2, x: 500 + step * 10, y: 300 + step * 5 },
    ];
    await page.touch("start", at(0));
    for (let step = 1; step <= 10; step++) await page.touch("move", at(step));
    await page.touch("end");
    await bothShow(pages, 1);
    const { x, y, zoom } = await view(page);
    expect([x, y]).toEqual([expect.closeTo(-100, 0), expect.closeTo(-50, 0)]);
    expect(zoom).toBeCloseTo(1, 2);
    await isUnmoved(page);
  });

  test("two pinch about their middle, and draw nothing", async () => {
    const pages = await two();
    const { page } = pages;
    const middle = { x: 420, y: 330 };
    const before = await page.evaluate((at) => globalThis.inkrelay.stage.toBoard(at), middle);
    const apart = (way: number): Finger[] => [
      { id: 1, x: middle.x - way, y: middle.y },
      { id: 2, x: middle.x + way, y: middle.y },
    ];
    await page.touch("start", apart(80));
    for (let way = 80; way <= 240; way += 16) await page.touch("move", apart(way));
    await page.touch("end", apart(240).slice(1));
    await page.touch("end");
    expect((await view(page)).zoom).toBeCloseTo(3, 1);
    const after = await page.evaluate((at) => globalThis.inkrelay.stage.toBoard(at), middle);
    expect(Math.hypot(after.x - before.x, after.y - before.y)).toBeLessThan(2);
    await page.touch("start", apart(240));
    for (let way = 240; way >= 60; way -= 20) await page.touch("move", apart(way));
    await page.touch("end");
    expect((await view(page)).zoom).toBeCloseTo(0.75, 1);
    await bothShow(pages, 0);
    expect(await inkNow(page)).toBe(0);
    await isUnmoved(page);
  });

  test("a second one takes the stroke of the first away and makes a pinch of it", async () => {
    const pages = await two();
    const { page, other } = pages;
    await page.touch("start", [{ id: 1, x: 400, y: 300 }]);
    await page.touch("move", [{ id: 1, x: 404, y: 303 }]);
    await until("it has begun elsewhere", async () => (await strokes(other)).length === 1);
    const both = (step: number): Finger[] => [
      { id: 1, x: 404 - step * 10, y: 303 },
      { id: 2, x: 604 + step * 10, y: 303 },
    ];
    await page.touch("start", both(0));
    for (let step = 1; step <= 10; step++) await page.touch("move", both(step));
    await page.touch("end");
    await bothShow(pages, 0);
    expect((await view(page)).zoom).toBeCloseTo(2, 1);
    await until("its ink is gone", async () => (await inkNow(page)) === 0 && (await inkNow(other)) === 0);
  });

  test("a double tap makes two dots and zooms nothing; a long press calls no menu and selects nothing", async () => {
    const pages = await two();
    const { page } = pages;
    await page.evaluate(() => {
      addEventListener("contextmenu", (event) => {
        document.body.dataset.menus = `${document.body.dataset.menus ?? ""}${event.defaultPrevented ? "refused" : "shown"} `;
      });
    });
    for (const x of [400, 402]) {
      await page.touch("start", [{ id: 1, x, y: 300 }]);
      await page.touch("end");
    }
    await bothShow(pages, 2);
    await sleep(400);
    expect(await view(page)).toEqual({ x: 0, y: 0, zoom: 1 });
    await page.touch("start", [{ id: 1, x: 600, y: 300 }]);
    await sleep(1200);
    await page.touch("end");
    await bothShow(pages, 3);
    const menus = await page.evaluate(() => document.body.dataset.menus ?? "");
    expect(menus).not.toContain("shown");
    await isUnmoved(page);
  });
});

test("a wheel pans; with ctrl it zooms about the pointer; neither moves the page", async () => {
  const { page } = await two();
  const at = { x: 700, y: 250 };
  await page.tab.mouse.move(at.x, at.y);
  await page.tab.mouse.wheel(30, 120);
  await until("it panned", async () => (await view(page)).y === 120);
  expect((await view(page)).x).toBe(30);
  const before = await page.evaluate((at) => globalThis.inkrelay.stage.toBoard(at), at);
  await page.tab.keyboard.down("Control");
  await page.tab.mouse.wheel(0, -40);
  await page.tab.keyboard.up("Control");
  await until("it zoomed", async () => (await view(page)).zoom > 1.1);
  const after = await page.evaluate((at) => globalThis.inkrelay.stage.toBoard(at), at);
  expect(Math.hypot(after.x - before.x, after.y - before.y)).toBeLessThan(1);
  await isUnmoved(page);
});
