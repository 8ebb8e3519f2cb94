/** Chromium, driven over its DevTools protocol: pens with pressure and tilt, many fingers, frozen and slow pages. */
import { type BrowserContext, type CDPSession, chromium, type Page as Tab } from "playwright-core";
import {
  type Browser,
  type Device,
  INSECURE_HOST,
  Page,
  type Person,
  type Step,
  type Tool,
  WINDOW,
} from "./browser.ts";
import { inTime } from "./wait.ts";

export const EXECUTABLE = "/usr/bin/chromium";
/** Input that is on its way at the same time. Each is answered when the page has taken it. */
const IN_FLIGHT = 64;
/** Lines of a page's console that are kept to say why something failed. */
const KEPT_LINES = 40;

/** A finger on the screen. */
export interface Finger {
  readonly id: number;
  readonly x: number;
  readonly y: number;
  /** Half the width of what touches, in CSS pixels; a palm has tens. */
  readonly radius?: number;
}

export interface Pen {
  readonly x: number;
  readonly y: number;
  /** 0 to 1. */
  readonly pressure?: number;
  /** Degrees. */
  readonly tiltX?: number;
  readonly tiltY?: number;
}

type Launched = Awaited<ReturnType<typeof chromium.launch>>;
type ContextOptions = NonNullable<Parameters<Launched["newContext"]>[0]>;

export async function startChromium(): Promise<ChromiumBrowser> {
  const browser = await chromium.launch({
    executablePath: EXECUTABLE,
    // Tests also run as root, in containers, where the sandbox cannot.
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      `--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`,
    ],
  });
  return new ChromiumBrowser(browser);
}

export class ChromiumBrowser implements Browser {
  readonly name = "chromium";
  readonly knowsInsecure = true;
  readonly tools = ["mouse", "pen"] as const;
  readonly #browser;
  constructor(browser: Awaited<ReturnType<typeof chromium.launch>>) {
    this.#browser = browser;
  }

  /** `options` as Playwright's contexts take them: another size, touch, dark, a slow screen. */
  async person({ ratio = 1, ...options }: ContextOptions & Device = {}): Promise<ChromiumPerson> {
    return new ChromiumPerson(await this.context({ deviceScaleFactor: ratio, ...options }));
  }

  /** A context with the tests' window. */
  context(options: ContextOptions) {
    return this.#browser.newContext({ viewport: WINDOW, deviceScaleFactor: 1, ...options });
  }

  /** The whole browser's own DevTools, for tracing. */
  devtools(): Promise<CDPSession> {
    return this.#browser.newBrowserCDPSession();
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

export class ChromiumPerson implements Person {
  constructor(
    /** For what only Playwright knows. */
    readonly context: BrowserContext,
  ) {}

  async page(): Promise<ChromiumPage> {
    const tab = await this.context.newPage();
    return new ChromiumPage(tab, await this.context.newCDPSession(tab));
  }

  /** Takes the network away from all pages, or gives it back. */
  async offline(is: boolean): Promise<void> {
    await this.context.setOffline(is);
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}

export class ChromiumPage extends Page {
  constructor(
    /** For what only Playwright knows. */
    readonly tab: Tab,
    /** For what only the DevTools protocol knows. */
    readonly devtools: CDPSession,
  ) {
    super();
    const keep = (line: string) => {
      this.#printed.push(line);
      if (this.#printed.length > KEPT_LINES) this.#printed.shift();
    };
    tab.on("console", (message) => keep(`${message.type()}: ${message.text()}`));
    tab.on("pageerror", (error) => keep(`uncaught: ${error.stack ?? error.message}`));
  }

  override get printed(): readonly string[] {
    return this.#printed;
  }

  async open(url: string): Promise<void> {
    await this.tab.goto(url, { waitUntil: "load" });
  }

  async reload(): Promise<void> {
    await this.tab.reload({ waitUntil: "load" });
  }

  async close(): Promise<void> {
    await this.tab.close({ runBeforeUnload: false });
  }

  async screenshot(): Promise<Uint8Array> {
    return this.tab.screenshot();
  }

  protected async run(script: string): Promise<unknown> {
    return this.tab.evaluate(script);
  }

  protected async pointer(tool: Tool, steps: readonly Step[]): Promise<void> {
    if (tool === "touch") return this.#finger(steps);
    const types = { move: "mouseMoved", down: "mousePressed", up: "mouseReleased" } as const;
    let isDown = this.#isDown;
    const events = steps.map(({ kind, x, y, pressure }) => {
      isDown = kind === "down" || (kind === "move" && isDown);
      const button: "left" | "none" = isDown || kind === "up" ? "left" : "none";
      const buttons = isDown ? 1 : 0;
      // As a real mouse: half while a button is down.
      const force = isDown ? (tool === "pen" ? pressure : 0.5) : 0;
      const clickCount = kind === "move" ? 0 : 1;
      return { type: types[kind], x, y, button, buttons, force, clickCount, pointerType: tool };
    });
    this.#isDown = isDown;
    for (let start = 0; start < events.length; start += IN_FLIGHT) {
      await Promise.all(
        events
          .slice(start, start + IN_FLIGHT)
          .map((event) => this.devtools.send("Input.dispatchMouseEvent", event)),
      );
    }
  }

  async press(...keys: readonly string[]): Promise<void> {
    await this.tab.keyboard.press(keys.join("+"));
  }

  #isDown = false;
  readonly #printed: string[] = [];

  async #finger(steps: readonly Step[]): Promise<void> {
    const types = { move: "move", down: "start", up: "end" } as const;
    for (const { kind, x, y } of steps) {
      if (kind === "move" && !this.#touches) continue;
      this.#touches = kind !== "up";
      await this.touch(types[kind], this.#touches ? [{ id: 1, x, y }] : []);
    }
  }

  #touches = false;

  /** A pen that touches, moves, lifts or hovers, with pressure and tilt. */
  async pen(type: "down" | "move" | "up" | "hover", at: Pen): Promise<void> {
    const types = {
      down: "mousePressed",
      move: "mouseMoved",
      up: "mouseReleased",
      hover: "mouseMoved",
    } as const;
    const touches = type === "down" || type === "move";
    await this.devtools.send("Input.dispatchMouseEvent", {
      type: types[type],
      x: at.x,
      y: at.y,
      button: type === "hover" ? "none" : "left",
      buttons: touches ? 1 : 0,
      clickCount: type === "down" || type === "up" ? 1 : 0,
      pointerType: "pen",
      force: touches ? (at.pressure ?? 0.5) : 0,
      tiltX: at.tiltX ?? 0,
      tiltY: at.tiltY ?? 0,
    });
  }

  /**
   * Fingers: all that are on the screen after this moment, for "start" and "move"; those that stay, for "end".
   * "cancel" takes all of them away, as the system does when it wants a gesture for itself.
   */
  async touch(type: "start" | "move" | "end" | "cancel", fingers: readonly Finger[] = []): Promise<void> {
    const types = { start: "touchStart", move: "touchMove", end: "touchEnd", cancel: "touchCancel" } as const;
    const touchPoints = fingers.map(({ id, x, y, radius = 5 }) => ({
      id,
      x,
      y,
      radiusX: radius,
      radiusY: radius,
    }));
    await this.devtools.send("Input.dispatchTouchEvent", { type: types[type], touchPoints });
  }

  /**
   * Stops all of the page's scripts, or lets them go on: as on a phone that sleeps, its connections stay open and what
   * arrives waits. The page is told nothing: Chromium freezes only pages that are hidden, and driven ones never are.
   * A test that wants `visibilitychange` or `pageshow` dispatches it.
   */
  async frozen(is: boolean): Promise<void> {
    if (!is) {
      await this.devtools.send("Debugger.resume");
      await this.devtools.send("Debugger.disable");
      return;
    }
    const stopped = new Promise<void>((resolve) => this.devtools.once("Debugger.paused", () => resolve()));
    await this.devtools.send("Debugger.enable");
    await this.devtools.send("Debugger.pause");
    // It stops at the next statement, and this is one. Its answer comes when the page goes on.
    this.devtools.send("Runtime.evaluate", { expression: "0" }).catch(() => {});
    await inTime("the page to stop", stopped);
  }

  /** Makes the processor that many times slower; 1 is its own speed. */
  async slow(times: number): Promise<void> {
    await this.devtools.send("Emulation.setCPUThrottlingRate", { rate: times });
  }
}
