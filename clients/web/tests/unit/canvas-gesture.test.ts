/** Gestures, by events made by hand. */
import { describe, expect, test } from "vitest";
import { type Decision, type Device, Gesture, type PointerInput } from "../../app/canvas/gesture.ts";

/** Feeds a gesture and keeps what it decides. */
class Player {
  readonly gesture = new Gesture();
  readonly decisions: Decision[] = [];
  time = 1000;

  send(
    type: PointerInput["type"],
    device: Device,
    id: number,
    x: number,
    y: number,
    more?: Partial<PointerInput>,
  ) {
    const pressed = type === "down" || type === "move";
    this.decisions.push(
      ...this.gesture.take({
        type,
        id,
        device,
        button: type === "move" ? -1 : 0,
        buttons: pressed ? 1 : 0,
        samples: [{ x, y, pressure: pressed ? 0.5 : 0, tiltX: 0, tiltY: 0 }],
        time: this.time,
        ...more,
      }),
    );
    return this;
  }
  wait(ms: number) {
    this.time += ms;
    return this;
  }
  get kinds() {
    return this.decisions.map((decision) => decision.kind);
  }
  /** The strokes that stay, as the x of their points. */
  get strokes(): number[][] {
    const strokes: number[][] = [];
    for (const decision of this.decisions) {
      if (decision.kind === "begin") {
        strokes.push(decision.samples.map(({ x }) => x));
      } else if (decision.kind === "extend") {
        strokes.at(-1)?.push(...decision.samples.map(({ x }) => x));
      } else if (decision.kind === "cancel") {
        strokes.pop();
      }
    }
    return strokes;
  }
}

describe("a pen", () => {
  test("G1: 40 quick strokes 30 ms apart are 40 strokes with all their points", () => {
    const player = new Player();
    for (let stroke = 0; stroke < 40; stroke++) {
      player.send("down", "pen", 1, stroke, 0).wait(4);
      for (let move = 1; move <= 3; move++) {
        player.send("move", "pen", 1, stroke + move * 100, 0).wait(4);
      }
      player.send("up", "pen", 1, stroke + 300, 0).wait(30);
    }
    expect(player.strokes).toHaveLength(40);
    for (const [stroke, points] of player.strokes.entries()) {
      expect(points).toEqual([stroke, stroke + 100, stroke + 200, stroke + 300, stroke + 300]);
    }
    expect(player.kinds.filter((kind) => kind === "end")).toHaveLength(40);
    expect(player.kinds.filter((kind) => kind === "pen")).toHaveLength(1);
  });

  test("G1: a pen that goes down again before its lifting was told begins a second stroke", () => {
    const player = new Player();
    player.send("down", "pen", 1, 0, 0).send("move", "pen", 1, 5, 0);
    player.send("down", "pen", 1, 50, 0).send("move", "pen", 1, 55, 0).send("up", "pen", 1, 55, 0);
    expect(player.strokes).toEqual([
      [0, 5],
      [50, 55, 55],
    ]);
    expect(player.kinds.filter((kind) => kind === "end")).toHaveLength(2);
  });

  test("G2: a palm before the pen draws nothing, nor does it after it was cancelled; fingers then pan", () => {
    const player = new Player();
    player.send("down", "touch", 7, 300, 300).wait(20);
    player.send("down", "pen", 9, 10, 10).send("move", "pen", 9, 11, 10).wait(8);
    player.send("move", "touch", 7, 302, 300).wait(8);
    player.send("cancel", "touch", 7, 302, 300).wait(8);
    player.send("move", "pen", 9, 12, 10).send("move", "pen", 9, 13, 10).send("up", "pen", 9, 13, 10);
    expect(player.strokes).toEqual([[10, 11, 12, 13, 13]]);
    expect(player.kinds.filter((kind) => kind === "cancel")).toHaveLength(1);

    player.wait(2000).decisions.length = 0;
    player
      .send("down", "touch", 8, 100, 100)
      .send("move", "touch", 8, 130, 100)
      .send("move", "touch", 8, 160, 100);
    expect(player.kinds).toEqual(["grip"]);
  });

  test("a palm that lands while the pen draws or has just drawn does nothing until it is lifted", () => {
    const player = new Player();
    player.send("down", "pen", 9, 10, 10).wait(50);
    player.send("down", "touch", 7, 300, 300).send("move", "touch", 7, 390, 300).wait(50);
    player.send("up", "pen", 9, 10, 10).wait(3000);
    player.send("move", "touch", 7, 400, 300);
    expect(player.kinds).toEqual(["pen", "begin", "extend", "end"]);
  });

  test("a palm that pans stops when the pen comes", () => {
    const player = new Player();
    player.send("move", "pen", 9, 0, 0, { buttons: 0 }).wait(5000);
    player.send("down", "touch", 7, 300, 300).send("move", "touch", 7, 304, 300);
    expect(player.kinds).toEqual(["pen", "hover"]);
    player.send("down", "pen", 9, 10, 10).send("move", "touch", 7, 360, 300).send("move", "pen", 9, 12, 10);
    expect(player.kinds).toEqual(["pen", "hover", "begin", "extend"]);
  });

  test("G2: a cancelled pen stroke ends and keeps its points", () => {
    const player = new Player();
    player.send("down", "pen", 9, 0, 0).send("move", "pen", 9, 5, 0).send("cancel", "pen", 9, 0, 0);
    expect(player.strokes).toEqual([[0, 5]]);
    expect(player.kinds.at(-1)).toBe("end");
    expect(player.gesture.kind).toBe("idle");
  });

  test("its other end erases", () => {
    const player = new Player();
    player.send("down", "pen", 9, 0, 0, { button: 5, buttons: 32 }).send("up", "pen", 9, 0, 0);
    expect(player.decisions[1]).toMatchObject({ kind: "begin", tool: "eraser" });
  });
});

describe("fingers without a pen", () => {
  test("one finger draws", () => {
    const player = new Player();
    player.send("down", "touch", 1, 0, 0).send("move", "touch", 1, 9, 0).send("up", "touch", 1, 9, 0);
    expect(player.kinds).toEqual(["begin", "extend", "extend", "end"]);
  });

  test("a second finger in the first moments cancels the stroke, and two pinch", () => {
    const player = new Player();
    player.send("down", "touch", 1, 100, 100).wait(30).send("move", "touch", 1, 120, 100).wait(30);
    player.send("down", "touch", 2, 220, 100).send("move", "touch", 2, 320, 100);
    expect(player.kinds).toEqual(["begin", "extend", "cancel", "grip"]);
    expect(player.decisions.at(-1)).toEqual({
      kind: "grip",
      from: { x: 170, y: 100, span: 100 },
      to: { x: 220, y: 100, span: 200 },
    });
    // The finger that stays pans on and does not draw.
    player.send("up", "touch", 1, 120, 100).send("move", "touch", 2, 330, 110);
    expect(player.decisions.at(-1)).toMatchObject({
      kind: "grip",
      from: { x: 320, span: 1 },
      to: { x: 330, span: 1 },
    });
    player.send("up", "touch", 2, 330, 110);
    expect(player.gesture.kind).toBe("idle");
  });

  test("a second finger while the first has not moved means a pinch however late it comes", () => {
    const player = new Player();
    player.send("down", "touch", 1, 100, 100).wait(900).send("down", "touch", 2, 200, 100);
    expect(player.kinds).toEqual(["begin", "cancel"]);
    expect(player.gesture.kind).toBe("gripping");
  });

  test("a second finger later is a hand that rests: the stroke goes on", () => {
    const player = new Player();
    player.send("down", "touch", 1, 0, 0).wait(400).send("move", "touch", 1, 50, 0);
    player.send("down", "touch", 2, 300, 0).send("move", "touch", 2, 310, 0).send("move", "touch", 1, 60, 0);
    player.send("up", "touch", 2, 310, 0).send("up", "touch", 1, 60, 0);
    expect(player.strokes).toEqual([[0, 50, 60, 60]]);
    expect(player.kinds.at(-1)).toBe("end");
  });

  test("a finger's stroke that the system takes away is removed", () => {
    const player = new Player();
    player.send("down", "touch", 1, 0, 0).send("move", "touch", 1, 5, 0).send("cancel", "touch", 1, 5, 0);
    expect(player.strokes).toEqual([]);
    expect(player.gesture.kind).toBe("idle");
  });

  test("a finger's eraser waits, so that a pinch erases nothing", () => {
    const player = new Player();
    player.gesture.purpose = "eraser";
    player.send("down", "touch", 1, 100, 100).wait(30).send("move", "touch", 1, 103, 100).wait(30);
    player.send("down", "touch", 2, 200, 100).send("move", "touch", 2, 210, 100);
    expect(player.kinds).toEqual(["grip"]);
  });

  test("a finger's eraser loses nothing by waiting", () => {
    const player = new Player();
    player.gesture.purpose = "eraser";
    player.send("down", "touch", 1, 0, 0).wait(30).send("move", "touch", 1, 5, 0).wait(100);
    player.send("move", "touch", 1, 20, 0).send("up", "touch", 1, 20, 0);
    expect(player.strokes).toEqual([[0, 5, 20, 20]]);
    player.decisions.length = 0;
    player.send("down", "touch", 1, 7, 0).send("up", "touch", 1, 7, 0);
    expect(player.strokes).toEqual([[7, 7]]);
    expect(player.kinds).toEqual(["begin", "end"]);
  });
});

describe("a mouse", () => {
  test("the main button draws, the middle one pans, the other does nothing", () => {
    const player = new Player();
    player
      .send("down", "mouse", 1, 0, 0, { button: 2, buttons: 2 })
      .send("up", "mouse", 1, 0, 0, { button: 2 });
    expect(player.kinds).toEqual([]);
    player.send("down", "mouse", 1, 0, 0, { button: 1, buttons: 4 });
    player.send("move", "mouse", 1, 5, 5, { buttons: 4 }).send("up", "mouse", 1, 5, 5, { button: 1 });
    expect(player.kinds).toEqual(["grip"]);
    player.send("down", "mouse", 1, 0, 0).send("up", "mouse", 1, 0, 0);
    expect(player.kinds).toEqual(["grip", "begin", "extend", "end"]);
  });

  test("with space held, or in hand mode, it pans", () => {
    const player = new Player();
    player.gesture.space = true;
    player.send("down", "mouse", 1, 0, 0).send("move", "mouse", 1, 5, 0).send("up", "mouse", 1, 5, 0);
    player.gesture.space = false;
    player.gesture.purpose = "pan";
    player.send("down", "mouse", 1, 0, 0).send("move", "mouse", 1, 5, 0).send("up", "mouse", 1, 5, 0);
    expect(player.kinds).toEqual(["grip", "grip"]);
  });

  test("a lifting that nobody saw ends the stroke at the next move", () => {
    const player = new Player();
    player.send("down", "mouse", 1, 0, 0).send("move", "mouse", 1, 90, 0, { buttons: 0 });
    expect(player.kinds).toEqual(["begin", "end", "hover"]);
    expect(player.strokes).toEqual([[0]]);
  });

  test("stopping ends a stroke and keeps it", () => {
    const player = new Player();
    player.send("down", "mouse", 1, 0, 0);
    expect(player.gesture.stop()).toEqual([{ kind: "end" }]);
    expect(player.gesture.stop()).toEqual([]);
  });
});
