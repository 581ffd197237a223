// What the page shows, as the address has it.
import { boot } from "../lib/boot.ts";
import { filled, type Params } from "../lib/url.ts";
import { defaultRange, rangeOf, type Range } from "../lib/time.ts";
import { decodeFilter, encodeFilter, type Filter } from "./filters.ts";

export type Mode = "search" | "sql";
export type View = "events" | "patterns" | "chart";

export interface State {
  stream: string;
  mode: Mode;
  q: string; // a search, or in SQL mode a statement
  filters: Filter[];
  range: Range;
  tz: string;
  cols: string[] | undefined; // chosen columns; undefined: the usual ones
  sort: { key: string; desc: boolean };
  view: View;
  sel: string; // the record in the drawer: its time, and a hash of it
  wrap: boolean;
  refresh: string;
  chart: string; // of the chart tab, see chart.ts
}

export const newestFirst = { key: "_timestamp", desc: true };
const views: View[] = ["events", "patterns", "chart"];
export const logStreams = () => boot.streams.filter((s) => s.signal === "logs").map((s) => s.name);

/** The stream that is shown when the address names none. */
export function usualStream(): string {
  const all = logStreams(), kept = recall();
  return [boot.prefs.default_stream, kept, all.find((s) => !s.startsWith("_")), all[0]].find((s): s is string => s !== undefined && s !== "" && all.includes(s)) ?? "";
}
const recallKey = () => `ms.logs.stream.${boot.org}`;
const recall = () => { try { return localStorage.getItem(recallKey()) ?? ""; } catch { return ""; } };
export const remember = (stream: string) => { try { localStorage.setItem(recallKey(), stream); } catch { /* a private window */ } };

/** Reads the address. What cannot be used is left out, and said. */
export function readState(q: URLSearchParams): { state: State; notes: string[] } {
  const notes: string[] = [];
  const range = rangeOf(q, defaultRange());
  if (range.fault) notes.push(`${range.fault} The usual range is shown.`);
  const view = q.get("view") ?? "events", mode = q.get("mode") ?? "search";
  if (!views.includes(view as View)) notes.push(`There is no view “${cut(view)}”. The events are shown.`);
  if (mode !== "search" && mode !== "sql") notes.push(`There is no mode “${cut(mode)}”. The query is read as a search.`);
  const filters = q.getAll("f").flatMap((t) => {
    const f = decodeFilter(t);
    if (!f) notes.push(`The filter “${cut(t)}” of the address cannot be read and is left out.`);
    return f ?? [];
  });
  const streams = q.getAll("stream");
  if (streams.length > 1) notes.push(`One stream is shown at a time: ${cut(streams[0]!)}.`);
  const sort = /^(.+):(asc|desc)$/s.exec(q.get("sort") ?? "");
  return {
    notes,
    state: {
      stream: streams[0] ?? usualStream(), mode: mode === "sql" ? "sql" : "search", q: q.get("q") ?? "", filters, range: { from: range.from, to: range.to }, tz: q.get("tz") ?? "",
      cols: q.has("cols") ? q.get("cols")!.split(",").filter(Boolean).map((c) => { try { return decodeURIComponent(c); } catch { return c; } }) : undefined,
      sort: sort ? { key: sort[1]!, desc: sort[2] === "desc" } : newestFirst,
      view: views.includes(view as View) ? (view as View) : "events", sel: q.get("sel") ?? "", wrap: q.get("wrap") === "1", refresh: q.get("refresh") ?? "", chart: q.get("group") ?? "",
    },
  };
}
const cut = (t: string) => (t.length > 60 ? t.slice(0, 60) + "…" : t);

/** The parameters of the address; defaults are left out. */
export const params = (s: State): Params => filled(allParams(s));

/** All parameters that the address may have, those that are left out without a value. */
export function allParams(s: State) {
  return {
    stream: s.stream || undefined, mode: s.mode === "sql" ? "sql" : undefined, q: s.q || undefined, f: s.filters.map(encodeFilter), from: s.range.from, to: s.range.to === "now" ? undefined : s.range.to, tz: s.tz || undefined,
    cols: s.cols?.map((c) => c.replace(/[%,]/g, encodeURIComponent)).join(",") ?? undefined, sort: s.sort.key === "_timestamp" && s.sort.desc ? undefined : `${s.sort.key}:${s.sort.desc ? "desc" : "asc"}`,
    view: s.view === "events" ? undefined : s.view, sel: s.sel || undefined, wrap: s.wrap ? "1" : undefined, refresh: s.refresh || undefined, group: s.chart || undefined, s: undefined,
  };
}
