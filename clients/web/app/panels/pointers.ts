/** Pointers: where the others' pens are, on a layer above the ink. Painted by hand: they move on every frame. */
import type { Participant } from "../../src/index.ts";
import { personColour, textOn, toHex } from "./colours.ts";
import type { Place } from "./following.ts";

/** Ms without a move after which a pointer fades. */
export const STALE_MS = 6_000;
/** Ms of fading; then it is gone. */
const FADE_MS = 600;
/** Ms in which a pointer goes about two thirds of the way to where it was last seen. */
const PACE_MS = 60;
/** Board pixels that are not worth a frame. */
const STILL = 0.05;
/** As many pointers as show at once; of more, nobody could tell whose they are. */
export const POINTERS_MAX = 64;
/** The wire's coordinates per CSS pixel. */
const SIXTEENTHS = 16;

/** One pointer's way; board coordinates in CSS pixels. */
export interface Trace {
  readonly at: Place;
  readonly goal: Place;
  readonly seen: number;
}

/** The pointer `elapsed` ms later. */
export function glide(trace: Trace, elapsed: number): Trace {
  const { at, goal } = trace;
  if (Math.hypot(goal.x - at.x, goal.y - at.y) < STILL) return { ...trace, at: goal };
  const part = 1 - Math.exp(-elapsed / PACE_MS);
  return { ...trace, at: { x: at.x + (goal.x - at.x) * part, y: at.y + (goal.y - at.y) * part } };
}

/** How visible a pointer is that was last seen then: 1 to 0. */
export function visibility(seen: number, now: number): number {
  return Math.min(1, Math.max(0, 1 - (now - seen - STALE_MS) / FADE_MS));
}

interface Mark {
  trace: Trace;
  readonly element: HTMLElement;
  readonly label: HTMLElement;
}

/** The layer. */
export class Pointers {
  readonly #marks = new Map<number, Mark>();
  #people: ReadonlyMap<number, Participant> = new Map();
  #frame = 0;
  #wake: ReturnType<typeof setTimeout> | undefined;
  #last = 0;

  /** `toStage` as the stage's. Inside `layer`, which covers the stage. */
  constructor(
    private readonly layer: HTMLElement,
    private readonly toStage: (place: Place) => Place,
  ) {}

  /** Where somebody was last seen, in CSS pixels of the board. */
  placeOf(client: number): Place | undefined {
    return this.#marks.get(client)?.trace.goal;
  }

  /** Somebody moved; wire coordinates. */
  move(client: number, x: number, y: number): void {
    const goal = { x: x / SIXTEENTHS, y: y / SIXTEENTHS };
    const mark = this.#marks.get(client) ?? this.#make(client, goal);
    if (mark === undefined) return;
    mark.trace = { at: mark.trace.at, goal, seen: performance.now() };
    this.refresh();
  }

  /** Who is here: names, colours, and whose pointer goes. */
  setPeople(people: readonly Participant[]): void {
    this.#people = new Map(people.map((one) => [one.client, one]));
    for (const [client, mark] of this.#marks) {
      const person = this.#people.get(client);
      if (person === undefined) this.#drop(client);
      else dress(mark, person);
    }
  }

  #make(client: number, at: Place): Mark | undefined {
    const person = this.#people.get(client);
    if (person === undefined || this.#marks.size >= POINTERS_MAX) return undefined;
    const element = document.createElement("div");
    element.className = "pointer";
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 18 18");
    const arrow = document.createElementNS("http://www.w3.org/2000/svg", "path");
    arrow.setAttribute("d", "M2 2 15.5 7.2 9.6 9.6 7.2 15.5Z");
    svg.append(arrow);
    const label = document.createElement("span");
    element.append(svg, label);
    const mark: Mark = { trace: { at, goal: at, seen: performance.now() }, element, label };
    dress(mark, person);
    this.#marks.set(client, mark);
    this.layer.append(element);
    return mark;
  }

  #drop(client: number): void {
    this.#marks.get(client)?.element.remove();
    this.#marks.delete(client);
  }

  /** Something moved, the view perhaps: paints until all is still. */
  refresh(): void {
    if (this.#frame !== 0 || this.#marks.size === 0) return;
    clearTimeout(this.#wake);
    this.#last = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#paint(now));
  }

  #paint(now: number): void {
    this.#frame = 0;
    const elapsed = Math.max(0, now - this.#last);
    this.#last = now;
    let moving = false;
    let nextFade = Number.POSITIVE_INFINITY;
    for (const [client, mark] of this.#marks) {
      mark.trace = glide(mark.trace, elapsed);
      const seen = visibility(mark.trace.seen, now);
      if (seen === 0) {
        this.#drop(client);
        continue;
      }
      const { x, y } = this.toStage(mark.trace.at);
      mark.element.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
      mark.element.style.opacity = seen.toFixed(2);
      if (mark.trace.at !== mark.trace.goal || seen < 1) moving = true;
      else nextFade = Math.min(nextFade, mark.trace.seen + STALE_MS - now);
    }
    if (moving) this.#frame = requestAnimationFrame((next) => this.#paint(next));
    else if (nextFade < Number.POSITIVE_INFINITY) {
      this.#wake = setTimeout(() => this.refresh(), nextFade + 1);
    }
  }
}

function dress({ element, label }: Mark, person: Participant): void {
  const rgba = personColour(person.client, person.rgba);
  element.style.setProperty("--person", toHex(rgba));
  element.style.setProperty("--on-person", textOn(rgba));
  label.textContent = person.name === "" ? "Guest" : person.name;
}
