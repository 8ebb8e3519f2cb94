/**
 * The outbox against a model of a server that drops answers, refuses, loses its newest records and is cut off, and a
 * page that crashes: in the end each saved draw is stored once, in order, or was told as refused.
 */
import { expect, test } from "vitest";
import { decodeDraw } from "../../src/codec.ts";
import type { Draw } from "../../src/draw.ts";
import { type DrawId, Outbox, type OutboxState, type QueuedDraw, type Refused } from "../../src/outbox.ts";

const SEEDS = 400;
const STEPS = 500;
const style = { tool: 0, rgba: 0, width: 16 };

/** Random numbers that depend on the seed alone. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  };
}

/** Tells draws apart that are otherwise alike: a pressure, which stays when an extend has to become a begin. */
function markOf(draw: Draw): number {
  switch (draw.kind) {
    case "begin":
    case "extend":
      return draw.points[2] ?? 0;
    case "erase":
      return draw.strokes[0]?.[1] ?? 0;
    default:
      return 0;
  }
}

type Answer =
  | { readonly kind: "ack"; readonly n: number }
  | { readonly kind: "refused" | "retry" | "gap"; readonly n: number }
  | { readonly kind: "refused somewhere"; readonly lastN: number };

/** What P-2 to P-8 and D-2 say of one client's draws, over one connection at a time. */
class Server {
  client = 1;
  /** The marks of all that the log holds. */
  log: number[] = [];
  /** Where this client's draws begin in the log. */
  private from = 0;
  private dropsAbove = Number.POSITIVE_INFINITY;
  private readonly roll: (sides: number) => number;
  private readonly isBad: (mark: number) => boolean;

  constructor(roll: (sides: number) => number, isBad: (mark: number) => boolean) {
    this.roll = roll;
    this.isBad = isBad;
  }

  get lastN(): number {
    return this.log.length - this.from;
  }

  connect(): void {
    this.dropsAbove = Number.POSITIVE_INFINITY;
  }

  forgetClient(): void {
    this.client += 1;
    this.from = this.log.length;
  }

  lose(count: number): void {
    this.log.length = Math.max(this.from, this.log.length - count);
  }

  /** `null` for no answer. */
  take(n: number, marks: readonly number[]): Answer | null {
    if (n > this.dropsAbove) return null;
    this.dropsAbove = Number.POSITIVE_INFINITY;
    const lastN = n + marks.length - 1;
    const bad = marks.findIndex((mark) => this.isBad(mark));
    if (bad >= 0) {
      this.dropsAbove = n + bad;
      if (marks.length === 1 || this.roll(4) > 0) return { kind: "refused", n: n + bad };
      this.dropsAbove = n;
      return { kind: "refused somewhere", lastN };
    }
    if (n > this.lastN + 1) {
      const expected = this.lastN + 1;
      this.dropsAbove = expected;
      return { kind: "gap", n: expected };
    }
    const isUnknown = this.roll(12) === 0;
    if (!isUnknown || this.roll(2) === 0) this.log.push(...marks.slice(this.lastN + 1 - n));
    if (!isUnknown) return { kind: "ack", n: Math.max(lastN, this.lastN) };
    this.dropsAbove = n;
    return { kind: "retry", n };
  }
}

class Trial {
  readonly roll: (sides: number) => number;
  readonly server: Server;
  outbox = new Outbox(3);
  private readonly disk = new Map<DrawId, QueuedDraw>();
  private state: OutboxState | null = null;
  /** Pushed and not known to be lost with the page; by id, their marks. */
  readonly marks = new Map<DrawId, number>();
  readonly refused: Refused[] = [];
  private isSaved = new Set<DrawId>();
  private writing: ReturnType<Outbox["changes"]> = null;
  private sent: { n: number; marks: number[] }[] = [];
  private answers: Answer[] = [];
  private isOpen = false;
  private mark = 0;
  private openStroke = 0;
  now = 0;

  constructor(seed: number, isBad: (mark: number) => boolean) {
    this.roll = dice(seed);
    this.server = new Server(this.roll, isBad);
  }

  push(): void {
    this.mark += 1;
    const pushed = this.outbox.push(this.draw());
    if (pushed.kind === "taken") this.marks.set(pushed.id, this.mark);
  }

  private draw(): Draw {
    const choice = this.roll(3);
    if (choice === 0) return { kind: "erase", strokes: [[9, this.mark]] };
    if (choice === 1 && this.openStroke > 0) {
      return { kind: "extend", stroke: this.openStroke, points: [1, 1, this.mark], end: this.roll(5) === 0 };
    }
    this.openStroke = this.outbox.takeStroke();
    const points = [0, 0, this.mark];
    return { kind: "begin", stroke: this.openStroke, style, channels: 1, points, end: false };
  }

  startWrite(): void {
    this.writing ??= this.outbox.changes();
  }

  endWrite(): void {
    if (!this.writing) return;
    const { revision, put, remove, state } = this.writing;
    this.writing = null;
    for (const draw of put) {
      this.disk.set(draw.id, draw);
      this.isSaved.add(draw.id);
    }
    for (const id of remove) this.disk.delete(id);
    this.state = state;
    this.outbox.onPersisted(revision);
  }

  connect(): void {
    if (this.isOpen) return;
    this.isOpen = true;
    this.server.connect();
    const { client } = this.server;
    expect(this.outbox.onWelcome(client, `ticket ${client}`, this.limits(), this.now)).toEqual([]);
  }

  cut(): void {
    [this.isOpen, this.sent, this.answers] = [false, [], []];
    this.outbox.onDisconnected();
  }

  crash(): void {
    this.cut();
    this.writing = null;
    const draws = [...this.disk.values()].sort((a, b) => a.id - b.id);
    this.outbox = new Outbox(3, structuredClone({ state: this.state, draws }), this.now);
    for (const id of this.marks.keys()) if (!this.isSaved.has(id)) this.marks.delete(id);
    this.openStroke = 0;
  }

  /** The server's secret changed. Only where nothing is unknown: what was in flight could be stored under both ids. */
  newClient(): void {
    if (!this.isOpen || this.sent.length > 0 || this.answers.length > 0) return;
    this.cut();
    this.outbox.onWelcome(this.server.client, `ticket ${this.server.client}`, this.limits(), this.now);
    for (let writes = 0; writes < 2; writes += 1) {
      this.startWrite();
      this.endWrite();
    }
    this.server.forgetClient();
    this.outbox.onNewClient(false);
  }

  private limits() {
    const { lastN } = this.server;
    return { bytesPerDraw: 0, drawsPerBatch: 4, bytesPerMessage: 0, batchesPerSecond: 0, lastN };
  }

  send(): void {
    if (!this.isOpen) return;
    const next = this.outbox.next(this.now);
    if (next.kind === "wait") this.now = next.at;
    if (next.kind !== "batch") return;
    const { n, draws } = next.batch;
    this.sent.push({ n, marks: draws.map((bytes) => markOf(decodeDraw(bytes))) });
  }

  serve(): void {
    const batch = this.sent.shift();
    const answer = batch && this.server.take(batch.n, batch.marks);
    if (answer) this.answers.push(answer);
  }

  hear(): void {
    const answer = this.answers.shift();
    if (!answer) return;
    switch (answer.kind) {
      case "ack":
        this.outbox.onAck(answer.n, this.now);
        break;
      case "refused":
        this.refused.push(...this.outbox.onRefused(answer.n, "invalid_draw", ""));
        break;
      case "refused somewhere":
        this.outbox.onRefusedSomewhere(answer.lastN);
        break;
      case "retry":
        this.outbox.onRetry(answer.n, this.now + 5);
        break;
      case "gap":
        expect(this.outbox.onGap(answer.n, this.now)).toBe("ok");
        this.cut();
    }
  }

  /** The store lost its newest records; whoever is connected is cut off. */
  lose(): void {
    this.cut();
    this.server.lose(1 + this.roll(5));
  }

  offerKept(): void {
    if (this.isOpen) this.outbox.offerKept();
  }

  step(): void {
    const rare: (() => void)[] = [
      () => this.cut(),
      () => this.crash(),
      () => this.lose(),
      () => this.offerKept(),
    ];
    rare.push(() => this.newClient());
    const common = [() => this.push(), () => this.send(), () => this.serve(), () => this.hear()];
    common.push(
      () => this.connect(),
      () => this.startWrite(),
      () => this.endWrite(),
    );
    const actions = this.roll(25) === 0 ? rare : common;
    actions[this.roll(actions.length)]?.();
  }

  finish(): void {
    for (let round = 0; round < 10_000; round += 1) {
      this.startWrite();
      this.endWrite();
      this.connect();
      this.send();
      this.serve();
      this.hear();
      if (this.outbox.pending === 0 && this.outbox.changes() === null) return;
      this.endWrite();
    }
    throw new Error("it never comes to rest");
  }
}

test("each saved draw is stored once and in order, or told as refused", () => {
  let stored = 0;
  let refusals = 0;
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const trial = new Trial(seed, (mark) => mark % 17 === 0);
    for (let step = 0; step < STEPS; step += 1) trial.step();
    trial.finish();
    const gone = new Set(trial.refused.map(({ id }) => id));
    const expected = [...trial.marks].filter(([id]) => !gone.has(id)).map(([, mark]) => mark);
    expect(trial.server.log, `seed ${seed}`).toEqual(expected);
    const { refused } = trial;
    for (const { id, code } of refused)
      if (code === "invalid_draw") expect((trial.marks.get(id) ?? 17) % 17).toBe(0);
    stored += expected.length;
    refusals += gone.size;
  }
  expect(stored).toBeGreaterThan(SEEDS * 20);
  expect(refusals).toBeGreaterThan(SEEDS);
});
