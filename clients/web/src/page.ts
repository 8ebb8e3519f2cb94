/** The page: what a storage has to know of the tab it lives in. */

/** How a tab hands things to the page that comes after it, and what becomes of it. Listeners are ended by what they return. */
export interface Page {
  /** Takes out what the page before this one in this tab left under that key. */
  take(key: string): string | null;
  /** Leaves it to the page that comes next in this tab. */
  leave(key: string, value: string): void;
  /** Whether nobody sees it, so that its timers may hardly run. */
  isHidden(): boolean;
  /** The page is going, and may come back. */
  onGone(listener: () => void): () => void;
  /** The page came back, or is seen again, or is hidden now. */
  onSwitched(listener: () => void): () => void;
  /** Calls back every `ms`. */
  every(ms: number, listener: () => void): () => void;
}

function every(ms: number, listener: () => void): () => void {
  const timer = setInterval(listener, ms);
  // Node's: a program is not to live on for a lease.
  if (typeof timer === "object" && "unref" in timer) timer.unref();
  return () => clearInterval(timer);
}

/** Of a program without pages, as Node is: it never goes, and hands nothing over. */
export const noPage: Page = {
  take: () => null,
  leave: () => {},
  isHidden: () => false,
  onGone: () => () => {},
  onSwitched: () => () => {},
  every,
};

/** The browser's. What a page leaves stands in `sessionStorage`; where that is blocked, nothing is handed over. */
export function browserPage(): Page {
  const scope = globalThis;
  if (typeof scope.document === "undefined" || typeof scope.addEventListener !== "function") return noPage;
  const listen = (target: EventTarget, names: readonly string[], listener: () => void) => {
    for (const name of names) target.addEventListener(name, listener);
    return () => {
      for (const name of names) target.removeEventListener(name, listener);
    };
  };
  return {
    take: (key) => {
      try {
        const value = scope.sessionStorage.getItem(key);
        scope.sessionStorage.removeItem(key);
        return value;
      } catch {
        return null;
      }
    },
    leave: (key, value) => {
      try {
        scope.sessionStorage.setItem(key, value);
      } catch {
        // The next page then waits for the lease to end, or takes another identity.
      }
    },
    isHidden: () => scope.document.visibilityState === "hidden",
    onGone: (listener) => listen(scope, ["pagehide"], listener),
    onSwitched: (listener) => {
      const ends = [
        listen(scope, ["pageshow"], listener),
        listen(scope.document, ["visibilitychange", "resume"], listener),
      ];
      return () => {
        for (const end of ends) end();
      };
    },
    every,
  };
}
