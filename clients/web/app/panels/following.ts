/** Following: how the view moves so that somebody's pointer and new ink stay comfortably in sight. */
import type { View } from "../canvas/stage.ts";

/** A place on the board, in CSS pixels of the board. */
export interface Place {
  readonly x: number;
  readonly y: number;
}

/** The stage's size, in CSS pixels. */
export interface Extent {
  readonly width: number;
  readonly height: number;
}

/** The part of each side that counts as the edge: inside of it the view keeps still. */
const EDGE = 0.22;
/** Ms in which about two thirds of the way are gone. */
const PACE_MS = 180;
/** Screen pixels that are not worth a move. */
const STILL_PX = 0.5;

/**
 * The view that has `place` in sight, nearest to `view`. Further away than one and a half screens it is centred:
 * there is nothing to keep in common.
 */
export function viewToward(view: View, extent: Extent, place: Place): View {
  const along = (middle: number, size: number, target: number) => {
    const half = size / view.zoom / 2;
    const distance = target - middle;
    if (Math.abs(distance) > 3 * half) return target;
    const slack = half * (1 - 2 * EDGE);
    if (distance > slack) return target - slack;
    return distance < -slack ? target + slack : middle;
  };
  return {
    x: along(view.x, extent.width, place.x),
    y: along(view.y, extent.height, place.y),
    zoom: view.zoom,
  };
}

/** One step of the way, `elapsed` ms later; `null` when there is nothing left to go. */
export function stepToward(view: View, goal: View, elapsed: number): View | null {
  const away = Math.hypot(goal.x - view.x, goal.y - view.y) * view.zoom;
  if (away < STILL_PX) return null;
  const part = 1 - Math.exp(-elapsed / PACE_MS);
  return { x: view.x + (goal.x - view.x) * part, y: view.y + (goal.y - view.y) * part, zoom: view.zoom };
}
