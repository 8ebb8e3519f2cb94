/** Drawing together: two people draw recorded ink at the same time, a third comes late, and all see the same picture. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Browser, Page, Point } from "./support/browser.ts";
import { ENGINES } from "./support/engines.ts";
import { BY_HAND, fitted, HAS_INK, recordedInput, recordedStroke, tiles, WHERE } from "./support/ink.ts";
import { difference, inked, openBoard, pixels, saved, setView, shows, strokes } from "./support/page.ts";
import { Relay } from "./support/relay.ts";

/** Where ink is drawn: off the panels at the window's edges. */
const PAPER = { x: 140, y: 120, width: 740, height: 520 } as const;
const VIEW = { x: 0, y: 0, zoom: 1 } as const;

/** Each recorded stroke in a place of its own; both people's lie above each other. */
function inkOf(names: readonly string[]): Point[][] {
  const boxes = tiles(PAPER, names.length, 2);
  return names.flatMap((name, at) => {
    const box = boxes[at];
    if (box === undefined) throw new Error("a tile for each stroke");
    const isSingle = name === "freehand-sample" || name === "freehand-flash";
    return fitted([isSingle ? recordedStroke(name) : recordedInput(name)], box);
  });
}

describe.each(ENGINES)("$name", ({ start }) => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await start();
  });
  afterAll(() => browser.close());

  async function board(relay: Relay, room: string): Promise<Page> {
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, relay.url, room);
    await setView(page, VIEW);
    return page;
  }

  test.skipIf(!HAS_INK)(`two windows and a late one show the same picture${WHERE}`, async () => {
    const relay = await Relay.start();
    onTestFinished(() => relay.stop());
    const [ada, ben] = [await board(relay, "together"), await board(relay, "together")];
    const [hers, his] = [inkOf(["freehand-sample", ...BY_HAND]), inkOf([...BY_HAND, "freehand-flash"])];
    const draw = async (page: Page, ink: Point[][]) => {
      for (const stroke of ink) await page.stroke(stroke, { batch: 20 });
    };
    await Promise.all([draw(ada, hers), draw(ben, his)]);
    const count = hers.length + his.length;
    await Promise.all([ada, ben].map((page) => saved(page)));
    const late = await board(relay, "together");
    const pages = [ada, ben, late];
    await Promise.all(pages.map((page) => shows(page, count)));

    const boards = await Promise.all(pages.map(strokes));
    expect(boards[1]).toEqual(boards[0]);
    expect(boards[2]).toEqual(boards[0]);
    const pictures = await Promise.all(pages.map((page) => pixels(page, "#stage")));
    const [first] = pictures;
    if (first === undefined) throw new Error("three pictures");
    expect(pictures.map((picture) => difference(first, picture))).toEqual([null, null, null]);
    expect(inked(first)).toBeGreaterThan(1000);

    const svg = await relay.command("board", "together", "--svg", "-");
    expect(svg.match(/<(path|circle)/g)).toHaveLength(count);
  });
});
