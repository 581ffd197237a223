// The grid of panels: 24 columns, rows of 30 px. While it is edited, panels are moved and sized by pointer and by keys.
import { announce } from "../lib/a11y.ts";
import { COLUMNS, type Grid, type Panel, place, shown } from "./model.ts";
import { type Host, PanelView } from "./panel.ts";

const ROW = 30, GAP = 8; // px

interface Drag { id: number; size: boolean; from: Grid; x: number; y: number; before: Panel[]; keys: boolean }

export class Board {
  readonly el: HTMLElement;
  private views = new Map<number, PanelView>();
  private panels: Panel[] = [];
  private drag: Drag | undefined;

  constructor(el: HTMLElement, private host: Host, private moved: (panels: Panel[]) => void) {
    this.el = el;
    el.classList.add("d-board");
    el.addEventListener("pointerdown", (e) => this.down(e));
    el.addEventListener("pointermove", (e) => this.move(e));
    el.addEventListener("pointerup", () => this.drop(true));
    el.addEventListener("pointercancel", () => this.drop(false));
    el.addEventListener("keydown", (e) => this.key(e));
    el.addEventListener("focusout", (e) => { if (this.drag?.keys && !this.el.contains(e.relatedTarget as Node)) this.drop(true); });
  }

  /** Shows panels; those that did not change keep their answers. */
  show(panels: Panel[], refresh = false) {
    this.panels = panels;
    const list = shown(panels), ids = new Set(list.map((p) => p.id));
    for (const [id, v] of this.views) if (!ids.has(id)) { v.destroy(); this.views.delete(id); }
    list.forEach((p, i) => {
      let v = this.views.get(p.id);
      if (!v) { this.views.set(p.id, (v = new PanelView(p, this.host))); v.refresh(); } else { v.update(panels.find((x) => x.id === p.id)!); if (refresh) v.refresh(); }
      if (this.el.children[i] !== v.el) this.el.insertBefore(v.el, this.el.children[i] ?? null);
      this.lay(v.el, p.grid);
    });
  }

  refresh() { for (const v of this.views.values()) v.refresh(); }

  focus(id: number) { this.views.get(id)?.el.focus(); this.views.get(id)?.el.scrollIntoView({ block: "nearest" }); }

  private lay(el: HTMLElement, g: Grid) {
    el.style.setProperty("grid-area", `${g.y + 1} / ${g.x + 1} / span ${g.h} / span ${g.w}`);
    el.style.setProperty("--h", String(g.h));
  }

  private cell = () => (this.el.clientWidth + GAP) / COLUMNS;
  private gridOf = (id: number) => this.panels.find((p) => p.id === id)!.grid;

  private down(e: PointerEvent) {
    if (!this.host.editing || e.button !== 0 || getComputedStyle(this.el).display !== "grid") return;
    const at = e.target as Element, el = at.closest<HTMLElement>(".d-panel"), size = !!at.closest(".d-size");
    if (!el || !(size || (at.closest(".d-head") && !at.closest("button,a,input")))) return;
    e.preventDefault();
    this.el.setPointerCapture(e.pointerId);
    const id = Number(el.dataset.id);
    this.begin(id, size, false, e.clientX, e.clientY);
  }

  private begin(id: number, size: boolean, keys: boolean, x = 0, y = 0) {
    this.drag = { id, size, keys, x, y, from: { ...this.gridOf(id) }, before: this.panels };
    this.views.get(id)?.el.classList.add("d-held");
  }

  private move(e: PointerEvent) {
    const d = this.drag;
    if (!d || d.keys) return;
    const dx = Math.round((e.clientX - d.x) / this.cell()), dy = Math.round((e.clientY - d.y) / (ROW + GAP));
    this.to(d.size ? { ...d.from, w: d.from.w + dx, h: d.from.h + dy } : { ...d.from, x: d.from.x + dx, y: d.from.y + dy });
  }

  private to(g: Grid) {
    const d = this.drag!, w = Math.max(2, Math.min(COLUMNS, g.w)), want = { w, h: Math.max(1, g.h), x: Math.max(0, Math.min(COLUMNS - w, g.x)), y: Math.max(0, g.y) };
    this.show(place(d.before, d.id, want));
  }

  /** Ends a move: what is shown stays, or what was before comes back. */
  private drop(keep: boolean) {
    const d = this.drag;
    if (!d) return;
    this.drag = undefined;
    this.views.get(d.id)?.el.classList.remove("d-held");
    if (!keep) return this.show(d.before);
    if (JSON.stringify(this.panels) !== JSON.stringify(d.before)) this.moved(this.panels);
  }

  private key(e: KeyboardEvent) {
    if (!this.host.editing) return;
    const el = (e.target as Element).closest<HTMLElement>(".d-panel");
    if (!el || el !== e.target) return;
    const id = Number(el.dataset.id), d = this.drag;
    if (!d) {
      const k = e.key.toLowerCase();
      if (k !== "m" && k !== "r" || e.ctrlKey || e.metaKey || e.altKey) return;
      this.begin(id, k === "r", true);
      announce(k === "m" ? "Moving: arrows move, Enter accepts, Escape reverts" : "Resizing: arrows change the size, Enter accepts, Escape reverts");
    } else if (e.key === "Enter") {
      this.drop(true);
      announce("Accepted");
    } else if (e.key === "Escape") {
      this.drop(false);
      announce("Reverted");
    } else {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
      if (!step) return;
      const g = this.gridOf(id), [dx, dy] = step as [number, number];
      this.to(d.size ? { ...g, w: g.w + dx, h: g.h + dy } : { ...g, x: g.x + dx, y: g.y + dy });
      const now = this.gridOf(id);
      announce(d.size ? `${now.w} columns wide, ${now.h} rows high` : `Column ${now.x + 1}, row ${now.y + 1}`);
      el.focus();
    }
    e.preventDefault();
    e.stopPropagation();
  }
}
