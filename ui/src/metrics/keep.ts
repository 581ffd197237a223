// What the reader keeps of the page: panels of dashboards.
import { explain, json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { button, h, sending } from "../lib/dom.ts";
import { dialog, toast } from "../lib/layers.ts";
import { add } from "../dashboard/grid.ts";
import type { Panel } from "../dashboard/model.ts";
import { letter, type State } from "./state.ts";

interface Head { id: string; name: string; editable: boolean }

const failed = (what: string) => (e: unknown) => { const err = explain(e); toast(`${what}: ${err.message}${err.hint ? ` ${err.hint}` : ""}`, { error: true }); };

export const title = (s: State) => s.queries.find((q) => q.text)?.text.slice(0, 80) ?? "";
interface Dashboard { title: string; panels: Panel[] }

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
  let list: Head[];
  try {
    list = (await json<{ dashboards: Head[] }>("/dashboards")).dashboards.filter((d) => d.editable);
  } catch (e) { failed("Dashboards cannot be read")(e); return; }
  await dialog("Add to a dashboard", (close) => {
    const name = h("input", { class: "in", id: "panel-title", maxlength: "200", value: title(s), required: true, autofocus: true });
    const fresh = h("input", { class: "in", id: "dash-title", maxlength: "200", value: "Metrics" });
    const box = h("div", { class: "field", hidden: list.length > 0 }, h("label", { for: "dash-title" }, "Name of the new dashboard"), fresh);
    const where = h("select", { class: "in", id: "dash", onchange: () => { box.hidden = where.value !== ""; } }, list.map((d) => h("option", { value: d.id }, d.name)), h("option", { value: "" }, "A new dashboard"));
    const submit = sending(async () => {
      try {
        const id = await put(panelOf(s, name.value.trim(), unit), where.value, fresh.value.trim());
        close(true);
        toast("Panel added", { action: { text: "Open", on: () => { location.href = orgPath(`dashboards/${encodeURIComponent(id)}`); } } });
      } catch (err) { failed("The panel cannot be added")(err); }
    });
    return h("form", { onsubmit: submit }, h("div", { class: "field" }, h("label", { for: "panel-title" }, "Title of the panel"), name), h("div", { class: "field" }, h("label", { for: "dash" }, "Dashboard"), where), box,
      h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Add")));
  });
}

/** Puts the panel below what is on the dashboard. A change by somebody else meanwhile is an error, not overwritten. */
async function put(panel: ReturnType<typeof panelOf>, id: string, fresh: string): Promise<string> {
  const grid = { x: 0, y: 0, w: 12, h: 8 };
  if (!id) return (await json<Head>("/dashboards", { body: { body: { title: fresh || "Metrics", panels: [{ id: 1, grid, ...panel }] } } })).id;
  const d = await json<{ version: number; shared: boolean; body: Dashboard }>(`/dashboards/${encodeURIComponent(id)}`);
  const panels = d.body.panels ?? [];
  await json(`/dashboards/${encodeURIComponent(id)}`, { method: "PUT", body: { shared: d.shared, version: d.version, body: { ...d.body, panels: add(panels, { id: 1 + Math.max(0, ...panels.map((p) => p.id)), grid, ...panel }) } } });
  return id;
}
