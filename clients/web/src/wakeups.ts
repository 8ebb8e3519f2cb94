/**
 * Wakeups: when a connection that looks open may be dead, because the device slept or its network changed.
 * The only file of the library that knows a page.
 */

/** `wake`: look whether the connection lives. `offline`: the device says that it has no network. */
export type Wakeup = "wake" | "offline";

/** How often it is looked whether timers run, in ms. */
const TICK_MS = 2_000;
/** A timer that is so much too late, in ms, has slept. Less is a busy page. */
const LATE_MS = 5_000;

/** Calls back on every wakeup. Returns how to end that. */
export function onWakeups(listener: (wakeup: Wakeup) => void): () => void {
  const wake = () => listener("wake");
  const offline = () => listener("offline");
  const visible = () => {
    if (document.visibilityState === "visible") listener("wake");
  };
  // In Node there is neither; in a worker, no document.
  const page = typeof document === "undefined" ? undefined : document;
  const view = typeof window === "undefined" ? undefined : window;
  page?.addEventListener("visibilitychange", visible);
  page?.addEventListener("resume", wake);
  view?.addEventListener("pageshow", wake);
  view?.addEventListener("online", wake);
  view?.addEventListener("offline", offline);
  let ticked = Date.now();
  const timer = setInterval(() => {
    const late = Date.now() - ticked - TICK_MS;
    ticked = Date.now();
    // The timers of a hidden page are late at any time.
    if (late > LATE_MS && page?.visibilityState !== "hidden") listener("wake");
  }, TICK_MS);
  return () => {
    clearInterval(timer);
    page?.removeEventListener("visibilitychange", visible);
    page?.removeEventListener("resume", wake);
    view?.removeEventListener("pageshow", wake);
    view?.removeEventListener("online", wake);
    view?.removeEventListener("offline", offline);
  };
}
