/** History: what undo and redo go through; one's own actions only. */
import type { Draw } from "./draw.ts";
import type { DrawId, Refused } from "./outbox.ts";

/** What is saved of a history. */
export interface HistoryState {
  readonly done: readonly Action[];
  readonly undone: readonly Action[];
}

/** One thing that a person did. */
export type Action =
  | { readonly kind: "stroke"; readonly stroke: number; readonly begin: DrawId; readonly hidden: DrawId | null }
  /** Erases of one gesture, or a clear; `shown`: the revokes that took it back. */
  | { readonly kind: "hide"; readonly draws: readonly DrawId[]; readonly shown: readonly DrawId[] };

export declare class History {
  constructor(saved?: HistoryState | null);
  readonly canUndo: boolean;
  readonly canRedo: boolean;
  /** A stroke was begun (by draw `begin`). */
  onStroke(stroke: number, begin: DrawId): void;
  /** It was cancelled: it leaves the history. */
  onCancelled(stroke: number): void;
  /** Erases of one gesture, or a clear. */
  onHidden(draws: readonly DrawId[]): void;
  onRefused(refused: readonly Refused[]): void;
  /** The draw to push, or `null`. Then tell which id it got; without that nothing changes. */
  undo(shows: (stroke: number) => boolean, push: (draw: Draw) => DrawId | null): boolean;
  redo(push: (draw: Draw) => DrawId | null): boolean;
  state(): HistoryState;
}
