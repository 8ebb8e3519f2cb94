/** The options of a client, and what it tells: how to connect, and what happened. */
import type { Participant, Profile, Role, SessionLimits } from "./draw.ts";

/** How to reach a room. */
export type Transport = "auto" | "websocket" | "long-poll";

/** Where to connect, and as whom. */
export interface ClientOptions {
  /** The server's address: `https://host`, with a path if it stands behind one. */
  readonly server: string;
  readonly room: string;
  readonly profile?: Profile;
  /** Proves a role, where the server wants that. */
  readonly token?: string;
  readonly transport?: Transport;
  /** Where unsent draws wait; "memory" forgets them with the page. Default: IndexedDB where there is one. */
  readonly storage?: "indexeddb" | "memory";
  readonly timing?: Partial<Timing>;
}

/** How long to wait for what, in milliseconds. */
export interface Timing {
  /** For a socket to open and the welcome to come. */
  readonly open: number;
  /** Nothing received for that long, and a socket is dead. Servers send a heartbeat every 20 s. */
  readonly silence: number;
  /** After waking up, for the answer to a probe. */
  readonly probe: number;
  /** A socket that ends earlier died young. */
  readonly young: number;
  /** Sockets in a row that were refused or died young before long-polling takes over (a count). */
  readonly youngDeaths: number;
  /** How long long-polling goes on before a socket is tried again; doubles with every failure, to 16 times. */
  readonly socketAgain: number;
  readonly backoffFirst: number;
  readonly backoffMax: number;
  /** How long the server is asked to hold a poll; at most 55,000. */
  readonly poll: number;
  /** How long the oldest batch may go without an answer. */
  readonly answer: number;
}

/** What {@link ClientOptions.timing} does not say. */
export const TIMING: Timing = {
  open: 10_000,
  silence: 45_000,
  probe: 4_000,
  young: 5_000,
  youngDeaths: 2,
  socketAgain: 30_000,
  backoffFirst: 250,
  backoffMax: 15_000,
  poll: 25_000,
  answer: 15_000,
};

/** What people are told about the connection. Whether all is saved is `Client.unsent`. */
export type State =
  /** Not connected yet since the client was opened. */
  | { readonly kind: "connecting" }
  /** Catching up with the log: `have` of `head` records. */
  | { readonly kind: "joining"; readonly have: number; readonly head: number }
  | { readonly kind: "live"; readonly transport: "websocket" | "long-poll" }
  /** The connection is gone and comes back by itself. `why` in plain words; `retryAt` as of `Date.now()`. */
  | { readonly kind: "offline"; readonly why: string; readonly retryAt: number; readonly draining: boolean }
  /** For good: trying again would not help. `code` as in PROTOCOL.md's errors, or the close code. */
  | { readonly kind: "refused"; readonly code: string; readonly message: string };

/** What happened. */
export interface ClientEvents {
  state: State;
  /** How many draws the store is not known to have. 0: everything is saved. Told too when only `Client.unsentChanges` is another. */
  unsent: number;
  /** A draw was refused and is not tried again; its ink is gone from the board. */
  refused: { readonly code: string; readonly message: string };
  /** Whether the room is known to take no more draws: see `Client.full`. */
  full: boolean;
  /** Whether the room is locked, so that only moderators draw. */
  locked: boolean;
  participants: readonly Participant[];
  pointer: { readonly client: number; readonly x: number; readonly y: number };
  /** Whether there is something to undo and to redo. */
  history: { readonly canUndo: boolean; readonly canRedo: boolean };
  /** What the session may do, and within which limits; `id` is who one is. */
  welcome: { readonly id: number; readonly role: Role; readonly limits: SessionLimits };
  /** Whether unsent ink survives a reload: false where IndexedDB is missing or broken; then told after opening, too. */
  durable: boolean;
}
