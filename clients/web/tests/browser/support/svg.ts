/** The relay's own picture of a board, read back: what each of its paths and circles stands for. */

/** A stroke as `inkrelay board ROOM --svg` draws it. Places in board pixels, to two decimals. */
export interface SvgStroke {
  /** `#rrggbb`. */
  readonly colour: string;
  readonly opacity: number;
  /** Of a line of one width; `null` where pressure shapes it, and for a dot. */
  readonly width: number | null;
  /** The stroke's points, of a line of one width or a dot; `null` where only its outline is drawn. */
  readonly points: readonly (readonly [x: number, y: number])[] | null;
  /** Holds all that it is made of, without what a line's width adds. */
  readonly box: readonly [left: number, top: number, right: number, bottom: number];
}

/** Strokes in the order in which they are painted. Throws where the picture is not written as the relay writes it. */
export function readSvg(svg: string): SvgStroke[] {
  return [...svg.matchAll(/<(path|circle) ([^>]*)\/>/g)].map(([, kind, text = ""]) => {
    const attributes = new Map(
      [...text.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
    );
    const number = (name: string, otherwise: number) => Number(attributes.get(name) ?? otherwise);
    const opacity = number("opacity", 1);
    if (kind === "circle") {
      const [x, y, r] = [number("cx", Number.NaN), number("cy", Number.NaN), number("r", Number.NaN)];
      const colour = attributes.get("fill") ?? "";
      return { colour, opacity, width: null, points: [[x, y]], box: [x - r, y - r, x + r, y + r] };
    }
    const steps = [...(attributes.get("d") ?? "").matchAll(/([MLQAZ])([^MLQAZ]*)/g)].map(
      ([, step, places = ""]) => ({
        step,
        values: places.trim().split(/\s+/).filter(Boolean).map(Number),
      }),
    );
    // Of an arc only the last two values are a place.
    const places = steps.flatMap(({ step, values }) => pairs(step === "A" ? values.slice(-2) : values));
    const [xs, ys] = [places.map(([x]) => x), places.map(([, y]) => y)];
    const box = [min(xs), min(ys), -min(xs.map((x) => -x)), -min(ys.map((y) => -y))] as const;
    const isLine = attributes.get("fill") === "none";
    const colour = attributes.get(isLine ? "stroke" : "fill") ?? "";
    if (!isLine) return { colour, opacity, width: null, points: null, box };
    // From the first point by half of its way to the second; bending at each; and to the last.
    const points = steps.flatMap(({ step, values }, at) => {
      if (step === "M" || step === "Q") return pairs(values.slice(0, 2));
      return at === steps.length - 1 ? pairs(values) : [];
    });
    return { colour, opacity, width: number("stroke-width", Number.NaN), points, box };
  });
}

function pairs(values: readonly number[]): [number, number][] {
  const found: [number, number][] = [];
  for (let at = 0; at + 1 < values.length; at += 2) found.push([values[at] ?? 0, values[at + 1] ?? 0]);
  return found;
}

function min(values: readonly number[]): number {
  return values.reduce((low, value) => Math.min(low, value), Number.POSITIVE_INFINITY);
}
