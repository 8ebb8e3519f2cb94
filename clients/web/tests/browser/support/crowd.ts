/** A crowded room: thousands of strokes like those of hands, stored over HTTP before anyone opens the board. */

/** Points of one draw, and draws of one stroke. */
const POINTS = 8;
const DRAWS = 10;
/** Draws that are posted at once; servers take as many. */
const BATCH = 500;
const COLOURS = [0x1f1f1fff, 0x1d4ed8ff, 0xdc2626ff, 0x15803dff];
/** How far from its middle a crowd draws, in sixteenths of a pixel of the board. */
const REACH_X = 2_400 * 16;
const REACH_Y = 1_600 * 16;

type Draw = readonly unknown[];

export interface CrowdOptions {
  readonly strokes: number;
  /** Of the middle, in sixteenths of a pixel of the board. Default: the board's own. */
  readonly middle?: readonly [x: number, y: number];
}

/** Stores so many strokes, ten records each with pressure. The same ones every time. */
export async function crowd(server: string, room: string, options: CrowdOptions): Promise<void> {
  const { strokes, middle = [0, 0] } = options;
  const random = randomOf(7);
  const draws: Draw[] = [];
  for (let stroke = 1; stroke <= strokes; stroke++) draws.push(...strokeOf(stroke, middle, random));
  await store(server, room, draws);
}

/** Stores draws as one client, in their order. */
export async function store(server: string, room: string, draws: readonly Draw[]): Promise<void> {
  const { ticket } = await post(`${server}/v1/rooms/${room}/sessions`, {}, {});
  if (typeof ticket !== "string") throw new Error("a session has a ticket");
  for (let start = 0; start < draws.length; start += BATCH) {
    const headers = { "inkrelay-ticket": ticket, "inkrelay-n": String(start + 1) };
    await post(`${server}/v1/rooms/${room}/draws`, headers, draws.slice(start, start + BATCH));
  }
}

async function post(
  url: string,
  headers: Record<string, string>,
  body: unknown,
): Promise<{ ticket?: unknown }> {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** A scribble with curves, as of a hand that writes. */
function strokeOf(stroke: number, [x, y]: readonly [number, number], random: () => number): Draw[] {
  const style = [stroke % 11 === 0 ? 1 : 0, COLOURS[stroke % COLOURS.length], stroke % 11 === 0 ? 320 : 64];
  let angle = random() * 2 * Math.PI;
  const place = (middle: number, reach: number) => middle + Math.round((random() * 2 - 1) * reach);
  const first = [place(x, REACH_X), place(y, REACH_Y), 128];
  const draws: Draw[] = [];
  for (let draw = 0; draw < DRAWS; draw++) {
    const points: number[] = draw === 0 ? [...first] : [];
    while (points.length < POINTS * 3) {
      angle += (random() - 0.45) * 0.9;
      const pressure = Math.round(128 + 100 * Math.sin(draw + points.length / 9));
      points.push(Math.round(Math.cos(angle) * 50), Math.round(Math.sin(angle) * 50), pressure);
    }
    const end = draw === DRAWS - 1;
    draws.push(draw === 0 ? [0, stroke, style, 1, points] : [1, stroke, points, end]);
  }
  return draws;
}

/** Numbers from 0 to 1, the same ones for a seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 16807) % 2147483647;
    return state / 2147483647;
  };
}
