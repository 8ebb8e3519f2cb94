/**
 * The token of an invitation. It comes in the link's fragment, which no server sees, and is taken out of the address bar:
 * there it would be in view, in the history, and in every copy of the address. The tab keeps it, so that a reload has it.
 */
import type { Remembered } from "./remembered.ts";

/** What is used of `Location`. */
type Address = Pick<Location, "pathname" | "search" | "hash">;

const nameOf = (room: string) => `token.${room}`;

function tokenOf(fragment: URLSearchParams): string | null {
  const token = fragment.get("token");
  return token === "" ? null : token;
}

/** Whether an address carries an invitation. */
export function isInvitation(hash: string): boolean {
  return tokenOf(new URLSearchParams(hash.slice(1))) !== null;
}

/** The token that the tab has for a room; `null` if it has none. */
export function keptToken(room: string, tab: Remembered): string | null {
  const kept = tab.get(nameOf(room));
  return typeof kept === "string" ? kept : null;
}

/** The token for a room: that of the address, which is `replace`d by one without it, or the one that the tab has kept. */
export function takeToken(
  room: string,
  address: Address,
  tab: Remembered,
  replace: (address: string) => void,
): string | null {
  const fragment = new URLSearchParams(address.hash.slice(1));
  const token = tokenOf(fragment);
  if (token === null) return keptToken(room, tab);
  tab.set(nameOf(room), token);
  // Where nothing can be kept it stays, for the next reload.
  if (keptToken(room, tab) !== token) return token;
  fragment.delete("token");
  const rest = fragment.toString();
  replace(address.pathname + address.search + (rest === "" ? "" : `#${rest}`));
  return token;
}
