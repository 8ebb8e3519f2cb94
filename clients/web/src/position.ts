/** A position: the last record that a reader has, with that record's identity. */
import { CLIENT_MAX } from "./limits.ts";

/**
 * Names one place in one incarnation of a log. A bare `seq` is not enough: after a store lost its newest
 * writes, the same number names another record, and who went on from it would be silently wrong.
 */
export interface Position {
  readonly epoch: number;
  /** 0 is the start of the log. */
  readonly seq: number;
  readonly author: number;
  readonly n: number;
  /** Milliseconds since 1970, by the server's clock. */
  readonly at: number;
}

/** Before the first record, as it is told of a log that has none. */
export const START: Position = { epoch: 1, seq: 0, author: 0, n: 0, at: 0 };

/** Whether both name the same record of the same log, whatever the epoch was called at the time. */
export function matches(a: Position, b: Position): boolean {
  return a.seq === b.seq && (a.seq === 0 || (a.author === b.author && a.n === b.n && a.at === b.at));
}

/** As in addresses and headers: `epoch.seq.author.n.at`. */
export function formatPosition({ epoch, seq, author, n, at }: Position): string {
  return `${epoch}.${seq}.${author}.${n}.${at}`;
}

/** Reads the text form; `null` when it is none, or a bare `seq`. Parts of later versions are left out. */
export function parsePosition(text: string): Position | null {
  // Sixteen digits hold every safe integer, and `Number` is exact up to there or visibly beyond.
  if (!/^\d{1,16}(\.\d{1,16}){4,}$/.test(text)) return null;
  const parts = text.split(".").map(Number);
  const [epoch = 0, seq = 0, author = 0, n = 0, at = 0] = parts;
  const fits = parts.every(Number.isSafeInteger) && epoch >= 1 && author <= CLIENT_MAX;
  return fits ? { epoch, seq, author, n, at } : null;
}
