/** The database: the tables in which identities and their draws stand, and the connection to it. */
import { type DBSchema, type IDBPDatabase, type IDBPTransaction, openDB, type StoreNames } from "idb";
import type { HistoryState } from "./history.ts";
import type { Lease } from "./lease.ts";
import type { OutboxState, QueuedDraw } from "./outbox.ts";

/** Raise it with every change of the tables, and bring the older ones up in `upgrade`. */
const VERSION = 1;
/** How long opening may take, in milliseconds. A page that does not let go of an older version would block it for ever. */
export const OPEN_MS = 3_000;
/** How long a transaction may take, in milliseconds: some browsers let one hang after they were in the background. */
export const TRANSACTION_MS = 5_000;

/** One identity, without its draws. */
export interface IdentityRow {
  readonly key?: number;
  readonly room: string;
  readonly lease: Lease;
  /** When it was written last, in ms since 1970. */
  readonly usedAt: number;
  /** How many of its draws the store is not known to have. */
  readonly unsent: number;
  readonly state: OutboxState | null;
}

export interface Tables extends DBSchema {
  identities: { key: number; value: IdentityRow; indexes: { room: string } };
  /** By identity and draw id. */
  draws: { key: [number, number]; value: QueuedDraw };
  histories: { key: number; value: HistoryState };
}

type Names = StoreNames<Tables>;
export type Transaction = IDBPTransaction<Tables, Names[], "readwrite">;

/** Transactions in a row that may hang before nothing more is expected of the database (a count). */
const HANGS_MAX = 2;

/** Why nothing can be written any more: the database cannot be opened, or is gone. */
export class DatabaseGone extends Error {}

class Late extends Error {}

/** Rejects with {@link Late} if the promise takes longer than that. */
async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Late(`${what} took longer than ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** One connection, opened when it is wanted, and again when the browser or another tab closed it. */
export class Database {
  readonly #name: string;
  #connection: Promise<IDBPDatabase<Tables>> | null = null;
  #hangs = 0;
  /** Set for good when it cannot be opened: to try again with every write would make each of them slow. */
  #gone: DatabaseGone | null = null;

  constructor(name: string) {
    this.#name = name;
  }

  get isGone(): boolean {
    return this.#gone !== null;
  }

  /** Nothing more is read or written. */
  giveUp(why: string): void {
    this.#gone ??= new DatabaseGone(why);
    this.close();
  }

  close(): void {
    this.#connection?.then(
      (database) => database.close(),
      () => {},
    );
    this.#connection = null;
  }

  /**
   * Runs `work` in one transaction over all tables, which is written whole or not at all. A connection that was closed
   * under us is opened again, once. Rejects with what `work` threw, with {@link DatabaseGone}, or as IndexedDB does.
   */
  async transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    try {
      return await this.#attempt(work);
    } catch (error) {
      const wasClosed =
        error instanceof DOMException &&
        ["InvalidStateError", "UnknownError", "AbortError"].includes(error.name);
      if (!wasClosed) throw error;
      this.close();
      return await this.#attempt(work);
    }
  }

  async #attempt<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const database = await this.#connect();
    const tables: Names[] = ["identities", "draws", "histories"];
    // Relaxed: the operating system has it then, and a crash of the page or browser loses nothing.
    const transaction = database.transaction(tables, "readwrite", { durability: "relaxed" });
    const done = transaction.done;
    // Its failure is told by `work` or below; both would be one rejection too many.
    done.catch(() => {});
    try {
      const written = work(transaction).then(async (result) => {
        await done;
        return result;
      });
      const result = await within(TRANSACTION_MS, "a transaction", written);
      this.#hangs = 0;
      return result;
    } catch (error) {
      try {
        transaction.abort();
      } catch {
        // It is over already.
      }
      if (error instanceof DatabaseGone) this.giveUp(error.message);
      if (error instanceof Late) this.#onHang(error);
      // A request that was aborted says no more than that; the transaction knows why, for example for want of space.
      if (transaction.error) throw transaction.error;
      throw error;
    }
  }

  /** A page that was frozen for a while sees the same, so that the next write may have better luck. */
  #onHang(error: Late): void {
    this.#hangs += 1;
    if (this.#hangs >= HANGS_MAX) this.giveUp(error.message);
    else this.close();
  }

  #connect(): Promise<IDBPDatabase<Tables>> {
    if (this.#gone) return Promise.reject(this.#gone);
    this.#connection ??= this.#open();
    return this.#connection;
  }

  async #open(): Promise<IDBPDatabase<Tables>> {
    let isLate = false;
    const forget = () => {
      this.#connection = null;
    };
    try {
      const opening = openDB<Tables>(this.#name, VERSION, {
        upgrade(database) {
          const identities = database.createObjectStore("identities", {
            keyPath: "key",
            autoIncrement: true,
          });
          identities.createIndex("room", "room");
          database.createObjectStore("draws");
          database.createObjectStore("histories");
        },
        // Another tab runs a newer version of the page, or deletes the database: let go of it.
        blocking: (_current, _blocked, event) => {
          forget();
          if (event.target instanceof IDBDatabase) event.target.close();
        },
        terminated: forget,
      });
      opening.then(
        (database) => isLate && database.close(),
        () => {},
      );
      return await within(OPEN_MS, "opening the database", opening);
    } catch (error) {
      isLate = true;
      const why = error instanceof Error ? error.message : String(error);
      this.#gone = new DatabaseGone(why, { cause: error });
      throw this.#gone;
    }
  }
}

/** What one transaction writes beside the identity's row: first goes what is removed. */
export interface Changes {
  readonly put: readonly QueuedDraw[];
  readonly remove: readonly number[];
  /** `null` where it has not changed. */
  readonly history: HistoryState | null;
}

export async function writeChanges(transaction: Transaction, key: number, changes: Changes): Promise<void> {
  const { put, remove, history } = changes;
  const draws = transaction.objectStore("draws");
  await Promise.all([
    ...ranges(new Set(remove)).map(([from, to]) => draws.delete(IDBKeyRange.bound([key, from], [key, to]))),
    ...put.map((draw) => draws.put(draw, [key, draw.id])),
    ...(history ? [transaction.objectStore("histories").put(history, key)] : []),
  ]);
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

export function drawsOf(key: number): IDBKeyRange {
  return IDBKeyRange.bound([key, 0], [key, Number.MAX_SAFE_INTEGER]);
}

/** How many draws of such an outbox the store is not known to have. */
export function unsentOf(state: OutboxState): number {
  return state.last - state.stored;
}
