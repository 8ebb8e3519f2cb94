/** The operators' list of authors: whose ink shows. */
import { expect, test } from "vitest";
import { authorsOf } from "../../operators/authors.ts";
import { Stroke } from "../../src/board.ts";

test("authors are told by how many of their strokes show, the most first", () => {
  const stroke = (author: number, number: number) =>
    new Stroke(author, number, { tool: 0, rgba: 0xff, width: 16 }, 0, 1, number);
  expect(authorsOf([])).toEqual([]);
  const strokes = [stroke(9, 1), stroke(0, 2), stroke(7, 3), stroke(0, 4), stroke(3, 5)];
  expect(authorsOf(strokes)).toEqual([
    { client: 0, strokes: 2 },
    { client: 3, strokes: 1 },
    { client: 7, strokes: 1 },
    { client: 9, strokes: 1 },
  ]);
});
