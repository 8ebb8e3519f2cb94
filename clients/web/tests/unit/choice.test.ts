/** When sockets are given up for polling, and when they are tried again. */
import { expect, it } from "vitest";
import { Choice } from "../../src/choice.ts";

const TIMING = { young: 5_000, youngDeaths: 2, socketAgain: 30_000 };

it("two young deaths turn to polling, and a long life turns back", () => {
  const choice = new Choice("auto", TIMING);
  choice.onSocketEnded(0, false, 0);
  choice.onSocketEnded(0, true, 0);
  expect(choice.usesSockets).toBe(true);
  choice.onSocketEnded(1_000, true, 0);
  expect(choice.usesSockets).toBe(false);
  expect(choice.socketDue).toBe(30_000);
  for (let round = 0; round < 10; round += 1) choice.onSocketEnded(0, true, 0);
  expect(choice.socketDue).toBe(30_000 * 16);
  choice.onSocketEnded(5_000, true, 0);
  expect(choice.usesSockets).toBe(true);
  choice.onSocketEnded(0, true, 0);
  expect(choice.usesSockets).toBe(true);
});

it.each([
  ["websocket", true],
  ["long-poll", false],
] as const)("a wish for %s is kept", (transport, sockets) => {
  const choice = new Choice(transport, TIMING);
  for (let round = 0; round < 5; round += 1) choice.onSocketEnded(0, true, 0);
  expect(choice.usesSockets).toBe(sockets);
  expect(choice.socketDue).toBeNull();
});
