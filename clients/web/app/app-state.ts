/** The page's state: what the client said, and what is open. Panels read it; nothing here touches the DOM. */
import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Client, Participant, Profile, Role, State } from "../src/index.ts";
import type { Stage, View } from "./canvas/stage.ts";
import type { Choices } from "./panels/choices.ts";
import { cleanName } from "./panels/names.ts";
import type { Projector } from "./panels/projector.ts";
import { GRACE_MS, refusedDrawWords, type Saving, SETTLE_MS, savingOf } from "./panels/status.ts";
import { Toasts } from "./panels/toasts.ts";

/** What the panels need of the client. */
export type Relay = Pick<
  Client,
  | "room" | "id" | "role" | "state" | "unsentChanges" | "full" | "participants" | "canUndo" | "canRedo" | "board" | "on"
  | "begin" | "extend" | "cancel" | "erase" | "beginGroup" | "endGroup" | "pointer"
  | "clear" | "undo" | "redo" | "setProfile" | "retry" | "history" | "locked" | "moderate" | "revoke"
>; // biome-ignore format: a list

/** What the panels need of the stage. */
export type Paper = Pick<
  Stage,
  | "mode"
  | "rgba"
  | "width"
  | "readOnly"
  | "theme"
  | "view"
  | "show"
  | "setView"
  | "zoomBy"
  | "fit"
  | "bringIntoSight"
  | "toStage"
>;

/** The small panels that open from a button; one at a time. */
export type Panel = "menu" | "people" | "style" | "zoom";
/** What a moderator is asked about before it is done. */
export interface ModerationQuestion {
  readonly action: "ban" | "erase";
  readonly person: Participant;
}

/** The dialogs that want an answer or a look; one at a time. */
export type DialogName = "share" | "boards" | "clear" | "help";

/** Draws refused within that time are told in one toast, in ms. */
const COALESCE_MS = 8_000;

function withCleanName(person: Participant): Participant {
  return { ...person, name: cleanName(person.name) };
}

/** All that shows, apart from the ink. */
export class AppState {
  readonly client = signal<Relay | null>(null);
  readonly connection = signal<State>({ kind: "connecting" });
  /** What is unsent, as people count it. */
  readonly unsent = signal(0);
  readonly saving = signal<Saving>("unsure");
  readonly durable = signal(true);
  readonly participants = signal<readonly Participant[]>([]);
  readonly me = signal<number | null>(null);
  readonly role = signal<Role | null>(null);
  /** Whether moderators locked the board. */
  readonly boardLocked = signal(false);
  /** Whether the board is known to take no more ink. */
  readonly full = signal(false);
  readonly history = signal({ canUndo: false, canRedo: false });
  /** Whether any ink shows. */
  readonly blank = signal(false);

  readonly view: Signal<View> = signal({ x: 0, y: 0, zoom: 1 });
  readonly panel = signal<Panel | null>(null);
  readonly dialog = signal<DialogName | null>(null);
  /** Whom the view goes after: a client's id. */
  readonly following = signal<number | null>(null);
  /** The time-lapse that is on. */
  readonly projector = signal<Projector | null>(null);
  readonly watching: ReadonlySignal<boolean> = computed(() => this.projector.value !== null);
  /** What the system likes better. */
  readonly systemDark = signal(false);
  readonly theme: ReadonlySignal<"light" | "dark"> = computed(() => {
    const { value } = this.choices.theme;
    if (value !== "system") return value;
    return this.systemDark.value ? "dark" : "light";
  });
  readonly toasts = new Toasts();

  /** Whether one may kick, ban, erase what others drew, and lock the board. */
  readonly moderates: ReadonlySignal<boolean> = computed(() => this.role.value === 2);
  /** Whom a moderator is being asked about, and what. */
  readonly question = signal<ModerationQuestion | null>(null);

  /** Why nothing can be drawn; `null`: it can. */
  readonly locked: ReadonlySignal<"viewer" | "refused" | "full" | "locked" | null> = computed(() => {
    if (this.connection.value.kind === "refused") return "refused";
    if (this.role.value === 0) return "viewer";
    if (this.boardLocked.value && !this.moderates.value) return "locked";
    return this.full.value ? "full" : null;
  });

  #logKnown = false;
  /** When `unsent` last became 0, or last stopped being 0. */
  #unsentSince = 0;
  #savingTimer: ReturnType<typeof setTimeout> | undefined;
  #refused = { times: 0, last: 0, code: "", message: "" };

  constructor(
    readonly room: string,
    readonly choices: Choices,
    private readonly now: () => number = Date.now,
  ) {}

  /** Feeds from a client from now on. Returns how to end that. */
  attach(client: Relay): () => void {
    this.client.value = client;
    this.connection.value = client.state;
    this.participants.value = client.participants.map(withCleanName);
    this.me.value = client.id;
    this.role.value = client.role;
    this.history.value = { canUndo: client.canUndo, canRedo: client.canRedo };
    this.full.value = client.full;
    this.boardLocked.value = client.locked;
    this.#setUnsent(client.unsentChanges);
    const ends = [
      client.on("state", (state) => {
        this.connection.value = state;
        this.#lookAtBoard(client);
      }),
      client.on("unsent", () => this.#setUnsent(client.unsentChanges)),
      client.on("full", (full) => {
        this.full.value = full;
      }),
      client.on("locked", (locked) => {
        this.boardLocked.value = locked;
      }),
      client.on("durable", (durable) => {
        this.durable.value = durable;
      }),
      client.on("participants", (participants) => {
        this.participants.value = participants.map(withCleanName);
        const followed = this.following.value;
        if (followed !== null && !participants.some((one) => one.client === followed)) this.follow(null);
      }),
      client.on("history", (history) => {
        this.history.value = history;
      }),
      client.on("welcome", ({ id, role }) => {
        this.me.value = id;
        this.role.value = role;
      }),
      client.on("refused", ({ code, message }) => this.#tellRefused(code, message)),
      client.board.subscribe(() => this.#lookAtBoard(client)),
      () => clearTimeout(this.#savingTimer),
    ];
    this.#lookAtBoard(client);
    return () => {
      for (const end of ends) end();
    };
  }

  /** Before the log was read once, an empty board says nothing: its ink may be on the way. */
  #lookAtBoard(client: Relay): void {
    if (client.state.kind === "live") this.#logKnown = true;
    this.blank.value = this.#logKnown && client.board.strokes().length === 0;
  }

  #setUnsent(unsent: number): void {
    if ((unsent === 0) !== (this.unsent.value === 0) || this.#unsentSince === 0)
      this.#unsentSince = this.now();
    this.unsent.value = unsent;
    this.#settle();
  }

  #settle(): void {
    clearTimeout(this.#savingTimer);
    const lasted = this.now() - this.#unsentSince;
    this.saving.value = savingOf(this.unsent.value, this.#unsentSince, this.now());
    const turn = this.unsent.value === 0 ? SETTLE_MS : GRACE_MS;
    if (lasted < turn) this.#savingTimer = setTimeout(() => this.#settle(), turn - lasted);
  }

  #tellRefused(code: string, message: string): void {
    const now = this.now();
    const before = this.#refused;
    const again = now - before.last < COALESCE_MS;
    // What goes because something before it went is no reason of its own.
    const why = again && code === "pointless" ? before : { code, message };
    const times = again ? before.times + 1 : 1;
    this.#refused = { times, last: now, code: why.code, message: why.message };
    this.toasts.show({ key: "refused", text: refusedDrawWords(why.code, why.message, times) });
  }

  /** Opens a small panel, or closes it if it is open. */
  toggle(panel: Panel): void {
    this.panel.value = this.panel.value === panel ? null : panel;
  }

  /** Opens a dialog; what else was open makes way. */
  ask(dialog: DialogName): void {
    this.panel.value = null;
    this.dialog.value = dialog;
  }

  /** Asks before it is done to somebody. */
  askAbout(action: ModerationQuestion["action"], person: Participant): void {
    this.panel.value = null;
    this.question.value = { action, person };
  }

  follow(client: number | null): void {
    this.following.value = client;
    if (client !== null) this.panel.value = null;
  }

  /** Keeps who one is, and tells the others. */
  setProfile(profile: Profile): void {
    this.choices.setProfile(profile);
    this.client.value?.setProfile(this.choices.profile.value);
  }

  undo(): void {
    if (this.locked.value === "full" || this.locked.value === "locked") return;
    this.toasts.dismiss("cleared");
    this.client.value?.undo();
  }

  redo(): void {
    if (this.locked.value === "full" || this.locked.value === "locked") return;
    this.toasts.dismiss("cleared");
    this.client.value?.redo();
  }

  /** Clears the board; the toast takes that back as long as nothing else was done. */
  clear(): void {
    const client = this.client.value;
    if (client === null || this.locked.value === "full" || this.locked.value === "locked") return;
    client.clear();
    this.toasts.show({
      key: "cleared",
      text: "Board cleared",
      action: { label: "Undo", run: () => this.undo() },
    });
  }
}
