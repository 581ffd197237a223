// A dashboard: the page's state, its head, and editing with undo.
import { TimeControl } from "../el/time.ts";
import { type ApiError, explain } from "../lib/api.ts";
import { remember } from "../dashboards/recent.ts";
import { may, orgPath } from "../lib/boot.ts";
import { button, crumb, h, icon, visible } from "../lib/dom.ts";
import { bind } from "../lib/keys.ts";
import { confirm, dialog, menu, toast } from "../lib/layers.ts";
import { banner, empty, failure, skeleton, told } from "../lib/states.ts";
import { fromSpan, now, parseRange, isFault, type Range, resolve, useZone } from "../lib/time.ts";
import { onNavigate, read, write } from "../lib/url.ts";
import { Board } from "./board.ts";
import { saveFile } from "./file.ts";
import * as model from "./model.ts";
import type { Body, Kept, Panel } from "./model.ts";
import type { Host } from "./panel.ts";
import { parseStep } from "./query.ts";
import { type Chosen, resolveAll, type Window } from "./vars.ts";
import { variableRow } from "./varrow.ts";

const UNDO = 50;
const points = 2; // pixels of width for each point of a series

export class DashboardPage implements Host {
  editing = false;
  chosen: readonly Chosen[] = [];
  range: Range = { from: "now-1h", to: "now" };
  private id = decodeURIComponent(location.pathname.split("/").at(-1)!);
  private kept: Kept | undefined; // undefined: it was never saved
  private body: Body = model.emptyBody();
  private shared = false;
  private saved = ""; // the body as the node has it
  private saving = false;
  private undo: string[] = [];
  private redo: string[] = [];
  private at = now(); // the time that "now" means in this run
  private readonly head = h("div", { class: "pagehead" });
  private readonly notes = h("div");
  private readonly vars = h("div", { class: "d-vars", role: "group", "aria-label": "Variables", hidden: true });
  private readonly time = new TimeControl();
  private readonly board: Board;
  private readonly scroll = h("div", { class: "scroll d-scroll" });

  constructor(private root: HTMLElement) {
    this.board = new Board(h("div"), this, (panels) => this.change({ ...this.body, panels }));
    this.time.addEventListener("ms:range", (e) => this.setRange((e as CustomEvent<Range>).detail));
    this.time.addEventListener("ms:tz", (e) => { write({ tz: (e as CustomEvent<{ tz: string }>).detail.tz }); useZone((e as CustomEvent<{ tz: string }>).detail.tz); this.run(); });
    this.time.addEventListener("ms:refresh", (e) => { const d = (e as CustomEvent<{ every?: string; now?: boolean }>).detail; if (d.now) this.run(); else write({ refresh: d.every }); });
    this.board.el.addEventListener("ms:range", (e) => { if (e.target !== this.time) this.setRange(fromSpan((e as CustomEvent<{ start: number; end: number }>).detail)); });
  }

  async start() {
    document.getElementById("page-title")?.remove();
    this.scroll.append(this.vars, this.board.el);
    this.root.replaceChildren(this.head, this.notes, this.scroll);
    this.root.removeAttribute("aria-busy");
    this.keys();
    onNavigate(() => { if (this.readUrl()) void this.choose(); });
    addEventListener("beforeunload", (e) => { if (this.dirty) e.preventDefault(); });
    if (this.id === "new") { this.editing = true; this.open(this.body, undefined); return; }
    this.scroll.prepend(skeleton(6));
    await this.load();
  }

  private async load() {
    try {
      const k = await model.load(this.id);
      this.scroll.querySelector(".skel")?.remove();
      this.open(k.body, k);
      remember(k.id);
    } catch (e) {
      const err = explain(e);
      this.head.replaceChildren(h("h1", null, "Dashboard"));
      this.scroll.replaceChildren(err.status === 404 ? empty({ title: "There is no such dashboard", text: "It may have been deleted, or it is private to somebody else.", icon: "layout-dashboard", actions: [{ text: "All dashboards", primary: true, on: () => { location.href = orgPath("dashboards"); } }] }) : failure(err, () => { this.scroll.replaceChildren(this.vars, this.board.el); void this.load(); }));
    }
  }

  private open(body: Body, kept: Kept | undefined) {
    this.kept = kept;
    this.shared = kept?.shared ?? false;
    this.body = { ...body, panels: body.panels ?? [] };
    this.saved = kept ? JSON.stringify(this.body) : "";
    this.undo = [];
    this.redo = [];
    this.readUrl();
    this.drawHead();
    void this.choose();
  }

  private get dirty() { return this.editing && JSON.stringify(this.body) !== (this.saved || JSON.stringify(model.emptyBody())); }

  /** Reads what the address says; false: it says nothing new. */
  private readUrl(): boolean {
    const q = read();
    const from = q.get("from") ?? this.body.time?.from ?? "now-1h", to = q.get("to") ?? this.body.time?.to ?? "now";
    const r = parseRange(`${from} to ${to}`);
    this.range = isFault(r) ? { from: "now-1h", to: "now" } : r;
    this.notes.replaceChildren(...(isFault(r) ? [banner("warn", `The time in the address is not understood (${r.error}); the last hour is shown.`)] : []));
    useZone(q.get("tz"));
    this.time.value = this.range;
    this.time.tz = q.get("tz") ?? "";
    this.time.refresh = q.get("refresh") ?? this.body.refresh ?? "";
    return true;
  }

  private setRange(r: Range) {
    this.range = { from: r.from, to: r.to };
    this.time.value = this.range;
    write({ from: r.from, to: r.to });
    void this.choose();
  }

  window(width: number): Window {
    const span = resolve(this.range, { now: this.at });
    const least = this.chosen.find((c) => c.v.type === "interval")?.value[0];
    const step = Math.max(1, least && /^\d/.test(least) ? parseStep(least) : 1, nice((span.end - span.start) / 1000 / Math.max(50, width / points)));
    return { span, step };
  }

  /** Finds the choices of the variables, then shows the panels. */
  private async choose() {
    this.at = now();
    const q = read();
    this.chosen = await resolveAll(this.body.variables ?? [], (name) => q.getAll(`var-${name}`), this.window(1200));
    variableRow(this.vars, this.chosen, (name, value) => { write({ [`var-${name}`]: value }); void this.choose(); });
    this.draw(true);
  }

  private run() { this.at = now(); this.board.refresh(); }

  private draw(refresh = false) {
    if (this.body.panels.length === 0) {
      this.board.show([]);
      this.board.el.replaceChildren(empty({ title: "No panels yet", icon: "layout-dashboard", text: this.editing ? "A panel shows what one or more queries answer." : "", actions: this.editing ? [{ text: "Add a panel", icon: "plus", primary: true, on: () => void this.add("timeseries") }] : may("editor") || this.kept?.editable ? [{ text: "Edit", icon: "pencil", on: () => this.setEditing(true) }] : [] }));
      return;
    }
    for (const e of this.board.el.querySelectorAll(":scope > .state")) e.remove();
    this.board.show(this.body.panels, refresh);
  }

  // ---- head
  private drawHead() {
    const k = this.kept, title = this.body.title || "Dashboard";
    document.title = `${title} · Millstream`;
    crumb(title);
    const editable = !k || k.editable;
    this.head.replaceChildren(
      h("a", { class: "btn ghost icon", href: orgPath("dashboards"), "aria-label": "All dashboards" }, icon("arrow-left", "s")),
      h("h1", { class: "ell" }, visible(title)), this.shared ? h("span", { class: "pill" }, "shared") : k ? h("span", { class: "pill" }, "private") : h("span", { class: "pill warn" }, "not saved"),
      h("span", { class: "spacer" }),
      ...(this.editing ? this.editTools() : [
        ...(editable ? [button({ text: "Edit", icon: "pencil", on: () => this.setEditing(true) })] : []),
        button({ text: "Share", icon: "share-2", on: () => this.share() }),
        button({ icon: "ellipsis", label: "More", cls: "icon", "aria-haspopup": "menu", on: (e: MouseEvent) => this.more(e.currentTarget as HTMLElement) }),
      ]),
      this.time);
  }

  private editTools(): HTMLElement[] {
    return [
      button({ icon: "undo-2", label: "Undo", cls: "ghost icon", disabled: this.undo.length === 0, on: () => this.back() }),
      button({ text: "Add", icon: "plus", "aria-haspopup": "menu", on: (e: MouseEvent) => menu(e.currentTarget as HTMLElement, ([["timeseries", "Time series", "chart-line"], ["stat", "Single number", "sigma"], ["gauge", "Gauge", "gauge"], ["bar", "Bars", "chart-bar"], ["table", "Table", "table-2"], ["logs", "Logs", "scroll-text"], ["heatmap", "Heatmap", "grid-3x3"], ["state-timeline", "State timeline", "rows-3"], ["traces", "Traces", "waypoints"], ["text", "Text", "type"], ["row", "Row", "list"]] as const).map(([type, text, ic]) => ({ text, icon: ic, on: () => void this.add(type) })), { label: "Add a panel" }) }),
      button({ text: "Settings", icon: "settings", on: () => void this.settings() }),
      button({ text: "Discard", on: () => void this.discard() }),
      button({ text: "Save", icon: "save", cls: "primary", kbd: "Ctrl S", on: () => void this.save() }),
    ];
  }

  private more(anchor: HTMLElement) {
    const k = this.kept;
    if (!k) return;
    menu(anchor, [
      { text: "Versions", icon: "history", on: () => void this.versions() },
      { text: "Export as JSON", icon: "download", on: () => void this.exportAs("millstream") },
      { text: "Export for Grafana", icon: "download", on: () => void this.exportAs("grafana") },
      { text: "Save as a copy", icon: "copy", on: () => void this.saveCopy() },
      ...(k.editable ? [{ rule: true, text: "" }, { text: "Delete", icon: "trash-2", danger: true, on: () => void this.remove() }] : []),
    ], { label: "More" });
  }

  private share() {
    void import("./share.ts").then((m) => m.shareDialog({ title: this.body.title, shared: this.shared, range: this.range, span: resolve(this.range, { now: this.at }), chosen: this.chosen, publish: () => this.publish() }));
  }

  /** Makes the dashboard visible to the organization, as it was saved last. */
  private async publish() {
    const k = this.kept!, body = JSON.parse(this.saved) as Body;
    this.kept = { ...(await model.save(k.id, body, true, k.version)), body };
    this.shared = true;
    this.drawHead();
  }

  // ---- editing
  private setEditing(on: boolean) {
    this.editing = on;
    this.root.classList.toggle("editing", on);
    this.drawHead();
    this.draw();
    this.board.show(this.body.panels);
  }

  private change(body: Body) {
    this.undo = [...this.undo.slice(-UNDO + 1), JSON.stringify(this.body)];
    this.redo = [];
    this.body = body;
    this.drawHead();
    this.draw();
  }

  private back() {
    const last = this.undo.pop();
    if (last === undefined) return;
    this.redo.push(JSON.stringify(this.body));
    this.body = JSON.parse(last) as Body;
    this.drawHead();
    void this.choose();
  }

  private forth() {
    const next = this.redo.pop();
    if (next === undefined) return;
    this.undo.push(JSON.stringify(this.body));
    this.body = JSON.parse(next) as Body;
    this.drawHead();
    void this.choose();
  }

  private async discard() {
    if (this.dirty && !(await confirm("Discard the changes?", "What was changed since the last save is lost.", { action: "Discard", danger: true }))) return;
    if (!this.kept) { this.saved = JSON.stringify(this.body); this.editing = false; location.href = orgPath("dashboards"); return; }
    this.editing = false;
    this.root.classList.remove("editing");
    this.open(JSON.parse(this.saved) as Body, this.kept);
  }

  private put(p: Panel) { this.change({ ...this.body, panels: this.body.panels.map((x) => (x.id === p.id ? p : x)) }); }

  private async add(type: Panel["type"]) {
    const id = model.nextId(this.body.panels);
    const language = type === "logs" ? "search" : type === "table" || type === "traces" ? "sql" : "promql";
    const p: Panel = { id, type, title: type === "row" ? "Row" : "", grid: { x: 0, y: 0, w: 12, h: type === "stat" || type === "gauge" ? 5 : 8 }, ...(type === "text" || type === "row" ? {} : { targets: [{ ref: "A", language, statement: "" }] }), ...(type === "text" ? { options: { content: "" } } : {}) };
    if (type === "row") { this.change({ ...this.body, panels: model.add(this.body.panels, p) }); return; }
    const made = await (await import("./edit.ts")).editPanel(p, this);
    if (made) { this.change({ ...this.body, panels: model.add(this.body.panels, made) }); this.board.focus(id); }
  }

  act(what: "edit" | "remove" | "duplicate" | "move" | "toggle", p: Panel) {
    const panels = this.body.panels;
    switch (what) {
      case "toggle": {
        const next = panels.map((x) => (x.id === p.id ? { ...x, options: { ...x.options, collapsed: !x.options?.collapsed } } : x));
        if (this.editing) this.change({ ...this.body, panels: next }); else { this.body = { ...this.body, panels: next }; this.draw(); }
        return;
      }
      case "remove": this.change({ ...this.body, panels: model.rise(panels.filter((x) => x.id !== p.id)) }); return;
      case "duplicate": this.change({ ...this.body, panels: model.add(panels, { ...structuredClone(p), id: model.nextId(panels) }) }); return;
      case "move": void import("./edit.ts").then((m) => m.moveDialog(p)).then((g) => { if (g) this.change({ ...this.body, panels: model.place(panels, p.id, g) }); }); return;
      case "edit": void import("./edit.ts").then((m) => m.editPanel(p, this)).then((made) => { if (made) this.put(made); }); return;
    }
  }

  private async settings() {
    const made = await (await import("./settings.ts")).settingsDialog(this.body, this.shared);
    if (!made) return;
    this.shared = made.shared;
    this.change({ ...this.body, ...made.body });
    void this.choose();
  }

  // ---- keeping
  private async save() {
    if (this.saving) return; // a second one would make a second dashboard
    this.saving = true;
    const body = this.body, sent = JSON.stringify(body), first = !this.kept;
    try {
      const k = this.kept ? await model.save(this.kept.id, body, this.shared, this.kept.version) : await model.create(body, this.shared);
      this.kept = { ...k, body };
      this.saved = sent;
      this.editing = JSON.stringify(this.body) !== sent; // what was changed meanwhile is not saved
      this.root.classList.toggle("editing", this.editing);
      if (first) { this.id = k.id; history.replaceState(null, "", orgPath(`dashboards/${encodeURIComponent(k.id)}`) + location.search); remember(k.id); }
      this.drawHead();
      this.draw();
      toast("Dashboard saved");
    } catch (e) {
      const err = explain(e);
      if (err.status === 409 || err.status === 412) return this.conflict(err);
      toast(`It is not saved. ${told(err)}`, { error: true });
    } finally { this.saving = false; }
  }

  private conflict(err: ApiError) {
    void dialog("Somebody else saved this dashboard", (close) => [
      h("p", { class: "t2" }, told(err)), h("p", { class: "t2" }, "Your changes are still here."),
      h("div", { class: "acts" }, button({ text: "Keep editing", on: () => close() }), button({ text: "Save mine as a copy", on: () => { close(); void this.saveCopy(); } }), button({ text: "Take theirs", cls: "danger", on: () => { close(); this.editing = false; this.root.classList.remove("editing"); void this.load(); } })),
    ]);
  }

  private async saveCopy() {
    try {
      const k = await model.create({ ...this.body, title: `${this.body.title} (copy)` }, false);
      this.saved = JSON.stringify(this.body);
      this.editing = false;
      location.href = orgPath(`dashboards/${encodeURIComponent(k.id)}`);
    } catch (e) { toast(told(e), { error: true }); }
  }

  private async exportAs(format: string) {
    try {
      saveFile(`${this.body.title || "dashboard"}.json`, JSON.stringify(await model.exported(this.kept!.id, format), null, 2), "application/json");
    } catch (e) { toast(told(e), { error: true }); }
  }

  private async versions() {
    const k = await (await import("./versions.ts")).versionsDialog(this.kept!, this.body);
    if (k) { this.open(k.body, k); toast(`Version ${k.version} has what was restored`); }
  }

  private async remove() {
    const k = this.kept!;
    if (!(await confirm(`Delete ${this.body.title}?`, "It can be brought back from the list of dashboards for 30 days.", { action: "Delete", danger: true }))) return;
    try {
      await model.remove(k);
      location.href = orgPath("dashboards");
    } catch (e) { toast(told(e), { error: true }); }
  }

  private keys() {
    const editing = (f: () => void) => (e: KeyboardEvent) => { if (this.editing) { e.preventDefault(); f(); } };
    bind([
      { key: "mod+s", label: "Save", group: "Dashboard", run: editing(() => void this.save()) },
      { key: "mod+z", label: "Undo", group: "Dashboard", run: editing(() => this.back()) },
      { key: "mod+shift+Z", label: "Redo", group: "Dashboard", run: editing(() => this.forth()) },
      { key: "e", label: "Edit", group: "Dashboard", run: () => { if (!this.editing && (!this.kept || this.kept.editable)) this.setEditing(true); } },
      { key: "r", label: "Refresh", group: "Dashboard", run: () => this.run() },
      { key: "t", label: "Time range", group: "Dashboard", run: (e) => { e.preventDefault(); this.time.open(); } },
      { key: "shift+y", label: "Share, copy a link", group: "Dashboard", run: () => { if (this.kept) this.share(); } },
      { key: "m", label: "Move the focused panel", group: "While editing", run: () => {} },
      { key: "Escape", label: "Leave a move", group: "While editing", run: () => {} },
    ]);
  }
}

const nice = (s: number) => { const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]; return steps.find((x) => x >= s) ?? Math.ceil(s / 86400) * 86400; };
