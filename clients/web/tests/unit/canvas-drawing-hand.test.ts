/** What the drawing hand makes of a stroke that vanishes under the pen. */
import { expect, test } from "vitest";
import { DrawingHand } from "../../app/canvas/drawing-hand.ts";
import { Scene } from "../../app/canvas/scene.ts";
import type { Hand } from "../../app/canvas/stage.ts";
import { SELF, type Style } from "../../src/index.ts";
import { HandPicture, stroke } from "./canvas-strokes.ts";

const STYLE: Style = { tool: 0, rgba: 0x000000ff, width: 64 };

function at(x: number) {
  return { x, y: 0, pressure: 0.5, tiltX: 0, tiltY: 0 };
}

/** A board that takes what a hand draws; `refuses`: nothing of it shows. */
function board(refuses = false) {
  const picture = new HandPicture();
  const said: string[] = [];
  let number = 0;
  const hand: Hand = {
    begin: (style, channels, points) => {
      number++;
      said.push(`begin ${number} at ${points[0]}`);
      if (!refuses) {
        const drawn = stroke([], {
          author: SELF,
          number,
          style,
          channels,
          closed: false,
          values: [...points],
        });
        picture.all = [...picture.all, drawn];
        picture.tell({ appeared: [drawn] });
      }
      return number;
    },
    extend: (stroke, points, end = false) =>
      said.push(`extend ${stroke} by ${points[0]}${end ? ", end" : ""}`),
    cancel: (stroke) => said.push(`cancel ${stroke}`),
    erase: () => {},
    beginGroup: () => {},
    endGroup: () => {},
    pointer: () => {},
  };
  const nothing = () => {};
  const listener = { baked: nothing, spoiled: nothing, moved: nothing, removed: nothing, reset: nothing };
  const scene = new Scene(listener, () => 0);
  scene.show(picture);
  const pen = new DrawingHand(scene, hand);
  const clear = () => {
    const vanished = picture.all;
    picture.all = [];
    picture.tell({ vanished });
  };
  return { pen, said, clear, scene };
}

test("a stroke that somebody cleared away ends, and the next move begins a new one there", () => {
  const { pen, said, clear, scene } = board();
  pen.beginInk("mouse", STYLE, [at(0)]);
  pen.flush();
  pen.extend([at(1)]);
  pen.flush();
  clear();
  pen.extend([at(10)]);
  pen.flush();
  expect(said).toEqual(["begin 1 at 0", "extend 1 by 16", "extend 1 by undefined, end", "begin 2 at 160"]);
  expect(scene.holds).toBe(true);
  pen.extend([at(11)]);
  pen.end();
  expect(said.at(-1)).toBe("extend 2 by 16, end");
  expect(pen.busy).toBe(false);
});

test("a pen that only lifts after that leaves no dot", () => {
  const { pen, said, clear } = board();
  pen.beginInk("mouse", STYLE, [at(0)]);
  pen.flush();
  clear();
  pen.end();
  expect(said).toEqual(["begin 1 at 0", "extend 1 by undefined, end"]);
});

test("where nothing may be drawn any more, none is begun", () => {
  const { pen, said, clear } = board();
  pen.beginInk("mouse", STYLE, [at(0)]);
  pen.flush();
  clear();
  pen.extend([at(1)], false);
  pen.flush();
  expect(said).toEqual(["begin 1 at 0", "extend 1 by 16"]);
});

test("a stroke that never showed is not begun again with every move", () => {
  const { pen, said } = board(true);
  pen.beginInk("mouse", STYLE, [at(0)]);
  pen.flush();
  pen.extend([at(1)]);
  pen.flush();
  pen.extend([at(2)]);
  pen.end();
  expect(said).toEqual(["begin 1 at 0", "extend 1 by 16", "extend 1 by 16, end"]);
});
