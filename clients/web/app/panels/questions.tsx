/** Questions: the confirmation before clearing, and the sheet of keyboard shortcuts. */
import type { AppState } from "../app-state.ts";
import { ban, eraseAllOf } from "./moderating.ts";
import { Dialog } from "./parts.tsx";
import { nameOf } from "./people.tsx";
import { SHORTCUTS } from "./shortcuts.ts";

export function ClearDialog({ state }: { readonly state: AppState }) {
  const close = () => {
    state.dialog.value = null;
  };
  return (
    <Dialog title="Clear the board?" class="question" onClose={close}>
      <p>All ink goes away, for everyone here. You can undo it.</p>
      <div class="actions">
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => {
            close();
            state.clear();
          }}
        >
          Clear board
        </button>
      </div>
    </Dialog>
  );
}

/** Before something is done to somebody. */
export function ModerationDialog({ state }: { readonly state: AppState }) {
  const question = state.question.value;
  if (question === null) return null;
  const { action, person } = question;
  const name = nameOf(person);
  const close = () => {
    state.question.value = null;
  };
  const does = action === "ban" ? ban : eraseAllOf;
  return (
    <Dialog
      title={action === "ban" ? `Ban ${name}?` : `Erase what ${name} drew?`}
      class="question"
      onClose={close}
    >
      <p>
        {action === "ban"
          ? `${name} has to leave this board and cannot come back with this session. What ${name} drew stays.`
          : `All that ${name} drew goes away, for everyone here. You can undo it.`}
      </p>
      <div class="actions">
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => {
            close();
            void does(state, person, name);
          }}
        >
          {action === "ban" ? "Ban" : "Erase"}
        </button>
      </div>
    </Dialog>
  );
}

export function HelpDialog({ state }: { readonly state: AppState }) {
  const close = () => {
    state.dialog.value = null;
  };
  return (
    <Dialog title="Keyboard shortcuts" class="help" onClose={close}>
      <dl>
        {SHORTCUTS.map(({ keys, does }) => (
          <div key={does}>
            <dt>{does}</dt>
            <dd>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
      <div class="actions">
        <button type="button" class="button" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
