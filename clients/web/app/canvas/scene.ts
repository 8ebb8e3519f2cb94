/**
 * The scene: the shapes of a picture, kept up to date by its changes, and which of them are still moving.
 *
 * A shape is baked (painted into tiles, exactly in its order) when its stroke is whole, or has not grown for
 * {@link REST}, as with people who left in the middle of a stroke. Until then it is lifted: painted on the layer above.
 * So what shows at last depends on the strokes alone.
 */
import { type Change, type Picture, SELF, type Stroke } from "../../src/index.ts";
import { type Box, emptyBox, include, isEmpty } from "./box.ts";
import type { Guess } from "./outline.ts";
import { Shape } from "./shape.ts";
import { type Spot, sight } from "./sight.ts";
import { SpatialIndex } from "./spatial-index.ts";

/** A stroke that has not grown for that long is painted with the finished ones, in ms. */
export const REST = 1500;
/** When more strokes than that come at once, someone's board is loading, and nothing is played. */
const PLAYED_MAX = 64;

/** Is told what of the scene has to be painted. Boxes are in board pixels. */
export interface SceneListener {
  /** A shape went into the tiles; it may have been lifted until now. */
  baked(shape: Shape, wasLifted: boolean): void;
  /** Finished ink changed there. */
  spoiled(box: Box): void;
  /** Lifted ink changed there. */
  moved(box: Box): void;
  removed(shape: Shape): void;
  /** Everything changed. */
  reset(): void;
}

export class Scene {
  readonly lifted = new Set<Shape>();
  readonly #listener: SceneListener;
  readonly #shapes = new Map<Stroke, Shape>();
  readonly #index = new SpatialIndex<Shape>();
  #picture: Picture | null = null;
  #unsubscribe: () => void = () => {};
  /** While the stage's own hand draws: such changes show at once. */
  #ownHand = false;
  /** The stroke that is being drawn here: its number, and which it is by now. */
  #heldNumber: number | null = null;
  #held: Stroke | null = null;
  /** Whether others' strokes grow smoothly. */
  smooth = true;
  /** The time that changes are stamped with, in ms. */
  readonly #clock: () => number;

  constructor(listener: SceneListener, clock: () => number) {
    this.#listener = listener;
    this.#clock = clock;
  }

  get size(): number {
    return this.#shapes.size;
  }

  /** Forgets everything and shows another picture. */
  show(picture: Picture): void {
    this.#unsubscribe();
    this.#picture = picture;
    this.#heldNumber = null;
    this.#load(picture.strokes());
    this.#unsubscribe = picture.subscribe((change) => this.#change(change));
  }

  close(): void {
    this.#unsubscribe();
    this.#picture = null;
  }

  /** Runs something that draws for oneself: what changes by that shows at once. */
  byOwnHand<T>(act: () => T): T {
    this.#ownHand = true;
    try {
      return act();
    } finally {
      this.#ownHand = false;
    }
  }

  /** The own stroke of that number is under the pen now: it is not baked however long the pen rests. `null`: none is. */
  hold(number: number | null): void {
    const held = this.#held && this.#shapes.get(this.#held);
    if (held) {
      this.#listener.moved(held.guess([]));
      held.grownAt = this.#clock();
    }
    this.#heldNumber = number;
    this.#findHeld();
  }

  /** Whether the stroke under the pen shows. */
  get holds(): boolean {
    return this.#heldNumber !== null && this.#picture?.find([SELF, this.#heldNumber]) !== undefined;
  }

  /** Where the own pen is guessed to be next. */
  guess(guesses: readonly Guess[]): void {
    const shape = this.#held && this.#shapes.get(this.#held);
    if (shape && !shape.baked) {
      this.#listener.moved(shape.guess(guesses));
    }
  }

  /** Baked shapes that touch a box, in painting order. */
  within(box: Box): Shape[] {
    return this.#index
      .find(box)
      .filter((shape) => shape.baked)
      .sort((a, b) => a.stroke.order - b.stroke.order);
  }

  /** All shapes that touch a box. */
  near(box: Box): Shape[] {
    return this.#index.find(box);
  }

  /** The box around all ink, also what is still to be revealed; or around a part of it that fits. */
  sight(fits: (box: Box) => boolean): Box {
    const shapes = [...this.#shapes.values()].filter((shape) => shape.total > 0);
    const spots = shapes.map((shape): Spot => {
      const box = { ...shape.box };
      if (shape.count < shape.total) {
        include(box, shape.span(shape.count, shape.total));
      }
      return { order: shape.stroke.order, box, end: () => shape.span(shape.total - 1, shape.total) };
    });
    return sight(spots, fits);
  }

  /** Lets strokes grow, and bakes those that are done. Returns when it has to be called again at the latest; 0: next frame. */
  advance(now: number): number {
    let wait = Infinity;
    for (const shape of [...this.lifted]) {
      const count = this.smooth ? Math.min(shape.reveal.at(now), shape.total) : shape.total;
      if (!this.smooth) {
        shape.reveal.jump(shape.total, now);
      }
      if (count !== shape.count) {
        this.#listener.moved(shape.show(count));
        this.#index.put(shape);
      }
      if (!shape.reveal.done) {
        wait = 0;
      } else if (shape.stroke !== this.#held) {
        const rest = shape.grownAt + REST - now;
        if (shape.stroke.closed || rest <= 0) {
          this.#bake(shape, true);
        } else {
          wait = Math.min(wait, rest);
        }
      }
    }
    return wait;
  }

  #load(strokes: readonly Stroke[]): void {
    for (const shape of this.#shapes.values()) {
      this.#listener.removed(shape);
    }
    this.#shapes.clear();
    this.#index.clear();
    this.lifted.clear();
    this.#listener.reset();
    this.#findHeld();
    for (const stroke of strokes) {
      this.#add(stroke, false);
    }
  }

  #findHeld(): void {
    const number = this.#heldNumber;
    this.#held = number === null ? null : (this.#picture?.find([SELF, number]) ?? null);
  }

  #change(change: Change): void {
    if (change.reset) {
      this.#load(this.#picture?.strokes() ?? change.appeared);
      return;
    }
    const appeared = new Set(change.appeared);
    const play = this.smooth && !this.#ownHand && appeared.size <= PLAYED_MAX;
    for (const stroke of change.vanished) {
      // What came and went within one change stands in both lists; the picture knows how it ended.
      if (!appeared.has(stroke) || this.#picture?.find([stroke.author, stroke.number]) !== stroke) {
        appeared.delete(stroke);
        this.#remove(stroke);
      }
    }
    for (const stroke of appeared) {
      if (this.#shapes.has(stroke)) {
        this.#grow(stroke, play);
      } else {
        this.#add(stroke, play);
      }
    }
    for (const stroke of change.grown) {
      this.#grow(stroke, play);
    }
  }

  #add(stroke: Stroke, play: boolean): void {
    const now = this.#clock();
    const shape = new Shape(stroke, now);
    this.#shapes.set(stroke, shape);
    if (play) {
      shape.reveal.push(shape.total, now);
      this.lifted.add(shape);
      this.#listener.moved(emptyBox());
      return;
    }
    shape.reveal.jump(shape.total, now);
    shape.show(shape.total);
    this.#index.put(shape);
    if (stroke.closed && !this.#ownHand && stroke !== this.#held) {
      this.#bake(shape, false);
    } else {
      this.lifted.add(shape);
      this.#listener.moved(shape.box);
    }
  }

  #grow(stroke: Stroke, play: boolean): void {
    const shape = this.#shapes.get(stroke);
    if (!shape) {
      return;
    }
    const now = this.#clock();
    const { total } = shape;
    if (total === shape.reveal.total) {
      // Only closed, or its author is known now.
      this.#listener.moved(emptyBox());
      return;
    }
    shape.grownAt = now;
    if (shape.baked) {
      shape.baked = false;
      this.#listener.spoiled(shape.box);
      this.lifted.add(shape);
      shape.reveal.jump(shape.count, now);
      this.#listener.moved(shape.box);
    }
    if (play && total > shape.count) {
      shape.reveal.push(total, now);
      this.#listener.moved(emptyBox());
    } else {
      shape.reveal.jump(total, now);
      this.#listener.moved(shape.show(total));
      this.#index.put(shape);
    }
  }

  #remove(stroke: Stroke): void {
    const shape = this.#shapes.get(stroke);
    if (!shape) {
      return;
    }
    this.#shapes.delete(stroke);
    this.#index.remove(shape);
    if (this.lifted.delete(shape)) {
      this.#listener.moved(shape.box);
    } else if (!isEmpty(shape.box)) {
      this.#listener.spoiled(shape.box);
    }
    this.#listener.removed(shape);
  }

  #bake(shape: Shape, wasLifted: boolean): void {
    shape.baked = true;
    this.lifted.delete(shape);
    this.#listener.baked(shape, wasLifted);
  }
}
