/** The board's page: all panels around the stage. */
import { effect } from "@preact/signals";
import { render } from "preact";
import { AppState, type Paper, type Relay } from "../app-state.ts";
import { paper as paperColour } from "../canvas/colour.ts";
import type { StageOptions } from "../canvas/stage.ts";
import { BoardsDialog, openNewBoard } from "./boards.tsx";
import type { Choices } from "./choices.ts";
import { Corner, type MenuActions } from "./corner.tsx";
import { FilmBar } from "./film-bar.tsx";
import { letGoOfFocus } from "./focus.ts";
import { followPeople } from "./follower.ts";
import { ShareIcon } from "./icons.tsx";
import { boardTitle } from "./names.ts";
import { Announcer, Hint, Locked, Notices, Refused, ToastList } from "./notices.tsx";
import { OpeningView } from "./opening-view.ts";
import { People } from "./people.tsx";
import { Pointers } from "./pointers.ts";
import { Projector } from "./projector.ts";
import { ClearDialog, HelpDialog, ModerationDialog } from "./questions.tsx";
import { Remembered } from "./remembered.ts";
import { savePicture } from "./save.ts";
import { ShareDialog } from "./share.tsx";
import { listenToKeys } from "./shortcuts.ts";
import { forbiddenWords } from "./status.ts";
import { Toolbar } from "./toolbar.tsx";
import { Zoom } from "./zoom.tsx";

/** What a page is made of. */
export interface PageParts {
  readonly room: string;
  readonly choices: Choices;
  /** For the panels, the ink and the pointers above it. */
  readonly hosts: {
    readonly panels: HTMLElement;
    readonly stage: HTMLElement;
    readonly pointers: HTMLElement;
  };
  readonly makeStage: (options: StageOptions) => Paper;
  readonly openClient: () => Promise<Relay>;
}

/** Shows the page; ink can be drawn at once. Resolves when the client is open, or could not be opened. */
export async function showBoard({
  room,
  choices,
  hosts,
  makeStage,
  openClient,
}: PageParts): Promise<AppState> {
  const state = new AppState(room, choices);
  const paper = makeStage({
    host: hosts.stage,
    onView: (view, byHand) => {
      state.view.value = view;
      pointers.refresh();
      if (byHand) state.follow(null);
    },
    onForbidden: () =>
      state.toasts.show({
        key: "locked",
        text: forbiddenWords(state.locked.value),
      }),
    onPen: () => state.toasts.show({ key: "pen", text: "Pen in use: fingers move the board now." }),
  });
  const pointers = new Pointers(hosts.pointers, (place) => paper.toStage(place));
  state.view.value = paper.view;
  const opening = new OpeningView(state, paper, Remembered.inTab());
  obeyChoices(state, paper);
  listenToKeys(state, paper);
  guardUnsent(state);
  letGoOfFocus(hosts.panels, hosts.stage);
  // A tab that is put away may end without another word.
  addEventListener("pagehide", () => opening.keep());
  document.addEventListener("visibilitychange", () => opening.keep());
  hosts.stage.addEventListener("pointerdown", () => {
    opening.touched();
    // From the next stroke on, the toast's "Undo" would take back something else.
    if (choices.mode.value !== "hand") state.toasts.dismiss("cleared");
  });
  render(<Panels state={state} paper={paper} />, hosts.panels);
  document.title = `${boardTitle(room)} · Inkrelay`;
  choices.visit(room, Date.now());
  try {
    const client = await openClient();
    state.attach(client);
    paper.show(client.board, client);
    opening.watch(client);
    client.on("pointer", ({ client: id, x, y }) => pointers.move(id, x, y));
    effect(() => pointers.setPeople(state.participants.value));
    followPeople(state, client, paper, {
      extent: () => ({ width: hosts.stage.clientWidth, height: hosts.stage.clientHeight }),
      still: () => matchMedia("(prefers-reduced-motion: reduce)").matches,
      placeOf: (id) => pointers.placeOf(id),
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : "The board could not be opened";
    state.connection.value = { kind: "refused", code: "page", message };
  }
  return state;
}

/** Keeps stage and page as they were chosen. */
function obeyChoices(state: AppState, paper: Paper): void {
  const { choices } = state;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    state.systemDark.value = dark.matches;
  };
  follow();
  dark.addEventListener("change", follow);
  effect(() => {
    // Where nothing can be drawn there are no tools either: a finger moves the board.
    const idle = state.locked.value !== null || state.watching.value;
    paper.mode = idle ? "hand" : choices.mode.value;
    const { rgba, width } = choices.nib;
    paper.rgba = rgba;
    paper.width = width;
    paper.readOnly = state.locked.value !== null;
  });
  effect(() => {
    const theme = state.theme.value;
    paper.theme = theme;
    document.documentElement.dataset.theme = theme;
    const automatic = choices.theme.value === "system";
    for (const meta of document.querySelectorAll<HTMLMetaElement>('meta[name="theme-color"]')) {
      const own = meta.media.includes("dark") ? "dark" : "light";
      meta.content = paperColour(automatic ? own : theme);
    }
  });
  effect(() => {
    document.body.classList.toggle("watching", state.watching.value);
  });
}

/** Closing the page is only in the way where it would lose ink. */
function guardUnsent(state: AppState): void {
  addEventListener("beforeunload", (event) => {
    if (state.unsent.value === 0 || state.durable.value) return;
    event.preventDefault();
    // Safari asks only when it is told in the old way.
    event.returnValue = "";
  });
}

function actionsOf(state: AppState, paper: Paper): MenuActions {
  const { toasts } = state;
  return {
    newBoard: openNewBoard,
    save: (kind) => {
      const board = state.client.value?.board;
      if (board === undefined || board.strokes().length === 0) {
        toasts.show({ key: "save", text: "Nothing to save yet." });
        return;
      }
      const tell = (text: string) => toasts.show({ key: "save", text });
      savePicture(board, kind, boardTitle(state.room)).then(
        (whole) =>
          whole || tell("This board is too wide for a PNG: only a part is on it. An SVG has it all."),
        () => tell("The picture could not be made."),
      );
    },
    watch: () => {
      const client = state.client.value;
      if (client === null) return;
      state.follow(null);
      const projector = new Projector(client, paper);
      state.projector.value = projector;
      void projector.load();
    },
  };
}

/** Back from the time-lapse, to what one saw before. */
function endFilm(state: AppState, paper: Paper, projector: Projector): void {
  const client = state.client.value;
  const shown = projector.projection.value.kind === "ready";
  projector.end();
  state.projector.value = null;
  if (client === null || !shown) return;
  paper.show(client.board, client);
  paper.setView(projector.viewBefore);
}

function Panels({ state, paper }: { readonly state: AppState; readonly paper: Paper }) {
  const projector = state.projector.value;
  return (
    <>
      {projector === null ? (
        <BoardPanels state={state} paper={paper} />
      ) : (
        <div class="bottom">
          <FilmBar projector={projector} onEnd={() => endFilm(state, paper, projector)} />
        </div>
      )}
      <ToastList state={state} />
      <Announcer state={state} />
      <OpenDialog state={state} />
      <ModerationDialog state={state} />
    </>
  );
}

function BoardPanels({ state, paper }: { readonly state: AppState; readonly paper: Paper }) {
  const actions = actionsOf(state, paper);
  return (
    <>
      <header class="top">
        <Corner state={state} paper={paper} actions={actions} />
        <div class="others surface">
          <People state={state} />
          <button
            type="button"
            class="button primary share-button"
            title="Share"
            onClick={() => state.ask("share")}
          >
            <ShareIcon />
            <span>Share</span>
          </button>
        </div>
      </header>
      <Notices state={state} />
      <Refused state={state} newBoard={openNewBoard} />
      <Hint state={state} />
      <div class="bottom">
        {state.locked.value === null ? (
          <Toolbar state={state} />
        ) : (
          <Locked state={state} newBoard={openNewBoard} />
        )}
      </div>
      <Zoom state={state} paper={paper} />
    </>
  );
}

function OpenDialog({ state }: { readonly state: AppState }) {
  switch (state.dialog.value) {
    case "share":
      return <ShareDialog state={state} />;
    case "boards":
      return <BoardsDialog state={state} />;
    case "clear":
      return <ClearDialog state={state} />;
    case "help":
      return <HelpDialog state={state} />;
    case null:
      return null;
  }
}
