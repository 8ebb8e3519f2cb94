/** The charts: which tracks stand together, under which names. */
import { bytes, count, milliseconds, percent } from "./format.ts";
import type { History } from "./history.ts";
import { SHOWN_ONE_BY_ONE } from "./history.ts";

export interface ChartOf {
  readonly title: string;
  readonly lines: readonly { readonly track: string; readonly name: string }[];
  /** The least that the upper end of the scale is. */
  readonly least: number;
  /** The most that it is, where there is such a thing. */
  readonly most?: number;
  readonly format: (value: number) => string;
  /** Between two marks of the scale, where those of decimal numbers do not suit. */
  readonly steps?: number[];
}

const BINARY_STEPS = Array.from({ length: 32 }, (_, power) => 2 ** (power + 10));

/** The charts for what a history has: cores and workers are as many as there are. */
export function chartsOf(history: History): readonly ChartOf[] {
  const perSecond = (value: number) => `${count(value)}/s`;
  return [
    {
      title: "Processor",
      lines: [{ track: "relayCpu", name: "relay" }, ...several(history, "core", "core")],
      least: 1,
      most: 1,
      format: percent,
    },
    {
      title: "Memory",
      lines: [
        { track: "residentBytes", name: "relay" },
        { track: "tailBytes", name: "recent records" },
      ],
      least: 1 << 20,
      format: bytes,
      steps: BINARY_STEPS,
    },
    {
      title: "Sessions",
      lines: [
        { track: "websocket", name: "WebSocket" },
        { track: "longPoll", name: "long poll" },
        { track: "events", name: "events" },
      ],
      least: 4,
      format: count,
    },
    {
      title: "Draws in, records out",
      lines: [
        { track: "draws", name: "draws" },
        { track: "recordsSent", name: "records" },
      ],
      least: 10,
      format: perSecond,
    },
    {
      title: "Latency",
      lines: [
        { track: "append50", name: "append" },
        { track: "append99", name: "its 99 %" },
        { track: "delivery50", name: "delivery" },
        { track: "delivery99", name: "its 99 %" },
      ],
      least: 1,
      format: milliseconds,
    },
    {
      title: "Refused",
      lines: [
        { track: "refused", name: "refused" },
        { track: "slowReaders", name: "slow readers" },
        { track: "resets", name: "resets" },
      ],
      least: 1,
      format: perSecond,
    },
    {
      title: "Store",
      lines: [{ track: "roundtrip", name: "round trip" }],
      least: 1,
      format: milliseconds,
    },
    {
      title: "Workers",
      lines: several(history, "worker", "worker"),
      least: 1,
      most: 1,
      format: percent,
    },
  ];
}

function several(history: History, track: string, name: string): { track: string; name: string }[] {
  const each = Array.from({ length: SHOWN_ONE_BY_ONE }, (_, index) => ({
    track: `${track}${index}`,
    name: `${name} ${index}`,
  })).filter((line) => history.has(line.track));
  const both = [
    { track: `${track}Mean`, name: `${name}s, mean` },
    { track: `${track}Max`, name: "busiest" },
  ].filter((line) => history.has(line.track));
  return [...each, ...both];
}
