/** The film bar: the time-lapse's controls, in the toolbar's place. */
import { useEffect, useRef } from "preact/hooks";
import { clockWords } from "./film-clock.ts";
import { PauseIcon, PlayIcon } from "./icons.tsx";
import { IconButton } from "./parts.tsx";
import type { Projector } from "./projector.ts";

/** Ms that an arrow key on the slider moves, and the slider's finest step. */
const STEP_MS = 50;

export function FilmBar({ projector, onEnd }: { readonly projector: Projector; readonly onEnd: () => void }) {
  const projection = projector.projection.value;
  const own = useRef<HTMLElement>(null);
  useEffect(() => own.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key === "Escape") onEnd();
      // Buttons and the slider take the space bar themselves or have no use for it.
      if (event.key === " " && !(event.target instanceof HTMLButtonElement)) {
        event.preventDefault();
        projector.toggle();
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [projector, onEnd]);
  return (
    <section ref={own} tabIndex={-1} class={`film-bar surface ${projection.kind}`} aria-label="Time-lapse">
      {projection.kind === "ready" ? <Controls projector={projector} /> : <Waiting projector={projector} />}
      <button type="button" class="button primary" onClick={onEnd}>
        Done
      </button>
    </section>
  );
}

function Waiting({ projector }: { readonly projector: Projector }) {
  const projection = projector.projection.value;
  switch (projection.kind) {
    case "loading":
      return (
        <p>
          <span>Reading the board’s history</span>
          <progress aria-label="Reading the board’s history" max={1} value={projection.part} />
        </p>
      );
    case "empty":
      return <p>Nothing has been drawn here yet.</p>;
    case "failed":
      return <p>The history cannot be read just now. Try again when you are connected.</p>;
    case "ready":
      return null;
  }
}

function Controls({ projector }: { readonly projector: Projector }) {
  const { playing, time, length, speed } = projector;
  const words = `${clockWords(time.value / speed.value)} / ${clockWords(length.value / speed.value)}`;
  // Whole steps, or the slider's end would lie before the film's.
  const end = Math.max(1, Math.ceil(length.value / STEP_MS)) * STEP_MS;
  return (
    <>
      <IconButton label={playing.value ? "Pause" : "Play"} keys="Space" onPress={() => projector.toggle()}>
        {playing.value ? <PauseIcon /> : <PlayIcon />}
      </IconButton>
      <input
        type="range"
        class="film-slider"
        aria-label="Place in the time-lapse"
        aria-valuetext={words}
        min={0}
        max={end}
        step={STEP_MS}
        value={time.value < length.value ? time.value : end}
        onInput={(event) => {
          projector.pause();
          projector.seek(event.currentTarget.valueAsNumber);
        }}
      />
      <span class="film-time">
        <span>{words}</span>
        <time>{whenWords(projector.shownAt.value)}</time>
      </span>
      <button
        type="button"
        class="text-button speed"
        aria-label={`Speed ${speed.value} times; press to change`}
        onClick={() => projector.faster()}
      >
        {speed.value}×
      </button>
    </>
  );
}

function whenWords(at: number): string {
  return new Date(at).toLocaleString(undefined, {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
}
