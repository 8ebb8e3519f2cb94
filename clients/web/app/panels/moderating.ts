/** Moderating: what moderators do from the page, and what they are told of it. */
import type { Moderated, Moderation, Participant } from "../../src/index.ts";
import type { AppState } from "../app-state.ts";
import { plural } from "./status.ts";

/** Why it was not done, in a sentence. */
function failureWords(what: string, failed: Moderated & { readonly kind: "failed" }): string {
  switch (failed.code) {
    case "forbidden":
    case "invalid_token":
      return `${what}: you are no moderator here any more.`;
    case "no_answer":
    case "store_unavailable":
      return `${what}: the server gave no answer. Try again.`;
    default:
      return `${what}: ${failed.message}.`;
  }
}

async function run(state: AppState, what: Moderation, failure: string): Promise<Moderated | null> {
  const client = state.client.value;
  if (client === null) return null;
  const done = await client.moderate(what);
  if (done.kind === "failed") state.toasts.show({ key: "moderation", text: failureWords(failure, done) });
  return done.kind === "done" ? done : null;
}

export async function setLock(state: AppState, locked: boolean): Promise<void> {
  const failure = locked ? "The board is not locked" : "The board is not unlocked";
  const done = await run(state, { action: locked ? "lock" : "unlock" }, failure);
  if (done === null) return;
  const text = locked ? "Board locked: only moderators draw now." : "Board unlocked: everyone draws again.";
  state.toasts.show({ key: "moderation", text });
}

export async function kick(state: AppState, person: Participant, name: string): Promise<void> {
  const { client } = person;
  const done = await run(state, { action: "kick", client }, `${name} was not sent away`);
  if (done !== null)
    state.toasts.show({ key: "moderation", text: `${name} was sent away, and may come back.` });
}

export async function ban(state: AppState, person: Participant, name: string): Promise<void> {
  const { client } = person;
  const done = await run(state, { action: "ban", client }, `${name} was not banned`);
  if (done === null) return;
  const unban = async () => {
    const lifted = await run(state, { action: "unban", client }, `${name} is still banned`);
    if (lifted !== null) state.toasts.show({ key: "moderation", text: `${name} may come back.` });
  };
  state.toasts.show({
    key: "moderation",
    text: `${name} is banned from this board.`,
    action: { label: "Undo", run: () => void unban() },
  });
}

export async function eraseAllOf(state: AppState, person: Participant, name: string): Promise<void> {
  const { client } = person;
  const done = await run(state, { action: "erase", client }, `What ${name} drew was not erased`);
  if (done?.kind !== "done") return;
  const { records } = done;
  const text =
    done.erased === 0
      ? `Nothing that ${name} drew is left.`
      : `Erased ${plural(done.erased, "stroke")} of ${name}.`;
  state.toasts.show({
    key: "moderation",
    text,
    ...(records.length > 0 && {
      action: { label: "Undo", run: () => state.client.value?.revoke(records) },
    }),
  });
}
