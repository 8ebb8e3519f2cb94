/**
 * A will: what a page that went had not written to the database yet, and that it went. A transaction takes a while, and
 * dies with its page; a will is written at once, for whichever page of the server comes next.
 */
import type { HistoryState } from "./history.ts";
import type { OutboxState, QueuedDraw } from "./outbox.ts";

/** Characters of one at most: it is what was drawn in a moment. What is longer is left to the transaction. */
const CHARS_MAX = 1_000_000;

/** See the module. */
export interface Will {
  /** Whose: the identity's key, and the word by which its lease was held. */
  readonly key: number;
  readonly owner: string;
  readonly put: readonly QueuedDraw[];
  readonly remove: readonly number[];
  readonly state: OutboxState;
  readonly history: HistoryState | null;
}

/** `null` when it is too long, or has bytes, which text does not hold. */
export function writeWill(will: Will): string | null {
  if (will.put.some(({ draw }) => draw.kind === "opaque")) return null;
  const text = JSON.stringify(will);
  return text.length > CHARS_MAX ? null : text;
}

/** What {@link writeWill} wrote; `null` for anything else. */
export function readWill(text: string): Will | null {
  try {
    const will: Partial<Will> | null = JSON.parse(text);
    const { key, owner, put, remove, state, history = null } = will ?? {};
    if (typeof key !== "number" || typeof owner !== "string" || !state) return null;
    if (!Array.isArray(put) || !Array.isArray(remove)) return null;
    return { key, owner, put, remove, state, history };
  } catch {
    return null;
  }
}
