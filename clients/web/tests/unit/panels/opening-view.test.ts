/** Where one looks first on a board. */
import { expect, test } from "vitest";
import { AppState, type Paper } from "../../../app/app-state.ts";
import type { View } from "../../../app/canvas/stage.ts";
import { Choices } from "../../../app/panels/choices.ts";
import { OpeningView, readView } from "../../../app/panels/opening-view.ts";
import { Remembered } from "../../../app/panels/remembered.ts";
import { FakeClient } from "../../browser/states/fake-client.ts";

const INK: View = { x: 900, y: 900, zoom: 0.5 };
const ELSEWHERE: View = { x: 5, y: 6, zoom: 2 };

function opened(tab = new Map<string, string>()) {
  const shelf = {
    getItem: (name: string) => tab.get(name) ?? null,
    setItem: (name: string, value: string) => void tab.set(name, value),
  };
  const state = new AppState("here", new Choices(new Remembered(null), Math.random));
  const client = new FakeClient("here", { name: "Ada", rgba: 0xff });
  client.state = { kind: "joining", have: 1, head: 2 };
  const paper: Paper = {
    mode: "pen",
    rgba: 0xff,
    width: 4,
    readOnly: false,
    theme: "light",
    view: { x: 0, y: 0, zoom: 1 },
    show: () => {},
    setView: (view) => Object.assign(paper, { view }),
    zoomBy: () => {},
    fit: () => {},
    bringIntoSight: () => Object.assign(paper, { view: INK }),
    toStage: (place) => place,
  };
  const opening = new OpeningView(state, paper, new Remembered(shelf));
  opening.watch(client);
  const live = () => client.setState({ kind: "live", transport: "websocket" });
  return { tab, paper, opening, live };
}

test("is where the ink is, once all of it is here, and only then", () => {
  const { paper, live } = opened();
  expect(paper.view).toEqual({ x: 0, y: 0, zoom: 1 });
  live();
  expect(paper.view).toEqual(INK);
  paper.setView(ELSEWHERE);
  live();
  expect(paper.view).toEqual(ELSEWHERE);
});

test("stays where somebody drew or moved to meanwhile", () => {
  const drawn = opened();
  drawn.opening.touched();
  drawn.live();
  expect(drawn.paper.view).toEqual({ x: 0, y: 0, zoom: 1 });
  const moved = opened();
  moved.paper.setView(ELSEWHERE);
  moved.live();
  expect(moved.paper.view).toEqual(ELSEWHERE);
});

test("is the tab's own after a reload, and nothing is kept that nobody chose", () => {
  const first = opened();
  first.opening.keep();
  expect(first.tab.size).toBe(0);
  first.live();
  first.paper.setView(ELSEWHERE);
  first.opening.keep();
  const second = opened(first.tab);
  second.live();
  expect(second.paper.view).toEqual(ELSEWHERE);
});

test.each([undefined, null, 7, "here", {}, { x: 1, y: 2 }, { x: "1", y: 2, zoom: 3 }])(
  "%j is no view",
  (value) => {
    expect(readView(value)).toBeNull();
  },
);
