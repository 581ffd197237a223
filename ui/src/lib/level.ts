// Levels of log records, as the senders write them and as the pages show them.
export const levels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;
export type Level = (typeof levels)[number];

const names = new Map<string, Level>(); // not an object: "constructor" is no level
for (const [level, all] of Object.entries({
  fatal: "fatal ftl emerg emergency alert crit critical panic", error: "error err severe eror e", warn: "warn warning wrn w",
  info: "info information informational inf notice i", debug: "debug dbg fine d", trace: "trace trc verbose finer finest vrb",
}) as [Level, string][]) for (const n of all.split(" ")) names.set(n, level);

/** The level that a value means; "" if it means none. Numbers are severities of OpenTelemetry (1 to 24), or those of bunyan and pino (30 to 60). */
export function levelOf(v: unknown): Level | "" {
  if (typeof v === "number" || (typeof v === "string" && /^\d{1,2}$/.test(v))) {
    const n = Number(v);
    return n < 1 || n > 60 ? "" : n > 24 ? ({ 30: "info", 40: "warn", 50: "error", 60: "fatal" } as const)[n] ?? "" : (["trace", "debug", "info", "warn", "error", "fatal"] as const)[Math.ceil(n / 4) - 1]!;
  }
  if (typeof v !== "string") return "";
  const t = v.trim().toLowerCase();
  return names.get(t) ?? names.get(t.replace(/\d$/, "")) ?? "";
}

/** Three letters of a level. */
export const shortLevel = { fatal: "FTL", error: "ERR", warn: "WRN", info: "INF", debug: "DBG", trace: "TRC" } as const;
