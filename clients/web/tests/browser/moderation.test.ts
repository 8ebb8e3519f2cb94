/** Moderation on the real board: each button of a moderator's, and what those see whom it is about. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { live, openBoard, saved, shows, stateOf } from "./support/page.ts";
import { Redis } from "./support/redis.ts";
import { Relay } from "./support/relay.ts";
import { someone, someoneAt } from "./support/someone.ts";

describe("moderation", () => {
  let browser: ChromiumBrowser;
  let redis: Redis;
  /** Two servers of the same boards: one lets people draw, the other moderate. */
  let drawers: Relay;
  let moderators: Relay;
  beforeAll(async () => {
    [browser, redis] = await Promise.all([startChromium(), Redis.start(false)]);
    const on = (role: string) =>
      Relay.start({ store: "redis", flags: ["--redis", redis.url, "--role", role] });
    // One after the other: the first makes the secret that both sign tickets with.
    drawers = await on("drawer");
    moderators = await on("moderator");
  });
  afterAll(async () => {
    await browser.close();
    await Promise.all([drawers.stop(), moderators.stop()]);
    await redis.stop();
  });

  const line = (page: ChromiumPage, y: number) =>
    page.stroke([
      [300, y],
      [400, y + 20],
    ]);

  async function rename(page: ChromiumPage, name: string): Promise<void> {
    await page.tab.getByRole("button", { name: /^People/ }).click();
    await page.tab.getByLabel("Your name").fill(name);
    await page.tab.keyboard.press("Enter");
    await page.tab.getByLabel("Your name").waitFor({ state: "detached" });
  }

  /** Ada, who draws, and Mo, who moderates. */
  async function two(room: string): Promise<[ChromiumPage, ChromiumPage]> {
    const ada = await someoneAt(browser, drawers.url, room);
    const mo = await someoneAt(browser, moderators.url, room);
    await rename(ada, "Ada");
    return [ada, mo];
  }

  /** Opens what a moderator may do to Ada. */
  async function moderateAda(mo: ChromiumPage): Promise<void> {
    await mo.tab.getByRole("button", { name: /^People/ }).click();
    await mo.tab.getByRole("button", { name: "Moderate Ada" }).click();
  }

  async function menu(page: ChromiumPage, item: string): Promise<void> {
    await page.tab.getByRole("button", { name: "Menu" }).click();
    await page.tab.getByRole("button", { name: item }).click();
  }

  test("who is kicked is told so, and comes back by a button", async () => {
    const [ada, mo] = await two("kick");
    await line(ada, 300);
    await shows(mo, 1);
    await moderateAda(mo);
    await mo.tab.getByRole("button", { name: "Kick Ada" }).click();
    await mo.tab.getByText("Ada was sent away, and may come back.").waitFor();
    await ada.tab.getByRole("heading", { name: "A moderator sent you away" }).waitFor();
    await mo.tab.getByText("Nobody else is here yet.").waitFor();
    await ada.tab.getByRole("button", { name: "Come back" }).click();
    await live(ada);
    await line(ada, 400);
    await saved(ada);
    await shows(mo, 2);
  });

  test("who is banned is asked about first, stays out also after a reload, and is let in by undo", async () => {
    const [ada, mo] = await two("ban");
    await line(ada, 300);
    await saved(ada);
    await moderateAda(mo);
    await mo.tab.getByRole("button", { name: "Ban Ada" }).click();
    await mo.tab.getByRole("button", { name: "Cancel" }).click();
    expect((await stateOf(ada))?.kind).toBe("live");
    await moderateAda(mo);
    await mo.tab.getByRole("button", { name: "Ban Ada" }).click();
    await mo.tab.getByRole("button", { name: "Ban", exact: true }).click();
    await mo.tab.getByText("Ada is banned from this board.").waitFor();
    await ada.tab.getByRole("heading", { name: "You are banned from this board" }).waitFor();
    // What Ada drew stays.
    await shows(mo, 1);
    await mo.tab.getByRole("status").getByRole("button", { name: "Undo" }).click();
    await mo.tab.getByText("Ada may come back.").waitFor();
    await ada.reload();
    await live(ada);
  });

  test("all that one person drew is erased after a question, for everyone, and comes back by undo", async () => {
    const [ada, mo] = await two("erase");
    for (const y of [200, 260, 320]) await line(ada, y);
    await line(mo, 500);
    await Promise.all([saved(ada), saved(mo), shows(ada, 4), shows(mo, 4)]);
    await moderateAda(mo);
    await mo.tab.getByRole("button", { name: "Erase what Ada drew" }).click();
    await mo.tab.getByRole("heading", { name: "Erase what Ada drew?" }).waitFor();
    await mo.tab.getByRole("button", { name: "Erase", exact: true }).click();
    await mo.tab.getByText("Erased 3 strokes of Ada.").waitFor();
    await Promise.all([shows(ada, 1), shows(mo, 1)]);
    await mo.tab.getByRole("status").getByRole("button", { name: "Undo" }).click();
    await Promise.all([shows(ada, 4), shows(mo, 4)]);
  });

  test("a locked board is a moderator's only, says so, and opens again", async () => {
    const [ada, mo] = await two("lock");
    await menu(mo, "Lock board");
    await mo.tab.getByText("Board locked: only moderators draw now.").waitFor();
    await ada.tab.getByText("Locked: only moderators draw just now.").waitFor();
    // There is no pen to draw with: this moves the board.
    await line(ada, 300);
    await line(mo, 400);
    await saved(mo);
    await Promise.all([shows(ada, 1), shows(mo, 1)]);
    // Who comes later finds it locked, and who reloads too.
    const ben = await someone(browser);
    await openBoard(ben, drawers.url, "lock");
    await ben.tab.getByText("Locked: only moderators draw just now.").waitFor();
    await ada.reload();
    await live(ada);
    await ada.tab.getByText("Locked: only moderators draw just now.").waitFor();
    // Clearing is for all who may draw: here for the moderator.
    await ada.tab.getByRole("button", { name: "Menu" }).click();
    expect(await ada.tab.getByRole("button", { name: "Clear board…" }).count()).toBe(0);
    expect(await ada.tab.getByRole("button", { name: /ock board/ }).count()).toBe(0);
    await ada.tab.keyboard.press("Escape");
    await menu(mo, "Clear board…");
    await mo.tab.getByRole("button", { name: "Clear board", exact: true }).click();
    await shows(ada, 0);

    await menu(mo, "Unlock board");
    await ada.tab.getByText("Locked: only moderators draw just now.").waitFor({ state: "detached" });
    await line(ada, 300);
    await saved(ada);
    await shows(mo, 1);
  });

  test("those who only draw are offered nothing of it", async () => {
    const ada = await someoneAt(browser, drawers.url, "plain");
    const ben = await someoneAt(browser, drawers.url, "plain");
    await rename(ada, "Ada");
    await ben.tab.getByRole("button", { name: /^People/ }).click();
    await ben.tab.getByRole("button", { name: "Follow Ada" }).waitFor();
    expect(await ben.tab.getByRole("button", { name: /^Moderate/ }).count()).toBe(0);
    const said = await ben.evaluate(() => globalThis.inkrelay.client?.moderate({ action: "lock" }) ?? null);
    expect(said).toMatchObject({ kind: "failed", code: "forbidden" });
  });
});
