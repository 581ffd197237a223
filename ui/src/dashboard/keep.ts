// A figure of another page, kept as a panel of a dashboard.
import { explain } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { button, h, sending } from "../lib/dom.ts";
import { dialog, toast } from "../lib/layers.ts";
import { told } from "../lib/states.ts";
import { add, type Body, create, type Head, list, load, type Panel, save } from "./model.ts";

type Kept = Omit<Panel, "id" | "grid">;
const grid = { x: 0, y: 0, w: 12, h: 8 };

/** Asks for the title and the dashboard and adds the panel; a new dashboard begins with the page's range of time. */
export async function keep(o: { title: string; name: string; time: Body["time"]; panel: (title: string) => Kept }): Promise<void> {
  let all: Head[];
  try {
    all = (await list()).filter((d) => d.editable);
  } catch (e) { toast(`Dashboards cannot be read. ${told(e)}`, { error: true }); return; }
  await dialog("Add to a dashboard", (close) => {
    const title = h("input", { class: "in", id: "panel-title", maxlength: "200", value: o.title, required: true, autofocus: true, onfocus: (e: Event) => (e.target as HTMLInputElement).select() });
    const fresh = h("input", { class: "in", id: "dash-title", maxlength: "200", value: o.name });
    const box = h("div", { class: "field", hidden: all.length > 0 }, h("label", { for: "dash-title" }, "Name of the new dashboard"), fresh);
    const where = h("select", { class: "in", id: "dash", onchange: () => { box.hidden = where.value !== ""; } }, all.map((d) => h("option", { value: d.id }, d.name)), h("option", { value: "" }, "A new dashboard"));
    const problem = h("div", { class: "alert", role: "alert", hidden: true });
    const submit = sending(async () => {
      try {
        const panel = o.panel(title.value.trim()), id = where.value || (await create({ title: fresh.value.trim() || o.name, time: o.time, panels: [{ id: 1, grid, ...panel }] }, false)).id;
        if (where.value) await put(panel, id);
        close(true);
        toast("Panel added", { action: { text: "Open", on: () => { location.href = orgPath(`dashboards/${encodeURIComponent(id)}`); } } });
      } catch (err) {
        const e = explain(err);
        problem.hidden = false;
        problem.textContent = e.status === 412 || e.status === 409 ? "Somebody changed the dashboard just now: try again." : told(e);
      }
    });
    return h("form", { onsubmit: submit }, problem, h("div", { class: "field" }, h("label", { for: "panel-title" }, "Title of the panel"), title), h("div", { class: "field" }, h("label", { for: "dash" }, "Dashboard"), where), box,
      h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Add")));
  });
}

/** Puts the panel into the first free place. A change by somebody else meanwhile is an error, not overwritten. */
async function put(panel: Kept, id: string) {
  const d = await load(id), panels = d.body.panels ?? [];
  await save(id, { ...d.body, panels: add(panels, { id: 1 + Math.max(0, ...panels.map((p) => p.id)), grid, ...panel }) }, d.shared, d.version);
}
