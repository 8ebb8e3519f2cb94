/** A drawing of some strokes, made by arithmetic, so that every picture of the page shows the same. */
import type { Draw } from "../../../src/index.ts";

const SIXTEENTHS = 16;

/** The draws of a stroke through points in CSS pixels: begun, extended and ended. */
function strokeOf(
  stroke: number,
  rgba: number,
  width: number,
  tool: number,
  points: readonly (readonly [number, number])[],
): Draw[] {
  const wire: number[] = [];
  let [lastX, lastY] = [0, 0];
  for (const [px, py] of points) {
    const [x, y] = [Math.round(px * SIXTEENTHS), Math.round(py * SIXTEENTHS)];
    wire.push(x - lastX, y - lastY);
    [lastX, lastY] = [x, y];
  }
  const style = { tool, rgba, width: width * SIXTEENTHS };
  const draws: Draw[] = [{ kind: "begin", stroke, style, channels: 0, points: wire.slice(0, 2), end: false }];
  for (let i = 2; i < wire.length; i += 16) {
    draws.push({ kind: "extend", stroke, points: wire.slice(i, i + 16), end: i + 16 >= wire.length });
  }
  return draws;
}

function curve(count: number, at: (t: number) => readonly [number, number]): (readonly [number, number])[] {
  return Array.from({ length: count }, (_, i) => at(i / (count - 1)));
}

/** A hill, a sun, a tree and some grass, around the board's middle. */
export function landscape(): readonly Draw[] {
  const turn = 2 * Math.PI;
  const draws = [
    ...strokeOf(
      101,
      0xf2b203ff,
      26,
      1,
      curve(70, (t) => [-420 + 840 * t, 130 - 70 * Math.sin(t * 5)]),
    ),
    ...strokeOf(
      102,
      0x1d1d22ff,
      4,
      0,
      curve(90, (t) => [-430 + 860 * t, 120 - 80 * Math.sin(t * 5) + 4 * Math.sin(t * 40)]),
    ),
    ...strokeOf(
      103,
      0xf2700cff,
      6,
      0,
      curve(60, (t) => [250 + 58 * Math.cos(turn * t), -190 + 58 * Math.sin(turn * t)]),
    ),
    ...strokeOf(
      104,
      0x2f9e44ff,
      5,
      0,
      curve(120, (t) => [
        -230 + (70 + 16 * Math.sin(turn * t * 9)) * Math.cos(turn * t),
        -120 + (62 + 14 * Math.sin(turn * t * 9)) * Math.sin(turn * t),
      ]),
    ),
    ...strokeOf(
      105,
      0x7a4ee8ff,
      5,
      0,
      curve(40, (t) => [-230 + 6 * Math.sin(t * 6), -58 + 150 * t]),
    ),
  ];
  for (let ray = 0; ray < 9; ray++) {
    const angle = (turn * ray) / 9;
    draws.push(
      ...strokeOf(
        110 + ray,
        0xf2700cff,
        5,
        0,
        curve(8, (t) => [250 + (78 + 34 * t) * Math.cos(angle), -190 + (78 + 34 * t) * Math.sin(angle)]),
      ),
    );
  }
  for (let blade = 0; blade < 24; blade++) {
    const x = -400 + 34 * blade;
    const y = 190 + 26 * Math.sin(blade * 1.7);
    draws.push(
      ...strokeOf(
        130 + blade,
        blade % 3 === 0 ? 0x1c7ed6ff : 0x2f9e44ff,
        3,
        0,
        curve(9, (t) => [x + 10 * t * t, y - 34 * t]),
      ),
    );
  }
  return draws;
}
