// What the address of the Metrics page says.
import { defaultRange, type Range, rangeOf, useZone } from "../lib/time.ts";
import { read, write } from "../lib/url.ts";

export const views = ["graph", "table", "heatmap", "explain"] as const;
export type View = (typeof views)[number];
export const kinds = ["line", "area", "stack", "bars"] as const;
export type Kind = (typeof kinds)[number];

export interface Query { text: string; hidden: boolean }

export interface State {
  queries: Query[]; // at least one; lettered A, B, … by their place
  service: string; // whose metrics are offered; "" is all
  range: Range;
  tz: string; // "" is the reader's own
  view: View;
  kind: Kind;
  log: boolean;
  unit: string; // "" is found from the query
  step: string; // "" is found from the range
  pixels: number; // per point, where the step is found from the range
  instant: boolean; // of the table: the values at the end of the range
  exemplars: boolean;
  refresh: string;
  fault: string; // what of the address could not be used
}

export const letter = (i: number) => String.fromCharCode(65 + (i % 26)) + (i >= 26 ? Math.floor(i / 26) : "");
export const MOST_QUERIES = 20;

const oneOf = <T extends string>(list: readonly T[], v: string | null): T => (list as readonly string[]).includes(v ?? "") ? (v as T) : list[0]!;
const duration = /^\d+(\.\d+)?(ms|s|m|h|d)$/;

export function readState(q = read()): State {
  useZone(q.get("tz"));
  const hidden = new Set((q.get("hide") ?? "").split(","));
  const texts = q.getAll("q").slice(0, MOST_QUERIES);
  const { fault, ...range } = rangeOf(q, { from: "now-1h", to: "now" });
  return {
    queries: (texts.length ? texts : [""]).map((text, i) => ({ text: text.trim(), hidden: hidden.has(letter(i)) })),
    service: q.get("service") ?? "", range: q.get("from") ? range : fallback(), tz: q.get("tz") ?? "", view: oneOf(views, q.get("view")), kind: oneOf(kinds, q.get("kind")), log: q.get("log") === "1", unit: q.get("unit") ?? "",
    step: duration.test(q.get("step") ?? "") ? q.get("step")! : "", pixels: { low: 8, full: 1 }[q.get("res") ?? ""] ?? 3, instant: q.get("type") !== "range", exemplars: q.get("exemplars") !== "0", refresh: q.get("refresh") ?? "", fault: fault ?? "",
  };
}

// Fifteen minutes hold few points of a metric that is read every minute.
function fallback(): Range {
  const r = defaultRange();
  return r.from === "now-15m" ? { from: "now-1h", to: "now" } : r;
}

export function params(s: State): Record<string, string | string[]> {
  return {
    q: s.queries.length === 1 && !s.queries[0]!.text ? [] : s.queries.map((x) => x.text), hide: s.queries.flatMap((x, i) => (x.hidden ? [letter(i)] : [])).join(","), service: s.service, from: s.range.from, to: s.range.to, tz: s.tz,
    view: s.view === "graph" ? "" : s.view, kind: s.kind === "line" ? "" : s.kind, log: s.log ? "1" : "", unit: s.unit, step: s.step, res: { 8: "low", 1: "full" }[s.pixels] ?? "", type: s.instant ? "" : "range", exemplars: s.exemplars ? "" : "0", refresh: s.refresh,
  };
}

export const writeState = (s: State, how: "push" | "replace" = "push") => write(params(s), how);

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];
const scale: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/** The step in seconds: the one that was chosen, or a round one that gives each point its pixels. No query has more than 11,000 points. */
export function stepSeconds(s: Pick<State, "step" | "pixels">, span: { start: number; end: number }, width: number): number {
  const seconds = (span.end - span.start) / 1000, m = /^([\d.]+)([a-z]+)$/.exec(s.step);
  const least = seconds / 11_000;
  if (m) return Math.max(Number(m[1]) * scale[m[2]!]!, least);
  const want = Math.max(least, seconds / Math.max(50, width / s.pixels));
  return steps.find((x) => x >= want) ?? Math.ceil(want / 604_800) * 604_800;
}
