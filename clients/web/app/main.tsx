/** The drawing board: from the address to a page. */
import { render } from "preact";
import { Client } from "../src/index.ts";
import { Stage } from "./canvas/stage.ts";
import { showBoard } from "./panels/board.tsx";
import { WrongRoom } from "./panels/boards.tsx";
import { Choices } from "./panels/choices.ts";
import { isInvitation, takeToken } from "./panels/invitation.ts";
import { Remembered } from "./panels/remembered.ts";
import { FRONT_ROOM, pathOf, routeOf } from "./panels/room.ts";
import { registerWorker } from "./panels/worker.ts";
import "./style/index.css";

function host(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`index.html has no #${id}`);
  return element;
}

async function openRoom(room: string, choices: Choices): Promise<void> {
  const replace = (address: string) => history.replaceState(history.state, "", address);
  const token = takeToken(room, location, Remembered.inTab(), replace);
  // Another invitation in the same tab changes the fragment alone, which loads nothing.
  addEventListener("hashchange", () => {
    if (isInvitation(location.hash)) location.reload();
  });
  // For tests, and for the curious in the console.
  const handle: { client: Client | null; stage: Stage | null } = { client: null, stage: null };
  Object.assign(globalThis, { inkrelay: handle });
  await showBoard({
    room,
    choices,
    hosts: { panels: host("panels"), stage: host("stage"), pointers: host("pointers") },
    makeStage: (options) => {
      const stage = new Stage(options);
      handle.stage = stage;
      return stage;
    },
    openClient: async () => {
      const client = await Client.open({
        server: location.origin,
        room,
        profile: choices.profile.value,
        ...(token === null ? {} : { token }),
      });
      handle.client = client;
      return client;
    },
  });
}

const choices = new Choices(Remembered.here(), Math.random);
const route = routeOf(location.pathname);
if (route.kind === "wrong") {
  render(<WrongRoom choices={choices} name={route.name} />, host("panels"));
} else {
  if (route.kind === "front") history.replaceState(null, "", pathOf(FRONT_ROOM) + location.hash);
  void openRoom(route.kind === "front" ? FRONT_ROOM : route.room, choices);
}
registerWorker();
