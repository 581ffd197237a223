// The grammar of time ranges, the same as package internal/timespec reads; ui/testdata/time_vectors.json is what both must agree on.
//
//   range    = point (" to " | " .. " | " - " | ",") point | duration | word
//   point    = "now" { ("+"|"-") int unit } [ "/" unit ] | RFC 3339 | date [ " " time ] | time | epoch
//   duration = int unit { int unit }                 "1h30m" is now-1h30m to now
//   unit     = ms s m h d w M y
//   word     = today | yesterday | this week | last week | this month | all
//   epoch    = 10 digits (s), 13 (ms), 16 (µs) or 19 (ns)
import { add, ceil, type Civil, civil, daysIn, floor, moment, type Unit } from "./zone.ts";

/** A range as the URL has it: relative points stay relative, others are RFC 3339 in UTC. */
export interface Range { from: string; to: string }
/** A range of moments, in milliseconds; the end is excluded. */
export interface Span { start: number; end: number }
export type WeekDay = "monday" | "saturday" | "sunday";
/** The day on which weeks start, as Date counts days. */
export const weekStart = (d: WeekDay = "monday") => ({ sunday: 0, monday: 1, saturday: 6 })[d];

/** What relative and local times are read against. */
export interface Clock { now: number; zone: string; week?: WeekDay }
/** What is wrong with a text, and at which character. */
export interface Fault { error: string; position: number }

export const isFault = (x: object): x is Fault => "error" in x;
const fault = (error: string, position: number): Fault => ({ error, position });

const words: Record<string, [string, string]> = {
  today: ["now/d", "now/d"], yesterday: ["now-1d/d", "now-1d/d"], "this week": ["now/w", "now/w"], "last week": ["now-1w/w", "now-1w/w"], "this month": ["now/M", "now/M"], all: ["all", "now"],
};
const ALL = 0; // the start of "all": the beginning of the epoch
const FAR = 9_223_372_036_854; // milliseconds that nanoseconds in 64 bits can hold

type Point = { at: number } | { ops: [number, Unit][]; round?: Unit } | { civil: Civil } | { clock: Pick<Civil, "hour" | "minute" | "second" | "ms"> };

/** Reads the text of a range. */
export function parseRange(text: string, c: Clock): Range | Fault {
  const lead = text.length - text.trimStart().length;
  const t = text.trim();
  if (!t) return fault("type a range, such as 15m or 2026-09-14 08:00 to 09:00", 0);
  const said = t.toLowerCase().replace(/\s+/g, " ");
  if (Object.hasOwn(words, said)) return { from: words[said]![0], to: words[said]![1] };
  const sep = /\s+to(?:\s+|$)|\s*\.\.\s*|\s+-\s+|\s*,\s*/i.exec(t);
  if (!sep) return duration(t, lead);
  const second = lead + sep.index + sep[0].length;
  const from = parsePoint(t.slice(0, sep.index), lead), to = parsePoint(text.slice(second).trimEnd(), second);
  if (isFault(from)) return from;
  if (isFault(to)) return to;
  const end = "clock" in to && "civil" in from ? { civil: { ...from.civil, ...to.clock } } : to; // 2026-09-14 08:00 to 09:00: on the same day
  const start = value(from, c, false), stop = value(end, c, true);
  if (far(start)) return fault("this time is too far away", lead);
  if (far(stop)) return fault("this time is too far away", second);
  if (stop <= start) return fault(stop === start ? "the range is empty: it ends when it starts" : "the range ends before it starts", second);
  return { from: print(t.slice(0, sep.index), from, start), to: print(text.slice(second).trim(), end, stop) };
}

function duration(t: string, lead: number): Range | Fault {
  if (!/^\d/.test(t) || /^\d{4}-|:|^\d{10,}$/.test(t)) {
    const p = parsePoint(t, lead);
    return isFault(p) ? p : fault("a range needs two times, such as “… to now”", lead + t.length);
  }
  let from = "now", at = 0;
  while (at < t.length) {
    const m = /^(\d{1,9})(ms|[smhdwMy])/.exec(t.slice(at));
    if (!m) return unitFault(t, at, lead);
    from += `-${m[1]}${m[2]}`;
    at += m[0].length;
  }
  return { from, to: "now" };
}

function unitFault(t: string, at: number, lead: number): Fault {
  const digits = /^\d*/.exec(t.slice(at))![0].length;
  if (digits === 0) return fault("a number is missing", lead + at);
  return digits > 9 ? fault("this number is too large", lead + at) : fault("a unit is missing: use ms, s, m, h, d, w, M or y", lead + at + digits);
}

function parsePoint(s: string, at: number): Point | Fault {
  if (s.startsWith("now")) return relative(s, at);
  if (/^\d+$/.test(s)) {
    const scale = { 10: 1e3, 13: 1, 16: 1e-3, 19: 1e-6 }[s.length];
    if (!scale) return fault("a number needs 10 digits (seconds), 13 (ms), 16 (µs) or 19 (ns)", at);
    return { at: s.length > 13 ? Number(s.slice(0, 13)) : Number(s) * scale };
  }
  const clock = /^(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$/.exec(s);
  if (clock) return time(clock.slice(1), at);
  const m = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?)?$/i.exec(s);
  if (!m) return fault(s ? "this is not a time" : "a time is missing", at);
  const [year, month, day] = [Number(m[1]), Number(m[2]), Number(m[3])];
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return fault("there is no such day", at);
  if (year < 1678 || year > 2261) return fault("this time is too far away", at);
  if (!m[4]) return { civil: { year, month, day } };
  const t = time(m.slice(4, 8), at);
  if (isFault(t)) return t;
  const whole = { year, month, day, ...t.clock };
  return m[8] ? zoned(whole, m[8], at) : { civil: whole };
}

function time([h, m, s, f]: (string | undefined)[], at: number): { clock: Pick<Civil, "hour" | "minute" | "second" | "ms"> } | Fault {
  const clock = { hour: Number(h), minute: Number(m), second: Number(s ?? 0), ms: Number((f ?? "").padEnd(3, "0").slice(0, 3)) };
  return clock.hour > 23 || clock.minute > 59 || clock.second > 59 ? fault("there is no such time of day", at) : { clock };
}

function zoned(c: Civil, zone: string, at: number): Point | Fault {
  const wall = moment(c, "UTC");
  if (/z/i.test(zone)) return { at: wall };
  const [h, m] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
  if (h > 23 || m > 59) return fault("there is no such offset", at);
  return { at: wall - (zone[0] === "-" ? -1 : 1) * (h * 60 + m) * 60_000 };
}

function relative(s: string, lead: number): Point | Fault {
  const ops: [number, Unit][] = [];
  let at = 3;
  for (let m; (m = /^([+-])(\d{1,9})(ms|[smhdwMy])/.exec(s.slice(at))); at += m[0].length) ops.push([Number(m[1] + m[2]!), m[3] as Unit]);
  if (at === s.length) return { ops };
  if (s[at] === "/") {
    const m = /^(ms|[smhdwMy])/.exec(s.slice(at + 1));
    if (!m) return fault("a unit is missing: use ms, s, m, h, d, w, M or y", lead + at + 1);
    if (at + 1 + m[0].length === s.length) return { ops, round: m[0] as Unit };
    return fault("nothing may follow the unit that is rounded to", lead + at + 1 + m[0].length);
  }
  return /[+-]/.test(s[at]!) ? unitFault(s, at + 1, lead) : fault("use + or - and an amount after now", lead + at);
}

function value(p: Point, c: Clock, end: boolean): number {
  if ("at" in p) return p.at;
  if ("civil" in p) return moment(p.civil, c.zone, end);
  if ("clock" in p) {
    const { year, month, day } = civil(c.now, c.zone);
    return moment({ year, month, day, ...p.clock }, c.zone, end);
  }
  let t = c.now;
  for (const [n, unit] of p.ops) {
    t = add(t, n, unit, c.zone, end);
    if (far(t)) return NaN;
  }
  if (!p.round) return t;
  const week = weekStart(c.week);
  return end ? ceil(t, p.round, c.zone, week) : floor(t, p.round, c.zone, week);
}

const far = (t: number) => !(Math.abs(t) <= FAR);

const print = (text: string, p: Point, t: number) => ("ops" in p ? text : new Date(t).toISOString().replace(/\.000Z$/, "Z"));

/** The moments of a range, or what is wrong with it; the position counts within the part that the message names. */
export function check(r: Range, c: Clock): Span | Fault {
  const from = r.from === "all" ? { at: ALL } : parsePoint(r.from, 0), to = parsePoint(r.to, 0);
  if (isFault(from)) return fault(`from: ${from.error}`, from.position);
  if (isFault(to)) return fault(`to: ${to.error}`, to.position);
  const start = value(from, c, false), end = value(to, c, true);
  if (far(start) || far(end)) return fault("this time is too far away", 0);
  return end > start ? { start, end } : fault("the range ends before it starts", 0);
}
