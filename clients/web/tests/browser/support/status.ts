/** The status line, watched: every word that it said, with what was true at that moment. */
import type { State } from "../../../src/index.ts";
import type { Page } from "./browser.ts";

/** What people were told, and what the client knew. */
export interface Said {
  /** As of `Date.now()`. */
  readonly at: number;
  readonly word: string;
  readonly unsent: number;
  readonly kind: State["kind"] | null;
}

declare global {
  var said: Said[];
}

/** Writes down the status word of this page whenever it changes, and several times a second. Ends with the page. */
export async function watchStatus(page: Page): Promise<void> {
  await page.evaluate(() => {
    globalThis.said = [];
    const look = () => {
      const client = globalThis.inkrelay?.client ?? null;
      const word = document.querySelector(".status-word")?.textContent ?? "";
      globalThis.said.push({
        at: Date.now(),
        word,
        unsent: client?.unsent ?? 0,
        kind: client?.state.kind ?? null,
      });
    };
    new MutationObserver(look).observe(document.body, {
      subtree: true,
      childList: true,
      characterData: true,
    });
    setInterval(look, 50);
  });
}

export function saidBy(page: Page): Promise<Said[]> {
  return page.evaluate(() => globalThis.said);
}

/** The word that shows now. */
export function wordOf(page: Page): Promise<string> {
  return page.evaluate(() => document.querySelector(".status-word")?.textContent ?? "");
}
