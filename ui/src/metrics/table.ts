// The Table view: one row a series at the end of the range, or one row a point over the range.
import { h, visible } from "../lib/dom.ts";
import { formatTime } from "../lib/time.ts";
import { formatValue } from "../lib/units.ts";
import { Grid } from "../el/grid.ts";
import { seriesText } from "./prom.ts";
import type { Run } from "./run.ts";
import { letter } from "./state.ts";

interface Row { query: string; labels: Record<string, string>; t: number; value: number; text: string; unit: string }
const MOST_ROWS = 100_000, MOST_COLUMNS = 12;

const exact = (v: number) => (Number.isFinite(v) ? v.toLocaleString(undefined, { maximumSignificantDigits: 12 }) : formatValue(v));

export class TableView {
  private readonly grid = new Grid<Row>();
  private readonly note = h("p", { class: "ch-note", hidden: true });
  readonly el = h("div", { class: "mx-table" }, this.note, this.grid);
  private sorted: { key: string; desc: boolean } | undefined;
  private rows: Row[] = [];

  constructor() {
    this.grid.name = "Values";
    this.grid.rowLabel = (r) => `${r.text}, ${r.value}`;
    this.grid.rowText = (r) => `${r.text} ${r.value}`;
    this.grid.addEventListener("ms:sort", (e) => { this.sorted = (e as CustomEvent<{ key: string; desc: boolean }>).detail; this.grid.rows = this.order(); });
  }

  show(run: Run, units: (query: string) => string) {
    const rows: Row[] = [], names = new Map<string, number>();
    let left = 0;
    for (const r of run.results) {
      const unit = units(r.query);
      for (const s of r.answer?.series ?? []) {
        const points: [number[], number[]] = s.values[0].length ? s.values : [s.histograms[0], s.histograms[1].map((x) => x.count)];
        for (const k of Object.keys(s.metric)) if (k !== "__name__") names.set(k, (names.get(k) ?? 0) + 1);
        const text = Object.keys(s.metric).length ? seriesText(s.metric) : r.query;
        for (let i = points[0].length - 1; i >= 0; i--) if (rows.length < MOST_ROWS) rows.push({ query: letter(r.index), labels: s.metric, t: points[0][i]!, value: points[1][i]!, text, unit }); else left++;
      }
    }
    this.rows = rows;
    const labels = [...names].sort((a, b) => b[1] - a[1]).slice(0, MOST_COLUMNS).map(([k]) => k);
    const cell = (get: (r: Row) => string) => (r: Row, c: HTMLElement) => { const v = get(r); c.textContent = visible(v.length > 1000 ? v.slice(0, 1000) : v); c.title = v.length > 30 ? v.slice(0, 500) : ""; };
    const over = run.results.some((r) => r.answer?.type === "matrix");
    this.grid.columns = [
      ...(run.results.length > 1 ? [{ key: "query", label: "Query", width: 60, sort: true, render: cell((r: Row) => r.query) }] : []),
      ...(over ? [{ key: "time", label: "Time", width: 150, sort: true, cls: "mono", render: cell((r: Row) => formatTime(r.t)) }] : []),
      { key: "value", label: "Value", width: 110, sort: true, cls: "num", render: (r: Row, c: HTMLElement) => { c.textContent = r.unit && r.unit !== "short" ? formatValue(r.value, r.unit) : exact(r.value); c.title = String(r.value); } },
      { key: "metric", label: "Metric", width: 240, sort: true, cls: "mono", render: cell((r: Row) => r.labels.__name__ ?? (labels.length ? "" : r.text)) },
      ...labels.map((k) => ({ key: `label:${k}`, label: visible(k), width: 150, min: 60, sort: true, cls: "mono", render: cell((r: Row) => r.labels[k] ?? "") })),
    ];
    this.note.hidden = left === 0 && names.size <= MOST_COLUMNS;
    this.note.textContent = [left > 0 && `The first ${MOST_ROWS.toLocaleString()} of ${(left + MOST_ROWS).toLocaleString()} values are shown.`, names.size > MOST_COLUMNS && `${names.size - MOST_COLUMNS} labels have no column.`].filter(Boolean).join(" ");
    this.grid.rows = this.order();
  }

  private order(): Row[] {
    const s = this.sorted;
    if (!s) return this.rows;
    const by = (r: Row): string | number => (s.key === "value" ? r.value : s.key === "time" ? r.t : s.key === "query" ? r.query : s.key === "metric" ? r.labels.__name__ ?? r.text : r.labels[s.key.slice(6)] ?? "");
    const sign = s.desc ? -1 : 1;
    return [...this.rows].sort((a, b) => { const x = by(a), y = by(b); return sign * (typeof x === "string" ? x.localeCompare(y as string, undefined, { numeric: true }) : x - (y as number)); });
  }
}
