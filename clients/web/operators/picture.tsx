/** A room's board as a picture, drawn by the board's own canvas from a snapshot. */
import { useEffect, useState } from "preact/hooks";
import { toPng } from "../app/canvas/export.ts";
import { Board, decodeSnapshot } from "../src/index.ts";
import { getSnapshot } from "./api.ts";
import { type Author, authorsOf } from "./authors.ts";
import { strokes } from "./format.ts";

type Shown =
  | { readonly kind: "waiting" }
  | { readonly kind: "failed"; readonly why: string }
  | { readonly kind: "picture"; readonly url: string; readonly whole: boolean; readonly strokes: number };

/** `version` changes when the board is to be looked at anew; `onAuthors` is told whose ink shows. */
export function Picture(props: {
  readonly room: string;
  readonly version: number;
  readonly onAuthors: (authors: readonly Author[]) => void;
}) {
  const [shown, setShown] = useState<Shown>({ kind: "waiting" });
  const { room, version, onAuthors } = props;
  // A new version is the reason to look again.
  useEffect(() => {
    let isOver = false;
    let url: string | null = null;
    const show = async () => {
      const board = new Board();
      board.applyAll(decodeSnapshot(await getSnapshot(room)).records);
      const { blob, whole } = await toPng(board, 1);
      if (isOver) return;
      url = URL.createObjectURL(blob);
      const ink = board.strokes();
      setShown({ kind: "picture", url, whole, strokes: ink.length });
      onAuthors(authorsOf(ink));
    };
    show().catch((error: unknown) => {
      if (!isOver) setShown({ kind: "failed", why: error instanceof Error ? error.message : String(error) });
    });
    return () => {
      isOver = true;
      if (url !== null) URL.revokeObjectURL(url);
    };
  }, [room, version, onAuthors]);
  if (shown.kind === "waiting") return <div class="picture">Fetching the board …</div>;
  if (shown.kind === "failed") return <div class="picture">The board cannot be shown: {shown.why}</div>;
  return (
    <figure class="picture">
      <img src={shown.url} alt={`The board of ${room}`} />
      <figcaption class="quiet">
        {strokes(shown.strokes)}
        {shown.whole ? "" : "; the place with most of the ink"}
      </figcaption>
    </figure>
  );
}
