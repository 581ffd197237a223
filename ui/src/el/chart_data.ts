// What charts compute of their data before anything is drawn.

export interface ChartSeries {
  name: string; // tells it from the others
  labels?: Record<string, string>; // shown in place of the name, which is then __name__
  values: [number[], (number | null)[]]; // times in ms, ascending, and values
  colour?: string; // a token such as --c3; default: by the name
  dash?: boolean; // the series has ended, or is shown for comparison
  note?: string; // beside the name
  unit?: string; // of lib/units.ts, where it is not the chart's
}

export interface Stats { last: number | null; min: number | null; avg: number | null; max: number | null; sum: number | null }

export type Value = number | null | undefined; // null breaks the line, undefined does not

/** Labels, `__name__` among them, that do not tell several series apart: all have the same value, or the values only say what those of a shorter label say. */
export function idleLabels(list: readonly Pick<ChartSeries, "labels">[]): ReadonlySet<string> {
  if (list.length < 2) return new Set();
  const columns = [...new Set(list.flatMap((s) => Object.keys(s.labels ?? {})))].map((key) => ({ key, values: list.map((s) => s.labels?.[key] ?? "") }));
  const idle = new Set(columns.filter((c) => c.values.every((v) => v === c.values[0])).map((c) => c.key)), length = (c: { values: string[] }) => c.values.reduce((n, v) => n + v.length, 0);
  const rest = columns.filter((c) => !idle.has(c.key) && c.key !== "__name__").sort((a, b) => length(a) - length(b));
  const seen = new Set<string>(); // which series have equal values, of each label that tells them apart
  for (const c of rest) {
    const numbers = new Map<string, number>(), groups = c.values.map((v) => { if (!numbers.has(v)) numbers.set(v, numbers.size); return numbers.get(v); }).join();
    if (seen.has(groups)) idle.add(c.key);
    seen.add(groups);
  }
  return idle;
}

/** A series among others: the labels that tell it from them, the others, and its name where it tells something or nothing else does. */
export function telling(labels: Record<string, string>, idle: ReadonlySet<string>) {
  const all = Object.entries(labels).filter(([k]) => k !== "__name__"), own = all.filter(([k]) => !idle.has(k));
  return { name: idle.has("__name__") && own.length ? "" : labels.__name__ ?? "", own, rest: all.filter(([k]) => idle.has(k)) };
}

/** Figures of a series over what is shown; NaN is no value. */
export function stats([, v]: ChartSeries["values"]): Stats {
  let last: number | null = null, min = Infinity, max = -Infinity, sum = 0, n = 0;
  for (const x of v) {
    if (x === null || Number.isNaN(x)) continue;
    last = x;
    if (x < min) min = x;
    if (x > max) max = x;
    sum += x;
    n++;
  }
  return n ? { last, min, avg: sum / n, max, sum } : { last: null, min: null, avg: null, max: null, sum: null };
}

/** The step of a series: the smallest distance of two of its points; 0 when there are fewer. */
export function stepOf(t: readonly number[]): number {
  let step = Infinity;
  for (let i = 1; i < t.length; i++) step = Math.min(step, t[i]! - t[i - 1]!);
  return Number.isFinite(step) ? step : 0;
}

/** Puts series on common times. Where a series misses points for more than one and a half steps its line is broken. */
export function align(series: readonly ChartSeries[], step = 0): { x: number[]; ys: Value[][] } {
  const steps = series.map((s) => step || stepOf(s.values[0]));
  const times = new Set<number>();
  const breaks = series.map((s, k) => {
    const t = s.values[0], out: number[] = [];
    t.forEach((at, i) => {
      times.add(at);
      if (i > 0 && at - t[i - 1]! > steps[k]! * 1.5) { times.add(t[i - 1]! + steps[k]!); out.push(t[i - 1]! + steps[k]!); }
    });
    return out;
  });
  const x = [...times].sort((a, b) => a - b);
  const index = new Map(x.map((t, i) => [t, i]));
  const ys = series.map((s, k) => {
    const y: Value[] = new Array(x.length).fill(undefined);
    for (const t of breaks[k]!) y[index.get(t)!] = null;
    s.values[0].forEach((t, i) => { const v = s.values[1][i]; y[index.get(t)!] = v === undefined || v === null || !Number.isFinite(v) ? null : v; });
    return y;
  });
  return { x, ys };
}

/** Each series on top of those before it. */
export function stack(ys: readonly Value[][]): Value[][] {
  const base: number[] = [];
  return ys.map((y) => y.map((v, i) => { base[i] = (base[i] ?? 0) + (v ?? 0); return v === undefined ? undefined : base[i]!; }));
}

/** Points without a neighbour, which a line would not show. */
export function singles(y: readonly Value[]): number[] {
  const out: number[] = [];
  let run: number[] = [];
  const end = () => { if (run.length === 1) out.push(run[0]!); run = []; };
  y.forEach((v, i) => { if (v === null) end(); else if (v !== undefined) run.push(i); });
  end();
  return out;
}

/** The range of the value axis: from zero when the values are drawn as areas, or when zero is near. */
export function valueRange(min: number | null, max: number | null, fromZero: boolean): [number, number] {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  if (min === max) return min === 0 ? [0, 1] : min > 0 ? [0, min * 1.25] : [min * 1.25, 0];
  const pad = (max - min) * 0.06;
  const low = min >= 0 && (fromZero || min < max * 0.5) ? 0 : min - pad;
  return [fromZero && min >= 0 ? 0 : low, max <= 0 && (fromZero || max > min * 0.5) ? 0 : max + pad];
}

/** Keeps at most one of the things that are nearer to each other than a distance on the axis. */
export function thin<T extends { t: number; v: number }>(list: readonly T[], from: number, to: number, most: number): T[] {
  const best = new Map<number, T>();
  for (const one of list) {
    if (one.t < from || one.t > to) continue;
    const slot = Math.floor(((one.t - from) / (to - from)) * most);
    const old = best.get(slot);
    if (!old || one.v > old.v) best.set(slot, one); // the highest is what one looks for
  }
  return [...best.values()].sort((a, b) => a.t - b.t);
}

/** What stands below the marks of a time axis of a chart so many pixels wide: nothing where the text would be cut at the right edge; the mark's line is there. */
export const timeLabels = (marks: readonly { t: number; text: string }[], from: number, to: number, width: number): string[] =>
  marks.map(({ t, text }) => (rightPadding + ((to - t) / (to - from)) * (width - leftAxis) < text.length * halfDigit ? "" : text));

export const rightPadding = 12; // px, beside the drawing
const leftAxis = 90, halfDigit = 3.4; // px: the widest axis of values, and half of a digit of the axes' type
