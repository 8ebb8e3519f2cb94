/** A session over a socket, with a socket of the test's own. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Outbox } from "../../src/outbox.ts";
import { type Ended, type Listener, Session } from "../../src/session.ts";
import { openSocket, SocketRun } from "../../src/websocket.ts";
import { FakeSocket, newestSocket as newest, WELCOME } from "../support/fake-socket.ts";

const TIMING = { open: 1_000, silence: 5_000, probe: 500, answer: 2_000 };
const nobody: Listener = {
  onWelcome: () => {},
  onRecords: () => {},
  onReset: () => {},
  onRefused: () => {},
  onOutbox: () => {},
  onProgress: () => {},
  onParticipants: () => {},
  onLocked: () => {},
  onPointer: () => {},
};

let outbox: Outbox;
let ended: Ended | null;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  outbox = new Outbox(4);
  ended = null;
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

async function open(): Promise<{ run: SocketRun; socket: FakeSocket }> {
  const opening = openSocket("ws://h/ws", 1_000, new AbortController().signal);
  const socket = newest();
  socket.opens();
  const opened = await opening;
  if (typeof opened === "string") throw new Error(opened);
  const run = new SocketRun(opened, null, "ws://h/ws", new Session(outbox, nobody, null, null), TIMING);
  void run.ended.then((end) => {
    ended = end;
  });
  return { run, socket };
}

it("asks for the subprotocol, and gives up in time", async () => {
  const opening = openSocket("ws://h/ws", 1_000, new AbortController().signal);
  expect(newest().protocol).toBe("v1.msgpack.inkrelay");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await opening).toBe("no WebSocket could be opened in time");
  expect(newest().closed).toBeDefined();
});

it("a welcome that does not come ends it", async () => {
  const { socket } = await open();
  expect(socket.sent).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1_005);
  expect(ended).toMatchObject({ kind: "lost", blame: true });
  expect(socket.closed).toBe(1000);
});

it("silence ends it, and every word puts that off", async () => {
  const { socket } = await open();
  socket.says(WELCOME);
  for (let beat = 0; beat < 3; beat += 1) {
    await vi.advanceTimersByTimeAsync(4_900);
    socket.says([71, [1, 0, 0, 0, 0]]);
  }
  expect(ended).toBeNull();
  await vi.advanceTimersByTimeAsync(5_005);
  expect(ended).toMatchObject({ kind: "lost" });
  expect(vi.getTimerCount()).toBe(0);
});

it("draws without an answer end it", async () => {
  const { socket } = await open();
  socket.says(WELCOME);
  outbox.push({ kind: "clear" });
  const changes = outbox.changes();
  outbox.onPersisted(changes?.revision ?? 0);
  socket.says([71, [1, 0, 0, 0, 0]]);
  await vi.advanceTimersByTimeAsync(10);
  expect(socket.sent).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(2_005);
  expect(ended).toMatchObject({ kind: "lost", why: "the server did not answer to draws" });
});

it.each([
  [1000, { kind: "lost", blame: true }],
  [1001, { kind: "lost", blame: false, draining: true }],
  [1006, { kind: "lost", blame: true, why: "the connection broke" }],
  [1008, { kind: "refused", code: "1008" }],
  [1009, { kind: "refused", code: "1009" }],
  [1013, { kind: "lost", blame: false }],
  [4400, { kind: "refused", code: "4400" }],
  [4401, { kind: "unauthorized" }],
  [4408, { kind: "lost", blame: true }],
  [4409, { kind: "lost", blame: false }],
  [4410, { kind: "replaced" }],
] as const)("close code %i", async (code, end) => {
  const { socket } = await open();
  socket.onclose?.({ code, reason: "" });
  await vi.advanceTimersByTimeAsync(0);
  expect(ended).toMatchObject(end);
});

it("bytes that are no frame, and text, end it", async () => {
  for (const data of [new Uint8Array([0xc1]).buffer, "text"]) {
    const { socket } = await open();
    socket.onmessage?.({ data });
    await vi.advanceTimersByTimeAsync(0);
    expect(ended).toMatchObject({ kind: "lost" });
  }
});

it("go away says when to come back", async () => {
  const { socket } = await open();
  socket.says([73, "soon", 1_234]);
  await vi.advanceTimersByTimeAsync(0);
  expect(ended).toMatchObject({ kind: "lost", retryMs: 1_234, draining: true, blame: false });
});

it("waking up: whichever is heard of first, the socket or another, is the one to go on with", async () => {
  const { run, socket } = await open();
  socket.says(WELCOME);
  await vi.advanceTimersByTimeAsync(900);
  void run.wake();
  expect(FakeSocket.made).toHaveLength(1);
  for (let round = 0; round < 2; round += 1) {
    await vi.advanceTimersByTimeAsync(1_100);
    void run.wake();
    void run.wake();
    expect(FakeSocket.made).toHaveLength(2 + round);
    socket.says([71, [1, 0, 0, 0, 0]]);
    await vi.advanceTimersByTimeAsync(600);
    expect(newest().closed).toBeDefined();
    expect(ended).toBeNull();
  }
  await vi.advanceTimersByTimeAsync(1_100);
  void run.wake();
  newest().opens();
  await vi.advanceTimersByTimeAsync(0);
  expect(ended).toEqual({ kind: "moved", socket: newest(), older: socket });
  // It is the new one's welcome that ends the old one.
  expect(socket.closed).toBeUndefined();
});

it("waking up without a network ends it in time", async () => {
  const { run, socket } = await open();
  socket.says(WELCOME);
  await vi.advanceTimersByTimeAsync(1_100);
  void run.wake();
  await vi.advanceTimersByTimeAsync(505);
  expect(ended).toMatchObject({ kind: "lost", blame: false });
});

it("a network that takes nothing is given nothing more", async () => {
  const { socket } = await open();
  socket.says(WELCOME);
  socket.bufferedAmount = 10_000_000;
  outbox.push({ kind: "clear" });
  outbox.onPersisted(outbox.changes()?.revision ?? 0);
  socket.says([71, [1, 0, 0, 0, 0]]);
  await vi.advanceTimersByTimeAsync(200);
  expect(socket.sent).toHaveLength(1);
  socket.bufferedAmount = 0;
  await vi.advanceTimersByTimeAsync(60);
  expect(socket.sent).toHaveLength(2);
});
