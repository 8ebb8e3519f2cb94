/** Storage: whose an identity is, and what survives; tabs are pages that share one database. */
import "fake-indexeddb/auto";
import { afterEach, expect, test, vi } from "vitest";
import { Database } from "../../src/database.ts";
import type { Draw } from "../../src/draw.ts";
import { type Identity, LeaseLost } from "../../src/identity.ts";
import { HIDDEN_LEASE_MS, LEASE_MS } from "../../src/lease.ts";
import { Outbox } from "../../src/outbox.ts";
import type { Page } from "../../src/page.ts";
import { Storage, UNUSED_MS } from "../../src/storage.ts";

const begin = (stroke: number): Draw => ({
  ...{
    kind: "begin",
    stroke,
    style: { tool: 0, rgba: 255, width: 32 },
    channels: 0,
    points: [0, 0],
    end: true,
  },
});
const limits = { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN: 0 };

/** A page whose timers run when the test says so. `session` is its tab's. */
class TestPage implements Page {
  readonly session: Map<string, string>;
  hidden = false;
  private readonly gone: ((mayReturn: boolean) => void)[] = [];
  private readonly switched: (() => void)[] = [];
  private readonly ticks: (() => void)[] = [];

  constructor(
    session = new Map<string, string>(),
    /** What pages leave to whoever comes next: the origin's. */
    readonly left = new Map<string, string>(),
  ) {
    this.session = session;
  }

  take(key: string): string | null {
    const value = this.session.get(key) ?? null;
    this.session.delete(key);
    return value;
  }
  leave(key: string, value: string): void {
    this.session.set(key, value);
  }
  bequeath(key: string, value: string): boolean {
    this.left.set(key, value);
    return true;
  }
  bequests(prefix: string): [string, string][] {
    return [...this.left].filter(([key]) => key.startsWith(prefix));
  }
  forget(key: string): void {
    this.left.delete(key);
  }
  isHidden(): boolean {
    return this.hidden;
  }
  onGone(listener: (mayReturn: boolean) => void): () => void {
    this.gone.push(listener);
    return () => {};
  }
  onSwitched(listener: () => void): () => void {
    this.switched.push(listener);
    return () => {};
  }
  every(_ms: number, listener: () => void): () => void {
    this.ticks.push(listener);
    return () => {};
  }

  hide(mayReturn = true): void {
    for (const listener of this.gone) listener(mayReturn);
  }
  show(): void {
    for (const listener of this.switched) listener();
  }
  tick(): void {
    for (const listener of this.ticks) listener();
  }
}

let servers = 0;

/** The tabs of one browser on one server, with one clock. */
class Browser {
  now = 1_000_000;
  readonly server = `http://server-${++servers}/path/`;
  readonly database = this.server.replace(/\/$/, "").replace(/^/, "inkrelay ");

  open(page = new TestPage()): Promise<Storage> {
    return Storage.open({ server: this.server, kind: "indexeddb", page, now: () => this.now });
  }
}

/** One identity with what is drawn under it. */
class Tab {
  readonly identity: Identity;
  readonly outbox: Outbox;

  constructor(identity: Identity, outbox = new Outbox(4, identity.saved)) {
    [this.identity, this.outbox] = [identity, outbox];
  }

  static async open(storage: Storage, room = "room"): Promise<Tab> {
    return new Tab(await storage.claim(room));
  }

  welcome(client: number, lastN = 0): void {
    expect(this.outbox.onWelcome(client, `ticket ${client}`, { ...limits, lastN }, 0)).toEqual([]);
  }

  draw(): void {
    expect(this.outbox.push(begin(this.outbox.takeStroke())).kind).toBe("taken");
  }

  async save(): Promise<void> {
    const changes = this.outbox.changes();
    if (!changes) return;
    await this.identity.save({ ...changes, history: null });
    this.outbox.onPersisted(changes.revision);
  }

  /** All is stored: sent and acked. */
  async store(): Promise<void> {
    await this.save();
    const next = this.outbox.next(0);
    if (next.kind === "batch") this.outbox.onAck(next.batch.lastN, 0);
    await this.save();
  }
}

const clientOf = (identity: Identity | null) => identity?.saved.state?.client;
const drawsOf = (identity: Identity | null) => identity?.saved.draws.map(({ id }) => id);

/** A tab that drew as that client, with so many unsent draws. */
async function drawn(storage: Storage, client: number, unsent: number): Promise<Tab> {
  const tab = await Tab.open(storage);
  tab.welcome(client);
  for (let count = 0; count < unsent; count += 1) tab.draw();
  await tab.save();
  return tab;
}

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
