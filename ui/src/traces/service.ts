// The panel of a service: its figures over time, whom it calls and who calls it, its operations, and the ways on.
import { explain, json } from "../lib/api.ts";
import { button, h, icon, visible } from "../lib/dom.ts";
import { count, duration, percent } from "../lib/format.ts";
import { type Range, type Span as Period, toApi } from "../lib/time.ts";
import { Chart } from "../el/chart.ts";
import type { ChartSeries } from "../el/chart_data.ts";
import { called, identifier, literal, logsOf, metricsOf, tracesOf } from "./links.ts";
import { type Call, perSecond, type Service } from "./map.ts";
import { streams } from "./search.ts";

export interface Shown { service: Service; calls: Call[]; range: Range; period: Period; focus: (name: string) => void; close: () => void; zoom: (start: number, end: number) => void }

const points = 60; // of a chart

export function servicePanel(box: HTMLElement, o: Shown, signal: AbortSignal) {
  const x = o.service, link: [string, string] = [o.range.from, o.range.to], seconds = (o.period.end - o.period.start) / 1000;
  const name = called(x.name);
  const way = (text: string, ic: string, href: string) => h("a", { class: "btn sm", href }, icon(ic, "s"), text);
  const figure = (k: string, v: string, cls = "") => h("div", { class: "stat" }, h("dt", null, k), h("dd", { class: cls || null }, v));
  const charts = h("div", { class: "sv-charts", "aria-busy": "true" });
  const calls = (title: string, list: Call[], other: (c: Call) => string) => list.length > 0 && h("section", { class: "sd-sec" }, h("h3", null, title), h("ul", { class: "sv-calls" }, [...list].sort((a, b) => b.calls - a.calls).slice(0, 30).map((c) =>
    h("li", null, h("button", { type: "button", class: "link ell", onclick: () => o.focus(other(c)) }, called(other(c))), h("span", { class: "num muted" }, perSecond(c.calls / seconds)), h("span", { class: `num ${c.errors ? "bad" : "muted"}` }, percent(c.errors / Math.max(1, c.calls))), h("span", { class: "num muted" }, duration(c.avg_ns))))));
  box.hidden = false;
  box.replaceChildren(h("div", { class: "dh" }, h("h2", { class: "ell", title: name }, name), h("span", { class: "spacer" }), button({ icon: "x", label: "Close", cls: "ghost icon sm", on: o.close })),
    h("div", { class: "dscroll", tabindex: "0", role: "region", "aria-label": `Service ${name}` },
      h("div", { class: "sv-ways" }, way("Traces", "waypoints", tracesOf(x.name, "", link)), way("Errors", "circle-alert", tracesOf(x.name, "", link, [["status", "error"]])), way("Logs", "scroll-text", logsOf(x.name, link)), way("Metrics", "chart-line", metricsOf(x.name, link))),
      h("dl", { class: "stats sv-stats" }, figure("Rate", perSecond(x.rate)), figure("Failed", percent(x.errors / Math.max(1, x.spans)), x.errors ? "bad" : ""), figure("p50", duration(x.p50_ns)), figure("p95", duration(x.p95_ns)), figure("p99", duration(x.p99_ns))),
      charts,
      calls("Called by", o.calls.filter((c) => c.to === x.name && c.from !== x.name), (c) => c.from), calls("Calls", o.calls.filter((c) => c.from === x.name && c.to !== x.name), (c) => c.to),
      h("section", { class: "sd-sec" }, h("h3", null, `Operations (${x.operations.length}${x.operations.length >= 50 ? ", most frequent" : ""})`), h("table", { class: "tbl sv-ops" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Operation"), ["Spans", "Failed", "p95"].map((t) => h("th", { scope: "col", class: "r" }, t)))),
        h("tbody", null, x.operations.map((op) => h("tr", null, h("th", { scope: "row" }, h("a", { class: "link mono", href: tracesOf(x.name, op.name, link) }, visible(op.name))), h("td", { class: "r num" }, count(op.spans)), h("td", { class: `r num${op.errors ? " bad" : ""}` }, percent(op.errors / Math.max(1, op.spans))), h("td", { class: "r num" }, duration(op.p95_ns)))))))));
  void fill(charts, o, signal);
}

async function fill(box: HTMLElement, o: Shown, signal: AbortSignal) {
  const { start, end } = o.period, width = Math.max(1000, Math.ceil((end - start) / points));
  const from = streams().slice(0, 16).map((s) => `SELECT _timestamp, status, duration_ns FROM traces.${identifier(s)} WHERE service = ${literal(o.service.name)}`).join(" UNION ALL ");
  const statement = `SELECT CAST(floor((epoch_ns(_timestamp) - ${start}000000) / ${width}000000) AS BIGINT) AS x, count(*), count(*) FILTER (WHERE status = 'error'), quantile_cont(duration_ns, 0.5), quantile_cont(duration_ns, 0.95) FROM (${from}) GROUP BY x ORDER BY x`;
  try {
    const a = await json<{ rows: number[][] }>("/query", { body: { statement, time_range: toApi(o.period) }, signal });
    const t = Array.from({ length: Math.ceil((end - start) / width) }, (_, i) => start + i * width), rows = new Map(a.rows.map((r) => [Number(r[0]), r.map(Number)]));
    const series = (name: string, colour: string, f: (r: number[] | undefined) => number | null): ChartSeries => ({ name, colour, values: [t, t.map((_, i) => f(rows.get(i)))] });
    const per = width / 1000;
    const chart = (title: string, unit: string, list: ChartSeries[]) => {
      const c = new Chart();
      c.addEventListener("ms:range", (e) => { const d = (e as CustomEvent<{ start: number; end: number }>).detail; o.zoom(d.start, d.end); });
      c.data = { from: start, to: end, series: list, unit, kind: list.length > 1 ? "line" : "area", compact: true };
      return h("section", { class: "sv-chart" }, h("h3", null, title), c);
    };
    box.replaceChildren(chart("Spans a second", "/s", [series("spans", "--c1", (r) => (r ? r[1]! : 0) / per)]), chart("Failed", "percentunit", [series("failed", "--c2", (r) => (r ? r[2]! / Math.max(1, r[1]!) : 0))]), chart("Duration", "s", [series("p50", "--c6", (r) => (r ? r[3]! / 1e9 : null)), series("p95", "--c7", (r) => (r ? r[4]! / 1e9 : null))]));
  } catch (e) {
    const err = explain(e);
    if (err.code !== "aborted") box.replaceChildren(h("p", { class: "sd-p muted" }, `The figures over time cannot be shown: ${err.message}`), button({ text: "Try again", icon: "refresh-cw", cls: "sm", on: () => void fill(box, o, signal) }));
  } finally {
    box.removeAttribute("aria-busy");
  }
}
