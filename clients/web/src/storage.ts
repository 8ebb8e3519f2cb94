/** Storage: where identities and their unsent draws survive the page. */
import type { HistoryState } from "./history.ts";
import type { OutboxChanges, OutboxState, QueuedDraw } from "./outbox.ts";
import type { Page } from "./page.ts";

/** This tab's identity was taken over by another tab, while this one was frozen. Nothing was written. */
export declare class LeaseLost extends Error {}

/** What an identity holds when it is claimed. */
export interface Saved {
  readonly state: OutboxState | null;
  readonly draws: readonly QueuedDraw[];
  readonly history: HistoryState | null;
}

/** One transaction's worth. */
export interface Save extends OutboxChanges {
  readonly history: HistoryState;
}

/** A session's identity in one room: the right to draw as one client. One tab holds it at a time. */
export declare class Identity {
  readonly room: string;
  readonly saved: Saved;
  /** Writes all or nothing. Rejects with {@link LeaseLost} alone; other troubles make the storage forget with the page. */
  save(save: Save): Promise<void>;
  /** Called back when another tab took it over; at most once. */
  onLost(listener: () => void): () => void;
  /** Gives it back: the next tab may have it. */
  release(): Promise<void>;
  /** It is of no use any more: all its draws are stored or refused. */
  delete(): Promise<void>;
}

export interface StorageOptions {
  /** The server's address as of {@link ClientOptions.server}: identities are apart per server. */
  readonly server: string;
  readonly kind: "indexeddb" | "memory";
  readonly page: Page;
  /** Wall clock, ms since 1970: leases are compared across tabs. */
  readonly now: () => number;
}

export declare class Storage {
  /** Never rejects: without IndexedDB, what is written is forgotten with the page. */
  static open(options: StorageOptions): Promise<Storage>;
  /** Whether what is saved survives the page. */
  readonly durable: boolean;
  onDurable(listener: (durable: boolean) => void): () => void;
  /** This tab's identity: the one from before the reload, else the newest free one, else (or with `fresh`) a new one. */
  claim(room: string, fresh?: boolean): Promise<Identity>;
  /** A free identity of the room with draws that may be unsent, one at a time; `null` when there is none. */
  claimOrphan(room: string): Promise<Identity | null>;
  /** Releases all that is held. */
  close(): Promise<void>;
}
