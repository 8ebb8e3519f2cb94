/**
 * The painter: puts a scene onto two canvases, finished ink from tiles below and moving ink on the layer above, and in
 * every frame paints only what changed.
 */
import { type Box, emptyBox, include, isEmpty, touches } from "./box.ts";
import { Brush } from "./brush.ts";
import type { Projection } from "./camera.ts";
import { shown } from "./camera.ts";
import { paper, type Theme } from "./colour.ts";
import type { Scene, SceneListener } from "./scene.ts";
import type { Shape } from "./shape.ts";
import { Tiles } from "./tiles.ts";

/** Time for tiles in one frame, in ms. */
const BUDGET = 8;
/** A zoom that has not changed for that long is one to paint tiles for, in ms. */
const STEADY = 90;
/** Views that follow each other faster are one movement, in ms. */
const MOVEMENT = 150;
/** Beyond that much larger or smaller, scaled tiles are too ugly to wait. */
const STRETCH_MAX = 2.5;

export interface FrameResult {
  /** Everything that shows is painted as it stays. */
  readonly settled: boolean;
  /** In how many ms there is more to do; 0: in the next frame; Infinity: when something changes. */
  readonly wait: number;
}

export class Painter implements SceneListener {
  readonly #below: CanvasRenderingContext2D;
  readonly #above: CanvasRenderingContext2D;
  readonly #brush = new Brush();
  readonly #wake: () => void;
  #tiles: Tiles | null = null;
  #scene: Scene | null = null;
  /** Baked, and still painted above until its tiles are. */
  readonly #leaving = new Set<Shape>();
  /** What to paint anew above, in board pixels. */
  #dirty: Box = emptyBox();
  /** The whole stage has to be composed anew. */
  #stale = true;
  #projection: Projection | null = null;
  #scaleAt = -Infinity;
  #hasty = true;

  constructor(below: HTMLCanvasElement, above: HTMLCanvasElement, wake: () => void) {
    this.#below = contextOf(below, false);
    this.#above = contextOf(above, true);
    this.#wake = wake;
  }

  attach(scene: Scene): void {
    this.#scene = scene;
    this.#tiles = new Tiles(scene, this.#brush);
  }

  get theme(): Theme {
    return this.#brush.theme;
  }
  set theme(theme: Theme) {
    this.#brush.theme = theme;
    this.#tiles?.clear();
    this.#all();
  }

  /** The zoom of the next frame stays: its tiles need not wait. */
  hurry(): void {
    this.#hasty = true;
  }

  baked(shape: Shape, wasLifted: boolean): void {
    this.#tiles?.add(shape);
    if (wasLifted) {
      this.#leaving.add(shape);
    }
    this.#wake();
  }

  spoiled(box: Box): void {
    this.#tiles?.spoil(box);
    this.#wake();
  }

  moved(box: Box): void {
    include(this.#dirty, box);
    this.#wake();
  }

  removed(shape: Shape): void {
    if (this.#leaving.delete(shape)) {
      include(this.#dirty, shape.box);
    }
    this.#brush.drop(shape);
  }

  reset(): void {
    this.#leaving.clear();
    // What shows stays until it is painted anew, so that a reset does not flash.
    this.#tiles?.spoilAll();
    this.#all();
  }

  /** Paints one frame. `now` in ms, of the clock that `performance.now` reads. */
  frame(projection: Projection, now: number): FrameResult {
    const scene = this.#scene;
    const tiles = this.#tiles;
    if (!scene || !tiles) {
      return { settled: false, wait: Infinity };
    }
    this.#look(projection, now);
    const growing = scene.advance(now);

    const steady = this.#aim(tiles, projection, now);
    const end = performance.now() + BUDGET;
    let work = { shown: false, done: false };
    if (projection.scale === tiles.target) {
      const { changed, ...rest } = tiles.work(projection, () => performance.now() > end);
      work = rest;
      if (!this.#stale) {
        for (const tile of changed) {
          tiles.put(this.#below, projection, tile);
        }
      }
    }
    if (this.#stale) {
      tiles.compose(this.#below, projection);
      this.#stale = false;
    }
    this.#paintAbove(scene, tiles, projection);

    const working = projection.scale === tiles.target ? (work.done ? Infinity : 0) : steady;
    return {
      settled: work.shown && this.#leaving.size === 0 && scene.lifted.size === 0,
      wait: Math.min(growing, working),
    };
  }

  #look(projection: Projection, now: number): void {
    const before = this.#projection;
    this.#projection = projection;
    if (before?.width !== projection.width || before.height !== projection.height) {
      for (const { canvas } of [this.#below, this.#above]) {
        canvas.width = projection.width;
        canvas.height = projection.height;
      }
      this.#all();
    }
    if (before?.scale !== projection.scale) {
      // Following someone's zoom sets many views in a row; tiles for each of them would be for nothing.
      this.#hasty &&= now - this.#scaleAt > MOVEMENT;
      this.#scaleAt = now;
      this.#all();
    } else if (before.originX !== projection.originX || before.originY !== projection.originY) {
      this.#all();
    }
  }

  /** Decides for which zoom tiles are painted; returns how long to wait until that is worth while. */
  #aim(tiles: Tiles, projection: Projection, now: number): number {
    const stretch = projection.scale / tiles.target;
    const wait = this.#scaleAt + STEADY - now;
    if (
      stretch !== 1 &&
      (this.#hasty || wait <= 0 || !(stretch < STRETCH_MAX && stretch > 1 / STRETCH_MAX))
    ) {
      tiles.retarget(projection.scale);
      this.#stale = true;
    }
    this.#hasty = false;
    return Math.max(0, wait);
  }

  #paintAbove(scene: Scene, tiles: Tiles, projection: Projection): void {
    const lacking = new Map<Shape, Box[]>();
    for (const shape of this.#leaving) {
      const places = tiles.lacking(shape, projection);
      include(this.#dirty, shape.box);
      if (places.length === 0) {
        this.#leaving.delete(shape);
      } else {
        lacking.set(shape, places);
      }
    }
    if (isEmpty(this.#dirty)) {
      return;
    }
    const view = shown(projection);
    const dirty = this.#dirty;
    this.#dirty = emptyBox();
    if (!touches(dirty, view)) {
      return;
    }
    const context = this.#above;
    const { scale, originX, originY } = projection;
    const x0 = Math.max(0, Math.floor(dirty.x0 * scale + originX) - 1);
    const y0 = Math.max(0, Math.floor(dirty.y0 * scale + originY) - 1);
    const x1 = Math.min(projection.width, Math.ceil(dirty.x1 * scale + originX) + 1);
    const y1 = Math.min(projection.height, Math.ceil(dirty.y1 * scale + originY) + 1);
    const within = {
      x0: (x0 - originX) / scale,
      y0: (y0 - originY) / scale,
      x1: (x1 - originX) / scale,
      y1: (y1 - originY) / scale,
    };
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.beginPath();
    context.rect(x0, y0, x1 - x0, y1 - y0);
    context.clip();
    context.clearRect(x0, y0, x1 - x0, y1 - y0);
    const placing = { scale, left: originX, top: originY };
    const shapes = [...scene.lifted, ...lacking.keys()]
      .filter((shape) => touches(shape.box, within))
      .sort((a, b) => a.stroke.order - b.stroke.order);
    for (const shape of shapes) {
      const places = lacking.get(shape);
      if (places) {
        // Only where its tile does not show it yet: painted twice, translucent ink would darken.
        context.save();
        context.beginPath();
        for (const place of places) {
          context.rect(place.x0, place.y0, place.x1 - place.x0, place.y1 - place.y0);
        }
        context.clip();
        this.#brush.fill(context, shape, placing, within);
        context.restore();
      } else {
        this.#brush.fill(context, shape, placing, within);
      }
    }
    context.restore();
  }

  #all(): void {
    this.#stale = true;
    this.#dirty = { x0: -Infinity, y0: -Infinity, x1: Infinity, y1: Infinity };
    this.#wake();
  }

  /** The paper's colour, for what surrounds the canvas. */
  get paper(): string {
    return paper(this.#brush.theme);
  }
}

function contextOf(canvas: HTMLCanvasElement, alpha: boolean): CanvasRenderingContext2D {
  const context = canvas.getContext("2d", { alpha });
  if (!context) {
    throw new Error("this browser has no 2D canvas");
  }
  return context;
}
