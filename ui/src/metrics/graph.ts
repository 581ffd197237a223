// The Graph view: the series of all queries in one chart, with exemplars.
import { h } from "../lib/dom.ts";
import type { MenuItem } from "../lib/layers.ts";
import { orgPath } from "../lib/boot.ts";
import { Chart, type ChartSeries, type Exemplar } from "../el/chart.ts";
import { exemplars, seriesText, traceOf } from "./prom.ts";
import type { Run } from "./run.ts";
import { letter, type State } from "./state.ts";
import { commonUnit } from "./unit.ts";

export interface GraphEvents { range(start: number, end: number): void; zoomOut(): void; logs(labels: Record<string, string>): void }

export class GraphView {
  readonly chart = new Chart();
  readonly el = h("div", { class: "mx-graph" });
  private abort: AbortController | undefined;
  private names = new Map<string, Record<string, string>>();

  constructor(private on: GraphEvents) {
    this.chart.addEventListener("ms:range", (e) => { e.stopPropagation(); const { start, end } = (e as CustomEvent<{ start: number; end: number }>).detail; this.on.range(start, end); });
    this.chart.addEventListener("ms:zoomout", () => this.on.zoomOut());
    this.chart.actions = (s) => this.actions(s);
    this.chart.traceLink = (e) => `${orgPath(`traces/${encodeURIComponent(e.traceId)}`)}`;
    this.chart.resizeKey = "metrics.graph";
    this.el.append(this.chart);
  }

  show(run: Run, s: State, units: (query: string) => string) {
    this.abort?.abort();
    this.names.clear();
    const all = run.results.map((r) => units(r.query)), unit = commonUnit(all), mixed = !unit && all.some((u) => u); // one axis for all: where they differ it has plain numbers
    const many = run.results.length > 1, step = run.step * 1000;
    const series = run.results.flatMap((r) => (r.answer?.series ?? []).map((one): ChartSeries => {
      const text = Object.keys(one.metric).length ? seriesText(one.metric) : r.query;
      const name = many ? `${letter(r.index)} ${text}` : text;
      this.names.set(name, one.metric);
      const last = one.values[0].at(-1) ?? 0, ended = last > 0 && last < run.span.end - Math.max(2 * step, 300_000);
      const count = one.values[0].length ? one.values : ([one.histograms[0], one.histograms[1].map((x) => x.count)] as [number[], number[]]);
      const labels = Object.keys(one.metric).length ? { ...one.metric, ...(many ? { __name__: `${letter(r.index)} ${one.metric.__name__ ?? ""}` } : {}) } : undefined;
      return { name, values: count, ...(mixed ? { unit: units(r.query) } : {}), ...(labels ? { labels } : {}), ...(ended ? { dash: true, note: "ended" } : {}) };
    }));
    const data = { from: run.span.start, to: run.span.end, step, series, unit, kind: s.kind, log: s.log };
    this.chart.data = data;
    if (s.exemplars) void this.loadExemplars(run, (list) => { if (list.length) this.chart.data = { ...data, exemplars: list }; });
  }

  /** Exemplars come after the graph and are left out when they cannot be read. */
  private async loadExemplars(run: Run, done: (list: Exemplar[]) => void) {
    const mine = (this.abort = new AbortController());
    const found = await Promise.all(run.results.filter((r) => r.answer && r.answer.series.length).map((r) => exemplars(r.query, run.span, mine.signal).catch(() => [])));
    if (mine !== this.abort || mine.signal.aborted) return;
    done(found.flat().flatMap((s) => s.exemplars.flatMap((e) => { const traceId = traceOf(e.labels); return traceId ? [{ t: e.timestamp * 1000, v: Number(e.value), traceId, labels: { ...s.seriesLabels, ...e.labels } }] : []; })));
  }

  private actions(s: ChartSeries): MenuItem[] {
    const labels = this.names.get(s.name) ?? {};
    return [{ text: "Logs for this series", icon: "scroll-text", on: () => this.on.logs(labels) }];
  }

  /** Labels that all shown series have in common, or those that were chosen. */
  common(): Record<string, string> {
    const chosen = this.chart.chosen, list = (chosen.length ? chosen : this.chart.data?.series ?? []).map((s) => this.names.get(s.name) ?? {});
    return Object.fromEntries(Object.entries(list[0] ?? {}).filter(([k, v]) => list.every((l) => l[k] === v)));
  }

  stop() { this.abort?.abort(); }
}
