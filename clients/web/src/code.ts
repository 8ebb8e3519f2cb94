/** The codes by which a server says what went wrong, and what a client does about each. */

/** What a client does about an error. */
export type Remedy =
  /** Send the same again, with the same `n`, after the retry time. */
  | "retry"
  /** Do not send that draw again; go on with the next under the same `n`. */
  | "drop"
  /** Send from the `n` that the error names. */
  | "renumber"
  /** Forget the board and take the snapshot. */
  | "reset"
  /** Take a new session; what is not acked goes with new numbers. */
  | "new-session"
  /** Tell the user; nothing that the client can do by itself will help. */
  | "give-up";

const REMEDIES: ReadonlyMap<string, Remedy> = new Map<string, Remedy>([
  ["malformed", "give-up"],
  ["invalid_ticket", "new-session"],
  ["invalid_token", "give-up"],
  ["forbidden", "drop"],
  ["origin_refused", "give-up"],
  ["not_found", "give-up"],
  ["method_not_allowed", "give-up"],
  ["too_slow", "retry"],
  ["gap", "renumber"],
  ["position_gone", "reset"],
  ["too_large", "drop"],
  ["room_full", "give-up"],
  ["unsupported_media_type", "give-up"],
  ["invalid_draw", "drop"],
  ["rate_limited", "retry"],
  ["internal", "retry"],
  ["room_crowded", "retry"],
  ["too_many_rooms", "retry"],
  ["too_many_connections", "retry"],
  ["store_full", "retry"],
  ["store_unavailable", "retry"],
  ["draining", "retry"],
]);

/** What to do about an error's code; `undefined` for one that a later version knows, or that is not ours. */
export function remedyOf(code: string): Remedy | undefined {
  return REMEDIES.get(code);
}

/** Why a WebSocket is closed (RFC 6455, section 7.4). */
export const CloseCode = {
  /** The client is done. */
  DONE: 1000,
  /** The server is going away: reconnect after the time that go away named. */
  GOING_AWAY: 1001,
  /** Origin or role refused. */
  REFUSED: 1008,
  /** A message is over the limit. */
  TOO_LARGE: 1009,
  /** Too many participants, rooms or connections, or no store. */
  TRY_AGAIN_LATER: 1013,
  /** A frame that cannot be read, or in the wrong place. */
  MALFORMED: 4400,
  /** A ticket or token is needed, wrong or expired. */
  UNAUTHORIZED: 4401,
  /** Too slow or idle. */
  TOO_SLOW: 4408,
  /** A gap in `n`. */
  OUT_OF_STEP: 4409,
  /** A newer connection has the same ticket. */
  REPLACED: 4410,
} as const;

/** What to do about a close code; `undefined` for one that this protocol does not use. */
export function closeRemedyOf(code: number): Remedy | undefined {
  switch (code) {
    case CloseCode.GOING_AWAY:
    case CloseCode.TRY_AGAIN_LATER:
    case CloseCode.TOO_SLOW:
    case CloseCode.OUT_OF_STEP:
      return "retry";
    case CloseCode.UNAUTHORIZED:
    case CloseCode.REPLACED:
      return "new-session";
    case CloseCode.DONE:
    case CloseCode.REFUSED:
    case CloseCode.TOO_LARGE:
    case CloseCode.MALFORMED:
      return "give-up";
    default:
      return undefined;
  }
}
