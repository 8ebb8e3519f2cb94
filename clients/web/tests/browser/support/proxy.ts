/** A proxy in front of a relay that misbehaves as networks do. It copies bytes, and reads only the first of them. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { sleep } from "./wait.ts";

/** What happens to connections; each setting holds for those that are open and for those that come. */
export interface Weather {
  /** Nothing gets through, and nothing says so: what is sent is held until this is lifted. */
  stalled: boolean;
  /** Connections are reset as soon as they come. Those that are open are not: see {@link ProxyServer.cut}. */
  offline: boolean;
  /** What becomes of WebSocket handshakes: "refuse" answers 403, "reset" resets; other requests pass. */
  sockets: "pass" | "refuse" | "reset";
  /** Bytes towards the browser that a WebSocket lives for; then it is cut, in the middle of a frame if need be. */
  socketBytes: number;
  /** Milliseconds that a WebSocket lives for. */
  socketTime: number;
  /** Milliseconds by which each piece of data is late, in both directions. */
  delay: number;
  /** Bytes a second towards the browser, for a slow join. */
  bytesPerSecond: number;
  /** What the relay says over WebSockets is lost on the way; what the browser says arrives. */
  muted: boolean;
}

const FAIR: Weather = {
  stalled: false,
  offline: false,
  sockets: "pass",
  socketBytes: Number.POSITIVE_INFINITY,
  socketTime: Number.POSITIVE_INFINITY,
  delay: 0,
  bytesPerSecond: Number.POSITIVE_INFINITY,
  muted: false,
};

/** Bytes that are on their way at once in one direction of a late connection. */
const LATE_BYTES = 1024 * 1024;
/** Bytes of a request in which its header has to end. */
const HEADER_BYTES = 16 * 1024;
const UPGRADE = /\r\nupgrade: *websocket\r\n/i;
const FORBIDDEN = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/** Both ends of one connection. */
interface Pair {
  readonly browser: Socket;
  relay: Socket | null;
  isSocket: boolean;
  /** Nothing comes through any more, and nothing says so. */
  isHeld: boolean;
}

export class ProxyServer {
  weather: Weather = { ...FAIR };
  /** WebSocket handshakes that came, whatever became of them. */
  handshakes = 0;
  /** Connections that came. */
  connections = 0;
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  readonly #port: number;

  private constructor(port: number) {
    this.#port = port;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (browser) => this.#take(browser));
  }

  /** Listens on a free port of loopback in front of the relay at that port. */
  static async start(port: number): Promise<ProxyServer> {
    const proxy = new ProxyServer(port);
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the proxy listens no more");
    return `http://127.0.0.1:${address.port}`;
  }

  /** Fine weather again. Connections that stalled go on. */
  clear(): void {
    this.set(FAIR);
  }

  /** Changes the weather, now. */
  set(change: Partial<Weather>): void {
    this.weather = { ...this.weather, ...change };
    for (const { browser, relay, isHeld } of this.#pairs) {
      for (const socket of [browser, relay]) {
        if (this.weather.stalled || isHeld) socket?.pause();
        else socket?.resume();
      }
    }
  }

  /** Resets what is open: everything, or only the WebSockets. */
  cut(what: "all" | "sockets" = "all"): void {
    for (const pair of [...this.#pairs]) if (what === "all" || pair.isSocket) reset(pair);
  }

  /**
   * What is open now carries nothing any more, and stays open at both ends: as behind a router that forgot it. What
   * comes later is not concerned. The function returned tells both ends at last.
   */
  hold(): () => void {
    const held = [...this.#pairs];
    for (const pair of held) {
      pair.isHeld = true;
      pair.browser.pause();
      pair.relay?.pause();
    }
    return () => {
      for (const pair of held) reset(pair);
    };
  }

  /** As if the network were gone: nothing new comes through, and what is open is cut. */
  goOffline(): void {
    this.set({ offline: true });
    this.cut();
  }

  goOnline(): void {
    this.set({ offline: false });
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.cut();
    await closed;
  }

  #take(browser: Socket): void {
    this.connections += 1;
    browser.on("error", () => {});
    if (this.weather.offline) {
      browser.resetAndDestroy();
      return;
    }
    const pair: Pair = { browser, relay: null, isSocket: false, isHeld: false };
    this.#pairs.add(pair);
    browser.once("close", () => {
      this.#pairs.delete(pair);
      pair.relay?.destroy();
    });
    this.#copy(pair, browser, () => this.#relayOf(pair), true);
    if (this.weather.stalled) browser.pause();
  }

  /** Connects to the relay when the browser has said something. */
  #relayOf(pair: Pair): Socket {
    if (pair.relay !== null) return pair.relay;
    const relay = connect({ port: this.#port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
    pair.relay = relay;
    // A relay that is down resets whoever comes.
    relay.on("error", () => reset(pair));
    relay.once("close", () => pair.browser.destroy());
    this.#copy(pair, relay, () => pair.browser, false);
    return relay;
  }

  /** Copies one direction. A slow receiver slows the sender, piece by piece. */
  #copy(pair: Pair, from: Socket, to: () => Socket, isFromBrowser: boolean): void {
    let head = isFromBrowser ? Buffer.alloc(0) : null;
    let told = 0;
    let late = 0;
    let last: Promise<void> = Promise.resolve();
    from.on("data", (data: Buffer) => {
      const came = performance.now();
      late += data.length;
      // A late network is no narrow one: what comes meanwhile is on its way as well.
      if (this.weather.delay === 0 || late > LATE_BYTES) from.pause();
      last = last.then(async () => {
        if (isFromBrowser && !pair.isSocket) {
          head = Buffer.concat([head ?? Buffer.alloc(0), data]).subarray(-HEADER_BYTES);
          const isHandshake = UPGRADE.test(head.toString("latin1"));
          if (isHandshake && !this.#handshake(pair)) return;
          if (isHandshake || head.includes("\r\n\r\n")) head = Buffer.alloc(0);
        }
        const { delay, bytesPerSecond, socketBytes } = this.weather;
        if (delay > 0) await sleep(Math.max(0, came + delay - performance.now()));
        late -= data.length;
        let piece = data;
        if (!isFromBrowser) {
          if (bytesPerSecond < Number.POSITIVE_INFINITY) await sleep((data.length / bytesPerSecond) * 1000);
          if (pair.isSocket && told + data.length > socketBytes) piece = data.subarray(0, socketBytes - told);
          told += piece.length;
        }
        const isLost = this.weather.muted && pair.isSocket && !isFromBrowser;
        if (!isLost && !pair.isHeld) await write(to(), piece);
        if (piece.length < data.length) return reset(pair);
        if (!this.weather.stalled && !pair.isHeld) from.resume();
      });
    });
    from.once("end", () => {
      last = last.then(() => {
        if (isFromBrowser && pair.relay === null) pair.browser.destroy();
        else to().end();
      });
    });
  }

  /** Whether a WebSocket may come about. */
  #handshake(pair: Pair): boolean {
    this.handshakes += 1;
    if (this.weather.sockets === "refuse") {
      pair.browser.write(FORBIDDEN);
      pair.browser.destroySoon();
      return false;
    }
    if (this.weather.sockets === "reset") {
      reset(pair);
      return false;
    }
    pair.isSocket = true;
    if (this.weather.socketTime < Number.POSITIVE_INFINITY) {
      const timer = setTimeout(() => reset(pair), this.weather.socketTime);
      pair.browser.once("close", () => clearTimeout(timer));
    }
    return true;
  }
}

function reset(pair: Pair): void {
  pair.browser.resetAndDestroy();
  pair.relay?.resetAndDestroy();
}

/** Resolves when the piece has left, or the connection has. */
function write(socket: Socket, piece: Buffer): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed || socket.writableEnded) resolve();
    else socket.write(piece, () => resolve());
  });
}
