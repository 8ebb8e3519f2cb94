/** The corner: which board this is, whether all is saved, and the menu. */
import { useRef } from "preact/hooks";
import type { AppState, Paper } from "../app-state.ts";
import type { ThemeChoice } from "./choices.ts";
import {
  BoardsIcon, CheckIcon, CloudOffIcon, FilmIcon, FitIcon, KeyboardIcon, LockIcon, MenuIcon, MinusIcon, NewIcon, PictureIcon,
  PlusIcon, TrashIcon, VectorIcon,
} from "./icons.tsx"; // biome-ignore format: a list
import { setLock } from "./moderating.ts";
import { boardTitle } from "./names.ts";
import { Choice, IconButton, Popover } from "./parts.tsx";
import { statusOf } from "./status.ts";
import { zoomIn, zoomOut, zoomWords } from "./zoom.tsx";

/** What the menu does beyond opening dialogs. */
export interface MenuActions {
  readonly newBoard: () => void;
  readonly save: (kind: "png" | "svg") => void;
  readonly watch: () => void;
}

const THEMES: readonly { theme: ThemeChoice; label: string }[] = [
  { theme: "system", label: "Auto" },
  { theme: "light", label: "Light" },
  { theme: "dark", label: "Dark" },
];

export function Corner(props: {
  readonly state: AppState;
  readonly paper: Paper;
  readonly actions: MenuActions;
}) {
  const { state } = props;
  const anchor = useRef<HTMLDivElement>(null);
  const open = state.panel.value === "menu";
  return (
    <div class="corner surface anchor" ref={anchor}>
      <IconButton label="Menu" expanded={open} onPress={() => state.toggle("menu")}>
        <MenuIcon />
      </IconButton>
      <h1 title={state.room}>{boardTitle(state.room)}</h1>
      <StatusWord state={state} />
      {open && (
        <Popover
          anchor={anchor}
          label="Menu"
          class="below left menu"
          onClose={() => {
            state.panel.value = null;
          }}
        >
          <Menu {...props} />
        </Popover>
      )}
    </div>
  );
}

function StatusWord({ state }: { readonly state: AppState }) {
  // Who only watches has nothing to save.
  const saving = state.role.value === 0 ? "unsure" : state.saving.value;
  const { tone, word } = statusOf(state.connection.value, saving, state.unsent.value, state.full.value);
  const mark =
    tone === "good" ? <CheckIcon /> : tone === "busy" ? <span class="spinner" /> : <CloudOffIcon />;
  return (
    <span class={`status ${tone}`} title={word}>
      {mark}
      <span class="status-word">{word}</span>
    </span>
  );
}

function Menu(props: { readonly state: AppState; readonly paper: Paper; readonly actions: MenuActions }) {
  const { state, paper, actions } = props;
  const run = (action: () => void) => () => {
    state.panel.value = null;
    action();
  };
  const { choices } = state;
  return (
    <>
      <button type="button" class="item" onClick={run(actions.newBoard)}>
        <NewIcon />
        New board
      </button>
      <button type="button" class="item" onClick={() => state.ask("boards")}>
        <BoardsIcon />
        Recent boards…
      </button>
      <hr />
      <button type="button" class="item" onClick={run(() => actions.save("png"))}>
        <PictureIcon />
        Save as PNG
      </button>
      <button type="button" class="item" onClick={run(() => actions.save("svg"))}>
        <VectorIcon />
        Save as SVG
      </button>
      <button type="button" class="item" onClick={run(actions.watch)}>
        <FilmIcon />
        Time-lapse
      </button>
      {state.moderates.value && (
        <button type="button" class="item" onClick={run(() => void setLock(state, !state.boardLocked.value))}>
          <LockIcon />
          {state.boardLocked.value ? "Unlock board" : "Lock board"}
        </button>
      )}
      {state.locked.value === null && (
        <button type="button" class="item" onClick={() => state.ask("clear")}>
          <TrashIcon />
          Clear board…
        </button>
      )}
      <div class="narrow-only">
        <hr />
        <div class="zoom-row">
          <IconButton label="Zoom out" onPress={() => zoomOut(paper)}>
            <MinusIcon />
          </IconButton>
          <output>{zoomWords(state.view.value.zoom)}</output>
          <IconButton label="Zoom in" onPress={() => zoomIn(paper)}>
            <PlusIcon />
          </IconButton>
          <button type="button" class="item" onClick={run(() => paper.fit())}>
            <FitIcon />
            Fit
          </button>
        </div>
      </div>
      <hr />
      <div class="segments" role="radiogroup" aria-label="Appearance">
        {THEMES.map(({ theme, label }) => (
          <Choice
            key={theme}
            group="theme"
            label={label}
            checked={choices.theme.value === theme}
            onPick={() => choices.setTheme(theme)}
          >
            {label}
          </Choice>
        ))}
      </div>
      <hr class="keyboard-only" />
      <button type="button" class="item keyboard-only" onClick={() => state.ask("help")}>
        <KeyboardIcon />
        Keyboard shortcuts
        <kbd>?</kbd>
      </button>
    </>
  );
}
