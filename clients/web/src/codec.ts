/** TEMPORARY until branch codec lands. */
import { encode } from "@msgpack/msgpack";
import type { Draw } from "./draw.ts";

export function encodeDraw(draw: Draw): Uint8Array {
  switch (draw.kind) {
    case "begin": {
      const { style } = draw;
      const shape = [0, draw.stroke, [style.tool, style.rgba, style.width], draw.channels, draw.points];
      return encode(draw.end ? [...shape, true] : shape);
    }
    case "extend":
      return encode(draw.end ? [1, draw.stroke, draw.points, true] : [1, draw.stroke, draw.points]);
    case "erase":
      return encode([2, draw.strokes]);
    case "revoke":
      return encode([3, draw.draws]);
    case "clear":
      return encode([4]);
    case "opaque":
      return encode([5, draw.data]);
    case "unknown":
      return encode([draw.number]);
  }
}
