/** The camera: from the board to the stage and back. Pure: a view in, a view out. */
import { type Box, isEmpty } from "./box.ts";
import type { View } from "./stage.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The stage's size in CSS pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

/** Two fingers: the middle between them in CSS pixels of the stage, and how far apart they are. One finger: span 1. */
export interface Grip extends Point {
  readonly span: number;
}

export const ZOOM_MIN = 0.05;
export const ZOOM_MAX = 20;
/** How far from the middle of the board one can look, in board pixels: coordinates reach 2^30 sixteenths. */
const REACH = 2 ** 26;
/** Free space around the ink when it is fitted, in CSS pixels. */
const FIT_MARGIN = 48;
/** Under this zoom nothing could be recognised at first sight. */
export const SIGHT_ZOOM_MIN = 0.1;
/** Few ink is not blown up beyond this when it is fitted. */
const FIT_ZOOM_MAX = 2;

function clamp(value: number, low: number, high: number): number {
  return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : Math.min(high, Math.max(low, 0));
}

/** Brings a view into range; what is no number becomes the middle of the board, unzoomed. */
export function limited(view: View): View {
  return {
    x: clamp(view.x, -REACH, REACH),
    y: clamp(view.y, -REACH, REACH),
    zoom: Number.isFinite(view.zoom) ? clamp(view.zoom, ZOOM_MIN, ZOOM_MAX) : 1,
  };
}

/** Moves the board by a way in CSS pixels of the stage. */
export function panned(view: View, dx: number, dy: number): View {
  return limited({ x: view.x - dx / view.zoom, y: view.y - dy / view.zoom, zoom: view.zoom });
}

/** Zooms so that the board's point under `at` stays there. */
export function zoomedAbout(view: View, size: Size, at: Point, factor: number): View {
  return gripped(view, size, { ...at, span: 1 }, { ...at, span: factor });
}

/** Moves and zooms so that what was between the fingers still is. */
export function gripped(view: View, size: Size, from: Grip, to: Grip): View {
  const { zoom } = limited({ ...view, zoom: (view.zoom * to.span) / from.span });
  const boardX = view.x + (from.x - size.width / 2) / view.zoom;
  const boardY = view.y + (from.y - size.height / 2) / view.zoom;
  return limited({
    x: boardX - (to.x - size.width / 2) / zoom,
    y: boardY - (to.y - size.height / 2) / zoom,
    zoom,
  });
}

/** The view that shows a whole box, at most so large; the middle of the board, unzoomed, if it is empty. A box that
 * does not fit shows its middle only: see {@link fits}. */
export function fitted(box: Box, size: Size, zoomMax = FIT_ZOOM_MAX): View {
  if (isEmpty(box)) {
    return { x: 0, y: 0, zoom: 1 };
  }
  const zoom = Math.min(zoomMax, fittingZoom(box, size));
  return limited({ x: (box.x0 + box.x1) / 2, y: (box.y0 + box.y1) / 2, zoom });
}

/** Whether a whole box can be shown at that zoom. */
export function fits(box: Box, size: Size, zoom: number): boolean {
  return isEmpty(box) || fittingZoom(box, size) >= zoom;
}

function fittingZoom(box: Box, size: Size): number {
  const width = Math.max(1, size.width - 2 * FIT_MARGIN);
  const height = Math.max(1, size.height - 2 * FIT_MARGIN);
  return Math.min(width / Math.max(1, box.x1 - box.x0), height / Math.max(1, box.y1 - box.y0));
}

/** The view of a stage that took another size, so that the board stays where it is at the top left. */
export function resized(view: View, from: Size, to: Size): View {
  const dx = (to.width - from.width) / 2 / view.zoom;
  const dy = (to.height - from.height) / 2 / view.zoom;
  return limited({ x: view.x + dx, y: view.y + dy, zoom: view.zoom });
}

/** Between two views, `t` from 0 to 1: the zoom geometrically, so that it seems even. */
export function between(from: View, to: View, t: number): View {
  if (t >= 1) {
    return to;
  }
  const zoom = from.zoom * (to.zoom / from.zoom) ** t;
  // What moves evenly on the screen moves on the board as 1 / zoom does.
  const part = from.zoom === to.zoom ? t : (1 / zoom - 1 / from.zoom) / (1 / to.zoom - 1 / from.zoom);
  return limited({ x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part, zoom });
}

/** A view put onto real pixels. The origin is rounded to whole ones: tiles stay sharp, and a view shows one picture only. */
export interface Projection {
  /** Device pixels. */
  readonly width: number;
  readonly height: number;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  /** Device pixels per board pixel. */
  readonly scale: number;
  /** Where the board's zero lies, in device pixels. */
  readonly originX: number;
  readonly originY: number;
}

export function projected(view: View, size: Size, ratio: number): Projection {
  const width = Math.max(1, Math.round(size.width * ratio));
  const height = Math.max(1, Math.round(size.height * ratio));
  const scale = view.zoom * ratio;
  return {
    width,
    height,
    ratio,
    scale,
    originX: Math.round(width / 2 - view.x * scale),
    originY: Math.round(height / 2 - view.y * scale),
  };
}

/** From CSS pixels of the stage to board pixels. */
export function toBoard(projection: Projection, point: Point): Point {
  return {
    x: (point.x * projection.ratio - projection.originX) / projection.scale,
    y: (point.y * projection.ratio - projection.originY) / projection.scale,
  };
}

/** From board pixels to CSS pixels of the stage. */
export function toStage(projection: Projection, point: Point): Point {
  return {
    x: (point.x * projection.scale + projection.originX) / projection.ratio,
    y: (point.y * projection.scale + projection.originY) / projection.ratio,
  };
}

/** The part of the board that shows. */
export function shown(projection: Projection): Box {
  return {
    x0: -projection.originX / projection.scale,
    y0: -projection.originY / projection.scale,
    x1: (projection.width - projection.originX) / projection.scale,
    y1: (projection.height - projection.originY) / projection.scale,
  };
}
