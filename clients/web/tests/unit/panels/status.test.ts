/** Status words never say more than is known. */
import { describe, expect, test } from "vitest";
import {
  announcement,
  GRACE_MS,
  offlineNotice,
  refusalOf,
  refusedDrawWords,
  SETTLE_MS,
  savingOf,
  statusOf,
} from "../../../app/panels/status.ts";
import type { State } from "../../../src/index.ts";

const LIVE: State = { kind: "live", transport: "websocket" };
const OFFLINE: State = { kind: "offline", why: "the network is away", retryAt: 10_000, draining: false };

describe("saved", () => {
  test("is said only of nothing unsent, and only after a moment", () => {
    expect(savingOf(0, 1_000, 1_000 + SETTLE_MS - 1)).toBe("unsure");
    expect(savingOf(0, 1_000, 1_000 + SETTLE_MS)).toBe("saved");
    expect(savingOf(1, 1_000, 1_000 + GRACE_MS - 1)).toBe("unsure");
    expect(savingOf(1, 1_000, 1_000 + GRACE_MS)).toBe("saving");
    expect(savingOf(1, 0, Number.MAX_SAFE_INTEGER)).toBe("saving");
  });

  test("never shows unless the connection is live", () => {
    const states: State[] = [
      { kind: "connecting" },
      { kind: "joining", have: 1, head: 2 },
      OFFLINE,
      { kind: "refused", code: "room_full", message: "" },
    ];
    for (const state of states) expect(statusOf(state, "saved", 0, false).word).not.toContain("Saved");
    expect(statusOf(LIVE, "saved", 0, false)).toEqual({ tone: "good", word: "Saved" });
    expect(statusOf(LIVE, "saving", 3, false).word).toBe("Saving…");
    expect(statusOf(LIVE, "unsure", 3, false).word).toBe("Live");
    // What was drawn last on a full board is not saved, though nothing waits.
    expect(statusOf(LIVE, "saved", 0, true)).toEqual({ tone: "bad", word: "Board full" });
  });
});

describe("offline", () => {
  test("tells how much is unsent and when it goes on", () => {
    expect(statusOf(OFFLINE, "saving", 12, false).word).toBe("Offline · 12 unsent");
    expect(statusOf(OFFLINE, "saved", 0, false).word).toBe("Offline");
    const unreachable: State = { ...OFFLINE, why: "the server cannot be reached" };
    expect(offlineNotice(unreachable, 0, true, 2_000)?.text).toBe(
      "You can keep drawing. Trying again in 8 s.",
    );
    const notice = offlineNotice(OFFLINE, 1, true, 2_000);
    expect(notice?.text).toBe("The network is away. 1 change is kept on this device. Trying again in 8 s.");
    expect(offlineNotice(OFFLINE, 2, true, 9_900)?.text).toBe(
      "The network is away. 2 changes are kept on this device. Trying again…",
    );
  });

  test("warns where ink does not survive the page", () => {
    expect(offlineNotice(OFFLINE, 2, false, 9_900)?.text).toContain("lost if this page closes");
    expect(offlineNotice(OFFLINE, 0, false, 9_900)?.text).toContain("leave this page open");
  });

  test("is told only when offline", () => {
    expect(offlineNotice(LIVE, 0, true, 0)).toBeNull();
    const draining = offlineNotice({ ...OFFLINE, draining: true }, 0, true, 0);
    expect(draining?.title).toBe("The server is restarting");
    expect(draining?.text).not.toContain("network");
  });
});

describe("refused", () => {
  test("has plain words and a way out for every code, known or not", () => {
    for (const code of ["invalid_token", "4401", "room_full", "room_crowded", "1008", "4410", "teapot"]) {
      const refusal = refusalOf(code, "i am a teapot", 0, true);
      expect(refusal.title).not.toBe("");
      expect(refusal.text).not.toContain(code === "teapot" ? "undefined" : code);
      expect(refusal.remedies.length).toBeGreaterThan(0);
    }
    expect(refusalOf("teapot", "i am a teapot", 0, true).text).toBe("I am a teapot.");
    expect(refusalOf("teapot", " ", 0, true).text).toBe("Teapot.");
  });

  test("says that unsent ink stays only where it does", () => {
    expect(refusalOf("room_full", "", 2, true).text).toContain(
      "2 changes that could not be sent stay on this device.",
    );
    expect(refusalOf("room_full", "", 1, true).text).toContain("1 change that could not be sent stays");
    expect(refusalOf("room_full", "", 2, false).text).not.toContain("stay");
    expect(refusalOf("room_full", "", 0, true).text).not.toContain("stay");
  });

  test("draws are counted", () => {
    expect(refusedDrawWords("too_large", "", 1)).toBe(
      "Your last change was not kept: too large for one stroke.",
    );
    expect(refusedDrawWords("too_large", "", 4)).toBe("4 changes were not kept: too large for one stroke.");
    expect(refusedDrawWords("invalid_draw", "stroke breaks a rule", 1)).toContain("Stroke breaks a rule.");
  });
});

test("screen readers hear of changes, not of numbers", () => {
  expect(announcement(OFFLINE, { ...OFFLINE, retryAt: 20_000 }, 5)).toBeNull();
  expect(announcement(LIVE, OFFLINE, 5)).toBe("Offline. 5 changes unsent.");
  expect(announcement(OFFLINE, LIVE, 0)).toBe("Connected again.");
  expect(announcement({ kind: "connecting" }, { kind: "joining", have: 1, head: 9 }, 0)).toBeNull();
});
