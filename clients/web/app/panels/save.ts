/** Saving the board as a picture. */
import type { Picture } from "../../src/index.ts";
import { toPng, toSvg } from "../canvas/stage.ts";

/** Pixels per CSS pixel of a PNG: sharp on today's screens, and in print. */
const PNG_SCALE = 2;
/** Ms that a Blob's address stays, so that slow browsers have begun to read it. */
const KEEP_MS = 60_000;

/** Makes the picture and hands it over: by the share sheet where one saves with it, otherwise as a download. Returns whether
 * all ink is on it. */
export async function savePicture(picture: Picture, kind: "png" | "svg", title: string): Promise<boolean> {
  const { blob, whole } =
    kind === "png"
      ? await toPng(picture, PNG_SCALE)
      : { blob: new Blob([toSvg(picture)], { type: "image/svg+xml" }), whole: true };
  const name = `${title.replaceAll(/[^\p{L}\p{N}_ -]/gu, "_")}.${kind}`;
  if (!(await shared(new File([blob], name, { type: blob.type })))) download(blob, name);
  return whole;
}

/** On a tablet a download is hard to find again; its share sheet saves to photos and files. */
async function shared(file: File): Promise<boolean> {
  const touch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  if (!touch || !("share" in navigator) || !navigator.canShare?.({ files: [file] })) return false;
  try {
    await navigator.share({ files: [file] });
    return true;
  } catch (error) {
    // To change one's mind is an answer; that the sheet may not open is none.
    return error instanceof DOMException && error.name === "AbortError";
  }
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_MS);
}
