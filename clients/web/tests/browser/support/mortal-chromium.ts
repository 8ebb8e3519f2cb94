/** A Chromium that may be killed like any process, and started again over what it left on the disk. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { WINDOW } from "./browser.ts";
import { Child } from "./child.ts";
import { type ChromiumPage, ChromiumPerson, EXECUTABLE } from "./chromium.ts";

/** How long it may take to start, in milliseconds. */
const START_TIME = 60_000;

export class MortalChromium {
  readonly #folder: string;
  #child: Child;
  #browser: Browser;

  private constructor(folder: string, child: Child, browser: Browser) {
    this.#folder = folder;
    this.#child = child;
    this.#browser = browser;
  }

  static async start(): Promise<MortalChromium> {
    const folder = await mkdtemp(join(tmpdir(), "inkrelay-chromium-"));
    return new MortalChromium(folder, ...(await run(folder)));
  }

  async page(): Promise<ChromiumPage> {
    const [context] = this.#browser.contexts();
    if (context === undefined) throw new Error("a browser has a context of its own");
    const page = await new ChromiumPerson(context).page();
    await page.tab.setViewportSize(WINDOW);
    return page;
  }

  /** `kill -9`: nothing is written any more, no page is told. */
  async kill(): Promise<void> {
    await this.#child.kill();
    await this.#browser.close();
  }

  /** Starts again after it was killed, as somebody does who finds it gone. */
  async restart(): Promise<void> {
    [this.#child, this.#browser] = await run(this.#folder);
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

async function run(folder: string): Promise<[Child, Browser]> {
  const child = new Child(EXECUTABLE, [
    "--headless=new",
    // Tests also run as root, in containers, where the sandbox cannot.
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    `--user-data-dir=${folder}`,
    "about:blank",
  ]);
  try {
    const [, address = ""] = await child.line(/DevTools listening on (ws:\S+)/, START_TIME);
    return [child, await chromium.connectOverCDP(address)];
  } catch (error) {
    await child.kill();
    throw error;
  }
}
