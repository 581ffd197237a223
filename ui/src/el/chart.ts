// <ms-chart>: time series as lines, areas, stacks or bars, with a legend table, a shared cursor, and a table for those who do not see the picture. A part of the
// time that is marked by pointer or keys comes out as ms:range; the page decides what it means.
import { announce } from "../lib/a11y.ts";
import { button, h, visible } from "../lib/dom.ts";
import { count, plural } from "../lib/format.ts";
import { menu, type MenuItem } from "../lib/layers.ts";
import { splitter } from "../lib/resize.ts";
import { formatTime, spanLabel } from "../lib/time.ts";
import { formatValue } from "../lib/units.ts";
import { type ChartSeries, thin } from "./chart_data.ts";
import { Legend } from "./legend.ts";
import type { Plot } from "./plot.ts";

export type { ChartSeries } from "./chart_data.ts";
export interface Exemplar { t: number; v: number; traceId: string; labels: Record<string, string> }
export interface Threshold { value: number; label?: string; colour?: string } // colour is a token
export interface ChartData {
  from: number; // ms
  to: number;
  series: ChartSeries[];
  step?: number; // ms between points, where all series have the same; default: found for each
  unit?: string; // of lib/units.ts
  kind?: "line" | "area" | "stack" | "bars";
  log?: boolean;
  thresholds?: Threshold[];
  exemplars?: Exemplar[];
  compact?: boolean; // a line of names in place of the legend table
  zone?: string; // of the time axis; default: the page's
}

/** How many series are drawn; the rest are in the table. */
export const MOST_DRAWN = 200;
const MOST_EXEMPLARS = 60;

export class Chart extends HTMLElement {
  /** What a series' menu offers besides copying. */
  actions?: (s: ChartSeries) => MenuItem[];
  /** Where an exemplar leads. */
  traceLink?: (e: Exemplar) => string;

  /** Under which name this browser remembers the height; empty: it cannot be changed. Set before it is put into the page. */
  resizeKey = "";

  private d: ChartData | undefined;
  private plot: Plot | undefined;
  private drawn: ChartSeries[] = [];
  private exemplars: Exemplar[] = []; // those that are drawn
  private only = new Set<string>(); // names of the series that are shown; empty: all
  private at = -1; // point of the key cursor
  private marked: [number, number] | undefined; // points
  private asTable = false;
  private generation = 0;
  private readonly box = h("div", { class: "ch-plot", tabindex: "0", role: "group", "aria-roledescription": "chart" });
  private readonly tip = h("div", { class: "tip ch-tip", hidden: true });
  private readonly note = h("p", { class: "ch-note", hidden: true });
  private readonly foot = h("div", { class: "ch-foot" });
  private readonly table = h("div", { class: "ch-table", hidden: true });
  private readonly legend = new Legend({
    pick: (name, add) => this.pick(name, add), focus: (name) => this.plot?.focus(name === null ? null : this.indexOf(name)), menu: (s, anchor) => this.seriesMenu(s, anchor),
  });
  private readonly sizes = new ResizeObserver(() => this.resized());
  private readonly look = () => void this.draw();
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");

  connectedCallback() {
    if (!this.firstChild) {
      this.append(h("div", { class: "ch-box" }, this.box, this.tip), ...(this.resizeKey ? [splitter(this.box, { min: 120, max: 1200, key: this.resizeKey, label: "Height of the chart", edge: "bottom" })] : []), this.note, this.table, this.foot, this.legend.el);
      this.box.addEventListener("keydown", (e) => this.key(e));
      this.box.addEventListener("blur", () => this.leave());
    }
    document.addEventListener("ms:look", this.look);
    this.scheme.addEventListener("change", this.look);
    this.sizes.observe(this.box);
    void this.draw();
  }

  disconnectedCallback() {
    document.removeEventListener("ms:look", this.look);
    this.scheme.removeEventListener("change", this.look);
    this.sizes.disconnect();
    this.plot?.destroy();
    this.plot = undefined;
  }

  get data() { return this.d; }
  set data(d: ChartData | undefined) {
    this.d = d;
    const names = new Set(d?.series.map((s) => s.name));
    for (const name of this.only) if (!names.has(name)) this.only.delete(name);
    this.at = -1;
    this.marked = undefined;
    void this.draw();
  }

  /** The series that are shown, when the reader has chosen some. */
  get chosen(): ChartSeries[] { return this.d?.series.filter((s) => this.only.has(s.name)) ?? []; }

  private emit(type: string, detail: unknown) { this.dispatchEvent(new CustomEvent(type, { bubbles: true, detail })); }
  private indexOf(name: string) { const i = this.drawn.findIndex((s) => s.name === name); return i < 0 ? null : i; }

  private pick(name: string, add: boolean) {
    const all = this.d!.series;
    if (!add) {
      const alone = this.only.size === 1 && this.only.has(name);
      this.only = new Set(alone ? [] : [name]);
    } else {
      if (this.only.size === 0) this.only = new Set(all.map((s) => s.name));
      if (!this.only.delete(name)) this.only.add(name);
      if (this.only.size === 0 || this.only.size === all.length) this.only.clear();
    }
    announce(this.only.size ? `${plural(this.only.size, "series", "series")} shown` : "All series shown");
    this.emit("ms:chosen", { names: [...this.only] });
    void this.draw();
  }

  // ---- drawing
  private async draw() {
    const d = this.d, mine = ++this.generation;
    if (!this.isConnected) return;
    const shown = d?.series.filter((s) => this.only.size === 0 || this.only.has(s.name)) ?? [];
    this.drawn = shown.slice(0, MOST_DRAWN);
    this.exemplars = d ? thin(d.exemplars ?? [], d.from, d.to, MOST_EXEMPLARS) : [];
    this.classList.toggle("compact", !!d?.compact);
    this.showText(shown.length);
    if (d && !this.asTable) {
      const module = await import("./plot.ts");
      if (mine !== this.generation || !this.isConnected) return;
      this.legend.show(d, this.only, module.looks(this.drawn));
      this.plot?.destroy();
      this.box.replaceChildren();
      this.plot = new module.Plot({ el: this.box, ...this.size(), data: d, series: this.drawn, exemplars: this.exemplars,
        on: { cursor: (i, near) => this.point(i, near), select: (start, end) => this.range(start, end), zoomOut: () => this.emit("ms:zoomout", {}), open: (e) => this.follow(e) } });
    } else {
      this.plot?.destroy();
      this.plot = undefined;
      this.legend.show(d, this.only, new Map());
    }
  }

  private size() { return { width: Math.max(80, this.box.clientWidth), height: Math.max(60, this.box.clientHeight) }; }
  private resized() {
    const { width, height } = this.size();
    if (this.plot && (this.plot.u.width !== width || this.plot.u.height !== height)) this.plot.resize(width, height);
  }

  private showText(shown: number) {
    const d = this.d;
    this.box.hidden = this.asTable;
    this.table.hidden = !this.asTable;
    this.note.hidden = shown <= MOST_DRAWN;
    this.note.textContent = `${count(MOST_DRAWN)} of ${count(shown)} series are drawn. The rest are in the table below; choose some there, or narrow the query.`;
    this.box.setAttribute("aria-label", d ? this.summary() : "No data yet");
    const links = this.exemplars, all = d?.exemplars?.filter((e) => e.t >= d.from && e.t <= d.to).length ?? 0;
    this.foot.replaceChildren(...(d && !d.compact ? [
      button({ text: this.asTable ? "Show as chart" : "Show as table", icon: this.asTable ? "chart-line" : "table-2", cls: "ghost sm", on: () => { this.asTable = !this.asTable; void this.draw(); } }),
      ...(links.length ? [button({ text: `${links.length < all ? `${count(links.length)} of ` : ""}${plural(all, "exemplar")}`, title: links.length < all ? "The highest of each part of the time" : "", icon: "diamond", cls: "ghost sm", "aria-haspopup": "menu", on: (e: MouseEvent) => this.exemplarMenu(e.currentTarget as HTMLElement) })] : []),
    ] : []));
    if (this.asTable && d) this.table.replaceChildren(this.values());
  }

  private value(v: number | null | undefined, s: ChartSeries) { return formatValue(v, s.unit ?? this.d?.unit); }

  private summary(): string {
    const d = this.d!, first = this.drawn.slice(0, 5).map((s) => { const st = this.legend.stats(s); return `${visible(s.name)}: last ${this.value(st.last, s)}, lowest ${this.value(st.min, s)}, highest ${this.value(st.max, s)}`; });
    return `${plural(d.series.length, "series", "series")}, ${spanLabel({ start: d.from, end: d.to })}. ${first.join(". ")}. Arrow keys read the points, Shift with arrow keys marks a part, Enter zooms into it.`;
  }

  /** The values as a table: the last 500 times of the first 12 series. */
  private values() {
    const d = this.d!, cols = this.drawn.slice(0, 12), times = [...new Set(cols.flatMap((s) => s.values[0]))].sort((a, b) => b - a);
    const maps = cols.map((s) => new Map(s.values[0].map((t, i) => [t, s.values[1][i]])));
    const zone = d.zone ? { zone: d.zone } : {};
    return h("div", { class: "ch-scroll", tabindex: "0", role: "region", "aria-label": "Values" },
      (times.length > 500 || this.drawn.length > 12) && h("p", { class: "ch-note" }, `The newest ${count(Math.min(500, times.length))} of ${plural(times.length, "time")}, and ${count(cols.length)} of ${plural(this.drawn.length, "series", "series")}.`),
      h("table", { class: "tbl" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Time"), cols.map((s) => h("th", { scope: "col", class: "r" }, visible(s.name))))),
        h("tbody", null, times.slice(0, 500).map((t) => h("tr", null, h("th", { scope: "row", class: "mono" }, formatTime(t, zone)), maps.map((m, k) => h("td", { class: "r num" }, this.value(m.get(t), cols[k]!))))))));
  }

  // ---- cursor
  private point(i: number | null, near: number | null) {
    const d = this.d;
    if (i === null || !d || !this.plot) { this.tip.hidden = true; return; }
    const rows = this.drawn.map((s, k) => ({ s, k, v: this.plot!.values[k]![i] })).filter((r) => typeof r.v === "number").sort((a, b) => b.v! - a.v!);
    if (rows.length === 0) { this.tip.hidden = true; return; }
    const at = rows.findIndex((r) => r.k === near), start = Math.max(0, Math.min(at - 5, rows.length - 10));
    const list = rows.slice(start, start + 10);
    this.tip.replaceChildren(h("p", { class: "hd" }, formatTime(this.plot.x[i]!, { ...(d.zone ? { zone: d.zone } : {}) })),
      h("ul", null, list.map((r) => h("li", { class: r.k === near ? "near" : null }, this.legend.swatch(r.s.name), h("span", { class: "ell" }, this.legend.short(r.s)), h("b", null, this.value(r.v, r.s))))),
      rows.length > list.length ? h("p", { class: "muted" }, `and ${count(rows.length - list.length)} more`) : "");
    this.tip.hidden = false;
    const left = this.plot.left(i), w = this.tip.offsetWidth;
    this.tip.style.left = `${left + 14 + w > this.box.clientWidth ? Math.max(0, left - w - 14) : left + 14}px`;
  }

  private leave() {
    this.tip.hidden = true;
    this.at = -1;
  }

  private key(e: KeyboardEvent) {
    const p = this.plot, n = p?.x.length ?? 0;
    if (!p || n === 0) return;
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -n, End: n }[e.key];
    if (by !== undefined) {
      const from = this.at < 0 ? (by > 0 ? -1 : n) : this.at;
      this.at = Math.max(0, Math.min(n - 1, from + by));
      if (e.shiftKey) {
        this.marked = [this.marked?.[0] ?? Math.max(0, Math.min(n - 1, from)), this.at];
        p.mark(...this.marked);
      } else if (this.marked) this.unmark();
      p.moveTo(this.at);
      this.speak();
    } else if (e.key === "Enter" && this.marked && this.marked[0] !== this.marked[1]) {
      const [a, b] = this.marked;
      this.range(p.x[Math.min(a, b)]!, p.x[Math.max(a, b)]!);
    } else if (e.key === "Escape" && (this.marked || this.at >= 0)) {
      this.unmark();
      this.leave();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }

  private unmark() {
    this.marked = undefined;
    this.plot?.u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private speak() {
    const p = this.plot!;
    const parts = this.drawn.slice(0, 6).flatMap((s, k) => { const v = p.values[k]![this.at]; return typeof v === "number" ? [`${visible(s.name)} ${this.value(v, s)}`] : []; });
    announce(`${this.marked ? `Marked ${spanLabel({ start: p.x[Math.min(...this.marked)]!, end: p.x[Math.max(...this.marked)]! })}. ` : ""}${formatTime(p.x[this.at]!)}: ${parts.join(", ") || "no value"}`);
  }

  private range(start: number, end: number) { this.emit("ms:range", { start: Math.round(start), end: Math.round(end) }); }

  // ---- exemplars and series
  private follow(e: Exemplar) { const to = this.traceLink?.(e); if (to) location.href = to; }

  private exemplarMenu(anchor: HTMLElement) {
    const unit = this.d?.unit;
    menu(anchor, [...this.exemplars].reverse().map((e) => ({ text: `${formatTime(e.t)}  ${formatValue(e.v, unit)}`, end: e.traceId.slice(0, 8), ...(this.traceLink ? { href: this.traceLink(e) } : {}) })), { label: "Exemplars: open a trace" });
  }

  private seriesMenu(s: ChartSeries, anchor: HTMLElement) {
    const labels = Object.entries(s.labels ?? {});
    menu(anchor, [
      ...(this.actions?.(s) ?? []),
      { text: "Copy the series", icon: "copy", on: () => void navigator.clipboard?.writeText(s.name) },
      ...(labels.length ? [{ text: "Copy a value", heading: true }] : []),
      ...labels.map(([k, v]) => ({ text: `${visible(k)}: ${visible(v.slice(0, 80))}`, on: () => void navigator.clipboard?.writeText(v) })),
    ], { label: `Series ${visible(s.name)}` });
  }
}
customElements.define("ms-chart", Chart);

