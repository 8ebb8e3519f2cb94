/** People: clients of a relay, and what they draw, for tests in Node. */
import { WebSocket } from "ws";
import { Board } from "../../src/board.ts";
import {
  Client,
  type ClientOptions,
  type LogRecord,
  type State,
  type Style,
  type Timing,
} from "../../src/index.ts";
import { until } from "./until.ts";

Object.assign(globalThis, { WebSocket });

export const PEN: Style = { tool: 0, rgba: 0x1a2b3cff, width: 32 };

/** Waits that suit a test: every one of them shorter, none of them left out. */
export const QUICK: Partial<Timing> = {
  open: 2_000,
  probe: 1_000,
  young: 1_000,
  socketAgain: 1_500,
  backoffFirst: 50,
  backoffMax: 400,
  poll: 5_000,
  answer: 4_000,
};

const rooms = { count: 0 };

/** A room that no other test uses. */
export function newRoom(): string {
  rooms.count += 1;
  return `room-${process.pid}-${rooms.count}`;
}

/** A client that remembers what it was told. */
export class Person {
  readonly states: State[] = [];
  readonly refused: { readonly code: string; readonly message: string }[] = [];

  private constructor(
    readonly client: Client,
    readonly window: EventTarget,
  ) {
    client.on("state", (state) => this.states.push(state));
    client.on("refused", (refused) => this.refused.push(refused));
  }

  static async open(server: string, room: string, options: Partial<ClientOptions> = {}): Promise<Person> {
    const timing = { ...QUICK, ...options.timing };
    const window = new EventTarget();
    // Each has a page of its own; the client looks for it while it opens.
    Object.assign(globalThis, { window });
    const client = await Client.open({ server, room, storage: "memory", ...options, timing });
    Reflect.deleteProperty(globalThis, "window");
    return new Person(client, window);
  }

  /** As a device that wakes up. */
  wake(): void {
    this.window.dispatchEvent(new Event("online"));
  }

  goOffline(): void {
    this.window.dispatchEvent(new Event("offline"));
  }

  get isLive(): boolean {
    return this.client.state.kind === "live";
  }

  live(transport?: "websocket" | "long-poll"): Promise<void> {
    return until(
      () => {
        const { state } = this.client;
        return state.kind === "live" && (transport === undefined || state.transport === transport);
      },
      () => [this.client.state, this.states.slice(-5)],
    );
  }

  /** All that was drawn is stored. */
  saved(): Promise<void> {
    return until(
      () => this.client.unsent === 0,
      () => [this.client.unsent, this.client.state],
    );
  }

  /** Draws a whole stroke through these points. */
  stroke(points: readonly (readonly [number, number])[]): number {
    const [first = [0, 0] as const, ...rest] = points;
    const stroke = this.client.begin(PEN, 0, first, rest.length === 0);
    let [x, y] = first;
    rest.forEach(([toX, toY], index) => {
      this.client.extend(stroke, [toX - x, toY - y], index === rest.length - 1);
      [x, y] = [toX, toY];
    });
    return stroke;
  }

  /** What shows, as text: each stroke's points, in the order in which they are painted. */
  get picture(): string[] {
    return this.client.board.strokes().map(({ values }) => values.join(" "));
  }

  shows(picture: readonly string[]): Promise<void> {
    return until(
      () => JSON.stringify(this.picture) === JSON.stringify(picture),
      () => [this.picture, this.client.state],
    );
  }
}

/** What the relay itself holds: the room's log, read by someone who takes no part. */
export async function logOf(server: string, room: string): Promise<LogRecord[]> {
  const reader = await Client.open({
    server,
    room,
    storage: "memory",
    transport: "long-poll",
    timing: QUICK,
  });
  const records: LogRecord[] = [];
  for await (const page of reader.history()) records.push(...page.records);
  await reader.close();
  return records;
}

/** What a log draws: each stroke's points. */
export function pictureOf(records: readonly LogRecord[]): string[] {
  const board = new Board();
  for (const record of records) board.apply(record);
  return board.strokes().map(({ values }) => values.join(" "));
}
