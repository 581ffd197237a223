// The queries of the page: a letter, an editor, what became of it, and what can be done with it.
import { button, h, icon } from "../lib/dom.ts";
import { MsEditor } from "../el/editor.ts";
import { taken } from "./prom.ts";
import { letter, MOST_QUERIES, type Query } from "./state.ts";

export interface RowEvents { run(): void; changed(): void }

interface Row { el: HTMLElement; editor: MsEditor; status: HTMLElement; hidden: boolean; eye: HTMLButtonElement; name: HTMLElement; tools: HTMLButtonElement[] }

export class Rows {
  readonly el = h("div", { class: "mq-rows" });
  private rows: Row[] = [];
  private last = 0; // row that had the focus last
  private removed: { query: Query; at: number } | undefined;

  constructor(private on: RowEvents) {}

  get queries(): Query[] { return this.rows.map((r) => ({ text: r.editor.value.trim(), hidden: r.hidden })); }

  /** Shows queries; rows that are there already keep their editors. */
  set(list: Query[]) {
    while (this.rows.length > list.length) this.rows.pop()!.el.remove();
    list.forEach((q, i) => {
      const r = this.rows[i] ?? this.make(q.text);
      if (!this.rows[i]) { this.rows.push(r); this.el.append(r.el); }
      if (r.editor.value.trim() !== q.text) r.editor.value = q.text;
      this.hide(r, q.hidden);
    });
    this.letters();
  }

  private make(text: string): Row {
    const editor = new MsEditor();
    editor.language = "promql";
    editor.placeholder = "A PromQL expression, such as rate(requests_total[5m])";
    editor.value = text;
    const r: Row = { el: h("div", { class: "mq-row", role: "group" }), editor, status: h("span", { class: "mq-status", role: "status" }), hidden: false, name: h("span", { class: "mq-letter", "aria-hidden": "true" }),
      eye: button({ icon: "eye", label: "", cls: "ghost icon sm", on: () => { this.hide(r, !r.hidden); this.on.run(); } }), tools: [] };
    r.tools = [button({ icon: "copy", label: "", cls: "ghost icon sm", on: () => this.duplicate(this.rows.indexOf(r)) }), button({ icon: "trash-2", label: "", cls: "ghost icon sm", on: () => this.remove(this.rows.indexOf(r)) })];
    r.el.append(r.name, h("div", { class: "mq-edit" }, editor), h("div", { class: "mq-acts" }, r.status, r.eye, r.tools));
    editor.addEventListener("ms:run", () => this.on.run());
    editor.addEventListener("ms:change", () => { this.status(this.rows.indexOf(r), ""); this.letters(); this.on.changed(); });
    r.el.addEventListener("focusin", () => { this.last = this.rows.indexOf(r); });
    return r;
  }

  private letters() {
    this.rows.forEach((r, i) => {
      const name = letter(i);
      r.name.textContent = name;
      r.el.setAttribute("aria-label", `Query ${name}`);
      r.editor.label = `Query ${name}, PromQL`;
      for (const [b, text] of [[r.eye, r.hidden ? `Show query ${name}` : `Hide query ${name}`], [r.tools[0]!, `Duplicate query ${name}`], [r.tools[1]!, `Delete query ${name}`]] as const) { b.setAttribute("aria-label", text); b.title = text; }
      r.tools[1]!.disabled = this.rows.length === 1 && !r.editor.value;
      r.tools[0]!.disabled = this.rows.length >= MOST_QUERIES;
    });
  }

  private hide(r: Row, hidden: boolean) {
    r.hidden = hidden;
    r.el.classList.toggle("hid", hidden);
    r.eye.replaceChildren(icon(hidden ? "eye-off" : "eye", "s"));
    r.eye.setAttribute("aria-pressed", String(hidden));
    this.letters();
  }

  add(text = "") {
    if (this.rows.length >= MOST_QUERIES) return;
    this.set([...this.queries, { text, hidden: false }]);
    this.focus(this.rows.length - 1);
  }

  duplicate(i: number) {
    const list = this.queries;
    list.splice(i + 1, 0, { ...list[i]! });
    this.set(list);
    this.focus(i + 1);
    this.on.run();
  }

  remove(i: number) {
    const list = this.queries, [query] = list.splice(i, 1);
    this.removed = query && { query, at: i };
    this.set(list.length ? list : [{ text: "", hidden: false }]);
    this.focus(Math.min(i, this.rows.length - 1));
    this.on.run();
  }

  /** Brings back the query that was deleted last. */
  undo() {
    if (!this.removed) return;
    const list = this.queries.filter((q, _, all) => q.text || all.length > 1);
    list.splice(this.removed.at, 0, this.removed.query);
    this.removed = undefined;
    this.set(list);
    this.on.run();
  }

  /**
   * Puts text where the reader last typed, or in place of the query where it cannot stand there. Returns whether it is the whole query now, which asks gives the
   * form of a query of its own.
   */
  insert(text: string, asks: (text: string) => string = (x) => x): boolean {
    const e = this.rows[Math.min(this.last, this.rows.length - 1)]!.editor, whole = taken(e.value, text, e.selection);
    e.focus();
    if (whole === undefined) e.insert(text); else if (e.value.trim()) e.replace(asks(whole)); else e.value = asks(whole);
    this.letters();
    return whole !== undefined;
  }

  replace(i: number, text: string) {
    const r = this.rows[i];
    if (r) r.editor.value = text;
  }

  focus(i = this.last) { this.rows[Math.min(i, this.rows.length - 1)]?.editor.focus(); }

  status(i: number, text: string, cls = "") {
    const r = this.rows[i];
    if (!r) return;
    r.status.textContent = text;
    r.status.className = `mq-status ${cls}`.trim();
  }

  /** Shows where a query is wrong; null: it is not. */
  mark(i: number, m: { from: number; message: string } | null) { this.rows[i]?.editor.mark(m); }
}
