/** Draws: what a client sends. */

/** What a stroke is drawn with. */
export interface Style {
  /** See {@link Tool}; others are drawn as a pen. */
  readonly tool: number;
  /** Red, green, blue and alpha, eight bits each, red first. */
  readonly rgba: number;
  /** Sixteenths of a CSS pixel, 0 to 65,535. */
  readonly width: number;
}

export const Tool = { PEN: 0, HIGHLIGHTER: 1 } as const;

/** What each point carries behind x and y, as bits, in this order. */
export const Channel = {
  /** One value, 0 to 255. */
  PRESSURE: 1,
  /** One value: milliseconds since the previous point. */
  TIME: 2,
  /** Two values: degrees along x and along y. */
  TILT: 4,
} as const;

/** A stroke's name on the board: its author and the author's own number for it. */
export type StrokeName = readonly [author: number, stroke: number];
/** A record's name for its author: who, and the author's own number for it. */
export type DrawName = readonly [author: number, n: number];

/**
 * One draw. `points` is flat, as on the wire: x, y and then one value per channel; the first point of a stroke
 * is absolute, every later one the difference from the one before; sixteenths of a CSS pixel.
 */
export type Draw =
  | {
      readonly kind: "begin";
      readonly stroke: number;
      readonly style: Style;
      readonly channels: number;
      readonly points: readonly number[];
      readonly end: boolean;
    }
  | {
      readonly kind: "extend";
      readonly stroke: number;
      readonly points: readonly number[];
      readonly end: boolean;
    }
  | { readonly kind: "erase"; readonly strokes: readonly StrokeName[] }
  | { readonly kind: "revoke"; readonly draws: readonly DrawName[] }
  | { readonly kind: "clear" }
  | { readonly kind: "opaque"; readonly data: Uint8Array }
  /** Of a later version: kept and relayed, never drawn. */
  | { readonly kind: "unknown"; readonly number: number };

/** What a log holds: a draw stamped with its author, the author's number for it, and the server's time. */
export interface LogRecord {
  readonly author: number;
  readonly n: number;
  /** Milliseconds since 1970, by the server's clock. */
  readonly at: number;
  /** `null` when it cannot be read; it then changes nothing. */
  readonly draw: Draw | null;
}

/** 0 viewer, 1 drawer, 2 moderator. */
export type Role = 0 | 1 | 2;

/** Name and colour that others see. */
export interface Profile {
  /** At most 64 characters. */
  readonly name: string;
  readonly rgba: number;
}

/** Someone who is here. */
export interface Participant extends Profile {
  readonly client: number;
}

/** What the server holds a session to; 0 is no limit. */
export interface SessionLimits {
  readonly bytesPerDraw: number;
  readonly drawsPerBatch: number;
  readonly bytesPerMessage: number;
  readonly batchesPerSecond: number;
  /** The newest of this client's draws that the store has; 0 for none. */
  readonly lastN: number;
}
