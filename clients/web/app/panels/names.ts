/** Friendly names, for people who have not given theirs and for boards whose own name is noise. */
import { FRONT_ROOM, isRandomName } from "./room.ts";

const QUALITIES = [
  "Amber", "Azure", "Bold", "Brave", "Bright", "Calm", "Clear", "Coral",
  "Cosy", "Dapper", "Early", "Fair", "Gentle", "Golden", "Happy", "Hazel",
  "Ivory", "Jolly", "Keen", "Kind", "Light", "Lively", "Lucky", "Merry",
  "Mild", "Nimble", "Quiet", "Rosy", "Silver", "Sunny", "Swift", "Warm",
] as const; // biome-ignore format: a table

const ANIMALS = [
  "Badger", "Bee", "Beaver", "Crane", "Curlew", "Deer", "Dolphin", "Falcon",
  "Finch", "Fox", "Gecko", "Hare", "Heron", "Ibis", "Koala", "Lark",
  "Lynx", "Marten", "Moth", "Newt", "Otter", "Owl", "Panda", "Puffin",
  "Raven", "Robin", "Seal", "Stork", "Swan", "Tern", "Wren", "Yak",
] as const; // biome-ignore format: a table

const PLACES = [
  "Bay", "Bridge", "Brook", "Canyon", "Cape", "Cliff", "Cove", "Creek",
  "Delta", "Dune", "Fjord", "Forest", "Garden", "Glade", "Grove", "Harbour",
  "Hill", "Island", "Lagoon", "Lake", "Meadow", "Mill", "Moor", "Orchard",
  "Peak", "Pond", "Ridge", "River", "Shore", "Spring", "Valley", "Wood",
] as const; // biome-ignore format: a table

function pick(words: readonly string[], number: number): string {
  return words[number % words.length] ?? "";
}

/** A name for somebody new; `random` gives numbers from 0 up to 1. */
export function friendlyName(random: () => number): string {
  const at = (words: readonly string[]) => pick(words, Math.floor(random() * words.length));
  return `${at(QUALITIES)} ${at(ANIMALS)}`;
}

/** What people call a board. Random names become two words, the same for everyone, since nobody reads 22 characters. */
export function boardTitle(room: string): string {
  if (room === FRONT_ROOM) return "Front board";
  if (!isRandomName(room)) return room;
  const hash = hashOf(room);
  return `${pick(QUALITIES, hash & 31)} ${pick(PLACES, (hash >>> 5) & 31)}`;
}

/** What would make a name unreadable, or turn the text around it: control characters and those that override its direction. */
const UNPRINTABLE = /[\p{Cc}\u{202a}-\u{202e}\u{2066}-\u{2069}]/gu;

/** A person's name as it may be shown: what others send can be anything. Empty when nothing is left. */
export function cleanName(name: string): string {
  return name.replace(UNPRINTABLE, "").trim();
}

/** The letters that stand in for somebody where a name does not fit. */
export function initialsOf(name: string): string {
  const words = name.trim().split(/\s+/u);
  const first = (word: string | undefined) => (word === undefined ? "" : ([...word][0] ?? ""));
  const letters = words.length > 1 ? first(words[0]) + first(words[words.length - 1]) : first(words[0]);
  return letters.toLocaleUpperCase();
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
