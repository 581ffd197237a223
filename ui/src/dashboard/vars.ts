// Variables: their choices, what is chosen, and their values in statements.
import { json } from "../lib/api.ts";
import { boot } from "../lib/boot.ts";
import { call } from "../metrics/prom.ts";
import type { Span } from "../lib/time.ts";
import type { Target, Variable } from "./model.ts";

export const ALL = "$__all";
const most = 5000; // choices of a variable

export interface Chosen { v: Variable; options: string[]; value: string[]; problem?: string }

const escapeRegex = (s: string) => s.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** A value as a statement of a language takes it; inText says that it is put between quotes. */
export function written(c: Chosen, language: Target["language"], format = "", inText = true): string {
  const all = c.value.includes(ALL);
  if (all && c.v.all_value) return c.v.all_value;
  const list = all ? c.options.filter((o) => o !== ALL) : c.value;
  switch (format) {
    case "csv": return list.join(",");
    case "pipe": return list.join("|");
    case "raw": return list.join(",");
    case "regex": return list.length === 1 ? escapeRegex(list[0]!) : `(${list.map(escapeRegex).join("|")})`;
    case "singlequote": return list.map((x) => `'${x.replaceAll("'", "''")}'`).join(",");
    case "doublequote": return list.map((x) => `"${x.replaceAll('"', '\\"')}"`).join(",");
  }
  if (language === "promql") {
    if (c.v.multi || all) return list.length === 0 ? ".*" : list.length === 1 ? quotedRegex(list[0]!) : `(${list.map(quotedRegex).join("|")})`;
    return inText ? (list[0] ?? "").replace(/["\\]/g, "\\$&") : (list[0] ?? "");
  }
  if (language === "sql") return c.v.multi || all ? list.map((x) => `'${x.replaceAll("'", "''")}'`).join(",") || "NULL" : (list[0] ?? "").replaceAll("'", "''");
  const word = (x: string) => (/^[\p{L}\p{N}_.-]+$/u.test(x) && !/^(and|or|not|to)$/i.test(x) ? x : `"${x.replace(/["\\]/g, "\\$&")}"`);
  return list.length === 0 ? "*" : list.length === 1 ? word(list[0]!) : `(${list.map(word).join(" or ")})`;
}

/** Whether a place of a statement is between double quotes. */
const between = (text: string, at: number) => (text.slice(0, at).replace(/\\./g, "").split('"').length - 1) % 2 === 1;
// In a PromQL string the backslashes of the expression are written twice.
const quotedRegex = (s: string) => escapeRegex(s).replace(/["\\]/g, "\\$&");

export interface Window { span: Span; step: number } // step in seconds

export const seconds = (s: number) => (s >= 86400 && s % 86400 === 0 ? `${s / 86400}d` : s >= 3600 && s % 3600 === 0 ? `${s / 3600}h` : s >= 60 && s % 60 === 0 ? `${s / 60}m` : `${Math.max(1, Math.round(s))}s`);

/** Puts values in place of $name, ${name} and ${name:format}; what is unknown stays. */
export function fill(text: string, chosen: readonly Chosen[], language: Target["language"], w: Window): string {
  return text.replace(/\$\{(\w+)(?::(\w+))?\}|\$(\w+)|\[\[(\w+)(?::(\w+))?\]\]/g, (all: string, a?: string, f?: string, b?: string, c?: string, g?: string, at = 0) => {
    const name = a ?? b ?? c!;
    switch (name) {
      case "__interval": return seconds(w.step);
      case "__rate_interval": return seconds(Math.max(60, w.step * 4));
      case "__interval_ms": return String(w.step * 1000);
      case "__range": return seconds(Math.round((w.span.end - w.span.start) / 1000));
      case "__range_s": return String(Math.round((w.span.end - w.span.start) / 1000));
      case "__range_ms": return String(w.span.end - w.span.start);
      case "__from": return String(w.span.start);
      case "__to": return String(w.span.end);
    }
    const hit = chosen.find((x) => x.v.name === name);
    return hit ? written(hit, language, f ?? g ?? "", between(text, at)) : all;
  });
}

/** The names of the variables that a text refers to. */
export const used = (text: string) => [...text.matchAll(/\$\{(\w+)(?::\w+)?\}|\$(\w+)|\[\[(\w+)/g)].map((m) => m[1] ?? m[2] ?? m[3]!);

async function found(v: Variable, chosen: Chosen[], w: Window): Promise<string[]> {
  const query = fill(v.query ?? "", chosen, v.language ?? "promql", w), range = { start: Math.floor(w.span.start / 1000), end: Math.ceil(w.span.end / 1000), limit: most };
  if (v.language === "sql") {
    const r = await json<{ rows: unknown[][] }>("/query", { body: { language: "sql", statement: query, time_range: { start: new Date(w.span.start).toISOString(), end: new Date(w.span.end).toISOString() }, limit: most } });
    return r.rows.map((row) => String(row[0] ?? "")).filter(Boolean);
  }
  const values = /^label_values\(\s*(?:([^]*?)\s*,\s*)?([\w.]+)\s*\)$/.exec(query);
  if (values) return (await call<string[]>(`label/${encodeURIComponent(values[2]!)}/values`, { ...range, ...(values[1] ? { "match[]": values[1] } : {}) })).data ?? [];
  if (/^label_names\(/.test(query)) return (await call<string[]>("labels", range)).data ?? [];
  const metrics = /^metrics\(([^]*)\)$/.exec(query);
  if (metrics) return (await call<string[]>("label/__name__/values", { ...range, "match[]": `{__name__=~${JSON.stringify(metrics[1]!.trim() || ".+")}}` })).data ?? [];
  const result = /^query_result\(([^]*)\)$/.exec(query)?.[1] ?? query;
  if (!result.trim()) return [];
  const r = await call<{ result: { metric: Record<string, string>; value: [number, string] }[] }>("query", { query: result, time: range.end, limit: most });
  return r.data.result.map((s) => `${s.metric.__name__ ?? ""}{${Object.entries(s.metric).filter(([k]) => k !== "__name__").map(([k, x]) => `${k}="${x}"`).join(",")}} ${s.value[1]} ${s.value[0] * 1000}`);
}

/** Keeps what matches; the first group is the value. */
function matching(list: string[], regex: string | undefined): string[] {
  if (!regex) return list;
  const m = /^\/([^]*)\/([a-z]*)$/.exec(regex);
  let re: RegExp;
  try { re = new RegExp(m ? m[1]! : regex, (m?.[2] ?? "").replace("g", "")); } catch { return list; }
  return list.flatMap((x) => { const hit = re.exec(x); return hit ? [hit[1] ?? hit[0]] : []; });
}

async function optionsOf(v: Variable, chosen: Chosen[], w: Window): Promise<string[]> {
  switch (v.type) {
    case "query": return matching(await found(v, chosen, w), v.regex);
    case "stream": return matching(boot.streams.filter((s) => s.signal === (v.query || "logs")).map((s) => s.name), v.regex);
    default: return v.options ?? [];
  }
}

/** Finds the choices of all variables, one after another since a query may use those before it. asked is what the address says. */
export async function resolveAll(list: readonly Variable[], asked: (name: string) => string[], w: Window): Promise<Chosen[]> {
  const out: Chosen[] = [];
  for (const v of list) {
    let options: string[] = [], problem: string | undefined;
    try { options = [...new Set(await optionsOf(v, out, w))]; } catch (e) { problem = e instanceof Error ? e.message : String(e); }
    if (v.include_all && v.type !== "text") options = [ALL, ...options];
    const first = v.default?.length ? v.default : v.type === "text" ? [""] : options.slice(0, 1);
    const want = asked(v.name);
    // What the address says counts also when the list no longer has it: a link shows what it showed.
    out.push({ v, options, value: v.type === "constant" ? options.slice(0, 1) : want.length ? (v.multi ? want : want.slice(0, 1)) : first, ...(problem ? { problem } : {}) });
  }
  return out;
}
