// The line below the query: what a run costs while it goes on, and what it has cost.
import { button, h, icon } from "../lib/dom.ts";
import { bytes, count, duration, percent, plural } from "../lib/format.ts";
import type { Estimate, Progress, Stats } from "./run.ts";

const item = (ic: string, title: string, cls: string, ...text: (Node | string)[]) => h("span", { class: cls, title }, icon(ic, "s"), h("span", null, text));
const b = (t: string) => h("b", { class: "num" }, t);

/** How many of the segments were not even looked at. */
export function pruned(s: { total: number; pruned: number }): string { return s.total ? `${percent(s.pruned / s.total)} pruned` : "none in this time"; }

export function costIdle(el: HTMLElement, text: string) { el.replaceChildren(h("span", { class: "muted" }, text)); }

export function costRunning(el: HTMLElement, p: Progress | undefined, ms: number, rows: number) {
  if (!p) { el.replaceChildren(h("span", { class: "t2" }, "Waiting for the node"), h("span", { class: "num" }, icon("clock", "s"), duration(ms * 1e6))); return; }
  const share = p.segments.total ? p.segments.done / p.segments.total : 0;
  const left = share > 0.05 && share < 1 && p.elapsed_ms > 1000 ? `, about ${duration(Math.ceil((p.elapsed_ms * (1 - share)) / share / 1000) * 1e9)} left` : "";
  el.replaceChildren(h("span", { class: "t2" }, b("Scanning"), ` ${count(p.segments.done)} of ${plural(p.segments.total, "segment")}`), h("span", null, b(percent(share))), item("clock", "Time", "", `${duration(p.elapsed_ms * 1e6)}${left}`),
    item("database", "Bytes read", "hide-s", b(bytes(p.bytes)), " read"), h("span", { class: "hide-s" }, `${plural(rows, "row")} so far`));
}

export type CostState = "ok" | "partial" | "stopped" | "cut" | "error";
const said: Record<CostState, [string, string, string]> = { ok: ["circle-check", "Done in", ""], partial: ["triangle-alert", "Partial,", "warn"], stopped: ["square", "Stopped after", "warn"], cut: ["triangle-alert", "Cut off after", "warn"], error: ["circle-x", "Failed after", "err"] };

export function costDone(el: HTMLElement, state: CostState, ms: number, s: Stats | undefined, explain: () => void) {
  const [ic, text, cls] = said[state];
  const list: Node[] = [h("span", { class: `status ${cls}` }, icon(ic, "s"), `${text} ${duration((s?.took_ms ?? ms) * 1e6)}`)];
  if (s) {
    const seg = s.segments;
    list.push(item("filter", "Segments left out by their time range and index before anything was read", "", b(count(seg.scanned)), ` of ${plural(seg.total, "segment")} (${pruned(seg)})`), item("database", "Bytes read", "", b(bytes(s.scanned_bytes)), " read"),
      item("hard-drive", "Segments that were on the local disk", "hide-s", b(seg.scanned ? percent(seg.cached / seg.scanned) : "–"), " from local cache"), item("server", "Nodes that took part", "hide-s", plural(s.nodes || 1, "node")));
    if (s.unflushed_rows) list.push(item("memory-stick", "Newest records, which are not in segments yet", "hide-s", b(count(s.unflushed_rows)), " unflushed"));
  }
  list.push(h("span", { class: "ml" }, button({ text: "Explain", icon: "gauge", cls: "ghost sm", on: explain, "aria-keyshortcuts": "x" })));
  el.replaceChildren(...list);
}

/** What a run would read, beside the query. */
export function estimateText(e: Estimate): Node[] {
  return ["Estimated scan ", h("b", null, bytes(e.bytes)), `, ${count(e.segments.to_scan)} of ${plural(e.segments.total, "segment")}`].map((x) => (typeof x === "string" ? document.createTextNode(x) : x));
}
