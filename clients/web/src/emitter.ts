/** An emitter: who wants to hear of what. */
export class Emitter<Events> {
  readonly #listeners: { [K in keyof Events]?: Set<(value: Events[K]) => void> } = {};

  /** Calls back on every such event. Returns how to end that. */
  on<K extends keyof Events>(event: K, listener: (value: Events[K]) => void): () => void {
    const listeners = this.#listeners[event] ?? new Set<(value: Events[K]) => void>();
    this.#listeners[event] = listeners;
    // A function of its own each time, so that who subscribes twice also hears twice.
    const own = (value: Events[K]) => listener(value);
    listeners.add(own);
    return () => {
      listeners.delete(own);
    };
  }

  emit<K extends keyof Events>(event: K, value: Events[K]): void {
    callAll(this.#listeners[event] ?? [], value);
  }
}

/**
 * Calls each. What one of them throws is thrown, but later and alone: it is no reason for the others not to hear, nor
 * for a connection to break.
 */
export function callAll<T>(listeners: Iterable<(value: T) => void>, value: T): void {
  for (const listener of listeners) {
    try {
      listener(value);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
