// Numbers, sizes, durations and times as the reader wants them.
import { boot } from "./boot.ts";

const nf = new Intl.NumberFormat();
export const count = (n: number) => nf.format(n);

/** 12.9k, 3.1M: four characters at most before the unit. */
export function short(n: number): string {
  const a = Math.abs(n);
  if (a < 1000) return Number.isInteger(n) ? String(n) : n.toPrecision(3).replace(/\.?0+$/, "");
  const units = ["k", "M", "G", "T", "P"];
  let v = n, u = -1;
  while (Math.abs(v) >= 999.5 && u < units.length - 1) { v /= 1000; u++; }
  return (Math.abs(v) < 99.95 ? v.toFixed(1).replace(/\.0$/, "") : v.toFixed(0)) + units[u];
}

export function bytes(n: number): string {
  const step = boot.prefs.bytes === "binary" ? 1024 : 1000;
  const units = step === 1024 ? ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] : ["B", "kB", "MB", "GB", "TB", "PB"];
  let v = n, u = 0;
  while (Math.abs(v) >= step * 0.9995 && u < units.length - 1) { v /= step; u++; }
  return (u === 0 ? String(v) : v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0)) + " " + units[u];
}

/** A duration in nanoseconds: 412 ms, 2.1 s, 1 h 24 min. */
export function duration(ns: number): string {
  const a = Math.abs(ns);
  if (a < 1e3) return `${Math.round(ns)} ns`;
  if (a < 1e6) return `${trim(ns / 1e3)} µs`;
  if (a < 1e9) return `${trim(ns / 1e6)} ms`;
  const s = ns / 1e9;
  if (Math.abs(s) < 60) return `${trim(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${Math.round(s % 60)} s`;
  if (m < 2880) return `${Math.floor(m / 60)} h ${m % 60} min`;
  return `${Math.floor(m / 1440)} d ${Math.floor((m % 1440) / 60)} h`;
}
const trim = (v: number) => (Math.abs(v) < 9.995 ? v.toFixed(2) : Math.abs(v) < 99.95 ? v.toFixed(1) : v.toFixed(0)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

export const percent = (share: number) => (share >= 0.9995 ? "100%" : share > 0 && share < 0.001 ? "<0.1%" : (share * 100).toFixed(1) + "%");

export const ago = (ms: number, now = Date.now()) => (now - ms < 1000 && now >= ms ? "now" : now >= ms ? `${duration(Math.floor((now - ms) / 1000) * 1e9)} ago` : `in ${duration(Math.ceil((ms - now) / 1000) * 1e9)}`);

export const plural = (n: number, one: string, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

const levels = 40; // of nesting that are laid out; each of them indents every line below it, and a hostile 100 kB would become hundreds of megabytes

/** JSON over several lines; undefined for what is none, or nested too deep. */
export function laidOut(json: string): string | undefined {
  let depth = 0, quoted = false;
  for (let i = 0; i < json.length; i++) {
    const c = json[i];
    if (c === '"') quoted = !quoted;
    else if (quoted) { if (c === "\\") i++; }
    else if (c === "[" || c === "{") { if (++depth > levels) return undefined; }
    else if (c === "]" || c === "}") depth--;
  }
  try { return JSON.stringify(JSON.parse(json), null, 2); } catch { return undefined; }
}
