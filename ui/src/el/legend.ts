// The legend of a chart: a table of its series with figures that can be sorted, or one line of names where there is little room.
import { button, h, icon, s as svg, visible } from "../lib/dom.ts";
import { count } from "../lib/format.ts";
import { addsUp, formatValue } from "../lib/units.ts";
import type { ChartData } from "./chart.ts";
import { type ChartSeries, idleLabels, type Stats, stats, telling } from "./chart_data.ts";
import type { Look } from "./plot.ts";

export interface LegendEvents { pick(name: string, add: boolean): void; focus(name: string | null): void; menu(s: ChartSeries, anchor: HTMLElement): void }

const all = ["last", "min", "avg", "max", "sum"] as const;
type Key = "name" | (typeof all)[number];
const STEP = 200; // rows that are added at a time

/** The name of a series among others: what tells it from them first, with stronger names of labels, the other labels last or left out. */
function seriesName(s: Pick<ChartSeries, "name" | "labels">, idle: ReadonlySet<string>, whole = true): (Node | string)[] {
  if (!s.labels) return [visible(s.name)];
  const t = telling(s.labels, idle), labels = whole || t.own.length === 0 ? [...t.own, ...t.rest] : t.own, parts: (Node | string)[] = [visible(t.name)];
  if (labels.length || t.name === "") parts.push(h("span", { class: "lg-p" }, "{"), ...labels.flatMap(([k, v], i) => [...(i ? [", "] : []), h(idle.has(k) ? "span" : "b", null, visible(k)), "=", h("span", { class: "lg-v" }, `"${visible(v.length > 200 ? v.slice(0, 200) + "…" : v)}"`)]), h("span", { class: "lg-p" }, "}"));
  return parts;
}

export class Legend {
  readonly el = h("div", { class: "lg" });
  private d: ChartData | undefined;
  private only: ReadonlySet<string> = new Set();
  private looks: ReadonlyMap<string, Look> = new Map();
  private sort: { key: Key; down: boolean } | undefined;
  private rows = STEP;
  private idle: ReadonlySet<string> = new Set(); // labels that do not tell the series apart
  private known = new WeakMap<ChartSeries, Stats>();
  private shown: ChartSeries[] | undefined;

  constructor(private on: LegendEvents) {
    this.el.addEventListener("mouseover", (e) => this.on.focus((e.target as Element).closest<HTMLElement>("[data-series]")?.dataset.series ?? null));
    this.el.addEventListener("mouseleave", () => this.on.focus(null));
  }

  stats(s: ChartSeries): Stats {
    let st = this.known.get(s);
    if (!st) this.known.set(s, (st = stats(s.values)));
    return st;
  }

  swatch(name: string): SVGElement {
    const look = this.looks.get(name), a = { class: "lg-sw", width: 14, height: 9, "aria-hidden": "true" };
    return look ? svg("svg", a, svg("line", { x1: 0, x2: 14, y1: 4.5, y2: 4.5, stroke: `var(${look.token})`, "stroke-width": 3, "stroke-dasharray": look.dash.length ? "4 2" : null })) : svg("svg", a);
  }

  show(d: ChartData | undefined, only: ReadonlySet<string>, looks: ReadonlyMap<string, Look>) {
    if (d?.series !== this.shown) {
      this.rows = STEP;
      this.shown = d?.series;
      this.idle = idleLabels(d?.series ?? []);
    }
    [this.d, this.only, this.looks] = [d, only, looks];
    this.draw();
  }

  private draw() {
    const d = this.d;
    if (!d || d.series.length === 0) this.el.replaceChildren();
    else if (d.compact) this.el.replaceChildren(h("div", { class: "lg-line", role: "group", "aria-label": "Series" }, d.series.slice(0, 30).map((s) => this.name(s)), d.series.length > 30 && h("span", { class: "muted" }, `and ${count(d.series.length - 30)} more`)));
    else this.el.replaceChildren(this.table(d));
  }

  private adds(s: ChartSeries) { return addsUp(s.unit ?? this.d?.unit); }
  private figure(s: ChartSeries, key: keyof Stats) { return key === "sum" && !this.adds(s) ? null : this.stats(s)[key]; }

  private sorted(list: ChartSeries[]) {
    const { key, down } = this.sort ?? {};
    if (!key) return list;
    const by = (s: ChartSeries) => (key === "name" ? s.name : this.figure(s, key) ?? -Infinity);
    const sign = down ? -1 : 1;
    return list.map((s) => [by(s), s] as const).sort(([a], [b]) => sign * (typeof a === "string" ? a.localeCompare(b as string) : a === b ? 0 : a < (b as number) ? -1 : 1)).map(([, s]) => s);
  }

  private table(d: ChartData) {
    const figures = d.series.some((s) => this.adds(s)) ? all : all.filter((f) => f !== "sum");
    const list = this.sorted(d.series), head = (key: Key, text: string) => {
      const on = this.sort?.key === key;
      return h("th", { scope: "col", class: key === "name" ? null : "r", "aria-sort": on ? (this.sort!.down ? "descending" : "ascending") : null },
        h("button", { type: "button", "data-sort": key, onclick: () => this.order(key) }, text, on && icon(this.sort!.down ? "arrow-down" : "arrow-up", "xs")));
    };
    const row = (s: ChartSeries) => {
      return h("tr", { "data-series": s.name, class: this.hidden(s) ? "off" : null }, h("td", { class: "lg-name" }, this.name(s), s.note && h("span", { class: "pill" }, s.note)),
        figures.map((f) => h("td", { class: "r num" }, formatValue(this.figure(s, f), s.unit ?? d.unit))), h("td", null, button({ icon: "ellipsis", label: `More about ${visible(s.name)}`, cls: "ghost icon sm", "aria-haspopup": "menu", on: (e: MouseEvent) => this.on.menu(s, e.currentTarget as HTMLElement) })));
    };
    return h("div", { class: "lg-scroll", tabindex: "0", role: "region", "aria-label": "Series" },
      h("table", { class: "tbl lg-t" }, h("thead", null, h("tr", null, head("name", `Series (${count(list.length)})`), figures.map((f) => head(f, f === "avg" ? "Average" : f[0]!.toUpperCase() + f.slice(1))), h("th", null, h("span", { class: "vh" }, "More")))), h("tbody", null, list.slice(0, this.rows).map(row))),
      list.length > this.rows && h("div", { class: "lg-more" }, `${count(this.rows)} of ${count(list.length)} shown.`, button({ text: `Show ${count(Math.min(STEP, list.length - this.rows))} more`, cls: "sm", on: () => { this.rows += STEP; this.draw(); } }), list.length > this.rows + STEP && list.length <= 5000 && button({ text: "Show all", cls: "sm", on: () => { this.rows = list.length; this.draw(); } })));
  }

  private order(key: Key) {
    this.sort = this.sort?.key !== key ? { key, down: key !== "name" } : this.sort.down === (key !== "name") ? { key, down: !this.sort.down } : undefined;
    this.draw();
    this.el.querySelector<HTMLElement>(`[data-sort="${key}"]`)?.focus();
  }

  /** What tells a series from the others, where there is little room. */
  short(s: ChartSeries) { return seriesName(s, this.idle, false); }

  private hidden(s: ChartSeries) { return this.only.size > 0 && !this.only.has(s.name); }

  private name(s: ChartSeries) {
    return h("button", { type: "button", class: "lg-n", "data-series": s.name, "aria-pressed": String(!this.hidden(s)), title: `${visible(s.name)}\nClick shows this series alone, with ⌘ or Ctrl adds or removes it`, onclick: (e: MouseEvent) => this.on.pick(s.name, e.metaKey || e.ctrlKey) }, this.swatch(s.name), h("span", { class: "lg-l" }, seriesName(s, this.idle, !this.d?.compact)));
  }
}
