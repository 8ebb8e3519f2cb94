/** Addresses, requests and what a server's refusal means. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { ask, Endpoint, JSON_TYPE } from "../../src/http.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("an address", () => {
  it("is built below the server's path", () => {
    expect(new Endpoint("http://h:1", "a.b").url("draws")).toBe("http://h:1/v1/rooms/a.b/draws");
    expect(new Endpoint("https://h/ink/?x#y", "a").websocket()).toBe("wss://h/ink/v1/rooms/a/ws");
    expect(new Endpoint("ws://h", "a").url()).toBe("http://h/v1/rooms/a");
    expect(new Endpoint("http://h", "../x").url()).toBe("http://h/v1/rooms/..%2Fx");
  });

  it.each(["", "h:1", "ftp://h", "//h", "h"])("%j is none of a server", (server) => {
    expect(() => new Endpoint(server, "a")).toThrow(TypeError);
  });
});

const REQUEST = {
  method: "GET",
  url: "http://h/",
  accept: JSON_TYPE,
  credentials: { ticket: "t", token: null },
  timeout: 1_000,
} as const;

describe("a request", () => {
  it("tells who asks, and reads a problem", async () => {
    const fetching = vi.fn(async (_url: string, init: RequestInit) => {
      const headers = new Headers(init.headers);
      expect(headers.get("Inkrelay-Ticket")).toBe("t");
      expect(headers.has("Authorization")).toBe(false);
      return new Response('{"code":"gap","detail":"no","expected":7}', { status: 409 });
    });
    vi.stubGlobal("fetch", fetching);
    const outcome = await ask(REQUEST, new AbortController().signal);
    expect(outcome).toMatchObject({ kind: "problem", problem: { status: 409, code: "gap", expected: 7 } });
    expect(fetching).toHaveBeenCalledOnce();
  });

  it("ends in time, and when it is no longer wanted", async () => {
    vi.useFakeTimers();
    vi.stubGlobal(
      "fetch",
      (_url: string, { signal }: RequestInit) =>
        new Promise((_, fail) => signal?.addEventListener("abort", () => fail(new Error("aborted")))),
    );
    const late = ask(REQUEST, new AbortController().signal);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await late).toEqual({ kind: "none", why: "the server does not answer" });
    const unwanted = new AbortController();
    const ended = ask(REQUEST, unwanted.signal);
    unwanted.abort();
    expect(await ended).toMatchObject({ kind: "none" });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("a token that no header can hold is no request", async () => {
    vi.stubGlobal("fetch", async () => new Response("{}"));
    const credentials = { ticket: null, token: "snow\u2603" };
    expect(await ask({ ...REQUEST, credentials }, new AbortController().signal)).toMatchObject({
      kind: "none",
    });
  });

  it("half an answer is none", async () => {
    const broken = new ReadableStream({ start: (controller) => controller.error(new Error("cut")) });
    vi.stubGlobal("fetch", async () => new Response(broken));
    expect(await ask(REQUEST, new AbortController().signal)).toMatchObject({ kind: "none" });
  });
});
