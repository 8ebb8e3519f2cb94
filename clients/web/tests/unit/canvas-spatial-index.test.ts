/** The spatial index, against looking at everything. */
import { expect, test } from "vitest";
import { type Box, emptyBox, touches } from "../../app/canvas/box.ts";
import { SpatialIndex } from "../../app/canvas/spatial-index.ts";

interface Thing {
  box: Box;
}

test("finds what a look at everything finds, while things come, move and go", () => {
  let seed = 20_261_130;
  const random = () => {
    seed = (seed * 16807) % 2147483647;
    return seed / 2147483647;
  };
  const someBox = (): Box => {
    const size = 10 ** (random() * 5 - 1);
    const x0 = (random() - 0.5) * 10_000;
    const y0 = (random() - 0.5) * 10_000;
    return { x0, y0, x1: x0 + size * random(), y1: y0 + size * random() };
  };
  const index = new SpatialIndex<Thing>();
  const all = new Set<Thing>();
  for (let round = 0; round < 2000; round++) {
    const thing: Thing = { box: someBox() };
    all.add(thing);
    index.put(thing);
    const [some] = [...all].slice(Math.floor(random() * all.size));
    const what = random();
    if (some && what < 0.3) {
      some.box = someBox();
      index.put(some);
    } else if (some && what < 0.5) {
      all.delete(some);
      index.remove(some);
    }
    if (round % 20 === 0) {
      const box = someBox();
      const found = index.find(box);
      expect(new Set(found)).toEqual(new Set([...all].filter((each) => touches(each.box, box))));
      expect(found).toHaveLength(new Set(found).size);
    }
  }
  index.clear();
  expect(index.find({ x0: -1e9, y0: -1e9, x1: 1e9, y1: 1e9 })).toEqual([]);
});

test("what has no place is not found, and is found once it has one", () => {
  const index = new SpatialIndex<Thing>();
  const thing: Thing = { box: emptyBox() };
  index.put(thing);
  const everywhere = { x0: -1e7, y0: -1e7, x1: 1e7, y1: 1e7 };
  expect(index.find(everywhere)).toEqual([]);
  thing.box = { x0: 1, y0: 1, x1: 2, y1: 2 };
  index.put(thing);
  expect(index.find(everywhere)).toEqual([thing]);
});
