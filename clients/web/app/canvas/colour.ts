/** Colour: what ink and paper look like, in light and in dark. Only what is painted changes, never what is sent. */
import { Tool } from "../../src/index.ts";

export type Theme = "light" | "dark";

const PAPER = { light: "#fdfcf8", dark: "#1c1b19" } as const;
/** How much a highlighter covers. */
const HIGHLIGHT = 0.4;
/** In dark, ink with less lightness (of 0 to 1) than this is turned light. */
const TURN_BELOW = 0.62;
/** How light black becomes. */
const LIGHTEST = 0.94;

export function paper(theme: Theme): string {
  return PAPER[theme];
}

/** A colour with its alpha apart, for fills and for SVG, which wants them apart. */
export interface Fill {
  /** `#rrggbb`. */
  readonly rgb: string;
  /** 0 to 1. */
  readonly alpha: number;
}

/** What a stroke is filled with. */
export function fillOf(tool: number, rgba: number, theme: Theme): Fill {
  const red = (rgba >>> 24) & 255;
  const green = (rgba >>> 16) & 255;
  const blue = (rgba >>> 8) & 255;
  const alpha = (rgba & 255) / 255;
  const [r, g, b] = theme === "dark" ? turned(red, green, blue) : [red, green, blue];
  return {
    rgb: `#${hex(r)}${hex(g)}${hex(b)}`,
    alpha: tool === Tool.HIGHLIGHTER ? alpha * HIGHLIGHT : alpha,
  };
}

function hex(value: number): string {
  return value.toString(16).padStart(2, "0");
}

/** Dark colours become light ones of the same hue, so that they are read on dark paper; light ones stay. */
function turned(red: number, green: number, blue: number): readonly [number, number, number] {
  const [lightness, a, b] = toLab(red, green, blue);
  if (lightness >= TURN_BELOW) {
    return [red, green, blue];
  }
  const light = LIGHTEST - (lightness * (LIGHTEST - TURN_BELOW)) / TURN_BELOW;
  // The lighter, the less colour a screen can show: give up colour until it fits, never the hue.
  for (let chroma = 1; chroma > 0; chroma -= 0.05) {
    const rgb = fromLab(light, a * chroma, b * chroma);
    if (rgb.every((value) => value >= -0.5 && value <= 255.5)) {
      return round(rgb);
    }
  }
  return round(fromLab(light, 0, 0));
}

function round([r, g, b]: readonly [number, number, number]): readonly [number, number, number] {
  const whole = (value: number) => Math.min(255, Math.max(0, Math.round(value)));
  return [whole(r), whole(g), whole(b)];
}

/** From sRGB to Oklab, in which equal steps look equal. */
function toLab(red: number, green: number, blue: number): readonly [number, number, number] {
  const [r, g, b] = [linear(red), linear(green), linear(blue)];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromLab(lightness: number, a: number, b: number): readonly [number, number, number] {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

function linear(value: number): number {
  const part = value / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

function gamma(part: number): number {
  return 255 * (part <= 0.0031308 ? part * 12.92 : 1.055 * part ** (1 / 2.4) - 0.055);
}
