/** Colours as the wire carries them: red, green, blue and alpha, eight bits each, red first. */

/** An ink to choose. */
export interface Ink {
  readonly name: string;
  readonly rgba: number;
}

/** What the pens hold; legible on light and on dark paper. */
export const INKS: readonly Ink[] = [
  { name: "Ink", rgba: 0x1d1d22ff },
  { name: "Red", rgba: 0xe03131ff },
  { name: "Orange", rgba: 0xf2700cff },
  { name: "Yellow", rgba: 0xf2b203ff },
  { name: "Green", rgba: 0x2f9e44ff },
  { name: "Blue", rgba: 0x1c7ed6ff },
  { name: "Violet", rgba: 0x7a4ee8ff },
  { name: "Pink", rgba: 0xe64980ff },
];

/** What people are told apart by; white reads on all of them. */
export const PEOPLE_COLOURS: readonly Ink[] = [
  { name: "Red", rgba: 0xc92a35ff },
  { name: "Orange", rgba: 0xc2470cff },
  { name: "Ochre", rgba: 0x8f6400ff },
  { name: "Green", rgba: 0x24783aff },
  { name: "Teal", rgba: 0x0b7285ff },
  { name: "Blue", rgba: 0x2563d4ff },
  { name: "Violet", rgba: 0x6741d9ff },
  { name: "Pink", rgba: 0xc2255cff },
];

/** `#rrggbb`, without alpha. */
export function toHex(rgba: number): string {
  return `#${(rgba >>> 8).toString(16).padStart(6, "0")}`;
}

/** From `#rrggbb`, opaque; `null` for anything else. */
export function fromHex(hex: string): number | null {
  if (!/^#[0-9a-f]{6}$/i.test(hex)) return null;
  return ((Number.parseInt(hex.slice(1), 16) << 8) | 0xff) >>> 0;
}

/** The colour of somebody; those without one get theirs from their number, the same for everyone. */
export function personColour(client: number, rgba: number): number {
  if ((rgba & 0xff) !== 0) return (rgba | 0xff) >>> 0;
  return PEOPLE_COLOURS[client % PEOPLE_COLOURS.length]?.rgba ?? 0x2563d4ff;
}

/** Black or white, whichever reads better on that colour (WCAG 2.2, contrast ratio). */
export function textOn(rgba: number): string {
  const light = luminance(rgba);
  return 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 ? "#fff" : "#000";
}

/** WCAG's contrast ratio of two colours, 1 to 21. */
export function contrast(a: number, b: number): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

function luminance(rgba: number): number {
  const linear = (shift: number) => {
    const value = ((rgba >>> shift) & 0xff) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(24) + 0.7152 * linear(16) + 0.0722 * linear(8);
}
