/** The page on which the stage is tried alone: a picture in memory stands for the client. */

import { Stage, toPng, toSvg } from "../../../app/canvas/stage.ts";
import {
  type Change,
  Channel,
  type Picture,
  SELF,
  type Stroke,
  type StrokeName,
  type Style,
} from "../../../src/index.ts";
import { differing, fill, inked, pixels, play } from "./play.ts";

/** Values that are places. */
const PLACES = 2;

/** A picture that is drawn on by hand and by the test. */
export class Sheet implements Picture {
  readonly all: Stroke[] = [];
  readonly calls: string[] = [];
  readonly #listeners = new Set<(change: Change) => void>();
  #next = 1;
  #order = 1;

  strokes(): readonly Stroke[] {
    return this.all;
  }
  find([author, number]: StrokeName): Stroke | undefined {
    return this.all.find((stroke) => stroke.author === author && stroke.number === number);
  }
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
  tell(change: Partial<Change>): void {
    for (const listener of this.#listeners) {
      listener({ reset: false, appeared: [], grown: [], vanished: [], ...change });
    }
  }

  /** Someone's stroke, points absolute. */
  put(
    author: number,
    style: Style,
    channels: number,
    values: number[],
    closed: boolean,
    order?: number,
  ): Stroke {
    const stroke: Stroke = {
      author,
      number: this.#next++,
      style,
      channels,
      at: 0,
      order: order ?? this.#order++,
      closed,
      values: [...values],
    };
    this.all.push(stroke);
    this.all.sort((a, b) => a.order - b.order);
    return stroke;
  }
  grow(stroke: Stroke, values: number[], closed: boolean): void {
    stroke.values.push(...values);
    stroke.closed = closed;
    this.tell({ grown: [stroke] });
  }

  begin(style: Style, channels: number, points: readonly number[]): number {
    const stroke = this.put(SELF, style, channels, [], false);
    this.#append(stroke, points);
    this.calls.push("begin");
    this.tell({ appeared: [stroke] });
    return stroke.number;
  }
  extend(number: number, points: readonly number[], end = false): void {
    const stroke = this.find([SELF, number]);
    if (stroke) {
      this.#append(stroke, points);
      stroke.closed = end;
      this.calls.push(end ? "end" : "extend");
      this.tell({ grown: [stroke] });
    }
  }
  cancel(number: number): void {
    this.calls.push("cancel");
    this.#vanish((stroke) => stroke.author === SELF && stroke.number === number);
  }
  erase(names: readonly StrokeName[]): void {
    this.calls.push("erase");
    const gone = new Set(names.map(String));
    this.#vanish((stroke) => gone.has(String([stroke.author, stroke.number])));
  }
  beginGroup(): void {
    this.calls.push("beginGroup");
  }
  endGroup(): void {
    this.calls.push("endGroup");
  }
  pointer(): void {}

  #vanish(which: (stroke: Stroke) => boolean): void {
    const vanished = this.all.filter(which);
    for (const stroke of vanished) {
      this.all.splice(this.all.indexOf(stroke), 1);
    }
    this.tell({ vanished });
  }
  #append({ values, channels }: Stroke, points: readonly number[]): void {
    const step = PLACES + (channels & Channel.PRESSURE ? 1 : 0) + (channels & Channel.TILT ? 2 : 0);
    for (const point of points) {
      values.push(point + (values.length % step < PLACES ? (values[values.length - step] ?? 0) : 0));
    }
  }
}

const host = document.getElementById("host");
if (!host) {
  throw new Error("no host");
}
const notes: string[] = [];
const options = {
  host,
  onView: () => {},
  onForbidden: () => notes.push("forbidden"),
  onPen: () => notes.push("pen"),
};
const tools = {
  stage: new Stage(options),
  sheet: new Sheet(),
  notes,
  toPng,
  toSvg,
  play,
  fill,
  pixels,
  differing,
  inked,
  /** Another stage in the place of the first, as in a window that joins late. */
  again(): Stage {
    tools.stage.destroy();
    tools.stage = new Stage(options);
    return tools.stage;
  },
};
declare global {
  interface Window {
    tried: typeof tools;
  }
}
window.tried = tools;
