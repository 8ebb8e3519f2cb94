/** A relay of the tests' own: the real binary, with the board that was built into it. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Child } from "./child.ts";
import { PATIENCE, until } from "./wait.ts";

/** The project's folder. */
export const ROOT = resolve(import.meta.dirname, "../../../../..");
const BINARY = join(ROOT, "target/debug/inkrelay");
/** Bytes that a command may print. */
const PRINTED_BYTES = 256 * 1024 * 1024;

export interface RelayOptions {
  /** "embedded" keeps draws in a folder that lasts until {@link Relay.stop}; "redis" where `flags` say. Default: "memory". */
  readonly store?: "memory" | "embedded" | "redis";
  /** More flags of `inkrelay serve`, such as `--role viewer`. */
  readonly flags?: readonly string[];
}

/** The flags alone decide: a twin of one in the environment would change what is tested. */
function environment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith("INKRELAY_"));
  // A flag is stronger than this: a test may still ask for the operators' port.
  return { ...Object.fromEntries(entries), INKRELAY_LOG: "warn", INKRELAY_OPERATORS_LISTEN: "off" };
}

export class Relay {
  #child: Child;
  readonly #flags: readonly string[];
  readonly #folder: string | null;

  private constructor(
    child: Child,
    flags: readonly string[],
    folder: string | null,
    /** Always the same, also after a restart. */
    readonly port: number,
  ) {
    this.#child = child;
    this.#flags = flags;
    this.#folder = folder;
  }

  /** Starts one on a free port of loopback, and waits until it takes connections. */
  static async start(options: RelayOptions = {}): Promise<Relay> {
    const folder = options.store === "embedded" ? await mkdtemp(join(tmpdir(), "inkrelay-")) : null;
    const kept = options.store === "redis" ? [] : ["--memory"];
    const flags = [...(folder === null ? kept : ["--data", folder]), ...(options.flags ?? [])];
    const child = run(0, flags);
    return new Relay(child, flags, folder, await portOf(child));
  }

  /** The address of the board, without a slash at its end. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The address of the operators' page, where `flags` ask for one. */
  async operators(): Promise<string> {
    const [, url] = await this.#child.line(/for operators: (http:\S+)/);
    if (url === undefined) throw new Error("the relay names no address for operators");
    return url;
  }

  /** Has a listener told of every line that it prints from now on, until it is started again. */
  hear(heard: (line: string) => void): void {
    this.#child.hear(heard);
  }

  /** `kill -9`: no time to finish anything. */
  async kill(): Promise<void> {
    await this.#child.kill();
  }

  /** SIGSTOP: it keeps its connections and answers nothing, until {@link Relay.resume}. */
  pause(): void {
    this.#child.signal("SIGSTOP");
  }

  resume(): void {
    this.#child.signal("SIGCONT");
  }

  /** SIGTERM: it finishes what it has begun, tells everyone to come back, and ends. */
  async terminate(): Promise<void> {
    await this.#child.end();
  }

  /** Starts again on the same port and over the same store, after killing what still runs. */
  async restart(): Promise<void> {
    await this.kill();
    // Another process may hold the port for a moment.
    this.#child = await until(`the relay is back on port ${this.port}`, async () => {
      const child = run(this.port, this.#flags);
      try {
        await portOf(child);
        return child;
      } catch (error) {
        await child.kill();
        if (!String(error).includes("in use")) throw error;
        return undefined;
      }
    });
  }

  /** Ends it and forgets its draws. */
  async stop(): Promise<void> {
    this.resume();
    await this.#child.kill();
    if (this.#folder !== null) await rm(this.#folder, { recursive: true, force: true });
  }

  /** What another command of the binary prints when it is run against this relay, such as `board ROOM --svg -`. */
  async command(...args: string[]): Promise<string> {
    const env = { ...environment(), INKRELAY_SERVER: this.url };
    const options = { env, maxBuffer: PRINTED_BYTES, timeout: PATIENCE };
    return (await promisify(execFile)(BINARY, args, options)).stdout;
  }
}

function run(port: number, flags: readonly string[]): Child {
  return new Child(BINARY, ["serve", "--listen", `127.0.0.1:${port}`, ...flags], environment());
}

/** The port that its first line names; it accepts connections by then. */
async function portOf(child: Child): Promise<number> {
  const line = await child.line(/listens on http:\/\/127\.0\.0\.1:(\d+)\s*$/);
  return Number(line[1]);
}
