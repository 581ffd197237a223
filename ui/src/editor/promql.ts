// PromQL with completion from the node. Names are asked for by what has been typed, a thousand at most, so that it copes with any number of metrics.
import { PromQLExtension } from "@prometheus-io/codemirror-promql";
import { json } from "../lib/api.ts";
import { codemirror } from "./core.ts";
import type { SurfaceOptions } from "./surface.ts";

const base = "/query/prometheus/api/v1";
const limit = 1000; // names of an answer
const fresh = 60_000; // ms that an answer is good for

type Metadata = Record<string, { type: string; help: string }[]>;

/** What codemirror-promql asks about metrics and labels. An answer that does not come is an empty one: the reader can type on. */
function client() {
  const kept = new Map<string, { at: number; value: Promise<unknown> }>();
  const get = <T>(path: string, params: Record<string, string>, none: T): Promise<T> => {
    const key = `${path}?${new URLSearchParams({ ...params, limit: String(limit), start: String(Math.floor(Date.now() / 1000) - 43_200) })}`;
    const id = key.replace(/&start=\d+/, "");
    const had = kept.get(id);
    if (had && Date.now() - had.at < fresh) return had.value as Promise<T>;
    const value = json<{ data: T }>(`${base}/${key}`).then((r) => r.data ?? none, () => { kept.delete(id); return none; });
    kept.set(id, { at: Date.now(), value });
    return value;
  };
  const quoted = (v: string) => JSON.stringify(v);
  const selector = (metric?: string): Record<string, string> => (metric ? { "match[]": `{__name__=${quoted(metric)}}` } : {});
  return {
    labelNames: (metric?: string) => get<string[]>("labels", selector(metric), []),
    labelValues: (label: string, metric?: string) => get<string[]>(`label/${encodeURIComponent(label)}/values`, selector(metric), []),
    metricNames: (prefix = "") => get<string[]>("label/__name__/values", prefix ? { "match[]": `{__name__=~${quoted(prefix.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&") + ".*")}}` } : {}, []),
    metricMetadata: () => get<Metadata>("metadata", {}, {}),
    series: (metric: string) => get<Record<string, string>[]>("series", selector(metric), []).then((list) => list.map((labels) => new Map(Object.entries(labels)))),
    flags: () => Promise.resolve({}),
  };
}

let shared: ReturnType<typeof client> | undefined;

export function promqlEditor(host: HTMLElement, o: SurfaceOptions) {
  const promql = new PromQLExtension().activateLinter(false).setComplete({ remote: (shared ??= client()), maxMetricsMetadata: limit });
  return codemirror(host, o, promql.asExtension());
}
