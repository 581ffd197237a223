// What the reader keeps of the page: saved views, and panels of dashboards.
import { explain, json } from "../lib/api.ts";
import { may, orgPath } from "../lib/boot.ts";
import { button, h } from "../lib/dom.ts";
import { dialog, menu, toast } from "../lib/layers.ts";
import { letter, params, readState, type State } from "./state.ts";

interface Head { id: string; name: string; mine: boolean; shared: boolean; editable: boolean; version: number }
interface View extends Head { summary?: { page: string }; body?: { page: string; state: Record<string, string | string[]> } }

const failed = (what: string) => (e: unknown) => { const err = explain(e); toast(`${what}: ${err.message}${err.hint ? ` ${err.hint}` : ""}`, { error: true }); };

export async function viewsMenu(anchor: HTMLElement, s: State, open: (s: State) => void) {
  let list: View[] = [];
  try {
    list = (await json<{ views: View[] }>("/views")).views.filter((v) => v.summary?.page === "metrics");
  } catch (e) {
    failed("Saved views cannot be read")(e);
  }
  menu(anchor, [
    { text: "Save this view…", icon: "save", on: () => void saveView(s) },
    ...(list.length ? [{ text: "", rule: true }, { text: "Saved views", heading: true }, ...list.map((v) => ({ text: v.name, icon: "bookmark", end: v.mine ? (v.shared ? "shared" : "") : "of others", on: () => void openView(v.id, open) })), { text: "", rule: true }, ...list.filter((v) => v.editable).slice(0, 20).map((v) => ({ text: `Delete ${v.name}`, icon: "trash-2", danger: true, on: () => void deleteView(v) }))] : []),
  ], { label: "Saved views" });
}

async function openView(id: string, open: (s: State) => void) {
  try {
    const v = await json<View>(`/views/${encodeURIComponent(id)}`);
    const q = new URLSearchParams();
    for (const [k, x] of Object.entries(v.body!.state)) for (const one of Array.isArray(x) ? x : [x]) q.append(k, one);
    open(readState(q));
  } catch (e) {
    failed("The view cannot be opened")(e);
  }
}

async function deleteView(v: View) {
  try {
    await json(`/views/${encodeURIComponent(v.id)}`, { method: "DELETE", headers: { "If-Match": `"${v.version}"` } });
    toast(`${v.name} deleted`, { action: { text: "Undo", on: () => void json(`/views/${encodeURIComponent(v.id)}/restore`, { body: {} }).catch(failed("It cannot be brought back")) } });
  } catch (e) {
    failed("The view cannot be deleted")(e);
  }
}

const title = (s: State) => s.queries.find((q) => q.text)?.text.slice(0, 80) ?? "";
const checkbox = (id: string, text: string) => h("label", { class: "check", for: id }, h("input", { type: "checkbox", id }), text);
const checked = (form: HTMLElement, id: string) => form.querySelector<HTMLInputElement>(`#${id}`)?.checked ?? false;

function saveView(s: State) {
  return dialog("Save this view", (close) => {
    const name = h("input", { class: "in", id: "view-name", required: true, maxlength: "200", value: title(s), autofocus: true });
    const submit = async (e: Event) => {
      e.preventDefault();
      const state = Object.fromEntries(Object.entries(params(s)).filter(([, v]) => v.length));
      try {
        await json("/views", { body: { name: name.value.trim(), shared: checked(e.target as HTMLElement, "view-shared"), body: { page: "metrics", state } } });
        close(true);
        toast("View saved");
      } catch (err) { failed("The view cannot be saved")(err); }
    };
    return h("form", { onsubmit: submit }, h("div", { class: "field" }, h("label", { for: "view-name" }, "Name"), name, h("small", null, "Queries, options and the time range are kept; a relative range stays relative.")),
      may("editor") && checkbox("view-shared", "Share it with the organization"), h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Save")));
  });
}

interface Panel { id: number; title?: string; type: string; grid: { x: number; y: number; w: number; h: number }; targets: unknown[]; options?: Record<string, unknown> }
interface Dashboard { title: string; panels: Panel[] }

/** The page's queries as a panel of a dashboard. */
export function panelOf(s: State, name: string): Omit<Panel, "id" | "grid"> {
  const table = s.view === "table";
  return {
    title: name, type: table ? "table" : s.view === "heatmap" ? "heatmap" : "timeseries",
    targets: s.queries.map((q, i) => ({ ref: letter(i), language: "promql", statement: q.text, ...(table && s.instant ? { instant: true } : {}), ...(table ? { format: "table" } : {}), ...(s.step ? { step: s.step } : {}), ...(q.hidden ? { hidden: true } : {}) })).filter((t) => t.statement),
    options: { ...(s.unit ? { unit: s.unit } : {}), ...(s.kind === "stack" ? { stack: "normal" } : {}), ...(s.kind === "bars" ? { style: "bars" } : {}), ...(s.kind === "area" || s.kind === "stack" ? { fill: 25 } : {}), ...(s.log ? { log: 10 } : {}) },
  };
}

export async function addToDashboard(s: State): Promise<void> {
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
    const submit = async (e: Event) => {
      e.preventDefault();
      try {
        const id = await put(s, name.value.trim(), where.value, fresh.value.trim());
        close(true);
        toast("Panel added", { action: { text: "Open", on: () => { location.href = orgPath(`dashboards/${encodeURIComponent(id)}`); } } });
      } catch (err) { failed("The panel cannot be added")(err); }
    };
    return h("form", { onsubmit: submit }, h("div", { class: "field" }, h("label", { for: "panel-title" }, "Title of the panel"), name), h("div", { class: "field" }, h("label", { for: "dash" }, "Dashboard"), where), box,
      h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Add")));
  });
}

/** Puts the panel below what is on the dashboard. A change by somebody else meanwhile is an error, not overwritten. */
async function put(s: State, name: string, id: string, fresh: string): Promise<string> {
  const grid = (panels: Panel[]) => ({ x: 0, y: Math.max(0, ...panels.map((p) => p.grid.y + p.grid.h)), w: 12, h: 8 });
  if (!id) return (await json<Head>("/dashboards", { body: { body: { title: fresh || "Metrics", panels: [{ id: 1, grid: grid([]), ...panelOf(s, name) }] } } })).id;
  const d = await json<{ version: number; shared: boolean; body: Dashboard }>(`/dashboards/${encodeURIComponent(id)}`);
  const panels = d.body.panels ?? [];
  await json(`/dashboards/${encodeURIComponent(id)}`, { method: "PUT", body: { shared: d.shared, version: d.version, body: { ...d.body, panels: [...panels, { id: 1 + Math.max(0, ...panels.map((p) => p.id)), grid: grid(panels), ...panelOf(s, name) }] } } });
  return id;
}
