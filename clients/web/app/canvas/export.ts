/** The export: all ink of a picture as PNG or SVG, as in light, with the very outlines that the stage shows. */
import type { Picture, Stroke } from "../../src/index.ts";
import { type Box, emptyBox, holds, include, isEmpty, padded, touches } from "./box.ts";
import { Brush } from "./brush.ts";
import { fillOf, paper } from "./colour.ts";
import { type Sink, trace } from "./outline.ts";
import { Shape } from "./shape.ts";
import { type Spot, sight } from "./sight.ts";

/** Paper around the ink, in board pixels. */
const MARGIN = 24;
/** The same where only a part is shown, which may be the end of a single line. */
const PART_MARGIN = 320;
/** The paper of an empty board, in board pixels. */
const EMPTY: Box = { x0: -320, y0: -240, x1: 320, y1: 240 };
/** What a canvas can be on an iPad, in pixels. */
const PIXELS_MAX = 16_777_216;
const SIDE_MAX = 8192;

/** A pen of usual width is about one pixel wide at this scale; at a smaller one it fades away. */
const SCALE_MIN = 0.25;

interface Sheet {
  readonly shapes: readonly Shape[];
  readonly box: Box;
}

export function sheetOf(picture: Picture): Sheet {
  const strokes: Stroke[] = [...picture.strokes()].sort((a, b) => a.order - b.order);
  const box = emptyBox();
  const shapes = strokes.map((stroke) => new Shape(stroke, 0)).filter((shape) => shape.total > 0);
  for (const shape of shapes) {
    shape.show(shape.total);
    include(box, shape.box);
  }
  return { shapes, box: isEmpty(box) ? EMPTY : padded(box, MARGIN) };
}

/** The scale at which a picture of a box can be had: the one wanted, or the largest that a canvas can hold. */
export function scaleWithin(box: Box, wanted: number): number {
  const width = box.x1 - box.x0;
  const height = box.y1 - box.y0;
  return Math.min(
    wanted > 0 && Number.isFinite(wanted) ? wanted : 1,
    SIDE_MAX / width,
    SIDE_MAX / height,
    Math.sqrt(PIXELS_MAX / (width * height)),
  );
}

/** What a PNG of a board shows. */
export interface Frame {
  /** Board pixels. */
  readonly box: Box;
  /** Pixels per board pixel. */
  readonly scale: number;
  /** Whether all ink is on it. */
  readonly whole: boolean;
}

/** All ink at the scale that is asked for, or lowered; where it would be dust even so, the place with most of it. */
export function frameOf({ shapes, box: all }: Sheet, wanted: number): Frame {
  // Who asks for less than is legible gets that.
  const least = Math.min(SCALE_MIN, scaleWithin(EMPTY, wanted));
  const spots = shapes.map(
    (shape): Spot => ({
      order: shape.stroke.order,
      box: shape.box,
      end: () => shape.span(shape.total - 1, shape.total),
    }),
  );
  const part = sight(spots, (box) => isEmpty(box) || scaleWithin(padded(box, MARGIN), least) >= least);
  const whole = isEmpty(part) || holds(padded(part, MARGIN), all);
  const box = whole ? all : padded(part, PART_MARGIN);
  return { box, scale: scaleWithin(box, wanted), whole };
}

/** A PNG, and whether all ink is on it. */
export interface Png {
  readonly blob: Blob;
  readonly whole: boolean;
}

/** The ink of a picture as PNG; `scale` is pixels per board pixel, lowered where the picture would be too large. Ink that is
 * spread too wide even for that is shown in part. Rejects where the browser has no canvas of that size. */
export async function toPng(picture: Picture, scale: number): Promise<Png> {
  const sheet = sheetOf(picture);
  const { box, scale: fitting, whole } = frameOf(sheet, scale);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.floor((box.x1 - box.x0) * fitting));
  canvas.height = Math.max(1, Math.floor((box.y1 - box.y0) * fitting));
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) {
    throw new Error("this browser has no 2D canvas");
  }
  context.fillStyle = paper("light");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const brush = new Brush();
  const placing = { scale: fitting, left: -box.x0 * fitting, top: -box.y0 * fitting };
  for (const shape of sheet.shapes.filter((each) => touches(each.box, box))) {
    brush.fill(context, shape, placing, box);
  }
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  canvas.width = 0;
  if (!blob) {
    throw new Error("the browser could not make the picture");
  }
  return { blob, whole };
}

/** All ink of a picture as an SVG text. */
export function toSvg(picture: Picture): string {
  const { shapes, box } = sheetOf(picture);
  const width = short(box.x1 - box.x0);
  const height = short(box.y1 - box.y0);
  const view = `${short(box.x0)} ${short(box.y0)} ${width} ${height}`;
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${view}" width="${width}" height="${height}">`,
    `<rect x="${short(box.x0)}" y="${short(box.y0)}" width="${width}" height="${height}" fill="${paper("light")}"/>`,
  ];
  for (const shape of shapes) {
    const path = new PathText();
    for (const polygon of shape.polygons()) {
      trace(polygon, path, shape.originX, shape.originY, 1 / 16);
    }
    if (path.text !== "") {
      const { rgb, alpha } = fillOf(shape.stroke.style.tool, shape.stroke.style.rgba, "light");
      const opacity = alpha < 1 ? ` fill-opacity="${short(alpha)}"` : "";
      lines.push(`<path fill="${rgb}"${opacity} d="${path.text}"/>`);
    }
  }
  lines.push("</svg>");
  return `${lines.join("\n")}\n`;
}

/** Writes an outline as the `d` of an SVG path. */
class PathText implements Sink {
  text = "";
  moveTo(x: number, y: number): void {
    this.text += `M${short(x)} ${short(y)}`;
  }
  quadraticCurveTo(cx: number, cy: number, x: number, y: number): void {
    this.text += `Q${short(cx)} ${short(cy)} ${short(x)} ${short(y)}`;
  }
  closePath(): void {
    this.text += "Z";
  }
}

/** At most three decimals: SVG knows no exponents that all readers take. */
function short(value: number): string {
  return String(Math.round(value * 1000) / 1000 + 0);
}
