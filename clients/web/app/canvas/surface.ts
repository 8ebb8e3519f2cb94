/** The surface: the elements that the stage puts into its host, and their size in CSS and device pixels. */
import type { Point, Size } from "./camera.ts";

/** More device pixels per CSS pixel cost memory and cannot be seen. */
const RATIO_MAX = 3;

export class Surface {
  readonly below: HTMLCanvasElement;
  readonly above: HTMLCanvasElement;
  readonly #host: HTMLElement;
  readonly #ring: HTMLDivElement;

  constructor(host: HTMLElement) {
    this.#host = host;
    Object.assign(host.style, {
      overflow: "hidden",
      touchAction: "none",
      userSelect: "none",
      overscrollBehavior: "none",
    });
    for (const name of ["-webkit-user-select", "-webkit-touch-callout"]) {
      host.style.setProperty(name, "none");
    }
    host.style.setProperty("-webkit-tap-highlight-color", "transparent");
    this.below = canvasIn(host);
    this.above = canvasIn(host);
    this.below.setAttribute("role", "img");
    this.below.setAttribute("aria-label", "Drawing board");
    this.above.setAttribute("aria-hidden", "true");
    this.#ring = document.createElement("div");
    Object.assign(this.#ring.style, {
      position: "absolute",
      left: "0",
      top: "0",
      display: "none",
      pointerEvents: "none",
      boxSizing: "border-box",
      borderRadius: "50%",
      border: "1.5px solid rgba(90, 90, 90, 0.9)",
      boxShadow: "0 0 0 1.5px rgba(255, 255, 255, 0.7)",
    });
    host.append(this.#ring);
  }

  /** CSS pixels. */
  get size(): Size {
    return { width: Math.max(1, this.#host.clientWidth), height: Math.max(1, this.#host.clientHeight) };
  }

  /** Device pixels per CSS pixel. */
  get ratio(): number {
    return Math.min(RATIO_MAX, window.devicePixelRatio || 1);
  }

  set cursor(cursor: string) {
    this.#host.style.cursor = cursor;
  }

  set paper(colour: string) {
    this.#host.style.backgroundColor = colour;
  }

  showRing(at: Point, radius: number): void {
    const { style } = this.#ring;
    style.width = `${radius * 2}px`;
    style.height = `${radius * 2}px`;
    style.transform = `translate(${at.x - radius}px, ${at.y - radius}px)`;
    style.display = "block";
  }

  hideRing(): void {
    this.#ring.style.display = "none";
  }

  /** Calls back when the size or the device pixels per CSS pixel change, until the returned function is called. */
  watch(listener: () => void): () => void {
    const observer = new ResizeObserver(listener);
    observer.observe(this.#host);
    const abort = new AbortController();
    const watchRatio = () => {
      const query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
      const changed = () => {
        watchRatio();
        listener();
      };
      query.addEventListener("change", changed, { once: true, signal: abort.signal });
    };
    watchRatio();
    return () => {
      observer.disconnect();
      abort.abort();
    };
  }

  remove(): void {
    for (const element of [this.below, this.above, this.#ring]) {
      element.remove();
    }
    // Safari keeps a canvas's memory for long unless it is told.
    this.below.width = 0;
    this.above.width = 0;
  }
}

function canvasIn(host: HTMLElement): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  Object.assign(canvas.style, {
    position: "absolute",
    inset: "0",
    width: "100%",
    height: "100%",
    display: "block",
  });
  host.append(canvas);
  return canvas;
}
