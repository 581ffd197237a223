// Which fields have a column, in which order, how wide: everything that dragging the heads does, for keys as well.
import { announce } from "../lib/a11y.ts";
import { button, h } from "../lib/dom.ts";
import { dialog } from "../lib/layers.ts";
import { usual } from "./columns.ts";
import type { LogsPage } from "./page.ts";
import { shown } from "./record.ts";

export function columnsMenu(p: LogsPage) {
  let cols = [...p.cols];
  const label = (c: string) => (c === "_timestamp" ? "Time" : c === "*" ? "All other fields" : c);
  void dialog("Columns", (close) => {
    const list = h("ul", { class: "collist" }), find = h("input", { class: "in", id: "col-find", list: "col-names", autocomplete: "off", placeholder: "Name of a field", autofocus: true });
    const names = h("datalist", { id: "col-names" }, (p.columns?.list ?? []).slice(0, 2000).filter((c) => !cols.includes(c.name)).map((c) => h("option", { value: c.name })));
    const set = (next: string[], focus?: [string, string]) => {
      cols = next;
      p.setColumns(next);
      draw();
      if (focus) [...list.querySelectorAll<HTMLElement>("button")].find((b) => b.dataset.c === focus[0] && b.dataset.a === focus[1])?.focus();
    };
    const wider = (c: string, by: number) => { p.widths[c] = Math.max(48, (p.widths[c] ?? 150) + by); p.keepWidths(); p.redraw(); announce(`${p.widths[c]} pixels`); };
    const draw = () => list.replaceChildren(...cols.map((c, i) => {
      const act = (icon: string, text: string, a: string, on: () => void, disabled = false) => button({ icon, label: `${text}: ${label(c)}`, cls: "ghost icon sm", on, disabled, "data-c": c, "data-a": a });
      const move = (by: number, a: string) => { const next = [...cols]; next.splice(i, 1); next.splice(i + by, 0, c); set(next, [c, a]); };
      return h("li", null, h("span", { class: "mono ell" }, shown(label(c), 80)), act("arrow-up", "Earlier", "up", () => move(-1, "up"), i === 0), act("arrow-down", "Later", "down", () => move(1, "down"), i === cols.length - 1),
        act("minus", "Narrower", "less", () => wider(c, -24)), act("plus", "Wider", "more", () => wider(c, 24)), act("x", "Hide", "x", () => set(cols.filter((x) => x !== c)), cols.length === 1));
    }));
    draw();
    const add = (e: Event) => { e.preventDefault(); const c = find.value.trim(); if (c && !cols.includes(c)) { const at = cols.indexOf(p.roles.message ?? "*"); set(at < 0 ? [...cols, c] : cols.toSpliced(at, 0, c)); } find.value = ""; find.focus(); };
    return [list, h("form", { class: "row", onsubmit: add }, h("label", { class: "vh", for: "col-find" }, "Field to add"), find, names, h("button", { class: "btn" }, "Add")), h("div", { class: "acts" }, button({ text: "The usual columns", on: () => { for (const k of Object.keys(p.widths)) delete p.widths[k]; p.keepWidths(); set(usual(p.roles)); } }), button({ text: "Close", cls: "primary", on: () => close() }))];
  });
}
