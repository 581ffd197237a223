// Guessing the unit of a query's values from the metric that it reads and from what it does with it.
import { unitOf } from "../lib/units.ts";

const keywords = /^(by|without|on|ignoring|group_left|group_right|and|or|unless|bool|offset|start|end|inf|nan|atan2|sum|min|max|avg|group|stddev|stdvar|count|count_values|bottomk|topk|quantile|limitk|limit_ratio)$/i;

/** The metrics that a query names, in order. */
export function metricNames(query: string): string[] {
  const text = query.replace(/#[^\n]*/g, " ");
  const quoted = [...text.matchAll(/\{\s*"((?:[^"\\]|\\.)*)"\s*[,}]/g)].map((m) => m[1]!);
  const bare = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`/g, '""').replace(/\{[^}]*\}/g, "{}").replace(/\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/gi, " ").replace(/\[[^\]]*\]/g, " ");
  const names = [...bare.matchAll(/[a-zA-Z_:][a-zA-Z0-9_:]*/g)].filter((m) => !keywords.test(m[0]) && !/^\s*\(/.test(bare.slice(m.index + m[0].length)) && !/[0-9.]/.test(bare[m.index - 1] ?? "")).map((m) => m[0]);
  return [...new Set([...names, ...quoted])];
}

/** The unit of a query's values; "" when nothing is known or the answer has none. declared is what the metric's sender says. */
export function guessUnit(query: string, declared: (name: string) => string = () => ""): string {
  const names = metricNames(query);
  const name = names[0];
  if (!name) return "";
  const unit = unitOf(name, declared(name));
  if (/^\s*(count|group|absent|changes|resets|count_over_time|count_values)\b/.test(query)) return "";
  if (/\bhistogram_(quantile|avg|stddev)\s*\(/.test(query)) return unit;
  if (/\bhistogram_fraction\s*\(/.test(query)) return "percentunit";
  const ratio = /[)\]}\w"]\s*\/\s*[\w({]/.test(query);
  if (ratio) return /_sum\b/.test(query) && /_count\b/.test(query) ? unit : names.length === 1 || unitOf(names[1]!, declared(names[1]!)) === unit ? "" : unit;
  if (/\b(rate|irate|deriv)\s*\(/.test(query)) {
    if (/_(count|bucket)$/.test(name)) return "/s";
    return unit === "bytes" ? "Bps" : unit === "s" || unit === "ms" || unit === "ns" || unit === "us" || unit === "percentunit" ? "" : "/s";
  }
  return /_(count|bucket|info)$/.test(name) ? "" : unit;
}

/** The one unit of all queries; "" where they have several, or none. */
export const commonUnit = (units: readonly string[]) => (units.length > 0 && units.every((u) => u === units[0]) ? units[0]! : "");

/** The unit of the bounds of a query's buckets: that of the metric, whatever is done with the counts. */
export function boundsUnit(query: string, declared: (name: string) => string = () => ""): string {
  const name = metricNames(query)[0];
  return name ? unitOf(name, declared(name)) : "";
}
