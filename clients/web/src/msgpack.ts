/**
 * Reading MessagePack where it lies. Source: <https://github.com/msgpack/msgpack/blob/master/spec.md>.
 *
 * Not by the package that writes it here: a reader that makes JavaScript values cannot tell `1.0` from `1`, replaces what
 * is no UTF-8, and throws at a map key `__proto__`, with which one draw of a later version could cut off every reader.
 */
import { MESSAGE_DEPTH } from "./limits.ts";

/** Bytes or a text that are not what they should be, with the reason in plain words. */
export class Malformed extends Error {
  override readonly name = "Malformed";
}

const TRUNCATED = "the bytes end in the middle of a value";

// Without `ignoreBOM` a name's first character could vanish.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * A place in bytes that somebody sent. Made only of bytes that are one whole value and nothing more, so that what is wrong
 * with the bytes is told before what is wrong with their meaning, and no length in them promises more than there is.
 */
export class Reader {
  /** Index of the next byte. */
  at = 0;
  private readonly bytes: Uint8Array;
  private readonly view: DataView;

  /** @throws {@link Malformed} when the bytes are no value, are more than one, or nest deeper than a message may. */
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.skip();
    if (this.at !== bytes.length) throw new Malformed("bytes follow after the end");
    this.at = 0;
  }

  /** How many elements follow. @throws {@link Malformed} when no array stands there. */
  array(): number {
    const head = this.byte();
    if (head >= 0x90 && head <= 0x9f) return head & 0x0f;
    if (head === 0xdc) return this.length(2);
    if (head === 0xdd) return this.length(4);
    throw new Malformed("an array was expected");
  }

  /** An integer; beyond 2^53 the nearest double. @throws {@link Malformed} when none stands there; a float is none. */
  int(): number {
    const head = this.byte();
    if (head <= 0x7f) return head;
    if (head >= 0xe0) return head - 0x100;
    const at = this.at;
    switch (head) {
      case 0xcc:
        this.step(1);
        return this.view.getUint8(at);
      case 0xcd:
        this.step(2);
        return this.view.getUint16(at);
      case 0xce:
        this.step(4);
        return this.view.getUint32(at);
      case 0xcf:
        this.step(8);
        return this.view.getUint32(at) * 2 ** 32 + this.view.getUint32(at + 4);
      case 0xd0:
        this.step(1);
        return this.view.getInt8(at);
      case 0xd1:
        this.step(2);
        return this.view.getInt16(at);
      case 0xd2:
        this.step(4);
        return this.view.getInt32(at);
      case 0xd3:
        this.step(8);
        return this.view.getInt32(at) * 2 ** 32 + this.view.getUint32(at + 4);
      default:
        throw new Malformed("an integer was expected");
    }
  }

  /** An integer within a range. @throws {@link Malformed} with that reason. */
  within(min: number, max: number, reason: string): number {
    const value = this.int();
    if (value < min || value > max) throw new Malformed(reason);
    return value;
  }

  /** @throws {@link Malformed} when neither true nor false stands there. */
  bool(): boolean {
    const head = this.byte();
    if (head !== 0xc2 && head !== 0xc3) throw new Malformed("true or false was expected");
    return head === 0xc3;
  }

  /** @throws {@link Malformed} when no string of valid UTF-8 stands there, or a longer one. */
  str(maxBytes = Number.MAX_SAFE_INTEGER): string {
    const head = this.byte();
    let length: number;
    if (head >= 0xa0 && head <= 0xbf) length = head & 0x1f;
    else if (head >= 0xd9 && head <= 0xdb) length = this.length(1 << (head - 0xd9));
    else throw new Malformed("a string was expected");
    if (length > maxBytes) throw new Malformed(`a string is longer than ${maxBytes} bytes`);
    return this.text(length);
  }

  /** A copy of the binary. @throws {@link Malformed} when none stands there. */
  bin(): Uint8Array {
    const head = this.byte();
    if (head < 0xc4 || head > 0xc6) throw new Malformed("binary was expected");
    const length = this.length(1 << (head - 0xc4));
    const from = this.at;
    this.step(length);
    return this.bytes.slice(from, this.at);
  }

  /** Steps over nil, and says whether it stood there. */
  nil(): boolean {
    const isNil = this.bytes[this.at] === 0xc0;
    if (isNil) this.at += 1;
    return isNil;
  }

  /** Steps over one whole value. @throws {@link Malformed} when the bytes end too early or it nests deeper than that. */
  skip(depth = MESSAGE_DEPTH): void {
    this.walk(depth, false);
  }

  /** Steps over that many values. */
  skipRest(values: number): void {
    for (let left = values; left > 0; left -= 1) this.skip();
  }

  /**
   * Steps over one whole value that can be told in JSON: no extension types, no NaN, keys that are strings of UTF-8.
   * @throws {@link Malformed} when it cannot, or nests deeper than that.
   */
  skipTellable(depth: number): void {
    this.walk(depth, true);
  }

  private walk(depth: number, tellable: boolean): void {
    const head = this.byte();
    if (head <= 0x7f || head >= 0xe0) return;
    if (head <= 0x8f) this.walkMap(head & 0x0f, depth, tellable);
    else if (head <= 0x9f) this.walkArray(head & 0x0f, depth, tellable);
    else if (head <= 0xbf) this.walkText(head & 0x1f, tellable);
    else this.walkLong(head, depth, tellable);
  }

  /** The forms whose head has no room for a value or a length. */
  private walkLong(head: number, depth: number, tellable: boolean): void {
    switch (head) {
      case 0xc0:
      case 0xc2:
      case 0xc3:
        break;
      case 0xc1:
        throw new Malformed("0xc1 begins no MessagePack value");
      case 0xc4:
      case 0xc5:
      case 0xc6:
        this.step(this.length(1 << (head - 0xc4)));
        break;
      case 0xca:
        this.walkFloat(4, tellable);
        break;
      case 0xcb:
        this.walkFloat(8, tellable);
        break;
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        this.step(1 << (head - 0xcc));
        break;
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
        this.step(1 << (head - 0xd0));
        break;
      case 0xd9:
      case 0xda:
      case 0xdb:
        this.walkText(this.length(1 << (head - 0xd9)), tellable);
        break;
      case 0xdc:
      case 0xdd:
        this.walkArray(this.length(head === 0xdc ? 2 : 4), depth, tellable);
        break;
      case 0xde:
      case 0xdf:
        this.walkMap(this.length(head === 0xde ? 2 : 4), depth, tellable);
        break;
      default:
        // The eight forms of extension types: three with a length, five of 1, 2, 4, 8 and 16 bytes; and the type's byte.
        if (tellable) throw new Malformed("extension types are not relayed");
        this.step(1 + (head <= 0xc9 ? this.length(1 << (head - 0xc7)) : 1 << (head - 0xd4)));
    }
  }

  private walkText(length: number, tellable: boolean): void {
    if (tellable) this.text(length);
    else this.step(length);
  }

  private walkFloat(size: 4 | 8, tellable: boolean): void {
    const at = this.at;
    this.step(size);
    if (tellable && !Number.isFinite(size === 4 ? this.view.getFloat32(at) : this.view.getFloat64(at))) {
      throw new Malformed("NaN and infinities are not relayed");
    }
  }

  private walkArray(elements: number, depth: number, tellable: boolean): void {
    this.enter(elements, depth);
    for (let left = elements; left > 0; left -= 1) {
      // Points are mostly integers of one byte.
      const head = this.bytes[this.at];
      if (head !== undefined && (head <= 0x7f || head >= 0xe0)) this.at += 1;
      else this.walk(depth - 1, tellable);
    }
  }

  private walkMap(pairs: number, depth: number, tellable: boolean): void {
    this.enter(2 * pairs, depth);
    for (let left = pairs; left > 0; left -= 1) {
      if (tellable) this.str();
      else this.walk(depth - 1, false);
      this.walk(depth - 1, tellable);
    }
  }

  /** A value takes at least one byte, so a length that promises more of them than there are bytes is a lie. */
  private enter(values: number, depth: number): void {
    if (depth === 0) throw new Malformed("arrays and maps are nested too deep");
    if (values > this.bytes.length - this.at) throw new Malformed(TRUNCATED);
  }

  private byte(): number {
    const byte = this.bytes[this.at];
    if (byte === undefined) throw new Malformed(TRUNCATED);
    this.at += 1;
    return byte;
  }

  private length(size: number): number {
    const at = this.at;
    this.step(size);
    return size === 1
      ? this.view.getUint8(at)
      : size === 2
        ? this.view.getUint16(at)
        : this.view.getUint32(at);
  }

  private step(bytes: number): void {
    if (bytes > this.bytes.length - this.at) throw new Malformed(TRUNCATED);
    this.at += bytes;
  }

  private text(length: number): string {
    const from = this.at;
    this.step(length);
    try {
      return utf8.decode(this.bytes.subarray(from, this.at));
    } catch {
      throw new Malformed("a string is not valid UTF-8");
    }
  }
}

/**
 * The fields of one array, required and optional, with whatever a later version put behind them.
 */
export class Fields {
  private left: number;
  private readonly reader: Reader;

  constructor(reader: Reader) {
    this.reader = reader;
    this.left = reader.array();
  }

  /** The reader at the next field. @throws {@link Malformed} when there is none. */
  required(): Reader {
    if (this.left === 0) throw new Malformed("an array lacks required fields");
    this.left -= 1;
    return this.reader;
  }

  /** The reader at the next field; `null` where nothing or nil stands. */
  optional(): Reader | null {
    if (this.left === 0) return null;
    this.left -= 1;
    return this.reader.nil() ? null : this.reader;
  }

  /** Steps over what a later version put behind. */
  close(): void {
    this.reader.skipRest(this.left);
    this.left = 0;
  }
}
