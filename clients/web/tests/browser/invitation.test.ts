/** Share links: what `inkrelay token link` prints, opened in a browser at a relay that asks for tokens. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { live, saved, setView, shows, stateOf } from "./support/page.ts";
import { Relay, ROOT } from "./support/relay.ts";
import { someone } from "./support/someone.ts";

const ROOM = "atelier";

describe("invitations", () => {
  let browser: ChromiumBrowser;
  let folder: string;
  let relay: Relay;
  const log: string[] = [];
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "inkrelay-keys-"));
    await promisify(execFile)(join(ROOT, "target/debug/inkrelay"), ["token", "new-key", key()]);
    browser = await startChromium();
    relay = await Relay.start({ flags: ["--token-keys", `${key()}.jwks`, "--log", "trace"] });
    relay.hear((line) => log.push(line));
  });
  afterAll(async () => {
    await browser.close();
    await relay.stop();
    await rm(folder, { recursive: true });
  });

  const key = () => join(folder, "private.pem");

  /** A link to the board, and the token in it. */
  async function invite(role: string): Promise<[link: string, token: string]> {
    const link = ["token", "link", "--key", key(), "--server", relay.url, "--room", ROOM, "--role", role];
    const address = /\bhttp\S+#token=(\S+)/.exec(await relay.command(...link));
    if (address?.[1] === undefined) throw new Error("no link was printed");
    return [address[0], address[1]];
  }

  async function open(link: string): Promise<ChromiumPage> {
    const page = await someone(browser);
    await page.open(link);
    await live(page);
    await setView(page, { x: 0, y: 0, zoom: 1 });
    return page;
  }

  const line = (page: ChromiumPage, y: number) =>
    page.stroke([
      [300, y],
      [400, y + 20],
    ]);

  test("who is invited draws; the token is in no address and in no line of the log", async () => {
    const [[link, token], [look, other]] = [await invite("drawer"), await invite("viewer")];
    const [ada, vic] = [await open(link), await open(look)];
    await line(ada, 300);
    await saved(ada);
    await shows(vic, 1);
    expect(ada.tab.url()).toBe(`${relay.url}/b/${ROOM}`);
    expect(await ada.evaluate(() => location.href + document.referrer)).not.toContain("token");

    await ada.reload();
    await live(ada);
    await setView(ada, { x: 0, y: 0, zoom: 1 });
    await line(ada, 400);
    await saved(ada);
    await shows(vic, 2);
    expect(ada.tab.url()).toBe(`${relay.url}/b/${ROOM}`);

    await ada.tab.getByRole("button", { name: "Share" }).click();
    expect(await ada.tab.getByLabel("Link to this board").inputValue()).toBe(`${relay.url}/b/${ROOM}`);
    expect(log.length, "everything is logged").toBeGreaterThan(10);
    for (const secret of [token, other]) {
      const parts = [secret, ...secret.split(".").slice(1)];
      expect(log.filter((said) => parts.some((part) => said.includes(part)))).toEqual([]);
    }
  });

  test("who has the address alone is told to ask for a link, and comes in by it in the same tab", async () => {
    const person = await browser.person();
    try {
      const page = await person.page();
      await page.open(`${relay.url}/b/${ROOM}`);
      await page.tab.getByRole("heading", { name: "This board needs an invitation" }).waitFor();
      expect((await stateOf(page))?.kind).toBe("refused");
      const [link] = await invite("drawer");
      // As somebody does who puts it into the address bar: the same page, but for the fragment.
      const loaded = page.tab.waitForEvent("load");
      await page.evaluate((to) => location.assign(to), link);
      await loaded;
      await live(page);
      expect(page.tab.url()).toBe(`${relay.url}/b/${ROOM}`);
    } finally {
      await person.close();
    }
  });
});
