/** People on the real board: who is here, where they point, whom one follows, and how others are invited. */
import { decodeQR } from "qr/decode.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { INSECURE_HOST } from "./support/browser.ts";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { live, openBoard, saved, setView, shows } from "./support/page.ts";
import { Relay } from "./support/relay.ts";
import { someone, someoneAt } from "./support/someone.ts";
import { until } from "./support/wait.ts";

describe("people", () => {
  let browser: ChromiumBrowser;
  let relay: Relay;
  beforeAll(async () => {
    [browser, relay] = await Promise.all([startChromium(), Relay.start()]);
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
  });

  const viewOf = (page: ChromiumPage) => page.evaluate(() => ({ ...globalThis.inkrelay.stage.view }));

  async function rename(page: ChromiumPage, name: string): Promise<void> {
    await page.tab.getByRole("button", { name: /^People/ }).click();
    await page.tab.getByLabel("Your name").fill(name);
    await page.tab.keyboard.press("Enter");
    await page.tab.getByLabel("Your name").waitFor({ state: "detached" });
  }

  test("a name reaches everyone at once, stays over a reload, and goes when its owner goes", async () => {
    const [ada, ben] = [
      await someoneAt(browser, relay.url, "names"),
      await someoneAt(browser, relay.url, "names"),
    ];
    await ben.tab.getByRole("button", { name: "People: you and 1 other" }).click();
    // A name is text, whatever it looks like.
    await rename(ada, "<b>Ada</b> 🖊");
    await ben.tab.locator(".people").getByText("<b>Ada</b> 🖊").waitFor();
    await ada.reload();
    await live(ada);
    await ben.tab.locator(".people").getByText("<b>Ada</b> 🖊").waitFor();
    expect(await ben.tab.locator(".people li").count()).toBe(1);
    await ada.tab.getByRole("button", { name: /^People/ }).click();
    await ada.tab.getByRole("radio", { name: "Teal" }).check({ force: true });
    await until("the colour changed", () =>
      ben.evaluate(() => globalThis.inkrelay.client?.participants.some(({ rgba }) => rgba === 0x0b7285ff)),
    );
    await ada.close();
    await ben.tab.getByText("Nobody else is here yet.").waitFor();
  });

  test("pointers of others show where they are, on the board and not on the screen", async () => {
    const [ada, ben] = [
      await someoneAt(browser, relay.url, "pointers"),
      await someoneAt(browser, relay.url, "pointers"),
    ];
    await rename(ada, "Ada");
    await setView(ben, { x: 100, y: 0, zoom: 2 });
    await ada.hover([
      [400, 300],
      [612, 384],
    ]);
    const place = () =>
      ben.evaluate(() => {
        const mark = [...document.querySelectorAll<HTMLElement>(".pointer")].find(
          (one) => one.textContent === "Ada",
        );
        return mark === undefined ? null : new DOMMatrix(getComputedStyle(mark).transform).toJSON();
      });
    // The board's 100, 0, which is the middle of Ben's window.
    await until("it is in the middle", async () => {
      const at = await place();
      return at !== null && Math.hypot(at.m41 - 512, at.m42 - 384) < 1;
    });
    await setView(ben, { x: 0, y: 0, zoom: 1 });
    await until("it stays on the board", async () => {
      const at = await place();
      return at !== null && Math.hypot(at.m41 - 612, at.m42 - 384) < 1;
    });
    await ada.close();
    await until("it is gone", async () => (await place()) === null);
  });

  test("the view goes after whom one follows, until one moves it by hand or by keys", async () => {
    const [ada, ben] = [
      await someoneAt(browser, relay.url, "follow"),
      await someoneAt(browser, relay.url, "follow"),
    ];
    await rename(ada, "Ada");
    const follow = async () => {
      await ben.tab.getByRole("button", { name: /^People/ }).click();
      await ben.tab.getByRole("button", { name: "Follow Ada" }).click();
      await ben.tab.getByText("Following Ada").waitFor();
    };
    const goTo = async (x: number, y: number) => {
      await setView(ada, { x, y, zoom: 1 });
      await ada.hover([
        [500, 380],
        [512, 384],
      ]);
      await until(`Ben looks near ${x}, ${y}`, async () => {
        const view = await viewOf(ben);
        return Math.abs(view.x - x) < 512 && Math.abs(view.y - y) < 384;
      });
    };
    await follow();
    await goTo(3_000, 0);
    await goTo(3_000, -2_000);
    await ben.tab.keyboard.press("ArrowLeft");
    await ben.tab.getByText("Following Ada").waitFor({ state: "detached" });
    const still = await viewOf(ben);
    await setView(ada, { x: 0, y: 0, zoom: 1 });
    await ada.stroke([
      [400, 300],
      [450, 320],
    ]);
    await shows(ben, 1);
    expect(await viewOf(ben)).toEqual(still);

    await follow();
    await goTo(-900, 900);
    await ben.tab.keyboard.down("Space");
    await ben.stroke([
      [500, 400],
      [540, 420],
    ]);
    await ben.tab.keyboard.up("Space");
    await ben.tab.getByText("Following Ada").waitFor({ state: "detached" });
    await follow();
    await ben.tab.getByRole("button", { name: "Stop" }).click();
    await ben.tab.getByText("Following Ada").waitFor({ state: "detached" });
    await saved(ada);
  });

  test("the code and the link lead here, and are copied without a clipboard API, over plain http", async () => {
    const page = await someone(browser);
    const { tab } = page;
    const address = `http://${INSECURE_HOST}:${relay.port}`;
    await openBoard(page, address, "invite");
    expect(await page.evaluate(() => [isSecureContext, "clipboard" in navigator])).toEqual([false, false]);
    await tab.getByRole("button", { name: "Share" }).click();
    const link = `${address}/b/invite`;
    expect(await tab.getByLabel("Link to this board").inputValue()).toBe(link);

    const code = await tab.getByRole("img", { name: "QR code of the link" }).screenshot();
    const image = await page.evaluate(async (base64) => {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      const picture = await createImageBitmap(new Blob([bytes]));
      const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
      if (context === null) throw new Error("the browser has no canvas");
      context.drawImage(picture, 0, 0);
      const { data, width, height } = context.getImageData(0, 0, picture.width, picture.height);
      return { data: [...data], width, height };
    }, code.toString("base64"));
    expect(decodeQR({ ...image, data: Uint8Array.from(image.data) })).toBe(link);

    await tab.getByRole("button", { name: "Copy" }).click();
    await tab.getByRole("button", { name: "Copied" }).waitFor();
    await tab.getByRole("button", { name: "Done" }).click();
    await tab.getByRole("button", { name: /^People/ }).click();
    await tab.getByLabel("Your name").fill("");
    await page.press("Control", "v");
    expect(await tab.getByLabel("Your name").inputValue()).toBe(link);
    // Who opens the link is on the same board.
    await tab.keyboard.press("Escape");
    const guest = await someone(browser);
    await guest.open(link);
    await live(guest);
    await tab.getByRole("button", { name: "People: you and 1 other" }).waitFor();
  });

  test("new boards are new, and where one has been is remembered until one forgets it", async () => {
    const page = await someoneAt(browser, relay.url, "first-board");
    const { tab } = page;
    await page.stroke([
      [300, 300],
      [400, 300],
    ]);
    await saved(page);
    await tab.getByRole("button", { name: "Menu" }).click();
    await tab.getByRole("button", { name: "New board" }).click();
    await tab.waitForURL(/\/b\/[\w-]{22}$/);
    await live(page);
    await shows(page, 0);
    await tab.getByRole("button", { name: "Menu" }).click();
    await tab.getByRole("button", { name: "Recent boards…" }).click();
    expect(await tab.locator(".board-list li").count()).toBe(2);
    await tab.getByRole("link", { name: /first-board/ }).click();
    await tab.waitForURL(/\/b\/first-board$/);
    await live(page);
    await shows(page, 1);
    await tab.getByRole("button", { name: "Menu" }).click();
    await tab.getByRole("button", { name: "Recent boards…" }).click();
    await tab.getByRole("button", { name: /^Remove/ }).click();
    await until("it is forgotten", async () => (await tab.locator(".board-list li").count()) === 1);
    await page.open(`${relay.url}/b/%2e%2e-%20no`);
    await tab.getByRole("heading", { name: "No board can have this name" }).waitFor();
    await tab.getByRole("link", { name: /first-board/ }).click();
    await live(page);
  });
});
