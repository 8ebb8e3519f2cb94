/** What this browser or this tab remembers: small texts in its storage, which may be missing, full or forbidden. */

/** What is used of `Storage`. */
export type Shelf = Pick<Storage, "getItem" | "setItem">;

const PREFIX = "inkrelay.";

/** Keeps JSON values. Nothing here throws: who cannot remember goes on without. */
export class Remembered {
  readonly #shelf: Shelf | null;

  constructor(shelf: Shelf | null) {
    this.#shelf = shelf;
  }

  /** The page's own; in private mode even asking for it may throw. */
  static here(): Remembered {
    try {
      return new Remembered(globalThis.localStorage ?? null);
    } catch {
      return new Remembered(null);
    }
  }

  /** This tab's own: it lasts over reloads. */
  static inTab(): Remembered {
    try {
      return new Remembered(globalThis.sessionStorage ?? null);
    } catch {
      return new Remembered(null);
    }
  }

  /** What was kept under that name; `undefined` if there is nothing that can be read. */
  get(name: string): unknown {
    try {
      const text = this.#shelf?.getItem(PREFIX + name);
      return text == null ? undefined : JSON.parse(text);
    } catch {
      return undefined;
    }
  }

  set(name: string, value: unknown): void {
    try {
      this.#shelf?.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      // Full or forbidden: the choice holds until the page closes.
    }
  }
}

/** A field of something that came out of JSON. */
export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

/** A number within a range; `fallback` for anything else. */
export function numberIn(value: unknown, low: number, high: number, fallback: number): number {
  return typeof value === "number" && value >= low && value <= high ? value : fallback;
}
