/**
 * The service worker: keeps the page itself, so that it opens without a network. Ink is none of its business: that is
 * in the outbox, and what goes to `/v1/` never passes through here.
 */

/** Put in by the build (vite.config.ts): the page's files, and a name for exactly these. */
declare const SHELL: { readonly version: string; readonly files: readonly string[] };

interface Lasting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetch extends Lasting {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}
/** What is used of the global scope; the types for workers and those for pages do not go together. */
declare const self: {
  readonly location: Location;
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: Lasting) => void): void;
  addEventListener(type: "fetch", listener: (event: Fetch) => void): void;
};

const PREFIX = "inkrelay-shell-";
const CACHE = PREFIX + SHELL.version;
/** The one page there is, whichever board it shows. */
const PAGE = "/";
/** What is kept fits whoever asks: servers say that it varies with headers that caches do not see alike. */
const ANY = { ignoreSearch: true, ignoreVary: true };
/** Ms that a page load waits for the network before it takes the kept page. */
const NAVIGATION_MS = 4_000;

self.addEventListener("install", (event) => {
  event.waitUntil(install());
});

async function install(): Promise<void> {
  const cache = await caches.open(CACHE);
  // Past the HTTP cache: files that keep their names must be of this version too.
  await cache.addAll(SHELL.files.map((file) => new Request(file, { cache: "reload" })));
  // Open pages have all their files, so that nothing breaks under them; the next load is of this version.
  await self.skipWaiting();
}

self.addEventListener("activate", (event) => {
  event.waitUntil(forgetOthers());
});

async function forgetOthers(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(
    names.filter((name) => name.startsWith(PREFIX) && name !== CACHE).map((name) => caches.delete(name)),
  );
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== self.location.origin) return;
  if (request.mode === "navigate") {
    if (url.pathname === PAGE || url.pathname.startsWith("/b/")) event.respondWith(page(request));
  } else if (SHELL.files.includes(url.pathname)) event.respondWith(file(request));
});

/** The network's page if there is one in time: it names the newest files. */
async function page(request: Request): Promise<Response> {
  const kept = async () => (await caches.open(CACHE)).match(PAGE, ANY);
  const timeout = new Promise<undefined>((resolve) => setTimeout(resolve, NAVIGATION_MS));
  const network = fetch(request);
  try {
    const first = await Promise.race([network, timeout]);
    if (first?.ok) return first;
  } catch {
    // No network: the kept page will do.
  }
  return (await kept()) ?? network;
}

/** Files of the shell are as they were when this version was installed. */
async function file(request: Request): Promise<Response> {
  const kept = await (await caches.open(CACHE)).match(request, ANY);
  return kept ?? fetch(request);
}

export {};
