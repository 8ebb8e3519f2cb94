/** How others' ink grows. */
import { expect, test } from "vitest";
import { Reveal, SPREAD } from "../../app/canvas/reveal.ts";

test("a burst grows evenly and is whole in time", () => {
  const reveal = new Reveal();
  reveal.push(10, 1000);
  expect(reveal.at(1000)).toBe(0);
  expect(reveal.at(1000 + SPREAD / 2)).toBe(5);
  expect(reveal.done).toBe(false);
  expect(reveal.at(1000 + SPREAD)).toBe(10);
  expect(reveal.done).toBe(true);
});

test("no point ever shows later than that, and the line never goes back", () => {
  const reveal = new Reveal();
  const came: { count: number; time: number }[] = [];
  let last = 0;
  for (let time = 0; time <= 1000; time += 5) {
    if (time % 35 === 0) {
      came.push({ count: came.length * 7 + 7, time });
      reveal.push(came.length * 7, time);
    }
    const shows = reveal.at(time);
    expect(shows).toBeGreaterThanOrEqual(last);
    const owed = came.filter((burst) => burst.time + SPREAD <= time).at(-1)?.count ?? 0;
    expect(shows).toBeGreaterThanOrEqual(owed);
    last = shows;
  }
});

test("many bursts at once stay bounded and come out whole", () => {
  const reveal = new Reveal();
  for (let burst = 1; burst <= 1000; burst++) {
    reveal.push(burst, burst / 1000);
  }
  expect(reveal.total).toBe(1000);
  expect(reveal.at(1 + SPREAD)).toBe(1000);
});

test("a jump shows all at once", () => {
  const reveal = new Reveal();
  reveal.push(10, 0);
  reveal.jump(4, 1);
  expect([reveal.at(1), reveal.done, reveal.total]).toEqual([4, true, 4]);
});
