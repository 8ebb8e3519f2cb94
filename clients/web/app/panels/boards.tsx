/** Boards: where one has been, and a new one. */
import type { AppState } from "../app-state.ts";
import type { Choices } from "./choices.ts";
import { CloseIcon, NewIcon } from "./icons.tsx";
import { boardTitle } from "./names.ts";
import { Dialog, IconButton } from "./parts.tsx";
import { ago } from "./recent-boards.ts";
import { pathOf, randomRoom } from "./room.ts";

/** Goes to a board that nobody has seen. A page load on purpose: nothing of this board can stay behind. */
export function openNewBoard(): void {
  location.assign(pathOf(randomRoom()));
}

export function BoardsDialog({ state }: { readonly state: AppState }) {
  return (
    <Dialog
      title="Recent boards"
      class="boards"
      onClose={() => {
        state.dialog.value = null;
      }}
    >
      <BoardList choices={state.choices} here={state.room} />
      <div class="actions">
        <button
          type="button"
          class="button"
          onClick={() => {
            state.dialog.value = null;
          }}
        >
          Done
        </button>
        <button type="button" class="button primary" onClick={openNewBoard}>
          <NewIcon />
          New board
        </button>
      </div>
    </Dialog>
  );
}

/** The boards this browser remembers. */
export function BoardList({ choices, here }: { readonly choices: Choices; readonly here: string | null }) {
  const now = Date.now();
  const visits = choices.visits.value;
  if (visits.length === 0) return <p class="quiet">None yet.</p>;
  return (
    <ul class="board-list">
      {visits.map(({ room, at }) => (
        <li key={room}>
          <a href={pathOf(room)} title={room} aria-current={room === here ? "page" : undefined}>
            <strong>{boardTitle(room)}</strong>
            <span>{room === here ? "open now" : ago(at, now)}</span>
          </a>
          {room !== here && (
            <IconButton
              label={`Remove ${boardTitle(room)} from this list`}
              onPress={() => choices.forget(room)}
            >
              <CloseIcon />
            </IconButton>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The page for an address that no board can have. */
export function WrongRoom({ choices, name }: { readonly choices: Choices; readonly name: string }) {
  return (
    <main class="wrong-room">
      <h1>No board can have this name</h1>
      <p>
        <code>{name === "" ? "(nothing)" : name.slice(0, 80)}</code>
      </p>
      <p>A name has 1 to 64 of the characters A–Z, a–z, 0–9, _ - and . and does not begin with a dot.</p>
      <div class="actions">
        <button type="button" class="button primary" onClick={openNewBoard}>
          <NewIcon />
          New board
        </button>
        <a class="button" href="/">
          Front board
        </a>
      </div>
      {choices.visits.value.length > 0 && (
        <section>
          <h2>Recent boards</h2>
          <BoardList choices={choices} here={null} />
        </section>
      )}
    </main>
  );
}
