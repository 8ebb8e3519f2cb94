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

/** A tile that was begun so often, and was spoiled each time before it was done, is painted in one go. */
const RESTARTS_MAX = 3;
/** Strokes that are painted between two looks at the clock. */
const STROKES_PER_LOOK = 8;

/** Pictures that are kept to be used again. */
const SPARE_MAX = 16;

/** Where tiles get their strokes from. */
export interface TileSource {
  /** Baked shapes that touch a box, in painting order. */
  within(box: Box): Shape[];
}

/** A tile on the way: painted aside over as many frames as it takes, while the old picture shows. */
interface Painting {
  readonly picture: CanvasRenderingContext2D;
  readonly shapes: readonly Shape[];
  next: number;
}

interface Tile {
  readonly column: number;
  readonly row: number;
  readonly scale: number;
  /** Board pixels, a pixel wider than the tile: ink that ends there may still colour its edge. */
  readonly box: Box;
  /** `null`: nothing but paper. */
  picture: CanvasRenderingContext2D | null;
  painting: Painting | null;
  restarts: number;
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
      if (tile.fresh && !tile.painting && tile.pending.size === 0) {
        continue;
      }
      // Appending is cheap, and ink that was just drawn should not wait.
      const appends = tile.fresh && !tile.painting && cell.shows;
      if ((appends || !late()) && this.#paint(tile, late)) {
        changed.push(tile);
      }
      if (tile.painting || !tile.fresh || tile.pending.size > 0) {
        shown &&= !cell.shows;
        done = false;
      }
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
          if (tile && (tile.picture || (tile.fresh && !tile.painting))) {
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
      const lacks = !tile.fresh || tile.painting || tile.pending.has(shape);
      if (cell.shows && lacks && touches(tile.box, shape.box)) {
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
        painting: null,
        restarts: 0,
        fresh: false,
        pending: new Set(),
        used: this.#frame,
      };
      level.set(key, tile);
    }
    return tile;
  }

  /** Paints a tile until `late` says so; returns whether its picture changed. */
  #paint(tile: Tile, late: () => boolean): boolean {
    if (tile.fresh && !tile.painting) {
      const additions = this.#additions(tile);
      if (additions) {
        tile.pending.clear();
        tile.picture ??= this.#blank(this.#spare.pop());
        this.#fill(tile, tile.picture, additions);
        return true;
      }
      tile.fresh = false;
    }
    if (!tile.fresh) {
      tile.restarts += tile.painting ? 1 : 0;
      const shapes = this.#source.within(tile.box);
      tile.fresh = true;
      tile.pending.clear();
      if (shapes.length === 0) {
        this.#free(tile);
        return true;
      }
      tile.painting = { picture: this.#blank(tile.painting?.picture ?? this.#spare.pop()), shapes, next: 0 };
    }
    const { painting } = tile;
    if (!painting) {
      return false;
    }
    const patient = tile.restarts < RESTARTS_MAX;
    while (painting.next < painting.shapes.length) {
      if (patient && painting.next > 0 && late()) {
        return false;
      }
      const end = painting.next + STROKES_PER_LOOK;
      this.#fill(tile, painting.picture, painting.shapes.slice(painting.next, end));
      painting.next = end;
    }
    this.#release(tile.picture);
    tile.picture = painting.picture;
    tile.painting = null;
    tile.restarts = 0;
    return true;
  }

  #fill(tile: Tile, picture: CanvasRenderingContext2D, shapes: readonly Shape[]): void {
    const placing = { scale: tile.scale, left: -tile.column * TILE, top: -tile.row * TILE };
    for (const shape of shapes) {
      this.#brush.fill(picture, shape, placing, tile.box);
    }
  }

  #blank(picture = newPicture()): CanvasRenderingContext2D {
    picture.fillStyle = paper(this.#brush.theme);
    picture.fillRect(0, 0, TILE, TILE);
    return picture;
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
    let bytes = tiles.reduce((sum, tile) => sum + bytesOf(tile), 0);
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
      bytes -= bytesOf(tile);
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
    this.#release(tile.picture);
    this.#release(tile.painting?.picture ?? null);
    tile.picture = null;
    tile.painting = null;
  }

  #release(picture: CanvasRenderingContext2D | null): void {
    if (picture && this.#spare.length < SPARE_MAX) {
      this.#spare.push(picture);
    } else if (picture) {
      // Safari keeps a canvas's memory for long unless it is told.
      picture.canvas.width = 0;
    }
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

function bytesOf(tile: Tile): number {
  return ((tile.picture ? 1 : 0) + (tile.painting ? 1 : 0)) * TILE_BYTES;
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
