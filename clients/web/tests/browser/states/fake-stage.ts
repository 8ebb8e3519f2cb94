/** A stage of a few lines, until there is one. */
import type { Picture, Stroke } from "../../../src/index.ts";
import { fillOf, paper } from "../../../app/canvas/colour.ts";
import type { Mode, StageOptions, View } from "../../../app/canvas/stage.ts";

export class Stage {
  mode: Mode = "pen";
  rgba = 0;
  width = 4;
  readOnly = false;
  #theme: "light" | "dark" = "light";
  view: View = { x: 0, y: 0, zoom: 1 };
  #picture: Picture | null = null;
  #end = () => {};
  readonly #canvas = document.createElement("canvas");
  constructor(private readonly options: StageOptions) {
    options.host.append(this.#canvas);
    new ResizeObserver(() => this.paint()).observe(options.host);
  }
  get theme() { return this.#theme; }
  set theme(theme) { this.#theme = theme; this.paint(); }
  show(picture: Picture) { this.#end(); this.#picture = picture; this.#end = picture.subscribe(() => this.paint()); this.paint(); }
  setView(view: View) { this.view = view; this.options.onView(view, false); this.paint(); }
  zoomBy(f: number) { this.setView({ ...this.view, zoom: this.view.zoom * f }); }
  fit() { this.setView({ x: 0, y: 0, zoom: 1 }); }
  toStage({ x, y }: { x: number; y: number }) {
    const { clientWidth: w, clientHeight: h } = this.options.host;
    return { x: w / 2 + (x - this.view.x) * this.view.zoom, y: h / 2 + (y - this.view.y) * this.view.zoom };
  }
  paint() {
    const { clientWidth: w, clientHeight: h } = this.options.host;
    const c = this.#canvas; const d = devicePixelRatio;
    c.width = w * d; c.height = h * d; c.style.width = `${w}px`; c.style.height = `${h}px`;
    const g = c.getContext("2d"); if (!g) return;
    g.scale(d, d); g.fillStyle = paper(this.theme); g.fillRect(0, 0, w, h); g.lineCap = g.lineJoin = "round";
    for (const s of this.#picture?.strokes() ?? []) this.line(g, s);
  }
  line(g: CanvasRenderingContext2D, s: Stroke) {
    const f = fillOf(s.style.tool, s.style.rgba, this.theme);
    g.strokeStyle = f.rgb; g.globalAlpha = f.alpha; g.lineWidth = (s.style.width / 16) * this.view.zoom; g.beginPath();
    for (let i = 0; i + 1 < s.values.length; i += 2) { const p = this.toStage({ x: (s.values[i] ?? 0) / 16, y: (s.values[i + 1] ?? 0) / 16 }); g.lineTo(p.x, p.y); }
    g.stroke();
  }
}
export const toPng = async () => new Blob();
export const toSvg = () => "";
