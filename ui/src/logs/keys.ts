// The keys of the page.
import { $ } from "../lib/dom.ts";
import { bind } from "../lib/keys.ts";
import { copy, menu } from "../lib/layers.ts";
import { focusedValue } from "./detail.ts";
import { traceLink } from "./drawer.ts";
import type { Op } from "./filters.ts";
import type { LogsPage } from "./page.ts";
import { shown, textOf } from "./record.ts";

export function bindKeys(p: LogsPage) {
  const g = p.results.grid, K = (key: string, label: string, group: string, run: (e: KeyboardEvent) => void, hidden = false) => ({ key, label, group, hidden, run: (e: KeyboardEvent) => { e.preventDefault(); run(e); } });
  const row = () => p.drawer.row ?? g.current;
  const move = (by: number, extend = false) => { if (p.state.view !== "events") return; g.scroller.focus({ preventScroll: true }); g.move(by, extend); };
  bind([
    K("/", "Focus the query", "Query", () => p.editor.focus()), K("mod+Enter", "Run", "Query", () => void p.run()),
    { key: "Escape", label: "Stop, close, leave the field", group: "Query", run: (e) => { if (p.escape()) e.preventDefault(); } },
    K("t", "Time", "Query", () => p.head.time.open()), K("t z", "Zoom out", "Query", () => p.head.time.zoomOut()), K("t ArrowLeft", "Earlier", "Query", () => p.head.time.shift(-1)), K("t ArrowRight", "Later", "Query", () => p.head.time.shift(1)),
    K("l", "Live on, or to the newest", "Query", () => (p.tail.on && p.tail.paused ? p.tail.resume() : p.toggleLive())), K("x", "Explain what was read", "Query", () => p.explain()), K("h", "Histogram", "Query", () => p.results.histogram.focus()),
    K("j", "Next record", "Records", () => move(1)), K("k", "Previous record", "Records", () => move(-1)), K("shift+j", "Select downwards", "Records", () => move(1, true)), K("shift+k", "Select upwards", "Records", () => move(-1, true)),
    K("Enter", "Open or close the details", "Records", () => { if (p.drawer.isOpen) p.drawer.close(); else if (g.current) p.openRow(g.current, true); }), K("e", "Expand in place", "Records", () => { if (g.index >= 0) g.toggle(g.index); }),
    K("c", "Context", "Records", () => { const r = row(); if (r) { p.openRow(r, true); p.drawer.open(r, { tab: "context", focus: true }); } }),
    K("+", "Filter for the focused value", "Records", () => filterKey(p, "is")), K("=", "", "Records", () => filterKey(p, "is"), true), K("-", "Filter it out", "Records", () => filterKey(p, "not")),
    K("y", "Copy as JSON", "Records", () => { const r = row(); if (r) { if (!p.drawer.isOpen) p.openRow(r, false); void p.drawer.copyJSON(); } }), K("shift+y", "Copy a link", "Records", () => { const r = row(); if (r) void copy(p.linkTo(r), "Link copied"); }),
    K("o", "Open the trace", "Records", () => { const r = row(), id = r && p.roles.trace && textOf(r.get(p.roles.trace)); if (id) location.href = traceLink(id, p.roles.span ? textOf(r.get(p.roles.span)) : ""); }),
    K("f", "Filter the fields", "View", () => { p.results.showFields(true); $<HTMLInputElement>("#field-find")?.focus(); }), K("w", "Wrap", "View", () => p.toggleWrap()),
    K("[", "Fields on or off", "View", () => p.results.showFields()), K("]", "Details on or off", "View", () => { if (p.drawer.isOpen) p.drawer.close(); else if (g.current) p.openRow(g.current, false); }),
  ]);
  g.addEventListener("ms:open", (e) => { if ((e as CustomEvent).detail.by === "key" && p.drawer.isOpen && p.drawer.row === g.current && p.drawer.el.contains(document.activeElement)) p.drawer.close(); });
}

/** Filters by the value that has the focus; where none has, by one of the record's, to be chosen. */
function filterKey(p: LogsPage, op: Op) {
  const v = focusedValue();
  if (v) { p.filter(v.field, op, [v.value]); return; }
  const r = p.drawer.row ?? p.results.grid.current;
  if (!r) return;
  const first = [p.roles.service, p.roles.level, p.roles.host].filter((f): f is string => f !== undefined && r.get(f) !== undefined && r.get(f) !== null);
  const rest = r.entries().map(([f]) => f).filter((f) => !first.includes(f) && f !== "_timestamp" && textOf(r.get(f)).length <= 200).slice(0, 30);
  menu(p.drawer.isOpen && p.drawer.el.contains(document.activeElement) ? p.drawer.el : p.results.grid.scroller, [{ text: op === "is" ? "Filter for" : "Filter out", heading: true }, ...[...first, ...rest].map((f) => ({ text: `${shown(f, 40)} ${op === "is" ? "=" : "≠"} ${shown(r.get(f), 60)}`, on: () => p.filter(f, op, [textOf(r.get(f))]) }))], { label: op === "is" ? "Filter for" : "Filter out" });
}
