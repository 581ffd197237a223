// Importing a dashboard: from a file or pasted, with a report of what becomes of each panel before anything is kept.
import { button, h, visible } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import { dialog } from "../lib/layers.ts";
import { told } from "../lib/states.ts";
import { type Imported, importFile } from "../dashboard/model.ts";

const words = { converted: "", changed: "warn", placeholder: "err" } as const;

export function importDialog(): Promise<string | undefined> {
  return dialog("Import a dashboard", (close) => {
    const text = h("textarea", { class: "in mono", id: "imp", rows: "8", spellcheck: "false", placeholder: '{"title": "…", "panels": […]}', autofocus: true });
    const file = h("input", { class: "in", id: "impfile", type: "file", accept: ".json,application/json", onchange: async () => { const f = file.files?.[0]; if (f) { text.value = await f.text(); await look(); } } });
    const problem = h("p", { class: "alert", role: "alert", hidden: true }), report = h("div", { class: "stack" });
    const go = button({ text: "Import", cls: "primary", disabled: true, on: () => void take() }), shared = h("input", { type: "checkbox", id: "impshared" });
    const parsed = (): unknown => JSON.parse(text.value);
    const fail = (e: unknown) => { problem.hidden = false; problem.textContent = e instanceof SyntaxError ? `This is not JSON: ${e.message}` : told(e); go.disabled = true; report.replaceChildren(); };
    const look = async () => {
      problem.hidden = true;
      try {
        const r = await importFile(parsed(), true);
        report.replaceChildren(summary(r));
        go.disabled = false;
      } catch (e) { fail(e); }
    };
    const take = async () => { try { close((await importFile(parsed(), false, shared.checked)).id); } catch (e) { fail(e); } };
    text.addEventListener("change", () => void look());
    return [h("p", { class: "t2" }, "Of Grafana, as its export or its JSON model; or one that was exported here."), h("div", { class: "field" }, h("label", { for: "impfile" }, "File"), file), h("div", { class: "field" }, h("label", { for: "imp" }, "or its text"), text),
      problem, report, h("label", { class: "check", for: "impshared" }, shared, "Share it with the organization"), h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), button({ text: "Look", on: () => void look() }), go)];
  }, { wide: true }) as Promise<string | undefined>;
}

function summary(r: Imported): HTMLElement {
  const n = (state: string) => r.report.panels.filter((p) => p.state === state).length;
  return h("section", { "aria-label": "What becomes of it" }, h("p", null, h("strong", null, visible(r.dashboard.title)), `: ${plural(r.report.panels.length, "panel")}, ${n("converted")} as they are, ${n("changed")} with changes, ${n("placeholder")} kept but not shown; ${plural(r.report.variables?.length ?? 0, "variable")}.`),
    h("div", { class: "tblwrap d-report", tabindex: "0", role: "group", "aria-label": "Panels" }, h("table", { class: "tbl" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Panel"), h("th", { scope: "col" }, "Type"), h("th", { scope: "col" }, "Becomes"), h("th", { scope: "col" }, "Notes"))),
      h("tbody", null, r.report.panels.map((p) => h("tr", null, h("th", { scope: "row" }, visible(p.title || "untitled")), h("td", null, visible(p.type)), h("td", null, h("span", { class: `pill ${words[p.state]}`.trim() }, p.state === "placeholder" ? "kept, not shown" : p.state)), h("td", { class: "wrap" }, visible((p.notes ?? []).join("; ")))))))));
}
