/** A relay: the real server, on a port of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const BINARY = resolve(import.meta.dirname, "../../../../target/debug/inkrelay");
/** For a debug build on a machine with much else to do. */
const START_MS = 30_000;
const STOP_MS = 30_000;

export class Relay {
  readonly #process: ChildProcess;
  readonly url: string;

  private constructor(process: ChildProcess, url: string) {
    this.#process = process;
    this.url = url;
  }

  /** Starts with these arguments, else in memory; on a free port unless they say which. */
  static start(args: readonly string[] = ["--memory"]): Promise<Relay> {
    if (!existsSync(BINARY)) throw new Error(`${BINARY} is missing: cargo build -p inkrelay-server`);
    const listen = args.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
    const env = { ...process.env, INKRELAY_OPERATORS_LISTEN: "off" };
    const child = spawn(BINARY, ["serve", ...args, ...listen], { env, stdio: ["ignore", "pipe", "pipe"] });
    return new Promise((done, fail) => {
      let said = "";
      const timer = setTimeout(() => {
        child.kill("SIGKILL");
        fail(new Error(`the relay did not start: ${said}`));
      }, START_MS);
      const hear = (chunk: Buffer) => {
        said = (said + chunk.toString()).slice(-10_000);
        const url = /listens on (http:\/\/\S+)/.exec(said)?.[1];
        if (url === undefined) return;
        clearTimeout(timer);
        done(new Relay(child, url));
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.on("exit", () => {
        clearTimeout(timer);
        fail(new Error(`the relay ended: ${said}`));
      });
    });
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** As a crash: nothing is written or told any more. */
  kill(): Promise<void> {
    return this.#end("SIGKILL");
  }

  /** As an operator does: it drains. */
  stop(): Promise<void> {
    return this.#end("SIGTERM");
  }

  #end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const child = this.#process;
    if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
    return new Promise((done) => {
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      child.once("exit", () => {
        clearTimeout(timer);
        done();
      });
      child.kill(signal);
    });
  }
}
