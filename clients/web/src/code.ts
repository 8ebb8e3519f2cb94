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
  | "newSession"
  /** Tell the user; nothing that the client can do by itself will help. */
  | "giveUp";

/** The stable codes of problems and error frames, with the HTTP status that goes with each. */
export const ERROR_CODES = {
  malformed: { status: 400, remedy: "giveUp" },
  invalid_ticket: { status: 401, remedy: "newSession" },
  invalid_token: { status: 401, remedy: "giveUp" },
  forbidden: { status: 403, remedy: "drop" },
  room_locked: { status: 403, remedy: "drop" },
  kicked: { status: 403, remedy: "giveUp" },
  banned: { status: 403, remedy: "giveUp" },
  origin_refused: { status: 403, remedy: "giveUp" },
  not_found: { status: 404, remedy: "giveUp" },
  method_not_allowed: { status: 405, remedy: "giveUp" },
  too_slow: { status: 408, remedy: "retry" },
  gap: { status: 409, remedy: "renumber" },
  position_gone: { status: 410, remedy: "reset" },
  too_large: { status: 413, remedy: "drop" },
  room_full: { status: 413, remedy: "giveUp" },
  unsupported_media_type: { status: 415, remedy: "giveUp" },
  invalid_draw: { status: 422, remedy: "drop" },
  rate_limited: { status: 429, remedy: "retry" },
  internal: { status: 500, remedy: "retry" },
  room_crowded: { status: 503, remedy: "retry" },
  too_many_rooms: { status: 503, remedy: "retry" },
  too_many_connections: { status: 503, remedy: "retry" },
  store_full: { status: 503, remedy: "retry" },
  store_unavailable: { status: 503, remedy: "retry" },
  draining: { status: 503, remedy: "retry" },
} as const satisfies Record<string, { status: number; remedy: Remedy }>;

export type ErrorCode = keyof typeof ERROR_CODES;

const BY_STATUS = new Map<number, Remedy>([
  [403, "drop"],
  [408, "retry"],
  [409, "renumber"],
  [410, "reset"],
  [413, "drop"],
  [422, "drop"],
  [429, "retry"],
]);

/** What to do about an error frame. A code of a later version that comes with a retry time is one to try again. */
export function frameRemedy(code: string, retryMs: number | null): Remedy {
  return known(code) ?? (retryMs === null ? "drop" : "retry");
}

/**
 * What to do about an HTTP problem. `code` is `null` where something between here and the server answered, a proxy or
 * a hotel's sign-in page: then no ink is given up, but for what is too large to ever get through.
 */
export function problemRemedy(code: string | null, status: number): Remedy {
  if (code === null) return status === 413 ? "drop" : "retry";
  return known(code) ?? BY_STATUS.get(status) ?? (status >= 500 ? "retry" : "giveUp");
}

function known(code: string): Remedy | undefined {
  return isErrorCode(code) ? ERROR_CODES[code].remedy : undefined;
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

/** Why a WebSocket is closed (RFC 6455, section 7.4). */
export const CloseCode = {
  DONE: 1000,
  GOING_AWAY: 1001,
  REFUSED: 1008,
  TOO_LARGE: 1009,
  TRY_AGAIN_LATER: 1013,
  MALFORMED: 4400,
  UNAUTHORIZED: 4401,
  TOO_SLOW: 4408,
  OUT_OF_STEP: 4409,
  REPLACED: 4410,
} as const;

const CLOSE_REMEDIES = new Map<number, Remedy>([
  [CloseCode.DONE, "giveUp"],
  [CloseCode.REFUSED, "giveUp"],
  [CloseCode.TOO_LARGE, "giveUp"],
  [CloseCode.MALFORMED, "giveUp"],
  [CloseCode.REPLACED, "giveUp"],
  [CloseCode.UNAUTHORIZED, "newSession"],
]);

/** What to do about a closed socket. All that is not in the list, 1006 for a lost network too: reconnect. */
export function closeRemedy(code: number): Remedy {
  return CLOSE_REMEDIES.get(code) ?? "retry";
}
