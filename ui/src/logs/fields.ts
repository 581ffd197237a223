// The fields of a stream: pinned ones, those that many records have, and all. An open field shows its values, or how its numbers are spread.
import { explain, json } from "../lib/api.ts";
import { boot } from "../lib/boot.ts";
import { announce } from "../lib/a11y.ts";
import { button, h, icon, s, touch } from "../lib/dom.ts";
import { count, percent, plural, short } from "../lib/format.ts";
import { told } from "../lib/states.ts";
import { Grid } from "../el/grid.ts";
import { type Filter, isNumber, type Op } from "./filters.ts";
import { values } from "./detail.ts";
import { shown } from "./record.ts";

export interface FieldStat {
  name: string; type: string; conflict?: boolean; rows: number; share: number; estimated?: boolean; distinct?: number;
  min?: unknown; max?: unknown; p50?: number; p95?: number; distribution?: number[]; top?: { value: string; rows: number }[];
}
interface Answer { rows: number; total: number; fields: FieldStat[] }

export interface FieldsPage {
  selection(without?: string): { stream: string; filter: string; time_range: { start: string; end: string } } | undefined; // of the last run; a field's own filters may be left out
  filtersOf(field: string): Filter[];
  filter(field: string, op: Op, values: string[]): void;
  setFilter(field: string, f: Filter[]): void;
  toggleColumn(field: string): void;
  hasColumn(field: string): boolean;
  usualPins(): string[];
  closeFields(): void;
}

type Item = { head: string; note: string } | Field;
class Field {
  readonly box = h("div", { class: "tops" });
  asked = ""; // what the box shows
  base = 0; // records that its values were counted in
  num: HTMLElement | undefined; // its figure in the list
  stat: FieldStat | undefined;
  counted: FieldStat | undefined; // what the box shows, of the records that `asked` names: the list says the same
  constructor(readonly name: string, public type: string, readonly part: string) {}
}

const page = 500; // fields asked for at once
const sign = (type: string) => (isNumber(type) ? "#" : /^bool/i.test(type) ? "b" : /^time/i.test(type) ? "t" : /^(json|struct|list|object|array)/i.test(type) ? "{}" : "a");
const figure = (st: FieldStat | undefined) => (st?.distinct ? (st.estimated ? "~" : "") + short(st.distinct) : st && st.share === 0 ? "–" : st && st.share < 0.995 ? percent(st.share) : "");
const signName: Record<string, string> = { "#": "number", b: "true or false", t: "time", "{}": "object", a: "text" };

export class Fields {
  readonly grid = new Grid<Item>();
  readonly find = h("input", { class: "in", type: "search", id: "field-find", placeholder: "Filter fields", "aria-label": "Filter fields", autocomplete: "off", spellcheck: "false" });
  private problem = h("div", { class: "fproblem", role: "status", hidden: true });
  readonly el = h("aside", { class: "fields", "aria-label": "Fields" }, h("div", { class: "fhd" }, h("label", { class: "fsearch" }, icon("search", "s"), this.find, h("kbd", { class: "ml", "aria-hidden": "true" }, "F")), button({ icon: "x", label: "Close the fields", cls: "ghost icon fclose", on: () => this.p.closeFields() })), this.problem, this.grid);
  private known = new Map<string, Field>(); // by part and name, so that what is open stays open
  private list: FieldStat[] = [];
  private answered: Answer | undefined;
  private pins: string[] | undefined;
  private asked: AbortController | undefined;
  private timer = 0;
  private first = true;

  constructor(private p: FieldsPage) {
    this.grid.name = "Fields";
    this.grid.rowHeight = touch() ? 40 : 25;
    this.grid.columns = [{ key: "f", label: "Field", min: 60, fixed: true, render: (it, cell) => this.drawItem(it, cell) }];
    this.grid.rowClass = (it) => ("head" in it ? "fhead" : "fld");
    this.grid.rowLabel = (it) => ("head" in it ? `${it.head} ${it.note}` : this.label(it));
    this.grid.detail = (it, box) => { if ("box" in it) box.append(it.box); };
    this.grid.addEventListener("ms:open", (e) => { e.stopPropagation(); this.toggle((e as CustomEvent).detail.index); });
    this.grid.addEventListener("ms:select", (e) => e.stopPropagation());
    this.grid.addEventListener("ms:more", (e) => { e.stopPropagation(); void this.more(); });
    this.find.addEventListener("input", () => { clearTimeout(this.timer); this.timer = window.setTimeout(() => void this.load(), 150); });
    this.find.addEventListener("keydown", (e) => { if (e.key === "ArrowDown") { e.preventDefault(); this.grid.scroller.focus(); this.grid.move(1); } });
    try { this.pins = (JSON.parse(localStorage.getItem(this.pinKey) ?? "null") as string[] | null) ?? undefined; } catch { /* as if nothing was pinned */ }
  }

  private get pinKey() { return `ms.logs.pins.${boot.org}`; }
  get pinned() { return this.pins ?? this.p.usualPins(); }

  pin(name: string) {
    const now = this.pinned;
    this.pins = now.includes(name) ? now.filter((x) => x !== name) : [...now, name];
    try { localStorage.setItem(this.pinKey, JSON.stringify(this.pins)); } catch { /* for this page only */ }
    this.draw();
    announce(`${name} ${this.pins.includes(name) ? "pinned" : "not pinned any more"}`);
  }

  /** After a run: what the open fields show, and how many records have which field, is asked for anew. */
  async load() {
    const sel = this.p.selection();
    this.asked?.abort();
    if (!sel) return;
    const asked = (this.asked = new AbortController());
    try {
      const a = await json<Answer>("/query/fields", { body: { ...sel, search: this.find.value.trim(), limit: page }, signal: asked.signal });
      this.answered = a;
      this.list = a.fields;
      this.problem.hidden = true;
      this.find.placeholder = `Filter ${plural(a.total, "field")}`;
      this.draw();
      if (this.first) { this.first = false; for (const [i, it] of this.grid.rows.entries()) if ("box" in it && it.part === "pin" && i < 8 && innerHeight > 600) this.grid.toggle(i); }
      await this.loadOpen(asked.signal);
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      this.problem.hidden = false;
      this.problem.replaceChildren(h("span", null, `Fields: ${err.message}`), button({ text: "Try again", cls: "sm", on: () => void this.load() }));
    }
  }

  /** The next page of a stream with very many fields. */
  private async more() {
    const sel = this.p.selection(), a = this.answered;
    if (!sel || !a || this.list.length >= a.total || !this.asked) return;
    const signal = this.asked.signal;
    try {
      const next = await json<Answer>("/query/fields", { body: { ...sel, search: this.find.value.trim(), offset: this.list.length, limit: page }, signal });
      if (signal.aborted || next.fields.length === 0) return;
      this.list = this.list.concat(next.fields);
      this.draw();
    } catch { /* scrolling on asks again */ }
  }

  private field(part: string, name: string, type: string, stat?: FieldStat): Field {
    const key = `${part}\n${name}`;
    let f = this.known.get(key);
    if (!f) this.known.set(key, (f = new Field(name, type, part)));
    f.type = type;
    if (stat) f.stat = stat.share === 0 ? stat : { ...f.stat, ...stat }; // without records, the figures of the run before say nothing
    return f;
  }

  private draw() {
    const seen = new Map(this.list.map((f) => [f.name, f])), find = this.find.value.trim().toLowerCase();
    const pins = this.pinned.filter((n) => n.toLowerCase().includes(find));
    const often = find ? [] : [...this.list].filter((f) => !pins.includes(f.name) && f.name !== "_timestamp" && f.name !== "message" && f.share > 0).sort((a, b) => b.share - a.share || a.name.localeCompare(b.name)).slice(0, 8);
    const skip = new Set([...pins, ...often.map((f) => f.name)]), rest = this.list.filter((f) => !skip.has(f.name));
    const items: Item[] = [];
    const part = (head: string, note: string, list: Field[]) => { if (list.length) items.push({ head, note }, ...list); };
    part("Pinned", "", pins.map((n) => this.field("pin", n, seen.get(n)?.type ?? this.known.get(`pin\n${n}`)?.type ?? "string", seen.get(n))));
    part("Popular", "in result", often.map((f) => this.field("often", f.name, f.type, f)));
    part(find ? "Found" : "All fields", count(Math.max(rest.length, (this.answered?.total ?? 0) - skip.size)), rest.map((f) => this.field("all", f.name, f.type, f)));
    if (items.length === 0) items.push({ head: find ? "No field has this in its name" : "No fields yet", note: "" });
    this.grid.update(items);
  }

  /** What is known best of a field in the selection: its values were counted, or estimated. */
  private best(f: Field) { return f.counted && f.asked === JSON.stringify(this.p.selection(this.p.filtersOf(f.name).length ? f.name : undefined)) ? f.counted : f.stat; }

  private label(f: Field) {
    const n = this.best(f)?.distinct;
    return `${f.name}, ${signName[sign(f.type)]}${n ? `, ${plural(n, "value")}` : ""}`;
  }

  private drawItem(it: Item, cell: HTMLElement) {
    if ("head" in it) { cell.append(h("span", null, it.head), h("span", { class: "cd" }, it.note)); return; }
    const st = it.stat, t = sign(it.type);
    cell.append(icon("chevron-right", "xs"), h("span", { class: "ty", title: signName[t] }, t), h("span", { class: "ell", title: it.name }, shown(it.name, 200)), ...(st?.conflict ? [h("span", { class: "cd warn", title: "Values of several types were sent" }, icon("triangle-alert", "xs"))] : []), (it.num = h("span", { class: "cd num" }, figure(this.best(it)))));
  }

  private toggle(i: number) {
    const it = this.grid.rows[i];
    if (!it || !("box" in it)) return;
    this.grid.toggle(i);
    if (this.grid.isOpen(i)) void this.loadOpen(this.asked?.signal, it);
  }

  /** Opens a field and brings it into sight. */
  async reveal(name: string) {
    let i = this.grid.rows.findIndex((it) => "box" in it && it.name === name);
    if (i < 0) { this.find.value = name; await this.load(); i = this.grid.rows.findIndex((it) => "box" in it && it.name === name); }
    if (i < 0) return;
    if (!this.grid.isOpen(i)) this.toggle(i);
    this.grid.select(i, { quiet: true });
    this.grid.scroller.focus();
  }

  private async loadOpen(signal: AbortSignal | undefined, only?: Field) {
    const open = only ? [only] : this.grid.rows.flatMap((it, i) => ("box" in it && this.grid.isOpen(i) ? [it] : []));
    const groups = new Map<string, Field[]>(); // fields without a filter of their own are asked for together
    for (const f of open) { const key = this.p.filtersOf(f.name).length ? f.name : ""; groups.set(key, [...(groups.get(key) ?? []), f]); }
    await Promise.all([...groups].map(async ([own, list]) => {
      const sel = this.p.selection(own || undefined);
      if (!sel) return;
      const asked = JSON.stringify(sel);
      const need = list.filter((f) => f.asked !== asked);
      if (need.length === 0) { for (const f of list) this.drawTops(f, f.counted ?? f.stat!); return; }
      for (const f of need) if (!f.asked) f.box.replaceChildren(h("p", { class: "muted", "aria-busy": "true" }, "Counting…"));
      try {
        const a = await json<Answer>("/query/fields", { body: { ...sel, fields: [...new Set(need.map((f) => f.name))].slice(0, 50), top: 10, limit: 0 }, ...(signal ? { signal } : {}) });
        for (const f of need) {
          f.base = a.rows;
          const st = a.fields.find((x) => x.name === f.name);
          f.asked = asked;
          f.stat = { name: f.name, type: f.type, rows: 0, share: 0, ...f.stat, ...st };
          this.drawTops(f, st ?? { name: f.name, type: f.type, rows: 0, share: 0 });
        }
      } catch (e) {
        const err = explain(e);
        if (err.code === "aborted") return;
        for (const f of need) f.box.replaceChildren(h("p", { class: "muted" }, told(err)), button({ text: "Try again", cls: "sm", on: () => void this.loadOpen(signal, f) }));
      }
    }));
    this.grid.remeasure();
  }

  private drawTops(f: Field, st: FieldStat) {
    f.counted = st;
    f.num?.replaceChildren(figure(st));
    f.num?.closest("[role=row]")?.setAttribute("aria-label", this.label(f));
    const had = f.box.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.k : undefined;
    const chosen = new Set(this.p.filtersOf(f.name).filter((x) => x.op === "is").flatMap((x) => x.values));
    const rows = [...(st.top ?? [])];
    for (const v of chosen) if (!rows.some((r) => r.value === v)) rows.push({ value: v, rows: 0 });
    const tick = (v: string, on: boolean) => { if (on) chosen.add(v); else chosen.delete(v); this.p.setFilter(f.name, [...this.p.filtersOf(f.name).filter((x) => x.op !== "is"), ...(chosen.size ? [{ field: f.name, op: "is" as const, values: [...chosen] }] : [])]); };
    const list = rows.map(({ value, rows: n }) => {
      const share = f.base ? Math.min(1, n / f.base) : 0;
      const li = h("li", null, h("input", { type: "checkbox", "data-k": `c${value}`, "aria-label": value.trim() ? shown(value, 200) : "empty", onchange: (e: Event) => tick(value, (e.target as HTMLInputElement).checked), ...(chosen.has(value) ? { checked: true } : {}) }), h("span", { class: "v", title: value.slice(0, 500), onclick: () => li.querySelector("input")!.click() }, shown(value, 120) || h("i", { class: "muted" }, "empty")), h("span", { class: "n num" }, n ? percent(share) : "–"),
        h("span", { class: "acts" }, h("button", { type: "button", "data-k": `+${value}`, "aria-label": `Only ${f.name} ${value.slice(0, 80)}`, title: "Filter for", onclick: () => this.p.filter(f.name, "is", [value]) }, icon("circle-plus", "s")), h("button", { type: "button", "data-k": `-${value}`, "aria-label": `Without ${f.name} ${value.slice(0, 80)}`, title: "Filter out", onclick: () => this.p.filter(f.name, "not", [value]) }, icon("circle-minus", "s"))),
        s("svg", { class: "b", viewBox: "0 0 100 2", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { width: 100, height: 2, class: "bg" }), s("rect", { width: 100 * share, height: 2, class: "fg" })));
      values.set(li, { field: f.name, value });
      return li;
    });
    f.box.replaceChildren(...(st.distribution && st.rows ? [this.spread(f, st)] : []), rows.length ? h("ul", null, list) : h("p", { class: "muted" }, "No record of the result has it."),
      h("div", { class: "fmore" }, h("span", { class: "muted" }, `In ${percent(Math.min(1, st.share || 0))}${st.distinct ? `, ${count(st.distinct)} ${st.distinct === 1 ? "value" : "values"}` : ""}`),
        button({ icon: "columns-3", label: this.p.hasColumn(f.name) ? "Hide the column" : "Show as column", cls: "ghost icon sm", "data-k": "col", "aria-pressed": String(this.p.hasColumn(f.name)), on: () => { this.p.toggleColumn(f.name); this.drawTops(f, st); } }), button({ icon: "pin", label: this.pinned.includes(f.name) ? "Unpin" : "Pin", cls: "ghost icon sm", "data-k": "pin", "aria-pressed": String(this.pinned.includes(f.name)), on: () => this.pin(f.name) }),
        button({ icon: "check", label: "Only records that have it", cls: "ghost icon sm", "data-k": "has", on: () => this.p.filter(f.name, "has", []) })));
    if (had) [...f.box.querySelectorAll<HTMLElement>("[data-k]")].find((e) => e.dataset.k === had)?.focus();
  }

  /** How numbers are spread between the least and the greatest; a part can be chosen. */
  private spread(f: Field, st: FieldStat): HTMLElement {
    const d = st.distribution!, max = Math.max(...d, 1), lo = Number(st.min), hi = Number(st.max), w = (hi - lo) / d.length;
    const sel = s("rect", { class: "sel", y: 0, height: 34, width: 0 });
    const bars = d.map((n, i) => s("rect", { x: i * 5 + 0.4, width: 4.2, y: 34 - Math.max(n ? 1 : 0, (33 * n) / max), height: Math.max(n ? 1 : 0, (33 * n) / max), class: "fg" }));
    const svg = s("svg", { class: "spread", viewBox: "0 0 100 34", preserveAspectRatio: "none", "aria-hidden": "true" }, sel, bars);
    const at = (e: PointerEvent) => { const r = svg.getBoundingClientRect(); return Math.max(0, Math.min(d.length - 1, Math.floor(((e.clientX - r.left) / r.width) * d.length))); };
    let from = -1, to = -1;
    const mark = () => { sel.setAttribute("x", String(Math.min(from, to) * 5)); sel.setAttribute("width", String((Math.abs(to - from) + 1) * 5)); };
    svg.addEventListener("pointerdown", (e) => { from = to = at(e); svg.setPointerCapture(e.pointerId); mark(); });
    svg.addEventListener("pointermove", (e) => { if (from >= 0) { to = at(e); mark(); } });
    svg.addEventListener("lostpointercapture", () => {
      const a = Math.min(from, to), b = Math.max(from, to);
      from = -1;
      if (hi <= lo) return;
      this.between(f.name, lo + a * w, b === d.length - 1 ? undefined : lo + (b + 1) * w);
    });
    const num = (v: unknown) => (v === undefined ? "–" : short(Number(v)));
    const low = h("input", { class: "in", inputmode: "decimal", "aria-label": `${f.name} at least`, placeholder: num(st.min) }), high = h("input", { class: "in", inputmode: "decimal", "aria-label": `${f.name} below`, placeholder: num(st.max) });
    const form = h("form", { class: "between", onsubmit: (e: Event) => { e.preventDefault(); this.between(f.name, low.value.trim() === "" ? undefined : Number(low.value), high.value.trim() === "" ? undefined : Number(high.value)); } }, low, h("span", { class: "muted" }, "to"), high, h("button", { class: "btn sm" }, "Go"));
    return h("div", null, svg, h("dl", { class: "quant" }, ([["min", st.min], ["p50", st.p50], ["p95", st.p95], ["max", st.max]] as const).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", { class: "num" }, num(v))))), form);
  }

  private between(field: string, lo: number | undefined, hi: number | undefined) {
    const bound = (op: Op, v: number | undefined): Filter[] => (v === undefined || Number.isNaN(v) ? [] : [{ field, op, values: [String(+v.toPrecision(12))] }]);
    this.p.setFilter(field, [...bound("gte", lo), ...bound("lt", hi)]);
  }
}
