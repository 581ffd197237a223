// Taking the page elsewhere: links, curl, Grafana, and the logs of what was found.
import { boot, orgPath } from "../lib/boot.ts";
import { explain, json } from "../lib/api.ts";
import { copy, menu, toast } from "../lib/layers.ts";
import { fromSpan, type Span, toApi } from "../lib/time.ts";
import { address, filled } from "../lib/url.ts";
import { base } from "./prom.ts";
import type { Run } from "./run.ts";
import { letter, params, type State } from "./state.ts";

/** A link to the page. fixed writes the moments in place of relative times; a long state is kept by the node. */
async function link(s: State, run: Run | undefined, fixed: boolean): Promise<string> {
  return `${location.origin}${orgPath("metrics")}?${await address(filled(params({ ...s, range: fixed && run ? fromSpan(run.span) : s.range })))}`;
}

export async function copyLink(s: State, run: Run | undefined, fixed: boolean) {
  try {
    await copy(await link(s, run, fixed), fixed ? "Link copied, with the times fixed" : "Link copied, with relative times");
  } catch (e) {
    toast(`The link could not be made: ${explain(e).message}`, { error: true });
  }
}

const visibleQueries = (s: State) => s.queries.map((q, i) => ({ ...q, ref: letter(i) })).filter((q) => q.text && !q.hidden);
const shell = (t: string) => `'${t.replaceAll("'", `'\\''`)}'`;

/** The same queries by curl; the token is the reader's to fill in. */
export function curl(s: State, span: Span, step: number): string {
  const { start, end } = toApi(span);
  return visibleQueries(s).map((q) => [`curl -sG ${shell(`${location.origin}${boot.base}/api/v1${base}/query_range`)}`, `-H "Authorization: Bearer $MS_TOKEN"`, ...(boot.org ? [`-H ${shell(`X-Org-Id: ${boot.org}`)}`] : []), `--data-urlencode ${shell(`query=${q.text}`)}`, `-d start=${start} -d end=${end} -d step=${step}`].join(" \\\n  ")).join("\n");
}

/** A Grafana panel with the same queries, to be pasted into a dashboard there. */
export function grafana(s: State, unit: string): string {
  const source = { type: "prometheus", uid: "${DS_PROMETHEUS}" };
  return JSON.stringify({
    type: s.view === "table" ? "table" : s.view === "heatmap" ? "heatmap" : "timeseries", title: visibleQueries(s)[0]?.text.slice(0, 80) ?? "", datasource: source,
    targets: visibleQueries(s).map((q) => ({ refId: q.ref, expr: q.text, datasource: source, editorMode: "code", range: !(s.view === "table" && s.instant), instant: s.view === "table" && s.instant, ...(s.step ? { interval: s.step } : {}) })),
    fieldConfig: { defaults: { unit: unit === "/s" ? "reqps" : unit || "short", custom: { drawStyle: s.kind === "bars" ? "bars" : "line", fillOpacity: s.kind === "line" ? 0 : 20, stacking: { mode: s.kind === "stack" ? "normal" : "none" }, scaleDistribution: s.log ? { type: "log", log: 10 } : { type: "linear" } } }, overrides: [] },
    gridPos: { h: 8, w: 12, x: 0, y: 0 },
  }, null, 2);
}

export function shareMenu(anchor: HTMLElement, s: State, run: Run | undefined, unit: string) {
  const span = run?.span;
  menu(anchor, [
    { text: "Copy link, times fixed", icon: "link", kbd: "⇧Y", on: () => void copyLink(s, run, true) },
    { text: "Copy link, times relative", icon: "link", on: () => void copyLink(s, run, false) },
    { text: "Copy link and query", icon: "copy", on: () => void link(s, run, true).then((url) => copy(`${visibleQueries(s).map((q) => q.text).join("\n")}\n${url}`, "Link and query copied")) },
    { text: "", rule: true },
    { text: "Copy PromQL", icon: "code", on: () => void copy(visibleQueries(s).map((q) => q.text).join("\n"), "PromQL copied") },
    ...(span ? [{ text: "Copy as curl", icon: "terminal", on: () => void copy(curl(s, span, run.step), "Command copied") }] : []),
    { text: "Copy as Grafana panel", icon: "braces", on: () => void copy(grafana(s, unit), "Grafana panel copied") },
  ], { label: "Share" });
}

// Names that metrics and logs give the same thing. The first field that the logs have is taken.
const same: Record<string, string[]> = {
  job: ["service", "service.name", "service_name", "job"], service: ["service", "service.name", "service_name"], service_name: ["service", "service.name", "service_name"], "service.name": ["service", "service.name", "service_name"],
  instance: ["host.name", "host", "instance", "hostname"], host: ["host.name", "host", "hostname"], "host.name": ["host.name", "host", "hostname"], host_name: ["host.name", "host", "hostname"], code: ["http.status", "http.response.status_code", "status", "code"], status_code: ["http.status", "http.response.status_code", "status"],
  pod: ["k8s.pod.name", "pod"], namespace: ["k8s.namespace.name", "namespace"], container: ["k8s.container.name", "container"], node: ["k8s.node.name", "node"],
};

/** Opens the logs of the same time whose fields are what the labels say. Labels that the logs have no field for are left out. */
export async function openLogs(labels: Record<string, string>, span: Span | undefined) {
  const stream = boot.streams.find((x) => x.signal === "logs")?.name;
  if (!stream) { toast("There are no logs yet.", { error: true }); return; }
  let known: Set<string> | undefined;
  try {
    const { fields } = await json<{ fields: { name: string }[] }>("/query/fields", { body: { stream, ...(span ? { time_range: toApi(span) } : {}) } });
    known = new Set(fields.map((f) => f.name));
  } catch { /* the fields cannot be asked for: the labels' own names are taken */ }
  const chosen = new Map<string, string>();
  for (const [label, value] of Object.entries(labels)) {
    if (label === "__name__" || label === "le" || value === "") continue;
    const options = [...(Object.hasOwn(same, label) ? same[label]! : []), label, label.replaceAll("_", ".")];
    const field = known ? options.find((f) => known.has(f)) : options[0];
    if (field && !chosen.has(field)) chosen.set(field, value);
  }
  const q = [...chosen].map(([f, v]) => `${/^[\w.]+$/.test(f) ? f : JSON.stringify(f)}:${JSON.stringify(v)}`).join(" ");
  const p = new URLSearchParams({ stream, ...(q ? { q } : {}), ...(span ? fromSpan(span) : {}) });
  location.href = `${orgPath("logs")}?${p}`;
}

