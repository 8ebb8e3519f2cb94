/** The tools on the real board: what each draws, by buttons and by keys, and that keys alone reach everything. */
import type { Page as Tab } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Point } from "./support/browser.ts";
import { type ChromiumBrowser, startChromium } from "./support/chromium.ts";
import { pixels, saved, settled, shows, strokes } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { someoneAt } from "./support/someone.ts";
import { until } from "./support/wait.ts";

const RED = 0xe03131ff;
const GREEN = 0x2f9e44ff;

function line(y: number): Point[] {
  return [
    [300, y],
    [400, y + 2],
    [500, y],
  ];
}

describe("tools", () => {
  let browser: ChromiumBrowser;
  let relay: Relay;
  beforeAll(async () => {
    [browser, relay] = await Promise.all([startChromium(), Relay.start()]);
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  const pick = (tab: Tab, name: string) =>
    tab.getByRole("toolbar").getByRole("radio", { name, exact: true }).first().check({ force: true });

  test("pen and highlighter each keep their own colour and width, and others see the same", async () => {
    const [page, other] = [
      await someoneAt(browser, relay.url, "inks"),
      await someoneAt(browser, relay.url, "inks"),
    ];
    const { tab } = page;
    await page.stroke(line(150));
    await pick(tab, "Red");
    await tab.getByRole("button", { name: "Colour and width" }).click();
    await pick(tab, "16 pixels");
    await tab.keyboard.press("Escape");
    await page.stroke(line(200));
    await pick(tab, "Highlighter");
    await page.stroke(line(250));
    await pick(tab, "Green");
    await page.stroke(line(300));
    await pick(tab, "Pen");
    await page.stroke(line(350));
    await saved(page);
    await shows(other, 5);
    const styles = (await strokes(other)).map(({ tool, rgba, width }) => ({ tool, rgba, width: width / 16 }));
    expect(styles).toEqual([
      { tool: 0, rgba: 0x1d1d22ff, width: 4 },
      { tool: 0, rgba: RED, width: 16 },
      { tool: 1, rgba: 0xf2b203ff, width: 20 },
      { tool: 1, rgba: GREEN, width: 20 },
      { tool: 0, rgba: RED, width: 16 },
    ]);
    // What is highlighted shows through; a pen's ink covers.
    const shown = await pixels(other, "#stage");
    const at = (x: number, y: number) => [...shown.data.subarray((y * 1024 + x) * 4, (y * 1024 + x) * 4 + 3)];
    expect(at(400, 201)).toEqual([0xe0, 0x31, 0x31]);
    expect(at(400, 301)).not.toEqual([0x2f, 0x9e, 0x44]);
    expect(at(400, 301)[1]).toBeGreaterThan(at(400, 301)[0] ?? 255);
  });

  test("a colour of one's own, and any width, stay over a reload", async () => {
    const page = await someoneAt(browser, relay.url, "own");
    const { tab } = page;
    await tab.getByRole("toolbar").getByLabel("Another colour").first().fill("#123456");
    await tab.getByRole("button", { name: "Colour and width" }).click();
    await tab.getByRole("slider", { name: "Width in pixels" }).fill("31");
    await tab.keyboard.press("Escape");
    await page.reload();
    await tab.getByRole("toolbar").waitFor();
    await page.stroke(line(200));
    await shows(page, 1);
    expect((await strokes(page))[0]).toMatchObject({ tool: 0, rgba: 0x123456ff, width: 31 * 16 });
    await saved(page);
  });

  test("the eraser takes whole strokes that it touches, and no others", async () => {
    const page = await someoneAt(browser, relay.url, "eraser");
    for (const y of [200, 300, 400]) await page.stroke(line(y));
    await pick(page.tab, "Eraser");
    await page.stroke([
      [480, 280],
      [480, 320],
    ]);
    await shows(page, 2);
    await page.stroke([
      [600, 100],
      [650, 600],
    ]);
    await shows(page, 2);
    expect((await strokes(page)).map(({ number }) => number)).toHaveLength(2);
    await saved(page);
  });

  test("keys choose tools, colours and widths, and move and zoom the board", async () => {
    const page = await someoneAt(browser, relay.url, "keys");
    const { tab } = page;
    const view = () => page.evaluate(() => ({ ...globalThis.inkrelay.stage.view }));
    const comesTo = (zoom: number, x: number, y: number, near = 0.6) => {
      return until(`the view is ${x}, ${y} at ${zoom}`, async () => {
        const now = await view();
        return Math.abs(now.zoom - zoom) < 0.01 && Math.hypot(now.x - x, now.y - y) < near;
      });
    };
    await page.press("h");
    await page.press("5");
    await page.press("]");
    await page.stroke(line(200));
    await page.press("p");
    await page.press("2");
    await page.press("[");
    await page.stroke(line(300));
    await shows(page, 2);
    expect((await strokes(page)).map(({ tool, rgba, width }) => [tool, rgba, width])).toEqual([
      [1, GREEN, 25 * 16],
      [0, RED, 3 * 16],
    ]);
    await tab.keyboard.press("ArrowRight");
    await tab.keyboard.press("ArrowDown");
    await comesTo(1, 80, 80);
    await tab.keyboard.press("+");
    await comesTo(1.25, 80, 80);
    await tab.keyboard.press("-");
    await comesTo(1, 80, 80);
    await tab.keyboard.press("-");
    await tab.keyboard.press("0");
    await comesTo(1, 80, 80);
    await tab.keyboard.press("f");
    // Around all ink, and no larger.
    await comesTo(2, -112, -138, 2);
    await page.evaluate(() => globalThis.inkrelay.stage.settled());
    const fitted = await view();
    // Space moves the board whatever is chosen, and draws nothing.
    await tab.keyboard.down("Space");
    await page.stroke([
      [500, 500],
      [560, 500],
    ]);
    await tab.keyboard.up("Space");
    await comesTo(2, fitted.x - 30, fitted.y);
    await shows(page, 2);
    await page.press("e");
    await page.press("Control", "z");
    await shows(page, 1);
    await page.press("Control", "y");
    await shows(page, 2);
    await tab.keyboard.press("?");
    await tab.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await tab.keyboard.press("Escape");
    await tab.getByRole("dialog").waitFor({ state: "detached" });
    await saved(page);
  });

  test("after a press or a stroke, keys are for the board and not for the button pressed last", async () => {
    const page = await someoneAt(browser, relay.url, "let-go");
    const { tab } = page;
    for (const y of [200, 300, 400]) await page.stroke(line(y));
    await tab.getByRole("button", { name: "Undo" }).click();
    await shows(page, 2);
    await tab.keyboard.down("Space");
    await page.stroke([
      [500, 500],
      [560, 530],
    ]);
    await tab.keyboard.up("Space");
    await until("the board moved", () =>
      page.evaluate(() => {
        const { x, y } = globalThis.inkrelay.stage.view;
        return x === -60 && y === -30;
      }),
    );
    await shows(page, 2);
    // A name that was typed is taken when one draws on.
    await tab.getByRole("button", { name: /^People/ }).click();
    await tab.getByLabel("Your name").fill("Ada");
    await page.stroke(line(500));
    await shows(page, 3);
    await until("the name is known", () =>
      page.evaluate(() => globalThis.inkrelay.client?.participants[0]?.name === "Ada"),
    );
    await saved(page);
  });

  test("Tab goes through all that can be pressed, in the order of the page, and shows where it is", async () => {
    const page = await someoneAt(browser, relay.url, "focus");
    await page.stroke(line(200));
    await saved(page);
    const { tab } = page;
    const focus = () =>
      tab.evaluate(() => {
        const element = document.activeElement;
        if (!(element instanceof HTMLElement) || element === document.body) return null;
        // A radio's ring is around its face.
        const ringed = [element, ...(element.parentElement?.querySelectorAll<HTMLElement>(".face") ?? [])];
        const ring = ringed.some((one) => {
          const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
          return (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none";
        });
        return { name: element.getAttribute("aria-label") ?? element.textContent?.trim() ?? "", ring };
      });
    const passed: string[] = [];
    for (let press = 0; press < 40; press++) {
      await tab.keyboard.press("Tab");
      const now = await focus();
      if (now === null) break;
      expect(now.ring, `${now.name} shows that it has the focus`).toBe(true);
      passed.push(now.name);
    }
    const wanted = [
      "Menu",
      "People: only you",
      "Share",
      "Pen",
      "Ink",
      "Another colour",
      "Colour and width",
      "Undo",
    ];
    expect(passed.filter((name) => wanted.includes(name))).toEqual(wanted);
    expect(passed.at(-1)).toMatch(/^Zoom|^Fit/);
  });

  test("dark paper shows dark ink light", async () => {
    const page = await someoneAt(browser, relay.url, "dark", { colorScheme: "dark" });
    await page.stroke(line(200));
    await settled(page);
    const { data } = await pixels(page, "#stage");
    const paper = [...data.subarray(0, 3)];
    const ink = [...data.subarray((201 * 1024 + 400) * 4, (201 * 1024 + 400) * 4 + 3)];
    expect(Math.max(...paper)).toBeLessThan(60);
    expect(Math.min(...ink)).toBeGreaterThan(180);
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
    await saved(page);
  });
});
