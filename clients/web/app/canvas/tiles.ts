/**
 * Tiles: finished ink, painted once and kept as square pictures.
 *
 * What a tile shows depends on its strokes, their order and the scale only. A tile is painted whole, in order; a later
 * stroke is painted on top only where no stroke above it is near, which gives the very same pixels. Tiles lie at whole
 * device pixels from the board's zero, so that all windows with one scale cut the board alike, and no clip but the
 * tile's own edge is used, since a clip may change how a rasterizer rounds.
 */
import { type Box, padded, touches } from "./box.ts";
import type { Brush } from "./brush.ts";
import type { Projection } from "./camera.ts";
import { paper } from "./colour.ts";
import type { Shape } from "./shape.ts";

/** A tile's side in device pixels. */
export const TILE = 512;
const TILE_BYTES = TILE * TILE * 4;
/** All tiles together, unless more than that show at once. */
const BYTES_MAX = 96 * 2 ** 20;

/** Where tiles get their strokes from. */
export interface TileSource {
  /** Baked shapes that touch a box, in painting order. */
  within(box: Box): Shape[];
}

interface Tile {
  readonly column: number;
  readonly row: number;
  readonly scale: number;
  /** Board pixels, a pixel wider than the tile: ink that ends there may still colour its edge. */
  readonly box: Box;
  /** `null`: nothing but paper. */
  picture: CanvasRenderingContext2D | null;
  /** False: it has to be painted from the start. */
  fresh: boolean;
  /** What is to be painted on top. */
  readonly pending: Set<Shape>;
  /** The frame in which it was last wanted. */
  used: number;
}

type Level = Map<string, Tile>;

interface Cell {
  readonly column: number;
  readonly row: number;
  readonly shows: boolean;
  readonly far: number;
}

export class Tiles {
  readonly #source: TileSource;
  readonly #brush: Brush;
  readonly #levels = new Map<number, Level>();
  /** The scale that tiles are painted at. */
  #target = 0;
  /** What is shown, scaled, where a tile of the target is not painted yet. */
  #fallback = 0;
  /** All that shows was painted at the target once: it can be a fallback. */
  #usable = false;
  #frame = 0;
  readonly #spare: CanvasRenderingContext2D[] = [];

  constructor(source: TileSource, brush: Brush) {
    this.#source = source;
    this.#brush = brush;
  }

  get target(): number {
    return this.#target;
  }

  /** From now on tiles are painted at that scale. */
  retarget(scale: number): void {
    if (scale !== this.#target) {
      if (this.#usable) {
        this.#fallback = this.#target;
      }
      this.#usable = false;
      this.#target = scale;
    }
  }

  /** A shape was baked. */
  add(shape: Shape): void {
    for (const [scale, level] of this.#levels) {
      for (const tile of level.values()) {
        if (tile.fresh && touches(tile.box, shape.box)) {
          if (scale === this.#target) {
            tile.pending.add(shape);
          } else {
            tile.fresh = false;
          }
        }
      }
    }
  }

  /** What shows there has changed in another way. */
  spoil(box: Box): void {
    for (const level of this.#levels.values()) {
      for (const tile of level.values()) {
        if (touches(tile.box, box)) {
          tile.fresh = false;
        }
      }
    }
  }

  /** Forgets everything at once. */
  clear(): void {
    for (const level of this.#levels.values()) {
      for (const tile of level.values()) {
        this.#free(tile);
      }
    }
    this.#levels.clear();
  }

  /** All tiles have to be painted anew, and show as they are until then. */
  spoilAll(): void {
    for (const level of this.#levels.values()) {
      for (const tile of level.values()) {
        tile.fresh = false;
      }
    }
  }

  /**
   * Paints what is missing, nearest to the middle first, until `late` says so; tiles that are near but do not show
   * come last. Returns the tiles that changed, and whether all that shows is done and whether all is.
   */
  work(projection: Projection, late: () => boolean): { changed: Tile[]; shown: boolean; done: boolean } {
    this.#frame++;
    const level = this.#level(this.#target);
    const changed: Tile[] = [];
    let shown = true;
    let done = true;
    for (const cell of cellsOf(projection, this.#target)) {
      const tile = this.#tile(level, cell);
      tile.used = this.#frame;
      if (tile.fresh && tile.pending.size === 0) {
        continue;
      }
      // Appending is cheap, and ink that was just drawn should not wait.
      if (late() && !(tile.fresh && cell.shows)) {
        shown &&= !cell.shows;
        done = false;
        continue;
      }
      this.#paint(tile);
      changed.push(tile);
    }
    if (shown) {
      this.#usable = true;
      this.#fallback = 0;
    }
    this.#evict();
    return { changed, shown, done };
  }

  /** Puts all that shows onto a canvas of the stage's size. */
  compose(context: CanvasRenderingContext2D, projection: Projection): void {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = paper(this.#brush.theme);
    context.fillRect(0, 0, projection.width, projection.height);
    for (const scale of [this.#fallback, this.#target]) {
      const level = this.#levels.get(scale);
      if (level) {
        for (const cell of cellsOf(projection, scale)) {
          const tile = cell.shows ? level.get(keyOf(cell)) : undefined;
          // A tile that was never painted must not cover what lies below.
          if (tile && (tile.picture || tile.fresh)) {
            tile.used = this.#frame;
            this.put(context, projection, tile);
          }
        }
      }
    }
  }

  /** Puts one tile where it belongs. */
  put(context: CanvasRenderingContext2D, projection: Projection, tile: Tile): void {
    const place = placeOf(projection, tile);
    if (tile.picture) {
      context.drawImage(tile.picture.canvas, place.x0, place.y0, place.x1 - place.x0, place.y1 - place.y0);
    } else {
      context.fillStyle = paper(this.#brush.theme);
      context.fillRect(place.x0, place.y0, place.x1 - place.x0, place.y1 - place.y0);
    }
  }

  /** The places, in device pixels, where a baked shape belongs and does not show yet. */
  lacking(shape: Shape, projection: Projection): Box[] {
    const level = this.#level(this.#target);
    const places: Box[] = [];
    for (const cell of cellsOf(projection, this.#target)) {
      const tile = this.#tile(level, cell);
      if (cell.shows && (!tile.fresh || tile.pending.has(shape)) && touches(tile.box, shape.box)) {
        places.push(placeOf(projection, tile));
      }
    }
    return places;
  }

  #level(scale: number): Level {
    let level = this.#levels.get(scale);
    if (!level) {
      level = new Map();
      this.#levels.set(scale, level);
    }
    return level;
  }

  #tile(level: Level, cell: Cell): Tile {
    const key = keyOf(cell);
    let tile = level.get(key);
    if (!tile) {
      const side = TILE / this.#target;
      const box = {
        x0: cell.column * side,
        y0: cell.row * side,
        x1: (cell.column + 1) * side,
        y1: (cell.row + 1) * side,
      };
      tile = {
        column: cell.column,
        row: cell.row,
        scale: this.#target,
        box: padded(box, 1 / this.#target),
        picture: null,
        fresh: false,
        pending: new Set(),
        used: this.#frame,
      };
      level.set(key, tile);
    }
    return tile;
  }

  #paint(tile: Tile): void {
    const additions = tile.fresh ? this.#additions(tile) : null;
    const shapes = additions ?? this.#source.within(tile.box);
    tile.pending.clear();
    tile.fresh = true;
    if (shapes.length === 0) {
      this.#free(tile);
      return;
    }
    const blank = !additions || !tile.picture;
    tile.picture ??= this.#spare.pop() ?? newPicture();
    if (blank) {
      tile.picture.fillStyle = paper(this.#brush.theme);
      tile.picture.fillRect(0, 0, TILE, TILE);
    }
    const placing = { scale: tile.scale, left: -tile.column * TILE, top: -tile.row * TILE };
    for (const shape of shapes) {
      this.#brush.fill(tile.picture, shape, placing, tile.box);
    }
  }

  /** What is pending, in order, if painting it on top gives what painting everything would; `null` if not. */
  #additions(tile: Tile): Shape[] | null {
    const additions = [...tile.pending].sort((a, b) => a.stroke.order - b.stroke.order);
    for (const shape of additions) {
      const near = padded(shape.box, 2 / tile.scale);
      const within = {
        x0: Math.max(near.x0, tile.box.x0),
        y0: Math.max(near.y0, tile.box.y0),
        x1: Math.min(near.x1, tile.box.x1),
        y1: Math.min(near.y1, tile.box.y1),
      };
      const above = this.#source
        .within(within)
        .some((other) => other.stroke.order > shape.stroke.order && !tile.pending.has(other));
      if (above) {
        return null;
      }
    }
    return additions;
  }

  #evict(): void {
    const tiles = [...this.#levels.values()].flatMap((level) => [...level.values()]);
    let bytes = tiles.filter((tile) => tile.picture).length * TILE_BYTES;
    // Tiles without a picture cost little, but there must not be any number of them.
    const idle = tiles.filter((tile) => tile.used < this.#frame);
    if (bytes <= BYTES_MAX && tiles.length <= 4096) {
      return;
    }
    let count = tiles.length;
    for (const tile of idle.sort((a, b) => a.used - b.used)) {
      if (bytes <= BYTES_MAX && count <= 4096) {
        break;
      }
      bytes -= tile.picture ? TILE_BYTES : 0;
      count--;
      this.#free(tile);
      const level = this.#levels.get(tile.scale);
      level?.delete(keyOf(tile));
      if (level?.size === 0) {
        this.#levels.delete(tile.scale);
      }
    }
  }

  #free(tile: Tile): void {
    if (tile.picture && this.#spare.length < 16) {
      this.#spare.push(tile.picture);
    } else if (tile.picture) {
      // Safari keeps a canvas's memory for long unless it is told.
      tile.picture.canvas.width = 0;
    }
    tile.picture = null;
  }
}

function newPicture(): CanvasRenderingContext2D {
  const canvas = document.createElement("canvas");
  canvas.width = TILE;
  canvas.height = TILE;
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) {
    throw new Error("this browser has no 2D canvas");
  }
  return context;
}

function keyOf(cell: { readonly column: number; readonly row: number }): string {
  return `${cell.column},${cell.row}`;
}

/** A tile's place on the stage, in whole device pixels. */
function placeOf(projection: Projection, tile: Tile): Box {
  const side = (TILE * projection.scale) / tile.scale;
  return {
    x0: Math.round(projection.originX + tile.column * side),
    y0: Math.round(projection.originY + tile.row * side),
    x1: Math.round(projection.originX + (tile.column + 1) * side),
    y1: Math.round(projection.originY + (tile.row + 1) * side),
  };
}

/** The cells of a level that show, and a ring around them; nearest to the middle first. */
function cellsOf(projection: Projection, scale: number): Cell[] {
  const side = (TILE * projection.scale) / scale;
  // A level so much finer than the view that it would take thousands of tiles is of no use.
  if (!(side >= 64)) {
    return [];
  }
  const column0 = Math.floor(-projection.originX / side);
  const row0 = Math.floor(-projection.originY / side);
  const column1 = Math.ceil((projection.width - projection.originX) / side) - 1;
  const row1 = Math.ceil((projection.height - projection.originY) / side) - 1;
  const middleX = (projection.width / 2 - projection.originX) / side - 0.5;
  const middleY = (projection.height / 2 - projection.originY) / side - 0.5;
  const cells: Cell[] = [];
  for (let row = row0 - 1; row <= row1 + 1; row++) {
    for (let column = column0 - 1; column <= column1 + 1; column++) {
      const shows = column >= column0 && column <= column1 && row >= row0 && row <= row1;
      const far = Math.hypot(column - middleX, row - middleY) + (shows ? 0 : 1e6);
      cells.push({ column, row, shows, far });
    }
  }
  return cells.sort((a, b) => a.far - b.far);
}
