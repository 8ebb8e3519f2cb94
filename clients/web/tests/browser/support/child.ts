/** A child process: started, listened to, and ended by its own id. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { inTime } from "./wait.ts";

/** Lines of output that are kept to say why something failed. */
const KEPT_LINES = 40;
/** How long a child that was asked to end may take, in milliseconds. */
const END_TIME = 15_000;

/** Those that still run, so that none outlives the tests when these are cut short. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export class Child {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #lines: string[] = [];
  readonly #listeners = new Set<(line: string | null) => void>();
  readonly #ended: Promise<void>;
  #running = true;

  /** Starts a program. What it prints, on both streams, is read all the time. */
  constructor(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
    this.#name = program;
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    running.add(child);
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => this.#tell(line));
    }
    this.#ended = new Promise((resolve) => {
      const ended = () => {
        this.#running = false;
        running.delete(child);
        this.#tell(null);
        resolve();
      };
      child.once("exit", ended);
      child.once("error", (error) => {
        this.#tell(String(error));
        ended();
      });
    });
  }

  get isRunning(): boolean {
    return this.#running;
  }

  /** The last lines that it printed. */
  get said(): string {
    return this.#lines.join("\n");
  }

  /** The first match in a line that it has printed or will print. Throws when it ends before, or after `within` ms. */
  async line(pattern: RegExp, within?: number): Promise<RegExpExecArray> {
    const found = new Promise<RegExpExecArray>((resolve, reject) => {
      const look = (line: string | null) => {
        const match = line === null ? null : pattern.exec(line);
        if (match) resolve(match);
        else if (line === null) reject(new Error(`${this.#name} ended early:\n${this.said}`));
        else return;
        this.#listeners.delete(look);
      };
      this.#listeners.add(look);
      for (const line of [...this.#lines]) look(line);
      if (!this.#running) look(null);
    });
    return inTime(`${this.#name} to print ${pattern}`, found, within);
  }

  /** Has a listener told of every line from now on. */
  hear(heard: (line: string) => void): void {
    this.#listeners.add((line) => {
      if (line !== null) heard(line);
    });
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#running) this.#child.kill(signal);
  }

  /** Asks it to end, and kills it when it does not. */
  async end(): Promise<void> {
    this.signal("SIGTERM");
    try {
      await inTime(`${this.#name} to end`, this.#ended, END_TIME);
    } catch {
      await this.kill();
    }
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.#ended;
  }

  #tell(line: string | null): void {
    if (line !== null) {
      this.#lines.push(line);
      if (this.#lines.length > KEPT_LINES) this.#lines.shift();
    }
    for (const listener of [...this.#listeners]) listener(line);
  }
}
