/** The time-lapse on the real board: it reads all, goes to any place, and leaves the live board as it is. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { crowd } from "./support/crowd.ts";
import { difference, inked, pixels, saved, settled, shows } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { someone, someoneAt } from "./support/someone.ts";
import { until } from "./support/wait.ts";

const LINES = 8;

describe("the time-lapse", () => {
  let browser: ChromiumBrowser;
  let relay: Relay;
  beforeAll(async () => {
    [browser, relay] = await Promise.all([startChromium(), Relay.start()]);
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  async function watch(page: ChromiumPage): Promise<void> {
    await page.tab.getByRole("button", { name: "Menu" }).click();
    await page.tab.getByRole("button", { name: "Time-lapse" }).click();
  }

  const line = (at: number): [number, number][] => [
    [300, 180 + 50 * at],
    [400, 185 + 50 * at],
    [500, 180 + 50 * at],
  ];

  test("shows half of it half-way, all at its end, and the live board after it, also while others draw", async () => {
    const [ada, ben] = [
      await someoneAt(browser, relay.url, "film"),
      await someoneAt(browser, relay.url, "film"),
    ];
    for (let at = 0; at < LINES; at++) {
      await ada.stroke(line(at));
      await saved(ada);
    }
    await shows(ben, LINES);
    const before = await pixels(ada, "#stage");
    await watch(ada);
    const slider = ada.tab.getByRole("slider", { name: "Place in the time-lapse" });
    await slider.waitFor();
    const length = Number(await slider.getAttribute("max"));
    const inkAt = async (part: number) => {
      await slider.fill(String(part === 1 ? length : Math.round((length * part) / 50) * 50));
      await settled(ada);
      return inked(await pixels(ada, "#stage"));
    };
    const [start, half, end] = [await inkAt(0), await inkAt(0.5), await inkAt(1)];
    expect(start).toBeLessThan(end * 0.2);
    // The film runs as the strokes came: how much of them had come by half its time depends on how busy the machine was.
    expect(half / end).toBeGreaterThan(0.1);
    expect(half / end).toBeLessThan(0.9);
    expect(await inkAt(0.5)).toBe(half);

    // Others draw and erase meanwhile: the film stays as it is, and the board is what it has become.
    await ben.stroke(line(LINES));
    await ben.press("e");
    await ben.stroke([
      [400, 150],
      [400, 200],
    ]);
    await shows(ben, LINES);
    await saved(ben);
    await until("the news is here", () =>
      ada.evaluate(() => globalThis.inkrelay.client?.board.strokes().at(-1)?.values[1] === (580 - 384) * 16),
    );
    expect(await inkAt(0.5)).toBe(half);
    // Nothing can be drawn while one watches.
    await ada.stroke(line(4));
    await ada.tab.keyboard.press("Escape");
    await ada.tab.getByRole("toolbar").waitFor();
    await shows(ada, LINES);
    const [hers, his] = [await pixels(ada, "#stage"), await pixels(ben, "#stage")];
    expect(difference(hers, his)).toBeNull();
    expect(difference(hers, before)).not.toBeNull();
  });

  test("plays to its end by itself, again from its beginning, and at another speed", async () => {
    const page = await someoneAt(browser, relay.url, "play");
    const { tab } = page;
    for (let at = 0; at < 3; at++) {
      await page.stroke(line(at));
      await saved(page);
    }
    await watch(page);
    const slider = tab.getByRole("slider", { name: "Place in the time-lapse" });
    await slider.waitFor();
    const atItsEnd = () =>
      until("it is at its end", async () => {
        return (await slider.inputValue()) === (await slider.getAttribute("max"));
      });
    await atItsEnd();
    const whole = inked(await pixels(page, "#stage"));
    await slider.fill("0");
    await tab.getByRole("button", { name: "Speed 1 times; press to change" }).click();
    expect(await slider.inputValue()).toBe("0");
    await tab.getByRole("button", { name: "Speed 2 times; press to change" }).waitFor();
    await tab.getByRole("button", { name: "Play" }).click();
    await atItsEnd();
    await tab.getByRole("button", { name: "Play" }).waitFor();
    expect(inked(await pixels(page, "#stage"))).toBe(whole);
    await tab.getByRole("button", { name: "Done" }).click();
    await shows(page, 3);
  });

  test("says how much of a long history it has read, and can be left before the end of that", async () => {
    await crowd(relay.url, "long", { strokes: 1_000 });
    const page = await someone(browser);
    await page.open(`${relay.url}/b/long`);
    await shows(page, 1_000);
    await page.evaluate(() => {
      const seen: number[] = [];
      Object.assign(globalThis, { seenParts: seen });
      const look = () => {
        const bar = document.querySelector<HTMLProgressElement>(".film-bar progress");
        if (bar !== null && bar.value !== seen.at(-1)) seen.push(bar.value);
        requestAnimationFrame(look);
      };
      look();
    });
    await page.slow(6);
    await watch(page);
    await page.tab.getByRole("slider", { name: "Place in the time-lapse" }).waitFor();
    await page.slow(1);
    const parts = await page.evaluate(() => Reflect.get(globalThis, "seenParts"));
    expect(parts.length).toBeGreaterThan(1);
    expect([...parts].sort((a: number, b: number) => a - b)).toEqual(parts);
    await page.tab.getByRole("button", { name: "Done" }).click();

    let go = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    await page.tab.route(/\/draws\?/, async (route) => {
      await gate;
      await route.abort();
    });
    await watch(page);
    await page.tab.getByText("Reading the board’s history").waitFor();
    await page.tab.getByRole("button", { name: "Done" }).click();
    go();
    await page.tab.getByRole("toolbar").waitFor();
    await page.tab.unrouteAll({ behavior: "wait" });
    await shows(page, 1_000);
  });
});
