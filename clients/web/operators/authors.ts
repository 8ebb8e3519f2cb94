/** Authors: whose ink still shows on a board, also of those who have left. */
import type { Stroke } from "../src/index.ts";

export interface Author {
  /** 0 is everyone without a ticket. */
  readonly client: number;
  /** How many of its strokes show. */
  readonly strokes: number;
}

/** The authors of these strokes, the one with the most first. */
export function authorsOf(strokes: readonly Stroke[]): Author[] {
  const counts = new Map<number, number>();
  for (const { author } of strokes) counts.set(author, (counts.get(author) ?? 0) + 1);
  const authors = [...counts].map(([client, strokes]) => ({ client, strokes }));
  return authors.sort((a, b) => b.strokes - a.strokes || a.client - b.client);
}
