/** The panels in every state that people meet, on screens of all sizes, light and dark: whole, reachable and quiet. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page as Tab } from "playwright-core";
import { build, type PreviewServer, preview } from "vite";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ChromiumBrowser, startChromium } from "./support/chromium.ts";
import { until } from "./support/wait.ts";

/** CSS pixels of the smallest thing that a finger hits; half a pixel may be lost to rounding. */
const TOUCH = 43.5;

const SCREENS = [
  { name: "desktop, light", width: 1440, height: 900, touch: false, theme: "light" },
  { name: "tablet upright, dark", width: 1024, height: 1366, touch: true, theme: "dark" },
  { name: "tablet, light", width: 1366, height: 1024, touch: true, theme: "light" },
  { name: "phone, dark", width: 390, height: 844, touch: true, theme: "dark" },
  { name: "phone on its side, light", width: 844, height: 390, touch: true, theme: "light" },
  { name: "smallest phone, light", width: 320, height: 568, touch: true, theme: "light" },
] as const;

const STATES = [
  ["empty", "drawing", "menu", "people", "alone", "style", "highlighter", "zoom", "share", "boards", "clear"],
  [
    "cleared",
    "help",
    "following",
    "connecting",
    "joining",
    "saving",
    "offline",
    "offline-idle",
    "offline-memory",
  ],
  ["draining", "viewer", "token", "full", "refused-draw", "film"],
].flat();

/** What is wrong with what shows, in words. */
function faults(touch: number): string[] {
  const found: string[] = [];
  const { clientWidth: width, clientHeight: height } = document.documentElement;
  const modal = document.querySelector("dialog[open]");
  const scope = modal ?? document;
  if (modal !== null && modal.scrollTop > 0) found.push("the dialog opens scrolled");
  const named = (element: Element) => element.getAttribute("aria-label") ?? element.textContent?.trim() ?? "";
  for (const element of scope.querySelectorAll<HTMLElement>("button, a, input, summary")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || getComputedStyle(element).visibility === "hidden") continue;
    const name = named(element) || element.closest("label")?.textContent?.trim() || "";
    if (name === "") found.push(`${element.outerHTML.slice(0, 80)} has no name`);
    if (box.width < touch || box.height < touch) {
      found.push(`${name} is ${box.width.toFixed(1)}×${box.height.toFixed(1)}`);
    }
    const scrolls = element.closest(".popover, dialog") !== null;
    if (box.left < -0.5 || box.right > width + 0.5) found.push(`${name} is cut off at a side`);
    if (!scrolls && (box.top < -0.5 || box.bottom > height + 0.5))
      found.push(`${name} is cut off above or below`);
    if (modal !== null) continue;
    // What lies over a button's middle would take its taps. (A panel that is open may lie over others.)
    const over = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const covered =
      over !== null && !element.contains(over) && !(over.closest("label")?.contains(element) ?? false);
    if (covered && over.closest(".popover") === null && !scrolls)
      found.push(`${name} is under ${over.className}`);
  }
  for (const surface of scope.querySelectorAll<HTMLElement>(".surface, .toast, .follow-pill")) {
    const box = surface.getBoundingClientRect();
    if (box.width > 0 && (box.left < -0.5 || box.right > width + 0.5))
      found.push(`${surface.className} sticks out`);
    const holdsPanel = surface.querySelector(".popover") !== null;
    if (!holdsPanel && surface.scrollWidth > surface.clientWidth + 1)
      found.push(`${surface.className} is too narrow for what it holds`);
  }
  if (document.documentElement.scrollHeight > height) found.push("the page scrolls");
  return found;
}

/** Waits until the page says that; it paints a moment after every press. */
async function shows<T>(ask: () => Promise<T>, answer: T): Promise<void> {
  let last: T | undefined;
  const look = async () => {
    last = await ask();
    return last === answer;
  };
  await until(`it says ${answer}`, look, 5_000).catch(() => expect(last).toBe(answer));
}

describe("panels", () => {
  let server: PreviewServer;
  let ended = async () => {};
  let browser: ChromiumBrowser;
  let address = "";

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "inkrelay-states-"));
    const configFile = join(import.meta.dirname, "states/vite.config.ts");
    await build({ configFile, build: { outDir: folder, emptyOutDir: true }, logLevel: "error" });
    server = await preview({
      configFile,
      build: { outDir: folder },
      preview: { host: "127.0.0.1", port: 0 },
      logLevel: "error",
    });
    ended = async () => {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    };
    address = `${server.resolvedUrls?.local[0]}tests/browser/states/index.html`;
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser.close();
    await ended();
  });

  async function tabOn(screen: (typeof SCREENS)[number]): Promise<{ tab: Tab; errors: string[] }> {
    const context = await browser.context({
      viewport: { width: screen.width, height: screen.height },
      hasTouch: screen.touch,
      isMobile: screen.touch,
      colorScheme: screen.theme,
      // What moves is not where it will be.
      reducedMotion: "reduce",
    });
    onTestFinished(() => context.close());
    const tab = await context.newPage();
    const errors: string[] = [];
    tab.on("pageerror", (error) => errors.push(error.message));
    return { tab, errors };
  }

  async function open(tab: Tab, state: string): Promise<void> {
    await tab.goto(`${address}?state=${state}`);
    await until("the page is there", () => tab.evaluate(() => "fake" in globalThis));
  }

  test.each(SCREENS)(
    "are whole and can be reached ($name)",
    async (screen) => {
      const { tab, errors } = await tabOn(screen);
      await open(tab, "empty");
      const names = await tab.evaluate(() =>
        Object.keys(Reflect.get(Reflect.get(globalThis, "fake"), "states")),
      );
      expect(names).toEqual(STATES);
      for (const state of STATES) {
        await open(tab, state);
        if (state === "film") await tab.locator(".film-bar.ready").waitFor();
        if (/offline|draining/.test(state)) await tab.locator(".notice").waitFor();
        // A wait for a layout, not for luck: two frames after the last state came.
        await tab.evaluate(
          () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
        );
        expect(await tab.evaluate(faults, TOUCH), state).toEqual([]);
        expect(errors, state).toEqual([]);
      }
    },
    240_000,
  );

  const [desktop] = SCREENS;

  test("are walked through by keys, and give the focus back", async () => {
    const { tab } = await tabOn(desktop);
    await open(tab, "drawing");
    const focused = () =>
      tab.evaluate(
        () => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent,
      );
    await tab.keyboard.press("Tab");
    await shows(focused, "Menu");
    await tab.keyboard.press("Enter");
    await tab.keyboard.press("Tab");
    await shows(focused, "New board");
    await tab.keyboard.press("Escape");
    await shows(() => tab.locator(".menu").count(), 0);
    await shows(focused, "Menu");
    // A dialog that the menu opened: the item is gone by then.
    await tab.keyboard.press("Enter");
    await tab.getByRole("button", { name: "Recent boards…" }).press("Enter");
    await shows(() => tab.locator("dialog").getAttribute("aria-label"), "Recent boards");
    await tab.keyboard.press("Escape");
    await shows(() => tab.locator("dialog").count(), 0);
    await shows(focused, "Menu");

    await tab.keyboard.press("Tab");
    await shows(focused, "People: you and 5 others");
    await tab.keyboard.press("Tab");
    await tab.keyboard.press("Enter");
    await shows(() => tab.locator("dialog").getAttribute("aria-label"), "Draw together");
    await tab.keyboard.press("Escape");
    await shows(() => tab.locator("dialog").count(), 0);
    await shows(focused, "Share");

    await tab.keyboard.press("Tab");
    await shows(focused, "Pen");
    await tab.keyboard.press("ArrowRight");
    await shows(() => tab.locator("input[name=tool]:checked").getAttribute("aria-label"), "Highlighter");
  });

  test("obey shortcuts, but not while one types", async () => {
    const { tab } = await tabOn(desktop);
    await open(tab, "drawing");
    const tool = () => tab.locator("input[name=tool]:checked").getAttribute("aria-label");
    const colour = () => tab.locator("input[name=colour]:checked").getAttribute("aria-label");
    await tab.keyboard.press("e");
    await shows(tool, "Eraser");
    await tab.keyboard.press("2");
    await shows(tool, "Pen");
    await shows(colour, "Red");
    await tab.locator(".faces").click();
    await tab.getByLabel("Your name").fill("");
    await tab.getByLabel("Your name").pressSequentially("hep 123");
    await tab.keyboard.press("Enter");
    await shows(tool, "Pen");
    await shows(colour, "Red");
    await tab.keyboard.press("?");
    await shows(() => tab.locator("dialog").getAttribute("aria-label"), "Keyboard shortcuts");
  });

  test("say what is saved to eyes, and what is lost to ears", async () => {
    const { tab } = await tabOn(desktop);
    await open(tab, "drawing");
    const word = () => tab.locator(".status-word").textContent();
    await shows(word, "Saved");
    await tab.evaluate(() => Reflect.get(globalThis, "fake").client.setUnsent(2));
    await shows(word, "Live");
    await shows(word, "Saving…");
    await tab.evaluate(() =>
      Reflect.get(globalThis, "fake").client.setState({
        kind: "offline",
        why: "away",
        retryAt: Date.now() + 9_000,
        draining: false,
      }),
    );
    await shows(word, "Offline · 2 unsent");
    const said = () => tab.locator(".unseen[role=status]").textContent();
    await shows(said, "Offline. 2 changes unsent.");
    await tab.getByText("Try now").click();
    await shows(said, "Connected again.");
  });
});
