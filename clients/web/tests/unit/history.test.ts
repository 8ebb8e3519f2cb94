/** History: undo and redo of one's own, through outboxes into one log. */
import { expect, test } from "vitest";
import { Board } from "../../src/board.ts";
import { decodeDraw } from "../../src/codec.ts";
import type { Draw, LogRecord } from "../../src/draw.ts";
import { ACTIONS_MAX, History } from "../../src/history.ts";
import { Outbox, type Pushed } from "../../src/outbox.ts";
import { SELF } from "../../src/stroke.ts";

const style = { tool: 0, rgba: 255, width: 32 };

/** One log, its board, and people who draw. */
class Room {
  readonly log: LogRecord[] = [];
  readonly board = new Board();

  /** Names of the strokes that show, as `author.stroke`. */
  get shown(): string[] {
    return this.board.strokes().map(({ author, number }) => `${author}.${number}`);
  }
}

class Person {
  readonly room: Room;
  readonly client: number;
  outbox = new Outbox(4);
  history = new History();
  private n = 0;

  constructor(room: Room, client: number) {
    [this.room, this.client] = [room, client];
    this.welcome(client);
  }

  welcome(client: number, lastN = 0): void {
    const limits = { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN };
    expect(this.outbox.onWelcome(client, `ticket ${client}`, limits, 0)).toEqual([]);
    this.n = lastN;
    this.flush();
  }

  readonly push = (draw: Draw): Pushed => this.outbox.push(draw);

  readonly shows = (stroke: number): boolean =>
    this.outbox.namesOfStroke(stroke).some((name) => this.room.board.find(name) !== undefined);

  take(draw: Draw): number {
    const pushed = this.push(draw);
    if (pushed.kind !== "taken") throw new Error(pushed.kind);
    return pushed.id;
  }

  draw(): number {
    const stroke = this.outbox.takeStroke();
    this.history.onStroke(
      stroke,
      this.take({ kind: "begin", stroke, style, channels: 0, points: [0, 0], end: true }),
    );
    this.flush();
    return stroke;
  }

  erase(...strokes: (readonly [number, number])[]): void {
    this.history.onHidden(strokes.map((name) => this.take({ kind: "erase", strokes: [name] })));
    this.flush();
  }

  clear(): void {
    this.history.onHidden([this.take({ kind: "clear" })]);
    this.flush();
  }

  undo(): boolean {
    const done = this.history.undo(this.push, this.shows);
    this.flush();
    return done;
  }

  redo(): boolean {
    const done = this.history.redo(this.push);
    this.flush();
    return done;
  }

  /** Saves, sends, and gets the acks. */
  flush(): void {
    this.outbox.onPersisted(this.outbox.changes()?.revision ?? 0);
    for (let next = this.outbox.next(0); next.kind === "batch"; next = this.outbox.next(0)) {
      for (const bytes of next.batch.draws) {
        this.n += 1;
        const author = this.outbox.client ?? 0;
        const record = { author, n: this.n, at: this.room.log.length, draw: decodeDraw(bytes) };
        this.room.log.push(record);
        this.room.board.apply(record);
      }
      this.outbox.onAck(next.batch.lastN, 0);
    }
  }
}

function people(): { room: Room; ann: Person; ben: Person } {
  const room = new Room();
  return { room, ann: new Person(room, 1), ben: new Person(room, 2) };
}

test("A draws a1, B draws b1, A draws a2; B undoes twice, A once: only a1 is left, for a late joiner too", () => {
  const { room, ann, ben } = people();
  ann.draw();
  ben.draw();
  ann.draw();
  expect([ben.undo(), ben.undo(), ann.undo()]).toEqual([true, false, true]);
  expect(room.shown).toEqual(["1.1"]);
  const late = new Board();
  late.applyAll(room.log);
  expect(late.strokes().map(({ author, number }) => [author, number])).toEqual([[1, 1]]);
});

test("redo brings back what was undone, in order, as often as one likes; a new action ends that", () => {
  const { room, ann } = people();
  ann.draw();
  ann.draw();
  ann.undo();
  ann.undo();
  expect(room.shown).toEqual([]);
  ann.redo();
  expect(room.shown).toEqual(["1.1"]);
  ann.redo();
  ann.undo();
  ann.redo();
  expect([room.shown, ann.history.canRedo]).toEqual([["1.1", "1.2"], false]);
  ann.undo();
  ann.draw();
  expect([room.shown, ann.history.canRedo, ann.redo()]).toEqual([["1.1", "1.3"], false, false]);
});

test("erases of one gesture are undone together, and so is a clear; others' ink comes back too", () => {
  const { room, ann, ben } = people();
  ann.draw();
  ben.draw();
  ben.draw();
  ann.erase([SELF, 1], [2, 1]);
  ann.clear();
  expect(room.shown).toEqual([]);
  ann.undo();
  expect(room.shown).toEqual(["2.2"]);
  ann.undo();
  expect(room.shown).toEqual(["1.1", "2.1", "2.2"]);
  ann.redo();
  ann.redo();
  expect(room.shown).toEqual([]);
  ann.undo();
  ann.undo();
  ann.undo();
  expect(room.shown).toEqual(["2.1", "2.2"]);
});

test("undo skips an own stroke that somebody else erased, and finds it again should it show again", () => {
  const { room, ann, ben } = people();
  ann.draw();
  ann.draw();
  ben.erase([1, 2]);
  expect(ann.history.canUndo(ann.shows)).toBe(true);
  ann.undo();
  expect([room.shown, ann.history.canUndo(ann.shows)]).toEqual([[], false]);
  ben.undo();
  expect([room.shown, ann.undo(), room.shown]).toEqual([["1.2"], true, []]);
});

test("a cancelled stroke is not in the history, and what could be redone still can be", () => {
  const { room, ann } = people();
  ann.draw();
  ann.undo();
  const stroke = ann.draw();
  ann.take({ kind: "erase", strokes: [[SELF, stroke]] });
  ann.history.onCancelled(stroke);
  ann.flush();
  expect([ann.history.canUndo(() => true), ann.redo(), room.shown]).toEqual([false, true, ["1.1"]]);
});

test("names are right after a refusal, a reload and a new client id", () => {
  const { room, ann, ben } = people();
  ben.draw();
  const id = ann.take({ kind: "erase", strokes: [[7, 7]] });
  ann.history.onHidden([id]);
  ann.history.onHidden([ann.take({ kind: "erase", strokes: [[2, 1]] })]);
  ann.outbox.onPersisted(ann.outbox.changes()?.revision ?? 0);
  ann.outbox.next(0);
  ann.history.onRefused(ann.outbox.onRefused(1, "forbidden", ""));
  ann.flush();
  ann.draw();
  expect(room.shown).toEqual(["1.1"]);

  ann.history = new History(structuredClone(ann.history.state()));
  ann.outbox.onNewClient(false);
  ann.welcome(11);
  ann.draw();
  expect(room.shown).toEqual(["1.1", "11.2"]);
  ann.undo();
  ann.undo();
  expect(room.shown).toEqual([]);
  ann.undo();
  expect([room.shown, ann.history.canUndo(ann.shows)]).toEqual([["2.1"], false]);
  ann.redo();
  ann.redo();
  expect(room.shown).toEqual(["1.1"]);
});

test("an undo that is refused has not happened, and a redo neither", () => {
  const { ann } = people();
  ann.draw();
  ann.history.undo(ann.push, ann.shows);
  ann.history.onRefused([{ id: ann.outbox.newest, code: "forbidden", message: "" }]);
  expect([ann.history.canUndo(() => true), ann.history.canRedo]).toEqual([true, false]);
  ann.undo();
  ann.history.redo(ann.push);
  ann.history.onRefused([{ id: ann.outbox.newest, code: "forbidden", message: "" }]);
  expect([ann.history.canUndo(() => true), ann.history.canRedo]).toEqual([false, true]);
});

test("where the outbox is full nothing changes, and the oldest actions are forgotten", () => {
  const { ann } = people();
  ann.draw();
  const full = (): Pushed => ({ kind: "full", draws: 1, bytes: 1 });
  expect([ann.history.undo(full, () => true), ann.history.canUndo(() => true)]).toEqual([false, true]);
  ann.undo();
  expect([ann.history.redo(full), ann.history.canRedo]).toEqual([false, true]);
  for (let count = 0; count < ACTIONS_MAX + 5; count += 1) ann.draw();
  let undone = 0;
  while (ann.undo()) undone += 1;
  expect(undone).toBe(ACTIONS_MAX);
});
