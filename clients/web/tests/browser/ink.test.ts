/** Ink under the hand, in every engine: exact, at once however slow the network is, and growing elsewhere meanwhile. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Browser, type Page, type Point, WINDOW } from "./support/browser.ts";
import { ENGINES } from "./support/engines.ts";
import { openBoard, saved, setView, shows, strokes, unsent } from "./support/page.ts";
import { ProxyServer } from "./support/proxy.ts";
import { Relay } from "./support/relay.ts";
import { until } from "./support/wait.ts";

/** How long a slow network takes to the relay and back, in milliseconds. */
const LATE = 3000;
/** The height of lines whose growth is watched, in CSS pixels. */
const LEVEL = 300;

declare global {
  /** For each place of the hand, after how many frames it was inked; and how many places are not. */
  var framesUntilInk: number[];
  var notInked: number;
  /** How far a line reached, in pixels: each length that a frame showed. */
  var lengthsSeen: number[];
}

/** A pointer event made by hand, for what drivers cannot do. */
interface Reading {
  readonly type: "pointerdown" | "pointermove" | "pointerup" | "pointercancel";
  readonly id: number;
  readonly pointer: "touch" | "pen";
  readonly x: number;
  readonly y: number;
}

/** A level line, which shows how far it has come. */
function level(count: number, step: number): Point[] {
  return Array.from({ length: count }, (_, at): Point => [160 + at * step, LEVEL]);
}

function onBoard(points: readonly (readonly [number, number, ...unknown[]])[]): number[] {
  return points.flatMap(([x, y]) => [(x - WINDOW.width / 2) * 16, (y - WINDOW.height / 2) * 16]);
}

async function placesOn(page: Page): Promise<number[][]> {
  return (await strokes(page)).map(({ values, channels }) => {
    const stride = 2 + (channels & 1) + (channels & 4 ? 2 : 0);
    return values.filter((_, at) => at % stride < 2);
  });
}

/** Watches, frame by frame, when the place of each pointer event gets ink. */
function watchHand(page: Page): Promise<void> {
  return page.evaluate(() => {
    globalThis.framesUntilInk = [];
    globalThis.notInked = 0;
    const waiting: { x: number; y: number; frames: number }[] = [];
    const isInked = (x: number, y: number) => {
      const pixel = (canvas: HTMLCanvasElement) => canvas.getContext("2d")?.getImageData(x, y, 1, 1).data;
      const [below, above] = [...document.querySelectorAll<HTMLCanvasElement>("#stage canvas")].map(pixel);
      // Paper is light, and the layer above is clear where there is no ink.
      return (below?.[0] ?? 255) < 200 || (above?.[3] ?? 0) > 30;
    };
    const look = (event: PointerEvent) => {
      if (event.buttons === 1) waiting.push({ x: event.clientX, y: event.clientY, frames: 0 });
    };
    addEventListener("pointerdown", look, { capture: true });
    addEventListener("pointermove", look, { capture: true });
    const frame = () => {
      for (const one of waiting.splice(0)) {
        one.frames += 1;
        if (isInked(one.x, one.y)) globalThis.framesUntilInk.push(one.frames);
        else waiting.push(one);
      }
      globalThis.notInked = waiting.length;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

/** Watches, frame by frame, how far ink reaches along the level line. */
function watchLine(page: Page): Promise<void> {
  return page.evaluate((y) => {
    globalThis.lengthsSeen = [];
    const frame = () => {
      let end = 0;
      for (const canvas of document.querySelectorAll<HTMLCanvasElement>("#stage canvas")) {
        const row =
          canvas.getContext("2d")?.getImageData(0, y, canvas.width, 1).data ?? new Uint8ClampedArray();
        for (let x = canvas.width - 1; x > end; x--) {
          if ((row[x * 4] ?? 255) < 128 && (row[x * 4 + 3] ?? 0) > 128) end = x;
        }
      }
      if (end > 0 && end !== globalThis.lengthsSeen.at(-1)) globalThis.lengthsSeen.push(end);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }, LEVEL);
}

function dispatch(page: Page, readings: readonly Reading[]): Promise<void> {
  const events = readings.map(({ type, id, pointer, x, y }) => ({ type, id, pointer, x, y }));
  return page.evaluate((events) => {
    const host = document.getElementById("stage");
    for (const { type, id, pointer, x, y } of events) {
      const isDown = type === "pointerdown" || type === "pointermove";
      host?.dispatchEvent(
        new PointerEvent(type, {
          bubbles: true,
          cancelable: true,
          pointerId: id,
          pointerType: pointer,
          clientX: x,
          clientY: y,
          pressure: isDown ? 0.5 : 0,
          buttons: isDown ? 1 : 0,
          button: type === "pointermove" ? -1 : 0,
        }),
      );
    }
  }, events);
}

describe.each(ENGINES)("$name", ({ start }) => {
  let browser: Browser;
  let relay: Relay;
  beforeAll(async () => {
    relay = await Relay.start();
    browser = await start();
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  async function board(server: string, room: string): Promise<Page> {
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, server, room);
    await setView(page, { x: 0, y: 0, zoom: 1 });
    return page;
  }

  test("each tool draws point for point, here and elsewhere", async () => {
    const [ada, ben] = [await board(relay.url, "tools"), await board(relay.url, "tools")];
    const wanted: number[][] = [];
    for (const [at, tool] of browser.tools.entries()) {
      const points = Array.from({ length: 90 }, (_, step): Point => {
        const [angle, radius] = [step / 9, 20 + step];
        return [
          Math.round(350 + at * 300 + radius * Math.cos(angle)),
          Math.round(350 + radius * Math.sin(angle)),
          0.3 + step / 200,
        ];
      });
      await ada.stroke(points, { tool });
      wanted.push(onBoard(points));
    }
    await saved(ada);
    await Promise.all([ada, ben].map((page) => shows(page, wanted.length)));
    expect(await placesOn(ada)).toEqual(wanted);
    expect(await placesOn(ben)).toEqual(wanted);
  });

  test("G2: a palm, a pen, a cancelled pen, and fingers before there was a pen", async () => {
    const [ada, ben] = [await board(relay.url, "palms"), await board(relay.url, "palms")];
    const finger = (type: Reading["type"], x: number, y: number, id = 3): Reading => ({
      type,
      id,
      pointer: "touch",
      x,
      y,
    });
    const pen = (type: Reading["type"], x: number, y: number): Reading => ({
      type,
      id: 9,
      pointer: "pen",
      x,
      y,
    });
    const bothShow = async (wanted: readonly (readonly [number, number])[][]) => {
      await saved(ada);
      await Promise.all([ada, ben].map((page) => shows(page, wanted.length)));
      expect(await placesOn(ada)).toEqual(wanted.map(onBoard));
      expect(await placesOn(ben)).toEqual(wanted.map(onBoard));
    };
    // One finger draws; one that the system takes away does not; two pinch.
    await dispatch(ada, [
      finger("pointerdown", 200, 500),
      finger("pointermove", 240, 520),
      finger("pointerup", 240, 520),
      finger("pointerdown", 300, 500),
      finger("pointermove", 340, 520),
      finger("pointercancel", 0, 0),
      finger("pointerdown", 400, 400, 4),
      finger("pointerdown", 500, 400, 5),
      finger("pointermove", 350, 400, 4),
      finger("pointermove", 550, 400, 5),
      finger("pointerup", 350, 400, 4),
      finger("pointerup", 550, 400, 5),
    ]);
    const zoom = () => globalThis.inkrelay.stage.view.zoom;
    expect(await ada.evaluate(zoom)).toBeCloseTo(2);
    await setView(ada, { x: 0, y: 0, zoom: 1 });
    const first: [number, number][] = [
      [200, 500],
      [240, 520],
    ];
    await bothShow([first]);
    await dispatch(ada, [
      finger("pointerdown", 700, 500, 7),
      pen("pointerdown", 200, 200),
      pen("pointermove", 240, 210),
      finger("pointermove", 720, 530, 7),
      pen("pointermove", 280, 220),
      finger("pointercancel", 0, 0, 7),
      pen("pointermove", 320, 230),
      pen("pointerup", 320, 230),
    ]);
    const second: [number, number][] = [
      [200, 200],
      [240, 210],
      [280, 220],
      [320, 230],
    ];
    await bothShow([first, second]);
    await dispatch(ada, [
      pen("pointerdown", 200, 300),
      pen("pointermove", 260, 310),
      pen("pointermove", 300, 330),
      pen("pointercancel", 0, 0),
    ]);
    const third: [number, number][] = [
      [200, 300],
      [260, 310],
      [300, 330],
    ];
    await bothShow([first, second, third]);
    expect(await ada.evaluate(zoom)).toBe(1);
  });

  test("one's own shows within two frames while the network is seconds late", async () => {
    const proxy = await ProxyServer.start(relay.port);
    onTestFinished(() => proxy.stop());
    const [ada, ben] = [await board(proxy.url, "late"), await board(relay.url, "late")];
    proxy.set({ delay: LATE / 2 });
    await watchHand(ada);
    const points = level(60, 11);
    const began = Date.now();
    await ada.stroke(points, { batch: 10 });
    const frames = () => globalThis.framesUntilInk;
    await until("all of it is inked", () =>
      ada.evaluate(() => globalThis.framesUntilInk.length > 0 && globalThis.notInked === 0),
    ).catch(async (error: Error) => {
      const seen = await ada.evaluate(frames);
      throw new Error(`${error.message}; ${seen.length} places are: ${seen.join(" ")}`);
    });
    // The server has answered nothing of what was drawn in the last seconds.
    expect(await unsent(ada)).toBeGreaterThan(0);
    const seen = await ada.evaluate(frames);
    expect(seen.length).toBeGreaterThanOrEqual(6);
    expect(Math.max(...seen)).toBeLessThanOrEqual(2);
    await shows(ben, 1);
    expect(Date.now() - began).toBeGreaterThan(LATE / 2);
    await saved(ada);
    expect(await placesOn(ben)).toEqual([onBoard(points)]);
    expect(await placesOn(ada)).toEqual([onBoard(points)]);
  });

  test("others' grows while their pen is still down", async () => {
    const [ada, ben] = [await board(relay.url, "growing"), await board(relay.url, "growing")];
    await watchLine(ben);
    const points = level(80, 8);
    let batches = 0;
    let seen: number[] = [];
    await ada.stroke(points, {
      batch: 8,
      between: async () => {
        batches += 1;
        const wanted = 160 + (batches * 8 - 1) * 8;
        await until(`what was drawn up to ${wanted} shows elsewhere`, async () => {
          seen = await ben.evaluate(() => globalThis.lengthsSeen);
          return (seen.at(-1) ?? 0) >= wanted - 8;
        });
        expect((await strokes(ben)).map(({ closed }) => closed)).toEqual([false]);
      },
    });
    expect(batches).toBe(9);
    // At least a length for each batch, which had to show before the next was drawn; how many more, frames decide.
    expect(seen.length).toBeGreaterThanOrEqual(batches);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    await shows(ben, 1);
    expect(await placesOn(ben)).toEqual([onBoard(points)]);
  });
});
