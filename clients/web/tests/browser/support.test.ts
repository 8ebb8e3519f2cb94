/** The relay and the proxy of these tests do what they are said to do, without a browser. */
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import {
  BY_HAND,
  fitted,
  HAS_INK,
  recordedInkml,
  recordedInput,
  recordedStroke,
  WHERE,
} from "./support/ink.ts";
import { ProxyServer, type Weather } from "./support/proxy.ts";
import { Relay } from "./support/relay.ts";
import { type Site, startSite } from "./support/site.ts";
import { inTime, sleep, until } from "./support/wait.ts";

/** A site of echoes behind a proxy with that weather. */
async function proxied(weather: Partial<Weather>): Promise<{ proxy: ProxyServer; site: Site }> {
  const site = await startSite("page");
  const proxy = await ProxyServer.start(site.port);
  onTestFinished(async () => {
    await proxy.stop();
    await site.close();
  });
  proxy.set(weather);
  return { proxy, site };
}

function open(proxy: ProxyServer): Promise<WebSocket> {
  const socket = new WebSocket(proxy.url.replace("http", "ws"));
  onTestFinished(() => socket.terminate());
  socket.on("error", () => {});
  return inTime(
    "a socket",
    new Promise((resolve, reject) => {
      socket.once("open", () => resolve(socket)).once("error", reject);
    }),
  );
}

function echo(socket: WebSocket, text: string): Promise<string> {
  const answer = new Promise<string>((resolve) => {
    socket.once("message", (data: Buffer) => resolve(data.toString()));
  });
  socket.send(text);
  return answer;
}

function closed(socket: WebSocket): Promise<number> {
  return inTime("the end of the socket", new Promise((resolve) => socket.once("close", resolve)));
}

const page = (proxy: ProxyServer) => fetch(proxy.url).then((response) => response.text());

test("in fine weather everything passes", async () => {
  const { proxy } = await proxied({});
  expect(await page(proxy)).toBe("page");
  const socket = await open(proxy);
  expect(await echo(socket, "x".repeat(1_000_000))).toHaveLength(1_000_000);
  expect(proxy.handshakes).toBe(1);
});

test("sockets are refused or reset while pages pass", async () => {
  const { proxy } = await proxied({ sockets: "refuse" });
  await expect(open(proxy)).rejects.toThrow("403");
  proxy.set({ sockets: "reset" });
  await expect(open(proxy)).rejects.toThrow(/ECONNRESET|hang up/);
  expect(await page(proxy)).toBe("page");
  proxy.clear();
  expect(await echo(await open(proxy), "a")).toBe("a");
});

test("what is open is cut: now, after so many bytes, and after so long", async () => {
  const { proxy } = await proxied({});
  const now = await open(proxy);
  const ended = closed(now);
  proxy.cut("sockets");
  expect(await ended).toBe(1006);
  proxy.set({ socketBytes: 1000 });
  const short = await open(proxy);
  const ends = closed(short);
  for (let sent = 0; sent < 20; sent += 1) short.send("x".repeat(100));
  expect(await ends).toBe(1006);
  proxy.set({ socketBytes: Number.POSITIVE_INFINITY, socketTime: 50 });
  expect(await closed(await open(proxy))).toBe(1006);
});

test("a stall says nothing, and goes on when it is over", async () => {
  const { proxy } = await proxied({});
  const socket = await open(proxy);
  expect(await echo(socket, "before")).toBe("before");
  proxy.set({ stalled: true });
  const answer = echo(socket, "after");
  expect(await Promise.race([answer, sleep(300).then(() => "nothing")])).toBe("nothing");
  expect(socket.readyState).toBe(WebSocket.OPEN);
  proxy.clear();
  expect(await inTime("what was held", answer)).toBe("after");
});

test("offline is nothing new and nothing old; a slow network is slow", async () => {
  const { proxy } = await proxied({});
  const socket = await open(proxy);
  const ended = closed(socket);
  proxy.goOffline();
  expect(await ended).toBe(1006);
  await expect(page(proxy)).rejects.toThrow();
  proxy.goOnline();
  proxy.set({ delay: 150 });
  const begun = Date.now();
  expect(await page(proxy)).toBe("page");
  expect(Date.now() - begun).toBeGreaterThanOrEqual(300);
});

test("the relay keeps its port and its draws when it is killed", async () => {
  const relay = await Relay.start({ store: "embedded", flags: ["--max-batch", "7"] });
  onTestFinished(() => relay.stop());
  const draw = [0, 0, [0, 255, 64], 0, [800, 800, 1600, 400], true];
  const post = () =>
    fetch(`${relay.url}/v1/rooms/a/draws`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify([draw]),
    });
  expect((await post()).status).toBe(200);
  await relay.kill();
  await expect(post()).rejects.toThrow();
  await relay.restart();
  expect((await post()).status).toBe(200);
  const room = await fetch(`${relay.url}/v1/rooms/a`).then((response) => response.json());
  expect(room).toMatchObject({ records: 2 });
  expect(await relay.command("board", "a", "--svg", "-")).toContain("<svg");
  relay.pause();
  const paused = post();
  expect(await Promise.race([paused, sleep(300).then(() => "nothing")])).toBe("nothing");
  relay.resume();
  expect((await paused).status).toBe(200);
  await relay.terminate();
  await until("the relay is gone", () =>
    post().then(
      () => false,
      () => true,
    ),
  );
});

test.skipIf(!HAS_INK)(`recorded ink is read, and fitted into a window${WHERE}`, () => {
  expect(recordedStroke("freehand-sample")).toHaveLength(360);
  expect(recordedStroke("freehand-flash")).toHaveLength(135);
  const words = BY_HAND.map(recordedInput);
  expect(Math.max(...words.map((word) => word.length))).toBe(675);
  for (const name of ["journal", "onenote-web"] as const) {
    const pressures = recordedInkml(name).flatMap((stroke) => stroke.map(([, , pressure]) => pressure ?? -1));
    expect(pressures.length).toBeGreaterThan(100);
    expect(pressures.every((pressure) => pressure >= 0 && pressure <= 1)).toBe(true);
    expect(new Set(pressures).size).toBeGreaterThan(10);
  }
  const box = { x: 100, y: 50, width: 800, height: 600 };
  const points = fitted(words, box).flat();
  expect(points.every(([x, y]) => x >= 100 && x <= 900 && y >= 50 && y <= 650)).toBe(true);
  expect(points.every(([x, y]) => Number.isInteger(x) && Number.isInteger(y))).toBe(true);
  const spans = [Math.max(...points.map(([x]) => x)) - 100, Math.max(...points.map(([, y]) => y)) - 50];
  expect(spans[0] === 800 || spans[1] === 600).toBe(true);
});
