/** Invitations: where their tokens are, and where they are not. */
import { expect, test } from "vitest";
import { isInvitation, keptToken, takeToken } from "../../../app/panels/invitation.ts";
import { Remembered } from "../../../app/panels/remembered.ts";

function tab(): Remembered {
  const kept = new Map<string, string>();
  return new Remembered({
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, value),
  });
}

function take(hash: string, remembered: Remembered, room = "a"): [string | null, string | null] {
  let shown: string | null = null;
  const address = { pathname: `/b/${room}`, search: "", hash };
  const token = takeToken(room, address, remembered, (replaced) => {
    shown = replaced;
  });
  return [token, shown];
}

test("a token leaves the address bar, and the tab keeps it for its room", () => {
  const remembered = tab();
  expect(take("#token=a.b-c_d.e", remembered)).toEqual(["a.b-c_d.e", "/b/a"]);
  expect(take("", remembered)).toEqual(["a.b-c_d.e", null]);
  expect(take("", remembered, "b")).toEqual([null, null]);
  expect(keptToken("b", remembered)).toBeNull();
  expect(take("#token=new&view=1", remembered), "a newer one wins").toEqual(["new", "/b/a#view=1"]);
  expect(take("#other", remembered)).toEqual(["new", null]);
  expect(["#token=x", "#view=1&token=x", "#token=", "#tokens=x", ""].map(isInvitation)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});

test("where nothing can be kept it stays, so that a reload has it", () => {
  expect(take("#token=x", new Remembered(null))).toEqual(["x", null]);
});
