/**
 * The spatial index: which things lie where. A grid of several levels: each thing stands in the level whose cells are
 * at least as large as it is, so in at most four cells, whatever its size.
 */
import { type Box, isEmpty, touches } from "./box.ts";

/** The side of the smallest cells, in board pixels. */
const CELL_MIN = 64;

interface Level<T> {
  readonly cell: number;
  readonly cells: Map<string, Set<T>>;
}

interface Place {
  readonly level: number;
  readonly keys: readonly string[];
}

export class SpatialIndex<T extends { readonly box: Box }> {
  readonly #levels = new Map<number, Level<T>>();
  readonly #places = new Map<T, Place>();

  /** Puts a thing where its box is now; also one that is already there. */
  put(thing: T): void {
    if (isEmpty(thing.box)) {
      this.remove(thing);
      return;
    }
    const side = Math.max(thing.box.x1 - thing.box.x0, thing.box.y1 - thing.box.y0, CELL_MIN);
    const number = Math.ceil(Math.log2(side / CELL_MIN));
    const level = this.#levels.get(number) ?? { cell: CELL_MIN * 2 ** number, cells: new Map() };
    const keys = [...keysOf(thing.box, level.cell)];
    const old = this.#places.get(thing);
    if (
      old &&
      old.level === number &&
      old.keys.length === keys.length &&
      old.keys.every((key, i) => key === keys[i])
    ) {
      return;
    }
    this.remove(thing);
    this.#levels.set(number, level);
    for (const key of keys) {
      const cell = level.cells.get(key);
      if (cell) {
        cell.add(thing);
      } else {
        level.cells.set(key, new Set([thing]));
      }
    }
    this.#places.set(thing, { level: number, keys });
  }

  remove(thing: T): void {
    const place = this.#places.get(thing);
    const level = place && this.#levels.get(place.level);
    if (!place || !level) {
      return;
    }
    this.#places.delete(thing);
    for (const key of place.keys) {
      const cell = level.cells.get(key);
      cell?.delete(thing);
      if (cell?.size === 0) {
        level.cells.delete(key);
      }
    }
    if (level.cells.size === 0) {
      this.#levels.delete(place.level);
    }
  }

  clear(): void {
    this.#levels.clear();
    this.#places.clear();
  }

  /** Everything whose box touches that one, in no order. */
  find(box: Box): T[] {
    const found = new Set<T>();
    for (const level of this.#levels.values()) {
      const columns = Math.floor(box.x1 / level.cell) - Math.floor(box.x0 / level.cell) + 1;
      const rows = Math.floor(box.y1 / level.cell) - Math.floor(box.y0 / level.cell) + 1;
      if (columns * rows > level.cells.size) {
        for (const cell of level.cells.values()) {
          gather(cell, box, found);
        }
      } else {
        for (const key of keysOf(box, level.cell)) {
          gather(level.cells.get(key), box, found);
        }
      }
    }
    return [...found];
  }
}

function gather<T extends { readonly box: Box }>(cell: Set<T> | undefined, box: Box, found: Set<T>): void {
  for (const thing of cell ?? []) {
    if (touches(thing.box, box)) {
      found.add(thing);
    }
  }
}

function* keysOf(box: Box, cell: number): Generator<string> {
  for (let x = Math.floor(box.x0 / cell); x <= Math.floor(box.x1 / cell); x++) {
    for (let y = Math.floor(box.y0 / cell); y <= Math.floor(box.y1 / cell); y++) {
      yield `${x},${y}`;
    }
  }
}
