// The chart tab: a figure of the records that match, over time or as a table, put together without SQL; the statement can be taken on from there.
import { explain, json } from "../lib/api.ts";
import { may } from "../lib/boot.ts";
import { button, h } from "../lib/dom.ts";
import { count, plural } from "../lib/format.ts";
import { copy, dialog } from "../lib/layers.ts";
import { empty, failure, skeleton } from "../lib/states.ts";
import { Chart, type ChartSeries } from "../el/chart.ts";
import { isNumber, name } from "./filters.ts";
import { keep } from "../dashboard/keep.ts";
import type { LogsPage } from "./page.ts";
import { bucketWidth } from "./counts.ts";
import { shown, textOf } from "./record.ts";

type Kind = "line" | "bars" | "stack" | "table";
interface Made { fn: string; field: string; by: string[]; kind: Kind }

const functions: Record<string, { text: string; field: "none" | "any" | "number"; sql: (f: string) => string }> = {
  count: { text: "Count of records", field: "none", sql: () => "count(*)" }, distinct: { text: "Count of distinct values", field: "any", sql: (f) => `count(DISTINCT ${f})` }, sum: { text: "Sum", field: "number", sql: (f) => `sum(${f})` }, avg: { text: "Average", field: "number", sql: (f) => `avg(${f})` },
  min: { text: "Least", field: "number", sql: (f) => `min(${f})` }, max: { text: "Greatest", field: "number", sql: (f) => `max(${f})` }, p50: { text: "50th percentile", field: "number", sql: (f) => `quantile_cont(${f}, 0.5)` }, p95: { text: "95th percentile", field: "number", sql: (f) => `quantile_cont(${f}, 0.95)` }, p99: { text: "99th percentile", field: "number", sql: (f) => `quantile_cont(${f}, 0.99)` },
};
const kinds: Record<Kind, string> = { line: "Lines", bars: "Bars", stack: "Stacked", table: "Table" };
const mostSeries = 50, mostPoints = 60_000;

/** Reads fn:field:by,by:kind of the address. */
function parse(text: string, p: LogsPage): Made {
  const [fn = "", field = "", by = "", kind = ""] = text.split(":").map((t) => { try { return decodeURIComponent(t); } catch { return t; } });
  const usual = text ? by.split("\n").filter(Boolean) : p.roles.level ? [p.roles.level] : [];
  return { fn: fn in functions ? fn : "count", field, by: usual.slice(0, 3), kind: kind in kinds ? (kind as Kind) : "bars" };
}
const print = (m: Made) => [m.fn, m.field, m.by.join("\n"), m.kind].map(encodeURIComponent).join(":");

export async function chart(box: HTMLElement, p: LogsPage, signal: AbortSignal) {
  let made = parse(p.state.chart, p);
  const fields = p.columns?.list ?? [], out = h("div", { class: "chartout" }), form = h("div", { class: "chartform", role: "group", "aria-label": "Figure" });
  box.replaceChildren(form, out);
  const change = (m: Partial<Made>) => { made = { ...made, ...m }; p.state.chart = print(made); p.writeURL("replace"); draw(); void load(); };
  const select = (label: string, options: [string, string][], value: string, on: (v: string) => void) => h("label", { class: "cf" }, h("span", { class: "muted" }, label), h("select", { class: "in", onchange: (e: Event) => on((e.target as HTMLSelectElement).value) }, options.map(([v, t]) => h("option", { value: v, selected: v === value }, t))));

  function draw() {
    const f = functions[made.fn]!, usable = fields.filter((c) => f.field !== "number" || isNumber(c.type)).slice(0, 2000), names = (list: typeof fields, none: string): [string, string][] => [["", none], ...list.map((c): [string, string] => [c.name, shown(c.name, 60)])];
    const at = [...form.querySelectorAll("select,button")].indexOf(document.activeElement as HTMLElement);
    form.replaceChildren(
      select("Show", Object.entries(functions).map(([k, v]) => [k, v.text]), made.fn, (fn) => change({ fn, field: functions[fn]!.field === "none" ? "" : made.field })),
      ...(f.field === "none" ? [] : [select("of", names(usable, "Choose a field"), made.field, (field) => change({ field }))]),
      ...[...made.by, ...(made.by.length < 3 ? [""] : [])].map((b, i) => select(i ? "and" : "by", names(fields.slice(0, 2000), "nothing"), b, (v) => change({ by: made.by.toSpliced(i, 1, ...(v ? [v] : [])).filter((x, k, all) => all.indexOf(x) === k) }))),
      select("as", Object.entries(kinds), made.kind, (k) => change({ kind: k as Kind })), h("span", { class: "spacer" }),
      button({ text: "SQL", icon: "database", cls: "ghost sm", on: () => void showSQL() }), ...(may("editor") ? [button({ text: "Add to dashboard", icon: "layout-dashboard", cls: "sm", on: () => void addToDashboard(p, made, statement()) })] : []));
    if (at >= 0) form.querySelectorAll<HTMLElement>("select,button")[at]?.focus();
  }

  const width = () => Math.max(1, Math.round(bucketWidth(p.span ? Date.parse(p.span.end) - Date.parse(p.span.start) : 900_000)));
  function statement(): string {
    const f = functions[made.fn]!, w = p.where() ?? "", by = made.by.map(name), value = `${f.sql(made.field ? name(made.field) : "*")} AS value`;
    const from = `FROM logs.${name(p.stream)}${w ? `\nWHERE ${w}` : ""}`;
    if (made.kind === "table") return `SELECT ${[...by, value].join(", ")}\n${from}${by.length ? "\nGROUP BY ALL\nORDER BY value DESC\nLIMIT 1000" : ""}`;
    return `SELECT ${[`histogram(_timestamp, '${width()} milliseconds') AS time`, ...by, value].join(", ")}\n${from}\nGROUP BY ALL\nORDER BY time\nLIMIT ${mostPoints}`;
  }

  async function showSQL() {
    await dialog("Statement", (close) => [h("pre", { class: "mono sqltext", tabindex: "0", role: "region", "aria-label": "SQL" }, statement()), h("div", { class: "acts" }, button({ text: "Copy", icon: "copy", on: () => void copy(statement(), "SQL copied") }), button({ text: "Open in SQL mode", cls: "primary", on: () => { close(); p.applyParams({ stream: p.stream, mode: "sql", q: statement(), from: p.state.range.from, to: p.state.range.to }); } }))], { wide: true });
  }

  async function load() {
    if (p.where() === undefined) { out.replaceChildren(empty({ title: "Charts are made of searches", icon: "chart-bar", text: "A statement of your own has its own columns: go back to Search, or put the statement into a dashboard." })); return; }
    if (functions[made.fn]!.field !== "none" && !made.field) { out.replaceChildren(empty({ title: "Choose a field", icon: "chart-bar", text: `${functions[made.fn]!.text} needs a field.` })); return; }
    if (out.childElementCount === 0) out.replaceChildren(skeleton(8));
    try {
      const a = await json<{ columns: { name: string }[]; rows: unknown[][] }>("/query", { body: { statement: statement(), time_range: p.span }, signal });
      if (made.kind === "table") out.replaceChildren(table(a));
      else await plot(a);
    } catch (e) {
      const err = explain(e);
      if (err.code !== "aborted") out.replaceChildren(failure(err, () => void load()));
    }
  }

  function table(a: { columns: { name: string }[]; rows: unknown[][] }) {
    const cols = a.columns.map((c, i) => (i === a.columns.length - 1 ? functions[made.fn]!.text : c.name));
    return h("div", { class: "tablebox tall", tabindex: "0", role: "region", "aria-label": "Figures" }, h("table", { class: "tbl" }, h("thead", null, h("tr", null, cols.map((c, i) => h("th", { class: i === cols.length - 1 ? "r" : "" }, shown(c, 80))))), h("tbody", null, a.rows.map((r) => h("tr", null, r.map((v, i) => h("td", { class: i === cols.length - 1 ? "r num" : "mono" }, i === cols.length - 1 && typeof v === "number" ? count(+v.toPrecision(6)) : shown(v, 200) || "–")))))));
  }

  async function plot(a: { rows: unknown[][] }) {
    const w = width(), start = Math.floor(Date.parse(p.span!.start) / w) * w, end = Date.parse(p.span!.end), points = Math.ceil((end - start) / w), times = Array.from({ length: points }, (_, i) => start + i * w);
    const groups = new Map<string, { labels: Record<string, string>; v: (number | null)[]; sum: number }>(), zero = made.fn === "count" || made.fn === "distinct" || made.fn === "sum" ? 0 : null;
    for (const row of a.rows) {
      const labels = Object.fromEntries(made.by.map((b, i) => [b, shown(row[i + 1], 100) || "none"])), key = made.by.length ? Object.values(labels).join(" / ") : functions[made.fn]!.text;
      let g = groups.get(key);
      if (!g) groups.set(key, (g = { labels, v: times.map(() => zero), sum: 0 }));
      const i = Math.round((Date.parse(textOf(row[0]).replace(/(\.\d{3})\d+/, "$1")) - start) / w), v = row.at(-1);
      if (i >= 0 && i < points && typeof v === "number") { g.v[i] = v; g.sum += Math.abs(v); }
    }
    const all = [...groups].sort((x, y) => y[1].sum - x[1].sum), series: ChartSeries[] = all.slice(0, mostSeries).map(([key, g]) => ({ name: key, values: [times, g.v] }));
    const notes = [all.length > mostSeries && `The ${mostSeries} largest of ${plural(all.length, "group")} are drawn.`, a.rows.length >= mostPoints && `The answer was cut at ${count(mostPoints)} points: group by less.`].filter(Boolean).join(" ");
    let el = out.querySelector<Chart>("ms-chart");
    if (!el) out.replaceChildren((el = new Chart()));
    out.querySelector(".chartnote")?.remove();
    if (notes) out.append(h("p", { class: "muted small chartnote" }, notes));
    el.data = { from: start, to: Math.max(end, start + w), series, step: w, kind: made.kind === "bars" ? "bars" : made.kind === "stack" ? "stack" : "line" };
  }

  draw();
  await load();
}


async function addToDashboard(p: LogsPage, made: Made, statement: string) {
  const title = `${functions[made.fn]!.text}${made.field ? ` of ${made.field}` : ""}${made.by.length ? ` by ${made.by.join(", ")}` : ""}`, table = made.kind === "table";
  await keep({
    title, name: "Logs", time: { from: p.state.range.from, to: p.state.range.to },
    panel: (title) => ({ title, type: table ? "table" : "timeseries", targets: [{ ref: "A", language: "sql", statement, ...(table ? { format: "table" } : {}) }], options: { ...(made.kind === "bars" ? { style: "bars", stack: "normal" } : {}), ...(made.kind === "stack" ? { stack: "normal", fill: 20 } : {}) } }),
  });
}
