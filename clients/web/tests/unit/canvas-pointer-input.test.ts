/** What is read from the browser's events, with events made by hand. */
import { describe, expect, test } from "vitest";
import { inputOf, type PointerLike, predictedOf, samplesOf, tiltOf } from "../../app/canvas/pointer-input.ts";

const CORNER = { left: 10, top: 20 };

function event(x: number, y: number, timeStamp: number, more: Partial<PointerLike> = {}): PointerLike {
  return {
    pointerId: 3,
    pointerType: "pen",
    clientX: x + CORNER.left,
    clientY: y + CORNER.top,
    pressure: 0.5,
    button: -1,
    buttons: 1,
    timeStamp,
    ...more,
  };
}

function places(of: PointerLike): number[] {
  return samplesOf(of, CORNER).map(({ x }) => x);
}

describe("coalesced events", () => {
  test("none known: the event itself", () => {
    expect(places(event(5, 6, 1))).toEqual([5]);
    expect(samplesOf(event(5, 6, 1), CORNER)[0]).toEqual({ x: 5, y: 6, pressure: 0.5, tiltX: 0, tiltY: 0 });
  });

  test("an empty list: the event itself", () => {
    expect(places(event(5, 6, 1, { getCoalescedEvents: () => [] }))).toEqual([5]);
  });

  test("a list that ends with the event: all of them, once", () => {
    const list = [event(1, 6, 1), event(3, 6, 2), event(5, 6, 3)];
    expect(places(event(5, 6, 3, { getCoalescedEvents: () => list }))).toEqual([1, 3, 5]);
  });

  test("a list that lacks the event: the event comes last", () => {
    const list = [event(1, 6, 1), event(3, 6, 2)];
    expect(places(event(5, 6, 3, { getCoalescedEvents: () => list }))).toEqual([1, 3, 5]);
  });

  test("out of order: by their times", () => {
    const list = [event(3, 6, 2), event(1, 6, 1), event(5, 6, 3)];
    expect(places(event(5, 6, 3, { getCoalescedEvents: () => list }))).toEqual([1, 3, 5]);
  });

  test("places that are no numbers are left out, and a list that throws costs only itself", () => {
    const list = [event(Number.NaN, 6, 1), event(2, 6, 2)];
    expect(places(event(5, 6, 3, { getCoalescedEvents: () => list }))).toEqual([2, 5]);
    const throws = () => {
      throw new Error("no");
    };
    expect(places(event(5, 6, 3, { getCoalescedEvents: throws }))).toEqual([5]);
    expect(predictedOf(event(5, 6, 3, { getPredictedEvents: throws }), CORNER)).toEqual([]);
  });

  test("are read of moves only", () => {
    const list = [event(1, 6, 1), event(5, 6, 3)];
    const down = event(5, 6, 3, { getCoalescedEvents: () => list });
    expect(inputOf(down, "down", CORNER).samples).toHaveLength(1);
    expect(inputOf(down, "move", CORNER)).toMatchObject({ type: "move", id: 3, device: "pen", time: 3 });
    expect(inputOf(down, "move", CORNER).samples).toHaveLength(2);
  });
});

test("predicted events: a few at most, and none for a mouse", () => {
  const list = [1, 2, 3, 4, 5].map((x) => event(x, 0, x));
  expect(predictedOf(event(0, 0, 0, { getPredictedEvents: () => list }), CORNER).map(({ x }) => x)).toEqual([
    1, 2, 3,
  ]);
  expect(predictedOf(event(0, 0, 0, { getPredictedEvents: () => [] }), CORNER)).toEqual([]);
  expect(predictedOf(event(0, 0, 0), CORNER)).toEqual([]);
  const mouse = event(0, 0, 0, { pointerType: "mouse", getPredictedEvents: () => list });
  expect(predictedOf(mouse, CORNER)).toEqual([]);
});

test("an unknown kind of pointer is taken as a mouse", () => {
  expect(inputOf(event(0, 0, 0, { pointerType: "" }), "down", CORNER).device).toBe("mouse");
});

describe("tilt", () => {
  test("as it is given", () => {
    expect(tiltOf(event(0, 0, 0, { tiltX: 30, tiltY: -10, altitudeAngle: 1, azimuthAngle: 1 }))).toEqual([
      30, -10,
    ]);
  });

  test("made from altitude and azimuth", () => {
    const [x, y] = tiltOf(event(0, 0, 0, { altitudeAngle: Math.PI / 4, azimuthAngle: 0 }));
    expect(x).toBeCloseTo(45);
    expect(y).toBeCloseTo(0);
    const [flatX, flatY] = tiltOf(event(0, 0, 0, { altitudeAngle: 0, azimuthAngle: Math.PI / 2 }));
    expect(flatX).toBeCloseTo(0);
    expect(flatY).toBeCloseTo(90, 3);
  });

  test("upright, or not known: none", () => {
    expect(tiltOf(event(0, 0, 0, { altitudeAngle: Math.PI / 2, azimuthAngle: 0 }))).toEqual([0, 0]);
    expect(tiltOf(event(0, 0, 0))).toEqual([0, 0]);
  });
});
