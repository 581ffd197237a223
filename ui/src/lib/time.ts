// Times for people: ranges, the reader's zone, how moments are printed.
import { boot, clockSkew } from "./boot.ts";
import { check, type Clock, isFault, parseRange as parse, type Fault, type Range, type Span } from "./range.ts";
import { ceil, civil, floor, knownZone, moment, offset, type Unit } from "./zone.ts";
export { type Clock, type Fault, isFault, type Range, type Span } from "./range.ts";

/** The server's clock, as far as this machine's differs by more than the time that a page takes to arrive. */
export const now = () => Date.now() - (Math.abs(clockSkew) > 2000 ? clockSkew : 0);

const browserZone = (() => {
  try {
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return name && knownZone(name) ? name : "UTC";
  } catch {
    return "UTC";
  }
})();

/** The zone that a name of the preferences or of the URL means; one that is not known is as if none was given. */
export const zoneOf = (name: string | null | undefined) => (!name || name === "browser" || !knownZone(name) ? browserZone : name);

let pageZone = ""; // of the URL's tz
/** The zone that this page shows times in: that of the URL's tz where it has one, else the reader's. */
export const zone = () => pageZone || zoneOf(boot.prefs.time_zone);
/** Reads the page's times in another zone than the reader's; "" is the reader's again. */
export function useZone(name: string | null | undefined) { pageZone = name ? zoneOf(name) : ""; }

const clock = (o: Partial<Clock> = {}): Clock => ({ now: o.now ?? now(), zone: o.zone ?? zone(), week: o.week ?? boot.prefs.week_start ?? "monday" });

/** Reads the text of a range; relative points stay relative. */
export const parseRange = (text: string, o: Partial<Clock> = {}): Range | Fault => parse(text, clock(o));

/** The moments of a range at one `now`. A range that cannot be read throws. */
export function resolve(r: Range, o: Partial<Clock> = {}): Span {
  const s = check(r, clock(o));
  if (isFault(s)) throw new RangeError(s.error);
  return s;
}

/** The range that a URL asks for. One that cannot be read is replaced by the fallback, and the fault says what was wrong. */
export function rangeOf(q: URLSearchParams, fallback: Range = defaultRange()): Range & { fault?: string } {
  if (!q.get("from")) return fallback;
  const r = { from: q.get("from")!, to: q.get("to") ?? "now" };
  const s = check(r, clock());
  return isFault(s) ? { ...fallback, fault: `The time in the address cannot be used (${s.error}).` } : r;
}

export function defaultRange(): Range {
  const r = boot.prefs.default_range ? parseRange(boot.prefs.default_range) : undefined;
  return r && !isFault(r) ? r : { from: "now-15m", to: "now" };
}

/** A range for the API: RFC 3339. */
export function toApi(r: Range | Span, o: Partial<Clock> = {}): { start: string; end: string } {
  const { start, end } = "from" in r ? resolve(r, o) : r;
  return { start: new Date(start).toISOString(), end: new Date(end).toISOString() };
}

/** Absolute moments as a range of the URL. */
export const fromSpan = (s: Span): Range => ({ from: utc(s.start), to: utc(s.end) });
const utc = (t: number) => new Date(Math.round(t)).toISOString().replace(/\.000Z$/, "Z");

const two = (n: number) => String(n).padStart(2, "0");

export interface TimeParts { date?: boolean; time?: boolean; seconds?: boolean; ms?: boolean; ns?: boolean; zone?: string }

/** A moment as text: 2026-09-14 08:27:12. Milliseconds or nanoseconds are added on request, and the parts left out by false. */
export function formatTime(t: number | string, o: TimeParts = {}): string {
  const ms = typeof t === "number" ? t : Date.parse(t.replace(/(\.\d{3})\d+/, "$1"));
  if (Number.isNaN(ms)) return String(t);
  const c = civil(ms, o.zone ?? zone());
  const date = o.date === false ? "" : `${String(c.year).padStart(4, "0")}-${two(c.month)}-${two(c.day)}`;
  if (o.time === false) return date;
  const half = boot.prefs.clock === "12h";
  let time = `${two(half ? c.hour % 12 || 12 : c.hour)}:${two(c.minute)}`;
  if (o.seconds !== false) time += `:${two(c.second)}`;
  if (o.ns) time += `.${typeof t === "string" ? (/\.(\d+)/.exec(t)?.[1] ?? "").padEnd(9, "0") : String(c.ms).padStart(3, "0") + "000000"}`;
  else if (o.ms) time += `.${String(c.ms).padStart(3, "0")}`;
  if (half) time += c.hour < 12 ? " AM" : " PM";
  return date ? `${date} ${time}` : time;
}

/** UTC, or the zone's name with its distance from UTC at a moment. */
export function zoneLabel(z = zone(), t = now()): string {
  if (z === "UTC") return "UTC";
  const m = Math.round(offset(z, t) / 60_000), a = Math.abs(m);
  return `${z} (UTC${m < 0 ? "−" : "+"}${two(Math.floor(a / 60))}:${two(a % 60)})`;
}

const unitNames: Record<string, string> = { ms: "millisecond", s: "second", m: "minute", h: "hour", d: "day", w: "week", M: "month", y: "year" };
const named: Record<string, string> = { "now/d now/d": "Today", "now-1d/d now-1d/d": "Yesterday", "now/w now/w": "This week", "now-1w/w now-1w/w": "Last week", "now/M now/M": "This month", "all now": "All time" };

/** What the button of a range says: "Last 15 minutes", "Today", or from when to when. */
export function relativeLabel(r: Range, o: Partial<Clock> = {}): string {
  const name = named[`${r.from} ${r.to}`];
  if (name) return name;
  const last = r.to === "now" && /^now((?:-\d+(?:ms|[smhdwMy]))+)$/.exec(r.from);
  if (last) return "Last " + [...last[1]!.matchAll(/-(\d+)(ms|[smhdwMy])/g)].map(([, n, u]) => (n === "1" && last[1]!.match(/-/g)!.length === 1 ? unitNames[u!]! : `${n} ${unitNames[u!]}${n === "1" ? "" : "s"}`)).join(" ");
  if (/^now/.test(r.from) || /^now/.test(r.to)) return `${point(r.from, o)} to ${point(r.to, o)}`;
  const s = check(r, clock(o));
  return isFault(s) ? `${r.from} to ${r.to}` : spanLabel(s, o);
}
const point = (p: string, o: Partial<Clock>) => (/^(now|all)/.test(p) || Number.isNaN(Date.parse(p)) ? p : spanText(Date.parse(p), o));
const spanText = (t: number, o: Partial<Clock>) => formatTime(t, { seconds: t % 60_000 !== 0, ...(o.zone ? { zone: o.zone } : {}) });

/** From when to when, the day once when both are on it, and not at all when it is today. */
export function spanLabel(s: Span, o: Partial<Clock> = {}): string {
  const { zone: z, now: at } = clock(o);
  const parts: TimeParts = { zone: z, seconds: s.start % 60_000 !== 0 || s.end % 60_000 !== 0, ms: s.end - s.start < 10_000 };
  const day = (t: number) => formatTime(t, { time: false, zone: z });
  const same = day(s.start) === day(s.end - 1);
  const midnight = (t: number) => floor(t, "d", z) === t;
  if (midnight(s.start) && midnight(s.end)) return same ? day(s.start) : `${day(s.start)} to ${day(s.end - 1)}`;
  return `${formatTime(s.start, { ...parts, date: !(same && day(s.start) === day(at)) })} to ${formatTime(s.end, { ...parts, date: day(s.start) !== day(s.end) })}`;
}

/** The times in a piece of text, such as a log line that was pasted: two make a range, one the five minutes before and after it. */
export function findTimes(text: string, o: Partial<Clock> = {}): Range | undefined {
  const c = clock(o);
  const found = [...text.matchAll(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?|(?<![\w.-])(?:1\d{9}|1\d{12}|1\d{15}|1\d{18})(?![\w.-])/gi)]
    .map(([m]) => parse(`${m.replace(",", ".").replace(/([+-]\d\d)(\d\d)$/, "$1:$2")} to 2261-01-01`, c)).flatMap((r) => (isFault(r) ? [] : [Date.parse(r.from)]));
  if (found.length === 0) return undefined;
  const start = Math.min(...found), end = Math.max(...found);
  return fromSpan(end > start ? { start, end } : { start: start - 300_000, end: start + 300_000 });
}

const steps: [number, Unit][] = [[1, "ms"], [2, "ms"], [5, "ms"], [10, "ms"], [20, "ms"], [50, "ms"], [100, "ms"], [200, "ms"], [500, "ms"], [1, "s"], [2, "s"], [5, "s"], [10, "s"], [15, "s"], [30, "s"], [1, "m"], [2, "m"], [5, "m"], [10, "m"], [15, "m"], [30, "m"],
  [1, "h"], [2, "h"], [3, "h"], [6, "h"], [12, "h"], [1, "d"], [2, "d"], [7, "d"], [1, "M"], [3, "M"], [6, "M"], [1, "y"], [5, "y"], [10, "y"], [50, "y"]];
const sizes: Record<Unit, number> = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5, M: 26298e5, y: 315576e5 };

/** Marks of a time axis, at most `most` and at round times of the zone, each with its text. */
export function timeTicks(s: Span, most: number, o: Partial<Clock> = {}): { t: number; text: string }[] {
  const { zone: z } = clock(o);
  const [n, unit] = steps.find(([n, u]) => (s.end - s.start) / (n * sizes[u]) <= most) ?? steps.at(-1)!;
  const out: { t: number; text: string }[] = [];
  for (let t = firstTick(s.start, n, unit, z), i = 0; t <= s.end && i < 200; i++, t = nextTick(t, n, unit, z)) if (t >= s.start) out.push({ t, text: tickText(t, unit, z) });
  return out;
}

function firstTick(t: number, n: number, unit: Unit, z: string): number {
  const c = civil(t, z);
  if (unit === "y") return moment({ year: Math.floor(c.year / n) * n, month: 1, day: 1 }, z);
  if (unit === "M") return moment({ year: c.year, month: Math.floor((c.month - 1) / n) * n + 1, day: 1 }, z);
  if (unit === "d") return moment({ year: c.year, month: c.month, day: c.day - (n > 1 ? (c.day - 1) % n : 0) }, z);
  const day = floor(t, "d", z), size = n * sizes[unit];
  return day + Math.floor((t - day) / size) * size;
}

function nextTick(t: number, n: number, unit: Unit, z: string): number {
  const c = civil(t, z);
  if (unit === "y") return moment({ year: c.year + n, month: 1, day: 1 }, z);
  if (unit === "M") return moment({ year: c.year, month: c.month + n, day: 1 }, z);
  const end = ceil(t, unit === "d" ? "M" : "d", z);
  if (unit === "d") return Math.min(end, moment({ year: c.year, month: c.month, day: c.day + n }, z));
  return Math.min(end, t + n * sizes[unit]); // each day begins anew, so that marks stay round across a change of the clocks
}

function tickText(t: number, unit: Unit, z: string): string {
  if (unit === "y") return String(civil(t, z).year);
  if (unit === "M") return formatTime(t, { time: false, zone: z }).slice(0, 7);
  if (unit === "d" || floor(t, "d", z) === t) return formatTime(t, { time: false, zone: z }).slice(5);
  return formatTime(t, { date: false, zone: z, seconds: unit === "s" || unit === "ms", ms: unit === "ms" });
}

/** How many buckets a label stands for: at least so many, and such that labels fall on round times. */
export function niceStep(width: number, least: number) {
  const sixtieths = [1, 2, 5, 10, 15, 20, 30];
  const round = [...[1, 2, 5, 10, 20, 50, 100, 200, 500], ...sixtieths.map((s) => s * 1000), ...sixtieths.map((m) => m * 60_000), ...[1, 2, 3, 6, 12].map((h) => h * 36e5), ...[1, 2, 7, 30].map((d) => d * 864e5)];
  for (const r of round) if (r >= width * least && r % width === 0) return r / width;
  return least;
}
