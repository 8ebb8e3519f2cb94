/** Shortcuts: what keys do. */
import type { AppState, Paper } from "../app-state.ts";
import type { Mode } from "../canvas/stage.ts";
import { INKS } from "./colours.ts";
import { zoomIn, zoomOut, zoomReset } from "./zoom.tsx";

/** For the help sheet. */
export const SHORTCUTS: readonly { keys: readonly string[]; does: string }[] = [
  { keys: ["P"], does: "Pen" },
  { keys: ["H"], does: "Highlighter" },
  { keys: ["E"], does: "Eraser" },
  { keys: ["Space"], does: "Move the board (hold)" },
  { keys: ["1", "–", "8"], does: "Colours" },
  { keys: ["[", "]"], does: "Narrower, wider" },
  { keys: ["Ctrl", "Z"], does: "Undo" },
  { keys: ["Ctrl", "Shift", "Z"], does: "Redo" },
  { keys: ["+", "−"], does: "Zoom in, out" },
  { keys: ["0"], does: "Life-size" },
  { keys: ["F"], does: "Fit to content" },
  { keys: ["←", "↑", "→", "↓"], does: "Move the board" },
  { keys: ["Esc"], does: "Close, stop following" },
  { keys: ["?"], does: "This list" },
];

/** Screen pixels that an arrow key moves the board. */
const NUDGE_PX = 80;

/** What a key means; with `ctrl` or the Apple command key. Pure, for the tests. */
export type Command =
  | { readonly do: "mode"; readonly mode: Mode }
  | { readonly do: "colour"; readonly index: number }
  | { readonly do: "width"; readonly direction: 1 | -1 }
  | { readonly do: "pan"; readonly x: number; readonly y: number }
  | { readonly do: "undo" | "redo" | "zoom in" | "zoom out" | "life-size" | "fit" | "help" | "escape" };

/** Reads a key press; `null` for one that means nothing here. */
export function commandOf(
  event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">,
): Command | null {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.altKey) return null;
  if (event.ctrlKey || event.metaKey) {
    if (key === "z") return { do: event.shiftKey ? "redo" : "undo" };
    return key === "y" ? { do: "redo" } : null;
  }
  if (key >= "1" && key <= "8") return { do: "colour", index: Number(key) - 1 };
  switch (key) {
    case "p":
      return { do: "mode", mode: "pen" };
    case "h":
      return { do: "mode", mode: "highlighter" };
    case "e":
      return { do: "mode", mode: "eraser" };
    case "[":
      return { do: "width", direction: -1 };
    case "]":
      return { do: "width", direction: 1 };
    case "+":
    case "=":
      return { do: "zoom in" };
    case "-":
    case "−":
      return { do: "zoom out" };
    case "0":
      return { do: "life-size" };
    case "f":
      return { do: "fit" };
    case "?":
      return { do: "help" };
    case "Escape":
      return { do: "escape" };
    case "ArrowLeft":
      return { do: "pan", x: -NUDGE_PX, y: 0 };
    case "ArrowRight":
      return { do: "pan", x: NUDGE_PX, y: 0 };
    case "ArrowUp":
      return { do: "pan", x: 0, y: -NUDGE_PX };
    case "ArrowDown":
      return { do: "pan", x: 0, y: NUDGE_PX };
    default:
      return null;
  }
}

function run(command: Command, state: AppState, paper: Paper): void {
  const { choices } = state;
  switch (command.do) {
    case "mode":
      choices.setMode(command.mode);
      return;
    case "colour": {
      const ink = INKS[command.index];
      if (ink !== undefined) choices.setColour(ink.rgba);
      return;
    }
    case "width":
      choices.stepWidth(command.direction);
      return;
    case "undo":
      state.undo();
      return;
    case "redo":
      state.redo();
      return;
    case "zoom in":
      zoomIn(paper);
      return;
    case "zoom out":
      zoomOut(paper);
      return;
    case "life-size":
      zoomReset(paper);
      return;
    case "fit":
      paper.fit();
      return;
    case "pan": {
      state.follow(null);
      const { x, y, zoom } = paper.view;
      paper.setView({ x: x + command.x / zoom, y: y + command.y / zoom, zoom });
      return;
    }
    case "help":
      state.ask("help");
      return;
    case "escape":
      state.follow(null);
      return;
  }
}

/** Whether keys belong to what has the focus. */
function takesKeys(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) {
    if (target.type === "radio") return key.startsWith("Arrow");
    return target.type !== "color";
  }
  return target.isContentEditable || target instanceof HTMLTextAreaElement;
}

/** Listens to the page's keys from now on; the space bar is the stage's own. Returns how to end that. */
export function listenToKeys(state: AppState, paper: Paper): () => void {
  const down = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.isComposing || state.dialog.value !== null) return;
    if (takesKeys(event.target, event.key) || state.watching.value) return;
    const command = commandOf(event);
    if (command === null) return;
    event.preventDefault();
    run(command, state, paper);
  };
  addEventListener("keydown", down);
  return () => removeEventListener("keydown", down);
}
