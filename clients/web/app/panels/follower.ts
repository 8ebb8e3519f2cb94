/** The follower: moves the view after somebody. */
import { effect } from "@preact/signals";
import { type Change, Channel, type Stroke } from "../../src/index.ts";
import type { AppState, Paper, Relay } from "../app-state.ts";
import { type Extent, type Place, stepToward, viewToward } from "./following.ts";

/** The wire's coordinates per CSS pixel. */
const SIXTEENTHS = 16;

/** Values of one point: x, y and those of its channels. */
export function valuesPerPoint(channels: number): number {
  const has = (bit: number) => ((channels & bit) !== 0 ? 1 : 0);
  return 2 + has(Channel.PRESSURE) + has(Channel.TIME) + 2 * has(Channel.TILT);
}

/** Where a stroke ends, in CSS pixels of the board. */
export function endOf(stroke: Stroke): Place | null {
  const at = stroke.values.length - valuesPerPoint(stroke.channels);
  const x = stroke.values[at];
  const y = stroke.values[at + 1];
  return x === undefined || y === undefined ? null : { x: x / SIXTEENTHS, y: y / SIXTEENTHS };
}

/** Follows whom the state names, from now on. `still`: people want no motion. Returns how to end that. */
export function followPeople(
  state: AppState,
  client: Relay,
  paper: Paper,
  view: {
    readonly extent: () => Extent;
    readonly still: () => boolean;
    readonly placeOf: (client: number) => Place | undefined;
  },
): () => void {
  let place: Place | null = null;
  let frame = 0;
  let last = 0;
  const step = (now: number) => {
    frame = 0;
    if (place === null || state.following.value === null || state.watching.value) return;
    const goal = viewToward(paper.view, view.extent(), place);
    const next = view.still()
      ? stepToward(paper.view, goal, 0) && goal
      : stepToward(paper.view, goal, now - last);
    last = now;
    if (next === null) return;
    paper.setView(next);
    frame = requestAnimationFrame(step);
  };
  const goTo = (to: Place | null | undefined) => {
    if (to == null) return;
    place = to;
    if (frame !== 0) return;
    last = performance.now();
    frame = requestAnimationFrame(step);
  };
  const newInk = ({ appeared, grown }: Change) => {
    const followed = state.following.value;
    if (followed === null) return;
    for (const stroke of [...appeared, ...grown]) if (stroke.author === followed) goTo(endOf(stroke));
  };
  const ends = [
    client.board.subscribe(newInk),
    client.on("pointer", ({ client: id, x, y }) => {
      if (id === state.following.value) goTo({ x: x / SIXTEENTHS, y: y / SIXTEENTHS });
    }),
    effect(() => {
      const followed = state.following.value;
      place = null;
      if (followed !== null) goTo(view.placeOf(followed) ?? lastInkOf(followed, client));
    }),
  ];
  return () => {
    cancelAnimationFrame(frame);
    for (const end of ends) end();
  };
}

/** Who has no pointer in sight was last where their newest ink ends. */
function lastInkOf(author: number, client: Relay): Place | null {
  const stroke = client.board.strokes().findLast((one) => one.author === author);
  return stroke === undefined ? null : endOf(stroke);
}
