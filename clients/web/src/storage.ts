/**
 * Storage: where identities and their unsent draws survive the page.
 *
 * One database per server, for all rooms. An identity is what makes a session the one it was: client id, ticket, stroke
 * numbers, queued draws and what can be undone. Each tab is a session of its own and needs one to itself; two that share
 * one would give the same number to two draws. Web Locks are missing over plain http, so each identity has a lease
 * (lease.ts) with fencing: it is claimed in one transaction, which is atomic across tabs, and each write checks in its
 * own transaction that the lease is still this page's. A tab that was frozen for long, and whose identity another took
 * meanwhile, thus cannot write; it gets {@link LeaseLost}, and takes another identity.
 *
 * A reload gives the tab its identity back at once: the page that goes leaves the owner's word to the one that comes
 * (`sessionStorage`), which takes it out, so that a duplicated tab does not get it too.
 *
 * Draws stay in the database for a minute after their ack, as in the outbox, so that they can be offered again after a
 * reload. Where there is no IndexedDB, or it fails, all goes on from memory, and {@link Storage.durable} says so; what
 * could not be written for want of space is tried again with the next write.
 */
import { Database, DatabaseGone, type IdentityRow, type Transaction } from "./database.ts";
import type { HistoryState } from "./history.ts";
import { ended, isFree, newOwner, RENEW_MS, renewed } from "./lease.ts";
import type { OutboxChanges, OutboxState, QueuedDraw } from "./outbox.ts";
import type { Page } from "./page.ts";

/** Identities without unsent draws that nobody used for that long are deleted, in milliseconds: 30 days. */
export const UNUSED_MS = 30 * 24 * 60 * 60 * 1000;

/** Another tab took this identity over while this one was frozen. Nothing was written. */
export class LeaseLost extends Error {}

/** What an identity holds when it is claimed. */
export interface Saved {
  readonly state: OutboxState | null;
  /** Oldest first. */
  readonly draws: readonly QueuedDraw[];
  readonly history: HistoryState | null;
}

/** One transaction's worth. */
export interface Save extends OutboxChanges {
  /** `null` where it has not changed. */
  readonly history: HistoryState | null;
}

export interface StorageOptions {
  /** The server's address: each server's identities are apart. */
  readonly server: string;
  readonly kind: "indexeddb" | "memory";
  readonly page: Page;
  /** Wall clock, in ms since 1970. */
  readonly now: () => number;
}

/** See the module. */
export class Storage {
  readonly #options: StorageOptions;
  readonly #database: Database;
  readonly #held = new Set<Identity>();
  readonly #listeners = new Set<(durable: boolean) => void>();
  readonly #ends: (() => void)[] = [];
  #durable = true;

  private constructor(options: StorageOptions) {
    this.#options = options;
    this.#database = new Database(databaseName(options.server));
    const { page } = options;
    this.#ends.push(
      page.every(RENEW_MS, () => this.#renew(true)),
      // A page that goes is told first that it goes and then that it is hidden.
      page.onSwitched(() => this.#renew(!page.isHidden())),
      page.onGone(() => this.#leave()),
    );
  }

  /** Never rejects: without IndexedDB what is written is forgotten with the page. */
  static async open(options: StorageOptions): Promise<Storage> {
    const storage = new Storage(options);
    if (options.kind === "memory") storage.#database.giveUp("wanted in memory");
    try {
      await storage.#database.transact((transaction) => deleteUnused(transaction, options.now()));
    } catch {
      storage.#database.giveUp("cannot be opened");
    }
    storage.#tell(!storage.#database.isGone);
    return storage;
  }

  /** Whether what is saved survives the page. */
  get durable(): boolean {
    return this.#durable;
  }

  /** Calls back when {@link Storage.durable} changes. Returns how to end that. */
  onDurable(listener: (durable: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * This tab's identity: the one that the page before it in this tab had; else the free one of this room that was used
   * last, so that one's own strokes can still be undone; else, or if it is to be `fresh`, a new one. Never rejects.
   */
  claim(room: string, fresh = false): Promise<Identity> {
    const { page } = this.#options;
    const left = fresh ? null : page.take(handKey(this.#options.server, room));
    return this.#claim(room, true, (rows, now) => {
      if (fresh) return null;
      const own = rows.find((row) => left === `${row.key} ${row.lease.owner}`);
      return own ?? newest(rows.filter((row) => isFree(row.lease, now)));
    }).then((identity) => identity ?? this.#hold(room, null, true));
  }

  /**
   * A free identity of the room that has draws which may be unsent: of a tab that is gone. One at a time, the oldest
   * first; `null` when there is none. It is released when they are stored or refused.
   */
  claimOrphan(room: string): Promise<Identity | null> {
    return this.#claim(room, false, (rows, now) => {
      return rows.find((row) => row.unsent > 0 && isFree(row.lease, now)) ?? "none";
    });
  }

  /** Gives back all that is held. What is still being written is written. */
  async close(): Promise<void> {
    for (const end of this.#ends.splice(0)) end();
    await Promise.all([...this.#held].map((identity) => identity.release()));
    this.#database.close();
  }

  async #claim(
    room: string,
    isMain: boolean,
    choose: (rows: readonly IdentityRow[], now: number) => IdentityRow | "none" | null,
  ): Promise<Identity | null> {
    const owner = newOwner();
    try {
      const held = await this.#database.transact(async (transaction) => {
        const identities = transaction.objectStore("identities");
        const now = this.#options.now();
        const chosen = choose(await identities.index("room").getAll(room), now);
        if (chosen === "none") return null;
        const lease = renewed(owner, now, this.#options.page.isHidden());
        const row: IdentityRow = { room, unsent: 0, state: null, ...chosen, lease, usedAt: now };
        const key = await identities.put(row);
        const draws = await transaction.objectStore("draws").getAll(drawsOf(key));
        const history = (await transaction.objectStore("histories").get(key)) ?? null;
        return { key, owner, saved: { state: row.state, draws, history } };
      });
      return held && this.#hold(room, held, isMain);
    } catch {
      // Also when there is no space for a new one: nothing of it can be saved then.
      this.#tell(false);
      return null;
    }
  }

  #hold(room: string, row: { key: number; owner: string; saved: Saved } | null, isMain: boolean): Identity {
    const { page, now } = this.#options;
    const identity = new Identity(room, row?.saved ?? { state: null, draws: [], history: null }, {
      ...{ database: this.#database, key: row?.key ?? null, owner: row?.owner ?? "", isMain, now },
      isHidden: () => page.isHidden(),
      onWritten: (durable) => this.#tell(durable),
      onReleased: () => this.#held.delete(identity),
    });
    this.#held.add(identity);
    return identity;
  }

  #renew(isHere: boolean): void {
    const { page, server } = this.#options;
    for (const identity of this.#held) {
      if (identity.handed !== null && !isHere) continue;
      // A page that came back whole is no longer one that hands over.
      if (identity.handed !== null) page.take(handKey(server, identity.room));
      void identity.renew();
    }
  }

  #leave(): void {
    const { page, server } = this.#options;
    for (const identity of this.#held) {
      const word = identity.hand();
      if (word !== null) page.leave(handKey(server, identity.room), word);
    }
  }

  #tell(durable: boolean): void {
    if (this.#durable === durable) return;
    this.#durable = durable;
    for (const listener of this.#listeners) listener(durable);
  }
}

interface Holding {
  readonly database: Database;
  /** `null`: in memory only. */
  readonly key: number | null;
  readonly owner: string;
  /** Whether it is the tab's own, which the next page in the tab goes on with. */
  readonly isMain: boolean;
  readonly now: () => number;
  readonly isHidden: () => boolean;
  readonly onWritten: (durable: boolean) => void;
  readonly onReleased: () => void;
}

/** A session's identity in one room, held by this page. */
export class Identity {
  readonly room: string;
  /** What it held when it was claimed. */
  readonly saved: Saved;
  readonly #holding: Holding;
  readonly #listeners = new Set<() => void>();
  /** What could not be written yet, and goes with the next write. */
  #put = new Map<number, QueuedDraw>();
  #remove = new Set<number>();
  #state: OutboxState | null = null;
  #history: HistoryState | null = null;
  /** Whether there is something that no transaction has taken yet. */
  #isDirty = false;
  /** Saves are written one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #renewing: Promise<void> | null = null;
  #lost = false;
  #released = false;
  /** What was left to the next page, while this one is gone. */
  handed: string | null = null;

  /** @internal */
  constructor(room: string, saved: Saved, holding: Holding) {
    [this.room, this.saved, this.#holding] = [room, saved, holding];
  }

  /**
   * Writes all or nothing; what comes while one transaction is under way goes together in the next. Rejects with {@link LeaseLost} alone. Other troubles are told as {@link Storage.durable};
   * what could not be written then goes with the next save.
   */
  save(save: Save): Promise<void> {
    for (const draw of save.put) this.#put.set(draw.id, draw);
    for (const id of save.remove) {
      this.#put.delete(id);
      this.#remove.add(id);
    }
    this.#state = save.state;
    this.#history = save.history ?? this.#history;
    this.#isDirty = true;
    const written = this.#writing.then(() => this.#write());
    this.#writing = written.catch(() => {});
    return written;
  }

  /** Whether another tab took it over. */
  get isLost(): boolean {
    return this.#lost;
  }

  /** Calls back once when another tab took it over. Returns how to end that. */
  onLost(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Gives it back, with all that was saved: the next tab may have it. */
  async release(): Promise<void> {
    await this.#writing;
    this.#released = true;
    this.#holding.onReleased();
    await this.#end();
  }

  /** Says that it is still held, and finds out whether it is: {@link Identity.isLost}. Never rejects. */
  renew(): Promise<void> {
    if (this.#lost || this.#released) return Promise.resolve();
    this.handed = null;
    this.#renewing ??= this.#fenced((row) => row)
      .catch((error: unknown) => {
        // Of other troubles the next save tells.
        if (error instanceof LeaseLost) this.#lose();
      })
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }

  /** @internal The page is going: frees it, and returns the word by which the next page in this tab gets it. */
  hand(): string | null {
    const { key, owner, isMain } = this.#holding;
    if (key === null || this.#lost || this.#released) return null;
    void this.#end();
    this.handed = `${key} ${owner}`;
    return isMain ? this.handed : null;
  }

  async #write(): Promise<void> {
    if (this.#lost) throw new LeaseLost("another tab has this identity");
    // The transaction before took it along.
    if (!this.#isDirty) return;
    this.#isDirty = false;
    const [put, remove, state, history] = [this.#put, this.#remove, this.#state, this.#history];
    [this.#put, this.#remove, this.#history] = [new Map(), new Set(), null];
    try {
      await this.#fenced(async (row, key, transaction) => {
        const draws = transaction.objectStore("draws");
        await Promise.all([
          ...ranges(remove).map(([from, to]) => draws.delete(IDBKeyRange.bound([key, from], [key, to]))),
          ...[...put.values()].map((draw) => draws.put(draw, [key, draw.id])),
          ...(history ? [transaction.objectStore("histories").put(history, key)] : []),
        ]);
        return { ...row, state, unsent: state ? state.last - state.stored : 0 };
      });
      this.#holding.onWritten(this.#holding.key !== null);
    } catch (error) {
      if (error instanceof LeaseLost) {
        this.#lose();
        throw error;
      }
      this.#holding.onWritten(false);
      if (this.#holding.database.isGone) return;
      this.#put = new Map([...put, ...this.#put]);
      this.#remove = new Set([...remove, ...this.#remove]);
      for (const id of this.#remove) this.#put.delete(id);
      this.#history ??= history;
      this.#isDirty = true;
    }
  }

  /** Changes its row, in a transaction that first sees whether it is still ours. */
  async #fenced(
    change: (row: IdentityRow, key: number, transaction: Transaction) => IdentityRow | Promise<IdentityRow>,
  ): Promise<void> {
    const { database, key, owner, now, isHidden } = this.#holding;
    if (key === null) return;
    await database.transact(async (transaction) => {
      const identities = transaction.objectStore("identities");
      const row = await identities.get(key);
      if (!row) throw new DatabaseGone("the database was emptied");
      if (row.lease.owner !== owner) throw new LeaseLost("another tab has this identity");
      const changed = await change(row, key, transaction);
      await identities.put({ ...changed, lease: renewed(owner, now(), isHidden()), usedAt: now() });
    });
  }

  async #end(): Promise<void> {
    const { database, key, owner } = this.#holding;
    if (key === null || this.#lost) return;
    try {
      await database.transact(async (transaction) => {
        const identities = transaction.objectStore("identities");
        const row = await identities.get(key);
        if (row?.lease.owner === owner) await identities.put({ ...row, lease: ended(owner) });
      });
    } catch {
      // The lease ends by itself.
    }
  }

  #lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#holding.onReleased();
    for (const listener of this.#listeners) listener();
  }
}

function databaseName(server: string): string {
  return `inkrelay ${server.replace(/\/+$/, "")}`;
}

function handKey(server: string, room: string): string {
  return `${databaseName(server)} ${room}`;
}

function drawsOf(key: number): IDBKeyRange {
  return IDBKeyRange.bound([key, 0], [key, Number.MAX_SAFE_INTEGER]);
}

function newest(rows: readonly IdentityRow[]): IdentityRow | null {
  return rows.reduce<IdentityRow | null>(
    (best, row) => (best && best.usedAt >= row.usedAt ? best : row),
    null,
  );
}

/** Neighbouring ids as ranges: what is forgotten goes in one go. */
function ranges(ids: ReadonlySet<number>): [number, number][] {
  const found: [number, number][] = [];
  for (const id of ids) {
    const last = found.at(-1);
    if (last && last[1] + 1 === id) last[1] = id;
    else found.push([id, id]);
  }
  return found;
}

async function deleteUnused(transaction: Transaction, now: number): Promise<void> {
  const identities = transaction.objectStore("identities");
  for (const { key, unsent, usedAt, lease } of await identities.getAll()) {
    if (key === undefined || unsent > 0 || now - usedAt < UNUSED_MS || !isFree(lease, now)) continue;
    await Promise.all([
      identities.delete(key),
      transaction.objectStore("draws").delete(drawsOf(key)),
      transaction.objectStore("histories").delete(key),
    ]);
  }
}
