// The page Services: rate, errors and durations of each, as a map of who calls whom or as a table.
import "../app.ts";
import { announce } from "../lib/a11y.ts";
import { explain, json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { $, button, h, icon, visible } from "../lib/dom.ts";
import { count, duration, percent, plural } from "../lib/format.ts";
import { bind } from "../lib/keys.ts";
import { banner, empty, failure, skeleton } from "../lib/states.ts";
import { fromSpan, type Range, rangeOf, resolve, type Span as Period, toApi, useZone } from "../lib/time.ts";
import { onNavigate, read, write } from "../lib/url.ts";
import { type Column, Grid } from "../el/grid.ts";
import { MsSelect } from "../el/select.ts";
import { TimeControl } from "../el/time.ts";
import { within } from "../traces/graph.ts";
import { called } from "../traces/links.ts";
import { type Call, perSecond, type Service, ServiceMap } from "../traces/map.ts";
import { servicePanel } from "../traces/service.ts";
import { streams } from "../traces/search.ts";
import { titleRow } from "../traces/tabs.ts";

interface Answer { services: Service[]; edges: Call[]; partial: boolean; partial_reasons?: string[]; warnings: string[] }

const most = 150; // services on the map

class ServicesPage {
  private view: "map" | "table" = "map";
  private focus = "";
  private hops = 2;
  private service = "";
  private range: Range = rangeOf(read());
  private period: Period = resolve(this.range);
  private answer: Answer | undefined;
  private running: AbortController | undefined;
  private panel: AbortController | undefined;
  private sort = { key: "rate", desc: true };
  private time = new TimeControl();
  private find = new MsSelect();
  private views: HTMLButtonElement[];
  private hopsButtons: HTMLButtonElement[];
  private hopsBox: HTMLElement;
  private note = h("span", { class: "muted num", role: "status" });
  private notes = h("div", { class: "notes" });
  private main = h("div", { class: "tq-main sv-main" });
  private side = h("aside", { class: "drawer span-drawer", "aria-label": "Service", hidden: true });
  private map = new ServiceMap((name) => this.choose(name));
  private mapBox: HTMLElement;
  private grid = new Grid<Service>();

  constructor(app: HTMLElement) {
    useZone(read().get("tz"));
    this.views = ([["map", "Map", "route"], ["table", "Table", "table-2"]] as const).map(([v, text, ic]) => h("button", { type: "button", "data-v": v, onclick: () => { this.view = v; this.remember(); this.draw(); } }, icon(ic, "s"), text));
    this.hopsButtons = [1, 2, 3].map((n) => h("button", { type: "button", "data-v": String(n), "aria-label": plural(n, "call") + " away", onclick: () => { this.hops = n; this.remember(); this.draw(); } }, String(n)));
    this.hopsBox = h("div", { class: "seg", role: "group", "aria-label": "How many calls away from it" }, this.hopsButtons);
    this.find.label = "Around";
    this.find.placeholder = "All services";
    this.find.clearable = true;
    this.find.icon = "boxes";
    this.find.addEventListener("ms:change", () => { this.focus = this.find.value as string; this.remember(); this.draw(); });
    const zoom = (text: string, ic: string, f: () => void) => button({ icon: ic, label: text, cls: "ghost icon sm", on: f });
    this.mapBox = h("div", { class: "sm-box" }, this.map.el, h("div", { class: "sm-zoom" }, zoom("Larger", "zoom-in", () => this.map.zoom(this.map.scaled * 1.25)), zoom("Smaller", "zoom-out", () => this.map.zoom(this.map.scaled / 1.25)), zoom("Fit", "maximize-2", () => this.map.fit())), legend());
    this.setUpGrid();
    this.time.addEventListener("ms:range", (e) => { this.range = (e as CustomEvent<Range>).detail; write({ from: this.range.from, to: this.range.to }); void this.load(); });
    this.time.addEventListener("ms:refresh", (e) => { const d = (e as CustomEvent<{ every?: string; now?: boolean }>).detail; if (d.now) void this.load(); else { this.time.refresh = d.every ?? ""; write({ refresh: d.every ?? "" }, "replace"); } });
    this.time.addEventListener("ms:tz", (e) => { const tz = (e as CustomEvent<{ tz?: string }>).detail.tz ?? ""; write({ tz }); useZone(tz); this.time.tz = tz; void this.load(); });
    this.time.tz = read().get("tz") ?? "";
    this.time.refresh = read().get("refresh") ?? "";
    this.fromUrl();
    const bar = h("div", { class: "tr-bar" }, h("div", { class: "seg", role: "group", "aria-label": "View" }, this.views), this.find, this.hopsBox, this.note);
    app.replaceChildren(titleRow("services", this.time), bar, this.notes, h("div", { class: "tq-panel" }, this.main, this.side));
    app.setAttribute("aria-busy", "false");
    onNavigate(() => { this.fromUrl(); void this.load(); });
    bind([
      { key: "t", label: "Time range", group: "Services", run: () => this.time.open() },
      { key: "v", label: "Map or table", group: "Services", run: () => { this.view = this.view === "map" ? "table" : "map"; this.remember(); this.draw(); } },
      { key: "/", label: "Find a service", group: "Services", run: (e) => { e.preventDefault(); this.find.open(); } },
      { key: "+", label: "Larger", group: "Services", run: () => this.map.zoom(this.map.scaled * 1.25) },
      { key: "-", label: "Smaller", group: "Services", run: () => this.map.zoom(this.map.scaled / 1.25) },
      { key: "0", label: "Fit the map", group: "Services", run: () => this.map.fit() },
      { key: "Escape", label: "Close the service", group: "Services", run: () => this.choose("") },
    ]);
    void this.load();
  }

  private fromUrl() {
    const q = read(), hops = Number(q.get("hops"));
    this.view = q.get("view") === "table" ? "table" : "map";
    this.focus = q.get("focus") ?? "";
    this.service = q.get("service") ?? "";
    this.hops = hops >= 1 && hops <= 3 ? hops : 2;
    this.range = rangeOf(q);
    this.time.value = this.range;
  }

  private remember() {
    write({ view: this.view === "map" ? "" : this.view, focus: this.focus, hops: this.focus && this.hops !== 2 ? String(this.hops) : "", service: this.service }, "replace");
  }

  private setUpGrid() {
    const num = (key: string, label: string, width: number, f: (x: Service) => string, wide = false): Column<Service> => ({ key, label, width, sort: true, fixed: true, wide, cls: "r num", render: (x, c) => { c.textContent = f(x); } });
    this.grid.name = "Services";
    this.grid.columns = [
      { key: "name", label: "Service", min: 180, sort: true, fixed: true, render: (x, c) => { c.append(h("b", { class: "sv-name" }, called(x.name))); } },
      num("rate", "Rate", 90, (x) => perSecond(x.rate)),
      { key: "errors", label: "Failed", width: 90, sort: true, fixed: true, cls: "r num", render: (x, c) => { c.textContent = x.errors ? percent(x.errors / x.spans) : "0"; c.classList.toggle("tq-err", x.errors > 0); } },
      num("p50", "p50", 90, (x) => duration(x.p50_ns), true), num("p95", "p95", 90, (x) => duration(x.p95_ns)), num("p99", "p99", 90, (x) => duration(x.p99_ns), true), num("spans", "Spans", 100, (x) => count(x.spans), true), num("operations", "Operations", 100, (x) => count(x.operations.length), true),
    ];
    this.grid.sort = this.sort;
    this.grid.rowLabel = (x) => `${called(x.name)}, ${perSecond(x.rate)}, ${percent(x.errors / Math.max(1, x.spans))} failed, p95 ${duration(x.p95_ns)}`;
    this.grid.rowText = (x) => x.name;
    this.grid.rowClass = (x) => (x.errors / Math.max(1, x.spans) >= 0.05 ? "e-error" : "");
    this.grid.addEventListener("ms:open", (e) => this.choose((e as CustomEvent<{ row: Service }>).detail.row.name));
    this.grid.addEventListener("ms:sort", (e) => { this.sort = (e as CustomEvent<{ key: string; desc: boolean }>).detail; this.grid.sort = this.sort; this.draw(); });
  }

  private async load() {
    this.running?.abort();
    const { signal } = (this.running = new AbortController());
    this.period = resolve(this.range);
    if (streams().length === 0) { this.main.replaceChildren(empty({ title: "No traces yet", icon: "boxes", text: "Services and their calls are made from traces. They appear here as soon as an OpenTelemetry SDK or Collector sends some.", actions: [{ text: "How to send traces", icon: "plug", primary: true, on: () => { location.href = orgPath("send"); } }] })); return; }
    if (this.answer) this.main.classList.add("dim"); else this.main.replaceChildren(skeleton(12));
    this.main.setAttribute("aria-busy", "true");
    try {
      const p = toApi(this.period);
      this.answer = await json<Answer>(`/query/services?${new URLSearchParams({ ...p, edges: "true" })}`, { signal });
      this.notes.replaceChildren(...(this.answer.partial_reasons ?? []).map((t) => banner("warn", `Services may be missing: ${t}`, [{ text: "Try again", on: () => void this.load() }])), ...this.answer.warnings.map((t) => banner("info", t)));
      this.find.items = this.answer.services.map((x) => ({ value: x.name, label: called(x.name), detail: perSecond(x.rate) }));
      this.draw();
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      this.answer = undefined;
      this.main.replaceChildren(failure(err, () => void this.load()));
    } finally {
      if (!signal.aborted) { this.main.classList.remove("dim"); this.main.setAttribute("aria-busy", "false"); }
    }
  }

  /** What is shown of the services: all, or those around the one in focus. A map with too many is begun around the busiest. */
  private shown(a: Answer): { services: Service[]; note: string } {
    const busiest = () => a.services.reduce((x, y) => (y.spans > x.spans ? y : x)).name;
    const big = this.view === "map" && !this.focus && a.services.length > most;
    const around = this.focus || (big ? busiest() : "");
    if (!around) return { services: a.services, note: `${plural(a.services.length, "service")}, ${plural(a.edges.length, "connection")}` };
    const near = within(around, big ? 1 : this.hops, a.edges);
    const services = a.services.filter((x) => near.has(x.name)).sort((x, y) => Number(y.name === around) - Number(x.name === around) || y.spans - x.spans).slice(0, this.view === "map" ? most : Infinity);
    return { services, note: `${services.length} of ${plural(a.services.length, "service")}${big ? `: more than a map can show, so it is around the busiest, ${visible(around)}` : ""}` };
  }

  private draw() {
    const a = this.answer;
    for (const b of this.views) b.setAttribute("aria-pressed", String(b.dataset.v === this.view));
    for (const b of this.hopsButtons) b.setAttribute("aria-pressed", String(b.dataset.v === String(this.hops)));
    this.hopsBox.hidden = !this.focus;
    this.find.value = this.focus;
    if (!a) return;
    if (a.services.length === 0) {
      this.note.textContent = "";
      this.main.replaceChildren(empty({ title: "No services", icon: "boxes", text: "No span was received in this time.", actions: [{ text: "Look at the last 24 hours", icon: "clock", primary: true, on: () => { this.range = { from: "now-24h", to: "now" }; this.time.value = this.range; write(this.range as never); void this.load(); } }] }));
      return;
    }
    const { services, note } = this.shown(a);
    this.note.textContent = note;
    announce(note);
    if (this.view === "map") {
      if (!this.mapBox.isConnected) this.main.replaceChildren(this.mapBox);
      this.map.show(services, a.edges, (this.period.end - this.period.start) / 1000);
    } else {
      if (!this.grid.isConnected) this.main.replaceChildren(this.grid);
      const { key, desc } = this.sort, sign = desc ? -1 : 1;
      const value = (x: Service): number => ({ rate: x.rate, errors: x.errors / Math.max(1, x.spans), p50: x.p50_ns, p95: x.p95_ns, p99: x.p99_ns, spans: x.spans, operations: x.operations.length })[key] ?? 0;
      this.grid.rows = [...services].sort((x, y) => (key === "name" ? sign * (x.name < y.name ? -1 : 1) : sign * (value(x) - value(y))));
    }
    this.showPanel();
  }

  private choose(name: string) {
    this.service = this.service === name && this.view === "map" ? "" : name;
    this.remember();
    this.showPanel();
  }

  private showPanel() {
    const service = this.answer?.services.find((x) => x.name === this.service);
    this.panel?.abort();
    this.side.hidden = !service;
    this.side.parentElement!.classList.toggle("with-drawer", !!service);
    this.map.select(service?.name ?? "");
    if (!service) return;
    this.panel = new AbortController();
    servicePanel(this.side, { service, calls: this.answer!.edges, range: this.range, period: this.period, focus: (n) => this.choose(n), close: () => this.choose(""), zoom: (start, end) => { this.range = fromSpan({ start, end }); this.time.value = this.range; write({ from: this.range.from, to: this.range.to }); void this.load(); } }, this.panel.signal);
  }
}

const legend = () => h("p", { class: "sm-legend" }, h("span", { class: "sm-key line" }), "width: calls", h("span", { class: "sm-key bad" }), "red: failed", h("span", { class: "sm-key ring" }), "ring: share of failed spans");

new ServicesPage($("#app")!);
