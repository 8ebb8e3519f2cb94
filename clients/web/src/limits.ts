/** Every bound of the wire, named with its unit. What an operator may change comes with the welcome instead. */

/** Levels of arrays and maps in one draw, the draw itself being the first. */
export const DRAW_DEPTH = 16;
/** Levels of arrays and maps in one message; a frame holds records, which hold draws. */
export const MESSAGE_DEPTH = 32;
/** Characters (Unicode scalar values) in a participant's name. */
export const PROFILE_NAME_CHARS = 64;
/** Bytes of a ticket or token. */
export const CREDENTIAL_BYTES = 8 * 1024;
/** The largest client id. */
export const CLIENT_MAX = 2 ** 48 - 1;
/** The furthest coordinate from the origin, in sixteenths of a CSS pixel. */
export const COORDINATE_MAX = 2 ** 30;
/** The widest pen, in sixteenths of a CSS pixel. */
export const WIDTH_MAX = 65_535;
/** The largest colour. */
export const RGBA_MAX = 0xffff_ffff;
/** Seconds that a long poll waits at most: proxies cut at 60. */
export const POLL_WAIT_MAX_S = 55;
/** Records that one poll answers at most. */
export const POLL_RECORDS_MAX = 4096;
