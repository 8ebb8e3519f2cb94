/** What a page complains of: errors in its console, exceptions, and what its content security policy refused. */
import type { ChromiumPage } from "./chromium.ts";

/** What browsers say of a network that is away; a page cannot keep them from it. */
const NETWORK = /Failed to load resource|WebSocket connection to|net::ERR/;

/** Collects complaints from now on. Those of a network that a test takes away are left out. */
export function watchFaults(page: ChromiumPage): string[] {
  const faults: string[] = [];
  page.tab.on("pageerror", (error) => faults.push(String(error)));
  page.tab.on("console", (message) => {
    const text = message.text();
    const matters = message.type() === "error" || /Content Security Policy/i.test(text);
    if (matters && !NETWORK.test(text)) faults.push(text);
  });
  return faults;
}
