/** An identity: what makes a session the one it was, held by this page alone; see storage.ts. */
import {
  type Changes,
  type Database,
  DatabaseGone,
  type IdentityRow,
  type Transaction,
  unsentOf,
  writeChanges,
} from "./database.ts";
import type { HistoryState } from "./history.ts";
import { ended, type Lease, renewed } from "./lease.ts";
import type { OutboxChanges, OutboxState, QueuedDraw } from "./outbox.ts";
import { writeWill } from "./will.ts";

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

/** What an identity needs of its storage. */
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
  /** What the transaction that is under way writes. */
  #flying: Changes | null = null;
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
    await this.#end(ended(this.#holding.owner));
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

  /**
   * @internal What is not known to be written yet, as text, and be it no more than that nobody holds this any more: that
   * too takes a transaction. `null` where it cannot be left.
   */
  will(): { readonly key: number; readonly text: string } | null {
    const { key, owner } = this.#holding;
    const state = this.#state ?? this.saved.state;
    if (key === null || state === null || this.#lost || this.#released) return null;
    const flying = this.#flying ?? { put: [], remove: [], history: null };
    const put = [...flying.put.filter(({ id }) => !this.#remove.has(id)), ...this.#put.values()];
    const remove = [...flying.remove, ...this.#remove];
    const history = this.#history ?? flying.history;
    const text = writeWill({ key, owner, put, remove, state, history });
    return text === null ? null : { key, text };
  }

  /**
   * @internal The page is going: returns the word by which the next page in this tab gets it. Others get it when its will
   * is there, or when the lease is over: browsers may pass on what a dying page wrote to the database before what it
   * wrote to its will, and whoever went on as this identity in between would go on without that.
   */
  hand(): string | null {
    const { key, owner, isMain, now } = this.#holding;
    if (key === null || this.#lost || this.#released) return null;
    this.handed = `${key} ${owner}`;
    void this.#end(renewed(owner, now(), false));
    return isMain ? this.handed : null;
  }

  async #write(): Promise<void> {
    if (this.#lost) throw new LeaseLost("another tab has this identity");
    // The transaction before took it along.
    if (!this.#isDirty) return;
    this.#isDirty = false;
    const [put, remove, state, history] = [this.#put, this.#remove, this.#state, this.#history];
    [this.#put, this.#remove, this.#history] = [new Map(), new Set(), null];
    const changes = { put: [...put.values()], remove: [...remove], history };
    this.#flying = changes;
    try {
      await this.#fenced(async (row, key, transaction) => {
        await writeChanges(transaction, key, changes);
        return { ...row, state, unsent: state ? unsentOf(state) : 0 };
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
    } finally {
      this.#flying = null;
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
      // While the page goes, what it still writes must not hold others up for long: it may be the last that it can do.
      const lease = renewed(owner, now(), this.handed === null && isHidden());
      await identities.put({ ...changed, lease, usedAt: now() });
    });
  }

  async #end(lease: Lease): Promise<void> {
    const { database, key, owner } = this.#holding;
    if (key === null || this.#lost) return;
    try {
      await database.transact(async (transaction) => {
        const identities = transaction.objectStore("identities");
        const row = await identities.get(key);
        if (row?.lease.owner === owner) await identities.put({ ...row, lease });
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
