/** The brush: fills shapes on a canvas. Paths are made once and kept, within a bound. */
import type { Box } from "./box.ts";
import { type Fill, fillOf, type Theme } from "./colour.ts";
import type { Shape } from "./shape.ts";

/** Corners of outlines that are kept; about 24 bytes each in a browser. Beyond, those unused for longest are dropped. */
const CORNERS_MAX = 2_000_000;

/** How the board lies on a canvas: pixels of the canvas per board pixel, and where the board's zero is. */
export interface Placing {
  readonly scale: number;
  readonly left: number;
  readonly top: number;
}

export class Brush {
  #theme: Theme = "light";
  /** Oldest use first, with each shape's weight. */
  readonly #kept = new Map<Shape, number>();
  #corners = 0;
  readonly #fills = new Map<string, Fill>();

  get theme(): Theme {
    return this.#theme;
  }
  set theme(theme: Theme) {
    this.#theme = theme;
    this.#fills.clear();
  }

  /** Fills a shape; what lies outside of `within`, in board pixels, may be missing. */
  fill(context: CanvasRenderingContext2D, shape: Shape, placing: Placing, within: Box): void {
    if (shape.count === 0) {
      return;
    }
    const { tool, rgba } = shape.stroke.style;
    const fill = this.#fill(tool, rgba);
    const scale = placing.scale / 16;
    context.setTransform(
      scale,
      0,
      0,
      scale,
      shape.originX * scale + placing.left,
      shape.originY * scale + placing.top,
    );
    context.globalAlpha = fill.alpha;
    context.fillStyle = fill.rgb;
    context.fill(shape.path(within));
    context.globalAlpha = 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.#keep(shape);
  }

  /** A shape is gone. */
  drop(shape: Shape): void {
    this.#corners -= this.#kept.get(shape) ?? 0;
    this.#kept.delete(shape);
    shape.forget();
  }

  #fill(tool: number, rgba: number): Fill {
    const key = `${tool},${rgba}`;
    let fill = this.#fills.get(key);
    if (!fill) {
      fill = fillOf(tool, rgba, this.#theme);
      if (this.#fills.size > 1000) {
        this.#fills.clear();
      }
      this.#fills.set(key, fill);
    }
    return fill;
  }

  #keep(shape: Shape): void {
    const weight = shape.weight;
    this.#corners += weight - (this.#kept.get(shape) ?? 0);
    this.#kept.delete(shape);
    this.#kept.set(shape, weight);
    for (const [oldest] of this.#kept) {
      if (this.#corners <= CORNERS_MAX || oldest === shape) {
        break;
      }
      this.drop(oldest);
    }
  }
}
