/** The ledger: what somebody drew in pages, point by point, to be compared with what a fresh reader gets. */
import { createHash } from "node:crypto";
import { expect } from "vitest";
import { Board } from "../../../src/board.ts";
import { type LogRecord, valuesPerPoint } from "../../../src/index.ts";
import { logOf, type Person as NodePerson } from "../../support/people.ts";
import type { Page, Point, StrokeOptions } from "./browser.ts";
import { openBoard, type PlainStroke, setView, strokes } from "./page.ts";
import { PATIENCE, sleep, until } from "./wait.ts";

/** Where ink is drawn: off the panels at the edges of the window, and off the notices below its upper edge. */
const PAPER = { x: 140, y: 200, width: 740, height: 430 } as const;
const COLUMNS = 10;
const TILES = 100;
/** Sixteenths of a CSS pixel. */
const UNIT = 16;
/** Points of a slow stroke that come at once, and the pause behind them in milliseconds. */
const SLOW_POINTS = 4;
const SLOW_PAUSE = 20;

/** Opens a board, live, where a place in the window is the same place on the board. */
export async function openPaper(page: Page, server: string, room: string, within?: number): Promise<void> {
  await openBoard(page, server, room, within);
  await atOrigin(page);
}

/** Shows the board so that a place in the window is the same place there. */
export async function atOrigin(page: Page): Promise<void> {
  // What the window has now: some browsers show bars later than their driver knows.
  const [width = 0, height = 0] = await page.evaluate(() => [window.innerWidth, window.innerHeight]);
  await setView(page, { x: width / 2, y: height / 2, zoom: 1 });
}

/**
 * A stroke that no other index gives, in a place of its own. Its points are whole pixels, none at the place of the one
 * before: what every driver can draw, and no client drops.
 */
export function ink(index: number, points = 12): Point[] {
  const tile = index % TILES;
  const shift = Math.floor(index / TILES);
  const left = PAPER.x + (tile % COLUMNS) * (PAPER.width / COLUMNS) + shift;
  const top = PAPER.y + Math.floor(tile / COLUMNS) * (PAPER.height / COLUMNS) + shift;
  return Array.from({ length: points }, (_, at): Point => {
    return [Math.round(left) + ((at * 7) % 61), Math.round(top) + ((at * 5 + Math.floor(at / 61)) % 43)];
  });
}

/** Points as a ledger has them: short enough to be read where two differ, and the same only if all points are. */
export function entryOf(points: readonly Point[]): string {
  return entryOfPlaces(points.flatMap(([x, y]) => [x * UNIT, y * UNIT]));
}

function entryOfPlaces(places: readonly number[]): string {
  const all = createHash("sha1").update(places.join(" ")).digest("base64url").slice(0, 12);
  const [x = 0, y = 0] = places;
  return `${places.length / 2} points from ${x / UNIT},${y / UNIT}: ${all}`;
}

/** A stroke of a board as a ledger has it: its places, without pressure and the like. */
function placesOf(stroke: { readonly channels: number; readonly values: readonly number[] }): string {
  const step = valuesPerPoint(stroke.channels);
  return entryOfPlaces(stroke.values.filter((_, at) => at % step < 2));
}

/** What a page shows, as a ledger has it. */
export async function shown(page: Page): Promise<string[]> {
  return (await strokes(page)).map((stroke: PlainStroke) => placesOf(stroke));
}

export class Ledger {
  /** In the order in which they were drawn. */
  readonly entries: string[] = [];

  /** Draws by real input, as fast as the browser takes it. */
  async draw(page: Page, points: readonly Point[], options: StrokeOptions = {}): Promise<void> {
    this.entries.push(entryOf(points));
    await atOrigin(page);
    await page.stroke(points, options);
  }

  /** Draws through a client that has no page. */
  drawAs(person: NodePerson, points: readonly Point[]): void {
    this.entries.push(entryOf(points));
    person.stroke(points.map(([x, y]) => [x * UNIT, y * UNIT] as const));
  }

  /** Draws with pauses, as hands do; `between` is told how many points are drawn. */
  async drawSlowly(
    page: Page,
    points: readonly Point[],
    between: (drawn: number) => Promise<void> | void = () => {},
  ): Promise<void> {
    let drawn = 1;
    await this.draw(page, points, {
      batch: SLOW_POINTS,
      between: async () => {
        drawn += SLOW_POINTS;
        await between(drawn);
        await sleep(SLOW_PAUSE);
      },
    });
  }
}

/**
 * Reads the room anew, as somebody who never was there, and compares: all strokes of all ledgers are there, once, with
 * exactly their points, each ledger's in its order, and nothing else. Every author's draws are numbered without a gap.
 * Returns what shows, in the board's order.
 */
export async function expectKept(
  server: string,
  room: string,
  ledgers: readonly Ledger[],
): Promise<string[]> {
  const log = await logOf(server, room);
  const picture = pictureOf(log);
  expect([...picture].sort()).toEqual(ledgers.flatMap(({ entries }) => entries).sort());
  for (const { entries } of ledgers) {
    const own = new Set(entries);
    expect(picture.filter((entry) => own.has(entry))).toEqual(entries);
  }
  const numbers = new Map<number, number>();
  for (const { author, n } of log) {
    if (author === 0) continue;
    expect(n, `a draw of author ${author}`).toBe((numbers.get(author) ?? 0) + 1);
    numbers.set(author, n);
  }
  return picture;
}

/** What a log draws, as a ledger has it. */
export function pictureOf(log: readonly LogRecord[]): string[] {
  const board = new Board();
  for (const record of log) board.apply(record);
  return board.strokes().map(placesOf);
}

/** Waits until a page shows exactly these strokes, in this order. */
export async function showsAll(page: Page, picture: readonly string[], within = PATIENCE): Promise<void> {
  let last: string[] = [];
  const look = async () => {
    last = await shown(page);
    return last.length === picture.length && last.every((entry, at) => entry === picture[at]);
  };
  await until("the page shows what the log has", look, within).catch(() => expect(last).toEqual(picture));
}
