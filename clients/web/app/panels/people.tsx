/** People: who is here, and who one is oneself. */
import { useRef, useState } from "preact/hooks";
import type { Participant } from "../../src/index.ts";
import type { AppState } from "../app-state.ts";
import { NAME_MAX } from "./choices.ts";
import { PEOPLE_COLOURS, personColour, textOn, toHex } from "./colours.ts";
import { MoreIcon } from "./icons.tsx";
import { kick } from "./moderating.ts";
import { initialsOf } from "./names.ts";
import { Avatar, Choice, IconButton, Popover } from "./parts.tsx";
import { plural } from "./status.ts";

/** As many show as fit beside each other; the rest is a number. */
const FACES_MAX = 3;

/** The name to show; those who gave none are guests. */
export function nameOf(person: { readonly name: string }): string {
  return person.name.trim() === "" ? "Guest" : person.name;
}

function Face({ person }: { readonly person: Participant }) {
  const rgba = personColour(person.client, person.rgba);
  return <Avatar colour={toHex(rgba)} text={textOn(rgba)} letters={initialsOf(nameOf(person))} />;
}

/** Oneself as the list has it, or as it will: there is no list before the welcome. */
function myself(state: AppState): Participant {
  return { client: state.me.value ?? 0, ...state.choices.profile.value };
}

function others(state: AppState): readonly Participant[] {
  return state.participants.value.filter((person) => person.client !== state.me.value);
}

export function People({ state }: { readonly state: AppState }) {
  const anchor = useRef<HTMLDivElement>(null);
  const open = state.panel.value === "people";
  const rest = others(state);
  const faces = [myself(state), ...rest];
  const more = faces.length - FACES_MAX;
  return (
    <div class="anchor" ref={anchor}>
      <button
        type="button"
        class="faces"
        aria-expanded={open}
        aria-label={`People: ${faces.length === 1 ? "only you" : `you and ${plural(rest.length, "other")}`}`}
        title="People"
        onClick={() => state.toggle("people")}
      >
        {faces.slice(0, more === 1 ? FACES_MAX + 1 : FACES_MAX).map((person) => (
          <Face key={person.client} person={person} />
        ))}
        {more > 1 && <span class="avatar more many">+{more}</span>}
        {rest.length > 0 && <span class="avatar more few">+{rest.length}</span>}
      </button>
      {open && (
        <Popover
          anchor={anchor}
          label="People"
          class="below right people"
          onClose={() => {
            state.panel.value = null;
          }}
        >
          <Oneself state={state} />
          <hr />
          {rest.length === 0 ? (
            <p class="quiet">Nobody else is here yet. Share the board to draw together.</p>
          ) : (
            <ul>
              {rest.map((person) => (
                <Other key={person.client} state={state} person={person} />
              ))}
            </ul>
          )}
        </Popover>
      )}
    </div>
  );
}

function Oneself({ state }: { readonly state: AppState }) {
  const profile = state.choices.profile.value;
  return (
    <form
      class="oneself"
      onSubmit={(event) => {
        event.preventDefault();
        state.panel.value = null;
      }}
    >
      <div class="person">
        <Face person={myself(state)} />
        <input
          class="field"
          aria-label="Your name"
          value={profile.name}
          maxLength={NAME_MAX}
          autocomplete="nickname"
          enterkeyhint="done"
          spellcheck={false}
          onChange={(event) => state.setProfile({ ...profile, name: event.currentTarget.value })}
        />
        <span class="tag">You</span>
      </div>
      <div class="colours" role="radiogroup" aria-label="Your colour">
        {PEOPLE_COLOURS.map((colour) => (
          <Choice
            key={colour.rgba}
            group="own-colour"
            class="swatch"
            label={colour.name}
            checked={profile.rgba === colour.rgba}
            onPick={() => state.setProfile({ ...profile, rgba: colour.rgba })}
          >
            <span class="dot" style={{ background: toHex(colour.rgba) }} />
          </Choice>
        ))}
      </div>
    </form>
  );
}

function Other({ state, person }: { readonly state: AppState; readonly person: Participant }) {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <div class="person">
        <Face person={person} />
        <span class="name">{nameOf(person)}</span>
        <FollowButton state={state} person={person} />
        {state.moderates.value && (
          <IconButton label={`Moderate ${nameOf(person)}`} expanded={open} onPress={() => setOpen(!open)}>
            <MoreIcon />
          </IconButton>
        )}
      </div>
      {open && state.moderates.value && <ModerateOther state={state} person={person} />}
    </li>
  );
}

function FollowButton({ state, person }: { readonly state: AppState; readonly person: Participant }) {
  const followed = state.following.value === person.client;
  return (
    <button
      type="button"
      class="text-button"
      aria-pressed={followed}
      aria-label={`Follow ${nameOf(person)}`}
      onClick={() => state.follow(followed ? null : person.client)}
    >
      {followed ? "Following" : "Follow"}
    </button>
  );
}

/** What a moderator may do to somebody. */
function ModerateOther({ state, person }: { readonly state: AppState; readonly person: Participant }) {
  const name = nameOf(person);
  return (
    <div class="moderate">
      <button
        type="button"
        class="text-button"
        aria-label={`Kick ${name}`}
        onClick={() => void kick(state, person, name)}
      >
        Kick
      </button>
      <button
        type="button"
        class="text-button"
        aria-label={`Ban ${name}`}
        onClick={() => state.askAbout("ban", person)}
      >
        Ban…
      </button>
      <button
        type="button"
        class="text-button"
        aria-label={`Erase what ${name} drew`}
        onClick={() => state.askAbout("erase", person)}
      >
        Erase drawing…
      </button>
    </div>
  );
}
