/** The stage: the canvas that shows a picture, takes the pen, and can be panned and zoomed. */
import type { Picture, StrokeName, Style } from "../../src/index.ts";

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

export declare class Stage {
  constructor(options: StageOptions);
  /** What is drawn with. */
  mode: Mode;
  rgba: number;
  /** CSS pixels on the board. */
  width: number;
  /** True: nothing can be drawn. */
  readOnly: boolean;
  /** Paper and ink colours. */
  theme: "light" | "dark";
  readonly view: View;
  /** Shows a picture; the hand gets what is drawn. `null` hand: nothing can be drawn (time-lapse). Ink that was drawn
   * before the first call is kept and handed over then. */
  show(picture: Picture, hand: Hand | null): void;
  setView(view: View, animate?: boolean): void;
  zoomBy(factor: number): void;
  /** Shows all ink, or the middle of the board if there is none. */
  fit(): void;
  /** From the board to the stage, in CSS pixels, and back. */
  toStage(point: { x: number; y: number }): { x: number; y: number };
  toBoard(point: { x: number; y: number }): { x: number; y: number };
  /** Resolves when everything that shows is painted at full quality. For tests and pictures. */
  settled(): Promise<void>;
  destroy(): void;
}

/** All ink of a picture as PNG; `scale` is pixels per board pixel, lowered where the picture would be too large. */
export declare function toPng(picture: Picture, scale: number): Promise<Blob>;
/** All ink of a picture as an SVG text. */
export declare function toSvg(picture: Picture): string;
