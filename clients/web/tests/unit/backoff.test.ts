/** The waits between attempts: they double up to a bound, and keep to what a server asks for. */
import { expect, it } from "vitest";
import { asked, Backoff, RETRY_MS_MAX } from "../../src/backoff.ts";

it("waits double up to the bound and start again", () => {
  const backoff = new Backoff(100, 350);
  expect(backoff.next(0)).toBe(50);
  expect(backoff.next(0)).toBe(100);
  for (let round = 0; round < 100; round += 1) expect(backoff.next(1)).toBe(350);
  backoff.reset();
  expect(backoff.next(1)).toBe(100);
});

it("a bound below the first wait is the first wait", () => {
  expect(new Backoff(100, 0).next(1)).toBe(100);
});

it("a server's retry time is kept, to within reason, and never in step with others", () => {
  expect(asked(1000, 0)).toBe(1000);
  expect(asked(1000, 1)).toBe(1500);
  expect(asked(-5, 1)).toBe(0);
  expect(asked(Number.MAX_SAFE_INTEGER, 0)).toBe(RETRY_MS_MAX);
});
