/** Status: what people are told about the connection and about what is saved. Never more than is known. */
import type { State } from "../../src/index.ts";

/** Whether what was drawn is safe. */
export type Saving =
  /** All is stored, and has been for a moment. */
  | "saved"
  /** Some is on its way, or was a moment ago: no word yet, or every stroke would flicker. */
  | "unsure"
  /** Some is on its way for longer than a good connection needs. */
  | "saving";

/** Ms of nothing unsent before "Saved" is said. */
export const SETTLE_MS = 400;
/** Ms of something unsent before "Saving…" is said. */
export const GRACE_MS = 1_500;
/** A board with fewer records than this is there before a progress bar could be read. */
export const LARGE_BOARD = 400;

/** What the client says of a network that is away; "Offline" says as much. */
const UNREACHABLE = "the server cannot be reached";

/** `since`: when `unsent` last became 0, or last stopped being 0. */
export function savingOf(unsent: number, since: number, now: number): Saving {
  const lasted = now - since;
  if (unsent === 0) return lasted >= SETTLE_MS ? "saved" : "unsure";
  return lasted >= GRACE_MS ? "saving" : "unsure";
}

/** How it looks: `good` is calm, `bad` wants attention. */
export type Tone = "good" | "busy" | "warn" | "bad";

/** The short word that always shows. */
export interface Status {
  readonly tone: Tone;
  readonly word: string;
}

/** The word for the corner. */
export function statusOf(state: State, saving: Saving, unsent: number, full: boolean): Status {
  switch (state.kind) {
    case "connecting":
      return { tone: "busy", word: "Connecting…" };
    case "joining":
      return { tone: "busy", word: "Joining…" };
    case "live":
      // Not "Saved": what was drawn last was not.
      if (full) return { tone: "bad", word: "Board full" };
      if (saving === "saved") return { tone: "good", word: "Saved" };
      return saving === "saving" ? { tone: "busy", word: "Saving…" } : { tone: "good", word: "Live" };
    case "offline":
      return { tone: "warn", word: unsent > 0 ? `Offline · ${unsent} unsent` : "Offline" };
    case "refused":
      return { tone: "bad", word: "Not connected" };
  }
}

/** A line that explains, with what one can do about it. */
export interface Notice {
  readonly tone: Tone;
  readonly title: string;
  readonly text: string;
  readonly retry: boolean;
}

/** What to say when offline; `null` otherwise. */
export function offlineNotice(state: State, unsent: number, durable: boolean, now: number): Notice | null {
  if (state.kind !== "offline") return null;
  const title = state.draining ? "The server is restarting" : "Offline";
  // Not only networks keep one out: a board may have as many people as it takes.
  const plain = state.draining || state.why === UNREACHABLE;
  const why = plain ? [] : [sentence(state.why, UNREACHABLE)];
  const text = [...why, keptWords(unsent, durable), againWords(state.retryAt, now)].join(" ");
  return { tone: "warn", title, text, retry: true };
}

function keptWords(unsent: number, durable: boolean): string {
  if (unsent === 0)
    return durable ? "You can keep drawing." : "You can keep drawing, but leave this page open.";
  const changes = `${plural(unsent, "change")} ${unsent === 1 ? "is" : "are"}`;
  return durable ? `${changes} kept on this device.` : `${changes} unsent, and lost if this page closes.`;
}

function againWords(retryAt: number, now: number): string {
  const seconds = Math.ceil((retryAt - now) / 1000);
  return seconds > 1 ? `Trying again in ${seconds} s.` : "Trying again…";
}

/** Why there is no connection and will be none by itself. */
export interface Refusal {
  readonly title: string;
  readonly text: string;
  /** What helps, best first. */
  readonly remedies: readonly ("retry" | "come back" | "new board")[];
}

/** Words for a refused state. `unsent` draws stay on this device if the outbox is durable. */
export function refusalOf(code: string, message: string, unsent: number, durable: boolean): Refusal {
  const kept =
    unsent > 0 && durable
      ? ` ${plural(unsent, "change")} that could not be sent stay${unsent === 1 ? "s" : ""} on this device.`
      : "";
  switch (code) {
    case "invalid_token":
    case "4401":
      return {
        title: "This board needs an invitation",
        text: `The link has none, or it is no longer valid. Ask for a new link.${kept}`,
        remedies: ["retry", "new board"],
      };
    case "kicked":
      return {
        title: "A moderator sent you away",
        text: `You may come back to this board.${kept}`,
        remedies: ["come back"],
      };
    case "banned":
      return {
        title: "You are banned from this board",
        text: `Moderators keep you out of it.${kept}`,
        remedies: ["new board"],
      };
    case "room_full":
      return {
        title: "This board is full",
        text: `It holds as much ink as the server allows. Go on with a new board.${kept}`,
        remedies: ["new board"],
      };
    case "room_crowded":
    case "too_many_rooms":
    case "too_many_connections":
      return {
        title: "No room at the moment",
        text: `As many people are here as the server allows. Try again a little later.${kept}`,
        remedies: ["retry", "new board"],
      };
    case "origin_refused":
    case "1008":
      return {
        title: "This page may not connect",
        text: `The server takes no connections from this address. Open the address that the server printed.${kept}`,
        remedies: ["retry"],
      };
    case "4410":
      return {
        title: "Open somewhere else",
        text: `The same session went on in another window.${kept}`,
        remedies: ["retry"],
      };
    default:
      return {
        title: "The server said no",
        text: `${sentence(message, code)}${kept}`,
        remedies: ["retry", "new board"],
      };
  }
}

/** Why nothing can be drawn, for whoever tries. */
export function forbiddenWords(why: string | null): string {
  switch (why) {
    case "full":
      return "This board is full: nothing more can be drawn on it.";
    case "locked":
      return "A moderator locked this board: you can look at it, but not draw on it.";
    default:
      return "You can look at this board, but not draw on it.";
  }
}

/** Why a draw was refused, for a toast; `times` is how often it happened. */
export function refusedDrawWords(code: string, message: string, times: number): string {
  const what = times === 1 ? "Your last change was not kept" : `${times} changes were not kept`;
  switch (code) {
    case "forbidden":
      return `${what}: you may only look at this board.`;
    case "room_locked":
      return `${what}: a moderator locked this board.`;
    case "too_large":
      return `${what}: too large for one stroke.`;
    case "room_full":
      return `${what}: this board is full.`;
    case "rate_limited":
      return `${what}: too much at once.`;
    default:
      return `${what}. ${sentence(message, code)}`;
  }
}

/** What a screen reader is told when the connection changes; `null`: nothing worth the interruption. */
export function announcement(before: State, now: State, unsent: number): string | null {
  if (before.kind === now.kind) return null;
  switch (now.kind) {
    case "connecting":
    case "joining":
      return null;
    case "live":
      return before.kind === "offline" ? "Connected again." : "Connected.";
    case "offline":
      return unsent > 0 ? `Offline. ${plural(unsent, "change")} unsent.` : "Offline.";
    case "refused":
      return "Not connected.";
  }
}

/** "1 change", "2 changes". */
export function plural(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

function sentence(message: string, code: string): string {
  const text = message.trim() === "" ? code : message.trim();
  const upper = text.charAt(0).toLocaleUpperCase() + text.slice(1);
  return /[.!?…]$/u.test(upper) ? upper : `${upper}.`;
}
