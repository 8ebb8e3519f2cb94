/** The states of the page that people meet, by name. */
import type { AppState } from "../../../app/app-state.ts";
import type { Participant } from "../../../src/index.ts";
import { landscape } from "./drawing.ts";
import { type FakeClient, OWN_ID } from "./fake-client.ts";

const OTHERS: readonly Participant[] = [
  { client: 21, name: "Mira Okafor", rgba: 0xc92a35ff },
  { client: 22, name: "Jonas", rgba: 0x0b7285ff },
  { client: 23, name: "Quiet Heron", rgba: 0x8f6400ff },
  { client: 24, name: "Bartholomew Featherstonehaugh-Cholmondeley", rgba: 0x6741d9ff },
  { client: 25, name: "", rgba: 0 },
];

/** One state: how a page gets there. */
type Arrange = (client: FakeClient, state: AppState) => void;

function drawn(client: FakeClient): void {
  let at = Date.UTC(2026, 5, 1, 9, 30);
  for (const draw of landscape()) {
    client.add(21, draw, at);
    at += 120;
  }
}

function company(client: FakeClient): void {
  client.setParticipants([...client.participants, ...OTHERS]);
  client.tell("pointer", { client: 21, x: 280 * 16, y: -30 * 16 });
  client.tell("pointer", { client: 22, x: -120 * 16, y: 170 * 16 });
}

function inCompany(then: Arrange): Arrange {
  return (client, state) => {
    drawn(client);
    company(client);
    then(client, state);
  };
}

function offline(client: FakeClient, unsent: number, draining = false): void {
  client.setUnsent(unsent);
  client.setState({
    kind: "offline",
    why: "the server cannot be reached",
    retryAt: Date.now() + 12_400,
    draining,
  });
}

export const STATES: Readonly<Record<string, Arrange>> = {
  empty: () => {},
  drawing: inCompany(() => {}),
  menu: inCompany((_, state) => state.toggle("menu")),
  people: inCompany((_, state) => state.toggle("people")),
  alone: (client, state) => {
    drawn(client);
    state.toggle("people");
  },
  style: inCompany((_, state) => state.toggle("style")),
  highlighter: inCompany((_, state) => {
    state.choices.setMode("highlighter");
    state.choices.setColour(0x55aa77ff);
    state.toggle("style");
  }),
  zoom: inCompany((_, state) => state.toggle("zoom")),
  share: inCompany((_, state) => state.ask("share")),
  boards: inCompany((_, state) => {
    const hour = 3_600_000;
    const rooms = [
      "team-retro",
      "Zk3v_Qm81LwR0tYbN-aJ4c",
      "lobby",
      "a.board.with.a.rather.long.name.that.people.chose.themselves",
    ];
    for (const [i, room] of rooms.entries())
      state.choices.visit(room, Date.now() - hour * 9 * (rooms.length - i));
    state.choices.visit(state.room, Date.now());
    state.ask("boards");
  }),
  clear: inCompany((_, state) => state.ask("clear")),
  cleared: inCompany((_, state) => state.clear()),
  help: inCompany((_, state) => state.ask("help")),
  following: inCompany((_, state) => state.follow(22)),
  connecting: (client) => client.setState({ kind: "connecting" }),
  joining: (client) => client.setState({ kind: "joining", have: 18_240, head: 51_377 }),
  saving: inCompany((client) => client.setUnsent(4)),
  offline: inCompany((client) => offline(client, 12)),
  "offline-idle": inCompany((client) => offline(client, 0)),
  "offline-memory": inCompany((client) => {
    client.tell("durable", false);
    offline(client, 3);
  }),
  draining: inCompany((client) => offline(client, 1, true)),
  viewer: inCompany((client) => client.tell("welcome", { id: OWN_ID, role: 0, limits: NO_LIMITS })),
  token: (client) =>
    client.setState({ kind: "refused", code: "invalid_token", message: "the token has expired" }),
  full: inCompany((client) => {
    client.tell("refused", { code: "room_full", message: "the room is full" });
    client.setFull(true);
  }),
  "refused-draw": inCompany((client) => {
    for (let i = 0; i < 3; i++) client.tell("refused", { code: "too_large", message: "draw too large" });
    client.tell("refused", { code: "too_large", message: "draw too large" });
  }),
  film: inCompany((_, state) => {
    state.toggle("menu");
    requestAnimationFrame(() => {
      const items = [...document.querySelectorAll<HTMLButtonElement>(".menu .item")];
      items.find((item) => item.textContent === "Time-lapse")?.click();
    });
  }),
};

const NO_LIMITS = { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN: 0 };
