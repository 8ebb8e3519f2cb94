/** WebKitGTK, the nearest to Safari: driven by W3C WebDriver, on a display of its own. */
import { existsSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { keyActions, pointerActions } from "./actions.ts";
import { member, text } from "./bidi.ts";
import {
  type Browser,
  type Device,
  type Json,
  Page,
  type Person,
  type Step,
  type Tool,
  WINDOW,
} from "./browser.ts";
import { Child } from "./child.ts";
import { until } from "./wait.ts";

/** Looks in a row at which a window's size has to be the same: a tenth of a second and more. */
const STEADY_LOOKS = 6;
/** The size of the display, in pixels: windows lie above each other there, with two pixels per CSS pixel at most. */
const SCREEN = { width: 2400, height: 1800 } as const;
/**
 * On a graphics card, or what stands in for it, the same path painted twice may differ at its edge by a quarter of a
 * pixel's colour. Pictures that are compared are painted by the processor.
 */
const BROWSER_FLAGS = ["--automation", "--enable-2d-canvas-acceleration=false"] as const;
/** How long a command may take, in milliseconds. */
const COMMAND_TIME = 120_000;

export async function startWebKit(): Promise<Browser> {
  const display = new Child("Xvfb", [
    "-displayfd",
    "1",
    "-screen",
    "0",
    `${SCREEN.width}x${SCREEN.height}x24`,
    "-nolisten",
    "tcp",
  ]);
  const number = (await display.line(/^(\d+)$/))[1];
  return new WebKitBrowser(display, `:${number}`);
}

class WebKitBrowser implements Browser {
  readonly name = "webkit";
  readonly knowsInsecure = false;
  /** The pressure of its driver's pen is 1 where it goes down, and 0 behind that. */
  readonly tools = ["mouse", "pen"] as const;
  readonly #display: Child;
  readonly #name: string;
  readonly #people = new Set<WebKitPerson>();
  constructor(display: Child, name: string) {
    this.#display = display;
    this.#name = name;
  }

  /** A driver has one session, and a session one storage: each person is a browser of their own. */
  async person({ ratio = 1 }: Device = {}): Promise<Person> {
    const port = await freePort();
    const driver = new Child("WebKitWebDriver", [`--port=${port}`], {
      ...process.env,
      DISPLAY: this.#name,
      GDK_BACKEND: "x11",
      // Whole numbers only.
      GDK_SCALE: String(ratio),
      GTK_A11Y: "none",
      NO_AT_BRIDGE: "1",
      // Tests also run as root, in containers, where the sandbox cannot.
      WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1",
    });
    const person = await WebKitPerson.begin(driver, `http://127.0.0.1:${port}`);
    this.#people.add(person);
    return person;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#people].map((person) => person.close()));
    await this.#display.end();
  }
}

/** The browser that comes with the driver; its folder is named after the machine and the library's version. */
function miniBrowser(): string {
  for (const machine of readdirSync("/usr/lib")) {
    for (const version of ["4.1", "4.0"]) {
      const path = `/usr/lib/${machine}/webkit2gtk-${version}/MiniBrowser`;
      if (existsSync(path)) return path;
    }
  }
  throw new Error("webkit2gtk-driver is installed without its MiniBrowser");
}

/** A port that nobody listens on at this moment. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => {
        if (address === null || typeof address === "string") reject(new Error("no port"));
        else resolve(address.port);
      });
    });
  });
}

class WebKitPerson implements Person {
  readonly #driver: Child;
  readonly #session: string;
  /** The window that a session opens by itself. It stays: a session ends with its last window, and so does its storage. */
  readonly #firstWindow: string;
  /** The window that commands go to. */
  #window: string | null = null;
  /** Commands to a session come one after the other: the window that they are for is part of its state. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(driver: Child, session: string, firstWindow: string) {
    this.#driver = driver;
    this.#session = session;
    this.#firstWindow = firstWindow;
  }

  static async begin(driver: Child, url: string): Promise<WebKitPerson> {
    await until("WebKitWebDriver is ready", async () => {
      if (!driver.isRunning) throw new Error(`WebKitWebDriver ended early:\n${driver.said}`);
      const status = await fetch(`${url}/status`).catch(() => undefined);
      return status?.ok;
    });
    const browserOptions = { binary: miniBrowser(), args: BROWSER_FLAGS };
    const capabilities = { alwaysMatch: { "webkitgtk:browserOptions": browserOptions } };
    const opened = await request("POST", `${url}/session`, { capabilities });
    const session = `${url}/session/${text(opened, "sessionId")}`;
    const window = await request("GET", `${session}/window`);
    return new WebKitPerson(driver, session, text({ window }, "window"));
  }

  async page(): Promise<Page> {
    // From the window that surely is there: the one of the last command may have been closed.
    const opened = await this.command(this.#firstWindow, "POST", "/window/new", { type: "window" });
    const window = text(opened, "handle");
    const page = new WebKitPage(this, window);
    await page.fit();
    return page;
  }

  /** Runs a command of one window. */
  command(window: string, method: string, path: string, body?: Json): Promise<unknown> {
    return this.#inTurn(async () => {
      if (this.#window !== window) {
        await request("POST", `${this.#session}/window`, { handle: window });
        this.#window = window;
      }
      return request(method, `${this.#session}${path}`, body);
    });
  }

  async close(): Promise<void> {
    if (!this.#driver.isRunning) return;
    // The browser ends with its session; a driver that is killed first would leave it behind.
    await this.#inTurn(() => request("DELETE", this.#session)).catch(() => {});
    await this.#driver.end();
  }

  #inTurn<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#last.then(call);
    this.#last = result.catch(() => {});
    return result;
  }
}

class WebKitPage extends Page {
  readonly #person: WebKitPerson;
  readonly #window: string;
  constructor(person: WebKitPerson, window: string) {
    super();
    this.#person = person;
    this.#window = window;
  }

  /** Gives the window the size at which the page has that of all other windows: bars come on top. */
  async fit(): Promise<void> {
    // A window takes its size when it gets round to it: only what has stayed for some looks is an answer.
    let asked: { width: number; height: number } = { ...WINDOW };
    let [seen, looks] = ["", 0];
    await this.#command("POST", "/window/rect", { x: 0, y: 0, ...asked });
    await until("the window has its size", async () => {
      const [width, height] = await this.evaluate(() => [window.innerWidth, window.innerHeight]);
      if (width === undefined || height === undefined) return undefined;
      looks = seen === `${width} ${height}` ? looks + 1 : 0;
      seen = `${width} ${height}`;
      if (looks < STEADY_LOOKS) return false;
      if (width === WINDOW.width && height === WINDOW.height) return true;
      asked = { width: asked.width + WINDOW.width - width, height: asked.height + WINDOW.height - height };
      looks = 0;
      await this.#command("POST", "/window/rect", { x: 0, y: 0, ...asked });
      return false;
    });
  }

  async open(url: string): Promise<void> {
    await this.#command("POST", "/url", { url });
  }

  async reload(): Promise<void> {
    await this.#command("POST", "/refresh", {});
  }

  async close(): Promise<void> {
    await this.#command("DELETE", "/window");
  }

  async screenshot(): Promise<Uint8Array> {
    const png = await this.#command("GET", "/screenshot");
    return Buffer.from(text({ png }, "png"), "base64");
  }

  protected async run(script: string): Promise<unknown> {
    const wrapped = `const done = arguments[0];
      Promise.resolve().then(() => ${script}).then(
        (value) => done({ json: JSON.stringify(value) }),
        (error) => done({ error: String(error) }),
      );`;
    const answer = await this.#command("POST", "/execute/async", { script: wrapped, args: [] });
    const error = member(answer, "error");
    if (error !== undefined) throw new Error(String(error));
    const json = member(answer, "json");
    return typeof json === "string" ? JSON.parse(json) : undefined;
  }

  async press(...keys: readonly string[]): Promise<void> {
    await this.#command("POST", "/actions", { actions: keyActions(keys) });
  }

  protected async pointer(tool: Tool, steps: readonly Step[]): Promise<void> {
    await this.#command("POST", "/actions", { actions: pointerActions(tool, steps, true) });
  }

  #command(method: string, path: string, body?: Json): Promise<unknown> {
    return this.#person.command(this.#window, method, path, body);
  }
}

async function request(method: string, url: string, body?: Json): Promise<unknown> {
  const response = await fetch(url, {
    method,
    signal: AbortSignal.timeout(COMMAND_TIME),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  const value = member(answer, "value");
  if (!response.ok) {
    throw new Error(
      `${method} ${new URL(url).pathname}: ${member(value, "error")}: ${member(value, "message")}`,
    );
  }
  return value;
}
