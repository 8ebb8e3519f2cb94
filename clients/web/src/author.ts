/**
 * The author: what this participant draws. Holds the outbox, the history and the identity that they are saved under
 * together, so that no two of them disagree, and shows own draws on the board before the log has them.
 */

import type { Draw, DrawName, StrokeName, Style } from "./draw.ts";
import { History, type HistoryState } from "./history.ts";
import { type Identity, LeaseLost } from "./identity.ts";
import type { LiveBoard } from "./live-board.ts";
import { type DrawId, Outbox, type Pushed, type Refused } from "./outbox.ts";
import type { Storage } from "./storage.ts";
import { SELF } from "./stroke.ts";

/** Batches on a WebSocket that may wait for their acks at once; what is drawn meanwhile goes in the next. */
const BATCHES_IN_FLIGHT = 8;

/** Who hears of it. */
export interface AuthorHost {
  /** Something is to be sent, or to be told. */
  onChanged(): void;
  onRefused(refused: { readonly code: string; readonly message: string }): void;
  /** Another tab has the identity: the connection is to end before anything else. */
  onTakenOver(): void;
}

/** See the module. */
export class Author {
  readonly outbox: Outbox;
  readonly #history: History;
  readonly #storage: Storage;
  readonly #room: string;
  readonly #board: LiveBoard;
  readonly #host: AuthorHost;
  /** `null` while another one is being claimed. */
  #identity: Identity | null = null;
  #stopHearing: () => void = () => {};
  /** The newest save, which may still go on; never rejects. */
  #saving: Promise<void> = Promise.resolve();
  #saveQueued = false;
  #savedHistory: HistoryState | null = null;
  /** Hidden by the gesture that goes on; `null` between gestures. */
  #group: DrawId[] | null = null;

  private constructor(
    storage: Storage,
    identity: Identity,
    room: string,
    board: LiveBoard,
    host: AuthorHost,
  ) {
    this.#storage = storage;
    this.#room = room;
    this.#board = board;
    this.#host = host;
    this.outbox = new Outbox(BATCHES_IN_FLIGHT, identity.saved, performance.now());
    this.#history = new History(identity.saved.history);
    this.#adopt(identity);
    if (this.outbox.client !== null) board.identify(this.outbox.client);
    this.syncBoard();
  }

  /** Claims an identity, with all that it left unsent. */
  static async open(storage: Storage, room: string, board: LiveBoard, host: AuthorHost): Promise<Author> {
    return new Author(storage, await storage.claim(room), room, board, host);
  }

  get canUndo(): boolean {
    return this.#history.canUndo((stroke) => this.#shows(stroke));
  }

  get canRedo(): boolean {
    return this.#history.canRedo;
  }

  /** All draws up to this one are stored or refused. */
  get settled(): DrawId {
    for (const { id, stored } of this.outbox.draws()) if (!stored) return id - 1;
    return this.outbox.newest;
  }

  /** Begins a stroke and returns its number. */
  begin(style: Style, channels: number, points: readonly number[], end: boolean): number {
    const stroke = this.outbox.takeStroke();
    const draw = { kind: "begin", stroke, style, channels, points, end } as const;
    const [begin] = this.#pushAll(this.outbox.parts(draw));
    if (begin !== undefined) this.#history.onStroke(stroke, begin);
    this.#changed();
    return stroke;
  }

  extend(stroke: number, points: readonly number[], end: boolean): void {
    this.#pushAll(this.outbox.parts({ kind: "extend", stroke, points, end }));
    this.#changed();
  }

  /** An own stroke is to be as if it had not been drawn. */
  cancel(stroke: number): void {
    this.#push({ kind: "extend", stroke, points: [], end: true });
    this.#push({ kind: "erase", strokes: [[SELF, stroke]] });
    this.#history.onCancelled(stroke);
    this.#changed();
  }

  erase(strokes: readonly StrokeName[]): void {
    this.#hide(chunks(strokes, this.outbox.namesMax).map((strokes) => ({ kind: "erase", strokes })));
    this.#changed();
  }

  clear(): void {
    this.#hide([{ kind: "clear" }]);
    this.#changed();
  }

  /** What is hidden from now on is undone together. */
  beginGroup(): void {
    this.#group ??= [];
  }

  endGroup(): void {
    const group = this.#group ?? [];
    this.#group = null;
    this.#onHidden(group);
    this.#changed();
  }

  /** Takes back what others hid. */
  revoke(draws: readonly DrawName[]): void {
    this.#pushAll(chunks(draws, this.outbox.namesMax).map((draws) => ({ kind: "revoke", draws })));
    this.#changed();
  }

  undo(): void {
    this.#history.undo(
      (draw) => this.#push(draw),
      (stroke) => this.#shows(stroke),
    );
    this.#changed();
  }

  redo(): void {
    this.#history.redo((draw) => this.#push(draw));
    this.#changed();
  }

  /** A session is open: who one is, and which numbers count. */
  onWelcome(client: number): void {
    this.#board.identify(client);
    this.syncBoard();
  }

  /** These left the outbox unstored. */
  onRefused(refused: readonly Refused[]): void {
    this.#history.onRefused(refused);
    for (const { id } of refused) this.#board.onRefused(id);
    // Those that fell with another are its matter.
    for (const { code, message } of refused)
      if (code !== "pointless") this.#host.onRefused({ code, message });
  }

  /** Shows what the outbox holds and the log lacks. */
  syncBoard(): void {
    this.#board.sync(this.outbox.draws());
  }

  /** The outbox changed by what the connection told it. */
  onOutbox(): void {
    this.#changed();
  }

  /** Draws as another participant from now on, since another tab has the identity. Never rejects. */
  async takeAnotherIdentity(): Promise<void> {
    this.#stopHearing();
    // Whoever took the ticket alone has none of the draws: then they are an orphan's now.
    void this.#identity?.release();
    this.#identity = null;
    this.#savedHistory = null;
    this.outbox.onTakenOver();
    this.#adopt(await this.#storage.claim(this.#room, true));
    this.syncBoard();
    this.#changed();
  }

  /** Saves what was drawn up to now, as far as it can be; what is drawn later is not saved. */
  async close(): Promise<void> {
    this.#save();
    await this.#saving;
    this.#stopHearing();
    this.#identity = null;
  }

  #adopt(identity: Identity): void {
    this.#identity = identity;
    this.#stopHearing = identity.onLost(() => this.#host.onTakenOver());
  }

  /** What is hidden together is undone together. */
  #hide(draws: readonly Draw[]): void {
    const hidden = this.#pushAll(draws);
    if (this.#group === null) this.#onHidden(hidden);
    else this.#group.push(...hidden);
  }

  /** As far as the undo of so many fits one draw. */
  #onHidden(draws: readonly DrawId[]): void {
    for (const together of chunks(draws, this.outbox.namesMax)) {
      this.#history.onHidden(together);
    }
  }

  /** Draws that belong together; returns those that were taken. */
  #pushAll(draws: readonly Draw[]): DrawId[] {
    const taken: DrawId[] = [];
    for (const draw of draws) {
      const pushed = this.#push(draw);
      if (pushed.kind === "taken") taken.push(pushed.id);
      // The others would be refused too, and it is told once.
      else if (pushed.kind !== "pointless") break;
    }
    return taken;
  }

  #push(draw: Draw): Pushed {
    const pushed = this.outbox.push(draw);
    switch (pushed.kind) {
      case "taken": {
        // As the outbox means it: a stroke may go on as another one.
        const own = this.outbox.draw(pushed.id);
        if (own !== null) this.#board.push(own);
        break;
      }
      case "full": {
        const message = `${pushed.draws} draws with ${pushed.bytes} bytes wait for the server, and no more are taken`;
        this.#host.onRefused({ code: "outbox_full", message });
        break;
      }
      case "too_large": {
        const message = `the draw has ${pushed.bytes} bytes, and ${pushed.max} are allowed`;
        this.#host.onRefused({ code: "too_large", message });
        break;
      }
      case "invalid":
        this.#host.onRefused({ code: "invalid_draw", message: "no server would take this draw" });
        break;
      case "pointless":
        break;
    }
    return pushed;
  }

  #shows(stroke: number): boolean {
    return this.outbox.namesOfStroke(stroke).some((name) => this.#board.find(name) !== undefined);
  }

  #changed(): void {
    this.#host.onChanged();
    if (this.#saveQueued) return;
    this.#saveQueued = true;
    // What one task draws is saved, and then sent, together.
    queueMicrotask(() => {
      this.#saveQueued = false;
      this.#save();
    });
  }

  /** Saves what changed. One after the other: the storage keeps their order. */
  #save(): void {
    const identity = this.#identity;
    if (identity === null) return;
    const changes = this.outbox.changes();
    if (changes === null) return;
    const history = this.#history.state();
    const was = this.#savedHistory;
    const isSame = was !== null && was.done === history.done && was.undone === history.undone;
    this.#savedHistory = history;
    const save = identity.save({ ...changes, history: isSame ? null : history });
    this.#saving = save.then(
      () => {
        if (this.#identity !== identity) return;
        this.outbox.onPersisted(changes.revision);
        this.#host.onChanged();
      },
      (error: unknown) => {
        if (this.#identity !== identity) return;
        if (error instanceof LeaseLost) this.#host.onTakenOver();
        else throw error;
      },
    );
  }
}

/** In lists of at most `size`. */
function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) =>
    items.slice(at * size, (at + 1) * size),
  );
}
