// The answers of a panel's queries. At most six run at once in a tab, visible panels first.
import { ApiError, json } from "../lib/api.ts";
import { FIRST, instant, type Labels, range, type Series, seriesText } from "../metrics/prom.ts";
import type { Panel, Target } from "./model.ts";
import { type Chosen, fill, type Window } from "./vars.ts";

export interface Table { columns: { name: string; type: string }[]; rows: unknown[][] }
export interface Line { name: string; labels: Labels; values: [number[], (number | null)[]] } // times in ms
export interface Frame { target: Target; statement: string; lines?: Line[]; series?: Series[]; table?: Table; instant?: boolean; cut?: boolean; warnings: string[]; partial: boolean; took: number; scanned?: number; bytes?: number }

const most = 6;
let running = 0;
const waiting: { go: () => void; rank: () => number }[] = [];

/** Waits for one of the places; rank says which of those that wait comes first, the least. */
async function slot<T>(rank: () => number, signal: AbortSignal, f: () => Promise<T>): Promise<T> {
  if (running >= most) await new Promise<void>((go) => { waiting.push({ go, rank }); signal.addEventListener("abort", () => go(), { once: true }); });
  if (signal.aborted) throw new ApiError(0, "aborted", "stopped");
  running++;
  try {
    return await f();
  } finally {
    running--;
    waiting.sort((a, b) => a.rank() - b.rank());
    waiting.shift()?.go();
  }
}

interface SqlAnswer { columns: Table["columns"]; rows: unknown[][]; stats: { took_ms: number; scanned_rows: number; scanned_bytes: number }; partial: boolean; warnings: string[] }

export async function runTarget(panel: Panel, t: Target, chosen: readonly Chosen[], w: Window, rank: () => number, signal: AbortSignal): Promise<Frame> {
  const step = t.step ? Math.max(w.step, parseStep(fill(t.step, chosen, t.language, w))) : w.step, own = { ...w, step };
  const statement = fill(t.statement, chosen, t.language, own);
  return slot(rank, signal, async () => {
    const began = performance.now();
    if (t.language === "promql") {
      const table = t.format === "table" || panel.type === "table", now = t.instant || (table && t.instant !== false && panel.type !== "timeseries");
      const limit = FIRST, start = Math.floor(w.span.start / (step * 1000)) * step * 1000;
      const a = now ? await instant(statement, w.span.end, limit, signal) : await range(statement, { start, end: w.span.end, step, limit }, signal);
      const lines = a.series.map((s) => ({ name: seriesName(t.legend, s.metric, statement), labels: s.metric, values: s.values as [number[], number[]] }));
      return { target: t, statement, lines, series: a.series, instant: now, cut: a.cut, warnings: a.warnings, partial: false, took: performance.now() - began };
    }
    const body = { language: t.language, statement, ...(t.stream ? { stream: fill(t.stream, chosen, "promql", own) } : {}), time_range: { start: new Date(w.span.start).toISOString(), end: new Date(w.span.end).toISOString() }, limit: panel.type === "logs" ? 500 : 5000 };
    const a = await json<SqlAnswer>("/query", { body, signal });
    const table = { columns: a.columns, rows: a.rows };
    return { target: t, statement, table, lines: linesOf(table, t.legend), warnings: a.warnings, partial: a.partial, took: performance.now() - began, scanned: a.stats.scanned_rows, bytes: a.stats.scanned_bytes };
  });
}

export function parseStep(text: string): number {
  const m = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)?$/.exec(text.trim());
  return m ? Number(m[1]) * { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400, w: 604800 }[m[2] ?? "s"]! : 1;
}

/** The name of a series: the legend's text with labels put in, or all its labels. */
export function named(legend: string | undefined, labels: Labels): string {
  if (given(legend)) return legend.replace(/\{\{\s*([\w.]+)\s*\}\}/g, (_, k: string) => labels[k] ?? "");
  const rest = Object.entries(labels).filter(([k]) => k !== "__name__");
  return (labels.__name__ ?? "") + (rest.length || !labels.__name__ ? `{${rest.map(([k, v]) => `${k}="${v}"`).join(", ")}}` : "");
}

/** The name of a series of PromQL: without a legend the one that it has in Metrics, so that it has the same colour there. */
export const seriesName = (legend: string | undefined, labels: Labels, query: string) => (given(legend) ? named(legend, labels) : Object.keys(labels).length ? seriesText(labels) : query);

const given = (legend: string | undefined): legend is string => !!legend && legend !== "__auto";

const isTime = (type: string) => /TIMESTAMP|DATE/i.test(type);
const isNumber = (type: string) => /INT|DOUBLE|FLOAT|DECIMAL|REAL/i.test(type);

/** A table with a time as series: texts name them, each column of numbers is one. undefined: there is no time among its columns. */
export function linesOf(t: Table, legend?: string): Line[] | undefined {
  const time = t.columns.findIndex((c) => isTime(c.type));
  if (time < 0) return undefined;
  const texts = t.columns.flatMap((c, i) => (i !== time && !isNumber(c.type) ? [i] : [])), numbers = t.columns.flatMap((c, i) => (isNumber(c.type) ? [i] : []));
  const found = new Map<string, { labels: Labels; points: [number, number | null][] }>();
  for (const row of t.rows) {
    const at = Date.parse(String(row[time]));
    if (Number.isNaN(at)) continue;
    const labels = Object.fromEntries(texts.map((i) => [t.columns[i]!.name, String(row[i] ?? "")]));
    for (const i of numbers) {
      const key = JSON.stringify([i, labels]);
      let line = found.get(key);
      if (!line) found.set(key, (line = { labels: { ...(numbers.length > 1 || texts.length === 0 ? { __name__: t.columns[i]!.name } : {}), ...labels }, points: [] }));
      const v = row[i];
      line.points.push([at, v === null || v === undefined ? null : Number(v)]);
    }
  }
  return [...found.values()].map(({ labels, points }) => {
    points.sort((a, b) => a[0] - b[0]);
    const plain = Object.keys(labels).length === 1 ? Object.values(labels)[0]! : "";
    return { name: legend ? named(legend, labels) : plain || named(undefined, labels), labels, values: [points.map((p) => p[0]), points.map((p) => p[1])] };
  });
}

/** One number of a series. */
export function reduce(values: readonly (number | null)[], calc = "last"): number | null {
  const v = values.filter((x): x is number => x !== null && !Number.isNaN(x));
  if (v.length === 0) return calc === "count" ? 0 : null;
  switch (calc) {
    case "first": return v[0]!;
    case "mean": return v.reduce((a, b) => a + b, 0) / v.length;
    case "min": return v.reduce((a, b) => Math.min(a, b));
    case "max": return v.reduce((a, b) => Math.max(a, b));
    case "sum": return v.reduce((a, b) => a + b, 0);
    case "count": return v.length;
    case "range": return v.reduce((a, b) => Math.max(a, b)) - v.reduce((a, b) => Math.min(a, b));
    case "delta": return v.at(-1)! - v[0]!;
  }
  return v.at(-1)!;
}

/** All series, each by a name of its own: those that several queries have by the letter of the query too, as on the page Metrics. */
export function distinct(frames: readonly Frame[]): { name: string; line: Line }[] {
  const of = new Map<string, Set<Frame>>(), seen = new Map<string, number>();
  for (const f of frames) for (const l of f.lines ?? []) of.set(l.name, (of.get(l.name) ?? new Set()).add(f));
  return frames.flatMap((f) => (f.lines ?? []).map((line) => {
    const name = of.get(line.name)!.size > 1 ? `${f.target.ref} ${line.name}` : line.name, n = (seen.get(name) ?? 0) + 1;
    seen.set(name, n);
    return { name: n > 1 ? `${name} (${n})` : name, line };
  }));
}

/** The numbers that stat, gauge and bar show: one a series, or one a column of a table without time. */
export function numbers(frames: readonly Frame[], calc?: string): { name: string; value: number | null; line?: Line }[] {
  return frames.flatMap((f): { name: string; value: number | null; line?: Line }[] => {
    if (f.lines) return f.lines.map((line) => ({ name: line.name, value: reduce(line.values[1], calc), line }));
    const t = f.table;
    if (!t) return [];
    const nums = t.columns.flatMap((c, i) => (isNumber(c.type) ? [i] : [])), texts = t.columns.flatMap((c, i) => (isNumber(c.type) ? [] : [i]));
    if (texts.length && nums.length) return t.rows.slice(0, 200).flatMap((row) => nums.map((i) => ({ name: texts.map((k) => String(row[k] ?? "")).join(" ") + (nums.length > 1 ? ` ${t.columns[i]!.name}` : ""), value: row[i] === null ? null : Number(row[i]) })));
    return nums.map((i) => ({ name: t.columns[i]!.name, value: reduce(t.rows.map((r) => (r[i] === null ? null : Number(r[i]))), calc) }));
  });
}
