/** Rooms in the address bar, their titles, and the list of recent ones. */
import { describe, expect, test } from "vitest";
import { boardTitle, friendlyName, initialsOf } from "../../../app/panels/names.ts";
import { ago, RECENT_MAX, readVisits, withoutVisit, withVisit } from "../../../app/panels/recent-boards.ts";
import { isRandomName, isRoomName, pathOf, randomRoom, routeOf } from "../../../app/panels/room.ts";

describe("an address", () => {
  test("leads to the front, to a board, or nowhere", () => {
    expect(routeOf("/")).toEqual({ kind: "front" });
    expect(routeOf("/b/team.retro_1-A")).toEqual({ kind: "board", room: "team.retro_1-A" });
    expect(routeOf("/b/garden/")).toEqual({ kind: "board", room: "garden" });
    expect(routeOf(`/b/${"x".repeat(64)}`).kind).toBe("board");
    for (const path of [
      "/b/",
      "/b/.hidden",
      `/b/${"x".repeat(65)}`,
      "/b/a/b",
      "/b/gr%C3%BCn",
      "/b/%",
      "/c/garden",
    ]) {
      expect(routeOf(path).kind, path).toBe("wrong");
    }
    expect(routeOf("/b/gr%C3%BCn")).toEqual({ kind: "wrong", name: "grün" });
  });

  test("of a new board is one that nobody guesses", () => {
    const names = new Set(Array.from({ length: 200 }, randomRoom));
    expect(names.size).toBe(200);
    for (const name of names) {
      expect(isRoomName(name) && isRandomName(name), name).toBe(true);
      expect(routeOf(pathOf(name))).toEqual({ kind: "board", room: name });
    }
  });
});

describe("names", () => {
  test("of boards are as chosen, and two words where nobody chose", () => {
    expect(boardTitle("lobby")).toBe("Front board");
    expect(boardTitle("team-retro")).toBe("team-retro");
    expect(boardTitle("Zk3v_Qm81LwR0tYbN-aJ4c")).toMatch(/^[A-Z][a-z]+ [A-Z][a-z]+$/);
    expect(boardTitle("Zk3v_Qm81LwR0tYbN-aJ4c")).toBe(boardTitle("Zk3v_Qm81LwR0tYbN-aJ4c"));
  });

  test("of people are friendly at either end of chance", () => {
    expect(friendlyName(() => 0)).toBe("Amber Badger");
    expect(friendlyName(() => 0.999_999)).toBe("Warm Yak");
  });

  test("are shortened by letters, not by halves of them", () => {
    expect(initialsOf("Mira Okafor")).toBe("MO");
    expect(initialsOf("  jonas ")).toBe("J");
    expect(initialsOf("Ana de la Cruz")).toBe("AC");
    expect(initialsOf("🦊 fox")).toBe("🦊F");
    expect(initialsOf("")).toBe("");
  });
});

describe("recent boards", () => {
  test("are newest first, each once, and bounded", () => {
    let visits = withVisit([], "a", 1);
    visits = withVisit(visits, "b", 2);
    visits = withVisit(visits, "a", 3);
    expect(visits).toEqual([
      { room: "a", at: 3 },
      { room: "b", at: 2 },
    ]);
    for (let i = 0; i < 2 * RECENT_MAX; i++) visits = withVisit(visits, `room-${i}`, i);
    expect(visits).toHaveLength(RECENT_MAX);
    expect(visits[0]?.room).toBe(`room-${2 * RECENT_MAX - 1}`);
    expect(withoutVisit(visits, "room-39")).toHaveLength(RECENT_MAX - 1);
  });

  test("are read from whatever was kept", () => {
    expect(readVisits(undefined)).toEqual([]);
    expect(readVisits("boards")).toEqual([]);
    const kept = [
      { room: "a", at: 1 },
      null,
      7,
      { room: "../b", at: 1 },
      { room: "c" },
      { room: "a", at: 9 },
    ];
    expect(readVisits(kept)).toEqual([{ room: "a", at: 1 }]);
    expect(readVisits(Array.from({ length: 500 }, (_, i) => ({ room: `r${i}`, at: i })))).toHaveLength(
      RECENT_MAX,
    );
  });

  test("say how long ago", () => {
    expect(ago(5_000, 4_000)).toBe("just now");
    expect(ago(0, 60_000)).toBe("1 minute ago");
    expect(ago(0, 7_200_000)).toBe("2 hours ago");
    expect(ago(0, 86_400_000 * 3)).toBe("3 days ago");
  });
});
