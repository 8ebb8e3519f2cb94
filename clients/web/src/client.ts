/** The client: draws in one room, and keeps that room's board. */
import { Author } from "./author.ts";
import type { Picture } from "./board.ts";
import { Connection } from "./connection.ts";
import type { DrawName, Participant, Profile, Role, StrokeName, Style } from "./draw.ts";
import { Emitter } from "./emitter.ts";
import { Endpoint } from "./http.ts";
import { LiveBoard } from "./live-board.ts";
import { type Moderated, type Moderation, moderate } from "./moderation.ts";
import { type ClientEvents, type ClientOptions, type State, TIMING } from "./options.ts";
import { Orphans } from "./orphans.ts";
import { browserPage, hasIndexedDb } from "./page.ts";
import { type Listener, Session } from "./session.ts";
import { Storage } from "./storage.ts";
import { type LogPage, readTimeline } from "./timeline.ts";
import { onWakeups } from "./wakeups.ts";

/** A participant in one room. */
export class Client {
  readonly room: string;
  readonly #emitter = new Emitter<ClientEvents>();
  readonly #endpoint: Endpoint;
  readonly #storage: Storage;
  readonly #board: LiveBoard;
  readonly #author: Author;
  readonly #session: Session;
  readonly #connection: Connection;
  readonly #orphans: Orphans;
  readonly #stopWakeups: () => void;
  readonly #stopDurable: () => void;
  #token: string | null;
  #role: Role | null = null;
  #participants: readonly Participant[] = [];
  #locked = false;
  /** As of the newest welcome: what the store had of this client, in which log. */
  #welcomed = { epoch: 0, lastN: 0 };
  #told = { unsent: 0, unsentChanges: 0, full: false, canUndo: false, canRedo: false };
  #flushes: { readonly through: number; readonly done: () => void; readonly fail: (error: Error) => void }[] =
    [];
  #isClosed = false;
  readonly #closing = new AbortController();

  /**
   * Opens the outbox, then connects and stays connected. Resolves when it can take draws: no network needed. Rejects
   * with a `TypeError` when `server` is no address.
   */
  static async open(options: ClientOptions): Promise<Client> {
    const endpoint = new Endpoint(options.server, options.room);
    const kind = options.storage ?? (hasIndexedDb() ? "indexeddb" : "memory");
    const { server, room } = options;
    const storage = await Storage.open({ server, kind, page: browserPage(), now: () => Date.now() });
    const board = new LiveBoard();
    // The author needs someone to tell before there is a client, and has nothing to say until then.
    let client: Client | undefined;
    const author = await Author.open(storage, room, board, {
      onChanged: () => {
        if (client !== undefined) client.#onOutbox();
      },
      onRefused: (refused) => {
        if (client !== undefined) client.#emitter.emit("refused", refused);
      },
      onTakenOver: () => {
        if (client !== undefined) client.#connection.onTakenOver();
      },
    });
    client = new Client(options, endpoint, storage, board, author);
    return client;
  }

  private constructor(
    options: ClientOptions,
    endpoint: Endpoint,
    storage: Storage,
    board: LiveBoard,
    author: Author,
  ) {
    this.room = options.room;
    this.#endpoint = endpoint;
    this.#storage = storage;
    this.#board = board;
    this.#author = author;
    this.#token = options.token ?? null;
    const timing = { ...TIMING, ...options.timing };
    this.#session = new Session(author.outbox, this.#listener(), options.profile ?? null, this.#token);
    this.#connection = new Connection(endpoint, this.#session, options.transport ?? "auto", timing, {
      onState: (state) => {
        if (state.kind === "live") this.#orphans.look();
        this.#emitter.emit("state", state);
      },
      takeAnotherIdentity: () => this.#author.takeAnotherIdentity(),
    });
    this.#orphans = new Orphans(endpoint, storage, options.room, () => this.#token);
    this.#stopWakeups = onWakeups((wakeup) => this.#connection.onWakeup(wakeup));
    this.#stopDurable = storage.onDurable((durable) => this.#emitter.emit("durable", durable));
    // Once whoever opened it had the time to listen.
    if (!storage.durable) setTimeout(() => this.#emitter.emit("durable", storage.durable), 0);
    this.#told = this.#toTell();
    void this.#connection.keep();
  }

  /** Who one is; `null` before the first welcome. */
  get id(): number | null {
    return this.#author.outbox.client;
  }

  /** `null` before the first welcome. */
  get role(): Role | null {
    return this.#role;
  }

  get state(): State {
    return this.#connection.state;
  }

  /** Draws that the store is not known to have. */
  get unsent(): number {
    return this.#author.outbox.pending;
  }

  /** The same as people count: own strokes of which something is unsent, and other unsent draws. 0 just when `unsent` is. */
  get unsentChanges(): number {
    return this.#author.outbox.pendingChanges;
  }

  /**
   * Whether the room is known to take no more draws: from the first that is refused with `room_full` until a later one
   * is stored or the log is another one. It is not saved: a new page finds out by its first draw.
   */
  get full(): boolean {
    return this.#author.outbox.roomFull;
  }

  get participants(): readonly Participant[] {
    return this.#participants;
  }

  /** Whether the room is locked: then only moderators draw. As the newest connection said. */
  get locked(): boolean {
    return this.#locked;
  }

  get canUndo(): boolean {
    return this.#author.canUndo;
  }

  get canRedo(): boolean {
    return this.#author.canRedo;
  }

  /** Whether unsent ink survives a reload. */
  get durable(): boolean {
    return this.#storage.durable;
  }

  /** The board as this participant sees it: the log's, and on top one's own draws that the log lacks yet. */
  get board(): Picture {
    return this.#board;
  }

  /** Calls back on every such event. Returns how to end that. */
  on<K extends keyof ClientEvents>(event: K, listener: (value: ClientEvents[K]) => void): () => void {
    return this.#emitter.on(event, listener);
  }

  /** Begins a stroke and returns its number. Points as in {@link Draw}. */
  begin(style: Style, channels: number, points: readonly number[], end = false): number {
    return this.#author.begin(style, channels, points, end);
  }

  /** More points of a stroke of one's own. */
  extend(stroke: number, points: readonly number[], end = false): void {
    this.#author.extend(stroke, points, end);
  }

  /** Takes back an own stroke as if it had not been drawn: not part of what undo goes through. */
  cancel(stroke: number): void {
    this.#author.cancel(stroke);
  }

  /** Erases strokes, anyone's; their author {@link SELF} or an id. */
  erase(strokes: readonly StrokeName[]): void {
    this.#author.erase(strokes);
  }

  /** Erases that belong to one gesture are undone together: between these two calls. */
  beginGroup(): void {
    this.#author.beginGroup();
  }

  endGroup(): void {
    this.#author.endGroup();
  }

  clear(): void {
    this.#author.clear();
  }

  undo(): void {
    this.#author.undo();
  }

  redo(): void {
    this.#author.redo();
  }

  /** Takes back erases, clears and revokes of others: for moderators. Not part of what undo goes through. */
  revoke(draws: readonly DrawName[]): void {
    this.#author.revoke(draws);
  }

  /** Does something as a moderator; only moderators may. Resolves when it is done, or is not. Never rejects. */
  moderate(what: Moderation): Promise<Moderated> {
    return moderate(this.#endpoint, this.#session.credentials, what, this.#closing.signal);
  }

  /** Where the pen hovers, in sixteenths of a CSS pixel. Others see it only while this client has a WebSocket. */
  pointer(x: number, y: number): void {
    const { state } = this;
    if (state.kind === "live" && state.transport === "websocket") this.#session.setPointer(x, y);
  }

  setProfile(profile: Profile): void {
    this.#session.setProfile(profile);
  }

  setToken(token: string): void {
    this.#token = token;
    this.#session.setToken(token);
    if (this.state.kind === "refused") this.#connection.retry();
  }

  /** Tries to connect now instead of after the wait; also after a refusal. */
  retry(): void {
    this.#connection.retry();
  }

  /**
   * The whole log so far, in order, page by page, for a time-lapse. `head` tells how many there will be. Throws an
   * `Error` when the server cannot be reached, and when the signal aborts.
   */
  history(signal?: AbortSignal): AsyncIterable<LogPage> {
    return readTimeline(this.#endpoint, this.#token, signal ?? new AbortController().signal);
  }

  /** Resolves when all that was drawn up to now is stored or refused. Rejects when the client is closed before. */
  flush(): Promise<void> {
    const through = this.#author.outbox.newest;
    return new Promise((done, fail) => {
      this.#flushes.push({ through, done, fail });
      this.#settle();
    });
  }

  /** Says goodbye. Unsent draws stay in the outbox. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#closing.abort();
    this.#stopWakeups();
    this.#connection.close();
    await this.#author.close();
    this.#settle();
    for (const { fail } of this.#flushes.splice(0)) fail(new Error("the client was closed"));
    await this.#orphans.close();
    this.#stopDurable();
    await this.#storage.close();
  }

  #listener(): Listener {
    return {
      onWelcome: ({ client, role, limits, position }) => {
        if (position.epoch !== this.#welcomed.epoch) this.#author.outbox.onOtherLog();
        this.#welcomed = { epoch: position.epoch, lastN: limits.lastN };
        this.#role = role;
        this.#author.onWelcome(client);
        this.#emitter.emit("welcome", { id: client, role, limits });
      },
      onRecords: (records) => {
        this.#board.apply(records);
        this.#tell();
      },
      onReset: (records, { epoch }) => {
        // What the welcome acked stands in the log that this board is of, if it is still that log.
        const storedN = epoch === this.#welcomed.epoch ? this.#welcomed.lastN : 0;
        this.#board.beginReset();
        this.#board.addReset(records);
        this.#board.finishReset(this.#author.outbox.draws(), storedN);
        this.#tell();
      },
      onRefused: (refused) => this.#author.onRefused(refused),
      onOutbox: () => this.#author.onOutbox(),
      onProgress: () => this.#connection.onProgress(),
      onParticipants: (participants) => {
        this.#participants = participants;
        this.#emitter.emit("participants", participants);
      },
      onLocked: (locked) => {
        if (locked === this.#locked) return;
        this.#locked = locked;
        this.#emitter.emit("locked", locked);
      },
      onPointer: ({ client, x, y }) => this.#emitter.emit("pointer", { client, x, y }),
    };
  }

  /** The outbox changed, or something of it was saved. */
  #onOutbox(): void {
    this.#session.wake();
    this.#settle();
    this.#tell();
  }

  #settle(): void {
    if (this.#flushes.length === 0) return;
    const { settled } = this.#author;
    const done = this.#flushes.filter(({ through }) => through <= settled);
    if (done.length === 0) return;
    this.#flushes = this.#flushes.filter(({ through }) => through > settled);
    for (const flush of done) flush.done();
  }

  #toTell(): Pick<Client, "unsent" | "unsentChanges" | "full" | "canUndo" | "canRedo"> {
    const { unsent, unsentChanges, full, canUndo, canRedo } = this;
    return { unsent, unsentChanges, full, canUndo, canRedo };
  }

  #tell(): void {
    const was = this.#told;
    this.#told = this.#toTell();
    const { unsent, unsentChanges, full, canUndo, canRedo } = this.#told;
    if (unsent !== was.unsent || unsentChanges !== was.unsentChanges) this.#emitter.emit("unsent", unsent);
    if (full !== was.full) this.#emitter.emit("full", full);
    if (canUndo !== was.canUndo || canRedo !== was.canRedo)
      this.#emitter.emit("history", { canUndo, canRedo });
  }
}
