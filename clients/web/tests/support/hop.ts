/** A hop: what stands between client and relay, and fails as networks do. */
import { connect, createServer, type Server, type Socket } from "node:net";

/** Bytes of a request that are looked at. */
const HEAD_BYTES_MAX = 16 * 1024;

export class Hop {
  readonly #server: Server;
  readonly #pairs = new Set<{
    readonly client: Socket;
    readonly relay: Socket;
    isUpgrade: boolean;
    isMute: boolean;
  }>();
  #target: number;
  /** Answers upgrades with 403, as company proxies do. */
  refusesSockets = false;
  /** Takes connections and ends them at once. */
  refusesAll = false;
  /** Passes nothing on in either direction, and ends nothing: a network that is gone without a word. */
  #isHeld = false;
  /** How many answers to POSTs of draws are still to be swallowed. */
  swallows = 0;
  /** Upgrades and POSTs of draws that came by. */
  upgrades = 0;
  posts = 0;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.#target = target;
  }

  static async start(target: number): Promise<Hop> {
    const server = createServer();
    const hop = new Hop(server, target);
    server.on("connection", (client) => hop.#pass(client));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return hop;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the hop does not listen");
    return `http://127.0.0.1:${address.port}`;
  }

  /** Cuts every connection, as a lost network does. */
  cut(): void {
    for (const { client, relay } of this.#pairs) {
      client.resetAndDestroy();
      relay.resetAndDestroy();
    }
  }

  /** Cuts the WebSockets alone. */
  cutSockets(): void {
    for (const { client, relay, isUpgrade } of this.#pairs) {
      if (!isUpgrade) continue;
      client.resetAndDestroy();
      relay.resetAndDestroy();
    }
  }

  get openSockets(): number {
    return [...this.#pairs].filter(({ isUpgrade }) => isUpgrade).length;
  }

  /** From now on what the relay says over open WebSockets is lost on the way. */
  muteSockets(): void {
    for (const pair of this.#pairs) pair.isMute = pair.isUpgrade;
  }

  /** From now on the open connections pass nothing on; new ones do, unless `all`. */
  hold(all = false): void {
    this.#isHeld = all;
    for (const { client, relay } of this.#pairs) {
      client.pause();
      relay.pause();
    }
  }

  release(): void {
    this.#isHeld = false;
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise<void>((done) => this.#server.close(() => done()));
  }

  #pass(client: Socket): void {
    client.on("error", () => {});
    if (this.refusesAll) {
      client.resetAndDestroy();
      return;
    }
    const relay = connect(this.#target, "127.0.0.1");
    const pair = { client, relay, isUpgrade: false, isMute: false };
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      client.destroy();
      relay.destroy();
    };
    relay.on("error", end);
    relay.on("close", end);
    client.on("close", end);
    let isSwallowed = false;
    client.on("data", (bytes) => {
      const head = bytes.subarray(0, HEAD_BYTES_MAX).toString("latin1");
      if (/^GET [^\r]*\/ws HTTP/.test(head) && /\r\nupgrade: websocket/i.test(head)) {
        this.upgrades += 1;
        pair.isUpgrade = true;
        if (this.refusesSockets) {
          client.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
          return;
        }
      }
      if (/^POST [^\r]*\/draws HTTP/.test(head)) {
        this.posts += 1;
        if (this.swallows > 0) {
          this.swallows -= 1;
          isSwallowed = true;
        }
      }
      if (!this.#isHeld) relay.write(bytes);
    });
    relay.on("data", (bytes) => {
      if (this.#isHeld || pair.isMute) return;
      if (isSwallowed) client.resetAndDestroy();
      else client.write(bytes);
    });
  }
}
