/** The page: what a storage has to know of the tab it lives in. */

/** How a tab hands things to the page that comes after it, and what becomes of it. Listeners are ended by what they return. */
export interface Page {
  /** Takes out what the page before this one in this tab left under that key. */
  take(key: string): string | null;
  /** Leaves it to the page that comes next in this tab. */
  leave(key: string, value: string): void;
  /** Whether nobody sees it, so that its timers may hardly run. */
  isHidden(): boolean;
  /** Leaves something to whichever page of the origin comes next, at once, where that can be. */
  bequeath(key: string, value: string): void;
  /** All that was left to whoever comes next under keys that begin so; it stays until it is {@link Page.forget | forgotten}. */
  bequests(prefix: string): readonly (readonly [key: string, value: string])[];
  forget(key: string): void;
  /** The page is going, and may come back or is known not to. */
  onGone(listener: (mayReturn: boolean) => void): () => void;
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
  bequeath: () => {},
  bequests: () => [],
  forget: () => {},
  isHidden: () => false,
  onGone: () => () => {},
  onSwitched: () => () => {},
  every,
};

/** Whether there is an IndexedDB to try. Where pages may not have one, looking for it can throw. */
export function hasIndexedDb(): boolean {
  try {
    return typeof indexedDB !== "undefined";
  } catch {
    return false;
  }
}

/**
 * The browser's. What a page leaves stands in `sessionStorage`, and in `localStorage` if it is for any; where these are
 * blocked, nothing is handed over.
 */
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
    bequeath: (key, value) => {
      try {
        scope.localStorage.setItem(key, value);
      } catch {
        // Then what is under way may still be written in time.
      }
    },
    bequests: (prefix) => {
      try {
        const keys = Object.keys(scope.localStorage).filter((key) => key.startsWith(prefix));
        return keys.map((key) => [key, scope.localStorage.getItem(key) ?? ""] as const);
      } catch {
        return [];
      }
    },
    forget: (key) => {
      try {
        scope.localStorage.removeItem(key);
      } catch {
        // Then there was nothing.
      }
    },
    isHidden: () => scope.document.visibilityState === "hidden",
    onGone: (listener) => {
      const gone = (event: Event) => listener("persisted" in event && event.persisted === true);
      scope.addEventListener("pagehide", gone);
      return () => scope.removeEventListener("pagehide", gone);
    },
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
