// Durations over time: the darker a cell, the more spans; red is the share that failed. A box that is drawn selects.
import { announce } from "../lib/a11y.ts";
import { button, h, s } from "../lib/dom.ts";
import { count, duration, percent, plural } from "../lib/format.ts";
import { formatTime } from "../lib/time.ts";
import { type Density, perDecade } from "./search.ts";

/** A box of time and duration. */
export interface Box { start: number; end: number; least: number; most: number } // ms, ns

const tall = 150, left = 58, bottom = 18; // px

export class Heatmap {
  readonly el: HTMLElement;
  private d: Density | undefined;
  private low = 0;
  private rows = 1;
  private cursor: { x: number; y: number; x2: number; y2: number } | undefined; // cells, as the keys move it
  private box: Box | undefined;
  private asTable = false;
  private readonly svg = s("svg", { class: "hm-svg", role: "img", "aria-label": "Durations over time" });
  private readonly plot = h("div", { class: "hm-plot", tabindex: "0", role: "group", "aria-roledescription": "heatmap", "aria-label": "Durations over time. Arrows move the cursor, Shift and arrows select, Enter shows the selection" }, this.svg);
  private readonly tip = h("div", { class: "tip hm-tip", hidden: true });
  private readonly title = h("h2", { class: "hm-title" });
  private readonly note = h("span", { class: "muted num" });
  private readonly acts = h("div", { class: "hm-acts", hidden: true });
  private readonly table = h("div", { class: "hm-table", hidden: true });
  private readonly toggle = button({ text: "Show as table", cls: "ghost sm hide-s", "aria-pressed": "false", on: () => { this.asTable = !this.asTable; this.draw(); } });
  private sizes = new ResizeObserver(() => this.draw());

  constructor(private on: { zoom: (b: Box) => void; compare: (b: Box) => void; clear: () => void }) {
    this.acts.append(button({ text: "Show these", icon: "zoom-in", cls: "sm primary", on: () => this.box && on.zoom(this.box) }), button({ text: "Compare with the others", icon: "split", cls: "sm", on: () => this.box && on.compare(this.box) }), button({ icon: "x", label: "Drop the selection", cls: "sm ghost icon", on: () => this.select(undefined) }));
    this.el = h("section", { class: "heatmap", "aria-label": "Durations over time" }, h("div", { class: "hm-hd" }, this.title, this.note, h("span", { class: "spacer" }), this.acts, this.toggle), h("div", { class: "hm-wrap" }, this.plot, this.tip), this.table);
    this.plot.addEventListener("pointerdown", (e) => this.press(e));
    this.plot.addEventListener("pointermove", (e) => this.hover(e));
    this.plot.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.plot.addEventListener("keydown", (e) => this.key(e));
    this.plot.addEventListener("blur", () => { this.tip.hidden = true; });
    this.sizes.observe(this.plot);
  }

  show(d: Density, what: string) {
    this.d = d;
    this.cursor = this.box = undefined;
    this.acts.hidden = true;
    const ys = d.cells.map((c) => c.y);
    this.low = Math.min(...ys, Infinity) - 1;
    this.rows = d.cells.length ? Math.max(...ys) - this.low + 2 : 1;
    const n = d.cells.reduce((sum, c) => sum + c.n, 0), failed = d.cells.reduce((sum, c) => sum + c.errors, 0);
    this.title.textContent = `${count(n)} ${what}`;
    this.note.textContent = failed ? `${count(failed)} failed (${percent(failed / n)})` : "";
    this.draw();
  }

  private get width() { return Math.max(120, this.plot.clientWidth); }
  private get cellW() { return (this.width - left - 8) / this.d!.columns; }
  private get cellH() { return (tall - bottom) / this.rows; }
  private x(col: number) { return left + col * this.cellW; }
  private y(row: number) { return (this.rows - (row - this.low)) * this.cellH; } // top of the row above: its bottom is y(row)

  private draw() {
    const d = this.d;
    if (!d) return;
    this.toggle.setAttribute("aria-pressed", String(this.asTable));
    this.plot.parentElement!.hidden = this.asTable;
    this.table.hidden = !this.asTable;
    if (this.asTable) return this.drawTable();
    const most = Math.max(8, ...d.cells.map((c) => c.n)), w = Math.max(1, this.cellW - 0.6), hh = Math.max(1, this.cellH - 0.6);
    const step = (n: number) => 1 + Math.min(5, Math.floor((Math.log(n + 1) / Math.log(most + 1)) * 5.99));
    const cells = d.cells.filter((c) => c.x >= 0 && c.x < d.columns).flatMap((c) => {
      const x = this.x(c.x), y = this.y(c.y + 1), bad = c.errors ? Math.max(2, hh * (c.errors / c.n)) : 0;
      return [c.errors < c.n && s("rect", { x, y, width: w, height: hh, class: `q${step(c.n)}` }), bad > 0 && s("rect", { x, y: y + hh - Math.min(hh, bad), width: w, height: Math.min(hh, bad), class: "bad" })].filter(Boolean) as Node[];
    });
    const lines: Node[] = [];
    for (let p = 0; p < 14; p++) {
      const row = p * perDecade;
      if (row < this.low || row > this.low + this.rows) continue;
      const y = this.y(row);
      lines.push(s("line", { x1: left, x2: this.width - 8, y1: y, y2: y, class: "gl" }), s("text", { x: left - 6, y: Math.max(8, y + 3.5), "text-anchor": "end" }, duration(10 ** p)));
    }
    const ticks = Math.max(2, Math.min(8, Math.floor(this.width / 140)));
    for (let i = 0; i <= ticks; i++) {
      const t = d.start + (i / ticks) * d.columns * d.width, long = d.columns * d.width > 86_400_000;
      lines.push(s("text", { x: this.x((i / ticks) * d.columns), y: tall - 4, "text-anchor": i === 0 ? "start" : i === ticks ? "end" : "middle" }, formatTime(t, { date: long, seconds: d.columns * d.width < 600_000 })));
    }
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${tall}`);
    this.svg.setAttribute("height", String(tall));
    this.svg.replaceChildren(...lines, ...cells, ...this.marks());
    this.svg.setAttribute("aria-label", this.summary());
  }

  private marks(): Node[] {
    const out: Node[] = [];
    if (this.box) {
      const a = this.cellsOf(this.box);
      out.push(s("rect", { x: this.x(a.x), y: this.y(a.y2 + 1), width: Math.max(2, (a.x2 - a.x + 1) * this.cellW), height: Math.max(2, (a.y2 - a.y + 1) * this.cellH), class: "sel" }));
    }
    if (this.cursor) out.push(s("rect", { x: this.x(this.cursor.x2), y: this.y(this.cursor.y2 + 1), width: this.cellW, height: this.cellH, class: "cur" }));
    return out;
  }

  private cellsOf(b: Box) {
    const d = this.d!, row = (ns: number) => Math.floor(Math.log10(Math.max(1, ns)) * perDecade + 1e-9);
    return { x: Math.round((b.start - d.start) / d.width), x2: Math.round((b.end - d.start) / d.width) - 1, y: row(b.least), y2: row(b.most * 0.9999) };
  }

  private summary(): string {
    const d = this.d!, n = d.cells.reduce((sum, c) => sum + c.n, 0);
    if (n === 0) return "No spans";
    const busiest = d.cells.reduce((a, b) => (b.n > a.n ? b : a));
    return `${plural(n, "span")} from ${duration(10 ** (Math.min(...d.cells.map((c) => c.y)) / perDecade))} to ${duration(10 ** ((Math.max(...d.cells.map((c) => c.y)) + 1) / perDecade))}; most, ${count(busiest.n)}, about ${duration(10 ** ((busiest.y + 0.5) / perDecade))} at ${formatTime(d.start + busiest.x * d.width)}`;
  }

  private drawTable() {
    const d = this.d!, rows = new Map<number, { n: number; errors: number }>();
    for (const c of d.cells) { const r = rows.get(c.y) ?? { n: 0, errors: 0 }; r.n += c.n; r.errors += c.errors; rows.set(c.y, r); }
    this.table.replaceChildren(h("table", { class: "tbl" }, h("thead", null, h("tr", null, ["Duration", "Spans", "Failed"].map((t, i) => h("th", { scope: "col", class: i ? "r" : null }, t)))),
      h("tbody", null, [...rows].sort((a, b) => b[0] - a[0]).map(([y, r]) => h("tr", null, h("th", { scope: "row" }, `${duration(10 ** (y / perDecade))} to ${duration(10 ** ((y + 1) / perDecade))}`), h("td", { class: "r num" }, count(r.n)), h("td", { class: "r num" }, count(r.errors)))))));
  }

  /** The cell at a point of the plot. */
  private at(e: PointerEvent) {
    const r = this.plot.getBoundingClientRect(), d = this.d!;
    const x = Math.floor((e.clientX - r.left - left) / this.cellW), y = this.low + this.rows - 1 - Math.floor((e.clientY - r.top) / this.cellH);
    return { x: Math.max(0, Math.min(d.columns - 1, x)), y: Math.max(this.low, Math.min(this.low + this.rows - 1, y)) };
  }

  private boxOf(a: { x: number; y: number }, b: { x: number; y: number }): Box {
    const d = this.d!, lo = Math.min(a.y, b.y), hi = Math.max(a.y, b.y) + 1;
    return { start: d.start + Math.min(a.x, b.x) * d.width, end: d.start + (Math.max(a.x, b.x) + 1) * d.width, least: Math.floor(10 ** (lo / perDecade)), most: Math.ceil(10 ** (hi / perDecade)) };
  }

  private select(b: Box | undefined) {
    const had = this.box;
    this.box = b;
    this.acts.hidden = !b;
    if (!b) { this.cursor = undefined; if (had) this.on.clear(); }
    this.draw();
  }

  private inside(b: Box) {
    const a = this.cellsOf(b);
    return this.d!.cells.filter((c) => c.x >= a.x && c.x <= a.x2 && c.y >= a.y && c.y <= a.y2).reduce((sum, c) => ({ n: sum.n + c.n, errors: sum.errors + c.errors }), { n: 0, errors: 0 });
  }

  private say(b: Box) {
    const { n, errors } = this.inside(b);
    announce(`${plural(n, "span")}, ${count(errors)} failed, ${duration(b.least)} to ${duration(b.most)}, ${formatTime(b.start)} to ${formatTime(b.end, { date: false })}`);
  }

  private press(e: PointerEvent) {
    if (e.button !== 0 || !this.d) return;
    e.preventDefault();
    this.plot.focus({ preventScroll: true });
    const from = this.at(e);
    let moved = false;
    const move = (m: PointerEvent) => { const to = this.at(m); if (moved || to.x !== from.x || to.y !== from.y) { moved = true; this.cursor = undefined; this.select(this.boxOf(from, to)); } };
    this.plot.setPointerCapture(e.pointerId);
    this.plot.addEventListener("pointermove", move);
    this.plot.addEventListener("lostpointercapture", () => {
      this.plot.removeEventListener("pointermove", move);
      if (!moved) this.select(this.inside(this.boxOf(from, from)).n > 0 ? this.boxOf(from, from) : undefined);
      if (this.box) this.say(this.box);
    }, { once: true });
  }

  private hover(e: PointerEvent) {
    if (!this.d || e.buttons) { this.tip.hidden = true; return; }
    this.point(this.at(e));
  }

  private point(at: { x: number; y: number }) {
    const c = this.d!.cells.find((k) => k.x === at.x && k.y === at.y);
    this.tip.hidden = !c;
    if (!c) return;
    const b = this.boxOf(at, at);
    this.tip.replaceChildren(h("h3", null, `${formatTime(b.start)} – ${formatTime(b.end, { date: false })}`), h("ul", null, h("li", null, "Duration", h("b", null, `${duration(b.least)} – ${duration(b.most)}`)), h("li", null, "Spans", h("b", null, count(c.n))), c.errors > 0 && h("li", null, "Failed", h("b", null, count(c.errors)))));
    const x = this.x(at.x) + this.cellW + 8, wide = this.tip.offsetWidth;
    this.tip.style.left = `${x + wide > this.width ? Math.max(0, this.x(at.x) - wide - 8) : x}px`;
    this.tip.style.top = `${Math.max(0, Math.min(tall - 70, this.y(at.y + 1) - 12))}px`;
  }

  private key(e: KeyboardEvent) {
    if (!this.d || e.metaKey || e.ctrlKey || e.altKey) return;
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
    if (by) {
      const first = this.d.cells[0] ?? { x: 0, y: this.low };
      const c = this.cursor ?? { x: first.x, y: first.y, x2: first.x, y2: first.y };
      const x2 = Math.max(0, Math.min(this.d.columns - 1, c.x2 + (this.cursor ? by[0]! : 0))), y2 = Math.max(this.low, Math.min(this.low + this.rows - 1, c.y2 + (this.cursor ? by[1]! : 0)));
      this.cursor = e.shiftKey ? { x: c.x, y: c.y, x2, y2 } : { x: x2, y: y2, x2, y2 };
      this.box = this.boxOf({ x: this.cursor.x, y: this.cursor.y }, { x: x2, y: y2 });
      this.acts.hidden = false;
      this.draw();
      this.point({ x: x2, y: y2 });
      this.say(this.box);
    } else if (e.key === "Enter" && this.box) this.on.zoom(this.box);
    else if (e.key === "Escape" && this.box) this.select(undefined);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
