/** Undo, by keys and by buttons: it takes back what one drew oneself, and never what others drew. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Browser, Page } from "./support/browser.ts";
import { ENGINES } from "./support/engines.ts";
import { clickButton, live, openBoard, saved, setView, shows, strokes } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { until } from "./support/wait.ts";

/** Strokes are told apart by their height in the window. */
const HEIGHTS = { a1: 200, b1: 300, a2: 400, mark: 500 } as const;
type Name = keyof typeof HEIGHTS;

describe.each(ENGINES)("$name", ({ start }) => {
  let browser: Browser;
  let relay: Relay;
  beforeAll(async () => {
    [browser, relay] = await Promise.all([start(), Relay.start()]);
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  async function board(room: string): Promise<Page> {
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, relay.url, room);
    await setView(page, { x: 0, y: 0, zoom: 1 });
    return page;
  }

  async function draw(page: Page, name: Name): Promise<void> {
    const y = HEIGHTS[name];
    await page.stroke([
      [300, y],
      [400, y],
      [500, y],
    ]);
    await saved(page);
  }

  /** Which strokes show, by the height they were drawn at; the window's middle is the board's zero. */
  async function shown(page: Page): Promise<Name[]> {
    const heights = (await strokes(page)).map(({ values }) => (values[1] ?? 0) / 16 + 768 / 2);
    const names = Object.keys(HEIGHTS).filter((name): name is Name => name in HEIGHTS);
    return names.filter((name) => heights.some((height) => Math.abs(height - HEIGHTS[name]) < 2));
  }

  async function agree(pages: readonly Page[], names: readonly Name[]): Promise<void> {
    for (const page of pages) {
      let last: Name[] = [];
      const look = async () => {
        last = await shown(page);
        return last.join() === names.join();
      };
      await until(`only ${names.join(" and ")} shows`, look).catch((error: Error) => {
        throw new Error(`${error.message}; ${last.join(" and ") || "nothing"} does`);
      });
      await shows(page, names.length);
    }
  }

  test("C12: undo goes through one's own strokes only, also after a reload and for who comes late", async () => {
    const [ada, ben] = [await board("undo"), await board("undo")];
    await draw(ada, "a1");
    await draw(ben, "b1");
    await draw(ada, "a2");
    await agree([ada, ben], ["a1", "b1", "a2"]);

    await ben.press("Control", "z");
    await agree([ada, ben], ["a1", "a2"]);
    await ben.press("Control", "z");
    await clickButton(ada, "Undo");
    await agree([ada, ben], ["a1"]);
    await Promise.all([saved(ada), saved(ben)]);
    const late = await board("undo");
    await agree([late], ["a1"]);
    await late.reload();
    await live(late);
    await agree([late], ["a1"]);

    await ben.reload();
    await live(ben);
    await ben.press("Control", "z");
    // What comes after it shows that it did nothing.
    await ada.press("Control", "Shift", "z");
    await agree([ada, ben, late], ["a1", "a2"]);
    await clickButton(ada, "Undo");
    await clickButton(ada, "Redo");
    await agree([ada, ben, late], ["a1", "a2"]);
    await ada.press("Control", "z");
    await agree([ada, ben, late], ["a1"]);
  });

  test("clear asks first, and who cleared takes it back", async () => {
    const [ada, ben] = [await board("clear"), await board("clear")];
    await draw(ben, "b1");
    await draw(ada, "a1");
    await clickButton(ada, "Menu");
    await clickButton(ada, "Clear board…");
    await clickButton(ada, "Cancel");
    await draw(ada, "a2");
    await agree([ada, ben], ["a1", "b1", "a2"]);
    await clickButton(ada, "Menu");
    await clickButton(ada, "Clear board…");
    await clickButton(ada, "Clear board");
    await agree([ada, ben], []);
    // Of what does not show there is nothing to undo; the clear is not Ben's.
    await ben.press("Control", "z");
    await saved(ben);
    await ada.press("Control", "z");
    await agree([ada, ben], ["a1", "b1", "a2"]);
    await ada.press("Control", "Shift", "z");
    await agree([ada, ben], []);
  });

  test("one gesture of the eraser over three strokes is one undo", async () => {
    const [ada, ben] = [await board("eraser"), await board("eraser")];
    await draw(ada, "a1");
    await draw(ben, "b1");
    await draw(ada, "a2");
    await agree([ada, ben], ["a1", "b1", "a2"]);
    await ada.press("e");
    await ada.stroke(
      Array.from({ length: 30 }, (_, step) => [400, 150 + step * 10] as const),
      { batch: 5 },
    );
    await agree([ada, ben], []);
    await ada.press("Control", "z");
    await agree([ada, ben], ["a1", "b1", "a2"]);
    await ada.press("Control", "Shift", "z");
    await agree([ada, ben], []);
    // Ben draws on, and his undo is not of her eraser.
    await draw(ben, "mark");
    await agree([ada, ben], ["mark"]);
    await ben.press("Control", "z");
    await agree([ada, ben], []);
    expect(await shown(ben)).toEqual([]);
  });
});
