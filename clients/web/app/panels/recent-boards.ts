/** Recent boards: where this browser has been, newest first. */
import { field } from "./remembered.ts";
import { isRoomName } from "./room.ts";

/** One visit. */
export interface Visit {
  readonly room: string;
  /** The last time, milliseconds since 1970. */
  readonly at: number;
}

/** How many are kept; the oldest goes. */
export const RECENT_MAX = 20;

/** Reads what was kept; leaves out what makes no sense. */
export function readVisits(value: unknown): readonly Visit[] {
  if (!Array.isArray(value)) return [];
  const visits: Visit[] = [];
  for (const entry of value.slice(0, RECENT_MAX)) {
    const room = field(entry, "room");
    const at = field(entry, "at");
    if (typeof room !== "string" || !isRoomName(room) || typeof at !== "number") continue;
    if (!visits.some((visit) => visit.room === room)) visits.push({ room, at });
  }
  return visits;
}

/** With a visit now. */
export function withVisit(visits: readonly Visit[], room: string, at: number): readonly Visit[] {
  return [{ room, at }, ...withoutVisit(visits, room)].slice(0, RECENT_MAX);
}

/** Without that board. */
export function withoutVisit(visits: readonly Visit[], room: string): readonly Visit[] {
  return visits.filter((visit) => visit.room !== room);
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, as people say it. */
export function ago(at: number, now: number): string {
  const past = Math.max(0, now - at);
  if (past < MINUTE) return "just now";
  if (past < HOUR) return count(Math.floor(past / MINUTE), "minute");
  if (past < DAY) return count(Math.floor(past / HOUR), "hour");
  if (past < 30 * DAY) return count(Math.floor(past / DAY), "day");
  return new Date(at).toLocaleDateString();
}

function count(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? "" : "s"} ago`;
}
