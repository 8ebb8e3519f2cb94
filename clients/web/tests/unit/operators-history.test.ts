/** The operators' history: rates, quantiles, and that a week holds no more than ten minutes. */
import { expect, test } from "vitest";
import { chartsOf } from "../../operators/charts.ts";
import { bytes, count, duration, milliseconds, percent } from "../../operators/format.ts";
import { History, KEPT, quantile } from "../../operators/history.ts";
import { parseState, type State } from "../../operators/state.ts";

/** A state after so many seconds, in which everything grew evenly. */
function stateAt(second: number, cores = 2): State {
  return parseState({
    at_ms: 1_700_000_000_000 + second * 1000,
    sessions: { websocket: 3, long_poll: 1, events: 0 },
    connections: 5,
    draws: 10 * second,
    records_sent: 70 * second,
    refused: { rate_limited: 2 * second, "4408": second },
    append: [
      [0.001, 9 * second],
      [0.01, second],
      [null, 0],
    ],
    delivery: [],
    store: { is_up: true, roundtrip_ms: 0.5, reconnects: 0 },
    workers: [0.25, 0.5],
    process: {
      cpu_s: second,
      resident_bytes: 1 << 24,
      cores: Array.from({ length: cores }, (_, core) => [25 * second * (core + 1), 100 * second]),
    },
  });
}

test("two states tell rates, quantiles and shares", () => {
  const history = new History();
  history.push(stateAt(1), 0);
  expect(history.latest("draws")).toBeNull();
  history.push(stateAt(2), 0);
  expect(history.latest("draws")).toBe(10);
  expect(history.latest("recordsSent")).toBe(70);
  expect(history.latest("refused")).toBe(3);
  expect(history.latest("core0")).toBe(0.25);
  expect(history.latest("core1")).toBe(0.5);
  expect(history.latest("relayCpu")).toBe(0.5);
  expect(history.latest("append50")).toBeCloseTo(0.56, 1);
  expect(history.latest("append99")).toBeCloseTo(9.1, 1);
  expect(history.latest("delivery99")).toBeNull();
  expect(history.latest("websocket")).toBe(3);
});

test("a restart and a relay that is silent leave a gap, and no rate below zero", () => {
  const history = new History();
  history.push(stateAt(100), 0);
  history.push(stateAt(101), 0);
  history.push(stateAt(1), 0);
  expect(history.latest("draws")).toBeNull();
  history.push(null, 1_700_000_002_000);
  expect(history.latest("websocket")).toBeNull();
  history.push(stateAt(3), 0);
  expect(history.latest("draws")).toBeNull();
  expect(history.track("draws")).toEqual([null, 10, null, null, null]);
  expect(history.times.length).toBe(5);
});

/** In seconds. */
const DAY = 86_400;

test("a day holds no more than ten minutes", () => {
  const history = new History();
  for (let second = 0; second < KEPT; second++) history.push(stateAt(second), 0);
  const { size } = history;
  // Cores and workers come and go meanwhile, as they do when the relay starts again on another machine.
  for (let second = KEPT; second < DAY; second++) {
    history.push(stateAt(second, second % 50 === 0 ? 40 : 2), 0);
  }
  for (let second = DAY; second < DAY + 2 * KEPT; second++) history.push(stateAt(second), 0);
  expect(history.size).toBe(size);
  expect(history.times.length).toBe(KEPT);
  for (const { lines } of chartsOf(history)) {
    expect(lines.length).toBeLessThanOrEqual(9);
    for (const { track } of lines) expect(history.track(track).length).toBe(KEPT);
  }
});

test("of many cores there are the mean and the busiest", () => {
  const history = new History();
  history.push(stateAt(1, 64), 0);
  history.push(stateAt(2, 64), 0);
  expect(history.latest("core0")).toBeNull();
  expect(history.latest("coreMax")).toBe(16);
  expect(chartsOf(history)[0]?.lines.map((line) => line.name)).toEqual(["relay", "cores, mean", "busiest"]);
});

test("quantiles stay between the bounds, and above the last nothing is made up", () => {
  expect(quantile([], 0.5)).toBeNull();
  expect(
    quantile(
      [
        [1, 0],
        [2, 4],
        [Number.POSITIVE_INFINITY, 0],
      ],
      0.5,
    ),
  ).toBe(1.5);
  expect(
    quantile(
      [
        [1, 0],
        [Number.POSITIVE_INFINITY, 3],
      ],
      0.99,
    ),
  ).toBe(1);
});

test("whatever comes as JSON is a state", () => {
  for (const json of [
    null,
    7,
    "x",
    [],
    {},
    { process: 3, sessions: [], refused: { a: "b" }, append: [1, [2]], workers: {} },
  ]) {
    const history = new History();
    history.push(parseState(json), 1);
    history.push(parseState(json), 2);
    expect(history.times.length).toBe(2);
  }
});

test("numbers are told as people read them", () => {
  expect([0, 1234, 12_345, 4.56e6].map(count)).toEqual(["0", "1,234", "12.3 k", "4.6 M"]);
  expect([512, 1536, 200 * 1024 * 1024].map(bytes)).toEqual(["512 B", "1.5 KiB", "200 MiB"]);
  expect([0, 0.014, 0.5, 1].map(percent)).toEqual(["0 %", "1.4 %", "50 %", "100 %"]);
  expect([0.5, 12.34, 250, 2500].map(milliseconds)).toEqual(["0.50 ms", "12.3 ms", "250 ms", "2.5 s"]);
  expect([0, 59, 3_661, 200_000].map(duration)).toEqual(["0 s", "59 s", "1 h 1 min", "2 d 7 h"]);
});
