// The whole trace in a strip: each span a line of its own height or less. The window on it is what the timeline shows; drawing a new one zooms.
import { h } from "../lib/dom.ts";
import { paint } from "../lib/colour.ts";
import type { ColourBy, Trace } from "./model.ts";

const height = 56;

export class Minimap {
  readonly el: HTMLElement;
  private canvas = h("canvas", { class: "mm-c" });
  private left = h("div", { class: "mm-out" });
  private right = h("div", { class: "mm-out" });
  private window = h("div", { class: "mm-win" }, h("i", { class: "mm-grip l" }), h("i", { class: "mm-grip r" }));
  private trace: Trace | undefined;
  private by: ColourBy = "service";
  private range: [number, number] = [0, 1]; // shares of the trace's duration
  private sizes = new ResizeObserver(() => this.draw());

  constructor(private on: (from: number, to: number) => void) {
    this.el = h("div", { class: "minimap", "aria-hidden": "true" }, this.canvas, this.left, this.right, this.window);
    this.el.addEventListener("pointerdown", (e) => this.press(e));
    this.el.addEventListener("dblclick", () => this.on(0, 1));
    this.sizes.observe(this.el);
  }

  show(t: Trace, by: ColourBy) {
    this.trace = t;
    this.by = by;
    this.draw();
  }

  set(from: number, to: number) {
    this.range = [from, to];
    const pc = (v: number) => `${v * 100}%`;
    this.left.style.width = pc(from);
    this.right.style.left = pc(to);
    this.window.style.left = pc(from);
    this.window.style.width = pc(to - from);
    this.window.hidden = this.left.hidden = this.right.hidden = from <= 0 && to >= 1;
  }

  /** Writes the pixels itself: a hundred thousand rectangles would take the canvas a second. */
  private draw() {
    const t = this.trace, width = Math.floor(this.el.clientWidth * devicePixelRatio), tall = Math.floor(height * devicePixelRatio);
    if (!t || width < 10) return;
    this.canvas.width = width;
    this.canvas.height = tall;
    const image = new ImageData(width, tall), pixels = new Uint32Array(image.data.buffer);
    const colours = new Map<string, number>();
    const colour = (token: string) => {
      let c = colours.get(token);
      if (c === undefined) colours.set(token, (c = pack(paint(token))));
      return c;
    };
    const failed = colour("--lf-error");
    const thick = Math.max(1, Math.floor(Math.min(6 * devicePixelRatio, tall / t.n - devicePixelRatio)));
    const line = (i: number, c: number, skip = 0) => {
      const y = Math.min(tall - thick, Math.floor((i / Math.max(t.n, tall / (7 * devicePixelRatio))) * tall));
      const from = Math.max(0, Math.floor((t.start[i]! / t.duration) * width)), to = Math.min(width, Math.max(from + Math.ceil(devicePixelRatio), Math.ceil(((t.start[i]! + t.length(i)) / t.duration) * width)));
      for (let k = skip; k < thick; k++) pixels.fill(c, (y + k) * width + from, (y + k) * width + to);
    };
    for (let i = 0; i < t.n; i++) line(i, colour(t.colour(i, this.by)));
    for (let i = 0; i < t.n; i++) if (t.error[i]) line(i, failed, Math.floor(thick * 0.6));
    this.canvas.getContext("2d")!.putImageData(image, 0, 0);
  }

  private press(e: PointerEvent) {
    if (e.button !== 0) return;
    e.preventDefault();
    const box = this.el.getBoundingClientRect();
    const at = (m: PointerEvent) => Math.max(0, Math.min(1, (m.clientX - box.left) / box.width));
    const start = at(e), [from, to] = this.range, target = e.target as HTMLElement;
    const least = 4 / box.width;
    const whole = from <= 0 && to >= 1;
    const move = (m: PointerEvent) => {
      const now = at(m);
      if (target.classList.contains("l")) this.on(Math.min(now, to - least / 100), to);
      else if (target.classList.contains("r")) this.on(from, Math.max(now, from + least / 100));
      else if (target === this.window && !whole) { const by = Math.max(-from, Math.min(1 - to, now - start)); this.on(from + by, to + by); }
      else if (Math.abs(now - start) > least) this.on(Math.min(start, now), Math.max(start, now));
    };
    this.el.setPointerCapture(e.pointerId);
    this.el.addEventListener("pointermove", move);
    this.el.addEventListener("lostpointercapture", () => this.el.removeEventListener("pointermove", move), { once: true });
  }
}

/** A CSS colour of six hexadecimal digits as a pixel. */
function pack(css: string): number {
  const n = parseInt(css.replace("#", ""), 16);
  return ((255 << 24) | ((n & 255) << 16) | (((n >> 8) & 255) << 8) | (n >> 16)) >>> 0;
}
