/** The web client of Inkrelay: draw in a room, and see what others draw. */
export { Board } from "./board.ts";
export { Client } from "./client.ts";
export * from "./draw.ts";
export { decodeSnapshot, type Snapshot } from "./frame.ts";
export type { Moderated, Moderation } from "./moderation.ts";
export type { ClientEvents, ClientOptions, State, Timing, Transport } from "./options.ts";
export type { Position } from "./position.ts";
export { valuesPerPoint } from "./record.ts";
export { type Change, type Picture, SELF, type Stroke } from "./stroke.ts";
export type { LogPage } from "./timeline.ts";
