// One record in full: its fields with what can be done with each, and as JSON. Used by the drawer and by rows that are open in place.
import { button, h, icon, touch } from "../lib/dom.ts";
import { bytes, count, laidOut } from "../lib/format.ts";
import { copy } from "../lib/layers.ts";
import { type Marks, nodes } from "./marks.ts";
import { type Roles, type Row, textOf, toJSON } from "./record.ts";
import type { Op } from "./filters.ts";

/** What the page does on behalf of a field's row. */
export interface FieldActs {
  filter(field: string, op: Op, values: string[]): void;
  toggleColumn(field: string): void;
  hasColumn(field: string): boolean;
  pin(field: string): void;
  pinned(field: string): boolean;
  topValues(field: string): void;
}

const long = 2000; // characters of a value that are shown at once

/** The field and value of the element that has the focus, for the keys + and −. */
export const values = new WeakMap<Element, { field: string; value: string }>();
export function focusedValue(): { field: string; value: string } | undefined {
  for (let e = document.activeElement; e; e = e.parentElement) { const v = values.get(e); if (v) return v; }
  return undefined;
}

export function fieldTable(row: Row, marks: Marks, acts: FieldActs): HTMLElement {
  const list = row.entries();
  list.sort(([a], [b]) => Number(acts.pinned(b)) - Number(acts.pinned(a)) || Number(b === "_timestamp") - Number(a === "_timestamp") || a.localeCompare(b));
  return h("dl", { class: "ft" }, list.slice(0, 1000).map(([field, v]) => fieldRow(field, v, marks, acts)), list.length > 1000 && h("p", { class: "muted" }, `There are ${count(list.length - 1000)} more fields: see JSON.`));
}

function fieldRow(field: string, v: unknown, marks: Marks, acts: FieldActs): HTMLElement {
  const text = textOf(v), value = h("dd", { class: `mono ${typeof v === "number" ? "n" : typeof v === "boolean" ? "b" : ""}`.trim() });
  clipped(value, text, marks.of(field));
  const plain = text.length <= 1000;
  const act = (ic: string, label: string, on: () => void, pressed?: boolean) => h("button", { type: "button", "aria-label": `${label} ${field}`, title: label, "aria-pressed": pressed === undefined ? null : String(pressed), onclick: on }, icon(ic, "s"));
  const row = h("div", { class: "fr", tabindex: touch() ? "-1" : null }, h("dt", { title: field }, acts.pinned(field) && icon("pin", "xs"), ...nodes(field, undefined)), value,
    h("dd", { class: "fa" }, plain && act("circle-plus", "Filter for this value of", () => acts.filter(field, "is", [text])), plain && act("circle-minus", "Filter out this value of", () => acts.filter(field, "not", [text])),
      act("columns-3", acts.hasColumn(field) ? "Hide the column" : "Show as column:", () => acts.toggleColumn(field), acts.hasColumn(field)), act("list", "Top values of", () => acts.topValues(field)),
      act("pin", acts.pinned(field) ? "Unpin" : "Pin", () => acts.pin(field), acts.pinned(field)), act("copy", "Copy the value of", () => void copy(text, "Value copied"))));
  if (plain) values.set(row, { field, value: text });
  return row;
}

/** Puts text into an element, and no more than a screenful until the reader asks for all. */
export function clipped(el: HTMLElement, text: string, re: RegExp | undefined) {
  if (text.length <= long) { el.replaceChildren(...linked(text, re)); return; }
  const more = button({ text: `Show all ${bytes(text.length)}`, cls: "sm", on: () => el.replaceChildren(...nodes(text, text.length < 200_000 ? re : undefined)) });
  el.replaceChildren(...nodes(text.slice(0, long), re), "… ", more);
}

/** Text whose http(s) addresses can be followed. */
function linked(text: string, re: RegExp | undefined): Node[] {
  const out: Node[] = [];
  let at = 0;
  for (const m of text.matchAll(/https?:\/\/[^\s"'<>\\^`{|}\u0000-\u001f\u200b-\u200f\u2028-\u202e\u2060-\u206f]+/g)) {
    const address = m[0].replace(/[).,;:\]]+$/, "");
    if (!URL.canParse(address)) continue;
    out.push(...nodes(text.slice(at, m.index), re), h("a", { href: address, rel: "noopener noreferrer", target: "_blank", class: "ext" }, ...nodes(address, re)));
    at = m.index + address.length;
  }
  return [...out, ...nodes(text.slice(at), re)];
}

/** The message on its own. One that is JSON is laid out, unless the reader wants it as it was sent. */
export function messageBox(row: Row, roles: Roles, marks: Marks): HTMLElement | undefined {
  const v = roles.message ? row.get(roles.message) : undefined;
  if (v === null || v === undefined || v === "") return undefined;
  const text = textOf(v), box = h("div", { class: "msgbox" }), body = h("div", { class: "mono", tabindex: "0", role: "region", "aria-label": "Message" });
  const pretty = /^\s*[[{]/.test(text) && text.length < 200_000 ? laidOut(text) : undefined;
  clipped(body, pretty ?? text, marks.of(roles.message!));
  box.append(body);
  if (!pretty) return box;
  const b = button({ text: "As sent", cls: "sm ghost", "aria-pressed": "false", on: () => { const raw = b.getAttribute("aria-pressed") !== "true"; b.setAttribute("aria-pressed", String(raw)); clipped(body, raw ? text : pretty, marks.of(roles.message!)); } });
  box.append(b);
  return box;
}
/** The record as JSON, with colours. */
export function jsonView(row: Row, marks: Marks): HTMLElement {
  const text = toJSON(row, 2), pre = h("pre", { class: "mono json", tabindex: "0", role: "region", "aria-label": "JSON" });
  if (text.length > 100_000) { clipped(pre, text, undefined); return pre; }
  const re = marks.of("");
  for (const m of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b|[^"\d\-tfn]+|./g)) {
    const cls = m[2] !== undefined ? "f" : m[1] !== undefined ? "s" : /^[-\dtfn]/.test(m[0]) ? "n" : "";
    if (cls) pre.append(h("span", { class: cls }, ...nodes(m[1] ?? m[0], cls === "s" ? re : undefined)), m[2] ?? "");
    else pre.append(m[0]);
  }
  return pre;
}
