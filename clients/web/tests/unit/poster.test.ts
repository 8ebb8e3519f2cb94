/** POSTs of draws: answers, refusals and silence. */
import { decode } from "@msgpack/msgpack";
import { afterEach, expect, it, vi } from "vitest";
import { Endpoint } from "../../src/http.ts";
import { Outbox, type Refused } from "../../src/outbox.ts";
import { START } from "../../src/position.ts";
import { Poster } from "../../src/poster.ts";
import { type Ended, type Listener, Session } from "../../src/session.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Posts that many clears to a server that answers so; resolves when the session ends or all is settled. */
async function post(count: number, answer: (n: number, draws: number) => Response | null) {
  const outbox = new Outbox(1);
  const refused: Refused[] = [];
  const abort = new AbortController();
  const batches: [n: number, draws: number][] = [];
  vi.stubGlobal("fetch", async (_url: string, init: RequestInit) => {
    const n = Number(new Headers(init.headers).get("Inkrelay-N"));
    const draws = decode(init.body instanceof ArrayBuffer ? init.body : new ArrayBuffer(0));
    const length = Array.isArray(draws) ? draws.length : 0;
    batches.push([n, length]);
    const response = answer(n, length);
    if (response === null) throw new TypeError("Failed to fetch");
    return response;
  });
  const ended = await new Promise<Ended | null>((done) => {
    const listener: Listener = {
      onWelcome: () => {},
      onRecords: () => {},
      onReset: () => {},
      onProgress: () => {},
      onParticipants: () => {},
      onLocked: () => {},
      onPointer: () => {},
      onRefused: (list) => refused.push(...list),
      onOutbox: () => {
        const changes = outbox.changes();
        if (changes !== null) outbox.onPersisted(changes.revision);
        session.wake();
        if (outbox.pending === 0) done(null);
      },
    };
    const session = new Session(outbox, listener, null, null);
    const limits = { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN: 0 };
    for (let draw = 0; draw < count; draw += 1) outbox.push({ kind: "clear" });
    const poster = new Poster(new Endpoint("http://h", "r"), session, 1_000, abort.signal, done);
    session.sendBy(() => poster.send());
    session.onWelcome({ client: 7, ticket: "t", position: START, role: 1, limits }, performance.now());
  });
  abort.abort();
  return { ended, refused: refused.map(({ id, code }) => [id, code]), batches, pending: outbox.pending };
}

const stored = (seq: number, count: number) =>
  Response.json({ seq, position: [2, seq, 7, 1, 1], stored: count });
const problem = (status: number, body: object) => Response.json(body, { status });

it("stored: all of them", async () => {
  const { ended, batches, pending } = await post(3, stored);
  expect([ended, batches, pending]).toEqual([null, [[1, 3]], 0]);
});

it("refused by index: that one is gone, and the others go again", async () => {
  let answers = 0;
  const { refused, batches, pending } = await post(3, (n, draws) => {
    answers += 1;
    return answers === 1 ? problem(422, { code: "invalid_draw", index: 1 }) : stored(n, draws);
  });
  expect(refused).toEqual([[2, "invalid_draw"]]);
  expect(batches).toEqual([
    [1, 3],
    [1, 2],
  ]);
  expect(pending).toBe(0);
});

it("refused without a word on which, by a proxy: one by one", async () => {
  let isFound = false;
  const { refused, batches } = await post(3, (n, draws) => {
    const isAtFault = n === 2 && !isFound;
    if (draws > 1 || isAtFault) {
      isFound ||= draws === 1;
      return new Response("<html>", { status: 413 });
    }
    return stored(n, draws);
  });
  expect(refused).toEqual([[2, "too_large"]]);
  expect(batches[0]).toEqual([1, 3]);
  expect(batches.slice(1).every(([, draws]) => draws === 1)).toBe(true);
});

it.each([
  ["a token", 401, "invalid_token"],
  ["an origin", 403, "origin_refused"],
  ["a room", 404, "not_found"],
])("%s that is refused takes no draw with it", async (_what, status, code) => {
  const { ended, refused, pending } = await post(2, () => problem(status, { code, detail: "no" }));
  expect(ended).toMatchObject({ kind: "refused", code });
  expect([refused, pending]).toEqual([[], 2]);
});

it("a full room refuses", async () => {
  const { refused } = await post(2, () => problem(413, { code: "room_full" }));
  expect(refused.map(([, code]) => code)).toEqual(["room_full", "room_full"]);
});

it("a page of a proxy's, no answer, and 200 from somebody else: unknown, and kept", async () => {
  for (const answer of [
    () => new Response("<html>", { status: 502 }),
    () => null,
    () => new Response("hi"),
  ]) {
    const { ended, refused, pending } = await post(2, answer);
    expect(ended).toMatchObject({ kind: "lost" });
    expect([refused, pending]).toEqual([[], 2]);
  }
});
