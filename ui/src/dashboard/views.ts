// How panels show their answers. Each view gets the frames of one run and makes the content of the panel.
import { Chart, type ChartSeries } from "../el/chart.ts";
import { Grid } from "../el/grid.ts";
import { Heatmap } from "../el/heatmap.ts";
import { orgPath } from "../lib/boot.ts";
import { h, s, visible } from "../lib/dom.ts";
import { duration } from "../lib/format.ts";
import { levelOf } from "../lib/level.ts";
import { formatTime } from "../lib/time.ts";
import { formatValue } from "../lib/units.ts";
import { cells, grows } from "../metrics/buckets.ts";
import { traceOf } from "../metrics/prom.ts";
import { markdown } from "./markdown.ts";
import type { Options, Panel, Threshold } from "./model.ts";
import { distinct, type Frame, numbers, type Table } from "./query.ts";
import type { Chosen, Window } from "./vars.ts";
import { fill } from "./vars.ts";

export interface Show { panel: Panel; frames: Frame[]; window: Window; chosen: readonly Chosen[] }

const options = (p: Panel): Options => p.options ?? {};
const tokens: Record<string, string> = { green: "--ok-fill", yellow: "--c5", orange: "--lf-warn", red: "--lf-error", blue: "--c1", purple: "--c7", gray: "--text-3", grey: "--text-3", transparent: "--text" };

/** The colour of a threshold that a value has reached; "" if none. */
export function colourAt(o: Options, v: number | null): string {
  if (v === null || !o.thresholds?.length) return "";
  const span = (o.max ?? 100) - (o.min ?? 0);
  const at = (t: Threshold) => (t.value === undefined ? -Infinity : o.threshold_mode === "percentage" ? (o.min ?? 0) + (t.value / 100) * span : t.value);
  const hit = o.thresholds.filter((t) => v >= at(t)).at(-1);
  return hit ? colour(hit.color) : "";
}

export const colour = (name: string) => (tokens[name] ? `var(${tokens[name]})` : /^#[0-9a-f]{6}$/i.test(name) ? name : "");

/** A value as the options say: its mapping's text, or the number with its unit and decimals. */
export function text(o: Options, v: number | null | string): { text: string; colour?: string } {
  const m = o.mappings?.find((m) => (m.value !== undefined ? m.value === String(v) || (m.value === "null" && v === null) : typeof v === "number" && v >= (m.from ?? -Infinity) && v <= (m.to ?? Infinity)));
  if (m) return { text: m.text, ...(m.color ? { colour: colour(m.color) } : {}) };
  if (typeof v === "string") return { text: v };
  if (v === null) return { text: "–" };
  const unit = o.unit ?? "";
  if (o.decimals !== undefined && Number.isFinite(v)) return { text: /^(|short|none|percent|percentunit)$/.test(unit) ? (unit === "percentunit" ? v * 100 : v).toLocaleString(undefined, { minimumFractionDigits: o.decimals, maximumFractionDigits: o.decimals }) + (unit.startsWith("percent") ? "%" : "") : formatValue(Number(v.toFixed(o.decimals)), unit) };
  return { text: formatValue(v, unit) };
}

const lines = (frames: Frame[]) => frames.flatMap((f) => f.lines ?? []);

function timeseries({ panel, frames, window: w }: Show): HTMLElement {
  const o = options(panel);
  const series = distinct(frames).map(({ name, line }): ChartSeries => ({ name, values: o.nulls === "zero" ? [line.values[0], line.values[1].map((v) => v ?? 0)] : line.values }));
  const c = new Chart();
  c.data = {
    from: w.span.start, to: w.span.end, series, unit: o.unit ?? "", compact: true, kind: o.stack ? "stack" : o.style === "bars" ? "bars" : (o.fill ?? 0) > 0 ? "area" : "line", log: !!o.log,
    thresholds: (o.thresholds ?? []).filter((t) => t.value !== undefined && o.threshold_mode !== "percentage").map((t) => ({ value: t.value!, ...(tokens[t.color] ? { colour: tokens[t.color]! } : {}) })),
  };
  c.traceLink = (e) => orgPath(`traces/${encodeURIComponent(e.traceId)}`);
  return c;
}

function sparkline(v: readonly (number | null)[]): SVGElement | null {
  const list = v.filter((x): x is number => x !== null && Number.isFinite(x));
  if (list.length < 2) return null;
  const min = list.reduce((a, b) => Math.min(a, b)), max = list.reduce((a, b) => Math.max(a, b)), span = max - min || 1;
  const points = list.map((y, i) => `${((i / (list.length - 1)) * 100).toFixed(2)},${(28 - ((y - min) / span) * 26).toFixed(2)}`).join(" ");
  return s("svg", { class: "d-spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" }, s("polyline", { points, "vector-effect": "non-scaling-stroke" }));
}

function stat({ panel, frames }: Show): HTMLElement {
  const o = options(panel), list = numbers(frames, o.calc).slice(0, 60);
  return h("div", { class: "d-stats" }, list.map((n) => {
    const t = text(o, n.value), el = h("div", { class: "d-stat" }, h("span", { class: "d-value" }, t.text), list.length > 1 && h("span", { class: "d-name ell" }, visible(n.name)), o.sparkline !== false && n.line ? sparkline(n.line.values[1]) : null);
    const c = t.colour ?? colourAt(o, n.value);
    if (c) el.style.setProperty("--v", c);
    return el;
  }));
}

function gauge({ panel, frames }: Show): HTMLElement {
  const o = options(panel), min = o.min ?? 0, max = o.max ?? 100;
  return h("div", { class: "d-stats" }, numbers(frames, o.calc).slice(0, 24).map((n) => {
    const share = n.value === null ? 0 : Math.max(0, Math.min(1, (n.value - min) / (max - min || 1))), length = 141.4;
    const arc = (cls: string, part: number) => s("path", { class: cls, d: "M10 55a45 45 0 0 1 90 0", "stroke-dasharray": `${(part * length).toFixed(1)} 400` });
    const t = text(o, n.value);
    const el = h("div", { class: "d-gauge", role: "meter", "aria-label": n.name || panel.title || "Value", "aria-valuemin": String(min), "aria-valuemax": String(max), "aria-valuenow": String(n.value ?? min), "aria-valuetext": t.text },
      s("svg", { viewBox: "0 0 110 62", "aria-hidden": "true" }, arc("track", 1), arc("fill", share)), h("span", { class: "d-value" }, t.text), h("span", { class: "d-name ell" }, visible(n.name)));
    const c = t.colour ?? colourAt(o, n.value);
    if (c) el.style.setProperty("--v", c);
    return el;
  }));
}

function bar({ panel, frames }: Show): HTMLElement {
  const o = options(panel), list = numbers(frames, o.calc).slice(0, 100);
  const max = o.max ?? list.reduce((m, n) => Math.max(m, n.value ?? 0), 0), min = o.min ?? 0;
  return h("ul", { class: "d-bars" }, list.map((n) => {
    const t = text(o, n.value), share = n.value === null || max === min ? 0 : Math.max(0, Math.min(1, (n.value - min) / (max - min)));
    const el = h("li", null, h("span", { class: "ell" }, visible(n.name)), s("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: "track", width: "100", height: "6" }), s("rect", { class: "fill", width: (share * 100).toFixed(1), height: "6" })), h("b", { class: "num" }, t.text));
    const c = t.colour ?? colourAt(o, n.value);
    if (c) el.style.setProperty("--v", c);
    return el;
  }));
}

/** The answers as one table: of series their labels and values. */
export function tableOf(frames: Frame[]): Table {
  const whole = frames.filter((f) => f.table);
  if (whole.length) return { columns: whole[0]!.table!.columns, rows: whole.flatMap((f) => (f.table!.columns.length === whole[0]!.table!.columns.length ? f.table!.rows : [])) };
  const names = [...new Set(frames.flatMap((f) => (f.lines ?? []).flatMap((l) => Object.keys(l.labels))))];
  const many = frames.length > 1, now = frames.every((f) => f.instant);
  const rows = frames.flatMap((f) => (f.lines ?? []).flatMap((l) => {
    const from = now ? Math.max(0, l.values[0].length - 1) : 0;
    return l.values[0].slice(from).map((t, i) => [new Date(t).toISOString(), ...(many ? [f.target.ref] : []), ...names.map((n) => l.labels[n] ?? null), l.values[1][from + i]]);
  }));
  return { columns: [{ name: "Time", type: "TIMESTAMP" }, ...(many ? [{ name: "Query", type: "VARCHAR" }] : []), ...names.map((name) => ({ name, type: "VARCHAR" })), { name: "Value", type: "DOUBLE" }], rows };
}

function table({ panel, frames }: Show): HTMLElement {
  const o = options(panel), t = tableOf(frames);
  if (t.columns[0]?.name === "Time" && frames.every((f) => f.instant)) { t.columns = t.columns.slice(1); t.rows = t.rows.map((r) => r.slice(1)); }
  return gridOf(t, o, panel.title ?? "Table");
}

/** A table of any length. */
export function gridOf(t: Table, o: Options, label: string): HTMLElement {
  const g = new Grid<unknown[]>();
  g.name = label;
  g.rowHeight = 28; // of one line, however narrow the panel: columns scroll
  const number = (type: string) => /INT|DOUBLE|FLOAT|DECIMAL/i.test(type), time = (type: string) => /TIMESTAMP/i.test(type);
  const shownText = (i: number, v: unknown) => (v === null || v === undefined ? "" : number(t.columns[i]!.type) ? text(t.columns.length === 1 || i === t.columns.length - 1 ? o : {}, Number(v)).text : time(t.columns[i]!.type) ? formatTime(String(v), { date: true, ms: true }) : typeof v === "object" ? JSON.stringify(v) : visible(String(v)));
  g.columns = t.columns.map((c, i) => ({
    key: String(i), label: c.name, sort: true, ...(time(c.type) ? { width: 190 } : number(c.type) && i < t.columns.length - 1 ? { width: 110 } : i < t.columns.length - 1 ? { width: 160 } : {}),
    render: (row: unknown[], cell: HTMLElement) => { cell.textContent = shownText(i, row[i]); if (number(c.type)) cell.classList.add("num"); },
  }));
  g.rows = t.rows;
  g.addEventListener("ms:sort", (e) => {
    const { key, desc } = (e as CustomEvent<{ key: string; desc: boolean }>).detail, i = Number(key);
    g.sort = { key, desc };
    g.rows = [...t.rows].sort((a, b) => { const x = a[i], y = b[i]; const d = typeof x === "number" && typeof y === "number" ? x - y : String(x ?? "").localeCompare(String(y ?? "")); return desc ? -d : d; });
  });
  return g;
}

function logs({ frames, panel }: Show): HTMLElement {
  const out = h("ul", { class: "d-logs", tabindex: "0", "aria-label": panel.title || "Logs" });
  for (const f of frames) {
    const t = f.table;
    if (!t) continue;
    const at = (name: string) => t.columns.findIndex((c) => c.name === name), time = at("_timestamp"), level = at("level"), message = at("message");
    for (const row of t.rows.slice(0, 500)) {
      const lv = level < 0 ? "" : levelOf(String(row[level] ?? ""));
      const body = message >= 0 ? String(row[message] ?? "") : t.columns.map((c, i) => (row[i] === null || i === time ? "" : `${c.name}=${String(row[i])}`)).filter(Boolean).join(" ");
      out.append(h("li", { class: lv || null }, time >= 0 && h("time", null, formatTime(String(row[time]), { ms: true })), lv && h("span", { class: `lv ${lv}` }, lv.slice(0, 3)), h("span", { class: "m" }, visible(body.slice(0, 1000)))));
    }
  }
  return out;
}

function heatmap({ panel, frames, window: w }: Show): HTMLElement {
  const series = frames.flatMap((f) => f.series ?? []);
  const data = cells(series, { from: w.span.start, to: w.span.end, step: w.step * 1000, growing: frames.some((f) => grows(f.statement)) });
  const el = new Heatmap();
  if (data) el.data = { ...data, unit: options(panel).unit ?? "" };
  return el;
}

function stateTimeline({ panel, frames, window: w }: Show): HTMLElement {
  const o = options(panel), span = w.span.end - w.span.start || 1;
  const list = lines(frames).slice(0, 60);
  return h("ul", { class: "d-states", tabindex: "0", "aria-label": panel.title || "States" }, list.map((l) => {
    const [t, v] = l.values, step = t.length > 1 ? t[1]! - t[0]! : w.step * 1000;
    const parts: SVGElement[] = [], said: string[] = [];
    for (let i = 0; i < t.length; ) {
      let k = i + 1;
      while (k < t.length && v[k] === v[i] && t[k]! - t[k - 1]! <= step * 1.5) k++;
      const from = Math.max(0, (t[i]! - w.span.start) / span), to = Math.min(1, (t[k - 1]! + step - w.span.start) / span), shownAs = text(o, v[i] ?? null);
      const r = s("rect", { x: (from * 1000).toFixed(1), width: Math.max(1, (to - from) * 1000).toFixed(1), height: "18" }, s("title", null, `${shownAs.text}, from ${formatTime(t[i]!)} to ${formatTime(t[k - 1]! + step)}`));
      const c = shownAs.colour ?? colourAt(o, v[i] ?? null);
      (r as SVGElement & { style: CSSStyleDeclaration }).style.setProperty("fill", c || `var(--c${(Math.abs(Math.round(v[i] ?? 0)) % 8) + 1})`);
      parts.push(r);
      if (said.at(-1) !== shownAs.text) said.push(shownAs.text);
      i = k;
    }
    return h("li", null, h("span", { class: "ell" }, visible(l.name)), s("svg", { viewBox: "0 0 1000 18", preserveAspectRatio: "none", role: "img", "aria-label": `${l.name}: ${said.slice(0, 20).join(", ")}` }, parts), h("b", { class: "num" }, text(o, v.at(-1) ?? null).text));
  }));
}

function traces({ frames, panel }: Show): HTMLElement {
  const t = tableOf(frames), id = t.columns.findIndex((c) => /^trace_?id$/i.test(c.name));
  if (id < 0) return gridOf(t, {}, panel.title ?? "Traces");
  const show = t.columns.map((c, i) => ({ c, i })).filter(({ c }) => !/^(trace_?id)$/i.test(c.name)).slice(0, 6);
  return h("div", { class: "tblwrap", tabindex: "0", role: "group", "aria-label": panel.title || "Traces" }, h("table", { class: "tbl" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Trace"), show.map(({ c }) => h("th", { scope: "col" }, c.name)))),
    h("tbody", null, t.rows.slice(0, 200).map((row) => h("tr", null, h("td", null, h("a", { class: "link mono", href: orgPath(`traces/${encodeURIComponent(traceOf({ trace_id: String(row[id]) }))}`) }, String(row[id]).slice(0, 16))),
      show.map(({ c, i }) => h("td", null, c.name === "duration_ns" ? duration(Number(row[i])) : /TIMESTAMP/i.test(c.type) ? formatTime(String(row[i]), { date: true, ms: true }) : visible(String(row[i] ?? "")))))))));
}

function placeholder({ panel }: Show): HTMLElement {
  const was = (panel.original as { type?: string } | undefined)?.type;
  return h("div", { class: "state" }, h("h2", null, "Cannot be shown here"), h("p", null, `It was imported${was ? `, as a panel of type “${visible(was)}”` : ""}. What it was is kept, and an export has it.`));
}

const views: Record<string, (s: Show) => HTMLElement> = {
  timeseries, stat, gauge, bar, table, logs, heatmap, "state-timeline": stateTimeline, traces, placeholder, text: (x) => markdown(fill(options(x.panel).content ?? "", x.chosen, "search", x.window)),
};

export const view = (x: Show): HTMLElement => (views[x.panel.type] ?? table)(x);

/** Whether the answers have anything to show. */
export const nothing = (frames: Frame[]) => frames.every((f) => (f.table ? f.table.rows.length === 0 : (f.lines ?? []).every((l) => l.values[0].length === 0) && !f.series?.some((x) => x.histograms[0].length)));
