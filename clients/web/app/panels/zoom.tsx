/** Zoom: how large the board shows. */
import { useRef } from "preact/hooks";
import type { AppState, Paper } from "../app-state.ts";
import { FitIcon, MinusIcon, PlusIcon } from "./icons.tsx";
import { IconButton, Popover } from "./parts.tsx";

const STEP = 1.25;

export function zoomIn(paper: Paper): void {
  paper.zoomBy(STEP);
}

export function zoomOut(paper: Paper): void {
  paper.zoomBy(1 / STEP);
}

/** Life-size, around the middle of what shows. */
export function zoomReset(paper: Paper): void {
  paper.setView({ ...paper.view, zoom: 1 }, true);
}

export function zoomWords(zoom: number): string {
  return `${Math.round(zoom * 100)}%`;
}

/** Buttons side by side where there is room; one button that opens them where there is not (style/layout.css). */
export function Zoom({ state, paper }: { readonly state: AppState; readonly paper: Paper }) {
  const anchor = useRef<HTMLDivElement>(null);
  const open = state.panel.value === "zoom";
  const words = zoomWords(state.view.value.zoom);
  return (
    <>
      <fieldset class="zoom zoom-large surface" aria-label="Zoom">
        <ZoomButtons paper={paper} words={words} />
      </fieldset>
      <div class="zoom zoom-small surface anchor" ref={anchor}>
        <button
          type="button"
          class="percent"
          aria-expanded={open}
          aria-label={`Zoom, ${words}`}
          onClick={() => state.toggle("zoom")}
        >
          {words}
        </button>
        {open && (
          <Popover
            anchor={anchor}
            label="Zoom"
            class="above right row"
            onClose={() => {
              state.panel.value = null;
            }}
          >
            <ZoomButtons paper={paper} words={words} />
          </Popover>
        )}
      </div>
    </>
  );
}

function ZoomButtons({ paper, words }: { readonly paper: Paper; readonly words: string }) {
  return (
    <>
      <IconButton label="Zoom out" keys="−" onPress={() => zoomOut(paper)}>
        <MinusIcon />
      </IconButton>
      <button
        type="button"
        class="percent"
        aria-label={`${words}, back to 100%`}
        title="Back to 100% (0)"
        onClick={() => zoomReset(paper)}
      >
        {words}
      </button>
      <IconButton label="Zoom in" keys="+" onPress={() => zoomIn(paper)}>
        <PlusIcon />
      </IconButton>
      <IconButton label="Fit to content" keys="F" onPress={() => paper.fit()}>
        <FitIcon />
      </IconButton>
    </>
  );
}
