/** Firefox, driven over WebDriver BiDi. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { keyActions, pointerActions } from "./actions.ts";
import { Bidi, member, text } from "./bidi.ts";
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
import { Child } from "./child.ts";

const EXECUTABLE = "/usr/bin/firefox-esr";

/** Nothing that talks to the world, asks, or waits for a person. */
const PREFERENCES: Readonly<Record<string, boolean | number | string>> = {
  "app.normandy.enabled": false,
  "app.update.disabledForTesting": true,
  "browser.aboutwelcome.enabled": false,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.page": 0,
  "browser.tabs.warnOnClose": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "dom.disable_beforeunload": true,
  "dom.ipc.processPrelaunch.enabled": false,
  "extensions.update.enabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "network.dns.localDomains": INSECURE_HOST,
  "services.settings.server": "data:,",
  "toolkit.telemetry.enabled": false,
  "toolkit.telemetry.server": "data:,",
};

export async function startFirefox(): Promise<Browser> {
  const profile = await mkdtemp(join(tmpdir(), "inkrelay-firefox-"));
  const lines = Object.entries(PREFERENCES).map(([name, value]) => {
    return `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`;
  });
  await writeFile(join(profile, "user.js"), lines.join(""));
  const child = new Child(
    EXECUTABLE,
    ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"],
    {
      ...process.env,
      MOZ_HEADLESS_WIDTH: "1280",
      MOZ_HEADLESS_HEIGHT: "1024",
      MOZ_CRASHREPORTER_DISABLE: "1",
    },
  );
  try {
    const address = (await child.line(/WebDriver BiDi listening on (ws:\S+)/, 60_000))[1];
    const bidi = await Bidi.connect(`${address}/session`);
    await bidi.send("session.new", { capabilities: {} });
    return new FirefoxBrowser(child, bidi, profile);
  } catch (error) {
    await child.kill();
    throw error;
  }
}

class FirefoxBrowser implements Browser {
  readonly name = "firefox";
  readonly knowsInsecure = true;
  /** Its driver has no pen. */
  readonly tools = ["mouse", "touch"] as const;
  readonly #child: Child;
  readonly #bidi: Bidi;
  readonly #profile: string;
  constructor(child: Child, bidi: Bidi, profile: string) {
    this.#child = child;
    this.#bidi = bidi;
    this.#profile = profile;
  }

  async person({ ratio = 1 }: Device = {}): Promise<Person> {
    const created = await this.#bidi.send("browser.createUserContext", {});
    return new FirefoxPerson(this.#bidi, text(created, "userContext"), ratio);
  }

  async close(): Promise<void> {
    this.#bidi.close();
    await this.#child.end();
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 3 });
  }
}

class FirefoxPerson implements Person {
  readonly #bidi: Bidi;
  readonly #context: string;
  readonly #ratio: number;
  constructor(bidi: Bidi, context: string, ratio: number) {
    this.#bidi = bidi;
    this.#context = context;
    this.#ratio = ratio;
  }

  async page(): Promise<Page> {
    // A window of its own: a page in a tab behind another is not drawn.
    const created = await this.#bidi.send("browsingContext.create", {
      type: "window",
      userContext: this.#context,
    });
    const context = text(created, "context");
    await this.#bidi.send("browsingContext.setViewport", {
      context,
      viewport: WINDOW,
      devicePixelRatio: this.#ratio,
    });
    return new FirefoxPage(this.#bidi, context);
  }

  async offline(is: boolean): Promise<void> {
    const networkConditions = is ? { type: "offline" } : null;
    await this.#bidi.send("emulation.setNetworkConditions", {
      networkConditions,
      userContexts: [this.#context],
    });
  }

  async close(): Promise<void> {
    await this.#bidi.send("browser.removeUserContext", { userContext: this.#context });
  }
}

class FirefoxPage extends Page {
  readonly #bidi: Bidi;
  readonly #context: string;
  constructor(bidi: Bidi, context: string) {
    super();
    this.#bidi = bidi;
    this.#context = context;
  }

  async open(url: string): Promise<void> {
    await this.#bidi.send("browsingContext.navigate", { context: this.#context, url, wait: "complete" });
  }

  async reload(): Promise<void> {
    await this.#bidi.send("browsingContext.reload", { context: this.#context, wait: "complete" });
  }

  async close(): Promise<void> {
    await this.#bidi.send("browsingContext.close", { context: this.#context });
  }

  async screenshot(): Promise<Uint8Array> {
    const taken = await this.#bidi.send("browsingContext.captureScreenshot", { context: this.#context });
    return Buffer.from(text(taken, "data"), "base64");
  }

  protected async run(script: string): Promise<unknown> {
    // As JSON, since BiDi has its own way of writing values down.
    const answer = await this.#bidi.send("script.evaluate", {
      expression: `Promise.resolve(${script}).then((value) => JSON.stringify(value))`,
      target: { context: this.#context },
      awaitPromise: true,
    });
    if (member(answer, "type") === "exception") throw new Error(text(answer, "exceptionDetails", "text"));
    const json = member(answer, "result", "value");
    return typeof json === "string" ? JSON.parse(json) : undefined;
  }

  async press(...keys: readonly string[]): Promise<void> {
    await this.#bidi.send("input.performActions", { context: this.#context, actions: keyActions(keys) });
  }

  protected async pointer(tool: Tool, steps: readonly Step[]): Promise<void> {
    const actions = pointerActions(tool, steps, false);
    await this.#bidi.send("input.performActions", { context: this.#context, actions });
  }
}
