/** A Redis server of the tests' own: on a free port of loopback, in a folder that ends with it. */
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Child } from "./child.ts";
import { until } from "./wait.ts";

const EXECUTABLE = "redis-server";

export class Redis {
  #child: Child;
  readonly #folder: string;
  readonly #port: number;
  readonly #isDurable: boolean;

  private constructor(child: Child, folder: string, port: number, isDurable: boolean) {
    this.#child = child;
    this.#folder = folder;
    this.#port = port;
    this.#isDurable = isDurable;
  }

  /** `durable`: it syncs its append-only file before every answer. Else it forgets everything when it ends. */
  static async start(durable: boolean): Promise<Redis> {
    const folder = await mkdtemp(join(tmpdir(), "inkrelay-redis-"));
    const port = await freePort();
    const redis = new Redis(run(folder, port, durable), folder, port, durable);
    await redis.#ready();
    return redis;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}/`;
  }

  /** As `SHUTDOWN NOSAVE`, or a crash: nothing is written any more. */
  async kill(): Promise<void> {
    await this.#child.kill();
  }

  /** Starts again on the same port, with what it kept. */
  async restart(): Promise<void> {
    await this.kill();
    this.#child = run(this.#folder, this.#port, this.#isDurable);
    await this.#ready();
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #ready(): Promise<void> {
    await until("redis-server answers", async () => {
      if (!this.#child.isRunning) throw new Error(`redis-server ended early:\n${this.#child.said}`);
      return (await ping(this.#port)).startsWith("+PONG");
    });
  }
}

function run(folder: string, port: number, durable: boolean): Child {
  const file = durable ? ["--appendonly", "yes", "--appendfsync", "always"] : ["--appendonly", "no"];
  const place = ["--bind", "127.0.0.1", "--port", String(port), "--dir", folder];
  return new Child(EXECUTABLE, [...place, "--save", "", ...file]);
}

/** What it answers; empty when nothing. */
function ping(port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    socket.once("data", (data) => {
      resolve(data.toString());
      socket.destroy();
    });
    socket.once("error", () => resolve(""));
    socket.once("close", () => resolve(""));
  });
}

/** A port that nobody listens on at this moment. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => {
        if (address === null || typeof address === "string") reject(new Error("no port"));
        else resolve(address.port);
      });
    });
  });
}
