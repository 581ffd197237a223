// The Metrics page: it owns the address and the run, and shows the answers in one of four views.
import { announce } from "../lib/a11y.ts";
import { explain } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { button, h, icon, sentence, visible } from "../lib/dom.ts";
import { count, duration, plural } from "../lib/format.ts";
import { bind, printed, typing } from "../lib/keys.ts";
import { more, over } from "../lib/layers.ts";
import { splitter } from "../lib/resize.ts";
import { banner, empty, failure, skeleton, stale } from "../lib/states.ts";
import { formatTime, type Range, useZone } from "../lib/time.ts";
import { filled, kept, onNavigate, read, toQuery, write } from "../lib/url.ts";
import { Edited } from "../el/editor.ts";
import { TimeControl } from "../el/time.ts";
import { Browser } from "./browser.ts";
import { GraphView } from "./graph.ts";
import { MOST } from "./prom.ts";
import { Rows } from "./rows.ts";
import { type Result, type Run, Runner } from "./run.ts";
import { kinds, letter, params, type Query, readState, type State, type View, views, writeState } from "./state.ts";
import { offer, rename } from "./similar.ts";
import { boundsUnit, commonUnit, guessUnit, metricNames } from "./unit.ts";

const unitChoices: [string, string][] = [["", "Automatic unit"], ["short", "No unit"], ["s", "Seconds"], ["ms", "Milliseconds"], ["bytes", "Bytes"], ["Bps", "Bytes per second"], ["/s", "Per second"], ["percentunit", "Percent of 1"], ["percent", "Percent of 100"]];
const viewNames: Record<View, [string, string]> = { graph: ["Graph", "chart-line"], table: ["Table", "table-2"], heatmap: ["Heatmap", "grid-3x3"], explain: ["Explain", "git-fork"] };
const kindNames = { line: ["Lines", "chart-line"], area: ["Areas", "chart-area"], stack: ["Stacked", "layers"], bars: ["Bars", "chart-bar"] } as const;

/** Whether the reader wants the metric browser to be open. */
const wanted = () => { try { return localStorage.getItem("ms.metrics.browser") !== "off"; } catch { return true; } };

interface Shown { el: HTMLElement; stop?(): void }

export class MetricsPage {
  private s: State = readState();
  private last: Run | undefined;
  private answered = { question: "", at: 0 }; // what the last run was asked, and when it was answered
  private outdated: HTMLElement | undefined; // says that the last run could not be renewed
  private readonly time = new TimeControl();
  private readonly rows = new Rows({ run: () => this.run(), changed: () => this.typed() });
  private readonly runner = new Runner();
  private readonly browser = new Browser({ insert: (t, asks) => this.insert(t, asks), allServices: () => { this.s.service = this.browser.service = ""; writeState(this.s); this.browser.focus(); if (!this.last) this.render(); }, range: () => this.s.range, close: () => this.showBrowser(false) });
  private readonly graph = new GraphView({ range: (start, end) => this.time.setRange({ start, end }), zoomOut: () => this.time.zoomOut(), logs: (l) => void this.logs(l) });
  private readonly runButton = button({ icon: "play", text: "Run", cls: "primary", kbd: printed("mod+Enter"), on: () => (this.runner.running ? this.runner.stop() : this.run()) });
  private readonly edited = new Edited(this.runButton);
  private readonly progress = h("div", { class: "progress" }, h("i"));
  private readonly notes = h("div", { class: "mx-notes" });
  private readonly guessed = new Set<string>(); // names that PromQL guessed about, of which the node was asked
  private readonly options = h("div", { class: "mq-foot" });
  private readonly bar = h("div", { class: "mx-bar" });
  private readonly body = h("div", { class: "mx-body" });
  private readonly explore = h("div", { class: "mx" });
  private lifted: (() => void) | undefined; // puts the browser back from over the results
  private readonly showNames = button({ icon: "list", text: "Metrics", cls: "ghost sm", "aria-expanded": "false", on: () => this.showBrowser(true) });
  private view: Shown | undefined;
  private timers: number[] = [];

  constructor(private app: HTMLElement) {}

  async start() {
    const title = document.getElementById("page-title");
    title?.classList.remove("vh");
    const rest = more(() => [
      { text: "Share", icon: "share-2", on: () => void this.share(rest) }, { text: "Add to dashboard", icon: "layout-dashboard", on: () => void this.keep() },
      { text: "Saved views", icon: "bookmark", on: () => void this.views() }, { text: "Logs for this selection", icon: "scroll-text", on: () => void this.logs(this.graph.common()) },
    ]);
    this.app.replaceChildren(
      h("div", { class: "pagehead" }, title, this.showNames, this.menuButton("bookmark", "Saved views", () => this.views()), h("span", { class: "spacer" }),
        this.menuButton("layout-dashboard", "Add to dashboard", () => this.keep()), this.menuButton("share-2", "Share", (b) => this.share(b)), rest, this.time),
      h("section", { class: "mq", "aria-label": "Queries" }, this.rows.el, this.options), this.progress, this.notes,
      this.explore);
    this.explore.append(this.browser.el, splitter(this.browser.el, { min: 180, max: 520, key: "metrics.browser", label: "Width of the metric browser", size: 264 }), h("section", { class: "mx-results", "aria-label": "Results" }, this.bar, this.body));
    this.time.addEventListener("ms:range", (e) => { this.s.range = (e as CustomEvent<Range>).detail; this.run(); });
    this.time.addEventListener("ms:tz", (e) => { this.s.tz = (e as CustomEvent<{ tz: string }>).detail.tz; useZone(this.s.tz); writeState(this.s); this.time.tz = this.s.tz; this.render(); });
    this.time.addEventListener("ms:refresh", (e) => { const d = (e as CustomEvent<{ every?: string; now?: boolean }>).detail; if (d.every !== undefined) { this.s.refresh = d.every; writeState(this.s, "replace"); } else this.run(false); });
    onNavigate(() => { this.take(readState()); this.run(false); });
    this.keys();
    const narrow = matchMedia("(max-width:1180px)"), browse = () => this.showBrowser(!narrow.matches && wanted(), false); // on a small window it would lie over the results
    narrow.addEventListener("change", browse);
    browse();
    await this.unfold();
    this.take(this.s);
    this.run(false);
  }

  /** A state that is too long for an address is kept by the node; the address has its id. */
  private async unfold() {
    const id = read().get("s");
    if (!id) return;
    try {
      this.s = readState(toQuery(await kept(id)));
      write({ s: "" }, "replace");
    } catch (e) {
      this.s.fault = `The link cannot be opened: ${explain(e).message}`;
    }
  }

  private menuButton(ic: string, text: string, on: (b: HTMLElement) => Promise<void> | void) {
    const primary = text === "Saved views";
    return h("button", { type: "button", class: `btn hide-s ${primary ? "ghost sm" : ""}`.trim(), "aria-haspopup": text === "Share" ? "menu" : "dialog", onclick: (e: Event) => void on(e.currentTarget as HTMLElement) }, icon(ic, "s"), text);
  }

  /** Shows a state without running it. */
  private take(s: State) {
    this.s = s;
    this.time.value = s.range;
    this.time.tz = s.tz;
    this.time.refresh = s.refresh;
    this.rows.set(s.queries);
    this.browser.service = s.service;
    if (s.service && !s.queries.some((q) => q.text)) this.showBrowser(true, false); // nothing is graphed that it would lie over
    this.drawOptions();
    this.drawBar();
  }

  private async views() {
    const [{ viewsDialog }, { title }] = await Promise.all([import("../share/views.ts"), import("./keep.ts")]);
    viewsDialog({ page: "metrics", name: title(this.s), state: () => filled(params({ ...this.s, refresh: "" })), open: (p) => { this.take(readState(toQuery(p))); this.run(); } });
  }

  private async share(b: HTMLElement) { (await import("./share.ts")).shareMenu(b, this.s, this.last, this.unitShown()); }
  private async keep() { await (await import("./keep.ts")).addToDashboard(this.s, this.unitShown()); }

  /** What is typed is not in the address, nor kept or shared, before it is run. */
  private typed() {
    const texts = (list: Query[]) => list.map((q) => q.text).filter(Boolean).join("\n\n");
    this.edited.on = texts(this.rows.queries) !== texts(this.s.queries);
  }

  private insert(text: string, asks?: (text: string) => string) {
    const whole = this.rows.insert(text, asks);
    this.typed();
    if (whole) this.run();
    if (innerWidth <= 1180) this.showBrowser(false);
  }

  private showBrowser(on: boolean, keep = true) {
    this.explore.classList.toggle("nobrowser", !on);
    this.lifted?.();
    this.lifted = on ? over(this.browser.el, () => this.showBrowser(false)) : undefined;
    this.showNames.hidden = on;
    this.showNames.setAttribute("aria-expanded", String(on));
    if (keep) try { localStorage.setItem("ms.metrics.browser", on ? "on" : "off"); } catch { /* a private window */ }
    if (on) { this.browser.load(); if (keep) this.browser.focus(); } else if (keep) this.showNames.focus();
  }

  // ---- running
  /** Runs the queries: what is typed and goes into the address, or with false once more what was run before. */
  private run(how: "push" | "replace" | false = "push") {
    if (how) this.s.queries = this.rows.queries;
    this.time.value = this.s.range;
    if (how) writeState(this.s, how);
    void this.execute();
  }

  private async execute() {
    const list = this.s.queries.filter((q) => q.text && !q.hidden);
    this.typed();
    this.s.queries.forEach((q, i) => { if (!q.text || q.hidden) this.rows.status(i, q.hidden ? "Hidden" : ""); });
    if (list.length === 0) {
      this.runner.stop();
      this.last = this.outdated = undefined;
      this.busy(false);
      this.render();
      return;
    }
    this.busy(true);
    const { range, step, pixels, view, instant } = this.s, question = JSON.stringify([list, range, step, pixels, view === "table" && instant]);
    const units = this.learn(list.map((q) => q.text));
    const run = await this.runner.run(this.s, this.body.clientWidth || 800, (r) => this.one(r));
    await Promise.race([units, new Promise((r) => setTimeout(r, 200))]);
    if (!run || this.runner.running) return; // another run took over
    this.busy(false);
    if (this.keepOld(run, question)) return;
    this.last = run;
    this.render();
    if (!run.stopped) announce(run.results.map((r) => `Query ${letter(r.index)}: ${r.failure ? r.failure.message : plural(r.answer!.series.length, "series", "series")}`).join(". "));
  }

  /** When nothing of what is shown could be renewed it stays, with a sign. */
  private keepOld(run: Run, question: string): boolean {
    const had = this.last?.results.some((r) => r.answer) && this.answered.question === question, e = run.results[0]!.failure?.error;
    this.outdated = undefined;
    if (!had || !e || run.stopped || run.results.some((r) => r.answer)) { this.answered = { question, at: Date.now() }; return false; }
    this.outdated = stale(formatTime(this.answered.at, { date: false }), e, () => this.run(false));
    this.drawNotes();
    return true;
  }

  /** Asks for the units of the metrics that are queried. When they come late, what is shown already is shown again with them. */
  private async learn(queries: string[]) {
    const names = [...new Set(queries.flatMap(metricNames))].slice(0, 5).filter((n) => !this.browser.metaOf(n));
    if (names.length === 0) return;
    const before = queries.map((q) => this.unit(q)).join();
    const shown = this.last;
    await Promise.all(names.map((n) => this.browser.describe(n).catch(() => undefined)));
    if (!this.s.unit && this.last && this.last !== shown && this.view && queries.map((q) => this.unit(q)).join() !== before) this.render();
  }

  /** Nothing is seen to change for 150 ms; then a line runs and old data are dimmed; after a second the run can be stopped. */
  private busy(on: boolean) {
    for (const t of this.timers) clearTimeout(t);
    this.timers = [];
    const stop = (yes: boolean) => this.runButton.replaceChildren(icon(yes ? "square" : "play", "s"), yes ? "Stop" : "Run", h("kbd", null, yes ? "Esc" : printed("mod+Enter")));
    const show = (yes: boolean) => { this.progress.classList.toggle("run", yes); this.body.classList.toggle("dim", yes && !!this.last); };
    this.body.setAttribute("aria-busy", String(on));
    if (!on) { show(false); stop(false); return; }
    this.timers = [window.setTimeout(() => { show(true); if (!this.last) this.body.replaceChildren(skeleton()); }, 150), window.setTimeout(() => stop(true), 1000)];
  }

  private one(r: Result) {
    const { answer, failure: f } = r;
    if (this.rows.queries[r.index]?.text !== r.query) return; // another is being typed there
    this.rows.status(r.index, f ? (f.error.code === "aborted" ? "Stopped" : "Failed") : `${answer!.type === "string" ? "Text" : answer!.type === "scalar" ? "A number" : plural(answer!.series.length, "series", "series")} · ${duration(Math.round(r.took) * 1e6)}`, f && f.error.code !== "aborted" ? "bad" : "");
    this.rows.mark(r.index, f && f.at !== undefined ? { from: f.at, message: f.message } : null);
  }

  // ---- showing
  private render() {
    this.view?.stop?.();
    this.view = undefined;
    this.drawNotes();
    const run = this.last;
    if (!this.s.queries.some((q) => q.text)) { this.body.replaceChildren(this.welcome()); return; }
    if (!run) { this.body.replaceChildren(empty({ title: "Every query is hidden", text: "Show one with its eye button.", icon: "eye-off" })); return; }
    const failed = run.results.filter((r) => r.failure), series = run.results.reduce((n, r) => n + (r.answer?.series.length ?? 0), 0);
    if (failed.length === run.results.length) {
      const { error, message, at } = failed[0]!.failure!;
      if (error.code === "aborted") { this.body.replaceChildren(empty({ title: "Stopped", text: "A PromQL expression has no value before it has read all of its samples.", icon: "square", actions: [{ text: "Run again", icon: "play", primary: true, on: () => this.run(false) }] })); return; }
      if (at !== undefined) error.message = message;
      this.body.replaceChildren(failure(error, at === undefined ? () => this.run(false) : undefined));
      return;
    }
    const text = run.results.find((r) => r.answer?.text !== undefined)?.answer?.text;
    if (text !== undefined) this.body.replaceChildren(h("pre", { class: "mx-text mono", tabindex: "0", "aria-label": "Value" }, text));
    else if (series === 0 && this.s.view !== "explain") this.body.replaceChildren(this.nothing(run));
    else void this.show(run);
  }

  private async show(run: Run) {
    switch (this.s.view) {
      case "graph": this.view = this.graph; this.graph.show(run, this.s, (q) => this.unit(q)); break;
      case "table": { const { TableView } = await import("./table.ts"); const v = new TableView(); v.show(run, (q) => this.unit(q)); this.view = v; break; }
      case "heatmap": { const { HeatmapView } = await import("./heatmap.ts"); const v = new HeatmapView((start, end) => this.time.setRange({ start, end }), () => this.time.zoomOut()); v.show(run, this.unit(run.results[0]!.query)); this.view = v; break; }
      case "explain": { const { ExplainView } = await import("./explain.ts"); const v = new ExplainView({ run: (q) => this.alone(q) }); void v.show(run); this.view = v; break; }
    }
    if (this.last === run && this.view && this.body.firstChild !== this.view.el) this.body.replaceChildren(this.view.el);
  }

  /** The unit of the axis, or of the values where there is none. */
  private unitShown() { return commonUnit([...new Set(this.s.queries.filter((q) => q.text && !q.hidden).map((q) => this.unit(q.text)))]); }

  private unit(q: string) {
    if (this.s.unit) return this.s.unit;
    const declared = (name: string) => this.browser.metaOf(name)?.unit ?? "";
    return this.s.view === "heatmap" ? boundsUnit(q, declared) : guessUnit(q, declared);
  }

  /** Puts an expression in place of the first query. */
  private alone(query: string) {
    this.rows.add(query);
    this.s.view = "graph";
    this.drawBar();
    this.run();
  }

  private welcome() {
    return empty({ title: this.s.service ? `Choose a metric of ${visible(this.s.service)}` : "Choose a metric, or type a query", icon: "chart-line", text: "The browser on the left finds metrics by parts of their names. A query is PromQL; completion helps with names, labels and values.",
      actions: [{ text: "Browse metrics", icon: "list", primary: true, on: () => { this.showBrowser(true); this.browser.focus(); } }, { text: "Send metrics", icon: "plug", on: () => { location.href = orgPath("send"); } }] });
  }

  private nothing(run: Run) {
    const names = [...new Set(run.results.flatMap((r) => metricNames(r.query)))];
    const box = h("p", { role: "status" });
    const replace = (from: string, to: string) => { for (const r of run.results) this.rows.replace(r.index, rename(r.query, from, to)); this.run(); };
    if (names[0]) void offer(box, names[0], (to) => replace(names[0]!, to)).catch(() => {}); // an offer less
    return empty({ title: "No series in this time range", extra: box, text: names.length ? `Nothing was found for ${names.slice(0, 3).join(", ")}. The name may be another, a label may not match, or the data may be older.` : "The expression gave no series.",
      actions: [{ text: "Last 24 hours", icon: "clock", on: () => { this.s.range = { from: "now-24h", to: "now" }; this.run(); } }, { text: "Browse metrics", icon: "list", on: () => { this.showBrowser(true); this.browser.focus(); } }] });
  }

  private drawNotes() {
    const run = this.last, out: HTMLElement[] = [];
    if (this.s.fault) out.push(banner("warn", this.s.fault));
    if (this.outdated) out.push(this.outdated);
    for (const r of run?.results ?? []) {
      const who = run!.results.length > 1 ? `Query ${letter(r.index)}: ` : "";
      if (r.answer?.cut) {
        out.push(banner("warn", `${who}there are more than ${count(r.limit)} series; the first ${count(r.limit)} are shown. Narrow the query with labels, or let it add up.`, [
          { text: "Top 20", on: () => this.wrap(r, `topk(20, ${r.query})`) }, { text: "Sum", on: () => this.wrap(r, `sum(${r.query})`) },
          ...(r.limit < MOST ? [{ text: `Show up to ${count(MOST)}`, on: () => { this.runner.more(r.query, MOST); this.run(false); } }] : []),
        ]));
      }
      for (const w of r.answer?.warnings ?? []) out.push(banner("warn", who + w));
      for (const w of (r.answer?.infos ?? []).filter((x) => !this.refuted(x))) out.push(h("p", { class: "mx-info" }, icon("info", "xs"), sentence(who + w.replace(/^PromQL info: /, ""))));
      if (r.failure && run!.results.some((x) => x.answer) && r.failure.error.code !== "aborted") out.push(banner("error", `Query ${letter(r.index)}: ${r.failure.message}`));
    }
    this.notes.replaceChildren(...out);
  }

  /** PromQL guesses from a name's ending whether a metric is a counter; its sender has said that it is one. */
  private refuted(info: string) {
    const name = /might not be a counter.*: "(.+)" \(/.exec(info)?.[1];
    if (name === undefined) return false;
    const type = this.browser.metaOf(name)?.type;
    if (type === undefined && !this.guessed.has(name)) {
      this.guessed.add(name);
      this.browser.describe(name).then((m) => { if (m?.type === "counter") this.drawNotes(); }, () => this.guessed.delete(name));
    }
    return type === "counter";
  }

  private wrap(r: Result, query: string) {
    this.rows.replace(r.index, query);
    this.run();
  }

  private drawOptions() {
    const s = this.s, select = (id: string, label: string, value: string, list: readonly (readonly [string, string])[], on: (v: string) => void) =>
      h("label", { class: "mq-opt", for: id }, h("span", null, label), h("select", { class: "in", id, onchange: (e: Event) => { on((e.target as HTMLSelectElement).value); this.run(); } }, list.map(([v, t]) => h("option", { value: v, selected: v === value }, t))));
    const steps = ["", "1s", "5s", "10s", "15s", "30s", "1m", "5m", "10m", "30m", "1h", "6h", "1d"];
    if (!steps.includes(s.step)) steps.push(s.step);
    this.options.replaceChildren(
      button({ icon: "plus", text: "Query", cls: "ghost sm", on: () => this.rows.add() }),
      h("div", { class: "mq-opts" },
        select("mq-step", "Step", s.step, steps.map((v) => [v, v || "Automatic"]), (v) => { s.step = v; }),
        select("mq-res", "Resolution", String(s.pixels), [["1", "Every pixel"], ["3", "Normal"], ["8", "Low"]], (v) => { s.pixels = Number(v); })),
      this.edited.el, this.runButton);
  }

  private drawBar() {
    const s = this.s;
    const tab = (v: View) => h("button", { type: "button", role: "tab", "aria-selected": String(s.view === v), tabindex: s.view === v ? "0" : "-1", onclick: () => this.setView(v) }, icon(viewNames[v][1], "s"), viewNames[v][0]);
    const tabs = h("div", { class: "seg", role: "tablist", "aria-label": "View", onkeydown: (e: KeyboardEvent) => { const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key]; if (by) { e.preventDefault(); this.setView(views[(views.indexOf(s.view) + by + views.length) % views.length]!, true); } } }, views.map(tab));
    const press = (text: string, on: boolean, f: () => void, ic?: string, label?: string) => button({ ...(text ? { text } : {}), ...(ic ? { icon: ic } : {}), ...(label ? { label } : {}), cls: `ghost sm ${text ? "" : "icon"}`, "aria-pressed": String(on), on: f });
    const again = () => { writeState(s); this.drawBar(); this.render(); };
    const graph = s.view === "graph" ? [
      h("div", { class: "seg", role: "group", "aria-label": "Kind of graph" }, kinds.map((k) => h("button", { type: "button", "aria-pressed": String(s.kind === k), "aria-label": kindNames[k][0], title: kindNames[k][0], onclick: () => { s.kind = k; again(); } }, icon(kindNames[k][1], "s")))),
      press("Log axis", s.log, () => { s.log = !s.log; again(); }),
      press("", s.exemplars, () => { s.exemplars = !s.exemplars; again(); }, "diamond", "Exemplars"),
      button({ text: "Logs for this selection", icon: "scroll-text", cls: "ghost sm hide-s", on: () => void this.logs(this.graph.common()) }),
    ] : s.view === "table" ? [h("div", { class: "seg", role: "group", "aria-label": "Values" }, [true, false].map((v) => h("button", { type: "button", "aria-pressed": String(s.instant === v), onclick: () => { s.instant = v; this.drawBar(); this.run(); } }, v ? "At the end" : "Over the range")))] : [];
    const choices = unitChoices.some(([v]) => v === s.unit) ? unitChoices : [...unitChoices, [s.unit, s.unit] as [string, string]];
    this.bar.replaceChildren(tabs, ...graph, h("span", { class: "spacer" }), h("select", { class: "in mx-unit", "aria-label": "Unit", onchange: (e: Event) => { s.unit = (e.target as HTMLSelectElement).value; again(); } }, choices.map(([v, t]) => h("option", { value: v, selected: v === s.unit }, t))));
  }

  private setView(v: View, focus = false) {
    const instantBefore = this.s.view === "table" && this.s.instant;
    this.s.view = v;
    this.drawBar();
    if (focus) this.bar.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
    if (instantBefore !== (v === "table" && this.s.instant)) this.run(); else { writeState(this.s); this.render(); }
  }

  // ---- elsewhere
  private async logs(labels: Record<string, string>) { (await import("./share.ts")).openLogs(labels, this.last?.span); }

  private escape(): boolean {
    if (this.runner.running) this.runner.stop();
    else if (typing(document.activeElement)) this.bar.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
    else return false;
    return true;
  }

  private keys() {
    const group = "Metrics", key = (k: string, label: string, run: (e: KeyboardEvent) => void, hidden = false) => ({ key: k, label, group, hidden, run: (e: KeyboardEvent) => { e.preventDefault(); run(e); } });
    bind([
      key("/", "Type a query", () => this.rows.focus()), key("mod+Enter", "Run", () => this.run()), key("a", "Add a query", () => this.rows.add()), key("u", "Bring back a deleted query", () => this.rows.undo()),
      { key: "Escape", label: "Stop, leave the field", group, run: (e) => { if (this.escape()) e.preventDefault(); } },
      key("f", "Find a metric", () => { this.showBrowser(true); this.browser.focus(); }), key("[", "Metric browser on or off", () => this.showBrowser(this.explore.classList.contains("nobrowser"))),
      key("v", "Next view", () => this.setView(views[(views.indexOf(this.s.view) + 1) % views.length]!, true)),
      key("t", "Time range", () => this.time.open()), key("t z", "Zoom out", () => this.time.zoomOut()), key("t ArrowLeft", "Earlier", () => this.time.shift(-1)), key("t ArrowRight", "Later", () => this.time.shift(1)),
      key("shift+y", "Copy a link with the times fixed", async () => (await import("./share.ts")).copyLink(this.s, this.last, true)),
    ]);
  }
}

