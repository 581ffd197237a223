// What the page Traces looks for, in its URL and in what it asks the node.
import { json } from "../lib/api.ts";
import { boot } from "../lib/boot.ts";
import { type Range, rangeOf, type Span as Period, toApi } from "../lib/time.ts";
import { filled, type Params, read, write } from "../lib/url.ts";
import type { Completion, Item } from "../el/editor.ts";
import { identifier, literal } from "./links.ts";

export interface Search {
  stream: string; // empty: all
  service: string; operation: string;
  status: "" | "ok" | "error";
  least: string; most: string; // durations as typed
  q: string; // in the search language
  range: Range;
}

export interface Summary { trace_id: string; root: string; root_service: string; start: string; duration_ns: number; spans: number; errors: number; services: string[] | null; matched: number }
export interface Stats { took_ms: number; scanned_rows: number; scanned_bytes: number; segments: { total: number; pruned: number; scanned: number } }
export interface Found { traces: Summary[]; stats: Stats; partial: boolean; partial_reasons?: string[]; warnings: string[] }

/** Spans by time and duration: columns of `width` ms from `start`, rows of an eighth of a power of ten. */
export interface Density { start: number; width: number; columns: number; cells: { x: number; y: number; n: number; errors: number }[] }

export const perDecade = 8;

export const streams = () => boot.streams.filter((s) => s.signal === "traces").map((s) => s.name);

export function fromUrl(): Search & { fault?: string } {
  const q = read(), status = q.get("status") ?? "", range = rangeOf(q);
  return { stream: q.get("stream") ?? "", service: q.get("service") ?? "", operation: q.get("operation") ?? "", status: status === "ok" || status === "error" ? status : "", least: q.get("min") ?? "", most: q.get("max") ?? "", q: q.get("q") ?? "", range, fault: range.fault };
}

const allParams = (s: Search) => ({ stream: s.stream, service: s.service, operation: s.operation, status: s.status, min: s.least, max: s.most, q: s.q, from: s.range.from, to: s.range.to });

export const toUrl = (s: Search, how: "push" | "replace" = "push") => write(allParams(s), how);

/** The search as a link and a saved view have it, with the order of the list and the zone. */
export const params = (s: Search) => filled({ ...allParams(s), sort: read().get("sort") ?? "", tz: read().get("tz") ?? "" });

/** Puts the parameters of a link or a saved view into the address. */
export const openParams = (p: Params, how: "push" | "replace") => write({ ...Object.fromEntries(["stream", "service", "operation", "status", "min", "max", "q", "from", "to", "sort", "tz", "s"].map((k) => [k, undefined])), ...p }, how);

/** Without a condition on spans it is the traces themselves that are looked at, by their roots. */
export const byRoots = (s: Search) => !s.service && !s.operation && !s.status && !s.q;

export async function find(s: Search, period: Period, limit: number, signal: AbortSignal): Promise<Found> {
  const p: Record<string, string> = { ...toApi(period), limit: String(limit), stream: s.stream, service: s.service, operation: s.operation, status: s.status, min_duration: s.least, max_duration: s.most, search: s.q, roots: byRoots(s) ? "true" : "" };
  return json<Found>(`/query/traces?${new URLSearchParams(Object.entries(p).filter(([, v]) => v !== ""))}`, { signal });
}

/** Counts the spans that pass by time and duration, in every stream that is looked at. */
export async function density(s: Search, period: Period, signal: AbortSignal): Promise<Density> {
  const columns = 96, width = Math.max(1, Math.ceil((period.end - period.start) / columns));
  const cells = new Map<string, Density["cells"][number]>();
  await Promise.all((s.stream ? [s.stream] : streams().slice(0, 16)).map(async (stream) => {
    const where = await conditions(s, stream, signal);
    // Times are counted from the start in ns: exact in 64 bits.
    const statement = `SELECT CAST(floor((epoch_ns(_timestamp) - ${period.start}000000) / ${width}000000) AS BIGINT) AS x, CAST(floor(log10(greatest(duration_ns, 1)) * ${perDecade}) AS BIGINT) AS y, count(*) AS n, count(*) FILTER (WHERE status = 'error') AS e FROM traces.${identifier(stream)}${where.length ? ` WHERE ${where.join(" AND ")}` : ""} GROUP BY x, y`;
    const a = await json<{ rows: number[][] }>("/query", { body: { statement, time_range: toApi(period), limit: 50_000 }, signal });
    for (const [x, y, n, e] of a.rows.map((r) => r.map(Number)) as [number, number, number, number][]) {
      const key = `${x}/${y}`, had = cells.get(key);
      if (had) { had.n += n; had.errors += e; } else cells.set(key, { x, y, n, errors: e });
    }
  }));
  return { start: period.start, width, columns, cells: [...cells.values()] };
}

async function conditions(s: Search, stream: string, signal: AbortSignal): Promise<string[]> {
  const out: string[] = [];
  if (s.service) out.push(`service = ${literal(s.service)}`);
  if (s.operation) out.push(`name = ${literal(s.operation)}`);
  if (s.status) out.push(`status = ${literal(s.status)}`);
  const least = nanoseconds(s.least), most = nanoseconds(s.most);
  if (least > 0) out.push(`duration_ns >= ${Math.round(least)}`);
  if (most > 0) out.push(`duration_ns <= ${Math.round(most)}`);
  if (s.q) {
    const t = await json<{ filter: string }>("/query/translate", { body: { signal: "traces", stream, statement: s.q }, signal });
    if (t.filter) out.push(`(${t.filter})`);
  }
  if (byRoots(s)) out.push("coalesce(parent_span_id, '') = ''");
  return out;
}

/** A duration as the API takes it: 250ms, 1.5s, 2m; 0 for none, NaN for what is not one. */
export function nanoseconds(text: string): number {
  const t = text.trim().replace(/^[<>]=?\s*/, "");
  if (t === "") return 0;
  let sum = 0, rest = t;
  for (let m = /^(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/.exec(rest); m; m = /^(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/.exec(rest)) {
    sum += Number(m[1]) * { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 }[m[2]!]!;
    rest = rest.slice(m[0].length);
  }
  return rest === "" ? sum : NaN;
}

/** A duration for a text field: exact, in the largest unit that keeps it short. */
export function durationText(ns: number): string {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]] as const) if (ns >= size) return `${Number((ns / size).toPrecision(4))}${unit}`;
  return `${Math.max(0, Math.round(ns))}ns`;
}

let asked: AbortController | undefined;

/** What may stand at the cursor of the search. */
export async function complete(s: Search, text: string, cursor: number): Promise<Completion | null> {
  asked?.abort();
  const { signal } = (asked = new AbortController()), stream = s.stream || streams()[0];
  if (!stream) return null;
  const points = (n: number) => [...text].slice(0, n).join("").length; // the node counts characters, strings count units
  try {
    const c = await json<{ from: number; to: number; items: Item[] }>("/query/complete", { body: { signal: "traces", stream, statement: text, cursor: [...text.slice(0, cursor)].length, time_range: toApi(s.range) }, signal });
    return { from: points(c.from), to: points(c.to), items: c.items };
  } catch {
    return null; // completion is an extra
  }
}
