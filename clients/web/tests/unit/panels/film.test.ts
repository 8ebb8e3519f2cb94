/** The time-lapse: at every place the film shows what a board of the records so far shows. */
import { describe, expect, test } from "vitest";
import { Film } from "../../../app/panels/film.ts";
import {
  clockWords,
  filmTimes,
  goodSpeed,
  nextSpeed,
  PAUSE_MAX,
  recordsBy,
  SPEEDS,
} from "../../../app/panels/film-clock.ts";
import { Board, type Draw, type LogRecord, type Picture, type Stroke } from "../../../src/index.ts";

const STYLE = { tool: 0, rgba: 0xff, width: 32 };

/** A log in which two people draw, erase, clear, undo and redo, by a small generator of chance from a seed. */
function logOf(length: number, seed: number): LogRecord[] {
  let state = seed;
  const chance = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
  const log: LogRecord[] = [];
  const strokes = [0, 0, 0];
  const revocable: [number, number][] = [];
  for (let i = 1; i <= length; i++) {
    const author = 1 + chance(2);
    const newest = strokes[author] ?? 0;
    const kind = chance(20);
    let draw: Draw;
    if (kind < 6 || newest === 0) {
      strokes[author] = newest + 1;
      draw = {
        kind: "begin",
        stroke: newest + 1,
        style: STYLE,
        channels: 0,
        points: [chance(99), i],
        end: kind === 0,
      };
    } else if (kind < 14) draw = { kind: "extend", stroke: newest, points: [1, 2, 3, 4], end: kind === 13 };
    else if (kind < 17) draw = { kind: "erase", strokes: [[1 + chance(2), 1 + chance(newest)]] };
    else if (kind < 18) draw = { kind: "clear" };
    else {
      const target = revocable[chance(Math.max(1, revocable.length))];
      draw = target === undefined ? { kind: "clear" } : { kind: "revoke", draws: [target] };
    }
    if (draw.kind !== "begin" && draw.kind !== "extend") revocable.push([author, i]);
    log.push({ author, n: i, at: 1_000 * i, draw });
  }
  return log;
}

const told = (strokes: readonly Stroke[]) =>
  strokes.map(({ author, number, order, values }) => ({ author, number, order, values: [...values] }));

function filmOf(log: readonly LogRecord[]): Film {
  const film = new Film();
  for (const record of log) film.add(record);
  return film;
}

/** What somebody sees who only listens to changes. */
function watch(picture: Picture): () => ReturnType<typeof told> {
  const seen = new Set<Stroke>();
  picture.subscribe(({ appeared, vanished }) => {
    for (const stroke of vanished) expect(seen.delete(stroke)).toBe(true);
    for (const stroke of appeared) {
      expect(seen.has(stroke)).toBe(false);
      seen.add(stroke);
    }
  });
  return () => told([...seen].sort((a, b) => a.order - b.order));
}

describe("a film", () => {
  test.each([1, 2, 3, 4, 5])("shows at every place what a board shows (seed %i)", (seed) => {
    const log = logOf(240, seed);
    const boards: ReturnType<typeof told>[] = [[]];
    const board = new Board();
    for (const record of log) {
      board.apply(record);
      boards.push(told(board.strokes()));
    }
    const film = filmOf(log);
    const seen = watch(film);
    expect(film.length).toBe(log.length);
    const forward = Array.from({ length: log.length + 1 }, (_, i) => i);
    const jumps = forward.map((i) => (i * 97) % (log.length + 1));
    for (const place of [...forward, ...forward.toReversed(), ...jumps]) {
      film.seek(place);
      expect(film.place).toBe(place);
      expect(told(film.strokes()), `at ${place}`).toEqual(boards[place]);
      expect(seen(), `listener at ${place}`).toEqual(boards[place]);
    }
  });

  test("stays within its ends", () => {
    const film = filmOf(logOf(10, 9));
    film.seek(1_000);
    expect(film.place).toBe(10);
    film.seek(-5);
    expect(film.place).toBe(0);
    expect(film.strokes()).toEqual([]);
  });

  test("tells nothing when nothing changes", () => {
    const film = filmOf([{ author: 1, n: 1, at: 0, draw: null }]);
    let changes = 0;
    film.subscribe(() => changes++);
    film.seek(1);
    film.seek(0);
    expect(changes).toBe(0);
  });
});

describe("the clock", () => {
  test("shortens pauses and never runs backward", () => {
    const times = filmTimes([1_000, 1_100, 901_100, 901_000, 901_050]);
    expect([...times]).toEqual([0, 100, 100 + PAUSE_MAX, 100 + PAUSE_MAX, 150 + PAUSE_MAX]);
    expect(filmTimes([])).toHaveLength(0);
  });

  test("finds how many records have come", () => {
    const times = filmTimes([0, 100, 100, 300]);
    expect([0, 99, 100, 299, 300, 9_999].map((time) => recordsBy(times, time))).toEqual([1, 1, 3, 3, 4, 4]);
    expect(recordsBy(times, -1)).toBe(0);
  });

  test("chooses a speed that one can watch", () => {
    expect(goodSpeed(20_000)).toBe(1);
    expect(goodSpeed(300_000)).toBe(8);
    expect(goodSpeed(1e12)).toBe(SPEEDS.at(-1));
    expect(nextSpeed(1)).toBe(2);
    expect(nextSpeed(64)).toBe(1);
  });

  test("reads as minutes and seconds", () => {
    expect([0, 999, 61_000, 3_600_000].map(clockWords)).toEqual(["0:00", "0:00", "1:01", "60:00"]);
  });
});
