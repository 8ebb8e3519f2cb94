/** Choices: what one drew with last, how the page looks and who one is; remembered by this browser. */
import { type Signal, signal } from "@preact/signals";
import type { Profile } from "../../src/index.ts";
import type { Mode } from "../canvas/stage.ts";
import { INKS, PEOPLE_COLOURS } from "./colours.ts";
import { cleanName, friendlyName } from "./names.ts";
import { readVisits, type Visit, withoutVisit, withVisit } from "./recent-boards.ts";
import { field, numberIn, type Remembered } from "./remembered.ts";

/** The tools that leave ink. */
export type InkTool = "pen" | "highlighter";
export type ThemeChoice = "system" | "light" | "dark";

/** What an ink tool draws with; `width` in CSS pixels of the board. */
export interface Nib {
  readonly rgba: number;
  readonly width: number;
}

export const WIDTH_MIN = 1;
export const WIDTH_MAX = 48;
/** The widths that have a button of their own. */
export const WIDTHS: Readonly<Record<InkTool, readonly number[]>> = {
  pen: [2, 4, 8, 16],
  highlighter: [12, 20, 30, 44],
};
/** Characters of a name; the protocol takes no more. */
export const NAME_MAX = 64;

const MODES: readonly Mode[] = ["pen", "highlighter", "eraser", "hand"];
const THEMES: readonly ThemeChoice[] = ["system", "light", "dark"];

/** The choices, and the one place where they are read and kept. */
export class Choices {
  readonly mode: Signal<Mode>;
  readonly pen: Signal<Nib>;
  readonly highlighter: Signal<Nib>;
  readonly theme: Signal<ThemeChoice>;
  readonly profile: Signal<Profile>;
  readonly visits: Signal<readonly Visit[]>;
  /** The tool that a colour goes to while eraser or hand is on. */
  #lastInk: InkTool = "pen";
  readonly #remembered: Remembered;

  /** `random` gives numbers from 0 up to 1, for the first visit's name and colour. */
  constructor(remembered: Remembered, random: () => number) {
    this.#remembered = remembered;
    const mode = MODES.find((known) => known === remembered.get("mode"));
    this.mode = signal(mode ?? "pen");
    if (mode === "highlighter") this.#lastInk = mode;
    this.pen = signal(readNib(remembered.get("pen"), { rgba: INKS[0]?.rgba ?? 0xff, width: 4 }));
    this.highlighter = signal(
      readNib(remembered.get("highlighter"), { rgba: INKS[3]?.rgba ?? 0xff, width: 20 }),
    );
    this.theme = signal(THEMES.find((known) => known === remembered.get("theme")) ?? "system");
    const known = readProfile(remembered.get("profile"));
    const colour = PEOPLE_COLOURS[Math.floor(random() * PEOPLE_COLOURS.length)]?.rgba ?? 0xff;
    this.profile = signal(known ?? { name: friendlyName(random), rgba: colour });
    if (known === null) remembered.set("profile", this.profile.value);
    this.visits = signal(readVisits(remembered.get("boards")));
  }

  /** The ink tool that is on, or was last. */
  get inkTool(): InkTool {
    const mode = this.mode.value;
    return mode === "pen" || mode === "highlighter" ? mode : this.#lastInk;
  }

  /** What the {@link inkTool} draws with. */
  get nib(): Nib {
    return this[this.inkTool].value;
  }

  setMode(mode: Mode): void {
    if (mode === "pen" || mode === "highlighter") this.#lastInk = mode;
    this.mode.value = mode;
    this.#remembered.set("mode", mode);
  }

  /** A colour is chosen to draw with it: eraser and hand make way for the ink tool. */
  setColour(rgba: number): void {
    this.#setNib({ ...this.nib, rgba });
  }

  setWidth(width: number): void {
    this.#setNib({ ...this.nib, width: Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, Math.round(width))) });
  }

  /** Wider (1) or narrower (-1), by steps that look alike. */
  stepWidth(direction: 1 | -1): void {
    const { width } = this.nib;
    this.setWidth(direction === 1 ? Math.max(width + 1, width * 1.25) : Math.min(width - 1, width / 1.25));
  }

  #setNib(nib: Nib): void {
    const tool = this.inkTool;
    this[tool].value = nib;
    this.#remembered.set(tool, nib);
    this.setMode(tool);
  }

  setTheme(theme: ThemeChoice): void {
    this.theme.value = theme;
    this.#remembered.set("theme", theme);
  }

  /** Keeps who one is. An empty name stays as it was. */
  setProfile(profile: Profile): void {
    const name = [...cleanName(profile.name)].slice(0, NAME_MAX).join("") || this.profile.value.name;
    this.profile.value = { name, rgba: profile.rgba };
    this.#remembered.set("profile", this.profile.value);
  }

  visit(room: string, at: number): void {
    this.#setVisits(withVisit(this.#freshVisits(), room, at));
  }

  forget(room: string): void {
    this.#setVisits(withoutVisit(this.#freshVisits(), room));
  }

  /** Another tab may have been somewhere since. */
  #freshVisits(): readonly Visit[] {
    const kept = this.#remembered.get("boards");
    return kept === undefined ? this.visits.value : readVisits(kept);
  }

  #setVisits(visits: readonly Visit[]): void {
    this.visits.value = visits;
    this.#remembered.set("boards", visits);
  }
}

function readNib(value: unknown, fallback: Nib): Nib {
  return {
    rgba: numberIn(field(value, "rgba"), 0, 0xffffffff, fallback.rgba),
    width: numberIn(field(value, "width"), WIDTH_MIN, WIDTH_MAX, fallback.width),
  };
}

function readProfile(value: unknown): Profile | null {
  const name = field(value, "name");
  if (typeof name !== "string" || name.length > 2 * NAME_MAX) return null;
  const clean = cleanName(name);
  if (clean === "") return null;
  return { name: clean, rgba: numberIn(field(value, "rgba"), 0, 0xffffffff, 0) };
}
