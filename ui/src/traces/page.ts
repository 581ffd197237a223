// The page Traces: what to look for, durations over time, and the traces that were found.
import { announce } from "../lib/a11y.ts";
import { type ApiError, explain, json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { $, button, h, icon, visible } from "../lib/dom.ts";
import { bytes, count, duration, percent, plural } from "../lib/format.ts";
import { bind, printed } from "../lib/keys.ts";
import { copy, more } from "../lib/layers.ts";
import { type Action, banner, empty, failure, skeleton, stale } from "../lib/states.ts";
import { formatTime, fromSpan, resolve, type Span as Period, useZone } from "../lib/time.ts";
import { kept, onNavigate, type Params, read, write } from "../lib/url.ts";
import { Edited, MsEditor } from "../el/editor.ts";
import { type Column, Grid } from "../el/grid.ts";
import { MsSelect } from "../el/select.ts";
import { TimeControl } from "../el/time.ts";
import { compare } from "./compare.ts";
import { type Box, Heatmap } from "./heatmap.ts";
import { called, traceOf } from "./links.ts";
import { byRoots, complete, density, durationText, find, type Found, fromUrl, nanoseconds, openParams, params, type Search, streams, type Summary, toUrl } from "./search.ts";
import { titleRow } from "./tabs.ts";

const first = 100, most = 1000; // traces that are asked for, and on request

interface Known { services: { name: string; operations: { name: string; spans: number }[] }[] }

export class TracesPage {
  private s: Search = fromUrl();
  private period: Period = resolve(this.s.range);
  private limit = first;
  private running: AbortController | undefined;
  private comparing: AbortController | undefined;
  private sort = order();
  private answered = { heat: { question: "", at: 0 }, list: { question: "", at: 0 } }; // what is shown answers which search, and when it came
  private lengths: [shortest: number, longest: number] = [1, 1]; // ns, of the traces that were found

  private time = new TimeControl();
  private editor = new MsEditor();
  private stream = new MsSelect();
  private service = new MsSelect();
  private operation = new MsSelect();
  private least = input("From, such as 250ms", "At least");
  private most = input("To, such as 2s", "At most");
  private status: HTMLButtonElement[];
  private run = button({ text: "Find", icon: "search", cls: "primary", kbd: printed("mod+Enter"), on: () => this.submit() });
  private edited = new Edited(this.run);
  private cost = h("div", { class: "cost" });
  private notes = h("div", { class: "notes" });
  private heat = new Heatmap({ zoom: (b) => this.zoom(b), compare: (b) => this.compare(b), clear: () => this.closeCompare() });
  private heatBox = h("div", { class: "tq-heat" });
  private grid = new Grid<Summary>();
  private results = h("div", { class: "tq-results" });
  private side = h("aside", { class: "drawer span-drawer", "aria-label": "What is different", hidden: true });
  private foot = h("div", { class: "lfoot" });

  constructor(app: HTMLElement) {
    this.status = ([["", "Any status"], ["error", "Errors"], ["ok", "OK"]] as const).map(([v, text]) => h("button", { type: "button", "data-v": v, onclick: () => this.change({ status: v }) }, text));
    this.setUpControls();
    this.setUpGrid();
    this.fill();
    const panel = h("div", { class: "tq-panel" }, h("div", { class: "tq-main" }, this.heatBox, this.results, this.foot), this.side);
    app.replaceChildren(titleRow("traces", this.time, ...this.keeping()), this.box(), this.cost, this.notes, panel);
    app.setAttribute("aria-busy", "false");
    onNavigate(() => this.take());
    this.keys();
    const link = read().get("s");
    if (link) void this.openLink(link);
    else this.take();
  }

  /** Shows what the address says. */
  private take() {
    this.s = fromUrl();
    this.sort = order();
    this.grid.sort = this.sort;
    this.time.tz = read().get("tz") ?? "";
    this.time.refresh = read().get("refresh") ?? "";
    useZone(this.time.tz);
    this.fill();
    void this.load();
  }

  private async openLink(id: string) {
    try {
      openParams(await kept(id), "replace");
      this.take();
    } catch (e) {
      this.take();
      this.notes.append(banner("warn", `The link cannot be opened: ${explain(e).message}`));
    }
  }

  private keeping() {
    const open = (p: Params) => { openParams(p, "push"); this.limit = first; this.take(); };
    const views = async () => (await import("../share/views.ts")).viewsDialog({ page: "traces", state: () => params(this.s), open });
    const share = async () => {
      const { s, period } = this, what = [s.service, s.operation, s.status && `status ${s.status}`, s.least && `at least ${s.least}`, s.most && `at most ${s.most}`, s.q].filter(Boolean).join(", ");
      (await import("../share/dialog.ts")).shareDialog({ range: s.range, frozen: fromSpan(period), params: (range) => params({ ...s, range }), text: `Traces: ${what || "all"}` });
    };
    return [button({ text: "Saved views", icon: "bookmark", cls: "ghost sm hide-s", "aria-haspopup": "dialog", on: () => void views() }), button({ text: "Share", icon: "share-2", cls: "hide-s", "aria-haspopup": "dialog", on: () => void share() }),
      more(() => [{ text: "Share", icon: "share-2", on: () => void share() }, { text: "Saved views", icon: "bookmark", on: () => void views() }])];
  }

  private setUpControls() {
    this.editor.label = "Attributes or trace id";
    this.editor.placeholder = "http.status:500, or a trace id";
    this.editor.complete = (text, cursor) => complete(this.s, text, cursor);
    this.editor.addEventListener("ms:run", () => this.submit());
    this.editor.addEventListener("ms:change", () => this.typed());
    for (const [sel, label, icon] of [[this.stream, "Stream", "layers"], [this.service, "Service", "boxes"], [this.operation, "Operation", "route"]] as const) {
      sel.label = label;
      sel.placeholder = "Any";
      sel.icon = icon;
      sel.clearable = true;
    }
    this.stream.items = streams().map((value) => ({ value }));
    this.stream.hidden = streams().length < 2;
    this.stream.addEventListener("ms:change", () => this.change({ stream: this.stream.value as string }));
    this.service.addEventListener("ms:change", () => this.change({ service: this.service.value as string, operation: "" }));
    this.operation.addEventListener("ms:change", () => this.change({ operation: this.operation.value as string }));
    for (const field of [this.least, this.most]) {
      field.addEventListener("input", () => this.typed());
      field.addEventListener("change", () => this.submit());
      field.addEventListener("keydown", (e) => { if (e.key === "Enter") this.submit(); });
    }
    this.time.addEventListener("ms:range", (e) => this.change({ range: (e as CustomEvent).detail }));
    this.time.addEventListener("ms:tz", (e) => { const tz = (e as CustomEvent<{ tz?: string }>).detail.tz ?? ""; write({ tz }); useZone(tz); this.time.tz = tz; void this.load(); });
    this.time.addEventListener("ms:refresh", (e) => { const d = (e as CustomEvent<{ every?: string; now?: boolean }>).detail; if (d.now) void this.load(); else { this.time.refresh = d.every ?? ""; write({ refresh: d.every ?? "" }, "replace"); } });
  }

  private box() {
    return h("section", { class: "qbox", "aria-label": "What to look for" }, h("div", { class: "qrow" }, h("div", { class: "editor" }, this.editor), h("div", { class: "act" }, this.run)),
      h("div", { class: "qfoot" }, this.stream, this.service, this.operation, h("div", { class: "seg", role: "group", "aria-label": "Status" }, this.status), h("span", { class: "tq-dur", role: "group", "aria-label": "Duration" }, icon("clock", "s"), this.least, "–", this.most), h("span", { class: "spacer" }), this.edited.el));
  }

  private setUpGrid() {
    const text = (cell: HTMLElement, v: string, cls = "") => { cell.textContent = v; if (cls) cell.classList.add(cls); };
    const columns: Column<Summary>[] = [
      { key: "start", label: "Started", width: 172, sort: true, fixed: true, wide: true, render: (t, c) => text(c, formatTime(t.start, { ms: true })) },
      { key: "root", label: "Root operation", min: 200, fixed: true, render: (t, c) => c.append(h("a", { class: "tq-root", href: traceOf(t.trace_id), tabindex: "-1" }, h("b", null, called(t.root_service)), " ", h("span", null, visible(t.root))), h("span", { class: "tq-when muted num" }, `${formatTime(t.start)}, ${plural(t.spans, "span")}${t.errors ? `, ${plural(t.errors, "error")}` : ""}`)) },
      { key: "duration", label: "Duration", width: 168, sort: true, fixed: true, render: (t, c) => { const bar = h("i"); bar.style.setProperty("--w", `${this.share(t.duration_ns)}%`); c.append(h("span", { class: `tq-bar${t.errors ? " bad" : ""}` }, bar), h("span", { class: "num" }, duration(t.duration_ns))); c.classList.add("tq-d"); } },
      { key: "spans", label: "Spans", width: 66, sort: true, fixed: true, wide: true, cls: "r num", render: (t, c) => text(c, count(t.spans)) },
      { key: "errors", label: "Errors", width: 70, sort: true, fixed: true, wide: true, cls: "r num", render: (t, c) => text(c, t.errors ? count(t.errors) : "", t.errors ? "tq-err" : "") },
      { key: "services", label: "Services", width: 240, fixed: true, wide: true, render: (t, c) => text(c, (t.services ?? []).map((x) => called(x)).join(", "), "muted") },
    ];
    this.grid.name = "Traces";
    this.grid.columns = columns;
    this.grid.rowClass = (t) => (t.errors ? "e-error" : "");
    this.grid.rowLabel = (t) => `${called(t.root_service)}, ${visible(t.root)}, ${duration(t.duration_ns)}, ${plural(t.spans, "span")}, ${plural(t.errors, "error")}, ${formatTime(t.start)}`;
    this.grid.rowText = (t) => t.trace_id;
    this.grid.sort = this.sort;
    this.grid.addEventListener("ms:open", (e) => { location.href = traceOf((e as CustomEvent<{ row: Summary }>).detail.row.trace_id); });
    this.grid.addEventListener("ms:sort", (e) => { this.sort = (e as CustomEvent<{ key: string; desc: boolean }>).detail; this.grid.sort = this.sort; write({ sort: this.sort.key === "start" && this.sort.desc ? "" : (this.sort.desc ? "-" : "") + this.sort.key }, "replace"); this.order(); });
  }

  private keys() {
    bind([
      { key: "/", label: "Go to the search", group: "Traces", run: (e) => { e.preventDefault(); this.editor.focus(); } },
      { key: "mod+Enter", label: "Find", group: "Traces", run: () => this.submit() },
      { key: "t", label: "Time range", group: "Traces", run: () => this.time.open() },
      { key: "j", label: "Next trace", group: "Traces", run: () => this.toGrid() },
      { key: "k", label: "Previous trace", group: "Traces", run: () => this.toGrid() },
      { key: "shift+y", label: "Copy a link", group: "Traces", run: () => void copy(location.href, "Link copied") },
      { key: "Escape", label: "Close the comparison", group: "Traces", run: () => this.closeCompare() },
    ]);
  }

  private toGrid() {
    if (this.grid.rows.length === 0) return;
    this.grid.scroller.focus();
    this.grid.select(Math.max(0, this.grid.index));
  }

  // ---- what the reader looks for
  private fill() {
    const s = this.s;
    this.editor.value = s.q;
    this.stream.value = s.stream;
    this.service.value = s.service;
    this.operation.value = s.operation;
    this.least.value = s.least;
    this.most.value = s.most;
    this.time.value = s.range;
    for (const b of this.status) b.setAttribute("aria-pressed", String(b.dataset.v === s.status));
    this.typed();
  }

  /** What is typed is not in the address before it is run. */
  private typed() {
    const { q, least, most } = this.s;
    this.edited.on = [this.editor, this.least, this.most].map((x) => x.value.trim()).join("\n") !== [q, least, most].map((x) => x.trim()).join("\n");
  }

  private change(by: Partial<Search>) {
    this.limit = first;
    this.s = { ...this.s, q: this.editor.value.trim(), least: this.least.value.trim(), most: this.most.value.trim(), ...by };
    toUrl(this.s);
    this.fill();
    void this.load();
  }

  private submit() {
    const text = this.editor.value.trim();
    if (/^[0-9a-f]{32}$/i.test(text)) { location.href = traceOf(text.toLowerCase()); return; }
    for (const field of [this.least, this.most]) {
      const bad = Number.isNaN(nanoseconds(field.value));
      field.setAttribute("aria-invalid", String(bad));
      if (bad) { announce(`${field.value} is not a duration: write 250ms, 1.5s or 2m`); field.focus(); return; }
    }
    this.change({});
  }

  private zoom(b: Box) {
    this.change({ range: fromSpan({ start: b.start, end: b.end }), least: durationText(b.least), most: durationText(b.most) });
  }

  // ---- asking
  private async load() {
    this.running?.abort();
    this.closeCompare();
    const run = (this.running = new AbortController()), s = { ...this.s, least: spaceless(this.s.least), most: spaceless(this.s.most) };
    const fault = fromUrl().fault;
    this.notes.replaceChildren(...(fault ? [banner("warn", fault)] : []));
    if (!this.edited.on) this.editor.mark(null);
    this.period = resolve(s.range);
    if (streams().length === 0) return this.nothingYet();
    const old = this.grid.isConnected && this.grid.rows.length > 0;
    this.results.classList.toggle("dim", old);
    this.heatBox.classList.toggle("dim", old);
    if (!old) { this.results.replaceChildren(skeleton(10)); this.answered.list.question = ""; }
    this.results.setAttribute("aria-busy", "true");
    void this.names(run.signal);
    await Promise.all([this.loadHeat(s, run.signal), this.loadList(s, run.signal)]);
  }

  private async loadHeat(s: Search, signal: AbortSignal) {
    try {
      const d = await density(s, this.period, signal);
      if (signal.aborted) return;
      if (!this.heat.el.isConnected) this.heatBox.replaceChildren(this.heat.el);
      this.answered.heat = { question: this.question(s), at: Date.now() };
      this.heatBox.hidden = d.cells.length === 0;
      this.heat.show(d, byRoots(s) ? "traces" : "matching spans");
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted" || this.keepOld("heat", s, err)) return;
      this.answered.heat.question = "";
      this.heatBox.hidden = isQuery(err); // said at the search
      this.heatBox.replaceChildren(failure(err, () => void this.loadHeat(s, signal)));
    } finally {
      if (!signal.aborted) this.heatBox.classList.remove("dim");
    }
  }

  private async loadList(s: Search, signal: AbortSignal) {
    const began = performance.now();
    this.cost.replaceChildren(h("span", { class: "muted" }, "Searching…"));
    try {
      const found = await find(s, this.period, this.limit, signal);
      if (signal.aborted) return;
      this.answered.list = { question: this.question(s), at: Date.now() };
      this.show(found, performance.now() - began);
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      this.cost.replaceChildren();
      if (this.keepOld("list", s, err)) return;
      this.answered.list.question = "";
      if (isQuery(err) && this.s.q) {
        if (!this.edited.on) this.editor.mark({ from: [...s.q].slice(0, (err.position ?? 1) - 1).join("").length, message: [err.message, err.hint].filter(Boolean).join("; ") });
        this.results.replaceChildren(empty({ title: "The search cannot be read", icon: "circle-alert", text: err.message }));
      } else this.results.replaceChildren(failure(err, () => void this.load()));
      this.foot.replaceChildren();
    } finally {
      if (!signal.aborted) { this.results.classList.remove("dim"); this.results.setAttribute("aria-busy", "false"); }
    }
  }

  private question(s: Search) { return JSON.stringify([s, this.limit]); }

  /** When a part that shows the same search could not be renewed it stays, with a sign. */
  private keepOld(part: "heat" | "list", s: Search, e: ApiError): boolean {
    const { question, at } = this.answered[part];
    if (question !== this.question(s) || isQuery(e)) return false;
    if (!this.notes.querySelector(".stale")) { const sign = stale(formatTime(at, { date: false }), e, () => void this.load()); sign.classList.add("stale"); this.notes.append(sign); }
    return true;
  }

  /** Names to choose from. Without them the page works as well. */
  private async names(signal: AbortSignal) {
    const p = new URLSearchParams({ start: new Date(this.period.start).toISOString(), end: new Date(this.period.end).toISOString(), edges: "false", ...(this.s.stream ? { stream: this.s.stream } : {}) });
    const known = await json<Known>(`/query/services?${p}`, { signal }).catch(() => undefined);
    if (!known) return;
    this.service.items = known.services.map((x) => ({ value: x.name, label: called(x.name) }));
    const operations = new Map<string, number>();
    for (const x of known.services) if (!this.s.service || x.name === this.s.service) for (const o of x.operations) operations.set(o.name, (operations.get(o.name) ?? 0) + o.spans);
    this.operation.items = [...operations].sort((a, b) => b[1] - a[1]).map(([value, n]) => ({ value, label: visible(value), detail: count(n) }));
  }

  // ---- showing
  private show(f: Found, ms: number) {
    const st = f.stats, seg = st.segments;
    this.cost.replaceChildren(h("span", { class: f.partial ? "warn" : "status" }, icon(f.partial ? "triangle-alert" : "circle-check", "s"), f.partial ? "Partial" : `Done in ${duration(ms * 1e6)}`), h("span", { class: "hide-s" }, icon("filter", "s"), h("b", null, count(seg.scanned)), ` of ${plural(seg.total, "segment")}${seg.total ? ` (${percent(seg.pruned / seg.total)} pruned)` : ""}`), h("span", { class: "hide-s" }, icon("database", "s"), h("b", null, bytes(st.scanned_bytes)), " read"));
    for (const text of f.partial_reasons ?? []) this.notes.append(banner("warn", `Traces may be missing: ${text}`, [{ text: "Try again", on: () => void this.load() }]));
    for (const text of f.warnings) this.notes.append(banner("info", text));
    const lengths = f.traces.map((t) => Math.max(1, t.duration_ns));
    this.lengths = [Math.min(...lengths), Math.max(...lengths)];
    if (f.traces.length === 0) { this.foot.replaceChildren(); this.grid.rows = []; return this.none(); }
    if (!this.grid.isConnected) this.results.replaceChildren(this.grid);
    this.list = f.traces;
    this.order();
    const cut = f.traces.length >= this.limit;
    this.foot.replaceChildren(h("span", { class: "hide-s" }, h("kbd", null, "J"), h("kbd", null, "K"), " move"), h("span", { class: "hide-s" }, h("kbd", null, "↵"), " open"), h("span", { class: "spacer" }), h("span", { class: "num" }, cut ? `The ${count(f.traces.length)} newest` : plural(f.traces.length, "trace")), cut && this.limit < most ? button({ text: `Up to ${count(most)}`, cls: "sm", on: () => { this.limit = most; void this.load(); } }) : "");
    announce(cut ? `The ${f.traces.length} newest traces` : plural(f.traces.length, "trace"));
  }

  private list: Summary[] = [];

  /** How long the bar of a duration is, in percent: by its logarithm, since durations of one list differ by powers of ten. */
  private share(ns: number) {
    const [shortest, longest] = this.lengths;
    return shortest === longest ? 100 : 8 + (92 * Math.log(Math.max(1, ns) / shortest)) / Math.log(longest / shortest);
  }

  private order() {
    const { key, desc } = this.sort, sign = desc ? -1 : 1;
    const value = (t: Summary) => (key === "duration" ? t.duration_ns : key === "spans" ? t.spans : key === "errors" ? t.errors : Date.parse(t.start));
    this.grid.rows = [...this.list].sort((a, b) => sign * (value(a) - value(b)));
  }

  private none() {
    const filtered = !byRoots(this.s) || this.s.least || this.s.most;
    const actions: Action[] = [{ text: "Look at the last 24 hours", icon: "clock", on: () => this.change({ range: { from: "now-24h", to: "now" } }) }];
    if (filtered) actions.push({ text: "Drop all conditions", icon: "x", primary: true, on: () => { this.editor.value = this.least.value = this.most.value = ""; this.change({ service: "", operation: "", status: "", q: "", least: "", most: "" }); } });
    this.results.replaceChildren(empty({ title: "No traces", icon: "waypoints", text: filtered ? "No span of this time passes all conditions." : "No trace was received in this time.", actions }));
    announce("No traces");
  }

  private nothingYet() {
    this.heatBox.hidden = true;
    this.cost.replaceChildren();
    this.results.replaceChildren(empty({ title: "No traces yet", icon: "waypoints", text: "Traces appear here as soon as an OpenTelemetry SDK or Collector sends them.", actions: [{ text: "How to send traces", icon: "plug", primary: true, on: () => { location.href = orgPath("send"); } }, { text: "Look again", icon: "refresh-cw", on: () => location.reload() }] }));
  }

  private compare(b: Box) {
    this.comparing?.abort();
    this.comparing = new AbortController();
    void compare(this.side, this.s, b, this.period, { filter: (q) => this.change({ q: [this.editor.value.trim(), q].filter(Boolean).join(" ") }), close: () => this.closeCompare() }, this.comparing.signal);
    this.side.parentElement?.classList.add("with-drawer");
  }

  private closeCompare() {
    this.comparing?.abort();
    this.side.hidden = true;
    this.side.parentElement?.classList.remove("with-drawer");
  }
}

/** The order of the list that the address asks for. */
function order() {
  const by = read().get("sort") ?? "";
  return { key: by.replace("-", "") || "start", desc: !by || by.startsWith("-") };
}

const input = (label: string, placeholder: string) => h("input", { class: "in", "aria-label": label, placeholder, spellcheck: "false", autocomplete: "off" });
const spaceless = (t: string) => t.replace(/^[<>]=?\s*/, "").replace(/\s+/g, "");
const isQuery = (e: ApiError) => e.status === 400 || e.status === 422;

export const open = () => new TracesPage($("#app")!);
