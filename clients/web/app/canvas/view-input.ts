/** View input: wheel, trackpad pinch and the space key, which move the view and never draw. */
import type { Point } from "./camera.ts";

/** Board zoom per pixel of a wheel with ctrl held, which is also how trackpads report a pinch. */
const ZOOM_PER_PIXEL = 0.01;
/** One notch of a mouse wheel counts as at most that many pixels when it zooms. */
const ZOOM_STEP_MAX = 24;
/** Pixels per line and per page, for wheels that count in those. */
const LINE = 16;
const PAGE = 400;

export interface ViewListener {
  pan(dx: number, dy: number): void;
  zoom(factor: number, at: Point): void;
  /** Space is held, or not any more. */
  space(held: boolean): void;
  /** Whether fingers are on the stage: then their pinch is read from pointers, not from Safari's gesture events. */
  touched(): boolean;
}

/** A wheel's way in pixels. */
export function wheelWay(event: Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode">): Point {
  const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? PAGE : 1;
  return { x: event.deltaX * unit, y: event.deltaY * unit };
}

/** By how much a wheel zooms. */
export function wheelZoom(way: Point): number {
  return Math.exp(-Math.min(ZOOM_STEP_MAX, Math.max(-ZOOM_STEP_MAX, way.y)) * ZOOM_PER_PIXEL);
}

/** Reads them until the returned function is called. */
export function listenToView(host: HTMLElement, listener: ViewListener): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  const at = (x: number, y: number): Point => {
    const corner = host.getBoundingClientRect();
    return { x: x - corner.left, y: y - corner.top };
  };

  host.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const way = wheelWay(event);
      if (event.ctrlKey || event.metaKey) {
        listener.zoom(wheelZoom(way), at(event.clientX, event.clientY));
      } else if (event.shiftKey && way.x === 0) {
        listener.pan(-way.y, 0);
      } else {
        listener.pan(-way.x, -way.y);
      }
    },
    { signal, passive: false },
  );

  let scale = 1;
  for (const type of ["gesturestart", "gesturechange", "gestureend"]) {
    host.addEventListener(
      type,
      (event) => {
        event.preventDefault();
        const now = "scale" in event && typeof event.scale === "number" && event.scale > 0 ? event.scale : 1;
        if (type === "gesturechange" && !listener.touched() && event instanceof UIEvent) {
          const x = "clientX" in event && typeof event.clientX === "number" ? event.clientX : 0;
          const y = "clientY" in event && typeof event.clientY === "number" ? event.clientY : 0;
          listener.zoom(now / scale, at(x, y));
        }
        scale = type === "gestureend" ? 1 : now;
      },
      { signal, passive: false },
    );
  }

  window.addEventListener(
    "keydown",
    (event) => {
      // On a button or in a field, space means something else.
      if (event.key === " " && (event.target === document.body || event.target === host)) {
        event.preventDefault();
        listener.space(true);
      }
    },
    { signal },
  );
  window.addEventListener("keyup", (event) => event.key === " " && listener.space(false), { signal });
  window.addEventListener("blur", () => listener.space(false), { signal });
  return () => abort.abort();
}
