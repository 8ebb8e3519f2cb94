/** What a page complains of: errors in its console, exceptions, and what its content security policy refused. */
import type { ChromiumPage } from "./chromium.ts";

/** What browsers say of a network that is away; a page cannot keep them from it. */
const NETWORK = /Failed to load resource|WebSocket connection to|net::ERR/;

/** Collects complaints of all that is opened from now on. Those of a network that a test takes away are left out. */
export async function watchFaults(page: ChromiumPage): Promise<string[]> {
  const faults: string[] = [];
  // Not every refusal of the policy is told in the console, and whatever comes before the page's own script counts too.
  await page.tab.addInitScript(() => {
    addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI, sourceFile }) => {
      console.error(`Content Security Policy: ${effectiveDirective} refused ${blockedURI} of ${sourceFile}`);
    });
  });
  page.tab.on("pageerror", (error) => faults.push(String(error)));
  page.tab.on("console", (message) => {
    const text = message.text();
    const matters = message.type() === "error" || /Content Security Policy/i.test(text);
    if (matters && !NETWORK.test(text)) faults.push(text);
  });
  return faults;
}
