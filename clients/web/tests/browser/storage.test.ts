/** The storage in real browsers: reloads, crashes and second tabs, also where the context is not secure. */
import { createServer, type Server } from "node:http";
import { chromium } from "playwright-core";
import { launch } from "puppeteer-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";

/** What both drivers' pages can do. */
interface Tab {
  goto(url: string): Promise<unknown>;
  reload(): Promise<unknown>;
  close(): Promise<void>;
  evaluate(expression: string): Promise<unknown>;
}

interface Browser {
  newPage(): Promise<Tab>;
  close(): Promise<void>;
}

let server: Server;
let port = 0;

beforeAll(async () => {
  const built = await build({
    ...{ configFile: false, logLevel: "error" },
    build: {
      ...{ write: false, minify: false },
      lib: { entry: new URL("storage-page.ts", import.meta.url).pathname, formats: ["es"] },
    },
  });
  const [output] = Array.isArray(built) ? built : [built];
  const code = output && "output" in output ? output.output[0].code : "";
  server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? code : '<!doctype html><script type="module" src="/page.js"></script>');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  port = address.port;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** Opens a context in which pages of one origin share their storage, as a browser's tabs do. */
const browsers: Record<string, { host: string; open: () => Promise<Browser> }> = {
  Chromium: {
    // Not loopback by name: a page from the local network, without a secure context.
    host: "board.test",
    async open() {
      const browser = await chromium.launch({
        executablePath: "/usr/bin/chromium",
        args: [
          "--no-sandbox",
          "--disable-background-networking",
          "--host-resolver-rules=MAP board.test 127.0.0.1",
        ],
      });
      const context = await browser.newContext();
      return { newPage: () => context.newPage(), close: () => browser.close() };
    },
  },
  Firefox: {
    host: "127.0.0.1",
    open: () => launch({ browser: "firefox", executablePath: "/usr/bin/firefox-esr" }),
  },
};

const ask = (tab: Tab, expression: string) =>
  tab.evaluate(`window.opened.then((page) => page.${expression})`);

async function sendable(tab: Tab, count: number): Promise<void> {
  await expect.poll(() => ask(tab, "sendable()"), { timeout: 20_000 }).toBe(count);
}

test.each(Object.entries(browsers))("%s", async (name, { host, open }) => {
  const url = `http://${host}:${port}/`;
  const browser = await open();
  try {
    const tab = await browser.newPage();
    await tab.goto(url);
    expect(await ask(tab, "found")).toEqual({ client: null, draws: 0 });
    expect(await ask(tab, "durable()")).toBe(true);
    if (name === "Chromium") expect(await ask(tab, "isSecure")).toBe(false);
    await ask(tab, "draw(7, 300)");
    await sendable(tab, 300);

    // A reload has the identity at once, and all that was saved; and it took the word out.
    await tab.reload();
    expect(await ask(tab, "found")).toEqual({ client: 7, draws: 300 });
    expect(await tab.evaluate("sessionStorage.length")).toBe(0);
    await ask(tab, "draw(7, 20)");
    await tab.reload();
    const { client, draws } = Object(await ask(tab, "found"));
    expect(client).toBe(7);
    expect(draws === 300 || draws === 320).toBe(true);

    // A second tab has another, and takes over only what is free.
    const second = await browser.newPage();
    await second.goto(url);
    expect(await ask(second, "found")).toEqual({ client: null, draws: 0 });
    expect(await ask(second, "orphan()")).toBeNull();
    await ask(second, "draw(8, 5)");
    await sendable(second, 5);

    // A tab that came to nothing is an orphan when its lease is over, and a frozen one that comes back finds it gone.
    const later = await browser.newPage();
    await later.goto(`${url}?skew=300000`);
    const mine = Object(await ask(later, "found"));
    const orphan = Object(await ask(later, "orphan()"));
    expect([mine.client, orphan.client].sort()).toEqual([7, 8]);
    await expect.poll(() => ask(tab, "taken()"), { timeout: 20_000 }).toBe(true);
    await expect.poll(() => ask(second, "taken()"), { timeout: 20_000 }).toBe(true);
    expect(await ask(tab, "durable()")).toBe(true);
  } finally {
    await browser.close();
  }
});
