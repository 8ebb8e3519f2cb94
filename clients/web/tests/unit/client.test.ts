/** The client between fake sockets and a fake fetch: what it makes of how connections end. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Client, type State } from "../../src/index.ts";
import { FakeSocket, newestSocket, WELCOME } from "../support/fake-socket.ts";

/** Answers by method and the end of the address; anything else is not to be had. */
let answers: Map<string, () => Response>;
let asked: string[];
let client: Client;
let states: State[];

function problem(status: number, code: string): Response {
  return Response.json({ code, detail: `it is ${code}` }, { status });
}

beforeEach(async () => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance", "Date"],
  });
  vi.spyOn(Math, "random").mockReturnValue(0);
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  answers = new Map();
  asked = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    const call = `${init.method} ${new URL(url).pathname.split("/").at(-1)}`;
    asked.push(call);
    const answer = answers.get(call);
    if (answer === undefined) throw new TypeError("Failed to fetch");
    return answer();
  });
  client = await Client.open({ server: "http://h", room: "r", storage: "memory" });
  states = [];
  client.on("state", (state) => states.push(state));
});
afterEach(async () => {
  await client.close();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

async function pass(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

async function welcomed(): Promise<FakeSocket> {
  await pass();
  const socket = newestSocket();
  socket.opens();
  await pass();
  socket.says(WELCOME);
  await pass();
  return socket;
}

it("tells who one is, and is live when all is here", async () => {
  const socket = await welcomed();
  expect(client.state).toEqual({ kind: "live", transport: "websocket" });
  expect([client.id, client.role, client.unsent]).toEqual([7, 1, 0]);
  socket.ends(1006);
  await pass();
  expect(states.at(-1)).toMatchObject({ kind: "offline", draining: false });
  await pass(125);
  newestSocket().opens();
  await pass();
  newestSocket().says([65, 7, "ticket", [5, 2, 9, 1, 100], 1, [0, 0, 0, 0, 0]]);
  await pass();
  expect(states.at(-1)).toEqual({ kind: "joining", have: 0, head: 2 });
  const clear = (n: number) => [9, n, 100, [4]];
  newestSocket().says([66, 1, [clear(1), clear(2)]]);
  await pass();
  expect(states.at(-1)).toEqual({ kind: "live", transport: "websocket" });
});

it("a server that cannot be reached says nothing against sockets", async () => {
  for (let round = 0; round < 5; round += 1) {
    newestSocket().onerror?.();
    await pass();
    expect(states.at(-1)).toMatchObject({ kind: "offline", why: "the server cannot be reached" });
    await pass(125 * 2 ** round);
    expect(FakeSocket.made).toHaveLength(round + 2);
  }
  expect(asked.every((call) => call === "GET r")).toBe(true);
});

it("sockets that are refused twice by what stands before the server lead to long-polling", async () => {
  answers.set("GET r", () => Response.json({ participants: [] }));
  answers.set("POST sessions", () =>
    Response.json({ client: 7, ticket: "t", position: [1, 0, 0, 0, 0], role: 1, limits: [0, 0, 0, 0, 0] }),
  );
  for (let round = 0; round < 2; round += 1) {
    newestSocket().onerror?.();
    await pass();
    await pass(500);
  }
  expect(states.some((state) => state.kind === "live" && state.transport === "long-poll")).toBe(true);
});

it("what the server says over HTTP counts where a socket cannot say it", async () => {
  answers.set("GET r", () => problem(403, "origin_refused"));
  newestSocket().onerror?.();
  await pass();
  expect(client.state).toEqual({ kind: "refused", code: "origin_refused", message: "it is origin_refused" });
  await pass(3_600_000);
  expect(FakeSocket.made).toHaveLength(1);
  client.retry();
  await pass();
  expect(FakeSocket.made).toHaveLength(2);
});

it("4401 for the token: refused until there is a fresh one, and the ticket is kept", async () => {
  const socket = await welcomed();
  answers.set("POST sessions", () => problem(401, "invalid_token"));
  socket.ends(4401, "expired");
  await pass();
  expect(client.state).toMatchObject({ kind: "refused", code: "invalid_token" });
  client.setToken("fresh");
  await pass();
  newestSocket().opens();
  await pass();
  expect(newestSocket().frames).toEqual([[1, "ticket", null, null, "fresh"]]);
});

it("4401 for the ticket: another client id, with all that waits", async () => {
  const socket = await welcomed();
  client.clear();
  await pass(10);
  expect(socket.frames.at(-1)).toEqual([2, 1, [[4]]]);
  answers.set("POST sessions", () => problem(401, "invalid_ticket"));
  socket.ends(4401, "who?");
  await pass();
  expect(client.unsent).toBe(1);
  await pass(125);
  newestSocket().opens();
  await pass();
  newestSocket().says([65, 8, "other", [1, 0, 0, 0, 0], 1, [0, 0, 0, 0, 0]]);
  await pass(10);
  expect(client.id).toBe(8);
  expect(newestSocket().frames).toEqual([
    [1, null, null, null, null],
    [2, 1, [[4]]],
  ]);
});

it("go away: comes back after the time told, and says that it drains", async () => {
  const socket = await welcomed();
  socket.says([73, "an update", 3_000]);
  await pass();
  expect(states.at(-1)).toMatchObject({ kind: "offline", draining: true });
  await pass(2_990);
  expect(FakeSocket.made).toHaveLength(1);
  await pass(20);
  expect(FakeSocket.made).toHaveLength(2);
});

it("a server that went away is restarting until it is back, but not for ever", async () => {
  const socket = await welcomed();
  socket.says([73, "an update", 1_000]);
  await pass();
  const endsAgain = async () => {
    const made = FakeSocket.made.length;
    for (let waits = 0; waits < 40 && FakeSocket.made.length === made; waits++) await pass(500);
    newestSocket().ends(1006);
    await pass();
    return states.at(-1);
  };
  expect(await endsAgain()).toMatchObject({ kind: "offline", draining: true });
  expect(await endsAgain()).toMatchObject({ kind: "offline", draining: true });
  await pass(61_000);
  expect(await endsAgain()).toMatchObject({ kind: "offline", draining: false });
});

it("once a server was back, to be away is to be offline", async () => {
  const socket = await welcomed();
  socket.says([73, "an update", 1_000]);
  await pass(1_200);
  newestSocket().opens();
  await pass();
  newestSocket().says(WELCOME);
  await pass();
  expect(client.state.kind).toBe("live");
  newestSocket().ends(1006);
  await pass();
  expect(states.at(-1)).toMatchObject({ kind: "offline", draining: false });
});

it("4410: another identity, and nothing is sent as the old one", async () => {
  const socket = await welcomed();
  socket.ends(4410);
  await pass(200);
  newestSocket().opens();
  await pass();
  expect(newestSocket().frames).toEqual([[1, null, null, null, null]]);
});

it("a refused draw is told once, is gone, and the connection lives", async () => {
  const socket = await welcomed();
  const refused: string[] = [];
  client.on("refused", ({ code }) => refused.push(code));
  client.begin({ tool: 0, rgba: 255, width: 16 }, 0, [1, 1], true);
  client.clear();
  await pass(10);
  socket.says([72, "forbidden", "no", null, 1]);
  await pass(10);
  expect(refused).toEqual(["forbidden"]);
  expect(client.board.strokes()).toEqual([]);
  expect(socket.frames.at(-1)).toEqual([2, 1, [[4]]]);
  socket.says([67, 1, 1]);
  await pass();
  expect([client.unsent, client.state.kind]).toEqual([0, "live"]);
});

it("a listener that throws breaks nothing for the others", async () => {
  const thrown: unknown[] = [];
  const onThrown = (error: unknown) => thrown.push(error);
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", onThrown);
  client.on("welcome", () => {
    throw new Error("an application's");
  });
  const heard: number[] = [];
  client.on("welcome", ({ id }) => heard.push(id));
  await welcomed();
  await new Promise((done) => setImmediate(done));
  process.off("uncaughtException", onThrown);
  for (const other of others) process.on("uncaughtException", other);
  expect(heard).toEqual([7]);
  expect(client.state.kind).toBe("live");
  expect(thrown).toHaveLength(1);
});

it("works from memory where looking for an IndexedDB throws", async () => {
  const before = Object.getOwnPropertyDescriptor(globalThis, "indexedDB");
  Object.defineProperty(globalThis, "indexedDB", {
    configurable: true,
    get() {
      throw new DOMException("The operation is insecure.", "SecurityError");
    },
  });
  try {
    const other = await Client.open({ server: "http://h", room: "r" });
    expect(other.durable).toBe(false);
    await other.close();
  } finally {
    if (before === undefined) Reflect.deleteProperty(globalThis, "indexedDB");
    else Object.defineProperty(globalThis, "indexedDB", before);
  }
});
