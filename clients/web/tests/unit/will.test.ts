/** Wills: what a page that goes leaves undone, and who does it. */
import "fake-indexeddb/auto";
import { afterEach, expect, test, vi } from "vitest";
import { Database } from "../../src/database.ts";
import { LEASE_MS } from "../../src/lease.ts";
import { Browser, clientOf, drawn, drawsOf, Tab, TestPage } from "./storage-tabs.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

test("what a closed tab could not write any more is in its will, and the next to claim anything writes it", async () => {
  const browser = new Browser();
  const left = new Map<string, string>();
  const page = new TestPage(new Map(), left);
  const tab = await drawn(await browser.open(page), 7, 1);
  tab.draw();
  const changes = tab.outbox.changes();
  if (changes === null) throw new Error("a draw is a change");
  // The tab dies with its transaction: nothing of this is written, nor that the lease is over.
  vi.spyOn(Database.prototype, "transact").mockReturnValue(new Promise(() => {}));
  void tab.identity.save({ ...changes, history: { done: [], undone: [] } });
  page.hide(false);
  expect(left.size).toBe(1);
  vi.restoreAllMocks();
  const other = await browser.open(new TestPage(new Map(), left));
  // It goes to the next, whose lease its page would have ended if it could.
  const next = await other.claim("room");
  expect([clientOf(next), drawsOf(next), next.saved.history]).toEqual([7, [1, 2], { done: [], undone: [] }]);
  expect(left.size).toBe(0);
});

test("who is quicker than a closed tab's will waits for it, and does not go on without what is in it", async () => {
  const browser = new Browser();
  const left = new Map<string, string>();
  const tab = await drawn(await browser.open(new TestPage(new Map(), left)), 7, 1);
  const page = new TestPage(new Map(), left);
  const closing = await drawn(await browser.open(page), 8, 1);
  closing.draw();
  const changes = closing.outbox.changes();
  if (changes === null) throw new Error("a draw is a change");
  // That the page goes reaches the database; what it still had to write does not, and its will comes late.
  const transact = Database.prototype.transact;
  let first = true;
  vi.spyOn(Database.prototype, "transact").mockImplementation(function (this: Database, what) {
    if (!first) return transact.call(this, what);
    first = false;
    return new Promise<never>(() => {});
  });
  void closing.identity.save({ ...changes, history: null });
  await Promise.resolve();
  page.hide(false);
  const will = [...left];
  left.clear();
  const next = await browser.open(new TestPage(new Map(), left));
  expect(clientOf(await next.claim("room"))).toBeUndefined();
  expect(await next.claimOrphan("room")).toBeNull();
  for (const [key, value] of will) left.set(key, value);
  expect(drawsOf((await next.claimOrphan("room")) ?? tab.identity)).toEqual([1, 2]);
});

test("a will is nothing against what its page wrote after all, or another as the same identity", async () => {
  const browser = new Browser();
  const left = new Map<string, string>();
  const page = new TestPage(new Map(), left);
  const tab = await drawn(await browser.open(page), 7, 1);
  const wills = async () => {
    tab.draw();
    const saving = tab.save();
    page.hide(false);
    const will = new Map(left);
    await saving;
    return will;
  };
  const early = await wills();
  tab.draw();
  await tab.save();
  const other = await browser.open(new TestPage(new Map(), early));
  await other.claim("another room");
  expect(early.size).toBe(0);
  const late = await wills();
  browser.now += LEASE_MS;
  const thief = await browser.open(new TestPage());
  const taken = new Tab(await thief.claim("room"));
  await taken.store();
  await (await browser.open(new TestPage(new Map(), late))).claim("another room");
  await taken.identity.release();
  const next = await (await browser.open()).claim("room");
  expect([clientOf(next), drawsOf(next), next.saved.state?.stored]).toEqual([7, [1, 2, 3, 4], 4]);
});

test("a page that may come back leaves no will; one that goes says at least that, though it looked hidden", async () => {
  const browser = new Browser();
  const left = new Map<string, string>();
  const page = new TestPage(new Map(), left);
  const tab = await drawn(await browser.open(page), 7, 1);
  page.hide(true);
  page.show();
  expect(left.size).toBe(0);
  // Some browsers say first that it is hidden, and hidden pages have long leases.
  page.hidden = true;
  await tab.identity.renew();
  vi.spyOn(Database.prototype, "transact").mockReturnValue(new Promise(() => {}));
  page.hide(false);
  vi.restoreAllMocks();
  left.set(`${browser.database} will 99`, "no will at all");
  const next = await (await browser.open(new TestPage(new Map(), left))).claim("room");
  expect([clientOf(next), drawsOf(next), left.size]).toEqual([7, [1], 0]);
});
