/**
 * The gesture: what fingers, pens and mice on the stage mean. Pure: events in, decisions out; time is a field.
 *
 * - Once a pen was seen, fingers only pan and pinch, and those that touch while the pen is near are a palm and do
 *   nothing until they are lifted. A palm that came first and had begun a stroke: that stroke is cancelled.
 * - Without a pen one finger draws. A second one in its first moments means pan and pinch: the stroke is cancelled.
 * - When the system takes a pointer away ("pointercancel"), a pen's or mouse's stroke ends and keeps its points: the hand
 *   meant them. A finger's stroke is cancelled: the system only does that when the touch meant something else.
 */

export type Device = "mouse" | "pen" | "touch";

/** One reading of a pointer. */
export interface Sample {
  /** CSS pixels of the stage. */
  readonly x: number;
  readonly y: number;
  /** 0 to 1. */
  readonly pressure: number;
  /** Degrees. */
  readonly tiltX: number;
  readonly tiltY: number;
}

export interface PointerInput {
  readonly type: "down" | "move" | "up" | "cancel";
  readonly id: number;
  readonly device: Device;
  /** As in DOM pointer events. */
  readonly button: number;
  readonly buttons: number;
  /** Where it was since the event before, oldest first; the last is where it is. */
  readonly samples: readonly [Sample, ...Sample[]];
  /** Milliseconds, of any clock that runs forward. */
  readonly time: number;
}

/** Two fingers, or one: see camera.ts. */
export interface Hold {
  readonly x: number;
  readonly y: number;
  readonly span: number;
}

export type Decision =
  | {
      readonly kind: "begin";
      readonly tool: "ink" | "eraser";
      readonly device: Device;
      readonly samples: readonly Sample[];
    }
  | { readonly kind: "extend"; readonly samples: readonly Sample[] }
  | { readonly kind: "end" }
  | { readonly kind: "cancel" }
  | { readonly kind: "grip"; readonly from: Hold; readonly to: Hold }
  | { readonly kind: "hover"; readonly sample: Sample }
  /** A pen was seen for the first time. */
  | { readonly kind: "pen" };

/** What the pointer does when it goes down. */
export type Purpose = "ink" | "eraser" | "pan";

/** A second finger within that time turns a stroke into a pinch, in ms. */
const MOMENT = 300;
/** So does one that comes before the first has gone that far, in CSS pixels. */
const STILL = 12;
/** Fingers that touch within that time of a pen are a palm, in ms. */
const PALM_TIME = 500;
/** With a pen in use, a finger pans only when it has moved that far: a palm lands still. In CSS pixels. */
const PALM_STILL = 10;
/** A finger's eraser waits that long, in ms, or {@link STILL} pixels: a pinch must not erase. */
const ERASER_WAIT = 120;
/** Fingers nearer than that are taken as that far apart, in CSS pixels. */
const SPAN_MIN = 16;
/** The eraser end of a pen, in `buttons` and as `button`. */
const ERASER_BUTTONS = 32;
const ERASER_BUTTON = 5;

interface Drawing {
  readonly kind: "drawing";
  readonly id: number;
  readonly device: Device;
  readonly since: number;
  readonly from: Sample;
  latest: Sample;
  /** How far it has been from its start, in CSS pixels. */
  travel: number;
  /** What waits until it is clear that this is no pinch. */
  held: Sample[] | null;
}

interface Gripping {
  readonly kind: "gripping";
  readonly device: Device;
  readonly fingers: Map<number, Sample>;
  /** Whether it may move the board already. */
  loose: boolean;
}

type GestureState = { readonly kind: "idle" } | Drawing | Gripping;

const IDLE: GestureState = { kind: "idle" };

export class Gesture {
  /** What the main button, a finger or a pen's tip does. */
  purpose: Purpose = "ink";
  /** Space is held: the mouse pans. */
  space = false;
  #state: GestureState = IDLE;
  #penSeen = false;
  #penAt = -Infinity;
  /** Pointers that mean nothing until they are lifted. */
  readonly #resting = new Set<number>();

  /** Whether something is being drawn or moved. */
  get kind(): GestureState["kind"] {
    return this.#state.kind;
  }

  take(input: PointerInput): Decision[] {
    const decisions: Decision[] = [];
    if (input.device === "pen") {
      this.#penAt = input.time;
      if (!this.#penSeen) {
        this.#penSeen = true;
        decisions.push({ kind: "pen" });
      }
    }
    switch (input.type) {
      case "down":
        this.#down(input, decisions);
        break;
      case "move":
        this.#move(input, decisions);
        break;
      case "up":
        this.#up(input, decisions);
        break;
      case "cancel":
        this.#cancel(input, decisions);
        break;
    }
    return decisions;
  }

  /** Ends what is under way: its points stay. */
  stop(): Decision[] {
    const decisions: Decision[] = [];
    this.#finish(decisions);
    return decisions;
  }

  #down(input: PointerInput, decisions: Decision[]): void {
    this.#resting.delete(input.id);
    const state = this.#state;
    if (state.kind === "drawing" && state.id === input.id) {
      // Its lifting was lost; the stroke is whole.
      this.#finish(decisions);
    } else if (state.kind === "gripping" && state.fingers.has(input.id)) {
      state.fingers.delete(input.id);
    }
    if (input.device === "touch") {
      this.#fingerDown(input, decisions);
    } else if (input.device === "pen") {
      this.#penDown(input, decisions);
    } else if (this.#state.kind === "idle") {
      if (input.button === 1 || (input.button === 0 && (this.space || this.purpose === "pan"))) {
        this.#grip("mouse", new Map([[input.id, latest(input)]]), true);
      } else if (input.button === 0) {
        this.#draw(input, this.purpose === "eraser" ? "eraser" : "ink", false, decisions);
      }
    }
  }

  #fingerDown(input: PointerInput, decisions: Decision[]): void {
    const state = this.#state;
    if (this.#penSeen && input.time - this.#penAt < PALM_TIME) {
      this.#resting.add(input.id);
      return;
    }
    if (state.kind === "idle") {
      if (this.#penSeen || this.purpose === "pan") {
        this.#grip("touch", new Map([[input.id, latest(input)]]), !this.#penSeen);
      } else {
        const tool = this.purpose === "eraser" ? "eraser" : "ink";
        this.#draw(input, tool, tool === "eraser", decisions);
      }
    } else if (
      state.kind === "drawing" &&
      state.device === "touch" &&
      (input.time - state.since < MOMENT || state.travel < STILL)
    ) {
      if (!state.held) {
        decisions.push({ kind: "cancel" });
      }
      this.#grip(
        "touch",
        new Map([
          [state.id, state.latest],
          [input.id, latest(input)],
        ]),
        true,
      );
    } else if (state.kind === "gripping" && state.device === "touch" && state.fingers.size < 2) {
      state.fingers.set(input.id, latest(input));
      state.loose = true;
    } else {
      this.#resting.add(input.id);
    }
  }

  #penDown(input: PointerInput, decisions: Decision[]): void {
    const state = this.#state;
    if (state.kind === "drawing") {
      if (state.device === "touch") {
        if (!state.held) {
          decisions.push({ kind: "cancel" });
        }
        this.#resting.add(state.id);
        this.#state = IDLE;
      } else {
        this.#finish(decisions);
      }
    } else if (state.kind === "gripping") {
      for (const id of state.fingers.keys()) {
        this.#resting.add(id);
      }
      this.#state = IDLE;
    }
    const erases = (input.buttons & ERASER_BUTTONS) !== 0 || input.button === ERASER_BUTTON;
    if (erases) {
      this.#draw(input, "eraser", false, decisions);
    } else if (this.purpose === "pan" || this.space) {
      this.#grip("pen", new Map([[input.id, latest(input)]]), true);
    } else {
      this.#draw(input, this.purpose, false, decisions);
    }
  }

  #move(input: PointerInput, decisions: Decision[]): void {
    const state = this.#state;
    if (state.kind === "drawing" && state.id === input.id) {
      if (lifted(input)) {
        // It was lifted where nobody saw it.
        this.#finish(decisions);
        decisions.push({ kind: "hover", sample: latest(input) });
        return;
      }
      state.latest = latest(input);
      for (const sample of input.samples) {
        state.travel = Math.max(state.travel, Math.hypot(sample.x - state.from.x, sample.y - state.from.y));
      }
      if (!state.held) {
        decisions.push({ kind: "extend", samples: input.samples });
      } else {
        state.held.push(...input.samples);
        if (input.time - state.since >= ERASER_WAIT || state.travel >= STILL) {
          this.#release(state, decisions);
        }
      }
    } else if (state.kind === "gripping" && state.fingers.has(input.id)) {
      if (state.device === "mouse" && lifted(input)) {
        this.#state = IDLE;
        return;
      }
      const start = state.fingers.get(input.id);
      const here = latest(input);
      if (!state.loose) {
        if (start && Math.hypot(here.x - start.x, here.y - start.y) < PALM_STILL) {
          return;
        }
        state.loose = true;
        state.fingers.set(input.id, here);
        return;
      }
      const from = holdOf(state.fingers);
      state.fingers.set(input.id, here);
      decisions.push({ kind: "grip", from, to: holdOf(state.fingers) });
    } else if (input.device !== "touch" && input.buttons === 0) {
      decisions.push({ kind: "hover", sample: latest(input) });
    }
  }

  #up(input: PointerInput, decisions: Decision[]): void {
    this.#resting.delete(input.id);
    const state = this.#state;
    if (state.kind === "drawing" && state.id === input.id) {
      if (state.held) {
        state.held.push(...input.samples);
      } else {
        decisions.push({ kind: "extend", samples: input.samples });
      }
      this.#finish(decisions);
    } else {
      this.#letGo(input.id);
    }
  }

  #cancel(input: PointerInput, decisions: Decision[]): void {
    this.#resting.delete(input.id);
    const state = this.#state;
    if (state.kind === "drawing" && state.id === input.id) {
      if (state.device !== "touch") {
        this.#finish(decisions);
        return;
      }
      if (!state.held) {
        decisions.push({ kind: "cancel" });
      }
      this.#state = IDLE;
    } else {
      this.#letGo(input.id);
    }
  }

  #letGo(id: number): void {
    const state = this.#state;
    if (state.kind === "gripping" && state.fingers.delete(id) && state.fingers.size === 0) {
      this.#state = IDLE;
    }
  }

  #draw(input: PointerInput, tool: "ink" | "eraser", hold: boolean, decisions: Decision[]): void {
    const state: Drawing = {
      kind: "drawing",
      id: input.id,
      device: input.device,
      since: input.time,
      from: input.samples[0],
      latest: latest(input),
      travel: 0,
      held: hold ? [...input.samples] : null,
    };
    this.#state = state;
    if (!hold) {
      decisions.push({ kind: "begin", tool, device: input.device, samples: input.samples });
    }
  }

  #grip(device: Device, fingers: Map<number, Sample>, loose: boolean): void {
    this.#state = { kind: "gripping", device, fingers, loose };
  }

  #release(state: Drawing, decisions: Decision[]): void {
    if (state.held) {
      decisions.push({ kind: "begin", tool: "eraser", device: state.device, samples: state.held });
      state.held = null;
    }
  }

  #finish(decisions: Decision[]): void {
    if (this.#state.kind === "drawing") {
      this.#release(this.#state, decisions);
      decisions.push({ kind: "end" });
    }
    this.#state = IDLE;
  }
}

/** No button is down. Pens are asked for their pressure too: some say nothing of buttons while they draw. */
function lifted(input: PointerInput): boolean {
  return (
    input.buttons === 0 &&
    (input.device === "mouse" || (input.device === "pen" && latest(input).pressure === 0))
  );
}

function latest(input: PointerInput): Sample {
  return input.samples.at(-1) ?? input.samples[0];
}

function holdOf(fingers: ReadonlyMap<number, Sample>): Hold {
  const [first, second] = [...fingers.values()];
  if (!first) {
    return { x: 0, y: 0, span: 1 };
  }
  if (!second) {
    return { x: first.x, y: first.y, span: 1 };
  }
  return {
    x: (first.x + second.x) / 2,
    y: (first.y + second.y) / 2,
    span: Math.max(SPAN_MIN, Math.hypot(first.x - second.x, first.y - second.y)),
  };
}
