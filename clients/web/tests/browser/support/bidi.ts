/** A connection of WebDriver BiDi: commands with answers, over one WebSocket. */
import { WebSocket } from "ws";
import type { Json } from "./browser.ts";
import { inTime } from "./wait.ts";

/** Bytes of one message: a screenshot, or the pixels of a canvas. */
const MESSAGE_BYTES = 256 * 1024 * 1024;

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export class Bidi {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data: Buffer) => this.#take(data.toString("utf8")));
    socket.on("close", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("the browser hung up"));
      this.#waiting.clear();
    });
    socket.on("error", () => socket.terminate());
  }

  static async connect(url: string): Promise<Bidi> {
    const socket = new WebSocket(url, { maxPayload: MESSAGE_BYTES });
    const open = new Promise<void>((resolve, reject) => {
      socket.once("open", resolve).once("error", reject);
    });
    await inTime("the browser to take a connection", open);
    return new Bidi(socket);
  }

  /** Sends a command, and returns its result. Throws what the browser says is wrong. */
  async send(method: string, params: { readonly [key: string]: Json | undefined }): Promise<unknown> {
    const id = this.#next++;
    const answer = new Promise<unknown>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    this.#socket.send(JSON.stringify({ id, method, params }));
    try {
      return await inTime(`the answer to ${method}`, answer, 120_000);
    } finally {
      this.#waiting.delete(id);
    }
  }

  close(): void {
    this.#socket.terminate();
  }

  #take(text: string): void {
    const message: unknown = JSON.parse(text);
    const id = member(message, "id");
    const waiting = typeof id === "number" ? this.#waiting.get(id) : undefined;
    if (member(message, "type") === "success") waiting?.resolve(member(message, "result"));
    else waiting?.reject(new Error(`${member(message, "error")}: ${member(message, "message")}`));
  }
}

/** A member of what came as JSON; `undefined` where there is none. */
export function member(value: unknown, ...path: string[]): unknown {
  let found: unknown = value;
  for (const name of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = Object.getOwnPropertyDescriptor(found, name)?.value;
  }
  return found;
}

/** A member that is text. Throws when it is not. */
export function text(value: unknown, ...path: string[]): string {
  const found = member(value, ...path);
  if (typeof found !== "string") throw new Error(`${path.join(".")} is no text in ${JSON.stringify(value)}`);
  return found;
}
