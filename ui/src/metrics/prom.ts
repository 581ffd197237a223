// Calls of the Prometheus API, and what its answers mean.
import { ApiError, explain, json } from "../lib/api.ts";

export const base = "/query/prometheus/api/v1";

export type Labels = Record<string, string>;
export interface Bucket { lower: number; upper: number; count: number }
export interface HistogramPoint { count: number; sum: number; buckets: Bucket[] }
export interface Series { metric: Labels; values: [number[], number[]]; histograms: [number[], HistogramPoint[]] } // times in ms
export interface Answer { type: string; series: Series[]; text?: string; warnings: string[]; infos: string[]; cut: boolean }

interface RawHistogram { count: string; sum: string; buckets?: [number, string, string, string][] }
interface RawSeries { metric: Labels; value?: [number, string]; values?: [number, string][]; histogram?: [number, RawHistogram]; histograms?: [number, RawHistogram][] }
interface Raw<T> { data: T; warnings?: string[]; infos?: string[] }

export async function call<T>(path: string, params: Record<string, string | number | string[] | undefined>, signal?: AbortSignal): Promise<Raw<T>> {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) for (const one of Array.isArray(v) ? v : v === undefined ? [] : [String(v)]) q.append(k, one);
  return json<Raw<T>>(`${base}/${path}?${q}`, signal ? { signal } : {});
}

/** A number as Prometheus writes it. */
export const number = (s: string) => (s === "+Inf" || s === "Inf" ? Infinity : s === "-Inf" ? -Infinity : Number(s));

const histogram = (r: RawHistogram): HistogramPoint => ({ count: number(r.count), sum: number(r.sum), buckets: (r.buckets ?? []).map(([, lower, upper, count]) => ({ lower: number(lower), upper: number(upper), count: number(count) })) });

function seriesOf(r: RawSeries): Series {
  const values = r.values ?? (r.value ? [r.value] : []), histograms = r.histograms ?? (r.histogram ? [r.histogram] : []);
  return { metric: r.metric, values: [values.map(([t]) => Math.round(t * 1000)), values.map(([, v]) => number(v))], histograms: [histograms.map(([t]) => Math.round(t * 1000)), histograms.map(([, v]) => histogram(v))] };
}

function answer(raw: Raw<{ resultType: string; result: unknown }>): Answer {
  const { resultType: type, result } = raw.data, warnings = raw.warnings ?? [];
  const cut = warnings.some((w) => w.includes("truncated due to limit"));
  const rest = { type, warnings: warnings.filter((w) => !w.includes("truncated due to limit")), infos: raw.infos ?? [], cut };
  if (type === "scalar") { const [t, v] = result as [number, string]; return { ...rest, series: [{ metric: {}, values: [[t * 1000], [number(v)]], histograms: [[], []] }] }; }
  if (type === "string") return { ...rest, series: [], text: (result as [number, string])[1] };
  return { ...rest, series: (result as RawSeries[]).map(seriesOf) };
}

/** How many series are asked for at first, and at most. */
export const FIRST = 1000, MOST = 10_000;

export async function range(query: string, o: { start: number; end: number; step: number; limit: number }, signal?: AbortSignal): Promise<Answer> {
  return answer(await call("query_range", { query, start: o.start / 1000, end: o.end / 1000, step: o.step, limit: o.limit }, signal));
}

export async function instant(query: string, at: number, limit: number, signal?: AbortSignal): Promise<Answer> {
  return answer(await call("query", { query, time: at / 1000, limit }, signal));
}

/** Metrics of Millstream itself and of the runtimes of programs, which every installation has. */
export const commonNames = "(millstream|go|process|prometheus|promhttp|work_(overlap|ownership))_.*";
const anyCommon = new RegExp(`^${commonNames}`);
export const common = (name: string) => anyCommon.test(name);

/**
 * What is asked of a metric that is chosen alone: the rate of one that only grows, the 95th percentile of a histogram; of others, and of those whose type is not
 * known, the values. The types are those that senders declare, of the families that classic histograms and summaries are stored as.
 */
export function usual(name: string, type: string): (selector: string) => string {
  if (/_bucket$/.test(name)) return (s) => `histogram_quantile(0.95, sum by (le) (rate(${s}[5m])))`;
  const part = /_(sum|count)$/.test(name) && /^(histogram|summary)$/.test(type);
  if (type === "histogram" && !part) return (s) => `histogram_quantile(0.95, sum(rate(${s}[5m])))`;
  return part || type === "counter" || (type !== "gauge" && /_total$/.test(name)) ? (s) => `rate(${s}[5m])` : (s) => s;
}

export interface RawExemplars { seriesLabels: Labels; exemplars: { labels: Labels; value: string; timestamp: number }[] }
export const exemplars = async (query: string, o: { start: number; end: number }, signal?: AbortSignal) => (await call<RawExemplars[] | null>("query_exemplars", { query, start: o.start / 1000, end: o.end / 1000 }, signal)).data ?? [];

const braces = String.raw`\{(?:[^{}"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*\}`;
const lone = new RegExp(`^[\\w:]*(?:${braces})?$`), nameless = new RegExp(`^${braces}$`), named = /^\{\s*(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')\s*[,}]|__name__/;

/**
 * The query after a metric or an expression was chosen for it; undefined: what was chosen belongs where the cursor is, within an expression or behind an operator.
 * A name joins the matchers of a selector that has none; anything else takes the place of a query that is complete.
 */
export function taken(query: string, chosen: string, [from, to]: readonly [number, number]): string | undefined {
  const q = query.trim(), before = query.slice(0, from).trim(), after = query.slice(to).trim();
  if (nameless.test(q) && !named.test(q) && lone.test(chosen)) {
    const matchers = q.slice(1, -1).trim().replace(/,$/, "");
    if (!chosen.includes("{")) return matchers ? `${chosen}{${matchers}}` : chosen;
    if (matchers && nameless.test(chosen)) return `${chosen.slice(0, -1)}, ${matchers}}`;
  }
  if (lone.test(q)) return chosen;
  if (from !== to || (before && after) || /(?:[([{,+\-*/%^=<>!~]|\b(?:and|or|unless))$/i.test(before)) return undefined;
  return chosen;
}

/** The trace that an exemplar names, by the names that senders give it. */
export const traceOf = (l: Labels) => l.trace_id ?? l.traceID ?? l.traceId ?? l["trace.id"] ?? "";

/** What is wrong with a query, and at which character, which Prometheus puts before the message as line:column. */
export function wrong(e: unknown, query: string): { error: ApiError; at: number | undefined; message: string } {
  const error = explain(e);
  const text = error.message.replace(/^invalid parameter "query": /, "");
  const m = /^(\d+):(\d+): (?:parse error: )?([^]*)$/.exec(text);
  if (!m) return { error, at: error.position === undefined ? undefined : Math.max(0, error.position - 1), message: text };
  const lines = query.split("\n"), line = Math.min(Number(m[1]), lines.length);
  const at = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0) + Number(m[2]) - 1;
  return { error, at: Math.max(0, Math.min(query.length, at)), message: m[3]! };
}

const plainName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const plainLabel = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
export const quote = (s: string) => JSON.stringify(s).replace(/[\u007f-\uffff]/g, (c) => c);
const labelName = (k: string) => (plainLabel.test(k) ? k : quote(k));

/** A selector of one series or metric, as PromQL writes it: names that need it are quoted. */
export function selector(name: string, labels: Labels = {}, op = "="): string {
  const list = Object.entries(labels).filter(([k]) => k !== "__name__").map(([k, v]) => `${labelName(k)}${op}${quote(v)}`);
  if (plainName.test(name)) return list.length ? `${name}{${list.join(", ")}}` : name;
  return `{${[...(name ? [quote(name)] : []), ...list].join(", ")}}`;
}

export const seriesText = (l: Labels) => selector(l.__name__ ?? "", l);
