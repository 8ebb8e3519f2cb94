/** Pointer input: the shell that reads the browser's events and hands them on as plain ones. */
import type { Device, PointerInput, Sample } from "./gesture.ts";

/** The parts of a `PointerEvent` that are read; all that some browser lacks is optional. */
export interface PointerLike {
  readonly pointerId: number;
  readonly pointerType: string;
  readonly clientX: number;
  readonly clientY: number;
  readonly pressure: number;
  readonly tiltX?: number;
  readonly tiltY?: number;
  readonly altitudeAngle?: number;
  readonly azimuthAngle?: number;
  readonly button: number;
  readonly buttons: number;
  readonly timeStamp: number;
  getCoalescedEvents?(): PointerLike[];
  getPredictedEvents?(): PointerLike[];
}

interface Corner {
  readonly left: number;
  readonly top: number;
}

/** More readings of one event than that are not believed. */
const COALESCED_MAX = 1000;
/** Guesses further ahead than that look worse than none. */
const PREDICTED_MAX = 3;

function deviceOf(event: PointerLike): Device {
  return event.pointerType === "pen" || event.pointerType === "touch" ? event.pointerType : "mouse";
}

/**
 * All readings of an event, oldest first. The event itself is always the last of them: browsers without coalesced
 * events, and those that return none or not all, lose nothing but the readings in between.
 */
export function samplesOf(event: PointerLike, corner: Corner): [Sample, ...Sample[]] {
  const own = sampleOf(event, corner);
  let between: PointerLike[] = [];
  try {
    between = event.getCoalescedEvents?.() ?? [];
  } catch {
    // Rather fewer readings than none.
  }
  const older = between
    .slice(-COALESCED_MAX)
    .filter((each) => Number.isFinite(each.clientX) && Number.isFinite(each.clientY))
    .sort((a, b) => a.timeStamp - b.timeStamp)
    .map((each) => sampleOf(each, corner));
  const last = older.at(-1);
  if (last && last.x === own.x && last.y === own.y) {
    older.pop();
  }
  const [first, ...rest] = [...older, own];
  return [first ?? own, ...rest];
}

/** Where the browser guesses that the pointer is next. */
export function predictedOf(event: PointerLike, corner: Corner): Sample[] {
  if (deviceOf(event) === "mouse") {
    return [];
  }
  try {
    return (event.getPredictedEvents?.() ?? [])
      .slice(0, PREDICTED_MAX)
      .filter((each) => Number.isFinite(each.clientX) && Number.isFinite(each.clientY))
      .map((each) => sampleOf(each, corner));
  } catch {
    return [];
  }
}

function sampleOf(event: PointerLike, corner: Corner): Sample {
  const [tiltX, tiltY] = tiltOf(event);
  return {
    x: event.clientX - corner.left,
    y: event.clientY - corner.top,
    pressure: event.pressure,
    tiltX,
    tiltY,
  };
}

/** Tilt in degrees along x and y; made from altitude and azimuth where only these are known. */
export function tiltOf(event: PointerLike): readonly [number, number] {
  const { tiltX, tiltY, altitudeAngle, azimuthAngle } = event;
  if (tiltX || tiltY) {
    return [tiltX ?? 0, tiltY ?? 0];
  }
  if (altitudeAngle === undefined || azimuthAngle === undefined || !(altitudeAngle < Math.PI / 2)) {
    return [0, 0];
  }
  // Flat on the glass, the tangent has no end.
  const slope = Math.tan(Math.max(altitudeAngle, 1e-6));
  const degrees = (along: number) => (Math.atan(along / slope) * 180) / Math.PI;
  return [degrees(Math.cos(azimuthAngle)), degrees(Math.sin(azimuthAngle))];
}

export function inputOf(event: PointerLike, type: PointerInput["type"], corner: Corner): PointerInput {
  return {
    type,
    id: event.pointerId,
    device: deviceOf(event),
    button: event.button,
    buttons: event.buttons,
    samples: type === "move" ? samplesOf(event, corner) : [sampleOf(event, corner)],
    time: event.timeStamp,
  };
}

export interface PointerListener {
  take(input: PointerInput, predicted: readonly Sample[]): void;
  /** The pointer is not over the stage any more. */
  leave(): void;
}

/** Reads an element's pointers until the returned function is called. */
export function listen(host: HTMLElement, listener: PointerListener): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  /** Pointers that went down on the stage. */
  const down = new Set<number>();

  const pass = (event: PointerEvent, type: PointerInput["type"]) => {
    const corner = host.getBoundingClientRect();
    listener.take(inputOf(event, type, corner), type === "move" ? predictedOf(event, corner) : []);
  };
  const finish = (event: PointerEvent, type: "up" | "cancel") => {
    if (down.delete(event.pointerId)) {
      pass(event, type);
    }
  };

  host.addEventListener(
    "pointerdown",
    (event) => {
      if (document.activeElement instanceof HTMLElement) {
        document.activeElement.blur();
      }
      down.add(event.pointerId);
      try {
        host.setPointerCapture(event.pointerId);
      } catch {
        // A pointer that is gone again, or one made by hand: the listeners on the window hear it as well.
      }
      pass(event, "down");
    },
    { signal },
  );
  // On the window: without capture too, a stroke goes on over panels and ends outside of the window.
  window.addEventListener(
    "pointermove",
    (event) => {
      if (down.has(event.pointerId) || (event.target instanceof Node && host.contains(event.target))) {
        pass(event, "move");
      }
    },
    { signal },
  );
  window.addEventListener("pointerup", (event) => finish(event, "up"), { signal });
  window.addEventListener("pointercancel", (event) => finish(event, "cancel"), { signal });
  host.addEventListener("lostpointercapture", (event) => finish(event, "up"), { signal });
  host.addEventListener("pointerleave", () => listener.leave(), { signal });

  // iPadOS scrolls, bounces, selects, magnifies, zooms by double tap and starts Scribble unless touches are refused
  // here, where that is still possible: "touch-action" alone does not stop all of these.
  for (const type of ["touchstart", "touchmove", "touchend"]) {
    host.addEventListener(type, prevent, { signal, passive: false });
  }
  // Its own answer to a middle button is scrolling by itself; to a pen, selection. These belong to "mousedown": WebKitGTK
  // tells nothing more of a pen whose "pointerdown" was refused.
  for (const type of ["mousedown", "contextmenu", "selectstart", "dragstart", "dblclick"]) {
    host.addEventListener(type, prevent, { signal });
  }
  return () => abort.abort();
}

function prevent(event: Event): void {
  if (event.cancelable) {
    event.preventDefault();
  }
}
