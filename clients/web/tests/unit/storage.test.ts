/** Storage: whose an identity is, and what survives; tabs are pages that share one database. */
import "fake-indexeddb/auto";
import { afterEach, expect, test, vi } from "vitest";
import { LeaseLost } from "../../src/identity.ts";
import { HIDDEN_LEASE_MS, LEASE_MS } from "../../src/lease.ts";
import { Storage, UNUSED_MS } from "../../src/storage.ts";
import { Browser, clientOf, drawn, drawsOf, Tab, TestPage } from "./storage-tabs.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("each tab has an identity of its own, also when both open at once", async () => {
  const browser = new Browser();
  const [one, two] = await Promise.all([browser.open(), browser.open()]);
  await drawn(one, 7, 2);
  const [third, fourth] = await Promise.all([one.claim("room"), two.claim("room")]);
  expect([clientOf(third), clientOf(fourth), one.durable]).toEqual([undefined, undefined, true]);
  expect(clientOf(await two.claim("other"))).toBeUndefined();
});

test("after a crash the identity is free when its lease is over, with its draws and ticket", async () => {
  const browser = new Browser();
  await drawn(await browser.open(), 7, 2);
  const storage = await browser.open();
  browser.now += LEASE_MS - 1;
  expect(clientOf(await storage.claim("room"))).toBeUndefined();
  browser.now += 1;
  const found = await storage.claim("room");
  expect([clientOf(found), drawsOf(found), found.saved.state?.ticket]).toEqual([7, [1, 2], "ticket 7"]);
});

test("a lease that is renewed lasts, and longer while the tab is hidden", async () => {
  const browser = new Browser();
  const page = new TestPage();
  await drawn(await browser.open(page), 7, 1);
  const other = await browser.open();
  const renew = vi.spyOn(IDBObjectStore.prototype, "put");
  browser.now += LEASE_MS - 1;
  page.tick();
  await vi.waitFor(() => expect(renew).toHaveBeenCalledTimes(1));
  browser.now += LEASE_MS - 1;
  expect(await other.claimOrphan("room")).toBeNull();
  page.hidden = true;
  page.show();
  await vi.waitFor(() => expect(renew).toHaveBeenCalledTimes(2));
  browser.now += HIDDEN_LEASE_MS - 1;
  expect(await other.claimOrphan("room")).toBeNull();
  browser.now += 1;
  expect(clientOf(await other.claimOrphan("room"))).toBe(7);
});

test("a clock that was set back leaves no lease that lasts for ever", async () => {
  const browser = new Browser();
  await drawn(await browser.open(), 7, 1);
  browser.now -= 10 * HIDDEN_LEASE_MS;
  expect(clientOf(await (await browser.open()).claim("room"))).toBe(7);
});

test("a frozen tab whose identity another took writes nothing, and learns of it once", async () => {
  const browser = new Browser();
  const frozen = await drawn(await browser.open(), 7, 1);
  const onLost = vi.fn();
  frozen.identity.onLost(onLost);
  browser.now += LEASE_MS;
  const thief = await Tab.open(await browser.open());
  expect(clientOf(thief.identity)).toBe(7);
  frozen.draw();
  await expect(frozen.save()).rejects.toBeInstanceOf(LeaseLost);
  frozen.draw();
  await expect(frozen.save()).rejects.toBeInstanceOf(LeaseLost);
  expect(onLost).toHaveBeenCalledTimes(1);
  thief.draw();
  await thief.save();
  await thief.identity.release();
  await frozen.identity.release();
  const next = await (await browser.open()).claim("room");
  expect(drawsOf(next)).toEqual([1, 2]);
});

test("a reload gets the identity back at once, and a duplicate of the tab does not", async () => {
  const browser = new Browser();
  const page = new TestPage();
  const tab = await drawn(await browser.open(page), 7, 1);
  page.hide();
  page.hidden = true;
  page.show();
  tab.draw();
  await tab.save();
  expect(page.session.size).toBe(1);
  const reloaded = new TestPage(page.session);
  const storage = await browser.open(reloaded);
  const again = await storage.claim("room");
  expect([clientOf(again), drawsOf(again), page.session.size]).toEqual([7, [1, 2], 0]);
  const duplicate = await browser.open(new TestPage(new Map(page.session)));
  expect(clientOf(await duplicate.claim("room"))).toBeUndefined();
});

test("a page that comes back whole has its identity still, unless another took it", async () => {
  const browser = new Browser();
  const page = new TestPage();
  const tab = await drawn(await browser.open(page), 7, 1);
  const other = await browser.open();
  page.hide();
  page.show();
  expect(page.session.size).toBe(0);
  tab.draw();
  await tab.save();
  expect(await other.claimOrphan("room")).toBeNull();
  page.hide();
  expect(await other.claimOrphan("room")).toBeNull();
  browser.now += LEASE_MS;
  await vi.waitFor(async () => expect(clientOf(await other.claimOrphan("room"))).toBe(7));
  const onLost = vi.fn();
  tab.identity.onLost(onLost);
  page.show();
  await vi.waitFor(() => expect(onLost).toHaveBeenCalledTimes(1));
});

test("a closed tab's identity goes to the next, the one used last first, with its history", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const [older, newer] = [await drawn(storage, 7, 0), await drawn(storage, 8, 0)];
  const history = { done: [{ kind: "hide", draws: [3], undo: null, redo: null }], undone: [] } as const;
  newer.draw();
  const changes = newer.outbox.changes();
  browser.now += 1;
  if (changes) await newer.identity.save({ ...changes, history });
  await storage.close();
  await older.identity.release();
  const found = await (await browser.open()).claim("room");
  expect([clientOf(found), found.saved.history]).toEqual([8, history]);
});

test("orphans with unsent draws are handed out one at a time, until all is stored", async () => {
  const browser = new Browser();
  const gone = await browser.open();
  await drawn(gone, 7, 2);
  await drawn(gone, 8, 0);
  await drawn(gone, 9, 1);
  await gone.close();
  const storage = await browser.open();
  expect(clientOf(await storage.claim("room", true))).toBeUndefined();
  const first = await storage.claimOrphan("room");
  const second = await storage.claimOrphan("room");
  expect([clientOf(first), clientOf(second), await storage.claimOrphan("room")]).toEqual([7, 9, null]);
  expect(await storage.claimOrphan("elsewhere")).toBeNull();
  if (!first) throw new Error("no orphan");
  const tab = new Tab(first);
  tab.welcome(7);
  await tab.store();
  expect(tab.outbox.pending).toBe(0);
  await first.release();
  expect(await storage.claimOrphan("room")).toBeNull();
  await second?.release();
  expect(clientOf(await storage.claimOrphan("room"))).toBe(9);
});

test("identities without unsent draws are deleted after 30 days, the others never", async () => {
  const browser = new Browser();
  const gone = await browser.open();
  await drawn(gone, 7, 1);
  await drawn(gone, 8, 0);
  await gone.close();
  browser.now += UNUSED_MS;
  const storage = await browser.open();
  expect(clientOf(await storage.claim("room"))).toBe(7);
  expect(clientOf(await storage.claim("room"))).toBeUndefined();
});

test("what is forgotten is deleted, in the transaction that says so", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 3);
  await tab.store();
  tab.draw();
  tab.outbox.next(60_000);
  await tab.save();
  await storage.close();
  const found = await (await browser.open()).claim("room");
  expect([drawsOf(found), found.saved.state?.first, found.saved.state?.last]).toEqual([[4], 4, 4]);
});

test("without space it goes on in memory and says so, and writes all when there is space again", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 1);
  const told: boolean[] = [];
  storage.onDurable((durable) => told.push(durable));
  const put = vi.spyOn(IDBObjectStore.prototype, "put").mockImplementation(() => {
    throw new DOMException("no space", "QuotaExceededError");
  });
  tab.draw();
  await tab.save();
  tab.draw();
  await tab.save();
  expect([storage.durable, told]).toEqual([false, [false]]);
  put.mockRestore();
  tab.draw();
  await tab.save();
  expect([storage.durable, told]).toEqual([true, [false, true]]);
  await storage.close();
  expect(drawsOf(await (await browser.open()).claim("room"))).toEqual([1, 2, 3, 4]);
});

test("a database that is deleted under us: the page goes on in memory", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 1);
  await new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(browser.database);
    request.onsuccess = resolve;
    request.onerror = reject;
    request.onblocked = reject;
  });
  tab.draw();
  await tab.save();
  expect([storage.durable, tab.outbox.pending]).toEqual([false, 2]);
  expect((await storage.claim("room")).saved.state).toBeNull();
});

test("a newer version of the page is not held up, and the older one goes on in memory", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 1);
  const newer = await new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(browser.database, 99);
    request.onsuccess = () => resolve(request.result);
    request.onerror = reject;
    request.onblocked = reject;
  });
  newer.close();
  tab.draw();
  await tab.save();
  expect(storage.durable).toBe(false);
});

test("a connection that was closed under us is opened again", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 1);
  const transaction = vi.spyOn(IDBDatabase.prototype, "transaction").mockImplementationOnce(() => {
    throw new DOMException("the connection is closed", "InvalidStateError");
  });
  tab.draw();
  await tab.save();
  expect(transaction).toHaveBeenCalledTimes(2);
  expect(storage.durable).toBe(true);
  await storage.close();
  expect(drawsOf(await (await browser.open()).claim("room"))).toEqual([1, 2]);
});

test("without IndexedDB, with one that does not open, and where memory is wanted, nothing is kept and all works", async () => {
  const browser = new Browser();
  vi.stubGlobal("indexedDB", undefined);
  const none = await browser.open();
  vi.unstubAllGlobals();
  const memory = await Storage.open({
    ...{ server: browser.server, kind: "memory", page: new TestPage(), now: () => 0 },
  });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  vi.stubGlobal("indexedDB", { open: () => Reflect.construct(IDBOpenDBRequest, []) });
  const opening = browser.open();
  await vi.advanceTimersByTimeAsync(3_000);
  const slow = await opening;
  for (const storage of [none, memory, slow]) {
    expect(storage.durable).toBe(false);
    const tab = await drawn(storage, 7, 1);
    await tab.save();
    expect(await storage.claimOrphan("room")).toBeNull();
    await storage.close();
  }
});

test("what comes while a transaction is under way goes together in the next", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 0);
  const transactions = vi.spyOn(IDBDatabase.prototype, "transaction");
  const saves: Promise<void>[] = [];
  for (let count = 0; count < 10; count += 1) {
    tab.draw();
    saves.push(tab.save());
    // The first one is under way then.
    if (count === 0) await vi.waitFor(() => expect(transactions).toHaveBeenCalledTimes(1));
  }
  await Promise.all(saves);
  expect(transactions).toHaveBeenCalledTimes(2);
  await storage.close();
  expect(drawsOf(await (await browser.open()).claim("room"))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test("a tab that was taken over goes on with a new identity and what was never saved", async () => {
  const browser = new Browser();
  const storage = await browser.open();
  const tab = await drawn(storage, 7, 1);
  browser.now += LEASE_MS;
  const thief = await (await browser.open()).claim("room");
  expect([clientOf(thief), drawsOf(thief)]).toEqual([7, [1]]);
  tab.draw();
  await expect(tab.save()).rejects.toBeInstanceOf(LeaseLost);
  await Promise.all([tab.identity.renew(), thief.renew()]);
  expect([tab.identity.isLost, thief.isLost]).toEqual([true, false]);
  tab.outbox.onTakenOver();
  expect([tab.outbox.client, tab.outbox.pending]).toEqual([null, 1]);
  const next = new Tab(await storage.claim("room", true), tab.outbox);
  next.welcome(8);
  await next.save();
  await storage.close();
  const mine = await (await browser.open()).claim("room");
  expect([clientOf(mine), drawsOf(mine)]).toEqual([8, [2]]);
});
