// Making and changing a filter.
import { json } from "../lib/api.ts";
import { button, h } from "../lib/dom.ts";
import { describe, type Filter, type Op, ops } from "./filters.ts";
import type { LogsPage } from "./page.ts";
import { pop } from "./pop.ts";
import { shown } from "./record.ts";

let serial = 0;

export function filterForm(p: LogsPage, anchor: HTMLElement, i?: number) {
  const f: Filter = i === undefined ? { field: "", op: "is", values: [] } : p.state.filters[i]!;
  const id = `ff${++serial}`, names = h("datalist", { id: `${id}-f` }), found = h("datalist", { id: `${id}-v` });
  const field = h("input", { class: "in mono", id: `${id}-field`, list: `${id}-f`, value: f.field, autocomplete: "off", spellcheck: "false", required: true, autofocus: i === undefined, oninput: () => void suggest() });
  const op = h("select", { class: "in", id: `${id}-op`, onchange: () => { box.hidden = /^has/.test(op.value); } }, (Object.keys(ops) as Op[]).map((o) => h("option", { value: o, selected: o === f.op }, ops[o].text)));
  const value = h("textarea", { class: "in mono", id: `${id}-value`, rows: "2", spellcheck: "false", autofocus: i !== undefined }, f.values.join("\n"));
  const pick = h("input", { class: "in mono", list: `${id}-v`, placeholder: "Choose a value", "aria-label": "Values in the result", autocomplete: "off", onchange: () => { if (pick.value) { value.value = value.value ? `${value.value}\n${pick.value}` : pick.value; pick.value = ""; } } });
  const box = h("div", { class: "field", hidden: /^has/.test(f.op) }, h("label", { for: `${id}-value` }, "Value, one a line"), value, pick);
  let timer = 0, asked = "";
  const suggest = () => { clearTimeout(timer); timer = window.setTimeout(async () => {
    const name = field.value, sel = p.selection();
    if (!sel) return;
    try {
      const a = await json<{ fields: { name: string; top?: { value: string; rows: number }[] }[] }>("/query/fields", { body: { ...sel, search: name, limit: 50, ...(p.columns?.at.has(name) && name !== asked ? { fields: [name], top: 20 } : {}) } });
      names.replaceChildren(...a.fields.map((x) => h("option", { value: x.name })));
      const top = a.fields.find((x) => x.name === name)?.top;
      if (top) { asked = name; found.replaceChildren(...top.map((t) => h("option", { value: t.value }, `${t.rows}`))); }
    } catch { /* names can be typed */ }
  }, 150); };
  pop(anchor, i === undefined ? "New filter" : "Change the filter", (close) => {
    const submit = (e: Event) => {
      e.preventDefault();
      const o = op.value as Op, values = /^has/.test(o) ? [] : value.value.split("\n").map((v) => v.replace(/\r$/, "")).filter((v, _, all) => v !== "" || all.length === 1);
      if (!field.value) return;
      const next: Filter = { field: field.value, op: o, values: /^(is|not|has|hasnot)$/.test(o) ? values : values.slice(0, 1) };
      close();
      p.setFilters(i === undefined ? [...p.state.filters, next] : p.state.filters.map((x, k) => (k === i ? next : x)), `Filter: ${shown(describe(next), 120)}`);
    };
    return [h("form", { class: "filterform", onsubmit: submit }, h("div", { class: "field" }, h("label", { for: `${id}-field` }, "Field"), field), h("div", { class: "field" }, h("label", { for: `${id}-op` }, "Condition"), op), box, names, found, h("div", { class: "acts" }, button({ text: "Cancel", on: close }), h("button", { class: "btn primary" }, i === undefined ? "Add" : "Change")))];
  });
  void suggest();
}
