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
 * A transaction that is under way when a tab is closed may never end. What it was to write is left in a will (will.ts),
 * and written by whoever comes next, before anybody claims an identity.
 *
 * Draws stay in the database for a minute after their ack, as in the outbox, so that they can be offered again after a
 * reload. Where there is no IndexedDB, or it fails, all goes on from memory, and {@link Storage.durable} says so; what
 * could not be written for want of space is tried again with the next write.
 */
import { Database, drawsOf, type IdentityRow, type Transaction, unsentOf, writeChanges } from "./database.ts";
import { Identity, type Saved } from "./identity.ts";
import { ended, isFree, newOwner, RENEW_MS, renewed } from "./lease.ts";
import type { Page } from "./page.ts";
import { readWill } from "./will.ts";

/** Identities without unsent draws that nobody used for that long are deleted, in milliseconds: 30 days. */
export const UNUSED_MS = 30 * 24 * 60 * 60 * 1000;

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
      page.onGone((mayReturn) => this.#leave(mayReturn)),
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
      await this.#executeWills();
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

  /** Writes what pages that went could not write any more. What cannot be written now stays for the next time. */
  async #executeWills(): Promise<void> {
    const { page, server } = this.#options;
    for (const [name, text] of page.bequests(willKey(server, ""))) {
      const will = readWill(text);
      if (will !== null) {
        const { key, owner, state } = will;
        // Whoever left a will does not come back.
        const lease = ended(owner);
        await this.#database.transact(async (transaction) => {
          const row = await transaction.objectStore("identities").get(key);
          // Another went on as this identity, or its own transaction ended after all.
          if (row?.lease.owner !== owner || (row.state?.newest ?? 0) > state.newest) return;
          await writeChanges(transaction, key, will);
          await transaction.objectStore("identities").put({ ...row, state, lease, unsent: unsentOf(state) });
        });
      }
      page.forget(name);
    }
  }

  #leave(mayReturn: boolean): void {
    const { page, server } = this.#options;
    for (const identity of this.#held) {
      // A page that comes back writes it itself, or somebody else goes on as the identity: then both would send it.
      const will = mayReturn ? null : identity.will();
      if (will !== null) page.bequeath(willKey(server, `${will.key}`), will.text);
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

function databaseName(server: string): string {
  return `inkrelay ${server.replace(/\/+$/, "")}`;
}

function handKey(server: string, room: string): string {
  return `${databaseName(server)} ${room}`;
}

function willKey(server: string, identity: string): string {
  return `${databaseName(server)} will ${identity}`;
}

function newest(rows: readonly IdentityRow[]): IdentityRow | null {
  return rows.reduce<IdentityRow | null>(
    (best, row) => (best && best.usedAt >= row.usedAt ? best : row),
    null,
  );
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
