/** A play: strokes that come, grow and go while the view moves; run in the page, with a seed that names it. */
import type { Stage } from "../../../app/canvas/stage.ts";
import type { Stroke } from "../../../src/index.ts";
import type { Sheet } from "./page.ts";

const COLOURS = [0x1f1f1fff, 0x1d4ed8ff, 0xdc2626ff, 0x16a34a80];
const ZOOMS = [0.5, 1, 1.3, 2];

export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 16807) % 2147483647;
    return state / 2147483647;
  };
}

function pick<T>(from: readonly T[], random: () => number): T | undefined {
  return from[Math.floor(random() * from.length)];
}

interface Growing {
  readonly stroke: Stroke;
  angle: number;
  left: number;
}

export async function play(stage: Stage, sheet: Sheet, seed: number, steps: number): Promise<void> {
  const random = randomOf(seed);
  let growing: Growing[] = [];
  let order = 100;
  for (let step = 0; step < steps; step++) {
    const appeared: Stroke[] = [];
    const grown: Stroke[] = [];
    const vanished: Stroke[] = [];
    if (random() < 0.5) {
      const broad = random() < 0.3;
      const pressed = random() < 0.5;
      order += 1;
      const style = {
        tool: broad ? 1 : 0,
        rgba: pick(COLOURS, random) ?? 0,
        width: broad ? 400 : 48 + Math.floor(random() * 100),
      };
      const first = [Math.round((random() - 0.5) * 14_400), Math.round((random() - 0.5) * 9600)];
      // Some come late and lie below what is there.
      const place = random() < 0.3 ? order - 20.5 : order;
      const stroke = sheet.put(2, style, pressed ? 1 : 0, pressed ? [...first, 90] : first, false, place);
      appeared.push(stroke);
      growing.push({ stroke, angle: random() * 6, left: Math.floor(random() * 12) });
    }
    for (const each of growing) {
      if (random() < 0.6) {
        const { stroke } = each;
        const width = stroke.channels ? 3 : 2;
        for (let point = 0; point < 8; point++) {
          each.angle += (random() - 0.5) * 1.3;
          const x = (stroke.values.at(-width) ?? 0) + Math.round(Math.cos(each.angle) * 120);
          const y = (stroke.values.at(1 - width) ?? 0) + Math.round(Math.sin(each.angle) * 120);
          stroke.values.push(x, y, ...(stroke.channels ? [60 + Math.floor(random() * 190)] : []));
        }
        each.left--;
        // Some are never closed: their authors left.
        stroke.closed = each.left <= 0 && random() < 0.8;
        grown.push(stroke);
      }
    }
    growing = growing.filter((each) => each.left > 0);
    const victim = random() < 0.08 ? pick(sheet.all, random) : undefined;
    if (victim && !growing.some((each) => each.stroke === victim)) {
      sheet.all.splice(sheet.all.indexOf(victim), 1);
      vanished.push(victim);
    }
    sheet.tell({ appeared, grown, vanished });
    if (random() < 0.1) {
      const zoom = pick(ZOOMS, random) ?? 1;
      stage.setView({ x: (random() - 0.5) * 300, y: (random() - 0.5) * 300, zoom }, random() < 0.5);
    }
    if (random() < 0.7) {
      await new Promise(requestAnimationFrame);
    }
  }
}

/** A board of many finished strokes. */
export function fill(sheet: Sheet, count: number): void {
  const random = randomOf(7);
  for (let i = 0; i < count; i++) {
    const broad = i % 25 === 0;
    let x = (random() - 0.5) * 64_000;
    let y = (random() - 0.5) * 48_000;
    let angle = random() * 6.28;
    const values: number[] = [];
    for (let point = 0; point < 40; point++) {
      angle += (random() - 0.5) * 1.2;
      x += Math.cos(angle) * 80;
      y += Math.sin(angle) * 80;
      values.push(Math.round(x), Math.round(y), ...(broad ? [] : [100 + Math.floor(random() * 100)]));
    }
    const style = { tool: broad ? 1 : 0, rgba: COLOURS[i % 4] ?? 0, width: broad ? 300 : (2 + (i % 4)) * 16 };
    sheet.put(5, style, broad ? 0 : 1, values, true);
  }
}

/** All that the stage shows, as one number per pixel. */
export function pixels(): Uint32Array {
  const [below, above] = document.querySelectorAll("canvas");
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (!below || !above || !context) {
    throw new Error("no stage");
  }
  canvas.width = below.width;
  canvas.height = below.height;
  context.drawImage(below, 0, 0);
  context.drawImage(above, 0, 0);
  return new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
}

export function differing(a: Uint32Array, b: Uint32Array): number {
  let count = Math.abs(a.length - b.length);
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    count += a[i] === b[i] ? 0 : 1;
  }
  return count;
}

/** Pixels that are not paper. */
export function inked(of: Uint32Array): number {
  const paper = of[0];
  let count = 0;
  for (const pixel of of) {
    count += pixel === paper ? 0 : 1;
  }
  return count;
}
