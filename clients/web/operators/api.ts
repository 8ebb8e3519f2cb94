/** What the page asks of the relay, and has it do. Every call ends within ten seconds. */
import { type Fields, fields, list, number, text } from "./json.ts";

const TIME_MS = 10_000;

/** What the relay answered when it did not do what it was asked; the message is for people. */
export class Refused extends Error {}

export interface Room {
  readonly name: string;
  readonly participants: number;
  readonly readers: number;
  /** A second. */
  readonly draws: number;
  readonly recordsSent: number;
  /** Milliseconds until the slowest row of readers had a record. */
  readonly lag: number;
  readonly records: number;
  readonly bytes: number;
}

export interface Person {
  readonly client: number;
  readonly name: string;
  readonly rgba: number;
}

export interface OpenRoom extends Room {
  readonly people: readonly Person[];
  readonly isLocked: boolean;
}

/** What an operator has done in a room. */
export type Deed =
  | { readonly kind: "kick" | "ban" | "erase"; readonly client: number }
  | { readonly kind: "lock" | "unlock" | "clear" | "close" | "delete" };

export async function getState(): Promise<unknown> {
  return (await ask("GET", "/api/state")).json();
}

/** The busiest rooms, and how many are live. */
export async function getRooms(sort: string, limit: number): Promise<{ live: number; rooms: Room[] }> {
  const answer = fields(await (await ask("GET", `/api/rooms?sort=${sort}&limit=${limit}`)).json());
  return { live: number(answer.live), rooms: list(answer.rooms).map((room) => parseRoom(fields(room))) };
}

export async function getRoom(name: string): Promise<OpenRoom> {
  const answer = fields(await (await ask("GET", pathOf(name))).json());
  const people = list(answer.people).map((person) => {
    const { client, name: called, rgba } = fields(person);
    return { client: number(client), name: text(called), rgba: number(rgba) };
  });
  return { ...parseRoom(answer), people, isLocked: answer.is_locked === true };
}

/** The room's board as a snapshot in MessagePack. */
export async function getSnapshot(name: string): Promise<Uint8Array> {
  const answer = await ask("GET", `${pathOf(name)}/snapshot`, undefined, "application/msgpack");
  return new Uint8Array(await answer.arrayBuffer());
}

export async function doIn(name: string, deed: Deed): Promise<void> {
  if (deed.kind === "delete") await ask("DELETE", pathOf(name), {});
  else if (deed.kind === "close") await ask("POST", `${pathOf(name)}/close`, {});
  else {
    const client = "client" in deed ? { client: deed.client } : {};
    await ask("POST", `${pathOf(name)}/moderation`, { action: deed.kind, ...client });
  }
}

function pathOf(name: string): string {
  return `/api/rooms/${encodeURIComponent(name)}`;
}

function parseRoom(it: Fields): Room {
  return {
    name: text(it.room),
    participants: number(it.participants),
    readers: number(it.readers),
    draws: number(it.draws_per_s),
    recordsSent: number(it.records_sent_per_s),
    lag: number(it.lag_ms),
    records: number(it.records),
    bytes: number(it.bytes),
  };
}

async function ask(
  method: string,
  path: string,
  body?: Fields,
  accept = "application/json",
): Promise<Response> {
  const headers: Record<string, string> = { accept };
  const request: RequestInit = { method, headers, signal: AbortSignal.timeout(TIME_MS) };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  const response = await fetch(path, request);
  if (response.ok) return response;
  const problem = fields(await response.json().catch(() => null));
  throw new Refused(text(problem.detail) || `the relay answered with ${response.status}`);
}
