/** The opening view: where one looks first on a board. Where one was before a reload, or else where its ink is. */
import type { AppState, Paper, Relay } from "../app-state.ts";
import type { View } from "../canvas/stage.ts";
import { field, type Remembered } from "./remembered.ts";

/** A view out of JSON; `null` if it is none. */
export function readView(value: unknown): View | null {
  const [x, y, zoom] = ["x", "y", "zoom"].map((name) => field(value, name));
  const isView = typeof x === "number" && typeof y === "number" && typeof zoom === "number";
  return isView ? { x, y, zoom } : null;
}

/** Decides it once: when it is remembered, when somebody drew or moved the board, or when the board's ink is known. */
export class OpeningView {
  readonly #state: AppState;
  readonly #paper: Paper;
  readonly #tab: Remembered;
  readonly #first: View;
  #decided: boolean;

  /** Takes the remembered view, if there is one. */
  constructor(state: AppState, paper: Paper, tab: Remembered) {
    this.#state = state;
    this.#paper = paper;
    this.#tab = tab;
    const view = readView(tab.get(this.#name));
    this.#decided = view !== null;
    if (view !== null) paper.setView(view);
    this.#first = paper.view;
  }

  /** Somebody touched the board: it stays where it is. */
  touched(): void {
    this.#decided = true;
  }

  /** Once all is here that the board held, brings its ink into sight. Returns how to end that. */
  watch(client: Relay): () => void {
    const look = () => {
      if (this.#decided || client.state.kind !== "live") return;
      this.#decided = true;
      if (isSame(this.#paper.view, this.#first) && !this.#state.watching.value) this.#paper.bringIntoSight();
    };
    look();
    return client.on("state", look);
  }

  /** Keeps where one looks, for when the tab is loaded again. Before it is decided there is nothing worth that. */
  keep(): void {
    const view = this.#state.projector.value?.viewBefore ?? this.#paper.view;
    if (this.#decided || !isSame(view, this.#first)) this.#tab.set(this.#name, view);
  }

  get #name(): string {
    return `view.${this.#state.room}`;
  }
}

function isSame(one: View, other: View): boolean {
  return one.x === other.x && one.y === other.y && one.zoom === other.zoom;
}
