/** Drawing together: two people draw recorded ink at the same time, a third comes late, and all see the same picture. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { View } from "../../app/canvas/stage.ts";
import { type Browser, type Page, type Point, type Tool, WINDOW } from "./support/browser.ts";
import { ENGINES } from "./support/engines.ts";
import {
  type Box,
  BY_HAND,
  fitted,
  HAS_INK,
  recordedInkml,
  recordedInput,
  recordedStroke,
  tiles,
  WHERE,
} from "./support/ink.ts";
import {
  difference,
  fingerprint,
  inked,
  openBoard,
  type PlainStroke,
  pixels,
  press,
  saved,
  settled,
  setView,
  shows,
  strokes,
} from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { readSvg } from "./support/svg.ts";

/** Where ink is drawn: off the panels at the window's edges. Both people's lies across each other's. */
const PAPER: Box = { x: 140, y: 120, width: 720, height: 380 };
/** Lower on the paper is what an eraser will pass. */
const ERASED_Y = 560;
const LIFE_SIZE: View = { x: 0, y: 0, zoom: 1 };
/** Looked at one after the other; the first once more at the end. */
const VIEWS: readonly View[] = [
  LIFE_SIZE,
  { x: 121.3, y: -61.7, zoom: 2.37 },
  { x: -4000, y: 9000, zoom: 2.37 },
  { x: -40, y: 25, zoom: 0.43 },
  LIFE_SIZE,
];

interface Drawn {
  readonly tool: Tool;
  readonly points: readonly Point[];
}

/** Recordings of few or strange points. */
const EDGE_CASES = ["onePoint", "twoPoints", "twoEqualPoints", "numberPairs", "withDuplicates", "manyPoints"];

/** Each recorded stroke in a place of its own. */
function inkOf(names: readonly string[], paper: Box, tool: Tool): Drawn[] {
  const boxes = tiles(paper, names.length, 3);
  return names.flatMap((name, at) => {
    const box = boxes[at];
    if (box === undefined) throw new Error("a tile for each stroke");
    return fitted(recording(name), box).map((points) => ({ tool, points }));
  });
}

function recording(name: string) {
  if (name === "onenote-web" || name === "journal") return recordedInkml(name);
  return [
    name === "freehand-sample" || name === "freehand-flash" ? recordedStroke(name) : recordedInput(name),
  ];
}

/** A line from one place to another, with a point every few pixels. */
function line(from: Point, to: Point, steps = 24): Point[] {
  return Array.from({ length: steps + 1 }, (_, at): Point => {
    const part = at / steps;
    const [x, y] = [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
    return [Math.round(x), Math.round(y), 0.1 + 0.8 * part];
  });
}

/** Places in the window as the board has them in a view of life size. */
function onBoard(points: readonly Point[]): number[] {
  return points.flatMap(([x, y]) => [(x - WINDOW.width / 2) * 16, (y - WINDOW.height / 2) * 16]);
}

function placesOf({ values, channels }: PlainStroke): number[] {
  const stride = 2 + (channels & 1) + (channels & 4 ? 2 : 0);
  return values.filter((_, at) => at % stride < 2);
}

/** Draws another's whole stroke in the middle of one's own. */
async function across(page: Page, own: readonly Point[], other: () => Promise<void>): Promise<void> {
  let once: (() => Promise<void>) | null = other;
  const between = async () => {
    const act = once;
    once = null;
    await act?.();
  };
  await page.stroke(own, { batch: Math.ceil(own.length / 2), between });
}

describe.each(ENGINES)("$name", ({ name, start }) => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await start();
  });
  afterAll(() => browser.close());

  async function board(relay: Relay, room: string, ratio: number): Promise<Page> {
    const person = await browser.person({ ratio });
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, relay.url, room);
    await setView(page, LIFE_SIZE);
    expect(await page.evaluate(() => [innerWidth, innerHeight, devicePixelRatio])).toEqual([
      1024,
      768,
      ratio,
    ]);
    return page;
  }

  /** Every pixel, in every view; told where they differ. */
  async function showTheSame(pages: readonly Page[]): Promise<void> {
    const seen: string[] = [];
    for (const view of VIEWS) {
      await Promise.all(pages.map((page) => setView(page, view)));
      const prints = await Promise.all(pages.map(fingerprint));
      if (new Set(prints).size > 1) {
        const [first, ...others] = await Promise.all(pages.map((page) => pixels(page, "#stage")));
        const how = others.map((other) => first && difference(first, other));
        expect.fail(
          `the pictures differ at ${JSON.stringify(view)}: ${how.join("; ")}; ${prints.join("; ")}`,
        );
      }
      seen.push(prints[0] ?? "");
    }
    expect(seen.at(-1)).toBe(seen[0]);
    expect(seen.map((print) => / 0 inked/.test(print))).toEqual([false, false, true, false, false]);
  }

  test.skipIf(!HAS_INK).each([1, 2])(
    `two windows and a late one show the same picture, with %i pixels per CSS pixel${WHERE}`,
    async (ratio) => {
      const relay = await Relay.start();
      onTestFinished(() => relay.stop());
      const [ada, ben] = [await board(relay, "together", ratio), await board(relay, "together", ratio)];

      // Only Chromium's pen has a pressure that a test can choose.
      const tool: Tool = name === "chromium" ? "pen" : "mouse";
      const hers = inkOf(["freehand-sample", ...EDGE_CASES, ...BY_HAND], PAPER, "mouse");
      const his = inkOf(
        // A page of handwriting, which takes the other drivers minutes.
        [
          ...(name === "chromium" ? (["journal"] as const) : []),
          "onenote-web",
          "freehand-flash",
          ...BY_HAND,
        ].reverse(),
        { ...PAPER, x: PAPER.x + 33, y: PAPER.y + 21 },
        tool,
      );
      const draw = async (page: Page, ink: readonly Drawn[]) => {
        for (const { tool, points } of ink) await page.stroke(points, { tool, batch: 20 });
      };
      await press(ben, "6");
      await Promise.all([draw(ada, hers), draw(ben, his)]);

      // Begun first and ended last, and the other way round: the order on the board is that of the beginnings.
      await press(ada, "h");
      await across(ada, line([150, 140], [850, 480]), () =>
        ben.stroke(line([150, 480], [850, 140]), { tool }),
      );
      await press(ben, "h");
      await across(ben, line([500, 100], [500, 520]), () => ada.stroke(line([140, 300], [880, 300])));
      await press(ada, "p");
      await press(ada, "2");
      await ada.stroke(line([150, 200], [850, 420]));
      // A dot, and what an eraser takes away of both.
      await ada.click(600, 600);
      const passed = [line([300, 540], [300, 580]), line([340, 540], [340, 580])];
      for (const each of passed) await ada.stroke(each);
      await ben.stroke(line([380, 540], [380, 580]));
      const all = hers.length + his.length + 4 + 1 + 1 + 3;
      await Promise.all([ada, ben].map((page) => shows(page, all)));
      // An eraser takes what one sees, and others' ink grows onto the paper.
      await settled(ben);
      await press(ben, "e");
      await ben.stroke(line([260, ERASED_Y], [420, ERASED_Y + 4]));

      const count = all - 3;
      await Promise.all([ada, ben].map((page) => saved(page)));
      const late = await board(relay, "together", ratio);
      const pages = [ada, ben, late];
      await Promise.all(pages.map((page) => shows(page, count)));

      const boards = await Promise.all(pages.map(strokes));
      const [shown = []] = boards;
      expect(boards[1]).toEqual(shown);
      expect(boards[2]).toEqual(shown);
      // Point for point what the hands did.
      const places = shown.map((stroke) => placesOf(stroke).join());
      for (const { points } of [...hers, ...his]) expect(places).toContain(onBoard(points).join());
      expect(new Set(shown.map(({ author }) => author)).size).toBe(2);
      if (tool === "pen") {
        const pressures = shown
          .filter(({ channels }) => channels === 1)
          .map(({ values }) => new Set(values.filter((_, at) => at % 3 === 2)));
        expect(pressures.length).toBeGreaterThan(his.length - 1);
        expect(Math.max(...pressures.map(({ size }) => size))).toBeGreaterThan(20);
      }

      await showTheSame(pages);
      const svg = await relay.command("board", "together", "--svg", "-");
      isDrawnIn(svg, shown);
      await showsAlike(ada, svg);
    },
  );
});

/** The relay's picture has the board's strokes: as many, in order, of their colours, at their places. */
function isDrawnIn(svg: string, shown: readonly PlainStroke[]): void {
  const drawn = readSvg(svg);
  expect(drawn.length).toBe(shown.length);
  for (const [at, stroke] of shown.entries()) {
    const picture = drawn[at];
    const places = placesOf(stroke).map((value) => value / 16);
    const [xs, ys] = [places.filter((_, at) => at % 2 === 0), places.filter((_, at) => at % 2 === 1)];
    expect(picture?.colour).toBe(`#${(stroke.rgba >>> 8).toString(16).padStart(6, "0")}`);
    expect(picture?.opacity).toBeCloseTo(((stroke.rgba & 255) / 255) * (stroke.tool === 1 ? 0.4 : 1));
    if (picture?.points) {
      expect(picture.points.flat()).toEqual(places.map((value) => expect.closeTo(value, 1)));
      const pressure = stroke.channels & 1 ? 0.4 + (1.2 * (stroke.values[2] ?? 0)) / 255 : 1;
      if (picture.width !== null) expect(picture.width).toBeCloseTo((stroke.width / 16) * pressure, 1);
    } else {
      expect(stroke.channels & 1).toBe(1);
      const wanted = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
      const reach = (stroke.width / 16) * 0.8 + 0.1;
      for (const [side, edge] of wanted.entries()) {
        expect(Math.abs((picture?.box[side] ?? Number.NaN) - edge)).toBeLessThanOrEqual(reach);
      }
    }
  }
}

/** A browser paints the relay's picture where the stage paints its own: hardly an inked pixel is far from the other's ink. */
async function showsAlike(page: Page, svg: string): Promise<void> {
  const stage = await pixels(page, "#stage");
  const scale = stage.width / WINDOW.width;
  const found = await page.evaluate(
    async (svg, width, height, scale) => {
      const image = new Image();
      image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
      await image.decode();
      const [x = 0, y = 0, w = 0, h = 0] = (/viewBox="([^"]+)"/.exec(svg)?.[1] ?? "").split(" ").map(Number);
      const canvas = document.createElement("canvas");
      canvas.width = width;
      canvas.height = height;
      const context = canvas.getContext("2d");
      if (context === null) throw new Error("the browser has no canvas");
      context.fillStyle = "#fff";
      context.fillRect(0, 0, width, height);
      context.drawImage(image, width / 2 + x * scale, height / 2 + y * scale, w * scale, h * scale);
      const theirs = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
      const all = document.createElement("canvas");
      all.width = width;
      all.height = height;
      const own = all.getContext("2d");
      if (own === null) throw new Error("the browser has no canvas");
      for (const each of document.querySelectorAll<HTMLCanvasElement>("#stage canvas"))
        own.drawImage(each, 0, 0);
      const ours = new Uint32Array(own.getImageData(0, 0, width, height).data.buffer);
      const reach = 4 * scale;
      const strays = (from: Uint32Array, to: Uint32Array) => {
        let [inked, stray] = [0, 0];
        for (let row = reach; row < height - reach; row++) {
          for (let column = reach; column < width - reach; column++) {
            if (from[row * width + column] === from[0]) continue;
            inked += 1;
            let near = false;
            for (let dy = -reach; dy <= reach && !near; dy += 2) {
              for (let dx = -reach; dx <= reach && !near; dx += 2) {
                near = to[(row + dy) * width + column + dx] !== to[0];
              }
            }
            if (!near) stray += 1;
          }
        }
        return { inked, stray };
      };
      return [strays(theirs, ours), strays(ours, theirs)];
    },
    svg,
    stage.width,
    stage.height,
    scale,
  );
  expect(inked(stage)).toBeGreaterThan(5000);
  for (const { inked, stray } of found) {
    expect(inked).toBeGreaterThan(5000);
    expect(stray / inked).toBeLessThan(0.002);
  }
}
