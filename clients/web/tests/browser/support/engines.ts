/** The engines that tests run in. */
import type { Browser } from "./browser.ts";
import { startChromium } from "./chromium.ts";
import { startFirefox } from "./firefox.ts";
import { startWebKit } from "./webkit.ts";

/** All three, for `describe.each`. */
export const ENGINES: readonly { readonly name: Browser["name"]; readonly start: () => Promise<Browser> }[] =
  [
    { name: "chromium", start: startChromium },
    { name: "firefox", start: startFirefox },
    { name: "webkit", start: startWebKit },
  ];
