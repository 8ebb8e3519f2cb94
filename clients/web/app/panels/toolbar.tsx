/** The toolbar: what the pen does, and with which ink. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Tool } from "../../src/index.ts";
import type { AppState } from "../app-state.ts";
import { fillOf } from "../canvas/colour.ts";
import type { Mode } from "../canvas/stage.ts";
import { WIDTH_MAX, WIDTH_MIN, WIDTHS } from "./choices.ts";
import { fromHex, INKS, toHex } from "./colours.ts";
import { EraserIcon, HandIcon, HighlighterIcon, PenIcon, RedoIcon, UndoIcon } from "./icons.tsx";
import { Choice, IconButton, Popover } from "./parts.tsx";

const TOOLS: readonly { mode: Mode; label: string; keys: string; icon: () => ComponentChildren }[] = [
  { mode: "pen", label: "Pen", keys: "P", icon: PenIcon },
  { mode: "highlighter", label: "Highlighter", keys: "H", icon: HighlighterIcon },
  { mode: "eraser", label: "Eraser", keys: "E", icon: EraserIcon },
  { mode: "hand", label: "Move the board", keys: "hold Space", icon: HandIcon },
];

/** Pixels that a nib's dot is wide; the thickest must leave room for the button. */
function dotSize(width: number): number {
  return Math.round(4 + 18 * Math.sqrt(width / WIDTH_MAX));
}

/** The colour that ink has on the paper that shows. */
function inkOn(state: AppState, rgba: number): string {
  return fillOf(Tool.PEN, rgba, state.theme.value).rgb;
}

export function Toolbar({ state }: { readonly state: AppState }) {
  const { choices, history } = state;
  const style = useRef<HTMLDivElement>(null);
  const open = state.panel.value === "style";
  return (
    <div class="toolbar surface" role="toolbar" aria-label="Drawing tools">
      <div class="row" role="radiogroup" aria-label="Tool">
        {TOOLS.map(({ mode, label, keys, icon: Icon }) => (
          <Choice
            key={mode}
            group="tool"
            class="tool"
            label={label}
            keys={keys}
            checked={choices.mode.value === mode}
            onPick={() => choices.setMode(mode)}
          >
            <Icon />
          </Choice>
        ))}
      </div>
      <hr />
      <div class="row wide">
        <Colours state={state} group="colour" />
      </div>
      <div class="anchor" ref={style}>
        <IconButton
          label="Colour and width"
          class="nib"
          expanded={open}
          onPress={() => state.toggle("style")}
        >
          <Dot state={state} />
        </IconButton>
        {open && (
          <Popover
            anchor={style}
            label="Colour and width"
            class="above style-panel"
            onClose={() => {
              state.panel.value = null;
            }}
          >
            <div class="row compact">
              <Colours state={state} group="colour-panel" />
            </div>
            <Widths state={state} />
          </Popover>
        )}
      </div>
      <hr />
      <div class="row">
        <IconButton label="Undo" keys="Ctrl Z" disabled={!history.value.canUndo} onPress={() => state.undo()}>
          <UndoIcon />
        </IconButton>
        <IconButton
          label="Redo"
          keys="Ctrl Shift Z"
          disabled={!history.value.canRedo}
          onPress={() => state.redo()}
        >
          <RedoIcon />
        </IconButton>
      </div>
    </div>
  );
}

function Dot({ state }: { readonly state: AppState }) {
  const { rgba, width } = state.choices.nib;
  const size = `${dotSize(width)}px`;
  return <span class="dot ink" style={{ "--ink": inkOn(state, rgba), width: size, height: size }} />;
}

function Colours({ state, group }: { readonly state: AppState; readonly group: string }) {
  const { rgba } = state.choices.nib;
  const own = INKS.every((ink) => ink.rgba !== rgba);
  return (
    <div class="colours" role="radiogroup" aria-label="Colour">
      {INKS.map((ink, index) => (
        <Choice
          key={ink.rgba}
          group={group}
          class="swatch"
          label={ink.name}
          keys={`${index + 1}`}
          checked={ink.rgba === rgba}
          onPick={() => state.choices.setColour(ink.rgba)}
        >
          <span class="dot ink" style={{ "--ink": inkOn(state, ink.rgba) }} />
        </Choice>
      ))}
      <label class={`choice swatch custom ${own ? "chosen" : ""}`} title="Another colour">
        <input
          type="color"
          aria-label="Another colour"
          value={toHex(rgba)}
          onInput={(event) => {
            const colour = fromHex(event.currentTarget.value);
            if (colour !== null) state.choices.setColour(colour);
          }}
        />
        <span class="face">
          <span class="dot rainbow">
            {own && <span class="dot ink" style={{ "--ink": inkOn(state, rgba) }} />}
          </span>
        </span>
      </label>
    </div>
  );
}

function Widths({ state }: { readonly state: AppState }) {
  const { rgba, width } = state.choices.nib;
  return (
    <div class="widths">
      <div class="row" role="radiogroup" aria-label="Width">
        {WIDTHS[state.choices.inkTool].map((preset) => {
          const size = `${dotSize(preset)}px`;
          return (
            <Choice
              key={preset}
              group="width"
              class="swatch"
              label={`${preset} pixels`}
              checked={preset === width}
              onPick={() => state.choices.setWidth(preset)}
            >
              <span class="dot ink" style={{ "--ink": inkOn(state, rgba), width: size, height: size }} />
            </Choice>
          );
        })}
      </div>
      <label class="slider">
        <input
          type="range"
          aria-label="Width in pixels"
          min={WIDTH_MIN}
          max={WIDTH_MAX}
          value={width}
          onInput={(event) => state.choices.setWidth(event.currentTarget.valueAsNumber)}
        />
        <output>{width}</output>
      </label>
    </div>
  );
}
