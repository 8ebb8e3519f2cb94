/** Moderation: what moderators ask for in a room. */
import { parseModerated } from "./codec.ts";
import type { DrawName } from "./draw.ts";
import { ask, type Credentials, type Endpoint, JSON_TYPE, REQUEST_TIMEOUT_MS, readText } from "./http.ts";

/** Half a minute for a long log's erasure; whoever asks again goes on with the same one. */
const TURNS_MAX = 8;

/** What a moderator asks for. */
export type Moderation =
  /** From now on only moderators draw, or everyone who might. */
  | { readonly action: "lock" | "unlock" }
  /** Ends what a participant has open; it may come back. */
  | { readonly action: "kick"; readonly client: number }
  /** Keeps a participant out, or lets it in again. */
  | { readonly action: "ban" | "unban"; readonly client: number }
  /** Hides all that an author drew. */
  | { readonly action: "erase"; readonly client: number };

/** What became of it. */
export type Moderated =
  /** `records` names the draws that hide something now, so that they can be revoked. */
  | { readonly kind: "done"; readonly erased: number; readonly records: readonly DrawName[] }
  /** `code` as in PROTOCOL.md's errors; `no_answer` when nobody knows. */
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

/** Asks for it, and waits until it is done. Never throws. */
export async function moderate(
  endpoint: Endpoint,
  credentials: Credentials,
  what: Moderation,
  signal: AbortSignal,
): Promise<Moderated> {
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const outcome = await ask(
      {
        method: "POST",
        url: endpoint.url("moderation"),
        accept: JSON_TYPE,
        credentials,
        contentType: JSON_TYPE,
        body: JSON.stringify(what),
        timeout: REQUEST_TIMEOUT_MS,
      },
      signal,
    );
    if (outcome.kind === "none") return { kind: "failed", code: "no_answer", message: outcome.why };
    if (outcome.kind === "problem") {
      const { code, message } = outcome.problem;
      return { kind: "failed", code: code ?? "no_answer", message };
    }
    const told = readText(parseModerated, outcome.body);
    if (told === null) return { kind: "failed", code: "no_answer", message: "the answer cannot be read" };
    if (told.done) return { kind: "done", erased: told.erased, records: told.records };
  }
  return { kind: "failed", code: "no_answer", message: "the server is still at it" };
}
