// <ms-owners>: segments by owner and time. Nodes are rows, times are columns. Cells are read by pointer or arrow keys; Enter or a double click looks closer at a
// column, which comes out as ms:range.
import { announce } from "../lib/a11y.ts";
import { paint } from "../lib/colour.ts";
import { $$, button, h, visible } from "../lib/dom.ts";
import { bytes, count, percent, plural } from "../lib/format.ts";
import { formatTime, spanLabel, timeTicks, zoneLabel } from "../lib/time.ts";
import { type Colours, offset, type Ownership } from "./model.ts";

export type Mode = "segments" | "bytes" | "share";

const seq = [0, 1, 2, 3, 4, 5, 6].map((i) => `--seq-${i}`), div = ["n3", "n2", "n1", "0", "p1", "p2", "p3"].map((x) => `--div-${x}`);
const tableRows = 60;

export class Owners extends HTMLElement {
  mode: Mode = "segments";
  colours!: Colours;
  private d: Ownership | undefined;
  private at: [number, number] | undefined; // row, column
  private columns: number[] = []; // segments of all nodes
  private most = 0; // of a cell
  private rh = 0; // height of a row, px
  private asTable = false;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly tip = h("div", { class: "tip ow-tip", hidden: true });
  private readonly plot = h("div", { class: "ow-plot", tabindex: "0", role: "group", "aria-roledescription": "heatmap" }, this.canvas, this.tip);
  private readonly names = h("ul", { class: "ow-rl" });
  private readonly values = h("ul", { class: "ow-rv" });
  private readonly axis = h("div", { class: "ow-x", "aria-hidden": "true" });
  private readonly grid = h("div", { class: "ow-hm" }, this.names, this.plot, this.values, this.axis);
  private readonly table = h("div", { class: "ow-table", hidden: true });
  private readonly foot = h("div", { class: "ow-foot" });
  private readonly sizes = new ResizeObserver(() => this.draw());
  private readonly look = () => this.draw();
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");

  connectedCallback() {
    if (!this.firstChild) {
      this.append(this.grid, this.table, this.foot);
      this.plot.addEventListener("pointermove", (e) => this.point(this.cellAt(e)));
      this.plot.addEventListener("pointerleave", () => this.point(undefined));
      this.plot.addEventListener("dblclick", (e) => { const cell = this.cellAt(e); if (cell) this.closer(cell[1]); });
      this.plot.addEventListener("keydown", (e) => this.key(e));
      this.plot.addEventListener("blur", () => this.point(undefined));
    }
    document.addEventListener("ms:look", this.look);
    this.scheme.addEventListener("change", this.look);
    this.sizes.observe(this.plot);
    this.show();
  }

  disconnectedCallback() {
    document.removeEventListener("ms:look", this.look);
    this.scheme.removeEventListener("change", this.look);
    this.sizes.disconnect();
  }

  set data(d: Ownership | undefined) {
    this.d = d;
    this.at = undefined;
    this.show();
  }

  private get start() { return Date.parse(this.d!.heatmap.start!); }
  private get width() { return this.d!.heatmap.bucket_seconds * 1000; }
  private value(r: number, c: number) { const row = this.d!.heatmap.rows[r]!; return this.mode === "bytes" ? row.bytes[c]! : row.segments[c]!; }
  private times(c: number) { return { from: this.start + c * this.width, to: this.start + (c + 1) * this.width }; }
  private period(c: number) { const { from, to } = this.times(c), day = formatTime(from, { time: false }) === formatTime(to, { time: false }), o = { seconds: this.width < 60_000 }; return `${formatTime(from, o)} to ${formatTime(to, { ...o, date: !day })}`; }

  show() {
    const d = this.d;
    if (!this.isConnected || !d || d.heatmap.buckets === 0) return;
    const { rows, buckets } = d.heatmap;
    this.columns = Array.from({ length: buckets }, (_, c) => rows.reduce((sum, r) => sum + r.segments[c]!, 0));
    this.most = rows.reduce((m, _, r) => Math.max(m, ...Array.from({ length: buckets }, (_, c) => this.value(r, c))), 0);
    this.rh = rows.length <= 8 ? 36 : rows.length <= 24 ? 24 : 16;
    this.grid.style.setProperty("--rh", `${this.rh}px`);
    this.grid.hidden = this.asTable;
    this.table.hidden = !this.asTable;
    const total = rows.reduce((sum, _, r) => sum + this.sum(r), 0);
    this.names.replaceChildren(...rows.map((r) => { const sw = h("i", { class: "sw" }); sw.style.setProperty("background", this.colours.of(r.id)); return h("li", null, sw, h("span", { class: "ell", title: visible(r.id) }, visible(r.id))); }));
    this.values.replaceChildren(...rows.map((_, r) => h("li", { class: "num" }, this.mode === "share" ? percent(total > 0 ? this.sum(r) / total : 0) : this.amount(this.sum(r)))));
    this.plot.setAttribute("aria-label", `${plural(total, this.mode === "bytes" ? "byte" : "segment")} of ${plural(rows.length, "node")}, ${spanLabel({ start: this.start, end: this.times(buckets - 1).to })}. Arrow keys read the cells, Enter looks closer at a column.`);
    this.foot.replaceChildren(button({ text: this.asTable ? "Show as heatmap" : "Show as table", icon: this.asTable ? "grid-3x3" : "table-2", cls: "ghost sm", on: () => { this.asTable = !this.asTable; this.show(); $$("button", this.foot)[0]?.focus(); } }), this.asTable ? "" : this.scale());
    if (this.asTable) this.table.replaceChildren(this.list()); else this.draw();
  }

  private sum(r: number) { const row = this.d!.heatmap.rows[r]!; return (this.mode === "bytes" ? row.bytes : row.segments).reduce((a, b) => a + b, 0); }
  private amount(n: number) { return this.mode === "bytes" ? bytes(n) : count(n); }

  private scale() {
    const shades = this.mode === "share" ? div : seq, [low, high] = this.mode === "share" ? ["less", "more than its weight"] : ["1", this.amount(this.most)];
    const steps = shades.map((token) => { const e = h("i"); e.style.setProperty("background", `var(${token})`); return e; });
    return h("span", { class: "ow-scale" }, h("span", null, low), h("span", { class: "g", "aria-hidden": "true" }, steps), h("span", null, high));
  }

  /** The colour of a cell; a column in which nobody has anything is empty. */
  private shade(r: number, c: number): string {
    const n = this.columns[c]!, v = this.value(r, c);
    if (this.mode !== "share") return v > 0 ? seq[Math.min(6, Math.max(0, Math.ceil(Math.sqrt(v / this.most) * 7) - 1))]! : "--surface-2";
    if (n === 0) return "--surface-2";
    const z = offset(v, n, this.d!.members[r]!.expected), a = Math.abs(z), step = a > 3 ? 3 : a > 2.2 ? 2 : a > 1.5 ? 1 : 0;
    return div[3 + Math.sign(z) * step]!;
  }

  private draw() {
    const d = this.d, w = this.plot.clientWidth, ratio = devicePixelRatio || 1;
    if (!d || !w || this.asTable || d.heatmap.buckets === 0) return;
    const { rows, buckets } = d.heatmap, hgt = rows.length * this.rh, colours = new Map([...seq, ...div, "--surface-2"].map((t) => [t, paint(t)]));
    this.canvas.width = w * ratio;
    this.canvas.height = hgt * ratio;
    this.canvas.style.setProperty("height", `${hgt}px`);
    const c = this.canvas.getContext("2d")!, cw = w / buckets, gap = cw > 5 ? 1.5 : cw > 2.5 ? 0.6 : 0, round = Math.min(2, cw / 4);
    c.scale(ratio, ratio);
    for (let r = 0; r < rows.length; r++) {
      for (let i = 0; i < buckets; i++) {
        c.fillStyle = colours.get(this.shade(r, i))!;
        c.beginPath();
        c.roundRect(i * cw + gap / 2, r * this.rh + 1.5, Math.max(0.5, cw - gap), this.rh - 3, round);
        c.fill();
      }
    }
    if (this.at) {
      c.strokeStyle = paint("--text");
      c.lineWidth = 2;
      c.strokeRect(Math.max(1, this.at[1] * cw), this.at[0] * this.rh + 1, Math.max(3, cw), this.rh - 2);
    }
    const span = { start: this.start, end: this.times(buckets - 1).to };
    this.axis.replaceChildren(...timeTicks(span, Math.max(5, Math.floor(w / 72))).flatMap((t) => {
      const x = ((t.t - span.start) / (span.end - span.start)) * w, half = 3.2 * t.text.length + 1; // what its text takes to either side, px
      if (x < half || x > w - half) return [];
      const e = h("span", null, t.text);
      e.style.setProperty("left", `${x}px`);
      return [e];
    }));
    this.axis.title = zoneLabel();
  }

  private cellAt(e: PointerEvent | MouseEvent): [number, number] | undefined {
    const d = this.d, box = this.plot.getBoundingClientRect();
    if (!d || d.heatmap.buckets === 0) return undefined;
    const c = Math.floor(((e.clientX - box.left) / box.width) * d.heatmap.buckets), r = Math.floor((e.clientY - box.top) / this.rh);
    return c >= 0 && c < d.heatmap.buckets && r >= 0 && r < d.heatmap.rows.length ? [r, c] : undefined;
  }

  private point(cell: [number, number] | undefined) {
    if (cell?.[0] === this.at?.[0] && cell?.[1] === this.at?.[1]) return;
    this.at = cell;
    this.draw();
    this.tip.hidden = !cell;
    if (!cell) return;
    const [r, c] = cell, row = this.d!.heatmap.rows[r]!, n = this.columns[c]!, line = (k: string, v: string) => h("li", null, h("span", null, k), h("b", { class: "num" }, v));
    this.tip.replaceChildren(h("h3", null, visible(row.id)), h("p", { class: "muted" }, this.period(c)),
      h("ul", null, line("Segments", count(row.segments[c]!)), line("Bytes", bytes(row.bytes[c]!)), line("Share of the column", n > 0 ? percent(row.segments[c]! / n) : "–"), line("Share of the weights", percent(this.d!.members[r]!.expected))));
    const w = this.plot.clientWidth, cw = w / this.d!.heatmap.buckets, tw = this.tip.offsetWidth, x = (c + 1) * cw + 8;
    this.tip.style.setProperty("left", `${Math.max(0, x + tw > w ? c * cw - tw - 8 : x)}px`);
    this.tip.style.setProperty("top", `${(r + 1) * this.rh + 4}px`);
  }

  private key(e: KeyboardEvent) {
    const d = this.d;
    if (!d || d.heatmap.buckets === 0) return;
    if (e.key === "Enter" && this.at) { e.preventDefault(); this.closer(this.at[1]); return; }
    if (e.key === "Escape" && this.at) { e.stopPropagation(); this.point(undefined); return; }
    const by = ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] } as Record<string, [number, number]>)[e.key];
    if (!by) return;
    e.preventDefault();
    e.stopPropagation();
    const clamp = (v: number, most: number) => Math.max(0, Math.min(most - 1, v)), last = d.heatmap.buckets;
    const [r, c] = this.at ?? [0, last - 1 - (Number.isFinite(by[1]) ? by[1] : 0)];
    const to: [number, number] = [clamp(r + by[0], d.heatmap.rows.length), clamp(c + by[1], last)];
    this.point(to);
    const row = d.heatmap.rows[to[0]]!;
    announce(`${visible(row.id)}, ${this.period(to[1])}: ${plural(row.segments[to[1]]!, "segment")}, ${bytes(row.bytes[to[1]]!)}`);
  }

  private closer(c: number) {
    if (this.width <= 2000) return;
    const { from, to } = this.times(c);
    this.dispatchEvent(new CustomEvent("ms:range", { bubbles: true, detail: { start: Math.round(from), end: Math.round(to) } }));
  }

  private list() {
    const { rows, buckets } = this.d!.heatmap, first = Math.max(0, buckets - tableRows);
    const shown = Array.from({ length: buckets - first }, (_, i) => buckets - 1 - i), cell = (r: number, c: number) => (this.mode === "share" ? (this.columns[c]! > 0 ? percent(this.value(r, c) / this.columns[c]!) : "–") : this.amount(this.value(r, c)));
    return h("div", { class: "tblwrap", tabindex: "0", role: "region", "aria-label": "The values of the heatmap" }, first > 0 && h("p", { class: "muted cardpad" }, `The newest ${tableRows} of ${count(buckets)} columns.`),
      h("table", { class: "tbl" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, `From (${zoneLabel()})`), rows.map((r) => h("th", { scope: "col", class: "r" }, visible(r.id))))),
        h("tbody", null, shown.map((c) => h("tr", null, h("th", { scope: "row", class: "num" }, formatTime(this.times(c).from)), rows.map((_, r) => h("td", { class: "r num" }, cell(r, c))))))));
  }
}
customElements.define("ms-owners", Owners);
