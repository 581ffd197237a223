// <ms-grid>: a list of up to 100,000 rows. Only the rows in sight, and six on either side, are elements; they are moved by transform and used again.
import { boot } from "../lib/boot.ts";
import { h, icon } from "../lib/dom.ts";
import { Offsets } from "../lib/offsets.ts";

export interface Column<R = any> {
  key: string;
  label: string;
  width?: number; // px; a column without one takes what is left
  min?: number; // px
  cls?: string; // of its cells
  wide?: boolean; // left out where there is little room
  sort?: boolean; // its head sorts
  fixed?: boolean; // neither moved nor resized
  render(row: R, cell: HTMLElement): void;
}

const around = 6; // rows kept above and below those in sight
const narrowBelow = 620; // px of width under which a row has two lines
let ids = 0;

export class Grid<R extends object = any> extends HTMLElement {
  /** What a screen reader calls the list. */
  name = "Rows";
  /** Classes of a row, what a screen reader reads of it, and what is copied of it. */
  rowClass: (row: R) => string = () => "";
  rowLabel: (row: R) => string = () => "";
  rowText: (row: R) => string = (r) => JSON.stringify(r);
  /** What a row shows below itself when it is open in place. */
  detail?: (row: R, box: HTMLElement) => void;
  /** Height of a row in px; 0: by the reader's density. */
  rowHeight = 0;
  /** How many rows there are in all, when that is more than are loaded. */
  total = 0;

  private id0 = `g${++ids}`;
  private cols: Column<R>[] = [];
  private shown: Column<R>[] = [];
  private data: R[] = [];
  private off = new Offsets(28);
  private pool = new Map<number, HTMLElement>();
  private filled = new WeakMap<HTMLElement, { row: R; version: number }>();
  private version = 0;
  private open = new Set<R>();
  private wrapped = false;
  private narrow = false;
  private width = 0;
  private sorted: { key: string; desc: boolean } | undefined;
  private asked = -1; // length at which more was asked for
  private at = -1;
  private from = -1; // the other end of the selected range
  private frame = 0;
  private head = h("div", { class: "g-head", role: "row", "aria-rowindex": "1" });
  private body = h("div", { class: "g-body", role: "rowgroup" });
  readonly scroller = h("div", { class: "g-scroll", role: "grid", tabindex: "0", "aria-multiselectable": "true" }, this.head, this.body);
  private sizes = new ResizeObserver(() => this.layout());
  private onLook = () => { this.width = 0; this.layout(); };

  connectedCallback() {
    this.replaceChildren(this.scroller);
    this.scroller.setAttribute("aria-label", this.name);
    this.scroller.onscroll = () => this.later();
    this.scroller.onkeydown = (e) => this.key(e);
    this.scroller.oncopy = (e) => this.copy(e);
    this.body.onpointerdown = (e) => this.press(e);
    this.head.onpointerdown = (e) => this.drag(e);
    this.sizes.observe(this);
    document.addEventListener("ms:look", this.onLook);
    this.layout();
  }

  disconnectedCallback() {
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
    document.removeEventListener("ms:look", this.onLook);
  }

  // ---- what the page sets
  get columns() { return this.cols; }
  set columns(list: Column<R>[]) { this.cols = list; this.width = 0; this.layout(); }

  get rows(): readonly R[] { return this.data; }
  set rows(list: R[]) {
    this.data = list;
    this.open.clear();
    this.at = this.from = this.asked = -1;
    this.scroller.scrollTop = 0;
    this.width = 0;
    this.layout();
  }

  /** Other rows for the same list: place, selection and what is open stay, for rows that are the same objects. */
  update(list: R[]) {
    const top = this.scroller.scrollTop, at = this.current;
    this.data = list;
    for (const row of this.open) if (!list.includes(row)) this.open.delete(row);
    this.at = this.from = at ? list.indexOf(at) : -1;
    this.asked = -1;
    this.width = 0;
    this.layout();
    this.scroller.scrollTop = top;
    this.draw();
  }

  get wrap() { return this.wrapped; }
  set wrap(on: boolean) {
    if (on === this.wrapped) return;
    const keep = this.at >= 0 ? this.at : this.firstSeen();
    this.wrapped = on;
    this.width = 0;
    this.layout();
    if (this.data.length) this.scrollToRow(keep);
  }

  get sort() { return this.sorted; }
  set sort(v: { key: string; desc: boolean } | undefined) { this.sorted = v; this.drawHead(); }

  get index() { return this.at; }
  get current(): R | undefined { return this.data[this.at]; }
  get selected(): R[] { return this.at < 0 ? [] : this.data.slice(Math.min(this.at, this.from), Math.max(this.at, this.from) + 1); }

  appendRows(list: readonly R[]) {
    for (const row of list) this.data.push(row);
    this.off.grow(list.length, "end");
    this.count();
    this.draw();
  }

  /** Puts rows before the first and keeps at most cap; what is in sight stays where it is unless the list is at its top. */
  prependRows(list: R[], cap = Infinity) {
    const top = this.scroller.scrollTop;
    this.data.unshift(...list);
    this.off.grow(list.length, "start");
    if (this.data.length > cap) {
      for (const gone of this.data.splice(cap)) this.open.delete(gone);
      this.off.cut(cap);
    }
    if (this.at >= 0) { this.at = Math.min(this.at + list.length, this.data.length - 1); this.from = Math.min(this.from + list.length, this.data.length - 1); }
    this.count();
    if (top > 4) this.scroller.scrollTop = top + this.off.at(Math.min(list.length, this.data.length));
    this.shift(list.length);
    this.draw();
  }

  /** Selects a row and brings it into sight. */
  select(i: number, o: { extend?: boolean; quiet?: boolean } = {}) {
    if (!this.data.length) return;
    this.at = Math.max(0, Math.min(i, this.data.length - 1));
    if (!o.extend || this.from < 0) this.from = this.at;
    this.reveal(this.at);
    this.draw();
    if (!o.quiet) this.emit("ms:select", { index: this.at, row: this.data[this.at] });
  }

  unselect() { this.at = this.from = -1; this.draw(); }

  move(by: number, extend = false) { this.select(this.at < 0 ? this.firstSeen() : this.at + by, { extend }); }

  scrollToRow(i: number) { this.scroller.scrollTop = this.off.at(i); this.draw(); }

  /** Whether the first row is in sight. */
  get atTop() { return this.scroller.scrollTop < 4; }

  /** Opens or closes what a row shows below itself. */
  toggle(i: number) {
    const row = this.data[i];
    if (!row || !this.detail) return;
    if (!this.open.delete(row)) this.open.add(row);
    this.renew(i);
    this.draw();
  }

  isOpen(i: number) { return this.data[i] !== undefined && this.open.has(this.data[i]); }

  /** Draws the rows in sight anew, after something that they show has changed. */
  refresh() { this.version++; this.count(); this.draw(); }

  /** Measures the rows in sight anew, after what they show has changed its height. */
  remeasure() { this.draw(); }

  // ---- layout
  private layout() {
    if (!this.isConnected) return;
    const width = this.clientWidth;
    if (!width || width === this.width) { if (width) this.draw(); return; }
    this.width = width;
    this.narrow = width < narrowBelow && !this.rowHeight;
    this.classList.toggle("g-narrow", this.narrow);
    this.classList.toggle("wrapped", this.wrapped);
    const usual = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 28, row = this.rowHeight || (this.narrow ? usual + 20 : usual);
    this.off.reset(this.data.length, row);
    this.style.setProperty("--view", `${width}px`);
    this.style.setProperty("--rh", `${row}px`);
    this.shown = this.narrow && this.cols.some((c) => !c.wide) ? this.cols.filter((c) => !c.wide) : this.cols;
    this.tracks();
    for (const el of this.pool.values()) el.remove();
    this.pool.clear();
    this.drawHead();
    this.count();
    this.draw();
  }

  private tracks() {
    const least = (c: Column<R>) => c.width ?? (this.narrow ? 80 : c.min ?? 220);
    this.style.setProperty("--cols", this.shown.map((c) => (c.width ? `${c.width}px` : `minmax(${least(c)}px,1fr)`)).join(" "));
    this.style.setProperty("--least", `${this.shown.reduce((sum, c) => sum + least(c) + 10, 14)}px`);
  }

  private drawHead() {
    this.head.replaceChildren(...this.shown.map((c, i) => {
      const on = this.sorted?.key === c.key;
      const name = c.sort ? h("button", { type: "button", tabindex: "-1", onclick: () => this.emit("ms:sort", { key: c.key, desc: on ? !this.sorted!.desc : true }) }, h("span", { class: "ell" }, c.label), on && icon(this.sorted!.desc ? "arrow-down" : "arrow-up", "xs")) : h("span", null, h("span", { class: "ell" }, c.label));
      return h("div", { class: `g-hc${/(^| )r( |$)/.test(c.cls ?? "") ? " r" : ""}`, role: "columnheader", "aria-colindex": i + 1, "data-i": i, "aria-sort": c.sort ? (on ? (this.sorted!.desc ? "descending" : "ascending") : "none") : null }, name, !c.fixed && c.width && h("i", { class: "g-grip", "data-grip": i }));
    }));
    this.scroller.setAttribute("aria-colcount", String(this.shown.length));
  }

  private count() {
    this.scroller.setAttribute("aria-rowcount", String(Math.max(this.total, this.data.length) + 1));
    this.body.style.height = `${this.off.at(this.data.length)}px`;
  }

  private get headHeight() { return this.head.offsetHeight; }
  private firstSeen() { return this.off.find(this.scroller.scrollTop); }
  private get pageRows() { return Math.max(1, Math.floor((this.scroller.clientHeight - this.headHeight) / this.off.height(Math.max(0, this.firstSeen()))) - 1); }

  private reveal(i: number) {
    const top = this.off.at(i), bottom = top + this.off.height(i), view = this.scroller.clientHeight - this.headHeight, now = this.scroller.scrollTop;
    if (top < now || bottom - top > view) this.scroller.scrollTop = top;
    else if (bottom > now + view) this.scroller.scrollTop = bottom - view;
  }

  // ---- drawing
  private later() { this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  private draw() {
    if (!this.isConnected || !this.width) return;
    for (let round = 0; round < 4; round++) if (!this.place()) break;
    const last = this.off.find(this.scroller.scrollTop + this.scroller.clientHeight);
    if (this.data.length && last >= this.data.length - 50 && this.asked !== this.data.length) {
      this.asked = this.data.length;
      this.emit("ms:more", { length: this.data.length });
    }
  }

  /** Puts the rows in sight where they belong; true if heights turned out different, so that it must be done again. */
  private place(): boolean {
    const n = this.data.length, top = this.scroller.scrollTop;
    const first = Math.max(0, this.off.find(top) - around), end = n === 0 ? 0 : Math.min(n, this.off.find(top + this.scroller.clientHeight) + around + 1);
    const free: HTMLElement[] = [];
    for (const [i, el] of this.pool) if (i < first || i >= end) { this.pool.delete(i); free.push(el); }
    for (let i = first; i < end; i++) {
      let el = this.pool.get(i);
      if (!el) {
        el = free.pop();
        if (!el) this.body.append((el = h("div", { class: "g-row", role: "row" })));
        this.pool.set(i, el);
      }
      this.fill(el, i);
    }
    for (const el of free) el.remove();
    const changed = this.measure(top);
    for (const [i, el] of this.pool) el.style.transform = `translateY(${this.off.at(i)}px)`;
    const active = this.pool.get(this.at);
    if (active) this.scroller.setAttribute("aria-activedescendant", active.id);
    else this.scroller.removeAttribute("aria-activedescendant");
    return changed;
  }

  private fill(el: HTMLElement, i: number) {
    const row = this.data[i]!, was = this.filled.get(el);
    const lo = Math.min(this.at, this.from), hi = Math.max(this.at, this.from), on = i >= lo && i <= hi && lo >= 0;
    if (el.id !== `${this.id0}-${i}`) { el.id = `${this.id0}-${i}`; el.setAttribute("aria-rowindex", String(i + 2)); }
    el.setAttribute("aria-selected", String(on));
    el.classList.toggle("cur", i === this.at);
    if (was?.row === row && was.version === this.version) return;
    this.filled.set(el, { row, version: this.version });
    const open = this.open.has(row);
    el.className = `g-row ${this.rowClass(row)}${i === this.at ? " cur" : ""}${open ? " open" : ""}`;
    const label = this.rowLabel(row);
    if (label) el.setAttribute("aria-label", label);
    el.replaceChildren(...this.shown.map((c, k) => {
      const cell = h("div", { class: `g-c ${c.cls ?? ""}`, role: "gridcell", "aria-colindex": k + 1 });
      c.render(row, cell);
      return cell;
    }));
    if (!open) return;
    const box = h("div", { class: "g-detail", role: "gridcell" });
    this.detail!(row, box);
    el.append(box);
  }

  private measure(top: number): boolean {
    if (!this.wrapped && this.open.size === 0) return false;
    let changed = false, above = 0;
    const heights = [...this.pool].map(([i, el]) => [i, el.offsetHeight] as const);
    for (const [i, height] of heights) {
      const by = height - this.off.height(i);
      if (Math.abs(by) < 0.5) continue;
      if (this.off.at(i) + this.off.height(i) <= top) above += by;
      this.off.set(i, height);
      changed = true;
    }
    if (changed) this.count();
    if (above) this.scroller.scrollTop = top + above;
    return changed;
  }

  /** Draws one row anew, with its usual height until it is measured. */
  private renew(i: number) {
    const el = this.pool.get(i);
    if (el) this.filled.delete(el);
    this.off.set(i, this.off.height(i));
    if (!this.wrapped && !this.isOpen(i)) { this.off.set(i, parseFloat(this.style.getPropertyValue("--rh"))); this.count(); }
  }

  /** After rows were put before the first: the elements go on showing what they show, at their new places. */
  private shift(by: number) {
    const moved = [...this.pool];
    this.pool.clear();
    for (const [i, el] of moved) {
      if (i + by < this.data.length) this.pool.set(i + by, el);
      else el.remove();
    }
  }

  // ---- the reader
  private emit(type: string, detail: unknown) { this.dispatchEvent(new CustomEvent(type, { bubbles: true, detail })); }

  private key(e: KeyboardEvent) {
    if (e.target !== this.scroller || e.altKey) return;
    if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === "a") return this.did(e, () => { this.from = 0; this.at = this.data.length - 1; this.draw(); });
    if (e.metaKey || e.ctrlKey) return;
    const single = boot.prefs.single_keys !== false;
    const key = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    const by = key === "ArrowDown" || (single && key === "j") ? 1 : key === "ArrowUp" || (single && key === "k") ? -1 : key === "PageDown" ? this.pageRows : key === "PageUp" ? -this.pageRows : 0;
    if (by) return this.did(e, () => this.move(by, e.shiftKey));
    if (key === "Home" || key === "End") return this.did(e, () => this.select(key === "Home" ? 0 : this.data.length - 1, { extend: e.shiftKey }));
    if (key === "Enter" && this.at >= 0) return this.did(e, () => this.emit("ms:open", { index: this.at, row: this.current, by: "key" }));
    if (key === "ArrowLeft" || key === "ArrowRight") return this.did(e, () => { this.scroller.scrollLeft += key === "ArrowRight" ? 60 : -60; });
  }

  private did(e: Event, f: () => void) { e.preventDefault(); f(); }

  private copy(e: ClipboardEvent) {
    if (!getSelection()?.isCollapsed || this.at < 0) return;
    e.clipboardData?.setData("text/plain", this.selected.map(this.rowText).join("\n"));
    e.preventDefault();
  }

  /** A click selects and opens, unless text is being selected or something in the row takes it. */
  private press(e: PointerEvent) {
    if (e.button !== 0 || (e.target as Element).closest("button,a,input,.g-detail")) return;
    const el = (e.target as Element).closest<HTMLElement>(".g-row");
    const { clientX, clientY } = e;
    this.body.addEventListener("click", (c) => {
      const at = el && Number(el.id.slice(this.id0.length + 1));
      if (at === null || Math.hypot(c.clientX - clientX, c.clientY - clientY) >= 4 || (e.pointerType === "mouse" && !getSelection()?.isCollapsed)) return; // a finger leaves what it has selected elsewhere
      this.scroller.focus({ preventScroll: true });
      this.select(at, { extend: c.shiftKey });
      if (!c.shiftKey) this.emit("ms:open", { index: at, row: this.data[at], by: "click" });
    }, { once: true });
  }

  /** Drags a column's edge, or the column. */
  private drag(e: PointerEvent) {
    const cell = (e.target as Element).closest<HTMLElement>(".g-hc"), grip = (e.target as Element).closest<HTMLElement>("[data-grip]");
    const col = cell && this.shown[Number(cell.dataset.i)];
    if (!cell || !col || col.fixed || e.button !== 0) return;
    const from = e.clientX, width = col.width ?? cell.offsetWidth;
    let moved = false;
    const move = (m: PointerEvent) => {
      if (!moved && Math.abs(m.clientX - from) < 5) return;
      if (!moved) { moved = true; this.head.setPointerCapture(m.pointerId); }
      if (grip) { this.resize(col.key, width + m.clientX - from); return; }
      cell.classList.add("moving");
      cell.style.transform = `translateX(${m.clientX - from}px)`;
    };
    const end = (m: PointerEvent) => {
      this.head.removeEventListener("pointermove", move);
      this.head.removeEventListener("pointerup", end);
      if (!moved) return;
      addEventListener("click", (c) => c.stopPropagation(), { capture: true, once: true }); // the release is no click on the head
      setTimeout(() => this.drawHead());
      if (grip) this.emit("ms:columns", this.arrangement());
      else this.reorder(col.key, m.clientX);
    };
    this.head.addEventListener("pointermove", move);
    this.head.addEventListener("pointerup", end);
  }

  /** Sets a column's width in pixels. */
  resize(key: string, width: number) {
    const col = this.cols.find((c) => c.key === key);
    if (!col) return;
    col.width = Math.round(Math.max(col.min ?? 48, Math.min(1600, width)));
    this.tracks();
    if (this.wrapped) { this.width = 0; this.layout(); }
  }

  private reorder(key: string, x: number) {
    const heads = [...this.head.children].map((el, i) => ({ key: this.shown[i]!.key, mid: el.getBoundingClientRect().left + (el as HTMLElement).offsetWidth / 2, fixed: this.shown[i]!.fixed }));
    const before = heads.find((c) => c.key !== key && !c.fixed && x < c.mid)?.key;
    const col = this.cols.find((c) => c.key === key)!;
    const rest = this.cols.filter((c) => c !== col);
    rest.splice(before === undefined ? rest.length : rest.findIndex((c) => c.key === before), 0, col);
    this.columns = rest;
    this.emit("ms:columns", this.arrangement());
  }

  private arrangement() { return { order: this.cols.map((c) => c.key), widths: Object.fromEntries(this.cols.filter((c) => c.width).map((c) => [c.key, c.width])) }; }
}

customElements.define("ms-grid", Grid);
