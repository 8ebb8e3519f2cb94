/** A browser as tests see it, whichever engine it is: people, their pages, and what a hand does there. */

import { until } from "./wait.ts";

/** A place in the window, in CSS pixels from its upper left corner, and the pressure from 0 to 1 where a pen has it. */
export type Point = readonly [x: number, y: number, pressure?: number];

/** What a hand holds. */
export type Tool = "mouse" | "pen" | "touch";

/** The size of every window, in CSS pixels. One screen pixel each, where a test wants no others. */
export const WINDOW = { width: 1024, height: 768 } as const;

/**
 * A name for loopback that is none of a browser's own: over plain http its pages have no secure context, like those of
 * a relay in the local network. See {@link Browser.knowsInsecure}.
 */
export const INSECURE_HOST = "board.local";

/** Points that are handed to a browser at once. Some take a whole stroke, others refuse messages beyond a size. */
export const BATCH_POINTS = 200;

export interface StrokeOptions {
  readonly tool?: Tool;
  /** Called between batches of {@link BATCH_POINTS}, and within a stroke: where networks fail. */
  readonly between?: () => Promise<void>;
  /** Points at once, instead of {@link BATCH_POINTS}. */
  readonly batch?: number;
}

/** What can be written in JSON, and so goes into a page and comes back. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined };

/** What someone's device is like. */
export interface Device {
  /** Device pixels per CSS pixel. */
  readonly ratio?: number;
}

/** One engine. */
export interface Browser {
  readonly name: "chromium" | "firefox" | "webkit";
  /** Whether {@link INSECURE_HOST} leads anywhere. */
  readonly knowsInsecure: boolean;
  /** What it can be made to draw with. */
  readonly tools: readonly Tool[];
  /** Someone with a device of their own: nothing is shared with other people's storage. */
  person(device?: Device): Promise<Person>;
  close(): Promise<void>;
}

/** Someone with a device. */
export interface Person {
  /** A new window or tab of that person. */
  page(): Promise<Page>;
  /** Takes the network away from all of this person's pages, or gives it back, where the driver
   * can. Sockets that are open differ: Chromium stalls them, Firefox leaves them alone. A `ProxyServer` cuts them. */
  offline?(is: boolean): Promise<void>;
  /** Ends all of this person's pages. */
  close(): Promise<void>;
}

/** One page. */
export abstract class Page {
  /** Goes to an address, and waits until it is loaded. */
  abstract open(url: string): Promise<void>;
  abstract reload(): Promise<void>;
  /** Closes the tab, as a person does. */
  abstract close(): Promise<void>;
  /** What the window shows, as a PNG. */
  abstract screenshot(): Promise<Uint8Array>;
  /** What a script's last expression is, awaited if it is a promise. Throws what the page throws. */
  protected abstract run(script: string): Promise<unknown>;
  protected abstract pointer(tool: Tool, steps: readonly Step[]): Promise<void>;
  /** Presses keys one after the other, and lets them go: characters, or names of {@link NAMED_KEYS}. */
  abstract press(...keys: readonly string[]): Promise<void>;

  /**
   * Calls a function in the page. It is sent as text: it sees its arguments and the page's globals, and nothing of
   * the file that it stands in. What it returns has to be JSON.
   */
  async evaluate<A extends readonly Json[], T>(call: (...args: A) => T, ...args: A): Promise<Awaited<T>> {
    const answer = await this.run(`(${call})(...${JSON.stringify(args)})`);
    // What comes back is what the function returned, but for what JSON cannot tell.
    return answer as Awaited<T>;
  }

  /** The newest lines of the page's console, where the driver tells them. */
  get printed(): readonly string[] {
    return [];
  }

  /** Moves the pointer there, goes down, follows the points, and goes up: real input of the browser. */
  async stroke(points: readonly Point[], options: StrokeOptions = {}): Promise<void> {
    const { tool = "mouse", between, batch = BATCH_POINTS } = options;
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined) throw new Error("a stroke has a point");
    const at = ([x, y, pressure = 0.5]: Point) => ({ x, y, pressure });
    const lifted = await this.#lifted();
    await this.pointer(tool, [
      { kind: "move", ...at(first), pressure: 0 },
      { kind: "down", ...at(first) },
    ]);
    for (let start = 1; start < points.length; start += batch) {
      if (start > 1) await between?.();
      await this.pointer(
        tool,
        points.slice(start, start + batch).map((point): Step => ({ kind: "move", ...at(point) })),
      );
    }
    await this.pointer(tool, [{ kind: "up", ...at(last) }]);
    // Drivers may be done sooner than a page on a loaded machine, and what is asked of it then comes before the last points.
    await until(
      "the page has seen the pointer lifted, or is gone",
      async () => (await this.#lifted()) !== lifted,
    );
  }

  /** How often a pointer was lifted in this page, as far as the page has come; `null` where it is gone. */
  #lifted(): Promise<number | null> {
    const count = () => {
      const page = globalThis as typeof globalThis & { lifted?: number };
      if (page.lifted === undefined) {
        page.lifted = 0;
        const add = () => {
          page.lifted = (page.lifted ?? 0) + 1;
        };
        for (const name of ["pointerup", "pointercancel"]) addEventListener(name, add, true);
      }
      return page.lifted;
    };
    return this.evaluate(count).catch(() => null);
  }

  /** Moves the pointer without touching. */
  async hover(points: readonly Point[], tool: Tool = "mouse"): Promise<void> {
    await this.pointer(
      tool,
      points.map(([x, y]): Step => ({ kind: "move", x, y, pressure: 0 })),
    );
  }

  /** Clicks or taps somewhere. */
  async click(x: number, y: number): Promise<void> {
    await this.stroke([[x, y]]);
  }
}

/** Keys that have no character, by the names that pages are told; and the characters that WebDriver has for them. */
export const NAMED_KEYS: Readonly<Record<string, string>> = {
  Control: "\uE009",
  Shift: "\uE008",
  Enter: "\uE007",
  Escape: "\uE00C",
};

/** One step of a pointer. */
export interface Step {
  readonly kind: "move" | "down" | "up";
  readonly x: number;
  readonly y: number;
  /** 0 to 1. Engines that cannot be told one make up their own. */
  readonly pressure: number;
}
