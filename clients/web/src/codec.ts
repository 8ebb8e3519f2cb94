/** The codec: everything that turns the wire's bytes and texts into values and back, in one place to import from. */
export {
  type Posted,
  type Problem,
  parseModerated,
  parsePosted,
  parseProblem,
  parseRoomInfo,
  parseSession,
} from "./body.ts";
export {
  decodePoll,
  decodeServerFrame,
  decodeSnapshot,
  encodeBatch,
  encodeDraws,
  encodeHello,
  encodePointer,
  encodeProfile,
  encodeToken,
  FRAME_BYTES,
  type Hello,
  type Polled,
  type ServerFrame,
  type Snapshot,
  type Welcome,
} from "./frame.ts";
export { Malformed } from "./msgpack.ts";
export { decodeDraw, decodeRecord, encodeDraw } from "./record.ts";
