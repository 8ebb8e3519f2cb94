/** A client without a network: every state that people meet can be had by calling it. For looking at the page only. */

import type { Relay } from "../../../app/app-state.ts";
import {
  Board,
  type ClientEvents,
  type LogRecord,
  type Moderated,
  type Participant,
  type Profile,
  type Role,
  type State,
  type StrokeName,
  type Style,
} from "../../../src/index.ts";

type Listeners = { readonly [K in keyof ClientEvents]: Set<(value: ClientEvents[K]) => void> };

/** Who one is in every state. */
export const OWN_ID = 7;

export class FakeClient implements Relay {
  readonly room: string;
  id: number | null = OWN_ID;
  role: Role | null = 1;
  state: State = { kind: "live", transport: "websocket" };
  unsentChanges = 0;
  full = false;
  locked = false;
  participants: readonly Participant[] = [];
  canUndo = false;
  canRedo = false;
  readonly board = new Board();
  readonly log: LogRecord[] = [];
  readonly #listeners: Listeners = {
    state: new Set(),
    unsent: new Set(),
    full: new Set(),
    locked: new Set(),
    refused: new Set(),
    participants: new Set(),
    pointer: new Set(),
    history: new Set(),
    welcome: new Set(),
    durable: new Set(),
  };
  #stroke = 0;
  #n = 0;

  constructor(room: string, profile: Profile) {
    this.room = room;
    this.participants = [{ client: OWN_ID, ...profile }];
  }

  on<K extends keyof ClientEvents>(event: K, listener: (value: ClientEvents[K]) => void): () => void {
    const listeners: Set<(value: ClientEvents[K]) => void> = this.#listeners[event];
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  tell<K extends keyof ClientEvents>(event: K, value: ClientEvents[K]): void {
    for (const listener of this.#listeners[event]) listener(value);
  }

  setState(state: State): void {
    this.state = state;
    this.tell("state", state);
  }

  setUnsent(unsent: number): void {
    this.unsentChanges = unsent;
    this.tell("unsent", unsent);
  }

  setFull(full: boolean): void {
    this.full = full;
    this.tell("full", full);
  }

  setParticipants(participants: readonly Participant[]): void {
    this.participants = participants;
    this.tell("participants", participants);
  }

  add(author: number, draw: LogRecord["draw"], at = Date.now()): void {
    const record: LogRecord = { author, n: ++this.#n, at, draw };
    this.log.push(record);
    this.board.apply(record);
    this.canUndo = true;
    this.tell("history", { canUndo: true, canRedo: this.canRedo });
  }

  setLocked(locked: boolean): void {
    this.locked = locked;
    this.tell("locked", locked);
  }

  async moderate(): Promise<Moderated> {
    return { kind: "done", erased: 0, records: [] };
  }

  revoke(): void {}

  begin(style: Style, channels: number, points: readonly number[], end = false): number {
    const stroke = ++this.#stroke;
    this.add(OWN_ID, { kind: "begin", stroke, style, channels, points, end });
    return stroke;
  }

  extend(stroke: number, points: readonly number[], end = false): void {
    this.add(OWN_ID, { kind: "extend", stroke, points, end });
  }

  cancel(stroke: number): void {
    this.erase([[OWN_ID, stroke]]);
  }

  erase(strokes: readonly StrokeName[]): void {
    this.add(OWN_ID, { kind: "erase", strokes });
  }

  clear(): void {
    this.add(OWN_ID, { kind: "clear" });
  }

  undo(): void {
    this.canRedo = true;
    this.tell("history", { canUndo: this.canUndo, canRedo: true });
  }

  redo(): void {}
  beginGroup(): void {}
  endGroup(): void {}
  pointer(): void {}

  setProfile(profile: Profile): void {
    const others = this.participants.filter(({ client }) => client !== OWN_ID);
    this.setParticipants([{ client: OWN_ID, ...profile }, ...others]);
  }

  retry(): void {
    this.setState({ kind: "live", transport: "websocket" });
  }

  async *history(): AsyncGenerator<{ first: number; records: readonly LogRecord[]; head: number }> {
    const page = 1_000;
    for (let i = 0; i < this.log.length; i += page) {
      yield { first: i + 1, records: this.log.slice(i, i + page), head: this.log.length };
    }
  }
}
