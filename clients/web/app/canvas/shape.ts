/** A shape: one stroke as the stage shows it: how many of its points, where, and the path to fill. */
import type { Stroke } from "../../src/index.ts";
import { type Box, emptyBox, include, padded, touches } from "./box.ts";
import { around, type Guess, Outline, type Polygon, reach, stride, trace } from "./outline.ts";
import { Reveal } from "./reveal.ts";

/** A piece of a shape: a path relative to the stroke's first point, in sixteenths. */
interface Piece {
  readonly path: Path2D;
  /** Board pixels. */
  readonly box: Box;
  readonly corners: number;
}

export class Shape {
  readonly stroke: Stroke;
  /** Holds every pixel of the points that show; grows only, in board pixels. */
  readonly box: Box = emptyBox();
  /** Whether it belongs into tiles; otherwise it is painted on the layer above them. */
  baked = false;
  /** When its newest points came, in ms. */
  grownAt: number;
  /** Points in front of the pen, guessed; painted with the layer above only. */
  guesses: readonly Guess[] = [];
  readonly reveal = new Reveal();
  readonly #stride: number;
  readonly #reach: number;
  /** Points that show. */
  #count = 0;
  #outline: Outline | null = null;
  #whole: Piece[] = [];
  #tail: Piece | null = null;
  #all: Path2D | null = null;

  constructor(stroke: Stroke, now: number) {
    this.stroke = stroke;
    this.grownAt = now;
    this.#stride = stride(stroke.channels);
    this.#reach = (reach(stroke.style) + 1) / 16;
  }

  /** Points that the stroke has by now. */
  get total(): number {
    return Math.floor(this.stroke.values.length / this.#stride);
  }

  /** Points that show. */
  get count(): number {
    return this.#count;
  }

  /** Where its first point lies, in sixteenths: paths are relative to it. */
  get originX(): number {
    return this.stroke.values[0] ?? 0;
  }
  get originY(): number {
    return this.stroke.values[1] ?? 0;
  }

  /** Shows that many points; returns the box of what changed, with what follows a guess. */
  show(count: number): Box {
    const changed = emptyBox();
    const before = emptyBox();
    if (count < this.#count) {
      // Points were taken back: all is made anew.
      include(before, this.box);
      this.forget();
      this.#count = 0;
      Object.assign(this.box, emptyBox());
    }
    if (this.#tail) {
      include(changed, this.#tail.box);
    }
    // The joint before the newest point changes too.
    include(changed, this.span(Math.max(0, Math.min(this.#count, count) - 3), count));
    if (count !== this.#count) {
      this.#count = count;
      this.#tail = null;
      this.#all = null;
    }
    include(this.box, changed);
    include(changed, before);
    return changed;
  }

  /** The box that holds every pixel of the points from `from` up to `count`, whether they show or not. */
  span(from: number, count: number): Box {
    const box = emptyBox();
    const { values } = this.stroke;
    for (let i = from; i < count; i++) {
      const x = (values[i * this.#stride] ?? 0) / 16;
      const y = (values[i * this.#stride + 1] ?? 0) / 16;
      box.x0 = Math.min(box.x0, x);
      box.y0 = Math.min(box.y0, y);
      box.x1 = Math.max(box.x1, x);
      box.y1 = Math.max(box.y1, y);
    }
    return padded(box, this.#reach);
  }

  /** Sets the guesses; returns the box of what changed. */
  guess(guesses: readonly Guess[]): Box {
    const changed = emptyBox();
    if (guesses.length === 0 && this.guesses.length === 0) {
      return changed;
    }
    if (this.#tail) {
      include(changed, this.#tail.box);
    }
    this.guesses = guesses;
    this.#tail = null;
    this.#all = null;
    include(changed, this.#last().box);
    return changed;
  }

  /** How many corners are kept in memory. */
  get weight(): number {
    return this.#whole.reduce((sum, piece) => sum + piece.corners, this.#tail?.corners ?? 0);
  }

  /** Drops everything that can be made again. */
  forget(): void {
    this.#outline = null;
    this.#whole = [];
    this.#tail = null;
    this.#all = null;
  }

  /** The path to fill within a box of the board. */
  path(within: Box): Path2D {
    const tail = this.#last();
    if (this.#whole.length === 0) {
      return tail.path;
    }
    const pieces = [...this.#whole, tail];
    const touched = pieces.filter((piece) => touches(piece.box, within));
    if (touched.length === pieces.length) {
      this.#all ??= joined(pieces);
      return this.#all;
    }
    return joined(touched);
  }

  /** Every piece's outline, for pictures: relative to the first point, in sixteenths. */
  polygons(): Polygon[] {
    const { stroke } = this;
    const outline = new Outline(stroke.style, stroke.channels);
    outline.grow(stroke.values, this.total);
    const polygons: Polygon[] = [];
    for (let number = 0; number < outline.whole; number++) {
      polygons.push(outline.piece(number));
    }
    polygons.push(outline.tail(stroke.values));
    return polygons;
  }

  #last(): Piece {
    if (this.#tail) {
      return this.#tail;
    }
    const { stroke } = this;
    this.#outline ??= new Outline(stroke.style, stroke.channels);
    this.#outline.grow(stroke.values, this.#count);
    for (let number = this.#whole.length; number < this.#outline.whole; number++) {
      this.#whole.push(this.#piece(this.#outline.piece(number)));
    }
    this.#tail = this.#piece(this.#outline.tail(stroke.values, this.guesses));
    if (stroke.closed && this.#count === this.total) {
      // Nothing grows any more; the pieces are enough.
      this.#outline = null;
    }
    return this.#tail;
  }

  #piece(polygon: Polygon): Piece {
    const path = new Path2D();
    trace(polygon, path);
    // Chromium's rasterizer takes a shorter way for convex paths, rounds differently there, and remembers per path
    // whether it is convex, depending on where it was painted first. Of a path with a second contour, which here has
    // no area, it never thinks so: it comes out the same however often it was painted before.
    const [corner] = polygon;
    if (corner) {
      path.moveTo(corner[0], corner[1]);
      path.lineTo(corner[0], corner[1]);
      path.closePath();
    }
    const box = around(polygon);
    const { originX, originY } = this;
    return {
      path,
      corners: polygon.length,
      box: {
        x0: (originX + box.x0 - 1) / 16,
        y0: (originY + box.y0 - 1) / 16,
        x1: (originX + box.x1 + 1) / 16,
        y1: (originY + box.y1 + 1) / 16,
      },
    };
  }
}

function joined(pieces: readonly Piece[]): Path2D {
  const path = new Path2D();
  for (const piece of pieces) {
    path.addPath(piece.path);
  }
  return path;
}
