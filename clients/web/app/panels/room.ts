/** A room's name as it stands in the address bar. */

/** Where the bare address leads, so that two windows on it share one board. */
export const FRONT_ROOM = "lobby";

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$/;
const RANDOM_BYTES = 16;
/** What {@link randomRoom} makes: 16 bytes in base64url. */
const RANDOM_NAME = /^[A-Za-z0-9_-]{22}$/;

/** What a path asks for. */
export type Route =
  | { readonly kind: "front" }
  | { readonly kind: "board"; readonly room: string }
  /** A name that no room can have. */
  | { readonly kind: "wrong"; readonly name: string };

/** Whether a room can have that name. */
export function isRoomName(name: string): boolean {
  return NAME.test(name);
}

/** Reads the path of an address, such as `/b/garden`. */
export function routeOf(path: string): Route {
  if (path === "/" || path === "") return { kind: "front" };
  const name = nameIn(path);
  return isRoomName(name) ? { kind: "board", room: name } : { kind: "wrong", name };
}

function nameIn(path: string): string {
  if (!path.startsWith("/b/")) return path.slice(1);
  const raw = path.slice("/b/".length).replace(/\/$/, "");
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}

/** The path of a room's board. */
export function pathOf(room: string): string {
  return `/b/${room}`;
}

/** A name that nobody guesses: 128 random bits, 22 characters. */
export function randomRoom(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(RANDOM_BYTES));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** Whether a name looks like one that {@link randomRoom} made. */
export function isRandomName(name: string): boolean {
  return RANDOM_NAME.test(name);
}
