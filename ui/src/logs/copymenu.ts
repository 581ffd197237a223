// Copying the query in the forms that other tools take. No token is ever part of it: the reader's own goes into $MS_TOKEN.
import { boot } from "../lib/boot.ts";
import { copy, menu } from "../lib/layers.ts";
import type { LogsPage } from "./page.ts";
import { address } from "../lib/url.ts";
import { params } from "./state.ts";

const sh = (t: string) => `'${t.replaceAll("'", `'\\''`)}'`;

export function copyMenu(p: LogsPage, anchor: HTMLElement) {
  const sql = p.state.mode === "sql" ? p.state.q || p.editor.value : p.sql || p.statementText();
  const range = p.span ?? { start: p.state.range.from, end: p.state.range.to };
  const body = { statement: sql, time_range: p.state.range.to === "now" || /^now/.test(p.state.range.from) ? { start: p.state.range.from, end: p.state.range.to } : range };
  const base = `${location.origin}${boot.base}`;
  menu(anchor, [
    { text: "Link", icon: "link", on: () => void address(params(p.state)).catch(() => location.search.slice(1)).then((q) => copy(`${location.origin}${location.pathname}?${q}`, "Link copied")) },
    { text: "SQL", icon: "database", on: () => void copy(sql, "SQL copied") },
    { text: "curl", icon: "terminal", on: () => void copy(`curl -sS ${base}/api/v1/query \\\n  -H "Authorization: Bearer $MS_TOKEN" \\\n  -H 'X-Org-Id: ${boot.org}' \\\n  -H 'Content-Type: application/json' \\\n  -d ${sh(JSON.stringify(body))}`, "Command copied; put your token into MS_TOKEN") },
    { text: "Grafana panel JSON", icon: "layout-dashboard", on: () => void copy(grafana(p, sql), "JSON copied") },
  ], { label: "Copy the query" });
}

/** A table panel of Grafana that asks this node by SQL, for data sources that post JSON. */
function grafana(p: LogsPage, sql: string): string {
  return JSON.stringify({ type: "logs", title: `${p.state.stream}`, targets: [{ refId: "A", rawQuery: true, rawSql: sql, url: `${location.origin}${boot.base}/api/v1/query`, method: "POST", data: JSON.stringify({ statement: sql, time_range: { start: "${__from:date:iso}", end: "${__to:date:iso}" } }) }] }, null, 2);
}
