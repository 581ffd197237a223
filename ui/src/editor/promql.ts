// PromQL: its words, and completion from the node. Names are asked for by what has been typed, a hundred at most, so that it copes with any number of metrics.
import { json } from "../lib/api.ts";
import { common, commonNames } from "../metrics/prom.ts";
import type { Complete, Item } from "./surface.ts";

export const aggregations = ["sum", "avg", "min", "max", "count", "count_values", "topk", "bottomk", "quantile", "stddev", "stdvar", "group", "limitk", "limit_ratio"];
export const functions = "rate irate increase delta idelta deriv histogram_quantile histogram_count histogram_sum histogram_avg histogram_fraction histogram_stddev histogram_stdvar avg_over_time min_over_time max_over_time sum_over_time count_over_time quantile_over_time last_over_time present_over_time absent_over_time stddev_over_time stdvar_over_time mad_over_time changes resets predict_linear double_exponential_smoothing label_replace label_join abs absent ceil floor round clamp clamp_max clamp_min exp ln log2 log10 sqrt sgn sort sort_desc sort_by_label sort_by_label_desc scalar vector time timestamp minute hour day_of_month day_of_week day_of_year days_in_month month year info acos asin atan cos sin tan deg rad pi".split(" ");
export const modifiers = ["by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "and", "or", "unless", "atan2", "start", "end"];

const base = "/query/prometheus/api/v1";
const limit = "100"; // names of an answer
const fresh = 60_000; // ms that an answer is good for
const kept = new Map<string, { at: number; value: Promise<string[]> }>();

/** Names of the last twelve hours; an answer that does not come is an empty one: the reader can type on. */
function names(path: string, match: string): Promise<string[]> {
  const id = `${path}?${match}`, had = kept.get(id);
  if (had && Date.now() - had.at < fresh) return had.value;
  const q = new URLSearchParams({ limit, start: String(Math.floor(Date.now() / 1000) - 43_200), ...(match ? { "match[]": match } : {}) });
  const value = json<{ data: string[] }>(`${base}/${path}?${q}`).then((r) => r.data ?? [], () => { kept.delete(id); return []; });
  if (kept.size > 200) kept.clear();
  kept.set(id, { at: Date.now(), value });
  return value;
}

const quoted = (v: string) => JSON.stringify(v);
const literal = (v: string) => v.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
const selector = (metric: string | undefined) => (metric ? `{__name__=${quoted(metric)}}` : "");

/** What is being typed at the end of a text. */
export type Context =
  | { kind: "value"; label: string; metric: string | undefined; typed: string } // inside the quotes of a matcher
  | { kind: "label"; metric: string | undefined; typed: string } // inside braces, or of by (…) and the like
  | { kind: "duration"; typed: string }
  | { kind: "name"; typed: string }
  | { kind: "none" };

export function contextOf(before: string): Context {
  let depth: { open: string; metric: string | undefined; word: string }[] = [], last = "", label = "", metric: string | undefined;
  const pattern = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|#[^\n]*|\d[\w.]*|[a-zA-Z_:][\w:.]*|\s+|=~|!~|!=|./g;
  let open: { quote: string; text: string } | undefined;
  for (const m of before.matchAll(pattern)) {
    const t = m[0], ends = m.index + t.length === before.length;
    if (/^["']/.test(t)) {
      const closed = t.length > 1 && t.endsWith(t[0]!) && !/(?<!\\)(\\\\)*\\$/.test(t.slice(0, -1));
      if (ends && !closed) open = { quote: t[0]!, text: t.slice(1) };
    } else if (/^[{[(]$/.test(t)) depth.push({ open: t, metric: t === "{" && /^[a-zA-Z_:]/.test(last) ? last : undefined, word: last.toLowerCase() });
    else if (/^[}\])]$/.test(t)) depth = depth.slice(0, -1);
    else if (/^[a-zA-Z_:]/.test(t)) {
      if (depth.at(-1)?.open === "{") label = t;
      else if (!functions.includes(t) && !aggregations.includes(t) && !modifiers.includes(t.toLowerCase()) && !ends) metric = t;
    } else if (t[0] === "#" && ends) return { kind: "none" };
    if (!/^\s/.test(t)) last = t;
  }
  const inside = depth.at(-1);
  if (open) return inside?.open === "{" ? { kind: "value", label, metric: inside.metric, typed: open.text } : { kind: "none" };
  const typed = /[a-zA-Z_:][\w:.]*$/.exec(before)?.[0] ?? "";
  if (inside?.open === "{") return /[=~]\s*$/.test(before) ? { kind: "none" } : { kind: "label", metric: inside.metric, typed };
  if (inside?.open === "[") return { kind: "duration", typed: /[\w$]*$/.exec(before)![0] };
  if (inside?.open === "(" && /^(by|without|on|ignoring|group_left|group_right)$/.test(inside.word)) return { kind: "label", metric, typed };
  return typed ? { kind: "name", typed } : { kind: "none" };
}

/** Completion of an expression. */
export const promqlComplete: Complete = async (text, cursor) => {
  const c = contextOf(text.slice(0, cursor));
  if (c.kind === "none") return null;
  const item = (label: string, kind: string, apply?: string): Item => ({ label, kind, ...(apply ? { apply } : {}) });
  const starts = (s: string) => s.toLowerCase().startsWith(c.typed.toLowerCase());
  const found = async (): Promise<Item[]> => {
    switch (c.kind) {
      case "value": return (await names(`label/${encodeURIComponent(c.label)}/values`, selector(c.metric))).filter((v) => v.toLowerCase().includes(c.typed.toLowerCase())).map((v) => item(v, "value", v.replace(/["\\]/g, "\\$&")));
      case "label": return (await names("labels", selector(c.metric))).filter((v) => v !== "__name__" && starts(v)).map((v) => item(v, "label"));
      case "duration": return ["$__rate_interval", "$__interval", "1m", "5m", "15m", "30m", "1h", "6h", "1d", "7d"].filter(starts).map((v) => item(v, "range"));
      default: {
        const like = `__name__=~${quoted(".*" + literal(c.typed) + ".*")}`; // the reader's own first, and not cut off by those of every installation
        const metrics = [...new Set((await Promise.all([`{${like}, __name__!~${quoted(commonNames)}}`, `{${like}}`].map((match) => names("label/__name__/values", match)))).flat())];
        const calls = [...functions, ...aggregations].filter(starts).map((v) => item(v, "function", `${v}(`));
        const words = modifiers.filter(starts).map((v) => item(v, "keyword"));
        const order = (m: string) => 2 * Number(common(m)) + Number(!starts(m));
        return metrics.sort((a, b) => order(a) - order(b)).map((v) => item(v, "metric")).slice(0, 60).concat(calls, words);
      }
    }
  };
  return { from: cursor - c.typed.length, to: cursor, items: (await found()).slice(0, 100) };
};
