/** F4 and what else a server or a store may send: a page skips what is no draw, draws the rest, and never breaks. */
import { encode } from "@msgpack/msgpack";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { watchFaults } from "./support/faults.ts";
import { inked, live, pixels, ready, setView, shows, stateOf, strokes } from "./support/page.ts";
import { readPng, readSvg, savedFile } from "./support/pictures.ts";
import { Relay } from "./support/relay.ts";
import { until } from "./support/wait.ts";

const FAR = 2 ** 30;
const AUTHOR = 9;
const STYLE = [0, 0xdc2626ff, 64];
const NO_LIMITS = [0, 0, 0, 0, 0];

/** Draws that show, each as stroke `stroke`; whoever draws them, these are within the rules. */
const SHOWN: readonly ((stroke: number) => readonly unknown[])[] = [
  (stroke) => [0, stroke, STYLE, 0, [0, 0, 1600, 1600], true],
  // From one end of the board to the other.
  (stroke) => [0, stroke, STYLE, 0, [-FAR, -FAR, 2 ** 31 - 1, 2 ** 31 - 1], true],
  (stroke) => [0, stroke, [0, 0x1f1f1fff, 0], 0, [-1600, 0, 1600, 0], true],
  (stroke) => [0, stroke, [1, 0x1d4ed880, 65_535], 0, [FAR, -FAR], true],
  // Two points at one place; and pressures that no pen has.
  (stroke) => [0, stroke, STYLE, 0, [800, -800, 0, 0], true],
  (stroke) => [0, stroke, STYLE, 1, [-800, 800, -1, 160, 160, 99, 160, 160, 2 ** 31 - 1], true],
  // Tilts and times that no pen has, and a tool that nobody knows yet.
  (stroke) => [0, stroke, [200, 0, 64], 7, [-800, -800, 0, -(2 ** 31), 999, -999, 9, 9, 255, 0, 0, 0], true],
  // Never ended, and with something behind its end.
  (stroke) => [0, stroke, STYLE, 0, [1600, -1600, 160, 0], null, { later: "version" }],
  (stroke) => [
    0,
    stroke,
    STYLE,
    0,
    Array.from({ length: 100_000 }, (_, at) => ((at >> 1) % 64 < 32 ? 16 : -15)),
    true,
  ],
];

/** What is no draw, or has no effect. */
const SKIPPED: readonly unknown[] = [
  [0, 101, STYLE, 0, [Number.NaN, 0, 16, 16], true],
  [0, 102, STYLE, 0, [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY], true],
  [0, 103, STYLE, 0, [1e308, -1e308], true],
  [0, 104, STYLE, 0, [FAR + 1, 0], true],
  [0, 105, STYLE, 0, [FAR, 0, 1, 0], true],
  [0, 106, STYLE, 0, [], true],
  [0, 107, STYLE, 0, [1, 2, 3], true],
  [0, 108, STYLE, 8, [1, 2], true],
  [0, 109, [0, -1, -1], 0, [1, 2], true],
  [0, 110, [0, Number.NaN, 64], 0, [1, 2], true],
  [0, -1, STYLE, 0, [1, 2], true],
  [0, "111", STYLE, 0, [1, 2], true],
  [0, 112],
  // Once more a stroke that is there, and more of strokes that are whole or were never begun.
  [0, 1, STYLE, 0, [9, 9], true],
  [1, 1, [5, 5], true],
  [1, 999, [5, 5], true],
  [2, [[AUTHOR, 999]]],
  [2, []],
  [2, [[AUTHOR, Number.NaN]]],
  [3, [[AUTHOR, 999_999]]],
  [3, "everything"],
  [5, new Uint8Array(5)],
  [99, { __proto__: null, constructor: "?" }, [[[[]]]]],
  ["4"],
  [],
  null,
  7,
  "draw",
  { kind: "begin" },
];

/** Frames that are none, or that promise more than they hold. */
const FRAMES: readonly Uint8Array[] = [
  Uint8Array.of(),
  Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff),
  Uint8Array.of(0xdf, 0xff, 0xff, 0xff, 0xff),
  Uint8Array.of(0xc6, 0xff, 0xff, 0xff, 0xff),
  Uint8Array.of(0x93, 66, 1, 0xdd, 0x7f, 0xff, 0xff, 0xff),
  new Uint8Array(100_000).fill(0x91),
  new Uint8Array(100_000).fill(0xc1),
  encode([66, 1, [[1]]]),
  encode([66, 1e300, []]),
  encode([67, -1, -1]),
  encode([68, 0, 0, [], "more", 0, 0, 0]),
  encode([70, 1, Number.NaN, Number.NaN]),
  encode([69, [[1, 2, 3]]]),
  encode([65, 1]),
];

describe("hostile data", () => {
  let browser: ChromiumBrowser;
  let relay: Relay;
  beforeAll(async () => {
    [browser, relay] = await Promise.all([startChromium(), Relay.start()]);
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  /** A page whose every socket is answered by these frames, after a welcome; the last ones for all later sockets. */
  async function pageOf(head: number, answers: readonly (readonly Uint8Array[])[]): Promise<ChromiumPage> {
    const person = await browser.person({ acceptDownloads: true });
    onTestFinished(() => person.close());
    const page = await person.page();
    const faults = await watchFaults(page);
    onTestFinished(() => expect(faults).toEqual([]));
    let sockets = 0;
    await page.tab.routeWebSocket(/\/ws$/, (socket) => {
      const frames = answers[Math.min(sockets++, answers.length - 1)] ?? [];
      let isGreeted = false;
      socket.onMessage(() => {
        if (isGreeted) return;
        isGreeted = true;
        const position = head === 0 ? [1, 0, 0, 0, 0] : [5, head, AUTHOR, head, 1_000 + head];
        socket.send(Buffer.from(encode([65, 3, "ticket", position, 1, NO_LIMITS])));
        for (const frame of frames) socket.send(Buffer.from(frame));
      });
    });
    await page.open(`${relay.url}/b/hostile`);
    return page;
  }

  test("F4: what is no draw is skipped, the rest is drawn, and its pictures are whole", async () => {
    const draws = SHOWN.flatMap((draw, at) => [draw(at + 1), ...SKIPPED]);
    const records = draws.map((draw, at) => [AUTHOR, at + 1, 1_001 + at, draw]);
    const page = await pageOf(records.length, [[encode([66, 1, records])]]);
    await live(page);
    await until("what can be drawn is", async () => (await strokes(page)).length === SHOWN.length);
    expect((await strokes(page)).map(({ number }) => number)).toEqual(SHOWN.map((_, at) => at + 1));
    await setView(page, { x: 0, y: 0, zoom: 1 });
    expect(inked(await pixels(page, "#stage"))).toBeGreaterThan(500);
    // At the board's corner, where the widest ink there is makes a dot.
    await setView(page, { x: FAR / 16, y: -FAR / 16, zoom: 0.05 });
    expect(inked(await pixels(page, "#stage"))).toBeGreaterThan(1000);

    const svg = await savedFile(page, "Save as SVG");
    expect(await readSvg(page, svg)).toMatchObject({ paths: SHOWN.length });
    expect(svg.toString("utf8")).not.toMatch(/NaN|Infinity|[0-9]e[-+]?[0-9]/);
    // As large as a canvas may be, and a part of it, since the ink reaches from end to end.
    const { width, height } = await readPng(page, await savedFile(page, "Save as PNG"));
    expect(width * height).toBeLessThanOrEqual(16_777_216);
    expect(width * height).toBeGreaterThan(16_700_000);
    // The page still draws.
    await page.stroke([
      [300, 300],
      [350, 320],
    ]);
    await until("it draws", async () => (await strokes(page)).length === SHOWN.length + 1);
  });

  test("bytes that are no frame end a connection, and nothing else", async () => {
    const good = encode([66, 1, [[AUTHOR, 1, 1_001, [0, 1, STYLE, 0, [0, 0, 160, 160], true]]]]);
    const page = await pageOf(1, [...FRAMES.map((frame) => [frame]), [good]]);
    await ready(page);
    await until("it is live, after all that", async () => {
      const state = await stateOf(page);
      if (state?.kind === "offline") await page.evaluate(() => globalThis.inkrelay.client?.retry());
      expect(state?.kind).not.toBe("refused");
      return state?.kind === "live" && (await strokes(page)).length === 1;
    });
    await shows(page, 1);
  });
});
