/**
 * The drawing hand: turns what the gesture decides into draws. Points wait for the end of a frame and go together;
 * a stroke's end never waits, since a page may get no further frame.
 */
import type { StrokeName, Style } from "../../src/index.ts";
import type { Point } from "./camera.ts";
import { hits, wayBox } from "./eraser.ts";
import type { Device } from "./gesture.ts";
import { channelsOf, Ink, type PenPoint } from "./ink.ts";
import type { Scene } from "./scene.ts";
import type { Hand } from "./stage.ts";

type Work =
  | { readonly kind: "none" }
  | {
      readonly kind: "ink";
      readonly ink: Ink;
      readonly style: Style;
      stroke: number | null;
      /** It was in the picture when it was begun: one that was refused at once does not begin again with every move. */
      showed: boolean;
    }
  | { readonly kind: "eraser"; readonly radius: number; at: Point; readonly names: Map<string, StrokeName> };

const NONE: Work = { kind: "none" };

export class DrawingHand {
  readonly #scene: Scene;
  #hand: Hand;
  #work: Work = NONE;

  constructor(scene: Scene, hand: Hand) {
    this.#scene = scene;
    this.#hand = hand;
  }

  get busy(): boolean {
    return this.#work.kind !== "none";
  }

  get erasing(): boolean {
    return this.#work.kind === "eraser";
  }

  /** Draws with another hand from now on; a stroke that goes on has that number there. */
  give(hand: Hand, number: (old: number) => number | undefined): void {
    this.#hand = hand;
    const work = this.#work;
    if (work.kind === "ink" && work.stroke !== null) {
      const taken = number(work.stroke);
      if (taken === undefined) {
        this.#work = NONE;
      } else {
        work.stroke = taken;
        this.#scene.hold(taken);
        work.showed = this.#scene.holds;
      }
    } else if (work.kind === "eraser") {
      this.#hand.beginGroup();
    }
  }

  beginInk(device: Device, style: Style, points: readonly PenPoint[]): void {
    const [first] = points;
    if (first) {
      this.#startInk(channelsOf(device, first), style);
      this.extend(points);
    }
  }

  /** `radius` in board pixels. */
  beginErasing(radius: number, points: readonly PenPoint[]): void {
    const [first] = points;
    if (first) {
      this.#hand.beginGroup();
      this.#work = { kind: "eraser", radius, at: first, names: new Map() };
      this.extend(points);
    }
  }

  /** `mayBegin`: a stroke that vanished under the pen goes on in a new one. */
  extend(points: readonly PenPoint[], mayBegin = true): void {
    if (mayBegin) {
      this.#startAnewIfGone();
    }
    const work = this.#work;
    for (const point of points) {
      if (work.kind === "ink") {
        work.ink.add(point);
      } else if (work.kind === "eraser") {
        for (const { stroke } of this.#scene.near(wayBox(work.at, point, work.radius))) {
          const name = `${stroke.author},${stroke.number}`;
          if (!work.names.has(name) && hits(stroke, work.at, point, work.radius)) {
            work.names.set(name, [stroke.author, stroke.number]);
          }
        }
        work.at = point;
      }
    }
  }

  #startInk(channels: number, style: Style): void {
    this.#work = { kind: "ink", ink: new Ink(channels), style, stroke: null, showed: false };
  }

  /** Somebody cleared the board or erased the stroke under the pen: a pen that draws on goes on in a new one. */
  #startAnewIfGone(): void {
    const work = this.#work;
    if (work.kind === "ink" && work.showed && !this.#scene.holds) {
      this.end();
      this.#startInk(work.ink.channels, work.style);
    }
  }

  /** Hands on what came since the last frame. */
  flush(): void {
    const work = this.#work;
    if (work.kind === "ink") {
      const points = work.ink.take();
      if (points.length > 0) {
        this.#send(work, points, false);
      }
    } else if (work.kind === "eraser" && work.names.size > 0) {
      const names = [...work.names.values()];
      work.names.clear();
      this.#scene.byOwnHand(() => this.#hand.erase(names));
    }
  }

  end(): void {
    const work = this.#work;
    if (work.kind === "ink") {
      this.#send(work, work.ink.take(), true);
      this.#scene.hold(null);
    } else if (work.kind === "eraser") {
      this.flush();
      this.#hand.endGroup();
    }
    this.#work = NONE;
  }

  /** As if the stroke had not been drawn. What was erased stays erased: it can be undone. */
  cancel(): void {
    const work = this.#work;
    if (work.kind !== "ink") {
      this.end();
      return;
    }
    this.#work = NONE;
    this.#scene.hold(null);
    const { stroke } = work;
    if (stroke !== null) {
      this.#scene.byOwnHand(() => this.#hand.cancel(stroke));
    }
  }

  #send(work: Work & { kind: "ink" }, points: number[], end: boolean): void {
    this.#scene.byOwnHand(() => {
      if (work.stroke === null) {
        work.stroke = this.#hand.begin(work.style, work.ink.channels, points);
        this.#scene.hold(work.stroke);
        work.showed = this.#scene.holds;
        if (end) {
          this.#hand.extend(work.stroke, [], true);
        }
      } else {
        this.#hand.extend(work.stroke, points, end);
      }
    });
  }
}
