// <ms-heatmap>: how values were distributed over time. Times are columns, buckets of values rows; the darker a cell, the more fell into it. Cells are read by
// pointer or arrow keys; a part of the time that is dragged comes out as ms:range.
import { announce } from "../lib/a11y.ts";
import { button, h } from "../lib/dom.ts";
import { paint } from "../lib/colour.ts";
import { count } from "../lib/format.ts";
import { formatTime, spanLabel, timeTicks } from "../lib/time.ts";
import { formatValue } from "../lib/units.ts";

export interface HeatmapRow { lower: number; upper: number }
export interface HeatmapData {
  from: number; // ms
  to: number;
  step: number; // ms; a column covers the step before its time
  times: number[]; // ms, ascending
  rows: HeatmapRow[]; // ascending
  cells: number[][]; // by row, by time; 0 is empty
  unit?: string; // of the bounds
  zone?: string;
}

const foot = 22, top = 6;

export class Heatmap extends HTMLElement {
  private d: HeatmapData | undefined;
  private at: [number, number] | undefined; // row, column
  private drag: { from: number; to: number } | undefined; // px
  private max = 0;
  private asTable = false;
  private readonly canvas = h("canvas", { class: "hm-c", "aria-hidden": "true" });
  private readonly box = h("div", { class: "hm-box", tabindex: "0", role: "group", "aria-roledescription": "heatmap" }, this.canvas);
  private readonly tip = h("div", { class: "tip ch-tip", hidden: true });
  private readonly foot = h("div", { class: "ch-foot" });
  private readonly table = h("div", { class: "ch-table", hidden: true });
  private readonly sizes = new ResizeObserver(() => this.draw());
  private readonly look = () => this.draw();

  connectedCallback() {
    if (!this.firstChild) {
      this.append(h("div", { class: "ch-box" }, this.box, this.tip), this.table, this.foot);
      this.box.addEventListener("pointermove", (e) => this.move(e));
      this.box.addEventListener("pointerdown", (e) => { this.box.setPointerCapture(e.pointerId); this.drag = { from: e.offsetX, to: e.offsetX }; });
      this.box.addEventListener("pointerup", () => this.drop());
      this.box.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      this.box.addEventListener("dblclick", () => this.dispatchEvent(new CustomEvent("ms:zoomout", { bubbles: true, detail: {} })));
      this.box.addEventListener("keydown", (e) => this.key(e));
      this.box.addEventListener("blur", () => { this.at = undefined; this.tip.hidden = true; this.draw(); });
    }
    document.addEventListener("ms:look", this.look);
    this.sizes.observe(this.box);
    this.show();
  }

  disconnectedCallback() {
    document.removeEventListener("ms:look", this.look);
    this.sizes.disconnect();
  }

  get data() { return this.d; }
  set data(d: HeatmapData | undefined) {
    this.d = d;
    this.at = undefined;
    this.max = d ? d.cells.reduce((m, row) => row.reduce((x, v) => (v > x ? v : x), m), 0) : 0;
    this.show();
  }

  private show() {
    if (!this.isConnected) return;
    const d = this.d;
    this.box.hidden = this.asTable;
    this.table.hidden = !this.asTable;
    if (!d) return;
    this.box.setAttribute("aria-label", `Distribution over ${d.rows.length} buckets, ${spanLabel({ start: d.from, end: d.to })}. ${this.peak()} Arrow keys read the cells.`);
    this.foot.replaceChildren(button({ text: this.asTable ? "Show as heatmap" : "Show as table", icon: this.asTable ? "grid-3x3" : "table-2", cls: "ghost sm", on: () => { this.asTable = !this.asTable; this.show(); } }), this.scale());
    if (this.asTable) this.table.replaceChildren(this.values(d)); else this.draw();
  }

  private peak() {
    const d = this.d!;
    for (const [r, row] of d.cells.entries()) { const c = row.indexOf(this.max); if (c >= 0 && this.max > 0) return `Most at ${formatTime(d.times[c]!)} in ${this.bucket(r)}: ${formatValue(this.max)}.`; }
    return "Nothing was counted.";
  }

  private bucket(r: number) {
    const { lower, upper } = this.d!.rows[r]!, u = this.d!.unit;
    return lower === -Infinity ? `up to ${formatValue(upper, u)}` : upper === Infinity ? `over ${formatValue(lower, u)}` : `${formatValue(lower, u)} to ${formatValue(upper, u)}`;
  }

  /** Seven steps; the square root keeps small counts visible beside large ones. */
  private level(v: number) { return v <= 0 ? -1 : Math.min(6, Math.max(0, Math.ceil(Math.sqrt(v / this.max) * 7) - 1)); }

  private scale() {
    const swatches = Array.from({ length: 7 }, (_, i) => { const e = h("i"); e.style.setProperty("background", `var(--seq-${i})`); return e; });
    return h("span", { class: "hm-scale" }, h("span", { class: "muted" }, "few"), swatches, h("span", { class: "muted" }, formatValue(this.max)));
  }

  // ---- geometry
  private left() { return 14 + 6.4 * Math.max(3, ...this.d!.rows.map((r) => formatValue(r.upper, this.d!.unit).length)); }
  private x(t: number) { const d = this.d!, l = this.left(); return l + ((t - d.from) / (d.to - d.from)) * (this.box.clientWidth - l - 8); }
  private y(r: number) { return top + (this.box.clientHeight - foot - top) * (1 - r / this.d!.rows.length); } // lower edge of a row

  private draw() {
    const d = this.d, w = this.box.clientWidth, hgt = this.box.clientHeight, ratio = devicePixelRatio || 1;
    if (!d || !w || !hgt || this.asTable) return;
    this.canvas.width = w * ratio;
    this.canvas.height = hgt * ratio;
    const c = this.canvas.getContext("2d")!;
    c.scale(ratio, ratio);
    c.clearRect(0, 0, w, hgt);
    const l = this.left(), colours = Array.from({ length: 7 }, (_, i) => paint(`--seq-${i}`));
    c.fillStyle = paint("--surface-2");
    c.fillRect(l, top, w - l - 8, hgt - foot - top);
    const gap = (hgt - foot - top) / d.rows.length > 5 ? 1 : 0;
    d.cells.forEach((row, r) => row.forEach((v, i) => {
      const level = this.level(v);
      if (level < 0) return;
      const x0 = Math.max(l, this.x(d.times[i]! - d.step)), x1 = Math.min(w - 8, this.x(d.times[i]!)), y1 = this.y(r), y0 = this.y(r + 1);
      if (x1 <= l) return;
      c.fillStyle = colours[level]!;
      c.fillRect(x0, y0, Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0)), y1 - y0 - gap);
    }));
    this.axes(c, l, w, hgt);
    if (this.at) this.outline(c, ...this.at);
    if (this.drag && Math.abs(this.drag.to - this.drag.from) > 3) {
      c.fillStyle = paint("--accent");
      c.globalAlpha = 0.2;
      c.fillRect(Math.min(this.drag.from, this.drag.to), top, Math.abs(this.drag.to - this.drag.from), hgt - foot - top);
      c.globalAlpha = 1;
    }
  }

  private axes(c: CanvasRenderingContext2D, l: number, w: number, hgt: number) {
    const d = this.d!;
    c.font = `11px ${paint("--font-ui")}`;
    c.fillStyle = paint("--text-3");
    c.textAlign = "right";
    c.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(16 / ((hgt - foot - top) / d.rows.length)));
    d.rows.forEach((r, i) => { if (i % every === every - 1 || i === d.rows.length - 1 && every === 1) c.fillText(formatValue(r.upper, d.unit), l - 6, Math.max(top + 5, this.y(i + 1))); });
    c.textAlign = "center";
    for (const t of timeTicks({ start: d.from, end: d.to }, Math.max(2, Math.floor((w - l) / 84)), d.zone ? { zone: d.zone } : {})) {
      const x = this.x(t.t);
      if (x > l + 16 && x < w - 16) c.fillText(t.text, x, hgt - foot / 2 + 2);
    }
  }

  private outline(c: CanvasRenderingContext2D, r: number, i: number) {
    const d = this.d!, x0 = this.x(d.times[i]! - d.step), x1 = this.x(d.times[i]!);
    c.strokeStyle = paint("--text");
    c.lineWidth = 1.5;
    c.strokeRect(x0, this.y(r + 1), Math.max(2, x1 - x0), this.y(r) - this.y(r + 1));
  }

  // ---- reading
  private cellAt(px: number, py: number): [number, number] | undefined {
    const d = this.d!, hgt = this.box.clientHeight, l = this.left();
    const t = d.from + ((px - l) / (this.box.clientWidth - l - 8)) * (d.to - d.from);
    const i = d.times.findIndex((x) => t > x - d.step && t <= x), r = Math.floor((1 - (py - top) / (hgt - foot - top)) * d.rows.length);
    return i >= 0 && r >= 0 && r < d.rows.length ? [r, i] : undefined;
  }

  private text(r: number, i: number) { const d = this.d!; return { when: `${formatTime(d.times[i]! - d.step)} to ${formatTime(d.times[i]!, { date: false })}`, what: this.bucket(r), value: formatValue(d.cells[r]![i] ?? 0) }; }

  private move(e: PointerEvent) {
    if (!this.d) return;
    if (this.drag) { this.drag.to = e.offsetX; this.draw(); }
    const cell = this.cellAt(e.offsetX, e.offsetY);
    if (!cell) { this.tip.hidden = true; return; }
    this.point(cell, e.offsetX);
  }

  private point(cell: [number, number], x: number) {
    const t = this.text(...cell);
    this.tip.replaceChildren(h("p", { class: "hd" }, t.when), h("ul", null, h("li", null, h("span", null, t.what), h("b", null, t.value))));
    this.tip.hidden = false;
    const w = this.tip.offsetWidth;
    this.tip.style.left = `${x + 14 + w > this.box.clientWidth ? Math.max(0, x - w - 14) : x + 14}px`;
  }

  private drop() {
    const drag = this.drag, d = this.d;
    this.drag = undefined;
    this.draw();
    if (!drag || !d || Math.abs(drag.to - drag.from) <= 3) return;
    const l = this.left(), at = (px: number) => Math.round(d.from + (Math.max(0, px - l) / (this.box.clientWidth - l - 8)) * (d.to - d.from));
    this.dispatchEvent(new CustomEvent("ms:range", { bubbles: true, detail: { start: at(Math.min(drag.from, drag.to)), end: at(Math.max(drag.from, drag.to)) } }));
  }

  private key(e: KeyboardEvent) {
    const d = this.d, by = ({ ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as Record<string, [number, number]>)[e.key];
    if (!d || !by || !d.times.length || !d.rows.length) return;
    e.preventDefault();
    e.stopPropagation();
    const [r, i] = this.at ?? [0, d.times.length - 1 - by[1]];
    this.at = [Math.max(0, Math.min(d.rows.length - 1, r + by[0])), Math.max(0, Math.min(d.times.length - 1, i + by[1]))];
    this.draw();
    this.point(this.at, this.x(d.times[this.at[1]]!));
    const t = this.text(...this.at);
    announce(`${t.when}, ${t.what}: ${t.value}`);
  }

  private values(d: HeatmapData) {
    const from = Math.max(0, d.times.length - 60);
    return h("div", { class: "ch-scroll", tabindex: "0", role: "region", "aria-label": "Counts" }, from > 0 && h("p", { class: "ch-note" }, `The newest 60 of ${count(d.times.length)} times.`),
      h("table", { class: "tbl" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Time"), d.rows.map((_, r) => h("th", { scope: "col", class: "r" }, this.bucket(r))))),
        h("tbody", null, d.times.slice(from).map((t, k) => h("tr", null, h("th", { scope: "row", class: "mono" }, formatTime(t)), d.rows.map((_, r) => h("td", { class: "r num" }, formatValue(d.cells[r]![from + k] ?? 0))))).reverse())));
  }
}
customElements.define("ms-heatmap", Heatmap);
