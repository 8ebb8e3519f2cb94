/** The page in one of its states: `/tests/browser/states/?state=offline`. */
import { Stage } from "../../../app/canvas/stage.ts";
import { showBoard } from "../../../app/panels/board.tsx";
import { Choices } from "../../../app/panels/choices.ts";
import { Remembered } from "../../../app/panels/remembered.ts";
import { FakeClient } from "./fake-client.ts";
import { STATES } from "./states.ts";
import "../../../app/style/index.css";

function host(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no #${id}`);
  return element;
}

const name = new URLSearchParams(location.search).get("state") ?? "drawing";
const choices = new Choices(new Remembered(null), () => 0.42);
const client = new FakeClient("Zk3v_Qm81LwR0tYbN-aJ4c", choices.profile.value);
const state = await showBoard({
  room: client.room,
  choices,
  hosts: { panels: host("panels"), stage: host("stage"), pointers: host("pointers") },
  makeStage: (options) => new Stage(options),
  openClient: async () => client,
});
STATES[name]?.(client, state);
Object.assign(globalThis, { fake: { client, state, states: STATES } });
