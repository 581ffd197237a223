// Calendar arithmetic in time zones: which wall clock a moment has, and which moment a wall clock means.

export interface Civil { year: number; month: number; day: number; hour?: number; minute?: number; second?: number; ms?: number } // month 1–12

const formats = new Map<string, Intl.DateTimeFormat>();
const offsets = new Map<string, Map<number, number>>(); // by zone and quarter of an hour: zones change their offset at such times only

/** How far a zone is ahead of UTC at a moment, in milliseconds. An unknown zone throws RangeError. */
export function offset(zone: string, t: number): number {
  if (zone === "UTC") return 0;
  let known = offsets.get(zone);
  if (!known || known.size > 20_000) offsets.set(zone, (known = new Map()));
  const slot = Math.floor(t / 900_000);
  let o = known.get(slot);
  if (o === undefined) known.set(slot, (o = measure(zone, slot * 900_000)));
  return o;
}

function measure(zone: string, t: number): number {
  let f = formats.get(zone);
  if (!f) formats.set(zone, (f = new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" })));
  const p: Record<string, number> = {};
  for (const { type, value } of f.formatToParts(t)) p[type] = Number(value);
  return Date.UTC(p.year!, p.month! - 1, p.day!, p.hour!, p.minute!, p.second!) - t;
}

export function knownZone(name: string): boolean {
  try {
    offset(name, 0);
    return true;
  } catch {
    return false;
  }
}

/** The wall clock of a moment; weekday 0 is Sunday. */
export function civil(t: number, zone: string): Required<Civil> & { weekday: number } {
  const d = new Date(t + offset(zone, t));
  return { year: d.getUTCFullYear(), month: d.getUTCMonth() + 1, day: d.getUTCDate(), hour: d.getUTCHours(), minute: d.getUTCMinutes(), second: d.getUTCSeconds(), ms: d.getUTCMilliseconds(), weekday: d.getUTCDay() };
}

const DAY = 86_400_000;

/** The moment of a wall clock. One that is skipped when clocks go forward is read with the offset before the change; of one that comes twice the earlier is taken, or with late the later. */
export function moment(c: Civil, zone: string, late = false): number {
  const wall = Date.UTC(c.year, c.month - 1, c.day, c.hour ?? 0, c.minute ?? 0, c.second ?? 0, c.ms ?? 0);
  const before = offset(zone, wall - DAY), after = offset(zone, wall + DAY);
  const a = wall - before, b = wall - after;
  const fits = (t: number, o: number) => offset(zone, t) === o;
  if (fits(a, before) && fits(b, after)) return late ? Math.max(a, b) : Math.min(a, b);
  return fits(b, after) ? b : a;
}

export const daysIn = (year: number, month: number) => new Date(Date.UTC(year, month, 0)).getUTCDate();

export type Unit = "ms" | "s" | "m" | "h" | "d" | "w" | "M" | "y";
const fixed: Partial<Record<Unit, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Moves by n units. Days and more keep the wall clock; a day that the month does not have becomes its last. */
export function add(t: number, n: number, unit: Unit, zone: string, late = false): number {
  const size = fixed[unit];
  if (size) return t + n * size;
  const c = civil(t, zone);
  if (unit === "d" || unit === "w") return moment({ ...c, day: c.day + n * (unit === "w" ? 7 : 1) }, zone, late);
  const months = c.year * 12 + c.month - 1 + n * (unit === "y" ? 12 : 1);
  const year = Math.floor(months / 12), month = months - year * 12 + 1;
  return moment({ ...c, year, month, day: Math.min(c.day, daysIn(year, month)) }, zone, late);
}

/** The start of the unit that a moment is in; weekStart 1 is Monday. */
export function floor(t: number, unit: Unit, zone: string, weekStart = 1): number {
  const size = fixed[unit];
  if (size) {
    const o = offset(zone, t);
    return Math.floor((t + o) / size) * size - o;
  }
  const { year, month, day, weekday } = civil(t, zone);
  if (unit === "d") return moment({ year, month, day }, zone);
  if (unit === "w") return moment({ year, month, day: day - ((weekday - weekStart + 7) % 7) }, zone);
  return moment({ year, month: unit === "M" ? month : 1, day: 1 }, zone);
}

/** The end of the unit that a moment is in, which is the start of the next. */
export const ceil = (t: number, unit: Unit, zone: string, weekStart = 1) => (fixed[unit] ? floor(t, unit, zone) + fixed[unit]! : floor(add(floor(t, unit, zone, weekStart), 1, unit, zone), unit, zone, weekStart));
