/** An own draw: one that may name strokes and draws of one's own, which have their final names only when it is sent. */
import { encodeDraw } from "./codec.ts";
import type { Draw, DrawName, StrokeName } from "./draw.ts";
import { CLIENT_MAX } from "./limits.ts";
import { SELF } from "./stroke.ts";

type Name = readonly [number, number];

/** One of one's own draws, as it would be sent now. */
export interface OwnDraw {
  /** Names it as long as the outbox holds it. */
  readonly id: number;
  /** The number that the store will know it by. */
  readonly n: number;
  readonly draw: Draw;
  /** Whether it is acked. */
  readonly stored: boolean;
}

/** Who tells the names of one's own strokes and draws. */
export interface Namer {
  namesOfStroke(stroke: number): readonly StrokeName[];
  nameOfDraw(id: number): DrawName | null;
}

const isOwn = ([author]: Name) => author === SELF;

/** Whether its bytes depend on names that are not settled. */
export function namesOwn(draw: Draw): boolean {
  if (draw.kind === "erase") return draw.strokes.some(isOwn);
  return draw.kind === "revoke" && draw.draws.some(isOwn);
}

/**
 * The draw with the names that it has now. A stroke without a name gets `[client, stroke]`, which hides nothing. Draws
 * without a name are left out; a revoke of nothing else names `[client, n]`, itself, and so changes nothing.
 */
export function resolve(draw: Draw, namer: Namer, client: number, n: number): Draw {
  if (draw.kind === "erase") {
    const strokes = draw.strokes.flatMap((name): readonly StrokeName[] => {
      if (!isOwn(name)) return [name];
      const names = namer.namesOfStroke(name[1]);
      return names.length > 0 ? names : [[client, name[1]]];
    });
    return { kind: "erase", strokes };
  }
  if (draw.kind === "revoke") {
    const draws = draw.draws.flatMap((name): readonly DrawName[] => {
      const found = isOwn(name) ? namer.nameOfDraw(name[1]) : name;
      return found ? [found] : [];
    });
    return { kind: "revoke", draws: draws.length > 0 ? draws : [[client, n]] };
  }
  return draw;
}

/**
 * Its bytes, or while its names are not settled those of a draw that is as long as it can get; `null` when no server
 * would take it.
 */
export function measure(draw: Draw): Uint8Array | null {
  const longest: Name = [CLIENT_MAX, Number.MAX_SAFE_INTEGER];
  const namer = { namesOfStroke: () => [longest], nameOfDraw: () => longest };
  try {
    return encodeDraw(resolve(draw, namer, ...longest));
  } catch {
    return null;
  }
}
