// What the reader keeps of the page: panels of dashboards.
import { toast } from "../lib/layers.ts";
import { keep } from "../dashboard/keep.ts";
import type { Panel } from "../dashboard/model.ts";
import { letter, type State } from "./state.ts";

export function title(s: State): string {
  const text = s.queries.find((q) => q.text)?.text ?? "";
  return text.length > 80 ? text.slice(0, 79) + "…" : text;
}

const dashboardUnits: Record<string, string> = { "/s": "ops" }; // where dashboards have another name for it

/** The page's queries as a panel of a dashboard, with the unit that the reader sees. */
export function panelOf(s: State, name: string, unit: string): Omit<Panel, "id" | "grid"> {
  const table = s.view === "table";
  return {
    title: name, type: table ? "table" : s.view === "heatmap" ? "heatmap" : "timeseries",
    targets: s.queries.map((q, i) => ({ ref: letter(i), language: "promql" as const, statement: q.text, ...(table && s.instant ? { instant: true } : {}), ...(table ? { format: "table" } : {}), ...(s.step ? { step: s.step } : {}), ...(q.hidden ? { hidden: true } : {}) })).filter((t) => t.statement),
    options: { ...(unit ? { unit: dashboardUnits[unit] ?? unit } : {}), ...(s.kind === "stack" ? { stack: "normal" } : {}), ...(s.kind === "bars" ? { style: "bars" } : {}), ...(s.kind === "area" || s.kind === "stack" ? { fill: 25 } : {}), ...(s.log ? { log: 10 } : {}) },
  };
}

export async function addToDashboard(s: State, unit: string): Promise<void> {
  if (!s.queries.some((q) => q.text)) { toast("There is no query to add yet.", { error: true }); return; }
  await keep({ title: title(s), name: "Metrics", time: { from: s.range.from, to: s.range.to }, panel: (name) => panelOf(s, name, unit) });
}
