// The results: histogram, tabs, the list of records and the states that stand in for them. Each part fails and is tried again on its own.
import { type ApiError, explain, json } from "../lib/api.ts";
import { boot } from "../lib/boot.ts";
import { $, button, h } from "../lib/dom.ts";
import { ago, bytes, count, plural } from "../lib/format.ts";
import { over } from "../lib/layers.ts";
import { setPrefs } from "../lib/prefs.ts";
import { banner, empty, failure, skeleton, type Action } from "../lib/states.ts";
import { formatTime, now, toApi, zone } from "../lib/time.ts";
import { type Column, Grid } from "../el/grid.ts";
import { Histogram } from "../el/histogram.ts";
import { labelOf } from "./columns.ts";
import { blank, type Buckets, bucketWidth, countOn, moment, seriesName, toData } from "./counts.ts";
import { fieldTable, messageBox } from "./detail.ts";
import { fetchWhole } from "./drawer.ts";
import type { LogsPage } from "./page.ts";
import { messageOf, type Row, rowLevel, shown, toJSON } from "./record.ts";
import type { View } from "./state.ts";

const views: [View, string][] = [["events", "Events"], ["patterns", "Patterns"], ["chart", "Chart"]];

export class Results {
  readonly grid = new Grid<Row>();
  readonly histogram = new Histogram();
  failed: ApiError | undefined; // what stands in for the list
  private histBox = h("div", { class: "histbox" }, this.histogram);
  private counting: AbortSignal | undefined; // of the run whose histogram was asked for last
  private banners = h("div", { class: "banners" });
  private body = h("div", { class: "rbody" });
  private other = h("div", { class: "rother", hidden: true });
  private footText = h("span", { class: "ml num", role: "status" });
  private foot_ = h("div", { class: "lfoot" });
  private wrapButton = button({ text: "Wrap", icon: "wrap-text", cls: "ghost sm lb", "aria-pressed": "false", on: () => this.page.toggleWrap() });
  readonly liveBar = h("div", { class: "livebar", hidden: true });
  private lifted: (() => void) | undefined; // puts the fields back from over the results
  private tabs: HTMLButtonElement[];
  readonly el: HTMLElement;

  constructor(private page: LogsPage) {
    this.tabs = views.map(([id, text]) => h("button", { type: "button", role: "tab", id: `view-${id}`, "aria-controls": "view-panel", "aria-selected": "false", onclick: () => { page.state.view = id; page.writeURL("push"); this.show(id); } }, text));
    const fieldsButton = button({ icon: "list", label: "Fields", cls: "ghost icon sm fieldsbtn", on: () => this.showFields() });
    const columns = button({ text: "Columns", icon: "columns-3", cls: "ghost sm hide-s lb", "aria-haspopup": "dialog", on: () => void import("./columnsmenu.ts").then((m) => m.columnsMenu(page)) });
    const density = button({ text: "Density", icon: "rows-3", cls: "ghost sm hide-s lb", on: () => void setPrefs({ density: ({ compact: "normal", normal: "comfortable", comfortable: "compact" } as const)[boot.prefs.density ?? "normal"] }) });
    const out = button({ text: "Export", icon: "download", cls: "ghost sm lb out", "aria-haspopup": "dialog", on: () => void import("./export.ts").then((m) => m.exportDialog(page)) });
    const bar = h("div", { class: "lbar" }, fieldsButton, h("div", { class: "seg", role: "tablist", "aria-label": "View" }, this.tabs), h("span", { class: "spacer" }), this.wrapButton, columns, density, h("span", { class: "sepv hide-s" }), out);
    const k = (text: string, ...keys: string[]) => h("span", { class: "hide-s" }, keys.map((x) => h("kbd", null, x)), text);
    this.foot_.append(k("move", "J", "K"), k("details", "↵"), k("expand", "E"), k("context", "C"), k("filter", "+", "−"), this.footText);
    this.el = h("section", { class: "results", "aria-label": "Results" }, this.histBox, bar, this.liveBar, h("div", { class: "rpanel", id: "view-panel", role: "tabpanel", "aria-labelledby": "view-events" }, this.banners, this.body, this.other), this.foot_);
    this.setUpGrid();
    this.histogram.comparable = this.histogram.filterable = true;
    this.histogram.time = (ms, o) => formatTime(ms, { date: o.date === true, seconds: o.seconds, ms: o.ms === true, zone: zone() });
    this.histogram.peek = (start, end) => this.peek(start, end);
    this.body.append(skeleton(14));
  }

  private setUpGrid() {
    const g = this.grid, p = this.page;
    g.name = "Records";
    g.rowClass = (r) => rowLevel(r, p.roles);
    g.rowLabel = (r) => labelOf(r, p.roles);
    g.rowText = (r) => { const m = messageOf(r, p.roles); return m === null || m === undefined ? toJSON(r) : `${r.time} ${rowLevel(r, p.roles)} ${typeof m === "string" ? m : JSON.stringify(m)}`.replace(/ +/g, " "); };
    g.detail = (r, box) => {
      box.append(messageBox(r, p.roles, p.marks) ?? "", fieldTable(r, p.marks, p));
      if (r.cut) void fetchWhole(p.stream, r).then((full) => { box.replaceChildren(messageBox(full, p.roles, p.marks) ?? "", fieldTable(full, p.marks, p)); g.remeasure(); }).catch(() => { /* what was cut is shown as it is */ });
    };
  }

  // ---- views
  show(view: View) {
    for (const b of this.tabs) b.setAttribute("aria-selected", String(b.id === `view-${view}`));
    $("#view-panel", this.el)!.setAttribute("aria-labelledby", `view-${view}`);
    this.el.dataset.view = view;
    this.body.hidden = view !== "events";
    this.other.hidden = view === "events";
    if (view === "events") { this.other.replaceChildren(); this.grid.refresh(); return; }
    const signal = this.page.viewSignal();
    const load = view === "patterns" ? import("./patterns.ts").then((m) => m.patterns(this.other, this.page, signal)) : import("./chart.ts").then((m) => m.chart(this.other, this.page, signal));
    load.catch((e) => { const err = explain(e); if (err.code !== "aborted") this.other.replaceChildren(failure(err, () => this.show(view))); });
  }

  /** Where there is little room the fields lie over the results; else they are put away and back. */
  showFields(on?: boolean) {
    const box = this.el.parentElement!, small = matchMedia("(max-width: 1180px)").matches, cls = small ? "showfields" : "nofields";
    if (!small) { box.classList.toggle(cls, on === undefined ? undefined : !on); return; }
    const open = on ?? !box.classList.contains(cls);
    if (open === box.classList.contains(cls)) return;
    box.classList.toggle(cls, open);
    this.lifted?.();
    this.lifted = open ? over(this.page.fields.el, () => this.showFields(false)) : undefined;
  }

  // ---- the list
  setColumns(list: Column<Row>[]) { this.grid.columns = list; }
  setSort(s: { key: string; desc: boolean } | undefined) { this.grid.sort = s; }
  setWrap(on: boolean) { this.grid.wrap = on; this.wrapButton.setAttribute("aria-pressed", String(on)); }
  refresh() { this.grid.refresh(); this.histogram.data = this.histogram.data; }

  /** Whether the reader has gone down the list, so that a refresh must not take him back to its top. */
  get keepPlace() { return !this.grid.atTop; }

  setRows(rows: Row[], keep = false) {
    this.failed = undefined;
    if (this.grid.parentElement !== this.body) this.body.replaceChildren(this.grid);
    this.setWrap(this.page.state.wrap);
    if (keep) this.grid.update(rows); else this.grid.rows = rows;
    this.dim(false);
    this.foot();
  }

  /** Rows after those there are. */
  add(rows: Row[]) { this.grid.appendRows(rows); this.foot(); }

  foot(text?: string) {
    const n = this.page.rows.length, all = this.histogram.data?.total;
    this.footText.textContent = text ?? (n === 0 ? "" : all !== undefined && all > n && !this.page.tail.on && this.page.where() !== undefined ? `${count(n)} of ${this.histogram.data?.atLeast ? "≥ " : ""}${count(all)} loaded` : `${plural(n, "row")}`);
  }

  moreFailed(e: ApiError, retry: () => void) { this.footText.replaceChildren(`More could not be loaded: ${e.message} `, button({ text: "Try again", cls: "sm", on: retry })); }

  // ---- states
  begin() {
    this.banners.replaceChildren();
    this.failed = undefined;
    this.busy(true);
    if (this.grid.parentElement !== this.body) this.body.replaceChildren(skeleton(14));
  }

  dim(on: boolean) { this.grid.classList.toggle("dim", on); }
  warn(text: string) { this.banners.append(banner("info", text)); }

  partial(text: string, again: () => void) {
    this.banners.prepend(banner("warn", text, [{ text: "Run again", icon: "refresh-cw", on: again }]));
    if (this.histogram.data) this.histogram.data = { ...this.histogram.data, atLeast: true };
    this.foot();
  }

  /** Whether what is shown is going to be replaced by what a run finds. */
  busy(on: boolean) { this.el.setAttribute("aria-busy", String(on)); }

  finished() {
    if (this.page.rows.length === 0) void this.nothing();
  }

  fail(e: ApiError, retry: () => void) {
    this.failed = e;
    const more: Action[] = this.page.state.filters.length ? [{ text: "Remove the last filter", icon: "filter", on: () => this.page.removeFilter(this.page.state.filters.length - 1) }] : [];
    this.body.replaceChildren(failure(e, retry, more));
    if (e.status === 400 || e.status === 404) this.histogram.data = undefined;
    this.foot("");
  }

  stopped(again: () => void) { this.stage().append(empty({ title: "Stopped before the first row", icon: "square", text: "The query is as you typed it.", actions: [{ text: "Run", icon: "play", primary: true, on: again }] })); }

  waiting(run: () => void) {
    this.show("events");
    this.banners.replaceChildren();
    this.histogram.data = undefined;
    this.stage().append(empty({ title: "Not run yet", icon: "history", text: "The query, its filters and its time are as they were.", actions: [{ text: "Run", icon: "play", primary: true, on: run }] }));
  }

  tooLarge(size: number, run: () => void) {
    this.stage().append(empty({ title: `This query would read ${bytes(size)}`, icon: "database", text: "Opening a page does not start a query of more than 5 GB. Narrow the time or add a filter, or run it as it is.", actions: [{ text: "Run", icon: "play", primary: true, on: run }] }));
  }

  /** Empties the list's place for something else. */
  stage(): HTMLElement {
    this.body.replaceChildren();
    this.foot("");
    return this.body;
  }

  /** No record: what was looked for, where the nearest data is, and how to get there. */
  private async nothing() {
    const p = this.page, s = p.state, acts: Action[] = [];
    if (p.where() === undefined) { this.stage().append(empty({ title: "The statement has no rows", text: "It ran without an error." })); return; }
    const within = p.span ? `${formatTime(p.span.start)} to ${formatTime(p.span.end)}` : "";
    const looked = [s.q.trim() && `“${shown(s.q.trim(), 120)}”`, s.filters.length && plural(s.filters.length, "filter")].filter(Boolean).join(" and ");
    const note = h("p", { class: "t2" });
    if (s.filters.length) acts.push({ text: "Remove the last filter", icon: "filter", on: () => p.removeFilter(s.filters.length - 1) });
    if (s.q.trim()) acts.push({ text: "Clear the search", icon: "x", on: () => { p.editor.value = ""; void p.run(); } });
    const box = h("div", { class: "rempty" }), draw = () => box.replaceChildren(empty({ title: "No records match", text: `Stream ${shown(s.stream, 80)}, ${within}${looked ? `: ${looked}` : ""}.`, extra: note, actions: acts }));
    this.stage().append(box);
    draw();
    try {
      const st = await json<{ start?: string; end?: string; rows: number }>(`/streams/logs/${encodeURIComponent(s.stream)}`, { signal: p.viewSignal() });
      if (!st.end || !st.rows) { note.textContent = "Nothing of this stream is stored yet."; return; }
      const end = Date.parse(st.end), start = Date.parse(st.start ?? st.end);
      note.textContent = `Newest record in this stream: ${ago(end, now())}.`;
      if (p.span && (end < Date.parse(p.span.start) || start > Date.parse(p.span.end))) acts.unshift({ text: "Widen the time to it", icon: "zoom-out", primary: true, on: () => p.setRange({ from: new Date(end - 15 * 60_000).toISOString(), to: now() - end < 3600e3 ? "now" : new Date(end + 1).toISOString() }) });
      if (box.isConnected) draw();
    } catch { /* the nearest data is an extra */ }
  }

  // ---- histogram
  async loadHistogram(signal: AbortSignal) {
    const p = this.page, sel = p.selection();
    const on = p.where() !== undefined && sel !== undefined;
    this.histBox.hidden = !on;
    if (!on) { this.histogram.data = undefined; return; }
    const start = Date.parse(sel.time_range.start), end = Date.parse(sel.time_range.end), width = bucketWidth(end - start);
    $(".hg-fail", this.histBox)?.remove();
    this.counting = signal;
    this.histogram.classList.add("dim");
    this.histBox.setAttribute("aria-busy", "true");
    try {
      const a = await json<Buckets>("/query/histogram", { body: { ...sel, interval: `${Math.max(1, Math.round(width))}ms`, ...(p.roles.level ? { by: p.roles.level } : {}) }, signal });
      this.histogram.data = toData(a, width);
      this.grid.total = a.total;
      this.foot();
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      this.histogram.data = undefined;
      this.histBox.append(h("div", { class: "hg-fail", role: "status" }, h("span", null, `The histogram failed: ${err.message}`), button({ text: "Try again", cls: "sm", on: () => void this.loadHistogram(signal) })));
    } finally {
      if (this.counting === signal) { this.histogram.classList.remove("dim"); this.histBox.setAttribute("aria-busy", "false"); }
    }
  }

  /** Counts records that arrived while following; `missed` are not among them. */
  countOn(rows: readonly Row[], missed: boolean) {
    const p = this.page;
    if (this.histBox.hidden) return;
    const was = this.histogram.data ?? blank(p.span ?? toApi(p.state.range));
    const arrived = rows.map((r) => ({ t: moment(r.time), ...seriesName(p.roles.level ? r.get(p.roles.level) : undefined) }));
    const d = countOn(was, arrived, now());
    if (d !== was || (missed && !was.atLeast)) this.histogram.update(missed ? { ...d, atLeast: true } : d);
  }

  private async peek(start: number, end: number): Promise<string> {
    const p = this.page, sel = p.selection();
    if (!sel) return "";
    const known = p.rows.find((r) => { const t = moment(r.time); return t >= start && t < end; });
    return known ? shown(messageOf(known, p.roles), 160) : "";
  }
}
