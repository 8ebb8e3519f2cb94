/** Ink and paper, in light and in dark. */
import { describe, expect, test } from "vitest";
import { fillOf, paper } from "../../app/canvas/colour.ts";
import { Tool } from "../../src/index.ts";

function rgb(hex: string): [number, number, number] {
  const part = (at: number) => Number.parseInt(hex.slice(at, at + 2), 16);
  return [part(1), part(3), part(5)];
}

/** Relative luminance and contrast as WCAG defines them. */
function contrast(a: string, b: string): number {
  const luminance = (hex: string) => {
    const [red, green, blue] = rgb(hex).map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
  };
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

function hue(hex: string): number {
  const [r, g, b] = rgb(hex);
  return (Math.atan2(Math.sqrt(3) * (g - b), 2 * r - g - b) * 180) / Math.PI;
}

describe("in light", () => {
  test("ink is as it was chosen", () => {
    expect(fillOf(Tool.PEN, 0x12345678, "light")).toEqual({ rgb: "#123456", alpha: 0x78 / 255 });
  });
  test("a highlighter covers less", () => {
    expect(fillOf(Tool.HIGHLIGHTER, 0xfacc15ff, "light")).toEqual({ rgb: "#facc15", alpha: 0.4 });
  });
});

describe("in dark", () => {
  test("black is turned light, white stays", () => {
    const black = fillOf(Tool.PEN, 0x000000ff, "dark").rgb;
    expect(contrast(black, paper("dark"))).toBeGreaterThan(10);
    expect(fillOf(Tool.PEN, 0xffffffff, "dark").rgb).toBe("#ffffff");
  });

  test.each([0x1d4ed8ff, 0x7f1d1dff, 0x14532dff, 0x4c1d95ff, 0x0000ffff, 0xdc2626ff, 0x1f1f1fff])(
    "%i can be read and keeps its hue",
    (rgba) => {
      const light = fillOf(Tool.PEN, rgba, "light").rgb;
      const dark = fillOf(Tool.PEN, rgba, "dark").rgb;
      expect(contrast(dark, paper("dark"))).toBeGreaterThan(3.5);
      if (new Set(rgb(light)).size > 1) {
        const apart = Math.abs(hue(light) - hue(dark));
        expect(Math.min(apart, 360 - apart)).toBeLessThan(25);
      }
    },
  );
});

test("paper is light or dark", () => {
  expect(contrast(paper("light"), paper("dark"))).toBeGreaterThan(12);
});
