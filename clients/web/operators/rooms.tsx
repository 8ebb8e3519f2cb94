/** The busiest rooms, as a table that is asked for anew each second. */
import type { Room } from "./api.ts";
import { bytes, count, milliseconds } from "./format.ts";

/** What a table can be sorted by, as the relay calls it. */
export type Sort = "draws" | "sent" | "participants" | "readers" | "lag" | "bytes" | "name";

const COLUMNS: readonly {
  readonly sort: Sort;
  readonly title: string;
  readonly hint: string;
  readonly of: (room: Room) => string;
}[] = [
  { sort: "participants", title: "People", hint: "who is here", of: (room) => count(room.participants) },
  { sort: "readers", title: "Readers", hint: "who reads on this server", of: (room) => count(room.readers) },
  { sort: "draws", title: "Draws in", hint: "a second", of: (room) => `${count(room.draws)}/s` },
  {
    sort: "sent",
    title: "Records out",
    hint: "a second, to all readers",
    of: (room) => `${count(room.recordsSent)}/s`,
  },
  {
    sort: "lag",
    title: "Lag",
    hint: "the slowest delivery of the last second",
    of: (room) => (room.lag > 0 ? milliseconds(room.lag) : "–"),
  },
  { sort: "bytes", title: "Size", hint: "bytes of the log", of: (room) => bytes(room.bytes) },
];

export function Rooms(props: {
  readonly live: number;
  readonly rooms: readonly Room[];
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
  readonly onOpen: (name: string) => void;
}) {
  const head = (sort: Sort, title: string, hint: string) => (
    <th
      key={sort}
      scope="col"
      aria-sort={props.sort === sort ? (sort === "name" ? "ascending" : "descending") : "none"}
    >
      <button type="button" title={hint} onClick={() => props.onSort(sort)}>
        {title}
        {props.sort === sort && <span aria-hidden="true">{sort === "name" ? " ↑" : " ↓"}</span>}
      </button>
    </th>
  );
  return (
    <section class="rooms surface" aria-label="Rooms">
      <header>
        <h2>Busiest rooms</h2>
        <p class="quiet">
          {props.rooms.length} of {count(props.live)} that are live
        </p>
      </header>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              {head("name", "Room", "by name")}
              {COLUMNS.map(({ sort, title, hint }) => head(sort, title, hint))}
            </tr>
          </thead>
          <tbody>
            {props.rooms.map((room) => (
              <tr key={room.name}>
                <th scope="row">
                  <button type="button" class="room-name" onClick={() => props.onOpen(room.name)}>
                    {room.name}
                  </button>
                </th>
                {COLUMNS.map(({ sort, of }) => (
                  <td key={sort}>{of(room)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {props.rooms.length === 0 && <p class="quiet empty">No room is live.</p>}
      </div>
    </section>
  );
}
