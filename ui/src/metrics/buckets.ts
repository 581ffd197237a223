// Turning series into the cells of a heatmap: classic histograms come as one series for each bound `le`, native ones as points with their own buckets.
import type { HeatmapData, HeatmapRow } from "../el/heatmap.ts";
import { number, type Series } from "./prom.ts";

const MOST_ROWS = 100;

/** Whether the counts of a query only ever grow, so that what came in a step is the difference to the step before. */
export const grows = (query: string) => !/\b(rate|irate|increase|delta|idelta|deriv)\s*\(/.test(query);

/** Cells of the series, or undefined when they are no histograms. */
export function cells(series: Series[], o: { from: number; to: number; step: number; growing: boolean }): HeatmapData | undefined {
  const classic = series.filter((s) => s.metric.le !== undefined && s.values[0].length > 0);
  const native = series.filter((s) => s.histograms[0].length > 0);
  const grid = classic.length ? fromClassic(classic) : native.length ? fromNative(native) : undefined;
  if (!grid) return undefined;
  const { rows, times, counts } = grid;
  return { from: o.from, to: o.to, step: o.step, ...merged(rows, o.growing ? counts.map(steps) : counts), times };
}

interface Counts { rows: HeatmapRow[]; times: number[]; counts: (number | undefined)[][] }

function fromClassic(series: Series[]): Counts {
  const bounds = [...new Set(series.map((s) => number(s.metric.le!)))].filter((b) => !Number.isNaN(b)).sort((a, b) => a - b);
  const times = [...new Set(series.flatMap((s) => s.values[0]))].sort((a, b) => a - b), at = new Map(times.map((t, i) => [t, i])), row = new Map(bounds.map((b, i) => [b, i]));
  const sums: (number | undefined)[][] = bounds.map(() => new Array(times.length).fill(undefined));
  for (const s of series) {
    const r = sums[row.get(number(s.metric.le!)) ?? -1];
    if (r) s.values[0].forEach((t, i) => { const v = s.values[1][i]!; if (Number.isFinite(v)) r[at.get(t)!] = (r[at.get(t)!] ?? 0) + v; });
  }
  // le counts all that is below: a bucket is what it has more than the one before.
  const counts = sums.map((r, k) => r.map((v, i) => (v === undefined ? undefined : Math.max(0, v - (k ? sums[k - 1]![i] ?? 0 : 0)))));
  return { rows: bounds.map((upper, i) => ({ lower: i ? bounds[i - 1]! : -Infinity, upper })), times, counts };
}

function fromNative(series: Series[]): Counts {
  const rows = new Map<string, HeatmapRow>(), times = [...new Set(series.flatMap((s) => s.histograms[0]))].sort((a, b) => a - b);
  for (const s of series) for (const p of s.histograms[1]) for (const b of p.buckets) rows.set(`${b.lower}:${b.upper}`, b);
  const list = [...rows.values()].map(({ lower, upper }) => ({ lower, upper })).sort((a, b) => a.upper - b.upper || a.lower - b.lower);
  const at = new Map(times.map((t, i) => [t, i])), row = new Map(list.map((b, i) => [`${b.lower}:${b.upper}`, i]));
  const counts: (number | undefined)[][] = list.map(() => new Array(times.length).fill(0));
  for (const s of series) s.histograms[0].forEach((t, i) => { for (const b of s.histograms[1][i]!.buckets) { const r = counts[row.get(`${b.lower}:${b.upper}`)!]!; r[at.get(t)!] = (r[at.get(t)!] ?? 0) + b.count; } });
  return { rows: list, times, counts };
}

/** What came in each step. After a restart the counter begins again: then its value is what came. */
function steps(r: (number | undefined)[]): (number | undefined)[] {
  return r.map((v, i) => { const before = i ? r[i - 1] : undefined; return v === undefined || before === undefined ? undefined : v < before ? v : v - before; });
}

/** Drops empty rows at both ends and merges neighbours until there are few enough. */
function merged(rows: HeatmapRow[], counts: (number | undefined)[][]): Pick<HeatmapData, "rows" | "cells"> {
  const used = counts.map((r) => r.some((v) => v !== undefined && v > 0));
  const first = Math.max(0, used.indexOf(true)), last = used.lastIndexOf(true);
  let list = rows.slice(first, last + 1), grid = counts.slice(first, last + 1).map((r) => r.map((v) => v ?? 0));
  while (list.length > MOST_ROWS) {
    const half = Math.ceil(list.length / 2);
    const was = list, had = grid;
    list = Array.from({ length: half }, (_, i) => ({ lower: was[2 * i]!.lower, upper: (was[2 * i + 1] ?? was[2 * i]!).upper }));
    grid = Array.from({ length: half }, (_, i) => had[2 * i]!.map((v, k) => v + (had[2 * i + 1]?.[k] ?? 0)));
  }
  return { rows: list, cells: grid };
}
