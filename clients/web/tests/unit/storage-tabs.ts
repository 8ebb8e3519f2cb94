/** Tabs of one browser that share a database, and what they draw, for tests of the storage. */
import "fake-indexeddb/auto";
import { expect } from "vitest";
import type { Draw } from "../../src/draw.ts";
import type { Identity } from "../../src/identity.ts";
import { Outbox } from "../../src/outbox.ts";
import type { Page } from "../../src/page.ts";
import { Storage } from "../../src/storage.ts";

const begin = (stroke: number): Draw => ({
  ...{
    kind: "begin",
    stroke,
    style: { tool: 0, rgba: 255, width: 32 },
    channels: 0,
    points: [0, 0],
    end: true,
  },
});
const limits = {
  bytesPerDraw: 0,
  drawsPerBatch: 0,
  bytesPerMessage: 0,
  batchesPerSecond: 0,
  lastN: 0,
};

/** A page whose timers run when the test says so. `session` is its tab's. */
export class TestPage implements Page {
  readonly session: Map<string, string>;
  hidden = false;
  private readonly gone: ((mayReturn: boolean) => void)[] = [];
  private readonly switched: (() => void)[] = [];
  private readonly ticks: (() => void)[] = [];

  constructor(
    session = new Map<string, string>(),
    /** What pages leave to whoever comes next: the origin's. */
    readonly left = new Map<string, string>(),
  ) {
    this.session = session;
  }

  take(key: string): string | null {
    const value = this.session.get(key) ?? null;
    this.session.delete(key);
    return value;
  }
  leave(key: string, value: string): void {
    this.session.set(key, value);
  }
  bequeath(key: string, value: string): void {
    this.left.set(key, value);
  }
  bequests(prefix: string): [string, string][] {
    return [...this.left].filter(([key]) => key.startsWith(prefix));
  }
  forget(key: string): void {
    this.left.delete(key);
  }
  isHidden(): boolean {
    return this.hidden;
  }
  onGone(listener: (mayReturn: boolean) => void): () => void {
    this.gone.push(listener);
    return () => {};
  }
  onSwitched(listener: () => void): () => void {
    this.switched.push(listener);
    return () => {};
  }
  every(_ms: number, listener: () => void): () => void {
    this.ticks.push(listener);
    return () => {};
  }

  hide(mayReturn = true): void {
    for (const listener of this.gone) listener(mayReturn);
  }
  show(): void {
    for (const listener of this.switched) listener();
  }
  tick(): void {
    for (const listener of this.ticks) listener();
  }
}

let servers = 0;

/** The tabs of one browser on one server, with one clock. */
export class Browser {
  now = 1_000_000;
  readonly server = `http://server-${++servers}/path/`;
  readonly database = this.server.replace(/\/$/, "").replace(/^/, "inkrelay ");

  open(page = new TestPage()): Promise<Storage> {
    return Storage.open({ server: this.server, kind: "indexeddb", page, now: () => this.now });
  }
}

/** One identity with what is drawn under it. */
export class Tab {
  readonly identity: Identity;
  readonly outbox: Outbox;

  constructor(identity: Identity, outbox = new Outbox(4, identity.saved)) {
    [this.identity, this.outbox] = [identity, outbox];
  }

  static async open(storage: Storage, room = "room"): Promise<Tab> {
    return new Tab(await storage.claim(room));
  }

  welcome(client: number, lastN = 0): void {
    expect(this.outbox.onWelcome(client, `ticket ${client}`, { ...limits, lastN }, 0)).toEqual([]);
  }

  draw(): void {
    expect(this.outbox.push(begin(this.outbox.takeStroke())).kind).toBe("taken");
  }

  async save(): Promise<void> {
    const changes = this.outbox.changes();
    if (!changes) return;
    await this.identity.save({ ...changes, history: null });
    this.outbox.onPersisted(changes.revision);
  }

  /** All is stored: sent and acked. */
  async store(): Promise<void> {
    await this.save();
    const next = this.outbox.next(0);
    if (next.kind === "batch") this.outbox.onAck(next.batch.lastN, 0);
    await this.save();
  }
}

export const clientOf = (identity: Identity | null) => identity?.saved.state?.client;
export const drawsOf = (identity: Identity | null) => identity?.saved.draws.map(({ id }) => id);

/** A tab that drew as that client, with so many unsent draws. */
export async function drawn(storage: Storage, client: number, unsent: number): Promise<Tab> {
  const tab = await Tab.open(storage);
  tab.welcome(client);
  for (let count = 0; count < unsent; count += 1) tab.draw();
  await tab.save();
  return tab;
}
