/** The projector: reads a room's history into a film and plays it on the stage. */
import { signal } from "@preact/signals";
import type { Paper, Relay } from "../app-state.ts";
import type { View } from "../canvas/stage.ts";
import { Film } from "./film.ts";
import { filmTimes, goodSpeed, nextSpeed, recordsBy } from "./film-clock.ts";

/** What it is doing. */
export type Projection =
  /** `part` of the history has come, 0 to 1. */
  | { readonly kind: "loading"; readonly part: number }
  | { readonly kind: "ready" }
  | { readonly kind: "empty" }
  | { readonly kind: "failed" };

/** Records that are worked through before the page gets a turn. */
const CHUNK = 2_000;

/** One showing; make a new one for the next. */
export class Projector {
  readonly projection = signal<Projection>({ kind: "loading", part: 0 });
  readonly playing = signal(false);
  readonly speed = signal(1);
  /** Where in the film, and how long it is, in ms. */
  readonly time = signal(0);
  readonly length = signal(0);
  /** When the record that shows was drawn, in ms since 1970. */
  readonly shownAt = signal(0);
  readonly #film = new Film();
  readonly #stamps: number[] = [];
  #times = new Float64Array(0);
  readonly #stop = new AbortController();
  #frame = 0;
  /** What one looked at, to come back to. */
  readonly viewBefore: View;

  constructor(
    private readonly client: Relay,
    private readonly paper: Paper,
  ) {
    this.viewBefore = paper.view;
  }

  /** Reads the history, then shows it from its beginning. Never rejects: {@link projection} tells. */
  async load(): Promise<void> {
    try {
      for await (const { first, records, head } of this.client.history(this.#stop.signal)) {
        for (let i = 0; i < records.length; i += CHUNK) {
          for (const record of records.slice(i, i + CHUNK)) {
            this.#film.add(record);
            this.#stamps.push(record.at);
          }
          await turn();
          if (this.#stop.signal.aborted) return;
        }
        const part = head === 0 ? 1 : Math.min(1, (first - 1 + records.length) / head);
        this.projection.value = { kind: "loading", part };
      }
    } catch {
      if (!this.#stop.signal.aborted) this.projection.value = { kind: "failed" };
      return;
    }
    if (this.#stop.signal.aborted) return;
    this.#begin();
  }

  #begin(): void {
    if (this.#film.length === 0) {
      this.projection.value = { kind: "empty" };
      return;
    }
    this.#times = filmTimes(this.#stamps);
    this.length.value = this.#times[this.#times.length - 1] ?? 0;
    this.speed.value = goodSpeed(this.length.value);
    this.paper.show(this.#film, null);
    this.#film.seek(this.#film.length);
    this.paper.fit();
    this.seek(0);
    this.projection.value = { kind: "ready" };
    this.play();
  }

  /** Shows the film as of that time, in ms. */
  seek(time: number): void {
    this.time.value = Math.max(0, Math.min(this.length.value, time));
    const place = recordsBy(this.#times, this.time.value);
    this.shownAt.value = this.#stamps[Math.max(0, place - 1)] ?? 0;
    this.#film.seek(place);
  }

  play(): void {
    if (this.projection.value.kind !== "ready" || this.playing.value) return;
    if (this.time.value >= this.length.value) this.seek(0);
    this.playing.value = true;
    let last = performance.now();
    const step = (now: number) => {
      this.seek(this.time.value + Math.max(0, now - last) * this.speed.value);
      last = now;
      if (this.time.value >= this.length.value) this.playing.value = false;
      else this.#frame = requestAnimationFrame(step);
    };
    this.#frame = requestAnimationFrame(step);
  }

  pause(): void {
    cancelAnimationFrame(this.#frame);
    this.playing.value = false;
  }

  toggle(): void {
    if (this.playing.value) this.pause();
    else this.play();
  }

  faster(): void {
    this.speed.value = nextSpeed(this.speed.value);
  }

  /** Ends the showing; who shows the live board again is the caller. */
  end(): void {
    this.pause();
    this.#stop.abort();
  }
}

/** Lets the page paint and take input. */
function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
