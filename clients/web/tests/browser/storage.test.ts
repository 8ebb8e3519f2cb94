/** The storage in real browsers: reloads, crashes and second tabs, also where the context is not secure. */
import { build } from "vite";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type {} from "./storage-page.ts";
import { INSECURE_HOST, type Page } from "./support/browser.ts";
import { ENGINES } from "./support/engines.ts";
import { type Site, startSite } from "./support/site.ts";

let site: Site;

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
  site = await startSite('<!doctype html><script type="module" src="/page.js"></script>', code);
});

afterAll(() => site.close());

const found = (page: Page) => page.evaluate(() => window.opened.then((tested) => tested.found));
const durable = (page: Page) => page.evaluate(() => window.opened.then((tested) => tested.durable()));
const taken = (page: Page) => page.evaluate(() => window.opened.then((tested) => tested.taken()));
const orphan = (page: Page) => page.evaluate(() => window.opened.then((tested) => tested.orphan()));

async function draw(page: Page, client: number, count: number): Promise<void> {
  await page.evaluate(
    (client, count) => window.opened.then((tested) => tested.draw(client, count)),
    client,
    count,
  );
}

async function sendable(page: Page, count: number): Promise<void> {
  const look = () => page.evaluate(() => window.opened.then((tested) => tested.sendable()));
  await expect.poll(look, { timeout: 20_000 }).toBe(count);
}

test.each(ENGINES)("$name", async ({ start }) => {
  const browser = await start();
  onTestFinished(() => browser.close());
  const person = await browser.person();
  const url = browser.knowsInsecure ? site.url.replace("127.0.0.1", INSECURE_HOST) : site.url;
  const tab = await person.page();
  await tab.open(url);
  expect(await found(tab)).toEqual({ client: null, draws: 0 });
  expect(await durable(tab)).toBe(true);
  expect(await tab.evaluate(() => isSecureContext)).toBe(!browser.knowsInsecure);
  await draw(tab, 7, 300);
  await sendable(tab, 300);

  // A reload has the identity at once, and all that was saved; and it took the word out.
  await tab.reload();
  expect(await found(tab)).toEqual({ client: 7, draws: 300 });
  expect(await tab.evaluate(() => sessionStorage.length)).toBe(0);
  await draw(tab, 7, 20);
  await tab.reload();
  const { client, draws } = await found(tab);
  expect(client).toBe(7);
  expect(draws === 300 || draws === 320).toBe(true);

  // A second tab has another, and takes over only what is free.
  const second = await person.page();
  await second.open(url);
  expect(await found(second)).toEqual({ client: null, draws: 0 });
  expect(await orphan(second)).toBeNull();
  await draw(second, 8, 5);
  await sendable(second, 5);

  // A tab that came to nothing is an orphan when its lease is over, and a frozen one that comes back finds it gone.
  const later = await person.page();
  await later.open(`${url}?skew=300000`);
  const mine = await found(later);
  const theirs = await orphan(later);
  expect([mine.client, theirs?.client].sort()).toEqual([7, 8]);
  await expect.poll(() => taken(tab), { timeout: 20_000 }).toBe(true);
  await expect.poll(() => taken(second), { timeout: 20_000 }).toBe(true);
  expect(await durable(tab)).toBe(true);
});
