/** The service worker's registration; it lets the page open without a network. */

/** Registers it where browsers allow it: over https and on localhost. Everything else works without. */
export function registerWorker(): void {
  if (!import.meta.env.PROD || !globalThis.isSecureContext || !("serviceWorker" in navigator)) return;
  addEventListener("load", () => {
    navigator.serviceWorker.register("/service-worker.js").catch(() => undefined);
  });
}
