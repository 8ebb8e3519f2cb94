/** What wakes a connection up. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onWakeups, type Wakeup } from "../../src/wakeups.ts";

class FakePage extends EventTarget {
  visibilityState = "visible";
}

let page: FakePage;
let view: EventTarget;
let heard: Wakeup[];
let stop: () => void;

beforeEach(() => {
  vi.useFakeTimers();
  page = new FakePage();
  view = new EventTarget();
  vi.stubGlobal("document", page);
  vi.stubGlobal("window", view);
  heard = [];
  stop = onWakeups((wakeup) => heard.push(wakeup));
});
afterEach(() => {
  stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("hears of a page that is seen again, thawed or shown, and of the network", () => {
  page.dispatchEvent(new Event("visibilitychange"));
  page.dispatchEvent(new Event("resume"));
  view.dispatchEvent(new Event("pageshow"));
  view.dispatchEvent(new Event("online"));
  view.dispatchEvent(new Event("offline"));
  expect(heard).toEqual(["wake", "wake", "wake", "wake", "offline"]);
});

it("a page that is hidden does not wake up", () => {
  page.visibilityState = "hidden";
  page.dispatchEvent(new Event("visibilitychange"));
  expect(heard).toEqual([]);
});

it("a timer that fires much too late has slept, unless the page is hidden", () => {
  vi.advanceTimersByTime(60_000);
  expect(heard).toEqual([]);
  vi.setSystemTime(Date.now() + 60_000);
  vi.advanceTimersByTime(2_000);
  expect(heard).toEqual(["wake"]);
  page.visibilityState = "hidden";
  vi.setSystemTime(Date.now() + 60_000);
  vi.advanceTimersByTime(2_000);
  expect(heard).toEqual(["wake"]);
});

it("hears nothing after its end, and leaves no timer", () => {
  stop();
  view.dispatchEvent(new Event("online"));
  expect(heard).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});
