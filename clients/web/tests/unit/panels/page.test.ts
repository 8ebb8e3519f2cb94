/** What the page decides without a browser: following, pointers, colours, choices, keys, toasts and its state. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { AppState } from "../../../app/app-state.ts";
import { Choices, WIDTH_MAX } from "../../../app/panels/choices.ts";
import {
  contrast,
  fromHex,
  INKS,
  PEOPLE_COLOURS,
  personColour,
  textOn,
  toHex,
} from "../../../app/panels/colours.ts";
import { endOf, valuesPerPoint } from "../../../app/panels/follower.ts";
import { stepToward, viewToward } from "../../../app/panels/following.ts";
import { glide, STALE_MS, visibility } from "../../../app/panels/pointers.ts";
import { Remembered, type Shelf } from "../../../app/panels/remembered.ts";
import { isOnlyHere, qrPath } from "../../../app/panels/share.tsx";
import { commandOf } from "../../../app/panels/shortcuts.ts";
import { TOASTS_MAX, Toasts } from "../../../app/panels/toasts.ts";
import { FakeClient } from "../../browser/states/fake-client.ts";

function shelf(): Shelf & { readonly kept: Map<string, string> } {
  const kept = new Map<string, string>();
  return {
    kept,
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, value),
  };
}

const BROKEN: Shelf = {
  getItem: () => {
    throw new Error("forbidden");
  },
  setItem: () => {
    throw new Error("full");
  },
};

describe("following", () => {
  const extent = { width: 1000, height: 800 };
  const view = { x: 0, y: 0, zoom: 1 };

  test("keeps still while the pointer is comfortably in sight", () => {
    expect(viewToward(view, extent, { x: 200, y: -200 })).toEqual(view);
  });

  test("moves no further than needed, and centres what is far away", () => {
    const near = viewToward(view, extent, { x: 480, y: 0 });
    expect(near.x).toBeCloseTo(480 - 500 * 0.56);
    expect(near.y).toBe(0);
    expect(viewToward(view, extent, { x: 9_000, y: 0 }).x).toBe(9_000);
    expect(viewToward({ ...view, zoom: 4 }, extent, { x: 130, y: 0 }).x).toBeGreaterThan(0);
  });

  test("arrives, and then has nothing left to do", () => {
    let at = view;
    const goal = { x: 300, y: -120, zoom: 1 };
    for (let frame = 0; frame < 200; frame++) at = stepToward(at, goal, 16) ?? at;
    expect(Math.hypot(at.x - goal.x, at.y - goal.y)).toBeLessThan(1);
    expect(stepToward(at, goal, 16)).toBeNull();
  });

  test("knows where a stroke ends, whatever its points carry", () => {
    expect([0, 1, 2, 3, 4, 7].map(valuesPerPoint)).toEqual([2, 3, 3, 4, 4, 6]);
    const client = new FakeClient("room", { name: "", rgba: 0 });
    const style = { tool: 0, rgba: 0xff, width: 16 };
    client.begin(style, 1, [16, 32, 200, 160, 0, 90], true);
    const stroke = client.board.strokes()[0];
    expect(stroke && endOf(stroke)).toEqual({ x: 11, y: 2 });
  });
});

describe("pointers", () => {
  test("glide to where they were seen last", () => {
    let trace = { at: { x: 0, y: 0 }, goal: { x: 100, y: 0 }, seen: 0 };
    const first = glide(trace, 16).at.x;
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(100);
    for (let i = 0; i < 100; i++) trace = glide(trace, 16);
    expect(trace.at).toBe(trace.goal);
  });

  test("fade when nothing is heard of them", () => {
    expect(visibility(0, STALE_MS)).toBe(1);
    expect(visibility(0, STALE_MS + 300)).toBeCloseTo(0.5);
    expect(visibility(0, STALE_MS * 9)).toBe(0);
  });
});

describe("colours", () => {
  test("go to text and back", () => {
    for (const { rgba } of [...INKS, ...PEOPLE_COLOURS]) expect(fromHex(toHex(rgba))).toBe(rgba);
    expect(fromHex("red")).toBeNull();
    expect(toHex(0x000001ff)).toBe("#000001");
  });

  test("of people carry white text, and everyone has one", () => {
    for (const { name, rgba } of PEOPLE_COLOURS) {
      expect(textOn(rgba), name).toBe("#fff");
      expect(contrast(rgba, 0xffffffff), name).toBeGreaterThanOrEqual(4.5);
    }
    expect(textOn(0xffffffff)).toBe("#000");
    expect(personColour(3, 0)).toBe(PEOPLE_COLOURS[3]?.rgba);
    expect(personColour(3, 0x11223380)).toBe(0x112233ff);
  });
});

describe("choices", () => {
  test("are remembered", () => {
    const kept = shelf();
    const first = new Choices(new Remembered(kept), () => 0.3);
    first.setMode("highlighter");
    first.setColour(0x123456ff);
    first.setWidth(33);
    first.setTheme("dark");
    first.setProfile({ name: "  Mira  ", rgba: 0xff0000ff });
    first.visit("garden", 5);
    const second = new Choices(new Remembered(kept), () => 0.9);
    expect(second.mode.value).toBe("highlighter");
    expect(second.nib).toEqual({ rgba: 0x123456ff, width: 33 });
    expect(second.pen.value.rgba).toBe(INKS[0]?.rgba);
    expect(second.theme.value).toBe("dark");
    expect(second.profile.value).toEqual({ name: "Mira", rgba: 0xff0000ff });
    expect(second.visits.value).toEqual([{ room: "garden", at: 5 }]);
  });

  test("a friendly name stays the same at the next visit", () => {
    const kept = shelf();
    const { name } = new Choices(new Remembered(kept), () => 0.3).profile.value;
    expect(new Choices(new Remembered(kept), () => 0.8).profile.value.name).toBe(name);
  });

  test("work where nothing can be remembered, or nonsense was", () => {
    for (const remembered of [new Remembered(null), new Remembered(BROKEN)]) {
      const choices = new Choices(remembered, () => 0.5);
      choices.setWidth(1e9);
      choices.visit("garden", 1);
      expect(choices.pen.value.width).toBe(WIDTH_MAX);
      expect(choices.visits.value).toHaveLength(1);
    }
    const kept = shelf();
    for (const name of ["mode", "pen", "theme", "profile", "boards"])
      kept.kept.set(`inkrelay.${name}`, '{"rgba":-1}');
    kept.kept.set("inkrelay.highlighter", "{not json");
    const choices = new Choices(new Remembered(kept), () => 0.5);
    expect(choices.mode.value).toBe("pen");
    expect(choices.pen.value).toEqual({ rgba: INKS[0]?.rgba, width: 4 });
    expect(choices.profile.value.name).not.toBe("");
  });

  test("a colour brings the ink tool back", () => {
    const choices = new Choices(new Remembered(null), () => 0.5);
    choices.setMode("highlighter");
    choices.setMode("eraser");
    choices.setColour(0xff0000ff);
    expect(choices.mode.value).toBe("highlighter");
    expect(choices.highlighter.value.rgba).toBe(0xff0000ff);
  });

  test("widths step up and down, and end", () => {
    const choices = new Choices(new Remembered(null), () => 0.5);
    for (let i = 0; i < 40; i++) choices.stepWidth(1);
    expect(choices.nib.width).toBe(WIDTH_MAX);
    for (let i = 0; i < 40; i++) choices.stepWidth(-1);
    expect(choices.nib.width).toBe(1);
  });
});

describe("keys", () => {
  const key = (key: string, held: Partial<KeyboardEvent> = {}) =>
    commandOf({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...held });

  test("mean what the help sheet says", () => {
    expect(key("P")).toEqual({ do: "mode", mode: "pen" });
    expect(key("8")).toEqual({ do: "colour", index: 7 });
    expect(key("z", { metaKey: true })).toEqual({ do: "undo" });
    expect(key("Z", { ctrlKey: true, shiftKey: true })).toEqual({ do: "redo" });
    expect(key("?", { shiftKey: true })).toEqual({ do: "help" });
  });

  test("leave the browser's own alone", () => {
    for (const [name, held] of [
      ["p", { ctrlKey: true }],
      ["f", { metaKey: true }],
      ["0", { ctrlKey: true }],
      ["e", { altKey: true }],
      ["9", {}],
      ["Tab", {}],
    ] as const) {
      expect(key(name, held), name).toBeNull();
    }
  });
});

describe("sharing", () => {
  test("knows an address that others cannot open", () => {
    for (const host of ["localhost", "board.localhost", "127.0.0.1", "127.1.2.3", "[::1]"]) {
      expect(isOnlyHere(host), host).toBe(true);
    }
    for (const host of ["192.168.0.7", "board.example", "127.0.0.1.example", "localhost.example"]) {
      expect(isOnlyHere(host), host).toBe(false);
    }
  });

  test("draws the dark modules of a code", () => {
    expect(
      qrPath([
        [true, false],
        [false, true],
      ]),
    ).toBe("M0 0h1v1h-1zM1 1h1v1h-1z");
  });
});

describe("in time", () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 1_000_000 });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function page(): { state: AppState; client: FakeClient } {
    const choices = new Choices(new Remembered(null), () => 0.5);
    const client = new FakeClient("room", choices.profile.value);
    const state = new AppState("room", choices);
    state.attach(client);
    return { state, client };
  }

  test("toasts go after a while, are few, and take the place of their like", () => {
    const toasts = new Toasts();
    for (let i = 0; i < 9; i++) toasts.show({ key: `${i}`, text: "" });
    expect(toasts.shown.value.map(({ key }) => key)).toEqual(["6", "7", "8"]);
    expect(toasts.shown.value).toHaveLength(TOASTS_MAX);
    toasts.show({ key: "7", text: "again" });
    expect(toasts.shown.value.map(({ key }) => key)).toEqual(["6", "8", "7"]);
    toasts.hold("7");
    vi.advanceTimersByTime(60_000);
    expect(toasts.shown.value.map(({ key }) => key)).toEqual(["7"]);
    toasts.release("7");
    vi.advanceTimersByTime(60_000);
    expect(toasts.shown.value).toEqual([]);
  });

  test("saved comes late, and goes at once", () => {
    const { state, client } = page();
    vi.advanceTimersByTime(1_000);
    expect(state.saving.value).toBe("saved");
    client.setUnsent(3);
    expect(state.saving.value).toBe("unsure");
    vi.advanceTimersByTime(1_600);
    expect(state.saving.value).toBe("saving");
    client.setUnsent(2);
    expect(state.saving.value).toBe("saving");
    client.setUnsent(0);
    expect(state.saving.value).toBe("unsure");
    client.setUnsent(1);
    client.setUnsent(0);
    vi.advanceTimersByTime(399);
    expect(state.saving.value).toBe("unsure");
    vi.advanceTimersByTime(1);
    expect(state.saving.value).toBe("saved");
  });

  test("refused draws become one toast", () => {
    const { state, client } = page();
    for (let i = 0; i < 5; i++) client.tell("refused", { code: "too_large", message: "" });
    client.tell("refused", { code: "pointless", message: "what it needs was refused" });
    expect(state.toasts.shown.value.map(({ text }) => text)).toEqual([
      "6 changes were not kept: too large for one stroke.",
    ]);
  });

  test("names lose what would turn the text around them, whoever set them", () => {
    const { state, client } = page();
    const nasty = "\u202eMi\u0007r\u2066a\u0085\n";
    client.setParticipants([...client.participants, { client: 9, name: nasty, rgba: 0 }]);
    expect(state.participants.value.find((one) => one.client === 9)?.name).toBe("Mira");
    state.setProfile({ name: nasty, rgba: 1 });
    expect(state.choices.profile.value.name).toBe("Mira");
    state.setProfile({ name: "\u202e", rgba: 1 });
    expect(state.choices.profile.value.name).toBe("Mira");
  });

  test("following ends when the followed leaves", () => {
    const { state, client } = page();
    const self = client.participants;
    client.setParticipants([...self, { client: 9, name: "Mira", rgba: 0 }]);
    state.follow(9);
    client.setParticipants(client.participants);
    expect(state.following.value).toBe(9);
    client.setParticipants(self);
    expect(state.following.value).toBeNull();
  });

  test("an empty board is called empty only once its log is known", () => {
    const choices = new Choices(new Remembered(null), () => 0.5);
    const client = new FakeClient("room", choices.profile.value);
    client.state = { kind: "connecting" };
    const state = new AppState("room", choices);
    state.attach(client);
    expect(state.blank.value).toBe(false);
    client.setState({ kind: "offline", why: "away", retryAt: 0, draining: false });
    expect(state.blank.value).toBe(false);
    client.setState({ kind: "live", transport: "websocket" });
    expect(state.blank.value).toBe(true);
    client.setState({ kind: "offline", why: "away", retryAt: 0, draining: false });
    expect(state.blank.value).toBe(true);
    client.begin({ tool: 0, rgba: 0xff, width: 16 }, 0, [0, 0]);
    expect(state.blank.value).toBe(false);
  });

  test("viewers and refused people draw nothing", () => {
    const { state, client } = page();
    expect(state.locked.value).toBeNull();
    client.tell("welcome", {
      id: 7,
      role: 0,
      limits: { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN: 0 },
    });
    expect(state.locked.value).toBe("viewer");
    client.setState({ kind: "refused", code: "room_full", message: "" });
    expect(state.locked.value).toBe("refused");
  });

  test("a full board takes no ink, no undo and no clear, for as long as it is full", () => {
    const { state, client } = page();
    const [undo, redo, clear] = (["undo", "redo", "clear"] as const).map((name) => vi.spyOn(client, name));
    client.setFull(true);
    expect(state.locked.value).toBe("full");
    state.undo();
    state.redo();
    state.clear();
    for (const spy of [undo, redo, clear]) expect(spy).not.toHaveBeenCalled();
    client.setFull(false);
    expect(state.locked.value).toBeNull();
    state.clear();
    expect(clear).toHaveBeenCalledOnce();
  });

  test("the toast of a clear takes it back", () => {
    const { state, client } = page();
    const undo = vi.spyOn(client, "undo");
    state.clear();
    state.toasts.shown.value[0]?.action?.run();
    expect(undo).toHaveBeenCalledOnce();
    expect(state.toasts.shown.value).toEqual([]);
  });
});
