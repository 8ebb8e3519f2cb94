/** The whole page against a relay: people, sharing, saving, the time-lapse, and what it does without a network. */
import { chromium, type Page as Tab } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { live, openBoard, ready, saved, shows, stateOf, unsent } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { until } from "./support/wait.ts";

/** A name that is no secure context, as an address in a local network is none. */
const PLAIN_HOST = "studio.local";

describe("the page", () => {
  let browser: ChromiumBrowser;
  let relay: Relay;
  beforeAll(async () => {
    browser = await startChromium();
    relay = await Relay.start();
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  async function someone(): Promise<ChromiumPage> {
    const person = await browser.person({ acceptDownloads: true });
    onTestFinished(() => person.close());
    return person.page();
  }

  async function menu(tab: Tab, item: string): Promise<void> {
    await tab.getByRole("button", { name: "Menu" }).click();
    await tab.getByRole("button", { name: item }).click();
  }

  const viewOf = (page: ChromiumPage) => page.evaluate(() => ({ ...globalThis.inkrelay.stage.view }));

  test("opens the front board at the bare address, and names what cannot be a board", async () => {
    const page = await someone();
    await page.open(relay.url);
    await live(page);
    expect(page.tab.url()).toBe(`${relay.url}/b/lobby`);
    expect(await page.tab.title()).toBe("Front board · Inkrelay");
    await page.open(`${relay.url}/b/.hidden`);
    await page.tab.getByRole("heading", { name: "No board can have this name" }).waitFor();
    await page.tab.getByRole("button", { name: "New board" }).click();
    await page.tab.waitForURL(/\/b\/[\w-]{22}$/);
    await live(page);
  });

  test("shows who is here, takes a new name, and follows", async () => {
    const [ada, ben] = [await someone(), await someone()];
    await openBoard(ada, relay.url, "people");
    await openBoard(ben, relay.url, "people");
    await ada.tab.getByRole("button", { name: /^People/ }).click();
    await ada.tab.getByLabel("Your name").fill("Ada");
    await ada.tab.keyboard.press("Enter");
    await ben.tab.getByRole("button", { name: "People: you and 1 other" }).click();
    await ben.tab.getByRole("button", { name: "Follow Ada" }).click();
    await ben.tab.getByText("Following Ada").waitFor();
    await ada.evaluate(() => globalThis.inkrelay.stage.setView({ x: 4_000, y: -3_000, zoom: 1 }));
    await ada.stroke([
      [300, 300],
      [360, 340],
      [420, 300],
    ]);
    await until("the view came after", async () => {
      const { x, y } = await viewOf(ben);
      return Math.abs(x - 4_000) < 700 && Math.abs(y + 3_000) < 600;
    });
    await ben.tab.locator(".pointer", { hasText: "Ada" }).waitFor();
    // To pan by oneself ends it.
    await ben.tab.mouse.move(500, 400);
    await ben.tab.mouse.wheel(0, 60);
    await ben.tab.getByText("Following Ada").waitFor({ state: "detached" });
    await ada.close();
    await ben.tab.getByRole("button", { name: "People: only you" }).waitFor();
  });

  test("clears only when told twice, and takes it back", async () => {
    const page = await someone();
    await openBoard(page, relay.url, "clear");
    await page.tab.getByText("Draw anywhere.").waitFor();
    await page.stroke([
      [300, 300],
      [400, 350],
    ]);
    await shows(page, 1);
    await page.tab.getByText("Draw anywhere.").waitFor({ state: "detached" });
    await menu(page.tab, "Clear board…");
    await page.tab.getByRole("button", { name: "Cancel" }).click();
    await shows(page, 1);
    await menu(page.tab, "Clear board…");
    await page.tab.locator("dialog").getByRole("button", { name: "Clear board" }).click();
    await shows(page, 0);
    await page.tab.locator(".toast").getByRole("button", { name: "Undo" }).click();
    await shows(page, 1);
  });

  test("is light or dark as chosen, and remembers", async () => {
    const page = await someone();
    await openBoard(page, relay.url, "theme");
    const themes = () =>
      page.evaluate(() => {
        const meta = document.querySelector<HTMLMetaElement>('meta[name="theme-color"]');
        return [document.documentElement.dataset.theme, globalThis.inkrelay.stage.theme, meta?.content];
      });
    expect(await themes()).toEqual(["light", "light", "#fdfcf8"]);
    await page.tab.getByRole("button", { name: "Menu" }).click();
    await page.tab.getByRole("radio", { name: "Dark" }).check();
    expect(await themes()).toEqual(["dark", "dark", "#1c1b19"]);
    await page.reload();
    await live(page);
    expect(await themes()).toEqual(["dark", "dark", "#1c1b19"]);
  });

  test("saves pictures of all ink", async () => {
    const page = await someone();
    await openBoard(page, relay.url, "garden");
    await menu(page.tab, "Save as PNG");
    await page.tab.getByText("Nothing to save yet.").waitFor();
    await page.stroke([
      [300, 300],
      [400, 350],
    ]);
    for (const [item, name, start] of [
      ["Save as PNG", "garden.png", "\u0089PNG"],
      ["Save as SVG", "garden.svg", "<svg"],
    ] as const) {
      const coming = page.tab.waitForEvent("download");
      await menu(page.tab, item);
      const download = await coming;
      expect(download.suggestedFilename()).toBe(name);
      const chunks: Buffer[] = [];
      for await (const chunk of await download.createReadStream()) chunks.push(chunk);
      expect(Buffer.concat(chunks).toString("latin1").slice(0, 200)).toContain(start);
    }
  });

  test("plays the board's time-lapse, and comes back to the board as it was", async () => {
    const page = await someone();
    await openBoard(page, relay.url, "film");
    for (let line = 0; line < 3; line++) {
      await page.stroke([
        [300, 200 + 80 * line],
        [420, 240 + 80 * line],
        [520, 200 + 80 * line],
      ]);
    }
    await saved(page);
    await page.evaluate(() => globalThis.inkrelay.stage.setView({ x: 11, y: 22, zoom: 1.5 }));
    await menu(page.tab, "Time-lapse");
    const slider = page.tab.getByRole("slider", { name: "Place in the time-lapse" });
    await slider.waitFor();
    expect(await page.tab.getByRole("toolbar").count()).toBe(0);
    await slider.fill("0");
    await page.tab.getByRole("button", { name: "Play" }).click();
    await page.tab.getByRole("button", { name: "Pause" }).click();
    await page.tab.getByRole("button", { name: "Done" }).click();
    await page.tab.getByRole("toolbar").waitFor();
    expect(await viewOf(page)).toEqual({ x: 11, y: 22, zoom: 1.5 });
    await page.stroke([
      [300, 500],
      [400, 520],
    ]);
    await shows(page, 4);
    await saved(page);
  });

  test("opens without a network, with what was not sent yet", async () => {
    const person = await browser.person();
    onTestFinished(() => person.close());
    const page = await person.page();
    await openBoard(page, relay.url, "offline");
    await until("the page is kept", () =>
      page.evaluate(async () => {
        const worker = await navigator.serviceWorker.ready;
        return worker.active?.state === "activated";
      }),
    );
    await person.offline(true);
    await until("it notices", async () => (await stateOf(page))?.kind === "offline");
    await page.stroke([
      [300, 300],
      [400, 350],
    ]);
    await page.tab.getByText(/1 change is kept on this device/).waitFor();
    await page.reload();
    await ready(page);
    await until("it shows unsent ink", async () => ((await unsent(page)) ?? 0) > 0);
    await shows(page, 1);
    await page.tab.getByText("Try now").waitFor();
    await person.offline(false);
    await page.tab.getByText("Try now").click();
    await live(page);
    await saved(page);
    await until("it says so", async () => (await page.tab.locator(".status-word").textContent()) === "Saved");
    await shows(page, 1);
  });

  test("lets viewers look around, and says why they cannot draw", async () => {
    const museum = await Relay.start({ flags: ["--role", "viewer"] });
    onTestFinished(() => museum.stop());
    const page = await someone();
    await openBoard(page, museum.url, "museum");
    await page.tab.getByText("View only: your link lets you watch.").waitFor();
    expect(await page.tab.getByRole("toolbar").count()).toBe(0);
    await page.stroke([
      [300, 300],
      [400, 350],
    ]);
    // A drag moves the board instead.
    const { x, y } = await viewOf(page);
    expect([x, y]).toEqual([-100, -50]);
    expect(await unsent(page)).toBe(0);
  });

  test("shares over plain http in a local network: a code, a link, a copy", async () => {
    const plain = await chromium.launch({
      executablePath: "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--disable-background-networking",
        `--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1, MAP elsewhere.example 127.0.0.1`,
      ],
    });
    onTestFinished(() => plain.close());
    const tab = await plain.newPage();
    // A website that has its own name lead here would be of this server's origin.
    const elsewhere = await tab.goto(`http://elsewhere.example:${relay.port}/b/plain`);
    expect([elsewhere?.status(), await elsewhere?.json()]).toMatchObject([403, { code: "origin_refused" }]);
    const address = `http://${PLAIN_HOST}:${relay.port}/b/plain`;
    const errors: string[] = [];
    tab.on("pageerror", (error) => errors.push(error.message));
    await tab.goto(address);
    await until("the board is live", () =>
      tab.evaluate(() => globalThis.inkrelay?.client?.state.kind === "live"),
    );
    expect(await tab.evaluate(() => globalThis.isSecureContext)).toBe(false);
    await tab.getByRole("button", { name: "Share" }).click();
    await tab.getByRole("img", { name: "QR code of the link" }).waitFor();
    expect(await tab.getByLabel("Link to this board").inputValue()).toBe(address);
    await tab.getByRole("button", { name: "Copy" }).click();
    await tab.getByRole("button", { name: "Copied" }).waitFor();
    await tab.getByRole("button", { name: "Done" }).click();
    await tab.getByRole("button", { name: "People: only you" }).click();
    await tab.getByLabel("Your name").fill("");
    await tab.keyboard.press("Control+V");
    expect(await tab.getByLabel("Your name").inputValue()).toBe(address);
    expect(errors).toEqual([]);
  });
});
