// Values with their unit. The names are those that dashboards use; a name that is not known is written behind the number.
import { bytes, duration, short } from "./format.ts";

// Without a prototype: a unit, or the last word of a metric's name, may be "constructor".
const bare = <T>(o: Record<string, T>): Record<string, T> => Object.assign(Object.create(null) as Record<string, T>, o);

const times: Record<string, number> = bare({ ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, seconds: 1e9, m: 6e10, h: 36e11, d: 864e11 });
const rates: Record<string, string> = bare({ ops: "/s", reqps: "/s", rps: "/s", wps: "/s", cps: "/s", "/s": "/s", hertz: " Hz", opm: "/min", rpm: "/min" });

/** A value as text; "" and "short" are numbers without a unit. */
export function formatValue(v: number | null | undefined, unit = ""): string {
  if (v === null || v === undefined) return "–";
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "NaN" : v > 0 ? "+Inf" : "−Inf";
  if (times[unit]) return v === 0 ? "0 s" : duration(v * times[unit]);
  switch (unit) {
    case "": case "short": case "none": case "1": return number(v);
    case "bytes": case "decbytes": case "By": return bytes(round(v));
    case "bits": return number(v) + "b";
    case "Bps": case "binBps": return bytes(round(v)) + "/s";
    case "bps": return number(v) + "b/s";
    case "percent": return `${trim(v)}%`;
    case "percentunit": case "ratio": return `${trim(v * 100)}%`;
  }
  return rates[unit] !== undefined ? number(v) + rates[unit] : `${number(v)} ${unit}`;
}

/**
 * Whether values of the unit add up over the steps of a chart. Counts do. Rates, shares and durations (averages and quantiles mostly) do not: their sum grows
 * with the number of steps, so that it is another one in a wider window, and it is no amount of anything.
 */
export const addsUp = (unit = "") => !(unit in rates || unit in times || /^((bin)?Bps|bps|percent|percentunit|ratio)$|\/s$/.test(unit));

const number = (v: number) => (Math.abs(v) < 1000 && !Number.isInteger(v) ? trim(v) : short(v));
const round = (v: number) => (Math.abs(v) < 1000 ? Number(v.toPrecision(3)) : v);
const trim = (v: number) => { const a = Math.abs(v); return a !== 0 && a < 1e-4 ? v.toExponential(2) : a >= 1000 ? short(v) : v.toPrecision(a < 1 ? 3 : a < 100 ? 4 : 5).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""); };

const unitWords = bare({ seconds: "s", milliseconds: "ms", microseconds: "us", nanoseconds: "ns", bytes: "bytes", ratio: "percentunit", percent: "percent", s: "s", ms: "ms", ns: "ns", us: "us", By: "bytes", "1": "" });

/** A declared unit as it is read: nothing for what only has a number, and what is counted without its braces. */
export const unitText = (declared: string) => (declared === "1" ? "" : declared.replace(/^\{(.*)\}$/, "$1"));

/** The unit that the name of a metric says, by the conventions of Prometheus: what is counted per second by rate() and the like keeps what it counts. */
export function unitOf(name: string, declared = ""): string {
  const u = declared || name.replace(/_(total|sum|count|bucket|created|info)$/, "").split("_").at(-1)!;
  return unitWords[u] ?? (declared && !/^\{.*\}$/.test(declared) ? declared : "");
}
