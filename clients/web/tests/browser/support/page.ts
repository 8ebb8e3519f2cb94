/** The board in a page, asked through the page's own handle: what it has, what it shows, and whether all is stored. */

import type { Stage, View } from "../../../app/canvas/stage.ts";
import type { Client, State } from "../../../src/index.ts";
import type { Page } from "./browser.ts";
import { PATIENCE, until } from "./wait.ts";

declare global {
  /**
   * What the board leaves for tests and for the curious. It has no client while the outbox opens, and is itself
   * missing until the board's script runs: ask with `?.`.
   */
  var inkrelay: { readonly client: Client | null; readonly stage: Stage };
}

/** A stroke as plain data. */
export interface PlainStroke {
  readonly author: number;
  readonly number: number;
  readonly tool: number;
  readonly rgba: number;
  readonly width: number;
  readonly channels: number;
  readonly closed: boolean;
  /** x, y and the channels' values of each point; sixteenths of a CSS pixel. */
  readonly values: readonly number[];
}

/** What a stage shows, pixel by pixel. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue and alpha of each pixel, row by row. */
  readonly data: Uint8Array;
}

/** Opens a room's board, and waits until it is live. */
export async function openBoard(page: Page, server: string, room: string, within = PATIENCE): Promise<void> {
  await page.open(`${server}/b/${room}`);
  await live(page, within);
}

/** Waits until the board has a client, whatever the network does. */
export async function ready(page: Page, within = PATIENCE): Promise<void> {
  await until(
    "the board has its client",
    () => page.evaluate(() => (globalThis.inkrelay?.client ?? null) !== null),
    within,
  );
}

/** What the client says of its connection; `null` before there is one. */
export async function stateOf(page: Page): Promise<State | null> {
  return page.evaluate(() => globalThis.inkrelay?.client?.state ?? null);
}

/** Waits until the client is live. */
export async function live(page: Page, within = PATIENCE): Promise<void> {
  await until("the board is live", async () => (await stateOf(page))?.kind === "live", within);
}

/**
 * Waits until the client is live over a WebSocket. On a busy machine it may come by long poll first, with a handshake under
 * way; where that is held, Chromium keeps all later ones of that address waiting behind it.
 */
export async function liveByWebSocket(page: Page): Promise<void> {
  await until("the board is live over a WebSocket", async () => {
    const state = await stateOf(page);
    return state?.kind === "live" && state.transport === "websocket";
  });
}

/** How many draws the store is not known to have; `null` before there is a client. */
export async function unsent(page: Page): Promise<number | null> {
  return page.evaluate(() => globalThis.inkrelay?.client?.unsent ?? null);
}

/** The same as people count it: strokes, and what is no stroke. */
export async function unsentChanges(page: Page): Promise<number | null> {
  return page.evaluate(() => globalThis.inkrelay?.client?.unsentChanges ?? null);
}

/** Waits until everything is stored. */
export async function saved(page: Page, within = PATIENCE): Promise<void> {
  // What was drawn since the last frame becomes draws in the next, however long a loaded machine takes for it.
  await page.evaluate(async () => {
    // A hidden page has no frames, and hands on what was drawn when it is hidden.
    const hidden = new Promise((seen) => {
      if (document.visibilityState === "hidden") seen(null);
      else document.addEventListener("visibilitychange", seen, { once: true });
    });
    const frame = new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
    await Promise.race([frame, hidden]);
  });
  await until("all is saved", async () => (await unsent(page)) === 0, within);
}

/** The strokes that show, in the order in which they are painted. */
export async function strokes(page: Page): Promise<PlainStroke[]> {
  return page.evaluate(() => {
    const shown = globalThis.inkrelay?.client?.board.strokes() ?? [];
    return shown.map((stroke) => ({
      author: stroke.author,
      number: stroke.number,
      tool: stroke.style.tool,
      rgba: stroke.style.rgba,
      width: stroke.style.width,
      channels: stroke.channels,
      closed: stroke.closed,
      values: [...stroke.values],
    }));
  });
}

/** How many strokes show, and how many of them are whole. */
export async function counts(page: Page): Promise<{ shown: number; closed: number }> {
  return page.evaluate(() => {
    const shown = globalThis.inkrelay?.client?.board.strokes() ?? [];
    return { shown: shown.length, closed: shown.filter((stroke) => stroke.closed).length };
  });
}

/** Waits until so many strokes show, and all of them are whole. */
export async function shows(page: Page, count: number, within = PATIENCE): Promise<void> {
  let last = { shown: 0, closed: 0 };
  const look = async () => {
    last = await counts(page);
    return last.shown === count && last.closed === count;
  };
  await until(`the board shows ${count} whole strokes`, look, within).catch((error: Error) => {
    throw new Error(`${error.message}; it shows ${last.shown}, ${last.closed} of them whole`);
  });
}

/** Makes the window show that part of the board: the same in all windows that are compared. */
export async function setView(page: Page, view: View): Promise<void> {
  await page.evaluate(
    (x, y, zoom) => globalThis.inkrelay?.stage.setView({ x, y, zoom }),
    view.x,
    view.y,
    view.zoom,
  );
}

/** Waits until everything that shows is painted at full quality. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(() => globalThis.inkrelay?.stage.settled());
}

/** Presses a key, as far as the page's own shortcuts go: engines' drivers differ in their keyboards. */
export async function press(
  page: Page,
  key: string,
  held: { ctrl?: boolean; shift?: boolean } = {},
): Promise<void> {
  await page.evaluate(
    (key, ctrlKey, shiftKey) => {
      const options = { key, ctrlKey, shiftKey, bubbles: true, cancelable: true };
      for (const type of ["keydown", "keyup"]) document.body.dispatchEvent(new KeyboardEvent(type, options));
    },
    key,
    held.ctrl ?? false,
    held.shift ?? false,
  );
}

/**
 * How many pixels of the stage show ink at this moment. Unlike {@link pixels} it asks nothing of the stage, not even a
 * frame: what is seen here was painted by itself.
 */
export async function inkNow(page: Page): Promise<number> {
  return page.evaluate(() => {
    const all = document.createElement("canvas");
    const context = all.getContext("2d", { willReadFrequently: true });
    const canvases = [...document.querySelectorAll<HTMLCanvasElement>("#stage canvas")];
    const [first] = canvases;
    if (context === null || first === undefined) throw new Error("there is no stage");
    all.width = first.width;
    all.height = first.height;
    for (const canvas of canvases) if (canvas.width > 0 && canvas.height > 0) context.drawImage(canvas, 0, 0);
    const colours = new Uint32Array(context.getImageData(0, 0, all.width, all.height).data.buffer);
    return colours.reduce((count, colour) => count + (colour === colours[0] ? 0 : 1), 0);
  });
}

/** What the stage shows, as a text that is the same only for the same picture: too large ones are not sent about. */
export async function fingerprint(page: Page): Promise<string> {
  await settled(page);
  return page.evaluate(() => {
    const all = document.createElement("canvas");
    const context = all.getContext("2d", { willReadFrequently: true });
    const canvases = [...document.querySelectorAll<HTMLCanvasElement>("#stage canvas")];
    const [first] = canvases;
    if (context === null || first === undefined) throw new Error("there is no stage");
    all.width = first.width;
    all.height = first.height;
    for (const canvas of canvases) if (canvas.width > 0 && canvas.height > 0) context.drawImage(canvas, 0, 0);
    const colours = new Uint32Array(context.getImageData(0, 0, all.width, all.height).data.buffer);
    // Two sums of FNV's kind, each of its own beginning.
    const sums = [0x811c9dc5, 0x1234567];
    let inked = 0;
    for (const colour of colours) {
      if (colour !== colours[0]) inked += 1;
      for (const [at, sum] of sums.entries())
        sums[at] = Math.imul(sum ^ colour ^ (colour >>> 15), 0x01000193 + 2 * at);
    }
    return `${all.width}×${all.height}, ${inked} inked, ${sums.map((sum) => (sum >>> 0).toString(16)).join(" ")}`;
  });
}

/**
 * What the canvases inside an element show, laid over each other in the document's order. Of the whole page when no
 * selector is given. Painted and settled first.
 */
export async function pixels(page: Page, selector = "body"): Promise<Pixels> {
  await settled(page);
  const taken = await page.evaluate((selector) => {
    const canvases = [...document.querySelectorAll<HTMLCanvasElement>(`${selector} canvas`)];
    const width = Math.max(0, ...canvases.map((canvas) => canvas.width));
    const height = Math.max(0, ...canvases.map((canvas) => canvas.height));
    if (width === 0 || height === 0) throw new Error(`there is no canvas with pixels in ${selector}`);
    const all = document.createElement("canvas");
    all.width = width;
    all.height = height;
    const context = all.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("the browser has no canvas");
    for (const canvas of canvases) if (canvas.width > 0 && canvas.height > 0) context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    // As text, in parts that a call can take.
    let bytes = "";
    for (let start = 0; start < data.length; start += 8192) {
      bytes += String.fromCharCode(...data.subarray(start, start + 8192));
    }
    return { width, height, base64: btoa(bytes) };
  }, selector);
  return { width: taken.width, height: taken.height, data: Buffer.from(taken.base64, "base64") };
}

/** How two pictures differ; `null` when every pixel is the same. */
export function difference(one: Pixels, other: Pixels): string | null {
  if (one.width !== other.width || one.height !== other.height) {
    return `${one.width}×${one.height} and ${other.width}×${other.height} pixels`;
  }
  let [count, left, top, right, bottom] = [0, one.width, one.height, 0, 0];
  for (let at = 0; at < one.data.length; at += 4) {
    const isSame = [0, 1, 2, 3].every((byte) => one.data[at + byte] === other.data[at + byte]);
    if (isSame) continue;
    const [x, y] = [(at / 4) % one.width, Math.floor(at / 4 / one.width)];
    count += 1;
    [left, top, right, bottom] = [
      Math.min(left, x),
      Math.min(top, y),
      Math.max(right, x),
      Math.max(bottom, y),
    ];
  }
  return count === 0 ? null : `${count} pixels between ${left},${top} and ${right},${bottom}`;
}

/** How many pixels are of another colour than the one in the upper left corner. */
export function inked(picture: Pixels): number {
  let count = 0;
  for (let at = 0; at < picture.data.length; at += 4) {
    if ([0, 1, 2, 3].some((byte) => picture.data[at + byte] !== picture.data[byte])) count += 1;
  }
  return count;
}

/** Clicks the button that has this name, once there is one that can be clicked. */
export async function clickButton(page: Page, name: string, within = PATIENCE): Promise<void> {
  const place = await until(
    `there is a button "${name}"`,
    () =>
      page.evaluate((name) => {
        const named = (button: HTMLElement) =>
          (button.getAttribute("aria-label") ?? button.textContent ?? "").trim() === name;
        // What lies in an open dialog is all that can be clicked.
        const scope = document.querySelector("dialog[open]") ?? document;
        const button = [...scope.querySelectorAll<HTMLButtonElement>("button")].find(named);
        if (button === undefined || button.disabled) return false;
        const { left, top, width, height } = button.getBoundingClientRect();
        return width > 0 && ([Math.round(left + width / 2), Math.round(top + height / 2)] as const);
      }, name),
    within,
  );
  await page.click(...place);
}
