// The Logs page: it owns the address, runs the query, and hands what comes to the list, the histogram, the fields and the drawer.
import { announce } from "../lib/a11y.ts";
import { explain, json } from "../lib/api.ts";
import { boot } from "../lib/boot.ts";
import { h } from "../lib/dom.ts";
import { typing } from "../lib/keys.ts";
import { confirm } from "../lib/layers.ts";
import { splitter } from "../lib/resize.ts";
import { banner } from "../lib/states.ts";
import { fromSpan, useZone } from "../lib/time.ts";
import { keepTyped, kept, onNavigate, type Params, read, shorten, toQuery, typed, write } from "../lib/url.ts";
import { MsEditor } from "../el/editor.ts";
import { columnsOf, usual } from "./columns.ts";
import { costIdle } from "./cost.ts";
import { Drawer, type DrawerPage } from "./drawer.ts";
import { Fields, type FieldsPage } from "./fields.ts";
import { describe, type Filter, type Op, same, where } from "./filters.ts";
import { Head } from "./head.ts";
import { bindKeys } from "./keys.ts";
import { idOf, ObjectRow, type Row } from "./record.ts";
import { Results } from "./results.ts";
import { Runner } from "./runner.ts";
import { allParams, logStreams, type Mode, params, readState, remember, type State } from "./state.ts";
import { Tail } from "./tail.ts";

export class LogsPage extends Runner implements DrawerPage, FieldsPage {
  state: State;
  compare = false; // patterns are compared with those of the range before
  readonly widths: Record<string, number> = Object.create(null) as Record<string, number>; // by field, which may be called "constructor"
  readonly head: Head;
  readonly results: Results;
  readonly fields: Fields;
  readonly drawer: Drawer;
  readonly tail: Tail;
  editor: MsEditor;

  constructor(protected readonly app: HTMLElement) {
    super();
    const { state, notes } = readState(read());
    this.state = state;
    useZone(state.tz);
    this.editor = this.makeEditor();
    this.head = new Head({
      mode: (m) => void this.setMode(m), views: () => void this.views(), history: () => void import("./historylist.ts").then((m) => m.historyList(this)), share: () => void this.share(), live: () => this.toggleLive(),
      copyMenu: (b) => void import("./copymenu.ts").then((m) => m.copyMenu(this, b)), run: () => void this.run(), stop: () => this.stop(), editFilter: (i, chip) => void import("./filterform.ts").then((m) => m.filterForm(this, chip, i)), removeFilter: (i) => this.removeFilter(i), addFilter: (b) => void import("./filterform.ts").then((m) => m.filterForm(this, b)),
    }, this.editor);
    this.results = new Results(this);
    this.fields = new Fields(this);
    this.drawer = new Drawer(this);
    this.tail = new Tail(this);
    const explore = h("div", { class: "explore" }, this.fields.el, splitter(this.fields.el, { min: 160, max: 420, size: 216, key: "logs.fields", label: "Width of the fields" }), this.results.el, splitter(this.drawer.el, { min: 280, max: 900, size: 380, key: "logs.drawer", label: "Width of the details", edge: "left" }), this.drawer.el);
    app.replaceChildren(...this.head.nodes, explore);
    app.classList.add("logs");
    this.listen();
    this.showState();
    for (const n of notes) this.note(n);
    bindKeys(this);
    const text = typed(), link = read().get("s");
    if (link) { void this.openLink(link).then(() => this.retype(text)); return; }
    if (this.state.stream || this.state.mode === "sql") void this.run("replace", { reload: true });
    else void this.nothingYet();
    this.retype(text);
  }

  private makeEditor(): MsEditor {
    const e = new MsEditor(), sql = this.state.mode === "sql";
    e.label = sql ? "SQL statement" : "Search";
    e.placeholder = sql ? "SELECT … FROM …" : matchMedia("(max-width:720px)").matches ? "Words, field:value" : "Words, \"a phrase\", field:value, -\u2060field:value";
    e.multiline = sql;
    e.language = sql ? "sql" : "search";
    e.value = this.state.q;
    e.complete = (text, cursor) => import("./complete.ts").then((m) => m.complete(this, text, cursor));
    return e;
  }

  private listen() {
    const app = this.app, on = (type: string, f: (d: any, e: Event) => void) => app.addEventListener(type, (e) => f((e as CustomEvent).detail, e));
    on("ms:run", () => void this.run());
    on("ms:change", (d, e) => { if (e.target === this.head.stream) this.setStream(d.value); else if (e.target === this.editor) this.onType(); });
    on("ms:range", (d) => this.setRange("from" in d ? d : fromSpan(d)));
    on("ms:zoomout", () => this.head.time.zoomOut());
    on("ms:compare", (d) => { this.state.view = "patterns"; this.compare = true; this.setRange(fromSpan(d)); });
    on("ms:only", (d) => { if (this.roles.level) this.setFilter(this.roles.level, [{ field: this.roles.level, op: "is", values: d.values }]); });
    on("ms:tz", (d) => { this.state.tz = d.tz ?? d; useZone(this.state.tz); this.writeURL("push"); this.redraw(); });
    on("ms:refresh", (d) => { if (d.now) void this.run("none", { refresh: true }); else { this.state.refresh = d.every ?? ""; this.writeURL("replace"); } });
    on("ms:select", (d) => { if (this.drawer.isOpen) this.drawer.open(d.row); });
    on("ms:open", (d) => this.openRow(d.row, d.by === "key"));
    on("ms:more", () => void this.more());
    on("ms:sort", (d) => { this.state.sort = d; void this.run(); });
    on("ms:columns", (d) => { Object.assign(this.widths, d.widths); this.keepWidths(); this.setColumns(d.order, true); });
    onNavigate(() => this.navigated());
    addEventListener("pagehide", () => { this.leave(); this.tail.stop(true); });
    document.addEventListener("ms:back", () => { if (this.results.failed?.code === "offline") void this.run("none"); });
  }

  // ---- the address
  writeURL(how: "push" | "replace") {
    const all = allParams(this.state);
    write(all, how);
    shorten(params(this.state), Object.keys(all));
  }

  private navigated() {
    const before = this.state, text = typed(), { state } = readState(read()), key = (s: State) => JSON.stringify([s.stream, s.mode, s.q, s.filters, s.range, s.sort]);
    this.state = state;
    useZone(state.tz);
    if (before.mode !== state.mode) this.replaceEditor();
    this.editor.value = state.q;
    this.showState();
    this.retype(text);
    if (key(before) !== key(state)) void this.run("none");
    else { this.redraw(); this.results.show(state.view); void this.openSelected(); }
  }

  private async openLink(id: string) {
    try {
      this.applyParams(await kept(id, this.asked.signal), "replace");
    } catch (e) {
      const err = explain(e);
      this.note(err.status === 404 ? "This link is not known: it was deleted, belongs to another organization, or went 90 days without use." : `The link cannot be opened now: ${err.message}`);
      void this.run("none", { reload: true });
    }
  }

  /** Shows what an address's parameters say: of a link, a saved view or the history. */
  applyParams(p: Params, how: "push" | "replace" = "push", run = true) {
    const { state, notes } = readState(toQuery(p));
    this.state = state;
    this.generated = undefined;
    useZone(state.tz);
    this.replaceEditor();
    this.showState();
    for (const n of notes) this.note(n);
    if (run) void this.run(how);
    else this.wait(how);
  }

  private views() {
    return import("../share/views.ts").then((m) => m.viewsDialog({ page: "logs", state: () => params({ ...this.state, sel: "", refresh: "" }), open: (p) => this.applyParams(p) }));
  }

  private share() {
    const { state: s, span } = this;
    return import("../share/dialog.ts").then((m) => m.shareDialog({
      range: s.range, frozen: span && { from: span.start, to: span.end }, text: `${s.stream}: ${[s.q.trim(), ...s.filters.map(describe)].filter(Boolean).join(", ") || "all records"}`, params: (range, frozen) => params({ ...s, range, refresh: frozen ? "" : s.refresh }),
    }));
  }

  private showState() {
    const s = this.state, streams = logStreams();
    this.head.setMode(s.mode);
    this.head.setFilters(s.filters);
    this.head.stream.items = (s.stream && !streams.includes(s.stream) ? [s.stream, ...streams] : streams).map((value) => ({ value, label: value }));
    this.head.stream.value = s.stream;
    this.head.time.value = s.range;
    this.head.time.tz = s.tz;
    this.head.time.refresh = s.refresh;
    this.results.show(s.view);
    try { Object.assign(this.widths, JSON.parse(localStorage.getItem(`ms.logs.widths.${s.stream}`) ?? "{}")); } catch { /* the usual widths */ }
  }

  note(text: string) { const b = banner("info", text, [{ text: "Close", on: () => b.remove() }]); this.head.notes.append(b); }

  // ---- what the reader changes
  /** The address and the state stay those of what was run. What is typed beside them is kept with the entry of the browser's history. */
  private onType() {
    this.head.edited.on = this.edited;
    clearTimeout(this.typed);
    this.typed = window.setTimeout(() => { keepTyped(this.edited ? this.editor.value : undefined); void import("./estimate.ts").then((m) => m.estimate(this)); }, 300);
  }

  /** Puts back what was typed and not run. */
  private retype(text: string | undefined) {
    if (text === undefined) return;
    this.editor.value = text;
    this.onType();
  }

  setStream(stream: string) {
    this.state = { ...this.state, stream, cols: undefined, sel: "" };
    if (this.state.mode === "sql" && this.editor.value === this.generated?.sql) this.editor.value = this.statementText();
    remember(stream);
    this.showState();
    void this.run();
  }

  setRange(range: { from: string; to: string }) {
    this.state.range = { from: range.from, to: range.to };
    this.head.time.value = this.state.range;
    void this.run();
  }

  filtersOf(field: string) { return this.state.filters.filter((f) => f.field === field); }

  filter(field: string, op: Op, values: string[]) {
    if (this.state.mode === "sql") {
      this.editor.insert(` ${where("", [{ field, op, values }], this.columns?.types)} `);
      this.editor.focus();
      return;
    }
    const f = { field, op, values };
    if (this.state.filters.some((x) => same(x, f))) return;
    const opposite = op === "is" ? "not" : op === "not" ? "is" : "";
    this.setFilters([...this.state.filters.filter((x) => !(x.field === field && x.op === opposite && x.values.join() === values.join())), f], `Filter added: ${describe(f)}`);
  }

  setFilter(field: string, list: Filter[]) { this.setFilters([...this.state.filters.filter((f) => f.field !== field), ...list], list.length ? `Filtered by ${list.map(describe).join(", ")}` : `Filters of ${field} removed`); }
  removeFilter(i: number) { const f = this.state.filters[i]; if (f) this.setFilters(this.state.filters.filter((_, k) => k !== i), `Filter removed: ${describe(f)}`); }

  setFilters(list: Filter[], said: string) {
    this.state.filters = list;
    this.head.setFilters(list);
    announce(said); // the chips show it
    void this.run();
  }

  pin(field: string) { this.fields.pin(field); this.drawer.refresh(); }
  pinned(field: string) { return this.fields.pinned.includes(field); }
  usualPins() { return [this.roles.level, this.roles.service].filter((f): f is string => f !== undefined); }
  closeFields() { this.results.showFields(false); }
  topValues(field: string) { this.results.showFields(true); void this.fields.reveal(field); }

  get cols() { return this.state.cols ?? usual(this.roles); }
  hasColumn(field: string) { return this.cols.includes(field); }
  toggleColumn(field: string) {
    const now = this.cols, at = now.indexOf(this.roles.message ?? "*");
    this.setColumns(now.includes(field) ? now.filter((c) => c !== field) : at < 0 ? [...now, field] : now.toSpliced(at, 0, field));
  }

  setColumns(cols: string[] | undefined, quiet = false) {
    this.state.cols = cols && cols.join() !== usual(this.roles).join() ? cols : undefined;
    this.writeURL("replace");
    const missing = this.wide && (cols ?? []).some((c) => this.columns && !this.columns.at.has(c));
    if (missing) void this.run("none");
    else if (!quiet) this.redraw();
    this.drawer.refresh();
  }

  keepWidths() { try { localStorage.setItem(`ms.logs.widths.${this.state.stream}`, JSON.stringify(this.widths)); } catch { /* for this page only */ } }

  /** Draws the list anew, after its columns, the zone or what is marked has changed. */
  redraw() { this.results.setColumns(columnsOf({ roles: this.roles, marks: this.marks, cols: this.state.cols ?? (this.plainAnswer ? this.columns!.list.slice(0, 100).map((c) => c.name) : undefined), wrap: this.state.wrap, widths: this.widths, withDate: this.withDate, types: this.columns?.types })); this.results.refresh(); this.drawer.refresh(); }

  private get withDate() { return this.span !== undefined && Date.parse(this.span.end) - Date.parse(this.span.start) > 20 * 3600e3; }
  /** Rows of a statement that are no records: each column is shown as it is. */
  private get plainAnswer() { return this.state.mode === "sql" && this.columns !== undefined && !(this.columns.at.has("_timestamp") && this.columns.list.length > 3); }

  private replaceEditor() { this.editor = this.makeEditor(); this.head.setEditor(this.editor); this.head.setMode(this.state.mode); }

  async setMode(mode: Mode) {
    if (mode === this.state.mode) return;
    const back = this.generated;
    if (mode === "sql") {
      const q = this.editor.value;
      try {
        const t = await this.translate(q);
        this.condition = t?.filter ?? "";
        this.generated = { sql: this.statementText(), q, filters: this.state.filters, condition: this.condition };
      } catch (e) { this.showProblem(explain(e)); return; }
      Object.assign(this.state, { mode, q: this.generated.sql, filters: [] });
    } else {
      if (back?.sql !== this.editor.value && this.editor.value.trim() && !(await confirm("Leave the statement?", back ? "It was edited, so it cannot be turned back into a search. Your search as it was comes back; the statement stays in History if it was run." : "A statement cannot be turned into a search. It stays in History if it was run.", { action: "Back to search" }))) return;
      Object.assign(this.state, { mode, q: back?.q ?? "", filters: back?.filters ?? [] });
    }
    this.replaceEditor();
    this.showState();
    this.editor.focus();
    void this.run();
  }

  // ---- records
  openRow(row: Row, focus: boolean) {
    this.drawer.open(row, { focus });
    this.app.classList.add("detail");
    this.state.sel = idOf(row);
    this.writeURL("replace");
  }

  step(by: number) { this.results.grid.move(by); const row = this.results.grid.current; if (row) this.openRow(row, false); }

  closed() {
    this.app.classList.remove("detail");
    this.state.sel = "";
    this.writeURL("replace");
    this.results.grid.scroller.focus({ preventScroll: true });
  }

  /** Opens the record that the address names: in the list, or else asked for by its time. */
  protected async openSelected() {
    const id = this.state.sel, row = this.drawer.row;
    if (!id) { if (this.drawer.isOpen && !(row && this.rows.includes(row))) { const now = row && this.rows.find((r) => idOf(r) === idOf(row)); if (now) this.drawer.open(now); } return; }
    if (row && idOf(row) === id) return;
    const i = this.rows.findIndex((r) => idOf(r) === id);
    if (i >= 0) { this.results.grid.select(i, { quiet: true }); this.openRow(this.rows[i]!, false); return; }
    const [at, hash] = id.split("~");
    try {
      const { target } = await json<{ target: Record<string, unknown>[] }>("/query/context", { body: { stream: this.state.stream, at, before: 0, after: 0 }, signal: this.asked.signal });
      const list = target.map((o) => new ObjectRow(o)), found = list.find((r) => idOf(r).endsWith(`~${hash}`)) ?? list[0];
      if (found) { this.openRow(found, false); return; }
      this.note("The record of this link is not there any more.");
    } catch (e) {
      if (explain(e).code !== "aborted") this.note("The record of this link cannot be shown: its time cannot be read, or it is not there any more.");
    }
  }

  linkTo(row: Row) {
    const s = { ...this.state, sel: idOf(row), ...(this.span ? { range: { from: this.span.start, to: this.span.end } } : {}) };
    return `${location.origin}${location.pathname}?${toQuery(params(s))}`;
  }

  explain() { void import("./inspect.ts").then((m) => m.inspect(this)); }

  toggleLive() {
    if (this.tail.on) this.tail.stop();
    else { this.abandon(); this.state.view = "events"; this.results.show("events"); this.tail.start(); }
  }

  toggleWrap() { this.state.wrap = !this.state.wrap; this.writeURL("replace"); this.redraw(); this.results.setWrap(this.state.wrap); }

  /** Escape: stops the query, else closes the drawer, else leaves the field. */
  escape(): boolean {
    if (this.running) this.stop();
    else if (this.tail.on && !typing(document.activeElement)) this.tail.stop();
    else if (typing(document.activeElement)) this.results.grid.scroller.focus();
    else if (this.drawer.isOpen) this.drawer.close();
    else return false;
    return true;
  }

  protected async nothingYet() {
    this.app.removeAttribute("aria-busy");
    costIdle(this.head.cost, "No stream has received data in this organization.");
    const m = await import("./first.ts");
    m.first(this.results.stage(), this.asked.signal, (stream) => { boot.streams.unshift({ signal: "logs", name: stream }); this.setStream(stream); });
  }
}
