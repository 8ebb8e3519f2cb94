/** Ink on its way to the wire. */
import { describe, expect, test } from "vitest";
import { channelsOf, Ink, type PenPoint, quantized } from "../../app/canvas/ink.ts";
import { Channel } from "../../src/index.ts";

function at(x: number, y: number, pressure = 0.5): PenPoint {
  return { x, y, pressure, tiltX: 0, tiltY: 0 };
}

test("differences add up exactly to the quantized place, however many there are", () => {
  const ink = new Ink(0);
  let x = 0;
  let y = 0;
  let seed = 1;
  const random = () => {
    seed = (seed * 16807) % 2147483647;
    return seed / 2147483647 - 0.5;
  };
  const place = { x: 123.456, y: -9876.543 };
  for (let i = 0; i < 20_000; i++) {
    place.x += random() * 7;
    place.y += random() * 7;
    ink.add(at(place.x, place.y));
    if (i % 37 === 0) {
      const points = ink.take();
      for (let k = 0; k < points.length; k += 2) {
        x += points[k] ?? Number.NaN;
        y += points[k + 1] ?? Number.NaN;
      }
      expect([x, y]).toEqual([Math.round(place.x * 16), Math.round(place.y * 16)]);
    }
  }
});

test("the first point is absolute, and points at one place are one", () => {
  const ink = new Ink(0);
  ink.add(at(10, 20));
  ink.add(at(10.01, 20));
  ink.add(at(11, 19));
  expect(ink.take()).toEqual([160, 320, 16, -16]);
  ink.add(at(11, 19));
  expect(ink.take()).toEqual([]);
  expect(ink.points).toBe(2);
});

describe("channels", () => {
  test("a pen sends pressure, and tilt where it has that", () => {
    expect(channelsOf("pen", at(0, 0))).toBe(Channel.PRESSURE);
    expect(channelsOf("pen", { ...at(0, 0), tiltY: 12 })).toBe(Channel.PRESSURE | Channel.TILT);
    expect(channelsOf("mouse", at(0, 0))).toBe(0);
    expect(channelsOf("touch", at(0, 0))).toBe(0);
  });

  test("each point carries its values", () => {
    const ink = new Ink(Channel.PRESSURE | Channel.TILT);
    ink.add({ ...at(0, 0, 1), tiltX: 30.4, tiltY: -200 });
    ink.add({ ...at(1, 0, 0.2), tiltX: Number.NaN, tiltY: 0 });
    expect(ink.take()).toEqual([0, 0, 255, 30, -90, 16, 0, 51, 0, 0]);
  });

  test("where a browser reports no pressure in between, the last one stands", () => {
    const ink = new Ink(Channel.PRESSURE);
    ink.add(at(0, 0, 1));
    ink.add(at(1, 0, 0));
    ink.add(at(2, 0, Number.NaN));
    expect(ink.take()).toEqual([0, 0, 255, 16, 0, 255, 16, 0, 255]);
  });
});

test("what is no place on the board is brought onto it", () => {
  expect(quantized(1e12)).toBe(2 ** 30);
  expect(quantized(-1e12)).toBe(-(2 ** 30));
  expect(quantized(Number.NaN)).toBe(0);
  expect(Object.is(quantized(-0.001), 0)).toBe(true);
});
