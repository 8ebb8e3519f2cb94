/** One room: its board, who is here, and what an operator does about it. Everything is asked before it is done. */
import { useEffect, useState } from "preact/hooks";
import { Dialog } from "../app/panels/parts.tsx";
import { type Deed, doIn, getRoom, type OpenRoom, type Person } from "./api.ts";
import type { Author } from "./authors.ts";
import { bytes, count, milliseconds, strokes as told } from "./format.ts";
import { Picture } from "./picture.tsx";

/** Between two looks, in milliseconds. */
const LOOK_MS = 2_000;
/** Of those who are not here, the ones with the most ink; after an erasure the next ones follow. */
const ABSENT = 50;

export function RoomDialog(props: { readonly name: string; readonly onClose: () => void }) {
  const { name, onClose } = props;
  const [room, setRoom] = useState<OpenRoom | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [asked, setAsked] = useState<Question | null>(null);
  const [version, setVersion] = useState(0);
  const [authors, setAuthors] = useState<readonly Author[]>([]);
  const [done, setDone] = useState("");
  const [isDeleted, setDeleted] = useState(false);
  // Looked at anew, and at once, after something was done.
  useEffect(() => {
    if (isDeleted) return;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const now = await getRoom(name);
        if (!isOver) setRoom(now);
        if (!isOver) setTrouble(null);
      } catch (error) {
        if (!isOver) setTrouble(reason(error));
      }
      if (!isOver) timer = setTimeout(look, LOOK_MS);
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [name, version, isDeleted]);
  const act = async (question: Question) => {
    setAsked(null);
    try {
      await doIn(name, question.deed);
      setDone(question.done);
      setTrouble(null);
      if (question.deed.kind === "delete") setDeleted(true);
      setVersion((before) => before + 1);
    } catch (error) {
      setTrouble(reason(error));
    }
  };
  return (
    <Dialog title={name} class="room" onClose={onClose}>
      {!isDeleted && <Picture room={name} version={version} onAuthors={setAuthors} />}
      {room !== null && !isDeleted && <Facts room={room} />}
      {room !== null && !isDeleted && <People people={room.people} onAsk={setAsked} />}
      {room !== null && !isDeleted && <Absent authors={authors} people={room.people} onAsk={setAsked} />}
      <p class="told" role="status">
        {trouble ?? done}
      </p>
      {asked !== null ? (
        <div class="question" role="alertdialog" aria-label={asked.title} ref={bringIntoView}>
          <h3>{asked.title}</h3>
          <p>{asked.means}</p>
          <div class="actions">
            <button type="button" class="button" onClick={() => setAsked(null)}>
              Cancel
            </button>
            <button type="button" class="button danger" onClick={() => void act(asked)}>
              {asked.yes}
            </button>
          </div>
        </div>
      ) : (
        <div class="actions">
          {!isDeleted && room !== null && (
            <>
              <button type="button" class="button" onClick={() => setVersion((before) => before + 1)}>
                Look again
              </button>
              <button
                type="button"
                class="button"
                onClick={() => setAsked(room.isLocked ? unlock() : lock())}
              >
                {room.isLocked ? "Unlock" : "Lock"}
              </button>
              <button type="button" class="button" onClick={() => setAsked(close(room))}>
                Close room
              </button>
              <button type="button" class="button danger" onClick={() => setAsked(deletion(room))}>
                Delete room
              </button>
            </>
          )}
          <button type="button" class="button primary" onClick={onClose}>
            Done
          </button>
        </div>
      )}
    </Dialog>
  );
}

/** On a phone the dialog is longer than the window, and what is asked stands at its end. */
function bringIntoView(element: HTMLElement | null): void {
  element?.scrollIntoView({ block: "end" });
}

interface Question {
  readonly title: string;
  readonly means: string;
  readonly yes: string;
  /** What is said when it is done. */
  readonly done: string;
  readonly deed: Deed;
}

const lock = (): Question => ({
  title: "Lock the room?",
  means: "Nobody but moderators can draw in it until it is unlocked. Everyone still sees it.",
  yes: "Lock",
  done: "The room is locked.",
  deed: { kind: "lock" },
});

const unlock = (): Question => ({
  title: "Unlock the room?",
  means: "Everyone who may draw can draw in it again.",
  yes: "Unlock",
  done: "The room is unlocked.",
  deed: { kind: "unlock" },
});

const close = (room: OpenRoom): Question => ({
  title: "Close the room?",
  means: `All connections to it on this server end (${room.readers} now). Its ink stays, and people may come back.`,
  yes: "Close room",
  done: "The room was closed; whoever comes back is let in.",
  deed: { kind: "close" },
});

const deletion = (room: OpenRoom): Question => ({
  title: "Delete the room?",
  means: `All its ink is gone for good: ${count(room.records)} records, ${bytes(room.bytes)}. This cannot be undone. Who is there, and drew in the last minute, sends that again.`,
  yes: "Delete room",
  done: "The room is deleted.",
  deed: { kind: "delete" },
});

const kick = (person: Person): Question => ({
  title: `Send ${called(person)} away?`,
  means: "The connection ends now. Whoever it is may come back.",
  yes: "Kick",
  done: `${called(person)} was sent away.`,
  deed: { kind: "kick", client: person.client },
});

const erase = (person: Pick<Person, "client" | "name">): Question => ({
  title: `Erase all that ${called(person)} drew?`,
  means: "All ink of this participant in this room goes away, for everyone.",
  yes: "Erase",
  done: `What ${called(person)} drew is erased.`,
  deed: { kind: "erase", client: person.client },
});

function called(person: Pick<Person, "client" | "name">): string {
  if (person.client === 0) return "whoever had no ticket";
  return person.name === "" ? `participant ${person.client}` : person.name;
}

function Facts({ room }: { readonly room: OpenRoom }) {
  const facts: readonly (readonly [string, string])[] = [
    ["Readers here", count(room.readers)],
    ["Draws in", `${count(room.draws)}/s`],
    ["Records out", `${count(room.recordsSent)}/s`],
    ["Lag", room.lag > 0 ? milliseconds(room.lag) : "–"],
    ["Records", count(room.records)],
    ["Size", bytes(room.bytes)],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function People(props: { readonly people: readonly Person[]; readonly onAsk: (question: Question) => void }) {
  if (props.people.length === 0) return <p class="quiet">Nobody is here.</p>;
  return (
    <ul class="people" aria-label="Who is here">
      {props.people.map((person) => (
        <li key={person.client}>
          <svg class="dot" viewBox="0 0 10 10" aria-hidden="true">
            <circle cx="5" cy="5" r="5" fill={`#${(person.rgba >>> 8).toString(16).padStart(6, "0")}`} />
          </svg>
          <span>{called(person)}</span>
          <button
            type="button"
            class="button"
            aria-label={`Kick ${called(person)}`}
            onClick={() => props.onAsk(kick(person))}
          >
            Kick
          </button>
          <button
            type="button"
            class="button"
            aria-label={`Erase what ${called(person)} drew`}
            onClick={() => props.onAsk(erase(person))}
          >
            Erase
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Whose ink shows though they have left. Their names went with them. */
function Absent(props: {
  readonly authors: readonly Author[];
  readonly people: readonly Person[];
  readonly onAsk: (question: Question) => void;
}) {
  const absent = props.authors.filter(({ client }) =>
    props.people.every((person) => person.client !== client),
  );
  if (absent.length === 0) return null;
  return (
    <ul class="people" aria-label="Who drew and is not here">
      {absent.slice(0, ABSENT).map(({ client, strokes }) => {
        const author = { client, name: "" };
        return (
          <li key={client}>
            <span>
              {called(author)} <span class="quiet">not here · {told(strokes)}</span>
            </span>
            <button
              type="button"
              class="button"
              aria-label={`Erase what ${called(author)} drew`}
              onClick={() => props.onAsk(erase(author))}
            >
              Erase
            </button>
          </li>
        );
      })}
      {absent.length > ABSENT && <li class="quiet">and {count(absent.length - ABSENT)} more</li>}
    </ul>
  );
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
