// Explain: what a run read and left out, the statement as it was executed, and what to do about its cost.
import { button, h } from "../lib/dom.ts";
import { bytes, count, duration, percent, plural } from "../lib/format.ts";
import { copy, dialog } from "../lib/layers.ts";
import { formatTime, zoneLabel } from "../lib/time.ts";
import type { LogsPage } from "./page.ts";

export function inspect(p: LogsPage) {
  const s = p.done?.stats, e = p.estimate;
  const kv = (list: [string, string][]) => h("dl", { class: "kv explain" }, list.map(([k, v]) => [h("dt", null, k), h("dd", null, v)]));
  const rows: [string, string][] = [];
  if (p.span) rows.push(["Time range", `${formatTime(p.span.start, { ms: true })} to ${formatTime(p.span.end, { ms: true })} ${zoneLabel()}`]);
  if (e) rows.push(["Estimate before", `${plural(e.rows, "row")}, ${bytes(e.bytes)}, ${count(e.segments.to_scan)} of ${plural(e.segments.total, "segment")}`]);
  if (s) {
    const seg = s.segments, left = seg.total - seg.pruned - seg.scanned;
    rows.push(["Time", duration(s.took_ms * 1e6)], ["Segments", `${count(seg.total)} in the time range's streams`], ["Left out by time and index", `${count(seg.pruned)}${seg.total ? ` (${percent(seg.pruned / seg.total)})` : ""}`], ["Read", `${count(seg.scanned)}, ${count(seg.cached)} from the local disk`]);
    if (left > 0) rows.push(["Not needed", `${count(left)}: enough rows were found before`]);
    rows.push(["Bytes read", bytes(s.scanned_bytes)], ["Rows looked at one by one", count(s.scanned_rows)], ["Unflushed rows read", count(s.unflushed_rows)], ["Nodes", count(s.nodes || 1)]);
  }
  const seg = s?.segments ?? p.progress?.segments;
  const bar = seg && seg.total > 0 && s ? share([["pruned", seg.pruned], ["cached", s.segments.cached], ["fetched", s.segments.scanned - s.segments.cached]], seg.total) : undefined;
  void dialog("What the query read", (close) => [
    s ? kv(rows) : h("p", { class: "t2" }, "The query has not come to its end, so there are no figures of it. What is known:"), !s && rows.length ? kv(rows) : "", bar ?? "",
    h("h3", { class: "dh3" }, "Statement as executed"), h("pre", { class: "mono sqltext", tabindex: "0", role: "region", "aria-label": "SQL" }, p.sql || p.editor.value),
    h("p", { class: "small muted" }, "Fewer bytes: a shorter time, a filter on an exact value (the index knows which segments have it), fewer columns in SQL."),
    h("div", { class: "acts" }, button({ text: "Copy SQL", icon: "copy", on: () => void copy(p.sql || p.editor.value, "SQL copied") }), button({ text: "Close", cls: "primary", on: () => close(), autofocus: true }))].filter((x): x is HTMLElement => x !== ""), { wide: true });
}

function share(parts: [string, number][], total: number): HTMLElement {
  const names: Record<string, string> = { pruned: "left out", cached: "from the local disk", fetched: "fetched" };
  return h("div", { class: "sharebar", role: "img", "aria-label": parts.map(([k, n]) => `${names[k]} ${percent(n / total)}`).join(", ") }, parts.filter(([, n]) => n > 0).map(([k, n]) => { const i = h("i", { class: k, title: `${names[k]}: ${count(n)}` }); i.style.setProperty("flex-grow", String(n)); return i; }));
}
