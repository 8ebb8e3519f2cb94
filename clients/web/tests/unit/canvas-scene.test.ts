/** The scene: what is lifted, what is baked, and what has to be painted. */
import { beforeEach, describe, expect, test } from "vitest";
import { isEmpty } from "../../app/canvas/box.ts";
import { SPREAD } from "../../app/canvas/reveal.ts";
import { REST, Scene } from "../../app/canvas/scene.ts";
import { SELF, type Stroke } from "../../src/index.ts";
import { HandPicture, stroke } from "./canvas-strokes.ts";

const EVERYWHERE = { x0: -1e9, y0: -1e9, x1: 1e9, y1: 1e9 };

let now: number;
let told: string[];
let picture: HandPicture;
let scene: Scene;

beforeEach(() => {
  now = 1000;
  told = [];
  picture = new HandPicture();
  scene = new Scene(
    {
      baked: (_, wasLifted) => told.push(wasLifted ? "baked, was lifted" : "baked"),
      spoiled: () => told.push("spoiled"),
      moved: (box) => isEmpty(box) || told.push("moved"),
      removed: () => told.push("removed"),
      reset: () => told.push("reset"),
    },
    () => now,
  );
});

function line(number: number, more: Partial<Stroke> = {}): Stroke {
  return stroke(
    Array.from({ length: 10 }, (_, i) => [i * 10, number]),
    { number, order: number, ...more },
  );
}

function grow(of: Stroke, points: number, closed = false): void {
  for (let i = 0; i < points; i++) {
    of.values.push((of.values.at(-2) ?? 0) + 160, of.values.at(-1) ?? 0);
  }
  of.closed = closed;
  picture.tell({ grown: [of] });
}

function appear(...strokes: Stroke[]): void {
  picture.all.push(...strokes);
  picture.tell({ appeared: strokes });
}

/** Lets time pass as frames do. */
function pass(ms: number): void {
  now += ms;
  scene.advance(now);
}

test("a board that loads is baked at once, in painting order", () => {
  picture.all = [line(3), line(1), line(2)];
  scene.show(picture);
  expect(told).toEqual(["reset", "baked", "baked", "baked"]);
  expect(scene.within(EVERYWHERE).map((shape) => shape.stroke.order)).toEqual([1, 2, 3]);
  expect(scene.lifted.size).toBe(0);
});

describe("someone's stroke", () => {
  test("grows over the next moments, and is baked when it is whole and shows", () => {
    scene.show(picture);
    const theirs = line(1, { closed: false });
    appear(theirs);
    const [shape] = scene.lifted;
    expect(shape?.count).toBe(0);
    pass(SPREAD / 2);
    expect(shape?.count).toBe(5);
    pass(SPREAD / 2);
    expect(shape?.count).toBe(10);
    grow(theirs, 10, true);
    pass(SPREAD / 2);
    expect([shape?.count, shape?.baked]).toEqual([15, false]);
    pass(SPREAD / 2);
    expect([shape?.count, shape?.baked]).toEqual([20, true]);
    expect(told.at(-1)).toBe("baked, was lifted");
  });

  test("shows at once where nothing should move", () => {
    scene.smooth = false;
    scene.show(picture);
    const theirs = line(1, { closed: false });
    appear(theirs);
    grow(theirs, 3);
    expect([...scene.lifted].map((shape) => shape.count)).toEqual([13]);
  });

  test("that is never closed rests with the finished ones, and is lifted again when it goes on", () => {
    scene.show(picture);
    const theirs = line(1, { closed: false });
    appear(theirs);
    pass(SPREAD);
    expect(scene.lifted.size).toBe(1);
    pass(REST);
    expect(scene.lifted.size).toBe(0);
    expect(scene.within(EVERYWHERE)).toHaveLength(1);
    told = [];
    grow(theirs, 2);
    expect(told).toContain("spoiled");
    expect(scene.lifted.size).toBe(1);
    expect(scene.within(EVERYWHERE)).toEqual([]);
  });

  test("that is closed without further points does not start anew", () => {
    scene.show(picture);
    const theirs = line(1, { closed: false });
    appear(theirs);
    pass(SPREAD);
    grow(theirs, 0, true);
    pass(1);
    expect(scene.lifted.size).toBe(0);
  });
});

describe("one's own stroke", () => {
  test("shows at once, stays lifted while the pen is down, however long it rests", () => {
    scene.show(picture);
    const own = line(1, { author: SELF, closed: false });
    scene.byOwnHand(() => appear(own));
    scene.hold(own.number);
    expect([...scene.lifted].map((shape) => shape.count)).toEqual([10]);
    pass(REST * 3);
    expect(scene.lifted.size).toBe(1);
    scene.byOwnHand(() => grow(own, 1, true));
    scene.hold(null);
    pass(1);
    expect(scene.lifted.size).toBe(0);
  });

  test("with fewer points after a refusal is made anew", () => {
    scene.show(picture);
    const own = line(1, { author: SELF });
    scene.byOwnHand(() => appear(own));
    pass(1);
    own.values.length = 8;
    picture.tell({ grown: [own] });
    const [shape] = scene.lifted;
    expect(shape?.count).toBe(4);
    expect(shape?.box.x1).toBeLessThan(40);
    pass(REST);
    expect(scene.within(EVERYWHERE)).toHaveLength(1);
  });
});

describe("what vanishes", () => {
  test("is gone, and what lies under it is painted", () => {
    const gone = line(1);
    picture.all = [gone, line(2)];
    scene.show(picture);
    told = [];
    picture.all.shift();
    picture.tell({ vanished: [gone] });
    expect(told).toEqual(["spoiled", "removed"]);
    expect(scene.near(EVERYWHERE)).toHaveLength(1);
    picture.all.push(gone);
    picture.tell({ appeared: [gone] });
    pass(SPREAD);
    expect(scene.near(EVERYWHERE)).toHaveLength(2);
  });

  test("and came within the same change counts as the picture says", () => {
    scene.show(picture);
    const brief = line(1);
    picture.tell({ appeared: [brief], vanished: [brief] });
    expect(scene.size).toBe(0);
    picture.all.push(brief);
    picture.tell({ appeared: [brief], vanished: [brief] });
    expect(scene.size).toBe(1);
  });
});

test("a reset in the middle of one's own stroke leaves it under the pen", () => {
  scene.show(picture);
  const own = line(1, { author: SELF, closed: false });
  scene.byOwnHand(() => appear(own));
  scene.hold(1);
  picture.all = [line(1, { author: SELF, closed: false })];
  picture.tell({ reset: true, appeared: picture.all });
  pass(REST * 2);
  expect(scene.lifted.size).toBe(1);
  scene.hold(null);
  pass(REST);
  expect(scene.lifted.size).toBe(0);
});

test("a reset shows the new picture alone", () => {
  picture.all = [line(1), line(2)];
  scene.show(picture);
  picture.all = [line(3)];
  picture.tell({ reset: true, appeared: picture.all });
  expect(scene.near(EVERYWHERE).map((shape) => shape.stroke.number)).toEqual([3]);
});

test("another picture is watched instead of the first", () => {
  scene.show(picture);
  const other = new HandPicture();
  scene.show(other);
  expect([picture.watched, other.watched]).toEqual([false, true]);
  scene.close();
  expect(other.watched).toBe(false);
});
