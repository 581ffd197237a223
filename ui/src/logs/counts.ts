// What the histogram of the page counts: the node's buckets, and the records that arrive while it is followed.
import type { HistogramData } from "../el/histogram.ts";
import { type Level, levelOf } from "../lib/level.ts";
import { shown } from "./record.ts";

export interface Buckets { interval: string; buckets: string[]; series: { value: unknown; total: number; counts: number[] }[]; total: number; partial: boolean }

const nice = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6, 7776e6, 31536e6];
/** The least round width, in ms, that makes at most 120 buckets of a span. */
export const bucketWidth = (span: number) => nice.find((w) => span / w <= 118) ?? span / 118;

/** The ms of a time with nanoseconds. */
export const moment = (t: string) => Date.parse(t.replace(/(\.\d{3})\d+/, "$1"));

const none = "no level", all = "records"; // all where no record has a level

/** The series that a value of the level field belongs to: values that mean the same level are one. */
export function seriesName(value: unknown): { name: string; level: Level | "" } {
  const level = levelOf(value);
  return { name: level || (value === null || value === undefined || value === "" ? none : shown(value, 40)), level };
}

/** The API's buckets for the chart. */
export function toData(a: Buckets, width: number): HistogramData {
  const starts = a.buckets.map(moment);
  const series = new Map<string, { name: string; counts: number[]; total: number; level: Level | ""; values?: string[] }>();
  for (const s of a.series) {
    const { name, level } = seriesName(s.value), one = series.get(name), values = name === none ? {} : { values: [...(one?.values ?? []), String(s.value)] };
    if (!one) series.set(name, { name, counts: [...s.counts], total: s.total, level, ...values });
    else { Object.assign(one, values); one.total += s.total; s.counts.forEach((n, i) => { one.counts[i]! += n; }); }
  }
  const list = [...series.values()];
  if (list.length === 1 && list[0]!.name === none) list[0]!.name = all;
  return { starts, width: starts.length > 1 ? starts[1]! - starts[0]! : width, series: list, total: a.total, atLeast: a.partial };
}

/** Buckets of a span in which nothing was counted yet. */
export function blank(span: { start: string; end: string }): HistogramData {
  const end = moment(span.end), width = bucketWidth(end - moment(span.start)), first = Math.floor(moment(span.start) / width) * width;
  return { starts: Array.from({ length: Math.max(1, Math.ceil((end - first) / width)) }, (_, i) => first + i * width), width, series: [] };
}

export interface Arrived { t: number; name: string; level: Level | "" } // t in ms

/**
 * The counts with records that arrived. The buckets move along so that the last one has `now` in it; those that fall out take their counts with them. The same
 * object comes back when nothing changed.
 */
export function countOn(d: HistogramData, arrived: readonly Arrived[], now: number): HistogramData {
  const n = d.starts.length, first = d.starts[0];
  if (first === undefined) return d;
  const newest = arrived.reduce((t, a) => (a.t > t && a.t <= now + 5000 ? a.t : t), now); // clocks of senders may be a little ahead
  const by = Math.max(0, Math.floor((newest - first) / d.width) - n + 1);
  if (by === 0 && arrived.length === 0) return d;
  const starts = d.starts.map((_, i) => first + (i + by) * d.width);
  const series = d.series.map((s) => ({ ...s, counts: starts.map((_, i) => s.counts[i + by] ?? 0) }));
  for (const a of arrived) {
    const i = Math.floor((a.t - starts[0]!) / d.width);
    if (!(i >= 0 && i < n)) continue; // also a time that cannot be read
    let s = series.find((x) => x.name === a.name) ?? (a.name === none ? series.find((x) => x.name === all) : undefined);
    if (!s) series.push((s = { name: a.name, level: a.level, counts: new Array<number>(n).fill(0), total: 0 }));
    s.counts[i]!++;
  }
  for (const s of series) s.total = s.counts.reduce((sum, c) => sum + c, 0);
  return { ...d, starts, series, total: series.reduce((sum, s) => sum + s.total, 0) };
}
