// The metric browser: finds metrics by words of their names on the server, shows what one is and which labels it has, and puts names into the query. It may be held to the metrics of one service.
import { announce } from "../lib/a11y.ts";
import { explain, json } from "../lib/api.ts";
import { breakable, button, h, icon, visible } from "../lib/dom.ts";
import { count, plural, short } from "../lib/format.ts";
import { now, resolve, type Range } from "../lib/time.ts";
import { failure, skeleton, told } from "../lib/states.ts";
import { unitText } from "../lib/units.ts";
import { call, common, type Labels, number, quote, selector, usual } from "./prom.ts";

const RECENT = 6 * 3_600_000; // ms for which the node keeps a list of the names
const MOST_NAMES = 1000, MOST_VALUES = 200, PAGE = 100;

interface Found { name: string; type?: string; unit?: string; help?: string; series?: number }

export interface Meta { type: string; unit: string; help: string }
export interface BrowserEvents { insert(text: string, asks?: (text: string) => string): void; allServices(): void; range(): Range; close(): void }

export class Browser {
  readonly el = h("aside", { class: "mb", "aria-label": "Metrics" });
  private readonly field = h("input", { class: "in", type: "search", placeholder: "Find a metric", "aria-label": "Find a metric", autocomplete: "off", spellcheck: "false" });
  private readonly only = h("p", { class: "mb-only", hidden: true });
  private readonly note = h("p", { class: "mb-note", role: "status" });
  private readonly list = h("ul", { class: "mb-list", "aria-label": "Names" });
  private abort: AbortController | undefined;
  private timer = 0;
  private names: Found[] = [];
  private shown = 0;
  private meta = new Map<string, Meta>();
  private loaded = false;
  private choice = 0;
  private of = "";

  constructor(private on: BrowserEvents) {
    this.el.append(h("div", { class: "mb-hd" }, h("div", { class: "mb-search" }, icon("search", "s"), this.field), button({ icon: "chevron-left", label: "Hide the metric browser", cls: "ghost icon sm", on: () => on.close() })), this.only, this.note, this.list);
    this.field.addEventListener("input", () => { clearTimeout(this.timer); this.timer = window.setTimeout(() => void this.search(), 150); });
    this.field.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && this.names[0]) { e.preventDefault(); void this.choose(this.names[0].name); }
      else if (e.key === "ArrowDown") { e.preventDefault(); this.list.querySelector<HTMLElement>("button")?.focus(); }
      else if (e.key === "Escape" && this.field.value) { e.preventDefault(); e.stopPropagation(); this.field.value = ""; void this.search(); }
    });
    this.list.addEventListener("keydown", (e) => this.key(e));
    this.list.addEventListener("scroll", () => { if (this.list.scrollTop + this.list.clientHeight > this.list.scrollHeight - 400) this.more(); });
  }

  /** Loads the first names, once. */
  load() {
    if (!this.loaded) void this.search();
    this.loaded = true;
  }

  /** The service whose metrics are listed; "" is all. */
  get service() { return this.of; }
  set service(name: string) {
    if (name === this.of) return;
    this.of = name;
    this.only.hidden = !name;
    this.only.replaceChildren(h("span", { class: "ell" }, "Of the service ", h("b", null, visible(name))), button({ icon: "x", label: "Metrics of all services", cls: "ghost icon sm", on: () => this.on.allServices() }));
    if (this.loaded) void this.search();
  }

  focus() { this.field.focus(); this.field.select(); }
  metaOf(name: string) { return this.meta.get(name); }

  private span() { const { start, end } = resolve(this.on.range()); return { start: start / 1000, end: end / 1000 }; }

  private async search() {
    this.abort?.abort();
    const mine = (this.abort = new AbortController()), words = this.field.value.trim().split(/\s+/).filter(Boolean);
    const wait = window.setTimeout(() => this.list.replaceChildren(h("li", null, skeleton(8))), 150);
    try {
      const { list, total, cut } = await this.find(words, mine.signal);
      if (mine !== this.abort) return;
      clearTimeout(wait);
      this.names = [...list.filter((m) => !common(m.name)), ...list.filter((m) => common(m.name))]; // the reader's own first
      for (const m of list) if (m.type !== undefined) this.meta.set(m.name, { type: m.type, unit: m.unit ?? "", help: m.help ?? "" });
      this.note.textContent = cut ? `${count(list.length)} of ${total === undefined ? "more" : count(total)} metrics. Type more of the name to see others.` : list.length ? plural(list.length, "metric") : "";
      this.shown = 0;
      this.list.replaceChildren();
      this.list.scrollTop = 0;
      if (list.length === 0) this.list.append(h("li", { class: "mb-none" }, words.length ? "No metric has such a name." : "No metric was received in this time."));
      this.more();
      if (words.length) announce(this.note.textContent || "No metric has such a name");
    } catch (e) {
      clearTimeout(wait);
      const err = explain(e);
      if (mine !== this.abort || err.code === "aborted") return;
      this.note.textContent = "";
      this.list.replaceChildren(h("li", null, failure(err, () => void this.search())));
    }
  }

  private get within(): Labels { return this.of ? { service: this.of } : {}; }

  /** Asks for a metric in the way that suits its type. */
  private async choose(name: string, labels: Labels = {}) {
    const mine = ++this.choice, type = this.meta.get(name)?.type || (await this.describe(name).catch(() => undefined))?.type;
    if (mine === this.choice) this.on.insert(selector(name, { ...this.within, ...labels }), usual(name, type ?? ""));
  }

  /** The names that have all words. The node keeps those of the last hours in a list; for older times they are asked for by their range. */
  private async find(words: string[], signal: AbortSignal): Promise<{ list: Found[]; total?: number; cut: boolean }> {
    const span = this.span();
    if (!this.of && span.end * 1000 > now() - RECENT) {
      const a = await json<{ metrics: Found[]; total: number; cut: boolean }>(`/query/metrics?${new URLSearchParams({ search: words.join(" "), limit: String(MOST_NAMES) })}`, { signal });
      return { list: a.metrics.map((m) => ({ type: "", ...m })), total: a.total, cut: a.cut };
    }
    const match = [...Object.entries(this.within).map(([k, v]) => `${k}=${quote(v)}`), ...words.map((w) => `__name__=~${JSON.stringify(`(?i).*${w.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}.*`)}`)].join(", ");
    const { data, warnings } = await call<string[]>("label/__name__/values", { ...span, limit: MOST_NAMES, ...(match ? { "match[]": `{${match}}` } : {}) }, signal);
    return { list: data.map((name) => ({ name, type: this.meta.get(name)?.type })), cut: (warnings ?? []).some((w) => w.includes("truncated")) };
  }

  private more() {
    for (const m of this.names.slice(this.shown, this.shown + PAGE)) {
      const before = this.names[this.shown - 1];
      if (common(m.name) && !(before && common(before.name))) this.list.append(h("li", { class: "mb-group" }, "Of Millstream and of runtimes"));
      this.list.append(this.item(m));
      this.shown++;
    }
  }

  private item({ name, type, series, help }: Found) {
    const toggle = h("button", { type: "button", class: "mb-open", "aria-expanded": "false", "aria-label": `About ${visible(name)}`, onclick: () => void this.expand(li, name) }, icon("chevron-right", "xs"));
    const raw = selector(name, this.within), runs = usual(name, type ?? "")(raw);
    const li = h("li", { class: "mb-item" }, h("div", { class: "mb-row" }, toggle,
      h("button", { type: "button", class: "mb-name", title: `${help ? `${visible(help)}\n` : ""}${type ? `Runs ${visible(runs)}` : `Puts ${visible(name)} into the query`}`, onclick: () => void this.choose(name) }, name.trim() ? breakable(visible(name)) : JSON.stringify(name)),
      runs !== raw && h("button", { type: "button", class: "mb-raw", "aria-label": `Raw values of ${visible(name)}`, title: `Runs ${visible(raw)}`, onclick: () => this.on.insert(raw) }, "raw"),
      series !== undefined && h("span", { class: "mb-n", title: `${type || "unknown type"}, ${plural(series, "series", "series")}` }, short(series))));
    return li;
  }

  private key(e: KeyboardEvent) {
    const names = [...this.list.querySelectorAll<HTMLElement>(".mb-name")], row = (e.target as Element).closest(".mb-item"), at = names.findIndex((n) => n.closest(".mb-item") === row);
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      if (e.key === "ArrowUp" && at === 0) { this.field.focus(); return; }
      if (e.key === "ArrowDown" && at === names.length - 1) this.more();
      ([...this.list.querySelectorAll<HTMLElement>(".mb-name")][at + (e.key === "ArrowDown" ? 1 : -1)])?.focus();
    } else if ((e.key === "ArrowRight" || e.key === "ArrowLeft") && row) {
      const b = row.querySelector<HTMLElement>(".mb-open")!;
      if ((b.getAttribute("aria-expanded") === "true") === (e.key === "ArrowLeft")) { e.preventDefault(); b.click(); }
    }
  }

  private async expand(li: HTMLElement, name: string) {
    const toggle = li.querySelector(".mb-open")!, old = li.querySelector(".mb-detail");
    if (old) { old.remove(); toggle.setAttribute("aria-expanded", "false"); return; }
    toggle.setAttribute("aria-expanded", "true");
    const box = h("div", { class: "mb-detail", "aria-busy": "true" }, h("p", { class: "muted" }, "Reading…"));
    li.append(box);
    const match = `{__name__=${JSON.stringify(name)}}`, span = this.span();
    try {
      const [meta, labels, series] = await Promise.all([this.describe(name), call<string[]>("labels", { ...span, "match[]": match, limit: MOST_VALUES }), this.seriesCount(match, span.end)]);
      if (!li.contains(box)) return;
      const names = labels.data.filter((l) => l !== "__name__");
      box.replaceChildren(
        h("p", { class: "mb-facts" }, h("span", { class: "pill" }, meta.type || "unknown type"), unitText(meta.unit) && h("span", { class: "pill" }, visible(unitText(meta.unit))), h("span", { class: "muted" }, series === undefined ? "" : plural(series, "series", "series"))),
        meta.help ? h("p", { class: "mb-help" }, visible(meta.help)) : "",
        ...this.suggestions(name, meta.type, names),
        names.length ? h("ul", { class: "mb-labels", "aria-label": `Labels of ${visible(name)}` }, names.map((l) => this.label(name, l))) : h("p", { class: "muted" }, "No labels."));
    } catch (e) {
      box.replaceChildren(h("p", { class: "bad" }, told(e)));
    } finally {
      box.removeAttribute("aria-busy");
    }
  }

  private suggestions(name: string, type: string, labels: string[]): HTMLElement[] {
    const sel = selector(name, this.within), asks = usual(name, type)(sel), by = ["service", "job", "service.name", "service_name", "code"].find((l) => labels.includes(l));
    if (asks === sel) return [];
    const list = [asks, ...(by && asks.startsWith("rate(") ? [`sum by (${/^\w+$/.test(by) ? by : JSON.stringify(by)}) (${asks})`] : []), sel];
    return [h("div", { class: "mb-try" }, list.map((q) => h("button", { type: "button", class: "mono", title: "Put this into the query", onclick: () => this.on.insert(q) }, visible(q))))];
  }

  /** Type, unit and help. Classic histograms are described by the name without its ending. */
  async describe(name: string): Promise<Meta> {
    const had = this.meta.get(name);
    if (had?.type) return had;
    for (const n of new Set([name, name.replace(/_(bucket|sum|count)$/, "")])) {
      const { data } = await call<Record<string, Meta[]>>("metadata", { metric: n });
      const m = data[n]?.[0];
      if (m) { this.meta.set(name, m); return m; }
    }
    return had ?? { type: "", unit: "", help: "" };
  }

  private async seriesCount(match: string, at: number): Promise<number | undefined> {
    try {
      const { data } = await call<{ result: { value: [number, string] }[] }>("query", { query: `count(last_over_time(${match}[1h]))`, time: at });
      return data.result[0] ? number(data.result[0].value[1]) : 0;
    } catch {
      return undefined; // a figure less, not an error
    }
  }

  private label(metric: string, label: string) {
    const open = h("button", { type: "button", class: "mb-label", "aria-expanded": "false", onclick: () => void this.values(li, open, metric, label) }, icon("chevron-right", "xs"), h("span", { class: "ell" }, visible(label)));
    const li = h("li", null, open);
    return li;
  }

  private async values(li: HTMLElement, open: HTMLElement, metric: string, label: string) {
    const old = li.querySelector("ul, p");
    if (old) { old.remove(); open.setAttribute("aria-expanded", "false"); return; }
    open.setAttribute("aria-expanded", "true");
    const box = h("ul", { class: "mb-values", "aria-label": `Values of ${visible(label)}` }, h("li", { class: "muted" }, "Reading…"));
    li.append(box);
    try {
      const { data, warnings } = await call<string[]>(`label/${encodeURIComponent(label)}/values`, { ...this.span(), "match[]": `{__name__=${JSON.stringify(metric)}}`, limit: MOST_VALUES });
      const cut = (warnings ?? []).some((w) => w.includes("truncated"));
      box.replaceChildren(...data.map((v) => h("li", null, h("button", { type: "button", title: `Select ${visible(label)} = ${visible(v)}`, onclick: () => void this.choose(metric, { [label]: v }) }, v === "" ? "(empty)" : visible(v.length > 200 ? v.slice(0, 200) + "…" : v)))), ...(cut ? [h("li", { class: "muted" }, `The first ${MOST_VALUES} values.`)] : []));
    } catch (e) {
      box.replaceChildren(h("li", { class: "bad" }, told(e)));
    }
  }
}
