/** The stage: the canvas that shows a picture, takes the pen, and can be panned and zoomed. */
import { type Picture, type StrokeName, type Style, Tool } from "../../src/index.ts";
import { type Box, holds, isEmpty } from "./box.ts";
import {
  between,
  fits,
  fitted,
  gripped,
  limited,
  type Projection,
  panned,
  projected,
  resized,
  SIGHT_ZOOM_MIN,
  type Size,
  shown,
  toBoard,
  toStage,
  ZOOM_MIN,
  zoomedAbout,
} from "./camera.ts";
import { DrawingHand } from "./drawing-hand.ts";
import { EarlyInk } from "./early-ink.ts";
import { type Decision, Gesture, type PointerInput, type Sample } from "./gesture.ts";
import { type PenPoint, quantized } from "./ink.ts";
import { Painter } from "./painter.ts";
import { listen } from "./pointer-input.ts";
import { Scene } from "./scene.ts";
import { Surface } from "./surface.ts";
import { listenToView } from "./view-input.ts";

export { toPng, toSvg } from "./export.ts";

/** What the pen does. */
export type Mode = "pen" | "highlighter" | "eraser" | "hand";

/** Where on the unbounded board one looks: the board's point at the middle of the stage, and the scale. */
export interface View {
  /** CSS pixels of the board. */
  readonly x: number;
  readonly y: number;
  /** Screen pixels per board pixel; 0.05 to 20. */
  readonly zoom: number;
}

/** Takes what the pen does. The library's client is one. */
export interface Hand {
  begin(style: Style, channels: number, points: readonly number[]): number;
  extend(stroke: number, points: readonly number[], end?: boolean): void;
  cancel(stroke: number): void;
  erase(strokes: readonly StrokeName[]): void;
  beginGroup(): void;
  endGroup(): void;
  pointer(x: number, y: number): void;
}

export interface StageOptions {
  /** Fills this element. */
  readonly host: HTMLElement;
  /** Called when the view changed, by hand or by program. */
  readonly onView: (view: View, byHand: boolean) => void;
  /** Called when drawing was tried although {@link Stage.readOnly} is set. */
  readonly onForbidden: () => void;
  /** Called when a pen was seen for the first time: from now on fingers pan. */
  readonly onPen: () => void;
}

/** The eraser's radius, in CSS pixels of the screen. */
const ERASER_RADIUS = 12;
/** How long a view takes to change when it is animated, in ms. */
const ANIMATION = 260;

interface Animation {
  readonly from: View;
  readonly to: View;
  readonly start: number;
}

export class Stage {
  /** CSS pixels on the board. */
  width = 4;
  rgba = 0x1f1f1fff;
  /** True: nothing can be drawn. */
  readOnly = false;
  readonly #options: StageOptions;
  readonly #surface: Surface;
  readonly #painter: Painter;
  readonly #scene: Scene;
  readonly #gesture = new Gesture();
  readonly #early = new EarlyInk();
  readonly #pen: DrawingHand;
  readonly #stops: (() => void)[];
  #hand: Hand | null;
  #mode: Mode = "pen";
  #view: View = { x: 0, y: 0, zoom: 1 };
  #size: Size;
  #ratio: number;
  #projection: Projection;
  #animation: Animation | null = null;
  #waiting: (() => void)[] = [];
  #destroyed = false;
  /** A finger tries to draw although it may not. It is told when it lifts: it may be the first of a pinch. */
  #forbidden = false;
  /** The pending frame, and the pending timer that asks for one. */
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Guesses were painted in the last frame: they go with the next. */
  #guessed = false;

  constructor(options: StageOptions) {
    this.#options = options;
    this.#surface = new Surface(options.host);
    this.#size = this.#surface.size;
    this.#ratio = this.#surface.ratio;
    this.#projection = projected(this.#view, this.#size, this.#ratio);
    this.#painter = new Painter(this.#surface.below, this.#surface.above, () => this.#wake());
    this.#scene = new Scene(this.#painter, () => performance.now());
    this.#painter.attach(this.#scene);
    this.#hand = this.#early;
    this.#pen = new DrawingHand(this.#scene, this.#early);
    this.#scene.show(this.#early);
    this.#stops = [
      this.#surface.watch(() => this.#resize()),
      listen(options.host, {
        take: (input, predicted) => this.#take(input, predicted),
        leave: () => this.#surface.hideRing(),
      }),
      listenToView(options.host, {
        pan: (dx, dy) => this.#look(panned(this.#view, dx, dy), true),
        zoom: (factor, at) => this.#look(zoomedAbout(this.#view, this.#size, at, factor), true),
        space: (held) => {
          this.#gesture.space = held;
          this.#dress();
        },
        touched: () => this.#gesture.kind !== "idle",
      }),
      this.#watchPage(),
    ];
    this.theme = "light";
    this.#dress();
    this.#wake();
  }

  /** What is drawn with. */
  get mode(): Mode {
    return this.#mode;
  }
  set mode(mode: Mode) {
    this.#mode = mode;
    this.#dress();
  }

  /** Paper and ink colours. */
  get theme(): "light" | "dark" {
    return this.#painter.theme;
  }
  set theme(theme: "light" | "dark") {
    this.#painter.theme = theme;
    this.#surface.paper = this.#painter.paper;
  }

  get view(): View {
    return this.#view;
  }

  /** Shows a picture; the hand gets what is drawn. `null` hand: nothing can be drawn (time-lapse), and the pen pans. Ink
   * that was drawn before the first call with a hand is kept and handed over then. */
  show(picture: Picture, hand: Hand | null): void {
    const early = this.#hand === this.#early;
    if (!early) {
      this.#decide(this.#gesture.stop());
      this.#pen.flush();
    }
    this.#scene.show(picture);
    this.#hand = hand;
    if (hand) {
      const numbers = this.#scene.byOwnHand(() => this.#early.handOver(hand));
      this.#pen.give(hand, (old) => numbers.get(old));
    }
    this.#dress();
    this.#wake();
  }

  setView(view: View, animate = false): void {
    const to = limited(view);
    if (animate && !prefersStill() && document.visibilityState === "visible") {
      this.#animation = { from: this.#view, to, start: performance.now() };
      this.#wake();
    } else {
      this.#animation = null;
      this.#painter.hurry();
      this.#look(to, false);
    }
  }

  zoomBy(factor: number): void {
    const from = this.#animation?.to ?? this.#view;
    this.setView({ ...from, zoom: from.zoom * factor }, true);
  }

  /** Shows all ink, or the place with most of it if it is spread too wide, or the middle of the board if there is none. */
  fit(): void {
    this.setView(fitted(this.#ink(ZOOM_MIN), this.#size), true);
  }

  /** Shows the same, at most life-size, recognisable and at once, if some of it is out of sight. */
  bringIntoSight(): void {
    const ink = this.#ink(SIGHT_ZOOM_MIN);
    if (!isEmpty(ink) && !holds(shown(this.#projection), ink)) {
      this.setView(fitted(ink, this.#size, 1));
    }
  }

  /** From the board to the stage, in CSS pixels, and back. */
  toStage(point: { x: number; y: number }): { x: number; y: number } {
    return toStage(this.#projection, point);
  }
  toBoard(point: { x: number; y: number }): { x: number; y: number } {
    return toBoard(this.#projection, point);
  }

  /** Resolves when everything that shows is painted at full quality. For tests and pictures. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#destroyed) {
        resolve();
        return;
      }
      this.#waiting.push(resolve);
      this.#wake();
    });
  }

  destroy(): void {
    this.#decide(this.#gesture.stop());
    this.#destroyed = true;
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    for (const stop of this.#stops) {
      stop();
    }
    this.#scene.close();
    this.#surface.remove();
    this.#release();
  }

  #ink(zoomMin: number): Box {
    return this.#scene.sight((box) => fits(box, this.#size, zoomMin));
  }

  #take(input: PointerInput, predicted: readonly Sample[]): void {
    const drew = this.#pen.busy;
    this.#decide(this.#gesture.take(input));
    if (this.#pen.busy && drew && predicted.length > 0 && this.#mode === "pen") {
      this.#scene.guess(
        predicted.map((sample) => {
          const { x, y } = this.#onBoard(sample);
          return { x: x * 16, y: y * 16 };
        }),
      );
      this.#guessed = true;
    }
  }

  #decide(decisions: readonly Decision[]): void {
    for (const decision of decisions) {
      switch (decision.kind) {
        case "begin":
          this.#begin(decision);
          break;
        case "extend":
          this.#pen.extend(
            decision.samples.map((sample) => this.#onBoard(sample)),
            !this.readOnly,
          );
          this.#point(decision.samples.at(-1));
          this.#wake();
          break;
        case "end":
          if (this.#forbidden) {
            this.#forbidden = false;
            this.#options.onForbidden();
          }
          this.#pen.end();
          this.#wake();
          break;
        case "cancel":
          this.#forbidden = false;
          this.#pen.cancel();
          this.#wake();
          break;
        case "grip":
          this.#look(gripped(this.#view, this.#size, decision.from, decision.to), true);
          break;
        case "hover":
          this.#point(decision.sample);
          break;
        case "pen":
          this.#options.onPen();
          break;
        default:
          decision satisfies never;
      }
    }
  }

  #begin(decision: Decision & { kind: "begin" }): void {
    if (this.#animation) {
      // Not stopped half-way, which would leave 106 %; and not later, which would move the board under the pen.
      this.setView(this.#animation.to);
    }
    if (this.readOnly) {
      if (decision.device === "touch") {
        this.#forbidden = true;
      } else {
        this.#options.onForbidden();
      }
      return;
    }
    if (!this.#hand) {
      return;
    }
    const points = decision.samples.map((sample) => this.#onBoard(sample));
    if (decision.tool === "eraser") {
      this.#pen.beginErasing(ERASER_RADIUS / this.#view.zoom, points);
    } else {
      const tool = this.#mode === "highlighter" ? Tool.HIGHLIGHTER : Tool.PEN;
      const width = Math.min(65_535, Math.max(0, Math.round(this.width * 16) || 0));
      this.#pen.beginInk(decision.device, { tool, rgba: this.rgba >>> 0, width }, points);
    }
    this.#point(decision.samples.at(-1));
    this.#wake();
  }

  #onBoard(sample: Sample): PenPoint {
    return { ...sample, ...toBoard(this.#projection, sample) };
  }

  /** Tells others where the pointer is, and shows the eraser's ring there. */
  #point(sample: Sample | undefined): void {
    if (!sample || !this.#hand) {
      return;
    }
    const { x, y } = toBoard(this.#projection, sample);
    this.#hand.pointer(quantized(x), quantized(y));
    if (this.#mode === "eraser" || this.#pen.erasing) {
      this.#surface.showRing(sample, ERASER_RADIUS);
    } else {
      this.#surface.hideRing();
    }
  }

  #look(view: View, byHand: boolean): void {
    if (byHand) {
      this.#animation = null;
    }
    const { x, y, zoom } = this.#view;
    this.#view = view;
    this.#projection = projected(view, this.#size, this.#ratio);
    if (x !== view.x || y !== view.y || zoom !== view.zoom) {
      this.#options.onView(view, byHand);
    }
    this.#wake();
  }

  #resize(): void {
    const before = this.#size;
    this.#size = this.#surface.size;
    this.#ratio = this.#surface.ratio;
    this.#painter.hurry();
    // Under a pen that draws, the board stays where it is: a stroke would jump.
    this.#look(this.#pen.busy ? resized(this.#view, before, this.#size) : this.#view, false);
    // Resizing blanks a canvas; painting at once leaves no blank frame.
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#paint();
  }

  /** What a pointer does, and how that looks. */
  #dress(): void {
    const purpose = this.#mode === "hand" || !this.#hand ? "pan" : this.#mode === "eraser" ? "eraser" : "ink";
    this.#gesture.purpose = purpose;
    const pans = purpose === "pan" || this.#gesture.space;
    this.#surface.cursor = pans ? "grab" : purpose === "eraser" ? "none" : "crosshair";
    if (purpose !== "eraser") {
      this.#surface.hideRing();
    }
  }

  #watchPage(): () => void {
    // A page that is put away may get no frame again: what was drawn goes out now.
    const away = () => this.#pen.flush();
    const turned = () => {
      away();
      clearTimeout(this.#timer);
      cancelAnimationFrame(this.#frame);
      this.#frame = 0;
      this.#timer = undefined;
      this.#wake();
    };
    window.addEventListener("pagehide", away);
    document.addEventListener("visibilitychange", turned);
    return () => {
      window.removeEventListener("pagehide", away);
      document.removeEventListener("visibilitychange", turned);
    };
  }

  #wake(): void {
    if (this.#frame === 0 && !this.#destroyed) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      if (document.visibilityState === "visible") {
        this.#frame = requestAnimationFrame(() => {
          this.#frame = 0;
          this.#paint();
        });
      } else {
        this.#later(50);
      }
    }
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (document.visibilityState === "visible") {
        this.#wake();
      } else {
        this.#paint();
      }
    }, ms);
  }

  #paint(): void {
    const now = performance.now();
    this.#animate(now);
    this.#scene.smooth = document.visibilityState === "visible" && !prefersStill();
    this.#pen.flush();
    const { settled, wait } = this.#painter.frame(this.#projection, now);
    if (this.#guessed) {
      this.#guessed = false;
      this.#scene.guess([]);
    }
    if (settled && this.#animation === null && this.#frame === 0) {
      this.#release();
    }
    if (wait <= 0 || this.#animation) {
      this.#wake();
    } else if (wait < Infinity && this.#frame === 0) {
      this.#later(wait);
    }
  }

  #animate(now: number): void {
    const animation = this.#animation;
    if (!animation) {
      return;
    }
    const t = Math.min(1, (now - animation.start) / ANIMATION);
    const eased = 1 - (1 - t) ** 3;
    if (t >= 1) {
      this.#animation = null;
      this.#painter.hurry();
    }
    this.#look(between(animation.from, animation.to, eased), false);
    // Nothing that this frame does not paint was asked for.
    if (!this.#animation) {
      cancelAnimationFrame(this.#frame);
      this.#frame = 0;
    }
  }

  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) {
      resolve();
    }
  }
}

function prefersStill(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
