/** The web client of Inkrelay: draw in a room, and see what others draw. */
export { Board, type Change, type Picture, SELF, Stroke } from "./board.ts";
export {
  Client,
  type ClientEvents,
  type ClientOptions,
  type State,
  type Timing,
  type Transport,
} from "./client.ts";
export * from "./draw.ts";
export type { Position } from "./position.ts";
