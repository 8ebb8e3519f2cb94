/** The operators' page in Chromium: what it shows while people draw, and every button of it. */
import { mkdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFailed, onTestFinished, test } from "vitest";
import { type ChromiumBrowser, type ChromiumPage, startChromium } from "./support/chromium.ts";
import { clientFor, relayFor } from "./support/company.ts";
import { watchFaults } from "./support/faults.ts";
import type { Relay } from "./support/relay.ts";
import { someone } from "./support/someone.ts";
import { sleep, until } from "./support/wait.ts";

const T = { onTestFinished, onTestFailed };
/** Where pictures go, for whoever wants to look. */
const { OPERATORS_PICTURES } = process.env;

let browser: ChromiumBrowser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

type Artist = Awaited<ReturnType<typeof clientFor>>;

async function relayWithOperators(): Promise<{ relay: Relay; url: string }> {
  const relay = await relayFor(T, { flags: ["--operators-listen", "127.0.0.1:0", "--role", "drawer"] });
  return { relay, url: await relay.operators() };
}

/** A port that nobody has at this moment, for what is to be there again after a restart. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listens) => server.listen(0, "127.0.0.1", () => listens()));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}

async function artist(relay: Relay, room: string, name: string, rgba = 0xd0_57_0a_ff): Promise<Artist> {
  const one = await clientFor(T, relay.url, room, { profile: { name, rgba } });
  await one.live();
  return one;
}

function spiral(turn: number): [number, number][] {
  return Array.from({ length: 60 }, (_, step) => {
    const [angle, radius] = [step / 6 + turn, 600 + step * 90];
    return [Math.round(Math.cos(angle) * radius), Math.round(Math.sin(angle) * radius)];
  });
}

async function shown(page: ChromiumPage, text: string | RegExp): Promise<void> {
  await page.tab.getByText(text).first().waitFor({ state: "visible", timeout: 30_000 });
}

function press(page: ChromiumPage, name: string): Promise<void> {
  return page.tab.getByRole("button", { name, exact: true }).click();
}

async function picture(page: ChromiumPage, name: string): Promise<void> {
  if (OPERATORS_PICTURES === undefined) return;
  await mkdir(OPERATORS_PICTURES, { recursive: true });
  await writeFile(`${OPERATORS_PICTURES}/${name}.png`, await page.tab.screenshot({ fullPage: true }));
}

/** Opens the page, and waits until it has asked twice, which is when rates are known. */
async function openPage(url: string, options: Parameters<typeof someone>[1] = {}): Promise<ChromiumPage> {
  const page = await someone(browser, { viewport: { width: 1280, height: 900 }, ...options });
  await page.open(url);
  await shown(page, "all is well");
  return page;
}

/** Opens a room's dialog, once its row is there. */
async function openRoom(page: ChromiumPage, room: string): Promise<void> {
  await page.tab.getByRole("button", { name: room, exact: true }).click();
  await page.tab.getByRole("dialog", { name: room }).waitFor();
}

test("it shows live what people do, in light and dark, wide and narrow", async () => {
  const { relay, url } = await relayWithOperators();
  const people = await Promise.all(
    ["Ada", "Grace", "Edsger", "Barbara"].map((name, index) =>
      artist(relay, index < 3 ? "studio" : "attic", name),
    ),
  );
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  const drawing = (async () => {
    for (let turn = 0; !isOver; turn++) {
      people[turn % people.length]?.stroke(spiral(turn));
      await sleep(60);
    }
  })();
  const page = await openPage(url);
  await until("draws have a rate", () =>
    page.evaluate(() => /draws\s*[1-9][\d.,]*\/s/.test(document.querySelector(".tiles")?.textContent ?? "")),
  );
  const first = () => page.tab.locator("tbody tr").first().textContent();
  await until("the busiest room comes first", async () => (await first())?.startsWith("studio"));
  expect(await page.tab.locator("canvas").count()).toBe(8);
  await until("the charts have ink", () =>
    page.evaluate(() =>
      [...document.querySelectorAll("canvas")].every((canvas) => {
        const context = canvas.getContext("2d");
        const { data } = context?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
        return data.some((value) => value !== 0);
      }),
    ),
  );
  await press(page, "People");
  await until(
    "rooms are sorted by people",
    async () =>
      (await page.tab.locator("thead th", { hasText: "People" }).getAttribute("aria-sort")) === "descending",
  );
  if (OPERATORS_PICTURES !== undefined) await sleep(45_000);
  await picture(page, "light-1280");
  await page.tab.emulateMedia({ colorScheme: "dark" });
  await sleep(1_500);
  await picture(page, "dark-1280");
  await page.tab.setViewportSize({ width: 820, height: 1180 });
  const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
  await until("nothing is wider than a tablet", async () => (await page.evaluate(overflow)) <= 0);
  await sleep(1_500);
  await picture(page, "dark-820");
  await openRoom(page, "studio");
  await page.tab.locator(".picture img").waitFor();
  await picture(page, "room-820");
  await press(page, "Done");
  await page.tab.setViewportSize({ width: 390, height: 844 });
  await until("nothing is wider than a phone", async () => (await page.evaluate(overflow)) <= 0);
  await sleep(1_500);
  await picture(page, "dark-390");
  await openRoom(page, "studio");
  await page.tab.locator(".picture img").waitFor();
  await picture(page, "room-390");
  await press(page, "Delete room");
  await until("what is asked is seen whole", () =>
    page.evaluate(() => {
      const { top, bottom } = document.querySelector(".question")?.getBoundingClientRect() ?? {};
      return top !== undefined && bottom !== undefined && top >= 0 && bottom <= innerHeight;
    }),
  );
  await picture(page, "question-390");
  await press(page, "Cancel");
  await page.tab.setViewportSize({ width: 1280, height: 900 });
  await page.tab.emulateMedia({ colorScheme: "light" });
  await sleep(1_500);
  await picture(page, "room-1280");
  isOver = true;
  await drawing;
});

test("a page that is open for long holds no more", async () => {
  const { url } = await relayWithOperators();
  const page = await openPage(url);
  const held = await page.evaluate(async () => {
    const state = await (await fetch("/api/state")).json();
    const { History } = {
      History: Object.getPrototypeOf(Reflect.get(globalThis, "inkrelayOperators").history).constructor,
    };
    const history = new History();
    const sizes: number[] = [];
    // Half a day of seconds.
    for (let second = 0; second < 43_200; second++) {
      history.push(null, second * 1000);
      if (second % 600 === 599) sizes.push(history.size);
    }
    return { sizes, told: typeof state.draws };
  });
  expect(held.told).toBe("number");
  expect(new Set(held.sizes).size).toBe(1);
});

test("a relay that is gone is said, and one that is back shows again", async () => {
  const { relay, url } = await relayWithOperators();
  const page = await openPage(url);
  relay.pause();
  await shown(page, "no answer from the relay");
  await until("old figures look old", async () => (await page.tab.locator(".tiles.stale").count()) === 1);
  relay.resume();
  await shown(page, "all is well");
  await until("new ones do not", async () => (await page.tab.locator(".stale").count()) === 0);
});

test("a relay that starts again counts anew, and no rate is less than nothing", async () => {
  const port = await freePort();
  const flags = ["--operators-listen", `127.0.0.1:${port}`];
  const relay = await relayFor(T, { flags, store: "embedded" });
  const ada = await artist(relay, "studio", "Ada");
  ada.stroke(spiral(0));
  await ada.saved();
  const page = await openPage(`http://127.0.0.1:${port}/`);
  await openRoom(page, "studio");
  await shown(page, "1 stroke");
  await relay.kill();
  await shown(page, "no answer from the relay");
  await relay.restart();
  await shown(page, "all is well");
  await press(page, "Look again");
  await shown(page, "1 stroke");
  await press(page, "Done");
  const told = () =>
    page.evaluate(() => {
      const { history } = Reflect.get(globalThis, "inkrelayOperators");
      return ["draws", "recordsSent", "relayCpu", "append99", "refused"].flatMap((name) =>
        history.track(name).filter((value: number | null) => value !== null && !(value >= 0)),
      );
    });
  await until("it has drawn on", async () => {
    ada.stroke(spiral(1));
    return page.evaluate(() => Reflect.get(globalThis, "inkrelayOperators").history.latest("draws") > 0);
  });
  expect(await told()).toEqual([]);
});

/** The policy is what it is relied on for: whatever it refuses, the tests above and below would see. */
test("a page that did what its policy forbids would be noticed", async () => {
  const { url } = await relayWithOperators();
  const person = await browser.person();
  onTestFinished(() => person.close());
  const page = await person.page();
  const faults = await watchFaults(page);
  await page.open(url);
  await shown(page, "all is well");
  expect(faults).toEqual([]);
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.isInjected = true";
    document.body.append(script);
    document.body.setAttribute("style", "color: red");
    new Image().src = "https://example.com/x.png";
  });
  for (const directive of ["script-src-elem", "style-src-attr", "img-src"]) {
    await until(directive, () => faults.some((fault) => fault.includes(`${directive} refused`)));
  }
  expect(await page.evaluate(() => "isInjected" in globalThis)).toBe(false);
});

describe("what an operator does is asked first", () => {
  test("a look into a room shows its board, and who is there", async () => {
    const { relay, url } = await relayWithOperators();
    const ada = await artist(relay, "studio", "Ada");
    ada.stroke(spiral(0));
    await ada.saved();
    const page = await openPage(url);
    await openRoom(page, "studio");
    await shown(page, "1 stroke");
    await shown(page, "Ada");
    const ink = await page.tab.locator(".picture img").evaluate(async (image: HTMLImageElement) => {
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const context = canvas.getContext("2d");
      context?.drawImage(image, 0, 0);
      const data = context?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
      let dark = 0;
      for (let index = 0; index < data.length; index += 4) if ((data[index] ?? 255) < 128) dark++;
      return dark;
    });
    expect(ink).toBeGreaterThan(100);
    ada.stroke(spiral(1));
    await ada.saved();
    await press(page, "Look again");
    await shown(page, "2 strokes");
    await press(page, "Done");
    await until("the dialog is gone", async () => (await page.tab.getByRole("dialog").count()) === 0);
  });

  test("kick sends one away and nobody else, and cancel does nothing", async () => {
    const { relay, url } = await relayWithOperators();
    const [ada, bob] = [await artist(relay, "studio", "Ada"), await artist(relay, "studio", "Bob")];
    const page = await openPage(url);
    await openRoom(page, "studio");
    await press(page, "Kick Ada");
    await press(page, "Cancel");
    expect(ada.isLive).toBe(true);
    await press(page, "Kick Ada");
    await shown(page, "Send Ada away?");
    await press(page, "Kick");
    await shown(page, "Ada was sent away.");
    await until(
      "Ada was sent away",
      () => ada.states.slice(1).some((state) => state.kind !== "live") || !ada.isLive,
    );
    expect(bob.isLive).toBe(true);
  });

  test("erase takes away what one drew, and no more", async () => {
    const { relay, url } = await relayWithOperators();
    const [ada, bob] = [await artist(relay, "studio", "Ada"), await artist(relay, "studio", "Bob")];
    ada.stroke(spiral(0));
    bob.stroke(spiral(2));
    await Promise.all([ada.saved(), bob.saved()]);
    await until("both are seen", () => ada.picture.length === 2 && bob.picture.length === 2);
    const page = await openPage(url);
    await openRoom(page, "studio");
    await press(page, "Erase what Ada drew");
    await press(page, "Erase");
    await shown(page, "What Ada drew is erased.");
    await until("Bob's alone is left", () => bob.picture.length === 1 && ada.picture.length === 1);
    await shown(page, "1 stroke");
  });

  test("erase takes away what somebody drew who has left, and what came without a ticket", async () => {
    const { relay, url } = await relayWithOperators();
    const [ada, bob] = [await artist(relay, "studio", "Ada"), await artist(relay, "studio", "Bob")];
    ada.stroke(spiral(0));
    await ada.saved();
    const posted = await fetch(`${relay.url}/v1/rooms/studio/draws`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify([[0, 0, [0, 255, 64], 0, [800, 800, 1600, 400], true]]),
    });
    expect(posted.status).toBe(200);
    await until("both are seen", () => bob.picture.length === 2);
    await ada.client.close();
    const page = await openPage(url);
    await openRoom(page, "studio");
    await shown(page, "not here · 1 stroke");
    await picture(page, "room-absent");
    for (const [whose, left] of [
      ["whoever had no ticket", 1],
      [/^Erase what participant \d+ drew$/, 0],
    ] as const) {
      const name = typeof whose === "string" ? `Erase what ${whose} drew` : whose;
      await page.tab.getByRole("button", { name }).click();
      await press(page, "Erase");
      await until(`${left} strokes are left`, () => bob.picture.length === left);
    }
    await until(
      "nobody is told whose ink shows",
      async () => (await page.tab.getByRole("list", { name: "Who drew and is not here" }).count()) === 0,
    );
  });

  test("lock keeps people from drawing until unlock", async () => {
    const { relay, url } = await relayWithOperators();
    const ada = await artist(relay, "studio", "Ada");
    const page = await openPage(url);
    await openRoom(page, "studio");
    await press(page, "Lock");
    await page.tab.locator(".question").getByRole("button", { name: "Lock", exact: true }).click();
    await shown(page, "The room is locked.");
    await shown(page, "Unlock");
    ada.stroke(spiral(0));
    await until("the draw is refused", () => ada.refused.some(({ code }) => code === "room_locked"));
    await press(page, "Unlock");
    await page.tab.locator(".question").getByRole("button", { name: "Unlock", exact: true }).click();
    await shown(page, "The room is unlocked.");
  });

  test("close sends all away, and they come back", async () => {
    const { relay, url } = await relayWithOperators();
    const people = [await artist(relay, "studio", "Ada"), await artist(relay, "studio", "Bob")];
    people[0]?.stroke(spiral(0));
    const page = await openPage(url);
    await openRoom(page, "studio");
    const before = people.map(({ states }) => states.length);
    await press(page, "Close room");
    await page.tab.locator(".question").getByRole("button", { name: "Close room", exact: true }).click();
    await shown(page, "The room was closed; whoever comes back is let in.");
    await until("all were sent away", () =>
      people.every(({ states }, index) => states.length > (before[index] ?? 0)),
    );
    await until("all are back with their ink", () =>
      people.every((one) => one.isLive && one.picture.length === 1),
    );
  });

  test("delete takes the room away for good, for those who are in it too", async () => {
    const { relay, url } = await relayWithOperators();
    const ada = await artist(relay, "studio", "Ada");
    ada.stroke(spiral(0));
    await ada.saved();
    const bea = await artist(relay, "studio", "Bea");
    await until("Bea sees the stroke", () => bea.picture.length === 1);
    // Whoever drew it lately and stays would offer it again, as after any loss.
    await ada.client.close();
    const page = await openPage(url);
    await openRoom(page, "studio");
    await shown(page, "1 stroke");
    await press(page, "Delete room");
    await shown(page, "This cannot be undone.");
    await page.tab.locator(".question").getByRole("button", { name: "Delete room", exact: true }).click();
    await shown(page, "The room is deleted.");
    await until("Bea's board is empty", () => bea.picture.length === 0);
  });
});
