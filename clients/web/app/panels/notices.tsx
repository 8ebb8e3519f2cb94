/** Notices: what one should know about just now. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { State } from "../../src/index.ts";
import type { AppState } from "../app-state.ts";
import { personColour, textOn, toHex } from "./colours.ts";
import { CloseIcon, CloudOffIcon, EyeIcon, LockIcon } from "./icons.tsx";
import { IconButton } from "./parts.tsx";
import { nameOf } from "./people.tsx";
import { announcement, LARGE_BOARD, offlineNotice, refusalOf } from "./status.ts";

/** A connection that is back sooner than that, in ms, is not worth a notice; the corner says it anyway. */
const NOTICE_AFTER_MS = 1_000;

/** The time, again every second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Whether it has been mounted for so long. */
function useLasting(ms: number): boolean {
  const [lasting, setLasting] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLasting(true), ms);
    return () => clearTimeout(timer);
  }, [ms]);
  return lasting;
}

export function Notices({ state }: { readonly state: AppState }) {
  const connection = state.connection.value;
  return (
    <div class="notices">
      {state.following.value !== null && <Following state={state} client={state.following.value} />}
      {connection.kind === "joining" && connection.head >= LARGE_BOARD && <Joining connection={connection} />}
      {connection.kind === "offline" && <Offline state={state} />}
    </div>
  );
}

function Joining({ connection }: { readonly connection: State & { kind: "joining" } }) {
  const { have, head } = connection;
  return (
    <div class="notice surface joining">
      <span>
        Getting the board: {have.toLocaleString()} of {head.toLocaleString()}
      </span>
      <progress aria-label="Getting the board" max={head} value={have} />
    </div>
  );
}

function Offline({ state }: { readonly state: AppState }) {
  const now = useNow();
  const lasting = useLasting(NOTICE_AFTER_MS);
  const notice = offlineNotice(state.connection.value, state.unsent.value, state.durable.value, now);
  if (notice === null || !lasting) return null;
  return (
    <div class="notice surface">
      <CloudOffIcon />
      <p>
        <strong>{notice.title}.</strong> {notice.text}
      </p>
      <button type="button" class="text-button" onClick={() => state.client.value?.retry()}>
        Try now
      </button>
    </div>
  );
}

function Following({ state, client }: { readonly state: AppState; readonly client: number }) {
  const person = state.participants.value.find((one) => one.client === client);
  if (person === undefined) return null;
  const rgba = personColour(client, person.rgba);
  return (
    <>
      <div class="follow-frame" style={{ "--person": toHex(rgba) }} />
      <div class="follow-pill" style={{ "--person": toHex(rgba), "--on-person": textOn(rgba) }}>
        <span>Following {nameOf(person)}</span>
        <button type="button" onClick={() => state.follow(null)}>
          Stop
        </button>
      </div>
    </>
  );
}

/** In the middle: there is no board to draw on. */
export function Refused(props: { readonly state: AppState; readonly newBoard: () => void }) {
  const { state } = props;
  const connection = state.connection.value;
  const [hidden, setHidden] = useState(false);
  if (connection.kind !== "refused" || hidden) return null;
  const { code, message } = connection;
  const refusal = refusalOf(code, message, state.unsent.value, state.durable.value);
  const comesBack = refusal.remedies.includes("come back");
  return (
    <section class="card surface" aria-label={refusal.title} role="alert">
      <IconButton label="Hide this" class="card-close" onPress={() => setHidden(true)}>
        <CloseIcon />
      </IconButton>
      <h2>{refusal.title}</h2>
      <p>{refusal.text}</p>
      <div class="actions">
        {(refusal.remedies.includes("retry") || comesBack) && (
          <button
            type="button"
            class={comesBack ? "button primary" : "button"}
            onClick={() => {
              // Without a client, the page itself did not get far enough.
              if (state.client.value === null) location.reload();
              else state.client.value.retry();
            }}
          >
            {comesBack ? "Come back" : "Try again"}
          </button>
        )}
        {refusal.remedies.includes("new board") && (
          <button type="button" class="button primary" onClick={props.newBoard}>
            New board
          </button>
        )}
      </div>
    </section>
  );
}

const LOCKED_WORDS = {
  viewer: "View only: your link lets you watch.",
  locked: "Locked: only moderators draw just now.",
  refused: "Not connected: nothing can be drawn.",
} as const;

/** In the toolbar's place, where nothing can be drawn. */
export function Locked(props: { readonly state: AppState; readonly newBoard: () => void }) {
  const { state } = props;
  const why = state.locked.value;
  if (why === null) return null;
  if (why === "full")
    return (
      <div class="locked surface" role="alert">
        <span>
          <strong>This board is full.</strong> It takes no more ink.
        </span>
        <button type="button" class="button primary" onClick={props.newBoard}>
          New board
        </button>
      </div>
    );
  return (
    <p class="locked surface">
      {why === "locked" ? <LockIcon /> : <EyeIcon />}
      {LOCKED_WORDS[why]}
    </p>
  );
}

/** On an empty board. It takes no input, and goes with the first stroke. */
export function Hint({ state }: { readonly state: AppState }) {
  if (!state.blank.value || state.locked.value !== null) return null;
  return (
    <div class="hint" aria-hidden="true">
      <svg viewBox="0 0 220 60" aria-hidden="true">
        <path d="M6 40C30 8 44 8 48 26s-18 30-14 14 30-34 46-24 4 36 16 30 18-40 34-36 2 34 16 34 18-26 32-30 22 10 36 2" />
      </svg>
      <p>Draw anywhere.</p>
      <p>Everyone with the link sees it as your pen moves.</p>
    </div>
  );
}

export function ToastList({ state }: { readonly state: AppState }) {
  const { toasts } = state;
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.shown.value.map(({ key, text, action }) => (
        <div
          key={key}
          class="toast"
          onPointerEnter={() => toasts.hold(key)}
          onPointerLeave={() => toasts.release(key)}
          onFocusCapture={() => toasts.hold(key)}
          onBlurCapture={() => toasts.release(key)}
        >
          <span>{text}</span>
          {action !== undefined && (
            <button
              type="button"
              onClick={() => {
                toasts.dismiss(key);
                action.run();
              }}
            >
              {action.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}

/** Tells screen readers what changed about the connection; not every number of it. */
export function Announcer({ state }: { readonly state: AppState }) {
  const before = useRef<State>(state.connection.peek());
  const [words, setWords] = useState("");
  const connection = state.connection.value;
  useEffect(() => {
    // What is over within a moment is not said at all.
    const timer = setTimeout(() => {
      const news = announcement(before.current, connection, state.unsent.peek());
      before.current = connection;
      if (news !== null) setWords(news);
    }, NOTICE_AFTER_MS);
    return () => clearTimeout(timer);
  }, [connection, state]);
  return (
    <p class="unseen" role="status" aria-live="polite">
      {words}
    </p>
  );
}
