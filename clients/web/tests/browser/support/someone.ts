/** Someone at the board in Chromium, whose page must not complain of anything until the test is over. */
import { expect, onTestFinished } from "vitest";
import type { ChromiumBrowser, ChromiumPage } from "./chromium.ts";
import { watchFaults } from "./faults.ts";
import { openBoard, setView } from "./page.ts";

/** A page of someone new; `options` as in {@link ChromiumBrowser.person}. */
export async function someone(
  browser: ChromiumBrowser,
  options: Parameters<ChromiumBrowser["person"]>[0] = {},
): Promise<ChromiumPage> {
  const person = await browser.person(options);
  onTestFinished(() => person.close());
  const page = await person.page();
  const faults = await watchFaults(page);
  onTestFinished(() => expect(faults, "what the page complained of").toEqual([]));
  return page;
}

/** Someone whose board is live, and looks at the board's middle: the window's is the board's zero. */
export async function someoneAt(
  browser: ChromiumBrowser,
  server: string,
  room: string,
  options: Parameters<ChromiumBrowser["person"]>[0] = {},
): Promise<ChromiumPage> {
  const page = await someone(browser, options);
  await openBoard(page, server, room);
  await setView(page, { x: 0, y: 0, zoom: 1 });
  return page;
}
