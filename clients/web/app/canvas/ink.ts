/**
 * Ink: a stroke on its way from the pen to the wire. Points become whole sixteenths of a board pixel, then
 * differences; since the differences are taken between whole numbers, their sum is exact however long the stroke is.
 *
 * Which channels: pressure where a pen measures it, tilt where it measures that. Never time: it would cost a byte per
 * point, and a time-lapse follows the times of the records.
 */
import { Channel } from "../../src/index.ts";

/** Where the pen is, in board pixels. */
export interface PenPoint {
  readonly x: number;
  readonly y: number;
  /** 0 to 1. */
  readonly pressure: number;
  /** Degrees, −90 to 90. */
  readonly tiltX: number;
  readonly tiltY: number;
}

/** The largest coordinate, in sixteenths. */
const COORDINATE_MAX = 2 ** 30;
/** Where a pen gives no pressure. */
const PRESSURE_UNKNOWN = 0.5;

export function quantized(value: number): number {
  const whole = Math.round(value * 16);
  // Adding 0 turns −0 into 0.
  return Number.isFinite(whole) ? Math.min(COORDINATE_MAX, Math.max(-COORDINATE_MAX, whole)) + 0 : 0;
}

/** What a device measures, as seen from a stroke's first point. */
export function channelsOf(device: "mouse" | "pen" | "touch", first: PenPoint): number {
  if (device !== "pen") {
    return 0;
  }
  return Channel.PRESSURE | (first.tiltX !== 0 || first.tiltY !== 0 ? Channel.TILT : 0);
}

export class Ink {
  readonly channels: number;
  #pending: number[] = [];
  #points = 0;
  #x = 0;
  #y = 0;
  #pressure = PRESSURE_UNKNOWN;

  constructor(channels: number) {
    this.channels = channels;
  }

  /** Points so far, those taken included. */
  get points(): number {
    return this.#points;
  }

  /** One more point; one at the same place as the last is dropped. */
  add(point: PenPoint): void {
    const x = quantized(point.x);
    const y = quantized(point.y);
    // Some browsers report no pressure while the pen moves: the last one that was measured stands.
    this.#pressure = point.pressure > 0 && point.pressure <= 1 ? point.pressure : this.#pressure;
    if (this.#points > 0 && x === this.#x && y === this.#y) {
      return;
    }
    this.#pending.push(x - this.#x, y - this.#y);
    if (this.channels & Channel.PRESSURE) {
      this.#pending.push(Math.round(this.#pressure * 255));
    }
    if (this.channels & Channel.TILT) {
      this.#pending.push(degrees(point.tiltX), degrees(point.tiltY));
    }
    this.#x = x;
    this.#y = y;
    this.#points++;
  }

  /** What came since it was last asked, as the wire wants it: flat, the very first point absolute. */
  take(): number[] {
    const taken = this.#pending;
    this.#pending = [];
    return taken;
  }
}

function degrees(value: number): number {
  return Number.isFinite(value) ? Math.min(90, Math.max(-90, Math.round(value))) + 0 : 0;
}
