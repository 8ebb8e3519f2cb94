/** The client: draws in one room, and keeps that room's board. */
import type { Picture } from "./board.ts";
import type { LogRecord, Participant, Profile, Role, SessionLimits, StrokeName, Style } from "./draw.ts";

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

/** What people are told about the connection. Whether all is saved is {@link Client.unsent}. */
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
  /** How many draws the store is not known to have. 0: everything is saved. */
  unsent: number;
  /** A draw was refused and is not tried again; its ink is gone from the board. */
  refused: { readonly code: string; readonly message: string };
  participants: readonly Participant[];
  pointer: { readonly client: number; readonly x: number; readonly y: number };
  /** Whether there is something to undo and to redo. */
  history: { readonly canUndo: boolean; readonly canRedo: boolean };
  /** What the session may do, and within which limits; `id` is who one is. */
  welcome: { readonly id: number; readonly role: Role; readonly limits: SessionLimits };
  /** Whether unsent ink survives a reload: false where IndexedDB is missing or broken. */
  durable: boolean;
}

/** A participant in one room. */
export declare class Client {
  /** Opens the outbox, then connects and stays connected. Resolves when it can take draws: no network needed. */
  static open(options: ClientOptions): Promise<Client>;

  readonly room: string;
  /** Who one is; `null` before the first welcome. */
  readonly id: number | null;
  /** `null` before the first welcome. */
  readonly role: Role | null;
  readonly state: State;
  /** Draws that the store is not known to have. */
  readonly unsent: number;
  readonly participants: readonly Participant[];
  readonly canUndo: boolean;
  readonly canRedo: boolean;
  /** The board as this participant sees it: the log's, and on top one's own draws that the log lacks yet. */
  readonly board: Picture;

  on<K extends keyof ClientEvents>(event: K, listener: (value: ClientEvents[K]) => void): () => void;

  /** Begins a stroke and returns its number. Points as in {@link Draw}. */
  begin(style: Style, channels: number, points: readonly number[], end?: boolean): number;
  /** More points of a stroke of one's own. */
  extend(stroke: number, points: readonly number[], end?: boolean): void;
  /** Takes back an own stroke as if it had not been drawn: not part of what undo goes through. */
  cancel(stroke: number): void;
  /** Erases strokes, anyone's; their author {@link SELF} or an id. */
  erase(strokes: readonly StrokeName[]): void;
  /** Erases that belong to one gesture are undone together: between these two calls. */
  beginGroup(): void;
  endGroup(): void;
  clear(): void;
  undo(): void;
  redo(): void;
  /** Where the pen hovers, in sixteenths of a CSS pixel. */
  pointer(x: number, y: number): void;
  setProfile(profile: Profile): void;
  setToken(token: string): void;
  /** Tries to connect now instead of after the wait. */
  retry(): void;
  /** The whole log so far, in order, page by page, for a time-lapse. `head` tells how many there will be. */
  history(
    signal?: AbortSignal,
  ): AsyncIterable<{ readonly first: number; readonly records: readonly LogRecord[]; readonly head: number }>;
  /** Resolves when all is stored or refused. */
  flush(): Promise<void>;
  /** Says goodbye. Unsent draws stay in the outbox. */
  close(): Promise<void>;
}
