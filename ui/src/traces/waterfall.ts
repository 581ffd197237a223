// The waterfall: a line a span, the tree on the left and the time on the right. Only the lines in sight are elements.
import { announce } from "../lib/a11y.ts";
import { boot } from "../lib/boot.ts";
import { h, icon, s, visible } from "../lib/dom.ts";
import { duration, plural } from "../lib/format.ts";
import { splitter } from "../lib/resize.ts";
import { Minimap } from "./minimap.ts";
import { type ColourBy, type Filter, filtering, matches, noFilter, type Trace } from "./model.ts";
import { type Row, rowsOf, uncover, type View } from "./rows.ts";
import { called } from "./links.ts";

const tall = 24; // px of a line
const around = 6; // lines kept above and below those in sight
const deepest = 24; // levels that are indented; deeper ones are as these
const pinned = 4; // lines of ancestors kept in sight

export interface Events { select: (span: number | null) => void; open: (span: number) => void; zoom: (from: number, to: number) => void }

export class Waterfall {
  readonly el: HTMLElement;
  rows: Row[] = [];
  readonly view: View = { folded: new Set(), opened: new Set(), hide: false };
  matched = 0; // spans that pass the filter
  private by: ColourBy = "service";
  private at = -1; // row
  private window: [number, number] = [0, 1]; // shares of the trace's duration
  private pool = new Map<number, HTMLElement>();
  private frame = 0;
  private minimap = new Minimap((from, to) => this.zoom(from, to));
  private axis = h("div", { class: "wf-axis", "aria-hidden": "true" });
  private head = h("div", { class: "wf-head", role: "row", "aria-rowindex": "1" });
  private pins = h("div", { class: "wf-pins", "aria-hidden": "true" });
  private body = h("div", { class: "wf-body", role: "rowgroup" });
  readonly scroller = h("div", { class: "wf-scroll", role: "treegrid", tabindex: "0", "aria-label": "Spans" });
  private sizes = new ResizeObserver(() => this.draw());

  constructor(private t: Trace, private on: Events) {
    const name = h("div", { class: "wf-hn", role: "columnheader", "aria-colindex": "1" }, "Service and operation", t.critical.size > 0 && h("span", { class: "wf-key", title: "The parts of the spans that the trace waited for" }, h("i"), "critical path"));
    this.head.append(name, h("div", { class: "wf-ht", role: "columnheader", "aria-colindex": "2" }, h("span", { class: "vh" }, "Time"), this.axis));
    this.scroller.append(this.head, this.pins, this.body);
    this.el = h("div", { class: "waterfall" }, this.minimap.el, this.scroller);
    const bar = splitter(name, { min: 160, max: 900, size: 420, key: "trace.tree", label: "Width of the tree", on: (size) => { this.el.style.setProperty("--tree", `${size}px`); this.later(); } });
    this.el.append(bar);
    this.scroller.addEventListener("scroll", () => this.later());
    this.scroller.addEventListener("keydown", (e) => this.key(e));
    this.scroller.addEventListener("click", (e) => this.click(e));
    this.scroller.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.sizes.observe(this.scroller);
    document.addEventListener("ms:look", () => this.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
    this.rebuild();
    this.minimap.show(t, this.by);
    this.minimap.set(0, 1);
  }

  // ---- what the page sets
  get colourBy() { return this.by; }
  set colourBy(by: ColourBy) { this.by = by; this.refresh(); }

  /** Marks or keeps the spans that pass. */
  filter(f: Filter, hide: boolean) {
    const span = this.selected;
    this.view.match = filtering(f) ? matches(this.t, f) : undefined;
    this.view.hide = hide && this.view.match !== undefined;
    this.matched = this.view.match ? this.view.match.reduce((a, b) => a + b, 0) : this.t.n;
    this.rebuild();
    if (span !== null) this.select(span, false);
  }

  clear() { this.filter(noFilter, false); }

  refresh() {
    this.minimap.show(this.t, this.by);
    this.renew();
  }

  get selected(): number | null { const r = this.rows[this.at]; return r && !r.group ? r.span : null; }

  /** Selects a span, unfolding what hides it. */
  select(span: number, tell = true) {
    let i = this.rows.findIndex((r) => r.span === span && !r.group);
    if (i < 0) {
      uncover(this.t, this.view, span);
      this.rebuild();
      i = this.rows.findIndex((r) => r.span === span && !r.group);
    }
    if (i >= 0) this.go(i, tell);
  }

  /** Shows a part of the time, given in shares of the trace. */
  zoom(from: number, to: number) {
    const least = 1e-6, width = Math.min(1, Math.max(least, to - from));
    const start = Math.max(0, Math.min(1 - width, from));
    this.window = [start, start + width];
    this.minimap.set(start, start + width);
    this.renew();
    this.on.zoom(start, start + width);
  }

  get zoomed(): [number, number] { return this.window; }

  /** Goes to the next span that failed, from the top again after the last. */
  nextError() {
    if (this.t.errors === 0) return announce("No span failed");
    const from = this.rows[this.at]?.span ?? -1;
    for (let k = 1; k <= this.t.n; k++) {
      const i = (from + k) % this.t.n;
      if (this.t.error[i]) return this.select(i);
    }
  }

  foldAll(fold: boolean) {
    const span = this.selected;
    this.view.folded.clear();
    this.view.opened.clear();
    if (fold) for (let i = 0; i < this.t.n; i++) if (this.t.level(i) > 0 && this.t.children(i) > 0) this.view.folded.add(i);
    this.rebuild();
    this.at = span === null ? -1 : this.rows.findIndex((r) => r.span === span && !r.group);
    this.draw();
  }

  // ---- lines
  rebuild() {
    this.rows = rowsOf(this.t, this.view);
    this.at = Math.min(this.at, this.rows.length - 1);
    this.body.style.height = `${this.rows.length * tall}px`;
    this.scroller.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.renew();
  }

  private renew() {
    for (const el of this.pool.values()) el.remove();
    this.pool.clear();
    this.drawAxis();
    this.draw();
  }

  private later() { this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  private draw() {
    const top = this.scroller.scrollTop, view = this.scroller.clientHeight;
    const first = Math.max(0, Math.floor(top / tall) - around), end = Math.min(this.rows.length, Math.ceil((top + view) / tall) + around);
    for (const [i, el] of this.pool) if (i < first || i >= end) { el.remove(); this.pool.delete(i); }
    for (let i = first; i < end; i++) {
      let el = this.pool.get(i);
      if (!el) {
        el = this.line(i, true);
        el.style.transform = `translateY(${i * tall}px)`;
        this.pool.set(i, el);
        this.body.append(el);
      }
      el.setAttribute("aria-selected", String(i === this.at));
    }
    const on = this.pool.get(this.at);
    if (on) this.scroller.setAttribute("aria-activedescendant", on.id); else this.scroller.removeAttribute("aria-activedescendant");
    this.pin(Math.floor(top / tall));
  }

  /** Keeps the ancestors of the first line in sight above it. */
  private pin(first: number) {
    const row = this.rows[first], list = row && first > 0 ? (row.group ? [...this.t.ancestors(row.span)] : this.t.ancestors(row.span)).slice(-pinned) : [];
    const key = list.join();
    if (this.pins.dataset.key === key) return;
    this.pins.dataset.key = key;
    this.pins.replaceChildren(...list.map((span) => {
      const el = this.line(this.rows.findIndex((r) => r.span === span && !r.group), false);
      el.dataset.pin = String(span);
      return el;
    }));
  }

  private line(i: number, real: boolean): HTMLElement {
    const row = this.rows[i]!, t = this.t, span = row.span, g = row.group;
    const open = g ? g.open : !this.view.folded.has(span), inner = g ? g.members.length : t.children(span);
    const dim = this.view.match && !g && !this.view.match[span];
    const name = visible(t.name(span)), service = called(t.service(span)), failed = g ? g.errors > 0 : t.error[span] === 1;
    const flags = [
      failed && h("span", { class: "wf-flag err" }, icon("circle-alert", "xs"), g && g.errors > 0 && String(g.errors)),
      !g && t.missing[span] === 1 && h("span", { class: "wf-flag warn", title: "Its parent is not among the stored spans" }, icon("split", "xs"), "Unknown parent"),
      !g && t.skewed[span] === 1 && h("span", { class: "wf-flag warn", title: "It begins before its parent: the clocks of the two differ" }, icon("clock", "xs")),
    ];
    const length = g ? g.to - g.from : t.length(span), from = g ? g.from : t.start[span]!;
    const said = g ? `${plural(g.members.length, "repetition")} of ${service}, ${name}, median ${duration(g.median)}, longest ${duration(g.longest)}` : `${service}, ${name}, ${duration(length)}${failed ? ", error" : ""}, after ${duration(from)}`;
    const cell = h("div", { class: "wf-n", role: real ? "gridcell" : null, "aria-colindex": real ? "1" : null },
      inner > 0 ? h("span", { class: "wf-tw", "data-toggle": "" }, icon(open ? "chevron-down" : "chevron-right", "xs"), h("span", { class: "wf-k num" }, g ? `×${inner}` : String(inner))) : h("span", { class: "wf-tw leaf" }),
      h("span", { class: "wf-svc ell" }, service), h("span", { class: "wf-op ell" }, name), flags, g && h("span", { class: "wf-sum muted num" }, `p50 ${duration(g.median)}, max ${duration(g.longest)}`));
    cell.style.setProperty("--lv", String(Math.min(row.level, deepest)));
    const colour = t.colour(span, this.by);
    cell.style.setProperty("--sp", `var(${colour})`);
    const el = h("div", { class: `wf-row${dim ? " dimmed" : ""}${g ? " group" : ""}${failed ? " failed" : ""}`, role: real ? "row" : null, id: real ? `wf-${i}` : null, "aria-level": real ? row.level + 1 : null, "aria-posinset": real ? row.parts : null, "aria-setsize": real ? row.set : null, "aria-rowindex": real ? i + 2 : null, "aria-expanded": real && inner > 0 ? String(open) : null, "aria-label": real ? said : null, "data-i": i },
      cell, h("div", { class: "wf-t", role: real ? "gridcell" : null, "aria-colindex": real ? "2" : null }, this.bar(row, from, length, colour)));
    return el;
  }

  private bar(row: Row, from: number, length: number, colour: string): Node[] {
    const [w0, w1] = this.window.map((x) => x * this.t.duration) as [number, number], per = 100 / (w1 - w0);
    const x0 = (from - w0) * per, x1 = (from + length - w0) * per;
    const text = h("span", { class: "wf-d num" }, duration(row.group ? row.group.longest : length));
    if (x1 < 0 || x0 > 100) { // out of the window: an arrow says where
      const out = h("span", { class: `wf-off ${x1 < 0 ? "l" : "r"}` }, icon(x1 < 0 ? "chevron-left" : "chevron-right", "xs"));
      return [out];
    }
    const left = Math.max(-1, x0), right = Math.min(101, x1);
    const bar = h("i", { class: "wf-b" });
    bar.style.setProperty("--sp", `var(${colour})`);
    bar.style.left = `${left}%`;
    bar.style.width = `${right - left}%`;
    const room = 5600 / Math.max(60, this.axis.clientWidth); // of a duration, in percent
    if (right < 100 - room) text.style.left = `calc(${Math.max(0, right)}% + 8px)`;
    else if (left > room) text.style.right = `calc(${100 - left}% + 6px)`;
    else { text.style.left = `calc(${Math.max(0, left)}% + 6px)`; text.classList.add("in"); }
    const parts = row.group ? undefined : this.t.critical.get(row.span);
    const path = parts && !this.t.corrected && criticalPath(parts, w0, w1);
    return [bar, ...(path ? [s("svg", { class: "wf-cp", viewBox: "0 0 2000 1", preserveAspectRatio: "none", "aria-hidden": "true" }, s("path", { d: path }))] : []), text];
  }

  /** Times at round distances, and lines down from them. */
  private drawAxis() {
    const [from, to] = this.window.map((x) => x * this.t.duration) as [number, number], step = roundStep((to - from) / 5);
    const ticks: number[] = [];
    for (let v = Math.ceil(from / step) * step; v <= to; v += step) ticks.push(v);
    this.axis.replaceChildren(...ticks.map((v) => {
      const share = (v - from) / (to - from), tick = h("i", { class: share > 0.94 ? "last" : share < 0.04 ? "first" : null }, h("span", null, v === 0 ? "0" : duration(Math.round(v))));
      tick.style.left = `${share * 100}%`;
      return tick;
    }));
  }

  // ---- the reader
  private go(i: number, tell = true) {
    if (this.rows.length === 0) return;
    this.at = Math.max(0, Math.min(i, this.rows.length - 1));
    const top = this.at * tall, view = this.scroller.clientHeight - this.head.offsetHeight, covered = Math.min(pinned, this.rows[this.at]!.level) * tall;
    if (top - covered < this.scroller.scrollTop) this.scroller.scrollTop = Math.max(0, top - covered);
    else if (top + tall > this.scroller.scrollTop + view) this.scroller.scrollTop = top + tall - view;
    this.draw();
    if (tell) this.on.select(this.selected);
  }

  private toggle(i: number, open?: boolean) {
    const row = this.rows[i];
    if (!row || (!row.group && this.t.children(row.span) === 0)) return;
    const set = row.group ? this.view.opened : this.view.folded, key = (row.group ? row.group.id : row.span) as never;
    const isOpen = row.group ? row.group.open : !this.view.folded.has(row.span);
    if (open === isOpen) return;
    if (set.has(key)) set.delete(key); else set.add(key);
    this.rebuild();
  }

  private parentRow(i: number): number {
    const level = this.rows[i]!.level;
    for (let k = i - 1; k >= 0; k--) if (this.rows[k]!.level < level) return k;
    return -1;
  }

  /** A key that was pressed elsewhere on the page. */
  press(e: KeyboardEvent) {
    this.scroller.focus();
    this.key(e);
  }

  private key(e: KeyboardEvent) {
    if (e.metaKey || e.ctrlKey || e.altKey) return;
    const single = boot.prefs.single_keys !== false, k = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / tall) - 2), row = this.rows[this.at];
    if (e.shiftKey && (k === "ArrowLeft" || k === "ArrowRight")) { const [from, to] = this.window, by = ((to - from) / 4) * (k === "ArrowLeft" ? -1 : 1); this.zoom(from + by, to + by); }
    else if (k === "ArrowDown" || (single && k === "j")) this.go(this.at + 1);
    else if (k === "ArrowUp" || (single && k === "k")) this.go(Math.max(0, this.at - 1));
    else if (k === "PageDown") this.go(this.at + page);
    else if (k === "PageUp") this.go(this.at - page);
    else if (k === "Home") this.go(0);
    else if (k === "End") this.go(this.rows.length - 1);
    else if (k === "ArrowRight" && row) { const open = row.group ? row.group.open : !this.view.folded.has(row.span); if (open) this.go(this.at + Number(this.rows[this.at + 1]?.level === row.level + 1)); else this.toggle(this.at, true); }
    else if (k === "ArrowLeft" && row) { const open = row.group ? row.group.open : this.t.children(row.span) > 0 && !this.view.folded.has(row.span); if (open) this.toggle(this.at, false); else if (this.parentRow(this.at) >= 0) this.go(this.parentRow(this.at)); }
    else if (k === "Enter" && row) { if (row.group) this.toggle(this.at); else this.on.open(row.span); }
    else if (k === " " && row) this.toggle(this.at);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  /** Zooms by a factor around the middle of the window. */
  scale(by: number) {
    const [from, to] = this.window, middle = (from + to) / 2, half = ((to - from) / 2) * by;
    this.zoom(middle - half, middle + half);
  }

  private click(e: MouseEvent) {
    const target = e.target as Element, el = target.closest<HTMLElement>(".wf-row");
    if (!el || !getSelection()?.isCollapsed) return;
    if (el.dataset.pin) return this.select(Number(el.dataset.pin));
    const i = Number(el.dataset.i);
    if (target.closest("[data-toggle]") || this.rows[i]!.group) { this.at = i; return this.toggle(i); }
    this.go(i);
    this.on.open(this.rows[i]!.span);
  }

  private wheel(e: WheelEvent) {
    const box = this.axis.getBoundingClientRect();
    if ((!e.ctrlKey && !e.metaKey) || e.clientX < box.left) return;
    e.preventDefault();
    const [from, to] = this.window, at = from + ((e.clientX - box.left) / box.width) * (to - from), by = e.deltaY > 0 ? 1.25 : 0.8;
    this.zoom(at - (at - from) * by, at + (to - at) * by);
  }
}

/** The first of 1, 2, 5, 10, 20, … that is not below v; for minutes of 1, 2, 5, 10, 15, 30, 60. */
function roundStep(v: number): number {
  const minute = 60e9;
  if (v > minute / 2) return minute * ([1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].find((m) => m * minute >= v) ?? Math.ceil(v / minute / 1440) * 1440);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, v)));
  return power * ([1, 2, 5, 10].find((m) => m * power >= v) ?? 10);
}

/** The parts of the critical path within the window, in two thousandths of it; parts that touch are one. */
function criticalPath(parts: [number, number][], w0: number, w1: number): string {
  let d = "", from = -1, to = -1;
  const end = () => { if (from >= 0) d += `M${from} 0h${Math.max(2, to - from)}v1h${-Math.max(2, to - from)}z`; };
  for (const [a, b] of parts) {
    const x0 = Math.max(0, Math.round(((a - w0) / (w1 - w0)) * 2000)), x1 = Math.min(2000, Math.round(((b - w0) / (w1 - w0)) * 2000));
    if (x1 < 0 || x0 > 2000) continue;
    if (from >= 0 && x0 <= to + 1) { to = Math.max(to, x1); continue; }
    end();
    from = x0;
    to = x1;
  }
  end();
  return d;
}
