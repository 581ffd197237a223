// One panel: its frame, its menu, its states and its queries. It loads when it comes near the window, and fails alone.
import { type ApiError, explain } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { button, h, icon, visible } from "../lib/dom.ts";
import { bytes, count } from "../lib/format.ts";
import { copy, dialog, menu, type MenuItem } from "../lib/layers.ts";
import { banner, empty, failure, skeleton, stale } from "../lib/states.ts";
import { formatTime } from "../lib/time.ts";
import { saveFile, toCsv } from "./file.ts";
import type { Panel } from "./model.ts";
import { type Frame, runTarget } from "./query.ts";
import { type Chosen, fill, type Window } from "./vars.ts";
import { gridOf, nothing, tableOf, view } from "./views.ts";

export interface Host {
  editing: boolean;
  window(width: number): Window;
  chosen: readonly Chosen[];
  range: { from: string; to: string };
  act(what: "edit" | "remove" | "duplicate" | "move" | "toggle", p: Panel): void;
}

const near = "200px"; // how far below the window a panel begins to load

export class PanelView {
  readonly el = h("section", { class: "d-panel" });
  private readonly body = h("div", { class: "d-body" });
  private readonly cost = h("span", { class: "d-cost", "aria-hidden": "true" });
  private readonly notes = h("div", { class: "d-notes" });
  private frames: Frame[] | undefined;
  private answered = { question: "", at: 0 }; // what the frames answer, and when they came
  private abort: AbortController | undefined;
  private inSight = false;
  private due = false; // a run is wanted as soon as it is in sight
  private readonly seen = new IntersectionObserver((list) => { this.inSight = list.at(-1)!.isIntersecting; if (this.inSight && this.due) void this.run(); }, { rootMargin: near });

  private readonly sizes = new ResizeObserver(() => this.reach());

  constructor(public panel: Panel, private host: Host) {
    this.el.dataset.id = String(panel.id);
    this.head();
    this.seen.observe(this.el);
    this.sizes.observe(this.body);
  }

  /** What reaches out of the panel, and has nothing in it that takes the focus, is scrolled by keys too. */
  private reach() {
    const b = this.body, over = b.scrollHeight > b.clientHeight + 1 && !b.querySelector("a[href],button,[tabindex]");
    if (over === b.hasAttribute("tabindex")) return;
    for (const [k, v] of [["tabindex", "0"], ["role", "region"], ["aria-label", `${this.panel.title || `Panel ${this.panel.id}`}, content`]] as const) if (over) b.setAttribute(k, v); else b.removeAttribute(k);
  }

  private head() {
    const p = this.panel, row = p.type === "row";
    for (const c of [...this.el.classList]) if (c.startsWith("d-is-")) this.el.classList.remove(c);
    this.el.classList.add("d-panel", `d-is-${p.type}`);
    this.el.setAttribute("aria-label", p.title || `Panel ${p.id}`);
    const title = row
      ? h("button", { type: "button", class: "d-fold", "aria-expanded": String(!p.options?.collapsed), onclick: () => this.host.act("toggle", p) }, icon(p.options?.collapsed ? "chevron-right" : "chevron-down", "s"), h("span", { class: "ell" }, visible(p.title || "Row")))
      : h("h2", { class: "d-title", title: p.description ?? p.title ?? null }, h("span", { class: "ell" }, visible(p.title || (p.type === "text" ? "" : `Panel ${p.id}`))), p.description && icon("info", "xs"));
    const more = button({ icon: "ellipsis", label: `Menu of ${p.title || `panel ${p.id}`}`, cls: "ghost icon sm", "aria-haspopup": "menu", on: (e: MouseEvent) => menu(e.currentTarget as HTMLElement, this.menu()) });
    const bar = h("header", { class: "d-head" }, this.host.editing && h("span", { class: "d-grip", "aria-hidden": "true" }, icon("grip-vertical", "s")), title, this.cost, row && !this.host.editing ? null : more);
    this.el.replaceChildren(bar, ...(row ? [] : [this.notes, this.body]), ...(this.host.editing && !row ? [h("span", { class: "d-size", "aria-hidden": "true" })] : []));
    if (this.host.editing) this.el.tabIndex = 0; else this.el.removeAttribute("tabindex");
  }

  /** The panel was changed, or the page began or ended to be edited. */
  update(p: Panel) {
    const asks = JSON.stringify([p.targets, p.options, p.type]) !== JSON.stringify([this.panel.targets, this.panel.options, this.panel.type]);
    this.panel = p;
    this.head();
    if (asks) this.refresh();
  }

  /** Wants new answers, at once if the panel is in sight. */
  refresh() {
    this.due = true;
    if (this.inSight) void this.run();
  }

  private targets = () => (this.panel.targets ?? []).filter((t) => !t.hidden && t.statement.trim());

  private async run() {
    this.due = false;
    this.abort?.abort();
    const mine = (this.abort = new AbortController());
    const p = this.panel;
    if (p.type === "row") return;
    const w = this.host.window(this.el.clientWidth || 600);
    const own = () => view({ panel: p, frames: this.frames ?? [], window: w, chosen: this.host.chosen });
    if (p.type === "text" || p.type === "placeholder") { this.frames = []; this.body.replaceChildren(own()); return; }
    const list = this.targets();
    if (list.length === 0) { this.body.replaceChildren(empty({ title: "No query yet", icon: "search", actions: this.host.editing ? [{ text: "Edit the panel", on: () => this.host.act("edit", p) }] : [] })); return; }
    if (this.frames) this.body.classList.add("dim"); else this.body.replaceChildren(skeleton(4));
    this.el.setAttribute("aria-busy", "true");
    const rank = () => { const r = this.el.getBoundingClientRect(); return r.top < 0 ? 10_000 - r.bottom : r.top; };
    const done = await Promise.allSettled(list.map((t) => runTarget(p, t, this.host.chosen, w, rank, mine.signal)));
    if (this.abort !== mine || mine.signal.aborted) return;
    this.el.removeAttribute("aria-busy");
    this.body.classList.remove("dim");
    const good = done.flatMap((d) => (d.status === "fulfilled" ? [d.value] : [])), bad = done.flatMap((d, i) => (d.status === "rejected" ? [{ ref: list[i]!.ref, error: explain(d.reason) }] : []));
    const question = JSON.stringify([list, this.host.range, this.host.chosen]), again = () => void this.run();
    if (good.length === 0 && this.frames?.length && this.answered.question === question) this.notes.replaceChildren(stale(formatTime(this.answered.at, { date: false }), bad[0]!.error, again));
    else {
      this.frames = good;
      this.answered = { question, at: Date.now() };
      this.say(good, bad);
    }
    if (this.frames.length === 0) this.body.replaceChildren(failure(bad[0]!.error, again));
    else if (nothing(this.frames)) this.body.replaceChildren(empty({ title: "No data", text: "Nothing in this time range, with these variables." }));
    else this.body.replaceChildren(own());
    this.reach();
  }

  /** What must be known of the answers: queries that failed, warnings, what was left out, and what they cost. */
  private say(good: Frame[], bad: { ref: string; error: ApiError }[]) {
    const notes: HTMLElement[] = good.length ? bad.map((b) => banner("error", `Query ${b.ref}: ${b.error.message}`)) : [];
    if (good.some((f) => f.partial)) notes.push(banner("warn", good.flatMap((f) => f.warnings)[0] ?? "The answer is partial."));
    if (good.some((f) => f.cut)) notes.push(banner("warn", "Not all series are shown: there are too many."));
    this.notes.replaceChildren(...notes);
    const rows = good.reduce((n, f) => n + (f.scanned ?? 0), 0), read = good.reduce((n, f) => n + (f.bytes ?? 0), 0);
    this.cost.textContent = good.length ? `${Math.round(Math.max(...good.map((f) => f.took)))} ms${rows ? `, ${count(rows)} rows` : ""}${read ? `, ${bytes(read)}` : ""}` : "";
  }

  private menu(): MenuItem[] {
    const p = this.panel, act = (what: Parameters<Host["act"]>[0]) => () => this.host.act(what, p);
    const explore = this.explore();
    return [
      ...(p.type === "row" ? [] : [{ text: "View large", icon: "maximize-2", on: () => void this.large() }]),
      ...(explore ? [{ text: `Explore in ${explore.page}`, icon: "arrow-right", href: explore.href }] : []),
      ...(this.frames?.length ? [{ text: "Inspect the data", icon: "table-2", on: () => void this.inspect() }, { text: "Download as CSV", icon: "download", on: () => saveFile(`${p.title || "panel"}.csv`, toCsv(tableOf(this.frames!)), "text/csv") }] : []),
      { text: "Copy as JSON", icon: "copy", on: () => void copy(JSON.stringify(p, null, 2), "Panel copied") },
      ...(this.host.editing ? [{ rule: true, text: "" }, { text: p.type === "row" ? "Rename" : "Edit", icon: "pencil", on: act("edit") }, { text: "Move to…", icon: "move", on: act("move") }, { text: "Duplicate", icon: "copy", on: act("duplicate") }, { text: "Remove", icon: "trash-2", danger: true, on: act("remove") }] : []),
    ];
  }

  /** Where the panel's queries can be looked into. */
  private explore(): { page: string; href: string } | undefined {
    const list = this.targets(), t = list[0];
    if (!t) return undefined;
    const w = this.host.window(this.el.clientWidth || 600), q = new URLSearchParams({ from: this.host.range.from, to: this.host.range.to });
    if (t.language === "promql") {
      for (const x of list) if (x.language === "promql") q.append("q", fill(x.statement, this.host.chosen, "promql", w));
      return { page: "Metrics", href: `${orgPath("metrics")}?${q}` };
    }
    q.set("q", fill(t.statement, this.host.chosen, t.language, w));
    if (t.language === "sql") q.set("mode", "sql");
    if (t.stream) q.set("stream", fill(t.stream, this.host.chosen, "promql", w));
    return { page: "Logs", href: `${orgPath("logs")}?${q}` };
  }

  private large() {
    return dialog(this.panel.title || "Panel", (close) => {
      const big = new PanelView(this.panel, { ...this.host, editing: false, window: (n) => this.host.window(n), act: () => {} });
      big.el.classList.add("d-large");
      queueMicrotask(() => big.refresh());
      return [big.el, h("div", { class: "acts" }, button({ text: "Close", on: () => close(), autofocus: true }))];
    }, { cls: "full" });
  }

  private inspect() {
    return dialog(`Data of ${this.panel.title || "the panel"}`, (close) => {
      const t = tableOf(this.frames!), grid = gridOf(t, {}, "Data");
      grid.classList.add("d-inspect");
      return [h("ul", { class: "small mono" }, this.frames!.map((f) => h("li", null, `${f.target.ref}: ${f.statement}`))), h("p", { class: "small" }, `${count(t.rows.length)} rows`), grid,
        h("div", { class: "acts" }, button({ text: "Download as CSV", icon: "download", on: () => saveFile(`${this.panel.title || "panel"}.csv`, toCsv(t), "text/csv") }), button({ text: "Close", cls: "primary", on: () => close(), autofocus: true }))];
    }, { cls: "full" });
  }

  destroy() { this.abort?.abort(); this.seen.disconnect(); this.sizes.disconnect(); this.el.remove(); }
}
