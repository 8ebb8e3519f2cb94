/** History: what undo and redo go through; one's own actions only, so that nobody's ink is touched but one's own. */
import type { Draw } from "./draw.ts";
import type { DrawId, Pushed, Refused } from "./outbox.ts";
import { SELF } from "./stroke.ts";

/** Actions that can be undone at most; beyond it the oldest can no longer be. */
export const ACTIONS_MAX = 200;
/** Draws of one action at most; a longer gesture becomes several actions, and its undo takes several steps. */
export const ACTION_DRAWS_MAX = 2048;

/**
 * One thing that a person did: drew a stroke, or hid strokes (the erases of one gesture, or a clear). An undo is a draw
 * that takes it back, and a redo a revoke of that draw. All own draws go by their {@link DrawId}, and strokes by their
 * number, so that neither a refusal nor a new client id makes them wrong.
 */
export type Action = (
  | { readonly kind: "stroke"; readonly stroke: number; readonly begin: DrawId }
  | { readonly kind: "hide"; readonly draws: readonly DrawId[] }
) & {
  /** The draw of the newest undo. */
  readonly undo: DrawId | null;
  /** The draw of the redo after it. */
  readonly redo: DrawId | null;
};

/** What is saved of a history; the newest action is the last of `done`, the next to redo the last of `undone`. */
export interface HistoryState {
  readonly done: readonly Action[];
  readonly undone: readonly Action[];
}

/**
 * Undo takes back the newest action that is done, and redo the newest undo; a new action ends what can be redone.
 *
 * Undo skips one's own strokes that do not show, since somebody else erased them: whoever presses undo wants to see
 * something go. Such a stroke stays in the history, and is undone in its turn should it show again. Erases and clears
 * are not skipped, though others may have hidden the same strokes too: each revoke counts on its own, and the strokes
 * come back when the last of those who hid them takes it back. Redo skips nothing.
 *
 * A cancelled stroke is not in the history, and neither is an action that was refused.
 */
export class History {
  #done: readonly Action[];
  #undone: readonly Action[];
  /** What could be redone before the newest stroke: its cancelling gives that back. */
  #aside: { readonly stroke: number; readonly undone: readonly Action[] } | null = null;

  constructor(saved?: HistoryState | null) {
    this.#done = (saved?.done ?? []).slice(-ACTIONS_MAX);
    this.#undone = (saved?.undone ?? []).slice(-ACTIONS_MAX);
  }

  /** Whether there is something to undo; `shows` tells whether an own stroke is on the board. */
  canUndo(shows: (stroke: number) => boolean): boolean {
    return this.#done.some((action) => action.kind !== "stroke" || shows(action.stroke));
  }

  get canRedo(): boolean {
    return this.#undone.length > 0;
  }

  /** A stroke was begun, by the draw `begin`. */
  onStroke(stroke: number, begin: DrawId): void {
    const aside = { stroke, undone: this.#undone };
    this.#add({ kind: "stroke", stroke, begin, undo: null, redo: null });
    this.#aside = aside;
  }

  /** It was cancelled: as if it had not been drawn. */
  onCancelled(stroke: number): void {
    const others = this.#done.filter((action) => action.kind !== "stroke" || action.stroke !== stroke);
    if (others.length === this.#done.length) return;
    this.#done = others;
    if (this.#aside?.stroke === stroke && this.#undone.length === 0) this.#undone = this.#aside.undone;
    this.#aside = null;
  }

  /** Strokes were erased by the draws of one gesture, or all by a clear. */
  onHidden(draws: readonly DrawId[]): void {
    for (let from = 0; from < draws.length; from += ACTION_DRAWS_MAX) {
      this.#add({ kind: "hide", draws: draws.slice(from, from + ACTION_DRAWS_MAX), undo: null, redo: null });
    }
  }

  /** These draws left the outbox unstored. An undo that was refused has not happened, and a redo neither. */
  onRefused(refused: readonly Refused[]): void {
    if (refused.length === 0) return;
    const ids = new Set(refused.map(({ id }) => id));
    const isRefused = (id: DrawId | null) => id !== null && ids.has(id);
    const known = (actions: readonly Action[]) =>
      actions.flatMap((action): Action[] => {
        if (action.kind === "stroke") return isRefused(action.begin) ? [] : [action];
        const draws = action.draws.filter((id) => !ids.has(id));
        if (draws.length === action.draws.length) return [action];
        return draws.length > 0 ? [{ ...action, draws }] : [];
      });
    const [done, undone] = [known(this.#done), known(this.#undone)];
    const backToUndone = done
      .filter(({ redo }) => isRefused(redo))
      .map((action) => ({ ...action, redo: null }));
    const backToDone = undone
      .filter(({ undo }) => isRefused(undo))
      .map((action) => ({ ...action, undo: null }));
    this.#done = [...done.filter(({ redo }) => !isRefused(redo)), ...backToDone.reverse()];
    this.#undone = [...undone.filter(({ undo }) => !isRefused(undo)), ...backToUndone.reverse()];
    if (this.#aside) this.#aside = { ...this.#aside, undone: known(this.#aside.undone) };
  }

  /**
   * Takes back the newest action by a draw that goes through `push`. Returns whether something was taken back; where
   * the draw was not taken for want of room, nothing changes.
   */
  undo(push: (draw: Draw) => Pushed, shows: (stroke: number) => boolean): boolean {
    for (let index = this.#done.length - 1; index >= 0; index -= 1) {
      const action = this.#done[index];
      if (!action || (action.kind === "stroke" && !shows(action.stroke))) continue;
      const pushed = push(
        action.kind === "stroke"
          ? { kind: "erase", strokes: [[SELF, action.stroke]] }
          : { kind: "revoke", draws: action.draws.map((id) => [SELF, id]) },
      );
      if (pushed.kind === "full" || pushed.kind === "too_large") return false;
      this.#done = this.#done.filter((other) => other !== action);
      this.#aside = null;
      if (pushed.kind !== "taken") continue;
      this.#undone = [...this.#undone, { ...action, undo: pushed.id, redo: null }].slice(-ACTIONS_MAX);
      return true;
    }
    return false;
  }

  /** Does again what was undone last. As {@link History.undo}. */
  redo(push: (draw: Draw) => Pushed): boolean {
    for (let action = this.#undone.at(-1); action; action = this.#undone.at(-1)) {
      const { undo } = action;
      const pushed: Pushed =
        undo === null ? { kind: "pointless" } : push({ kind: "revoke", draws: [[SELF, undo]] });
      if (pushed.kind === "full" || pushed.kind === "too_large") return false;
      this.#undone = this.#undone.slice(0, -1);
      if (pushed.kind !== "taken") continue;
      this.#done = [...this.#done, { ...action, redo: pushed.id }].slice(-ACTIONS_MAX);
      return true;
    }
    return false;
  }

  /** What to save. Nothing in it changes later, so two states are equal if they are the same lists. */
  state(): HistoryState {
    return { done: this.#done, undone: this.#undone };
  }

  #add(action: Action): void {
    this.#done = [...this.#done, action].slice(-ACTIONS_MAX);
    [this.#undone, this.#aside] = [[], null];
  }
}
