/** What comes alone: one draw over HTTP, and nothing else happens. It shows without anybody touching anything. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Browser, Page } from "./support/browser.ts";
import { ENGINES } from "./support/engines.ts";
import { fingerprint, inkNow, openBoard, setView, strokes } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { sleep, until } from "./support/wait.ts";

/** How long nothing must happen before something comes alone, in milliseconds: longer than what a stroke takes to grow. */
const QUIET = 400;
/** After that long a stroke that does not grow is painted with the finished ones. */
const RESTED = 1700;
const STYLE = [0, 0x1d1d22ff, 96] as const;

/** Someone with `curl`: draws of a session, or of nobody. */
class Poster {
  readonly #url: string;
  readonly client: number;
  readonly #ticket: string | null;
  #n = 0;
  private constructor(url: string, client: number, ticket: string | null) {
    this.#url = url;
    this.client = client;
    this.#ticket = ticket;
  }

  static nobody(relay: Relay, room: string): Poster {
    return new Poster(`${relay.url}/v1/rooms/${room}`, 0, null);
  }

  static async session(relay: Relay, room: string): Promise<Poster> {
    const url = `${relay.url}/v1/rooms/${room}`;
    const answer = await fetch(`${url}/sessions`, { method: "POST" });
    const opened: unknown = await answer.json();
    if (typeof opened !== "object" || opened === null || !("client" in opened && "ticket" in opened)) {
      throw new Error(`no session: ${JSON.stringify(opened)}`);
    }
    return new Poster(url, Number(opened.client), String(opened.ticket));
  }

  /** Posts one draw, and returns its number. */
  async draw(draw: unknown): Promise<number> {
    this.#n += 1;
    const ticket =
      this.#ticket === null ? {} : { "inkrelay-ticket": this.#ticket, "inkrelay-n": String(this.#n) };
    const answer = await fetch(`${this.#url}/draws`, {
      method: "POST",
      headers: { "content-type": "application/json", ...ticket },
      body: JSON.stringify([draw]),
    });
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
    return this.#n;
  }
}

/** A whole stroke across the middle of the board, at that height. */
function stroke(number: number, y: number, channels = 0): unknown {
  const points = Array.from({ length: 20 }, (_, at) =>
    at === 0 ? [-3200, y * 16] : [320, at % 2 ? 160 : -160],
  );
  const values = channels === 0 ? points.flat() : points.flatMap((point) => [...point, 200]);
  return [0, number, STYLE, channels, values, true];
}

describe.each(ENGINES)("$name", ({ start }) => {
  let browser: Browser;
  let relay: Relay;
  beforeAll(async () => {
    relay = await Relay.start();
    browser = await start();
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  async function watcher(room: string): Promise<Page> {
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, relay.url, room);
    await setView(page, { x: 0, y: 0, zoom: 1 });
    return page;
  }

  /** Waits until the page shows another amount of ink, by itself, and that stays. */
  async function becomes(page: Page, what: string, isSo: (inked: number) => boolean): Promise<number> {
    let last = -1;
    await until(`${what} shows by itself`, async () => {
      last = await inkNow(page);
      return isSo(last);
    }).catch((error: Error) => {
      throw new Error(`${error.message}; ${last} pixels are inked`);
    });
    await sleep(QUIET);
    const stays = await inkNow(page);
    expect(isSo(stays)).toBe(true);
    return stays;
  }

  test("a stroke of nobody's, an erase, an undo, a clear: each is painted without a touch", async () => {
    const page = await watcher("alone");
    await sleep(QUIET);
    expect(await inkNow(page)).toBe(0);

    await Poster.nobody(relay, "alone").draw(stroke(0, -100));
    const one = await becomes(page, "a stroke", (inked) => inked > 1000);
    const [{ number = 0 } = {}] = await strokes(page);

    const ada = await Poster.session(relay, "alone");
    await ada.draw(stroke(1, 100, 1));
    const two = await becomes(page, "a second stroke", (inked) => inked > one + 1000);

    const erase = await ada.draw([2, [[0, number]]]);
    const left = await becomes(page, "an erase", (inked) => inked > 0 && inked < two - 500);
    const revoke = await ada.draw([3, [[ada.client, erase]]]);
    await becomes(page, "an undo", (inked) => inked === two);
    await ada.draw([3, [[ada.client, revoke]]]);
    await becomes(page, "a redo", (inked) => inked === left);
    const clear = await ada.draw([4]);
    await becomes(page, "a clear", (inked) => inked === 0);
    await ada.draw([3, [[ada.client, clear]]]);
    await becomes(page, "an undone clear", (inked) => inked === left);

    const late = await watcher("alone");
    expect(await fingerprint(late)).toBe(await fingerprint(page));
  });

  test("a stroke that somebody left unfinished stays, and one that goes on over it grows", async () => {
    const page = await watcher("unfinished");
    const ada = await Poster.session(relay, "unfinished");
    await ada.draw([0, 1, STYLE, 0, [-3200, 0, 1600, 0], false]);
    const begun = await becomes(page, "its beginning", (inked) => inked > 300);
    await sleep(RESTED);
    await ada.draw([1, 1, [1600, 160], false]);
    const grown = await becomes(page, "its next part", (inked) => inked > begun + 300);
    await sleep(RESTED);
    // On a layer of its own, the faintest of its edge were rounded otherwise.
    const rested = await inkNow(page);
    expect(Math.abs(rested - grown)).toBeLessThan(20);
    await ada.draw([1, 1, [], true]);
    await sleep(QUIET);
    expect(await inkNow(page)).toBe(rested);
  });
});
