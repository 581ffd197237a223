// The record in the drawer: previous and next, copying, its trace, its fields, JSON, and what happened around it.
import { explain, json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { $, button, h, icon } from "../lib/dom.ts";
import { ago, plural } from "../lib/format.ts";
import { copy } from "../lib/layers.ts";
import { failure } from "../lib/states.ts";
import { formatTime, now, zone, zoneLabel } from "../lib/time.ts";
import { type FieldActs, fieldTable, jsonView, messageBox } from "./detail.ts";
import type { Marks } from "./marks.ts";
import { idOf, ObjectRow, type Roles, type Row, rowLevel, shown, textOf, toJSON } from "./record.ts";

export interface DrawerPage extends FieldActs {
  readonly roles: Roles;
  readonly marks: Marks;
  readonly stream: string;
  step(by: number): void;
  closed(): void;
  linkTo(row: Row): string;
}

type Tab = "fields" | "json" | "context";
const tabs: [Tab, string][] = [["fields", "Fields"], ["json", "JSON"], ["context", "Context"]];

export class Drawer {
  readonly el = h("aside", { class: "drawer", "aria-label": "Record", hidden: true, tabindex: "-1" });
  row: Row | undefined;
  private tab: Tab = "fields";
  private asked: AbortController | undefined;
  private timer = 0;

  constructor(private page: DrawerPage) {
    this.el.addEventListener("keydown", (e) => this.key(e));
  }

  get isOpen() { return !this.el.hidden; }

  open(row: Row, o: { focus?: boolean; tab?: Tab } = {}) {
    const focused = this.el.contains(document.activeElement);
    this.el.hidden = false;
    if (o.tab) this.tab = o.tab;
    if (row !== this.row || o.tab) this.show(row);
    if (o.focus || focused) this.el.focus({ preventScroll: true });
  }

  close() {
    this.asked?.abort();
    clearTimeout(this.timer);
    this.el.hidden = true;
    this.row = undefined;
    this.page.closed();
  }

  /** Draws it anew, after columns or pins have changed. */
  refresh() { if (this.row && this.tab === "fields") this.showTab(); }

  private show(row: Row) {
    this.asked?.abort();
    this.asked = new AbortController();
    this.row = row;
    const { roles } = this.page, level = rowLevel(row, roles), service = roles.service && textOf(row.get(roles.service));
    const when = row.time ? formatTime(row.time, { ns: true, zone: zone() }) : "";
    const head = h("div", { class: "dh" }, level && h("span", { class: `lv ${level}` }, level), h("h2", { class: "ell" }, service ? shown(service, 80) : "Record"), h("span", { class: "spacer" }),
      button({ icon: "chevron-up", label: "Previous record", cls: "ghost icon sm", on: () => this.page.step(-1) }), button({ icon: "chevron-down", label: "Next record", cls: "ghost icon sm", on: () => this.page.step(1) }),
      button({ icon: "link", label: "Copy a link to the record", cls: "ghost icon sm", on: () => void copy(this.page.linkTo(row), "Link copied") }), button({ icon: "copy", label: "Copy the record as JSON", cls: "ghost icon sm", on: () => void this.copyJSON() }),
      button({ icon: "x", label: "Close the details", cls: "ghost icon sm", on: () => this.close() }));
    const ms = Date.parse(row.time.replace(/(\.\d{3})\d+/, "$1"));
    this.el.replaceChildren(head, h("div", { class: "dscroll" },
      when && h("p", { class: "dt" }, icon("clock", "s"), h("span", { class: "mono", title: `${row.time}\n${zoneLabel()}` }, when), h("span", { class: "muted" }, zone() === "UTC" ? "UTC" : ""), h("span", { class: "muted ml nb" }, Number.isNaN(ms) ? "" : ago(ms, now()))),
      h("div", { class: "dmsg" }), h("div", { class: "dtrace" }),
      h("div", { class: "tabs", role: "tablist", "aria-label": "Record" }, tabs.map(([id, name]) => h("button", { type: "button", role: "tab", id: `dtab-${id}`, "aria-controls": "dbody", "aria-selected": String(id === this.tab), tabindex: id === this.tab ? "0" : "-1", onclick: () => this.choose(id) }, name, id === "fields" && h("span", null, row.entries().length)))),
      h("div", { class: "dbody", id: "dbody", role: "tabpanel", "aria-labelledby": `dtab-${this.tab}` })));
    this.el.style.setProperty("--lf", level ? `var(--lf-${level})` : "var(--border-strong)");
    this.showMessage();
    this.showTab();
    this.showTrace(row);
    if (row.cut) void this.whole(row);
  }

  private showMessage() {
    const box = messageBox(this.row!, this.page.roles, this.page.marks);
    $(".dmsg", this.el)!.replaceChildren(...(box ? [box] : []));
  }

  choose(tab: Tab) {
    this.tab = tab;
    for (const b of this.el.querySelectorAll("[role=tab]")) {
      const on = b.id === `dtab-${tab}`;
      b.setAttribute("aria-selected", String(on));
      b.setAttribute("tabindex", on ? "0" : "-1");
    }
    $("#dbody", this.el)?.setAttribute("aria-labelledby", `dtab-${tab}`);
    this.showTab();
  }

  private showTab() {
    const body = $(".dbody", this.el), row = this.row!;
    if (!body) return;
    if (this.tab === "fields") body.replaceChildren(fieldTable(row, this.page.marks, this.page));
    else if (this.tab === "json") body.replaceChildren(h("div", { class: "row jact" }, button({ text: "Copy", icon: "copy", cls: "sm", on: () => void this.copyJSON() })), jsonView(row, this.page.marks));
    else {
      const box = h("div", { class: "ctx" });
      body.replaceChildren(box);
      void import("./context.ts").then((m) => m.context(box, row, { stream: this.page.stream, roles: this.page.roles, signal: this.asked!.signal })).catch((e) => box.replaceChildren(failure(explain(e))));
    }
  }

  /** Texts were cut in the list; here they are whole. */
  private async whole(row: Row) {
    const note = h("p", { class: "muted small", role: "status" }, "Loading the whole record…");
    $(".dmsg", this.el)!.append(note);
    try {
      const full = await fetchWhole(this.page.stream, row, this.asked!.signal);
      if (this.row !== row) return;
      this.row = full;
      this.showMessage();
      this.showTab();
    } catch (e) {
      const err = explain(e);
      if (err.code !== "aborted" && this.row === row) note.replaceChildren(`Shown in part: ${err.message} `, button({ text: "Load all of it", cls: "sm", on: () => { note.remove(); void this.whole(row); } }));
    }
  }

  private showTrace(row: Row) {
    const id = this.page.roles.trace && textOf(row.get(this.page.roles.trace));
    clearTimeout(this.timer);
    if (!id || !/^[0-9a-fA-F]{16,32}$/.test(id)) return;
    const box = $(".dtrace", this.el)!, body = h("div", { class: "wf" });
    const span = this.page.roles.span ? textOf(row.get(this.page.roles.span)) : "";
    box.replaceChildren(h("section", { class: "mini", "aria-label": "Trace" }, h("div", { class: "mh" }, icon("waypoints", "s"), h("strong", null, "Trace"), h("span", { class: "mono muted ell" }, `${id.slice(0, 8)}…${id.slice(-4)}`), h("a", { class: "ml", href: traceLink(id, span) }, "Open")), body));
    const signal = this.asked!.signal;
    this.timer = window.setTimeout(() => void import("./trace.ts").then((m) => m.waterfall(body, id, span, signal)).catch(() => { body.textContent = "The trace cannot be shown now."; }), 160); // not for records that are only passed by
  }

  async copyJSON() {
    const row = this.row;
    if (!row) return;
    try {
      await copy(toJSON(row.cut ? await fetchWhole(this.page.stream, row) : row, 2), "Record copied as JSON");
    } catch (e) {
      await copy(toJSON(row, 2), `Copied in part: ${explain(e).message}`);
    }
  }

  private key(e: KeyboardEvent) {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test((e.target as Element).tagName)) return;
    const onTab = (e.target as Element).getAttribute("role") === "tab";
    if (onTab && (e.key === "ArrowLeft" || e.key === "ArrowRight")) {
      const at = tabs.findIndex(([id]) => id === this.tab);
      this.choose(tabs[(at + (e.key === "ArrowRight" ? 1 : tabs.length - 1)) % tabs.length]![0]);
      $(`#dtab-${this.tab}`, this.el)?.focus();
    } else if (!(e.target as Element).closest("ms-grid,.ctx") && (e.key === "ArrowUp" || e.key === "ArrowDown")) this.page.step(e.key === "ArrowDown" ? 1 : -1);
    else return;
    e.preventDefault();
  }
}

export const traceLink = (id: string, span = "") => `${orgPath("traces")}/${encodeURIComponent(id)}${span ? `?sel=${encodeURIComponent(span)}` : ""}`;

/** The record with its texts whole. */
export async function fetchWhole(stream: string, row: Row, signal?: AbortSignal): Promise<Row> {
  if (!row.time) return row;
  const res = await json<{ target: Record<string, unknown>[] }>("/query/context", { body: { stream, at: row.time, before: 0, after: 0 }, ...(signal ? { signal } : {}) });
  const list = res.target.map((o) => new ObjectRow(o)), id = idOf(row);
  const found = list.find((r) => idOf(r) === id) ?? list.find((r) => row.entries().every(([k, v]) => textOf(r.get(k)).startsWith(textOf(v).slice(0, 200))));
  if (!found) throw new Error(`the record is not there any more (${plural(list.length, "record")} at its time)`);
  return found;
}
