// The columns of the list of records.
import type { Column } from "../el/grid.ts";
import { h } from "../lib/dom.ts";
import { shortLevel } from "../lib/level.ts";
import { formatTime, zone } from "../lib/time.ts";
import { isNumber } from "./filters.ts";
import { type Marks, nodes } from "./marks.ts";
import { messageOf, type Roles, type Row, rowLevel, shown, textOf } from "./record.ts";

export interface Look { roles: Roles; marks: Marks; cols: string[] | undefined; wrap: boolean; widths: Record<string, number>; withDate: boolean; types?: ReadonlyMap<string, string> | undefined }

export const usual = (roles: Roles) => ["_timestamp", ...(roles.level ? [roles.level] : []), ...(roles.service ? [roles.service] : []), roles.message ?? "*"];

/** The columns that are shown: those chosen, or the usual ones. "*" is all that has no column of its own. */
export function columnsOf(look: Look): Column<Row>[] {
  const keys = look.cols ?? usual(look.roles);
  const list = keys.length ? keys : ["_timestamp", "*"];
  return list.map((key) => column(key, look, list));
}

function column(key: string, look: Look, all: string[]): Column<Row> {
  const { roles } = look, width = look.widths[key];
  if (key === "_timestamp") return { key, label: "Time", width: width ?? (look.withDate ? 180 : 96), min: 84, sort: true, cls: "time", render: (r, cell) => time(r.time, look.withDate, cell) };
  if (key === roles.level) return { key, label: "Level", width: width ?? 50, min: 44, wide: true, sort: true, cls: "lvl", render: (r, cell) => level(r, roles, cell) };
  if (key === roles.message || key === "*") return { key, label: key === "*" ? "Fields" : "Message", ...(width ? { width } : {}), min: 260, cls: "msg two", render: (r, cell) => message(r, look, all, cell) };
  return { key, label: key === roles.service ? "Service" : key, width: width ?? (key === roles.service ? 118 : 150), min: 48, wide: true, sort: true, cls: key === roles.service ? "svc" : isNumber(look.types?.get(key)) ? "n" : "any", render: (r, cell) => { cell.append(...nodes(shown(r.get(key)), look.marks.of(key))); } };
}

function time(t: string, withDate: boolean, cell: HTMLElement) {
  if (!t) return;
  const text = formatTime(t, { date: withDate, ms: true, zone: zone() }), dot = text.lastIndexOf(".");
  cell.append(text.slice(0, dot), h("small", null, text.slice(dot)));
}

function level(r: Row, roles: Roles, cell: HTMLElement) {
  const l = rowLevel(r, roles);
  if (l) cell.append(h("span", { class: `lv ${l}`, title: shown(r.get(roles.level!), 40) }, shortLevel[l]));
  else cell.append(shown(r.get(roles.level!), 20));
}

const restFields = 24, restChars = 600;

/** The message, and after it the fields that have no column of their own, muted. */
function message(r: Row, look: Look, all: string[], cell: HTMLElement) {
  const { roles, marks } = look, text = messageOf(r, roles);
  if (text !== null && text !== undefined) cell.append(...nodes(cutText(textOf(text), look.wrap ? 4000 : 1000), marks.of(roles.message!)));
  let fields = 0, chars = 0;
  for (const [k, v] of r.entries()) {
    if (k === "_timestamp" || k === roles.message || k === roles.level || k === roles.trace || k === roles.span || all.includes(k)) continue;
    const value = shown(v, 120);
    if (++fields > restFields || (chars += k.length + value.length) > restChars) { cell.append(h("span", { class: "k" }, " …")); break; }
    cell.append(h("span", { class: "k" }, ` ${shown(k, 60)}=`), h("span", { class: "kv" }, ...nodes(value, marks.of(k))));
  }
}
const cutText = (t: string, most: number) => (t.length > most ? t.slice(0, most) + "…" : t);

/** What a screen reader says of a row. */
export function labelOf(r: Row, roles: Roles): string {
  return [rowLevel(r, roles), roles.service && shown(r.get(roles.service), 80), r.time && formatTime(r.time, { date: false, ms: true }), shown(messageOf(r, roles) ?? r.entries().slice(0, 4).map(([k, v]) => `${k} ${textOf(v)}`).join(", "), 200)].filter(Boolean).join(", ");
}
