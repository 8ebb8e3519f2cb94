/** The operators' page: asks the relay once a second, and shows what it tells. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { getRooms, getState, type Room } from "./api.ts";
import { Chart } from "./chart.tsx";
import { chartsOf } from "./charts.ts";
import { bytes, count, duration, milliseconds, percent } from "./format.ts";
import { History } from "./history.ts";
import { RoomDialog } from "./room.tsx";
import { Rooms, type Sort } from "./rooms.tsx";
import { parseState, type State } from "./state.ts";
import "./style/index.css";

/** Between two looks, in milliseconds. */
const LOOK_MS = 1_000;
/** Rooms in the table. */
const ROOMS = 20;

const history = new History();
// For tests, and for the curious in the console.
Object.assign(globalThis, { inkrelayOperators: { history } });

interface Looked {
  /** The newest state that was told. */
  readonly state: State | null;
  /** Why nothing was told this time. */
  readonly trouble: string | null;
  readonly live: number;
  readonly rooms: readonly Room[];
  /** Counts the looks, so that what is shown follows the history. */
  readonly moment: number;
}

const NOTHING: Looked = { state: null, trouble: null, live: 0, rooms: [], moment: 0 };

function Page() {
  const [looked, setLooked] = useState(NOTHING);
  const [sort, setSort] = useState<Sort>("draws");
  const [open, setOpen] = useState<string | null>(null);
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      const begun = performance.now();
      try {
        const [json, { live, rooms }] = await Promise.all([getState(), getRooms(sort, ROOMS)]);
        if (isOver) return;
        const state = parseState(json);
        history.push(state, Date.now());
        setLooked(({ moment }) => ({ state, trouble: null, live, rooms, moment: moment + 1 }));
      } catch (error) {
        if (isOver) return;
        history.push(null, Date.now());
        const trouble = error instanceof Error ? error.message : String(error);
        setLooked((before) => ({ ...before, trouble, moment: before.moment + 1 }));
      }
      timer = setTimeout(look, Math.max(0, LOOK_MS - (performance.now() - begun)));
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [sort]);
  const { state, moment } = looked;
  return (
    <>
      <Head state={state} trouble={looked.trouble} />
      {state !== null && <Tiles state={state} isStale={looked.trouble !== null} />}
      <main class={looked.trouble === null ? "" : "stale"}>
        <div class="charts">
          {chartsOf(history).map((chart) => (
            <Chart key={chart.title} chart={chart} history={history} moment={moment} />
          ))}
        </div>
        <Rooms live={looked.live} rooms={looked.rooms} sort={sort} onSort={setSort} onOpen={setOpen} />
      </main>
      {open !== null && <RoomDialog key={open} name={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function Head({ state, trouble }: { readonly state: State | null; readonly trouble: string | null }) {
  const [mood, words] =
    trouble !== null
      ? ["bad", "no answer from the relay"]
      : state === null
        ? ["quiet", "asking the relay"]
        : state.isDraining
          ? ["warn", "the relay is stopping"]
          : state.store.isUp
            ? ["good", "all is well"]
            : ["bad", "the store gives no answer"];
  return (
    <header class="head">
      <h1>
        Inkrelay <span class="quiet">{state?.version}</span>
      </h1>
      <p class={`mood ${mood}`} role="status" title={trouble ?? ""}>
        {words}
      </p>
      {state !== null && (
        <p class="quiet">
          {state.process !== null && <>up {duration(state.at / 1000 - state.process.startedAt)} · </>}
          {state.store.description}
        </p>
      )}
    </header>
  );
}

/** The newest numbers, as a line of `vmstat` has them. */
function Tiles({ state, isStale }: { readonly state: State; readonly isStale: boolean }) {
  const told = (track: string, format: (value: number) => string) => {
    const value = history.latest(track);
    return value === null ? "–" : format(value);
  };
  const perSecond = (value: number) => `${count(value)}/s`;
  const { sessions, process } = state;
  const tiles: readonly (readonly [string, string, string])[] = [
    ["processor", told("relayCpu", percent), "of all cores"],
    [
      "memory",
      process === null ? "–" : bytes(process.residentBytes),
      process === null ? "" : `${bytes(process.availableBytes)} free`,
    ],
    [
      "sessions",
      count(sessions.websocket + sessions.longPoll + sessions.events),
      `${count(state.connections)} connections`,
    ],
    ["rooms", count(state.rooms), `${bytes(state.tailBytes)} held`],
    ["draws", told("draws", perSecond), told("receivedBytes", (value) => `${bytes(value)}/s`)],
    ["records", told("recordsSent", perSecond), told("sentBytes", (value) => `${bytes(value)}/s`)],
    ["delivery", told("delivery99", milliseconds), "99 % of them"],
    ["refused", told("refused", perSecond), mostRefused(state)],
    [
      "store",
      state.store.isUp ? told("roundtrip", milliseconds) : "down",
      `${count(state.store.reconnects)} reconnects`,
    ],
    [
      "open files",
      process === null ? "–" : count(process.openFiles),
      process?.maxOpenFiles == null ? "" : `of ${count(process.maxOpenFiles)}`,
    ],
  ];
  return (
    <dl class={isStale ? "tiles stale" : "tiles"}>
      {tiles.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          <dd class="quiet">{more}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The code that was told most since the relay started. */
function mostRefused(state: State): string {
  const most = [...state.refused].reduce<readonly [string, number]>(
    (a, b) => (b[1] > a[1] ? b : a),
    ["nothing yet", 0],
  );
  return most[1] === 0 ? most[0] : `mostly ${most[0]}`;
}

const host = document.getElementById("page");
if (host === null) throw new Error("index.html has no #page");
render(<Page />, host);
