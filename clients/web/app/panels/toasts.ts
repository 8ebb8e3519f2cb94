/** Toasts: short words that come and go. */
import { type ReadonlySignal, signal } from "@preact/signals";

/** One toast. */
export interface Toast {
  /** A second toast of the same key takes the place of the first. */
  readonly key: string;
  readonly text: string;
  readonly action?: { readonly label: string; readonly run: () => void };
}

/** How many show at once; the oldest makes way. */
export const TOASTS_MAX = 3;
const SHOWN_MS = 6_000;

/** The toasts that show now. */
export class Toasts {
  readonly #shown = signal<readonly Toast[]>([]);
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  get shown(): ReadonlySignal<readonly Toast[]> {
    return this.#shown;
  }

  show(toast: Toast): void {
    const others = this.#shown.peek().filter(({ key }) => key !== toast.key);
    for (const gone of others.slice(0, -(TOASTS_MAX - 1))) this.dismiss(gone.key);
    this.#shown.value = [...this.#shown.peek().filter(({ key }) => key !== toast.key), toast];
    this.hold(toast.key);
    this.release(toast.key);
  }

  dismiss(key: string): void {
    this.hold(key);
    this.#shown.value = this.#shown.peek().filter((toast) => toast.key !== key);
  }

  /** It stays while somebody points at it or has its button in focus. */
  hold(key: string): void {
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }

  /** It goes after its time. */
  release(key: string): void {
    this.#timers.set(
      key,
      setTimeout(() => this.dismiss(key), SHOWN_MS),
    );
  }
}
