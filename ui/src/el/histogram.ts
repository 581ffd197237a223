// <ms-histogram>: records over time as stacked bars. A part of the time is chosen by pointer or keys; the legend shows some of the series only.
import { announce } from "../lib/a11y.ts";
import { $, button, h, s } from "../lib/dom.ts";
import { count, short } from "../lib/format.ts";
import { dialog } from "../lib/layers.ts";
import type { Level } from "../lib/level.ts";
import { niceStep } from "../lib/time.ts";

export interface Series { name: string; counts: number[]; total: number; level?: Level | ""; colour?: string; values?: string[] } // values: of the field, as they were sent; without them nothing can be filtered by the series

export interface HistogramData {
  starts: number[]; // ms
  width: number; // of a bucket, ms
  series: Series[];
  total?: number;
  covered?: [number, number]; // ms; what is outside was not read yet
  atLeast?: boolean; // the counts are lower bounds
}

const axis = 36, foot = 18, height = 112;
const order: Level[] = ["trace", "debug", "info", "warn", "error", "fatal"];

export class Histogram extends HTMLElement {
  /** What is counted, for the summary and the head. */
  unit = "events";
  /** How a time is written; seconds are needed when buckets are shorter than a minute. */
  time: (ms: number, o: { seconds: boolean; ms?: boolean; date?: boolean }) => string = (ms, o) => new Date(ms).toISOString().slice(o.date ? 0 : 11, o.ms ? 23 : o.seconds ? 19 : 16).replace("T", " ");
  /** Whether the chosen part can also be compared (ms:compare). */
  comparable = false;
  /** Whether what the legend shows alone can also be filtered for (ms:only). */
  filterable = false;
  /** The only record of a bucket, to be shown beside its count. */
  peek?: (start: number, end: number) => Promise<string>;

  private d: HistogramData | undefined;
  private only = new Set<string>(); // series shown; empty: all
  private sel: [number, number] | undefined; // buckets, end excluded
  private cursor = -1;
  private width = 0;
  private peeks = new Map<number, string>();
  private hd = h("div", { class: "hg-hd" });
  private plot = h("div", { class: "hg-plot", tabindex: "0", role: "group", "aria-roledescription": "chart" });
  private tip = h("div", { class: "tip", hidden: true });
  private bar = h("div", { class: "hg-bar", hidden: true });
  private sizes = new ResizeObserver(() => { if (this.plot.clientWidth !== this.width) this.draw(); });

  connectedCallback() {
    this.replaceChildren(this.hd, h("div", { class: "hg-box" }, this.plot, this.tip, this.bar));
    this.plot.onpointerdown = (e) => this.press(e);
    this.plot.onpointermove = (e) => { if (!e.buttons) this.point(this.bucketAt(e)); };
    this.plot.onpointerleave = () => this.point(-1);
    this.plot.onblur = () => this.point(-1);
    this.plot.ondblclick = () => this.emit("ms:zoomout", {});
    this.plot.onkeydown = (e) => this.key(e);
    this.sizes.observe(this);
    this.draw();
  }

  disconnectedCallback() { this.sizes.disconnect(); }

  get data() { return this.d; }
  set data(d: HistogramData | undefined) {
    this.d = d;
    this.sel = undefined;
    this.cursor = -1;
    this.tip.hidden = true;
    this.peeks.clear();
    for (const name of this.only) if (!d?.series.some((x) => x.name === name)) this.only.delete(name);
    this.draw();
  }

  /** Shows newer counts of the same. What the reader has chosen or points at stays where it is in time. */
  update(d: HistogramData) {
    const was = this.d, by = was && was.width === d.width ? Math.round((d.starts[0]! - was.starts[0]!) / d.width) : undefined;
    if (by === undefined) { this.data = d; return; }
    const had = this.sel !== undefined, sel = this.sel?.map((i) => Math.max(0, i - by));
    this.d = d;
    if (by) this.peeks.clear();
    this.sel = sel && sel[1]! > sel[0]! ? [sel[0]!, sel[1]!] : undefined;
    this.cursor = Math.max(-1, this.cursor - by);
    if (this.cursor < 0) this.tip.hidden = true;
    this.recount();
    this.drawPlot();
    if (had && (by || !this.sel)) this.drawBar();
  }

  /** The chosen part in ms. */
  get selection(): [number, number] | undefined { return this.sel && this.d && [this.d.starts[this.sel[0]]!, this.d.starts[0]! + this.sel[1] * this.d.width]; }

  private get shown() {
    const list = this.d!.series.filter((x) => this.only.size === 0 || this.only.has(x.name));
    return list.sort((a, b) => order.indexOf(a.level as Level) - order.indexOf(b.level as Level));
  }

  private colour(x: Series) { return x.colour ?? (x.level ? `var(--lf-${x.level})` : `var(--c${(this.d!.series.indexOf(x) % 8) + 1})`); }
  private emit(type: string, detail: unknown) { this.dispatchEvent(new CustomEvent(type, { bubbles: true, detail })); }
  private label(ms: number, exact = false) { return this.time(ms, { seconds: exact || this.d!.width < 60_000, ms: this.d!.width < 1000, date: this.d!.width * this.d!.starts.length > 36 * 3600e3 }); }
  private sums() { const list = this.shown; return this.d!.starts.map((_, i) => list.reduce((sum, x) => sum + (x.counts[i] ?? 0), 0)); }

  // ---- drawing
  private draw() {
    if (!this.isConnected) return;
    this.drawHead();
    this.drawPlot();
    this.drawBar();
  }

  private drawPlot() {
    this.width = this.plot.clientWidth;
    if (!this.d || this.d.starts.length === 0 || this.width < 80) { this.plot.replaceChildren(s("svg", { class: "hg", height, width: this.width, "aria-hidden": "true" })); this.plot.removeAttribute("aria-label"); return; }
    const sums = this.sums(), max = ceiling(Math.max(...sums, 1)), n = sums.length, W = this.width;
    const x = (i: number) => axis + (i * (W - axis)) / n, y = (v: number) => height - foot - (v / max) * (height - foot - 5);
    const parts: SVGElement[] = [];
    for (const g of [0, max / 3, (2 * max) / 3, max]) parts.push(s("line", { x1: axis, x2: W, y1: y(g), y2: y(g), class: "grid" }), s("text", { x: axis - 6, y: y(g) + 3.5, "text-anchor": "end" }, short(Math.round(g))));
    parts.push(...this.bars(x, y), ...this.times(x, n));
    if (this.cursor >= 0) parts.push(s("rect", { x: x(this.cursor), y: 0, width: x(1) - axis, height: height - foot, class: "cursor" }));
    if (this.sel) {
      const [a, b] = [x(this.sel[0]), x(this.sel[1])];
      parts.push(s("rect", { x: a, y: 0, width: b - a, height: height - foot, class: "sel" }), s("path", { d: `M${a} 0V${height - foot}M${b} 0V${height - foot}`, class: "edge" }));
      for (const at of [a, b]) parts.push(s("rect", { x: at - 3, y: (height - foot) / 2 - 9, width: 6, height: 18, rx: 3, class: "handle" }));
    }
    this.plot.replaceChildren(s("svg", { class: "hg", width: W, height, viewBox: `0 0 ${W} ${height}`, "aria-hidden": "true" }, parts));
    const peak = sums.indexOf(Math.max(...sums));
    this.plot.setAttribute("aria-label", `${this.headline().join(" ")}, ${this.label(this.d.starts[0]!)} to ${this.label(this.d.starts[n - 1]! + this.d.width)}. ${this.d.series.map((v) => `${v.name} ${count(v.total)}`).join(", ")}. Most at ${this.label(this.d.starts[peak]!)}: ${count(sums[peak]!)}. Arrow keys read the bars, Shift with arrow keys selects.`);
  }

  /** One path a series, and another for what was not read yet. */
  private bars(x: (i: number) => number, y: (v: number) => number): SVGElement[] {
    const d = this.d!, base = new Float64Array(d.starts.length), wide = x(1) - axis, w = Math.max(0.6, wide - (wide > 4 ? 1.4 : 0.4));
    return this.shown.flatMap((one) => {
      let sure = "", pale = "";
      d.starts.forEach((t, i) => {
        const v = one.counts[i] ?? 0;
        if (!v) return;
        const low = y(base[i]!), high = Math.min(y(base[i]! + v), low - 0.5);
        base[i]! += v;
        const path = `M${x(i).toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}h${w.toFixed(1)}V${low.toFixed(1)}z`;
        if (d.covered && (t < d.covered[0] || t >= d.covered[1])) pale += path;
        else sure += path;
      });
      const fill = this.colour(one);
      return [sure && s("path", { d: sure, fill, class: one.level ? `lv-${one.level}` : null }), pale && s("path", { d: pale, fill, opacity: 0.22 })].filter((p): p is SVGElement => p !== "");
    });
  }

  private times(x: (i: number) => number, n: number): SVGElement[] {
    const d = this.d!, each = this.label(d.starts[0]!).length * 6.2 + 26, step = niceStep(d.width, Math.max(1, Math.ceil((each * n) / (this.width - axis))));
    const out: SVGElement[] = [];
    for (let i = 0; i <= n; i++) {
      const t = d.starts[0]! + i * d.width;
      if (Math.round(t / d.width) % step !== 0) continue;
      const at = x(i), half = (each - 26) / 2;
      if (at - half < 0 || at + half > this.width + 1) continue;
      out.push(s("text", { x: at, y: height - 4, "text-anchor": "middle" }, this.label(t)));
    }
    return out;
  }

  private headline(): [number: string, unit: string] {
    const d = this.d!, n = d.total ?? d.series.reduce((sum, x) => sum + x.total, 0), part = this.only.size ? `${count(this.shown.reduce((sum, x) => sum + x.total, 0))} of ` : "";
    return [`${d.atLeast ? "≥ " : ""}${part}${count(n)}`, n === 1 ? this.unit.replace(/s$/, "") : this.unit];
  }

  private worstFirst() { return [...this.d!.series].sort((a, b) => order.indexOf(b.level as Level) - order.indexOf(a.level as Level)); }

  /** Puts new numbers into the head. Its buttons stay as long as they can: the reader may be pressing one. */
  private recount() {
    const list = this.worstFirst(), buttons = [...this.hd.querySelectorAll<HTMLElement>(".legend button")];
    if (buttons.length !== list.length || list.some((x, i) => buttons[i]!.title !== x.name)) { this.drawHead(); return; }
    [$(".hg-n", this.hd)!.textContent, $(".hg-n + .muted", this.hd)!.textContent] = this.headline();
    list.forEach((x, i) => { $("b", buttons[i]!)!.textContent = short(x.total); });
  }

  private drawHead() {
    if (!this.d) { this.hd.replaceChildren(h("span", { class: "hg-n" }, "\u00a0")); return; }
    const d = this.d, [n, unit] = this.headline();
    this.hd.replaceChildren(
      h("strong", { class: "num hg-n" }, n), h("span", { class: "muted" }, unit), h("span", { class: "spacer" }),
      h("div", { class: "legend", role: "group", "aria-label": "Series" }, this.worstFirst().map((x) => h("button", { type: "button", title: x.name, "aria-pressed": String(this.only.size === 0 || this.only.has(x.name)), onclick: (e: MouseEvent) => this.toggle(x.name, e.metaKey || e.ctrlKey || e.shiftKey) },
        s("svg", { class: "sw", viewBox: "0 0 9 9", "aria-hidden": "true" }, s("rect", { width: 9, height: 9, rx: 2, fill: this.colour(x) })), h("span", { class: "ell" }, x.name), h("b", { class: "num" }, short(x.total))))),
      ...(this.filterable && this.only.size > 0 && this.shown.every((x) => x.values) ? [button({ text: "Filter by it", icon: "filter", cls: "ghost sm", on: () => this.filterByIt() })] : []),
      h("span", { class: "muted hide-s hg-unit" }, `per ${spanText(d.width)}`),
      button({ icon: "table-2", label: "Show as table", cls: "ghost icon sm hide-s", on: () => this.table() }));
  }

  private toggle(name: string, add: boolean) {
    if (add) { if (!this.only.delete(name)) this.only.add(name); }
    else if (this.only.size === 1 && this.only.has(name)) this.only.clear();
    else this.only = new Set([name]);
    if (this.only.size === this.d!.series.length) this.only.clear();
    this.draw();
    const shown = this.shown.map((x) => x.name);
    announce(`Shown: ${shown.join(", ")}`);
    this.emit("ms:legend", { shown });
    [...this.hd.querySelectorAll<HTMLElement>(".legend button")].find((b) => b.title === name)?.focus();
  }

  private filterByIt() {
    const values = this.shown.flatMap((x) => x.values!);
    this.only.clear();
    this.emit("ms:only", { values });
  }

  private table() {
    const d = this.d!;
    void dialog(`${this.headline().join(" ")} over time`, (close) => [
      h("div", { class: "tablebox", tabindex: "0", role: "region", "aria-label": "Counts" }, h("table", { class: "tbl" }, h("thead", null, h("tr", null, h("th", null, "From"), d.series.map((x) => h("th", { class: "r" }, x.name)))),
        h("tbody", null, d.starts.map((t, i) => h("tr", null, h("td", { class: "mono" }, this.label(t, true)), d.series.map((x) => h("td", { class: "r num" }, count(x.counts[i] ?? 0)))))))),
      h("div", { class: "acts" }, button({ text: "Close", cls: "primary", on: () => close(), autofocus: true }))], { wide: true });
  }

  // ---- choosing
  private bucketAt(e: MouseEvent) {
    if (!this.d?.starts.length) return -1;
    const at = (e.clientX - this.plot.getBoundingClientRect().left - axis) / (this.width - axis);
    return at < 0 ? -1 : Math.min(this.d.starts.length - 1, Math.floor(at * this.d.starts.length));
  }

  private edgeAt(e: MouseEvent): 0 | 1 | undefined {
    if (!this.sel) return undefined;
    const px = e.clientX - this.plot.getBoundingClientRect().left, n = this.d!.starts.length;
    const near = this.sel.map((i) => Math.abs(axis + (i * (this.width - axis)) / n - px));
    return near[0]! <= 7 ? 0 : near[1]! <= 7 ? 1 : undefined;
  }

  private press(e: PointerEvent) {
    const first = this.bucketAt(e);
    if (e.button !== 0 || !this.d || first < 0) return;
    const edge = this.edgeAt(e), fixed = this.d.starts[edge === undefined ? first : this.sel![edge ? 0 : 1]! - (edge ? 0 : 1)]!;
    const from = e.clientX;
    this.point(-1);
    this.plot.setPointerCapture(e.pointerId);
    let moved = false;
    const move = (m: PointerEvent) => {
      if (!moved && Math.abs(m.clientX - from) < 4) return;
      moved = true;
      const now = Math.max(0, this.bucketAt(m)), begun = Math.max(0, Math.round((fixed - this.d!.starts[0]!) / this.d!.width)); // the buckets may have moved on
      this.pick([Math.min(begun, now), Math.max(begun, now) + 1]);
    };
    this.plot.addEventListener("pointermove", move);
    this.plot.addEventListener("lostpointercapture", () => {
      this.plot.removeEventListener("pointermove", move);
      if (!moved && this.sel) this.pick(undefined);
    }, { once: true });
  }

  private pick(sel: [number, number] | undefined) {
    this.sel = sel;
    this.drawPlot();
    this.drawBar();
    this.emit("ms:brush", { range: this.selection });
  }

  private point(i: number) {
    if (i === this.cursor) return;
    this.cursor = i;
    this.drawPlot();
    this.tip.hidden = i < 0 || !this.d;
    if (i < 0 || !this.d) return;
    const d = this.d, rows = [...this.shown].reverse().filter((x) => x.counts[i]);
    const total = rows.reduce((sum, x) => sum + x.counts[i]!, 0), start = d.starts[i]!;
    const line = h("p", { class: "mono ell", hidden: true });
    this.tip.replaceChildren(h("h3", { class: "mono" }, `${this.label(start, true)} – ${this.label(start + d.width, true)}`), h("ul", { class: "num" }, rows.length ? rows.slice(0, 12).map((x) => h("li", null, s("svg", { class: "sw", viewBox: "0 0 9 9" }, s("rect", { width: 9, height: 9, rx: 2, fill: this.colour(x) })), x.name, h("b", null, count(x.counts[i]!)))) : h("li", { class: "muted" }, `no ${this.unit}`)), line);
    const at = axis + ((i + 0.5) * (this.width - axis)) / d.starts.length, w = this.tip.offsetWidth;
    this.tip.style.left = `${at + w + 18 > this.width ? Math.max(0, at - w - 12) : at + 12}px`;
    if (total === 1 && this.peek) void this.show(line, i, start, start + d.width);
  }

  private async show(line: HTMLElement, i: number, start: number, end: number) {
    try {
      const text = this.peeks.get(i) ?? (await this.peek!(start, end));
      this.peeks.set(i, text);
      line.textContent = text;
      line.hidden = !text;
    } catch { /* the count is there; its line is an extra */ }
  }

  private key(e: KeyboardEvent) {
    const d = this.d;
    if (!d || d.starts.length === 0 || e.ctrlKey || e.metaKey || e.altKey) return;
    const n = d.starts.length, by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (by) {
      const next = Math.max(0, Math.min(n - 1, this.cursor < 0 ? (by > 0 ? 0 : n - 1) : this.cursor + by));
      if (e.shiftKey) {
        const from = this.cursor < 0 ? next : this.cursor, anchor = !this.sel ? from : this.sel[0] === from ? this.sel[1] - 1 : this.sel[0];
        this.pick([Math.min(anchor, next), Math.max(anchor, next) + 1]);
      }
      this.point(next);
      announce(`${this.label(d.starts[next]!, true)}: ${count(this.sums()[next]!)}${this.sel ? `, selected to ${this.label(this.selection![1], true)}` : ""}`);
    } else if (e.key === "Enter" && this.sel) this.emit("ms:range", this.rangeOf());
    else if (e.key === "Escape" && this.sel) this.pick(undefined);
    else if (e.key === "-") this.emit("ms:zoomout", {});
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  private rangeOf() { const [start, end] = this.selection!; return { start, end }; }

  private drawBar() {
    this.bar.hidden = !this.sel;
    if (!this.sel) return;
    const [start, end] = this.selection!;
    this.bar.replaceChildren(h("span", { class: "mono" }, `${this.label(start, true)} – ${this.label(end, true)}`), button({ text: "Zoom", icon: "zoom-in", cls: "sm primary", on: () => this.emit("ms:range", this.rangeOf()) }),
      ...(this.comparable ? [button({ text: "Compare with before", icon: "split", cls: "sm", on: () => this.emit("ms:compare", this.rangeOf()) })] : []), button({ icon: "x", label: "Clear the selection", cls: "ghost icon sm", on: () => { this.pick(undefined); this.plot.focus(); } }));
    const n = this.d!.starts.length, mid = axis + (((this.sel[0] + this.sel[1]) / 2) * (this.width - axis)) / n;
    this.bar.style.left = `${Math.max(0, Math.min(this.width - this.bar.offsetWidth, mid - this.bar.offsetWidth / 2))}px`;
  }

  override focus() { $(".hg-plot", this)?.focus(); }
}

/** The next figure of 3, 6, 9, 15 or 30 times a power of ten, so that thirds of it are round. */
function ceiling(v: number) {
  if (v <= 3) return 3;
  const p = 10 ** Math.floor(Math.log10(v));
  for (const f of [1.2, 1.5, 1.8, 2.1, 2.4, 3, 4.5, 6, 7.5, 9, 12]) if (f * p >= v && (f * p) % 3 === 0) return f * p;
  return 15 * p;
}

export function spanText(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  for (const [unit, size] of [["d", 864e5], ["h", 36e5], ["min", 60_000], ["s", 1000]] as const) if (ms % size === 0 || ms >= size * 2) return `${+(ms / size).toFixed(1)} ${unit}`;
  return `${ms / 1000} s`;
}

customElements.define("ms-histogram", Histogram);
