// What belongs to the dashboard as a whole: its name, who sees it, its time, its variables.
import { may } from "../lib/boot.ts";
import { button, h } from "../lib/dom.ts";
import { dialog } from "../lib/layers.ts";
import type { Body, Variable } from "./model.ts";

type Made = { body: Partial<Body>; shared: boolean };
const kinds: [Variable["type"], string][] = [["query", "query"], ["custom", "list"], ["constant", "constant"], ["interval", "interval"], ["text", "text"], ["stream", "stream"]];
const value = (id: string) => (document.getElementById(id) as HTMLInputElement | null)?.value.trim() ?? "";
const list = (text: string) => text.split(",").map((x) => x.trim()).filter(Boolean);

export function settingsDialog(b: Body, shared: boolean): Promise<Made | undefined> {
  let vars: Variable[] = structuredClone(b.variables ?? []);
  return dialog("Settings of the dashboard", (close) => {
    const input = (id: string, label: string, v: string, help?: string) => h("div", { class: "field" }, h("label", { for: id }, label), h("input", { class: "in", id, value: v, autocomplete: "off", maxlength: "200" }), help && h("small", null, help));
    const box = h("div", { class: "stack" });
    const draw = () => box.replaceChildren(...vars.map((v, i) => variable(v, i, (next) => { vars = next ? vars.map((x, k) => (k === i ? next : x)) : vars.filter((_, k) => k !== i); draw(); })),
      h("div", null, button({ text: "Add a variable", icon: "plus", on: () => { vars = [...vars, { name: `var${vars.length + 1}`, type: "query", language: "promql", query: "" }]; draw(); } })));
    draw();
    const submit = (e: Event) => {
      e.preventDefault();
      close({ shared: (document.getElementById("s-shared") as HTMLInputElement | null)?.checked ?? shared, body: { title: value("s-title") || "Dashboard", description: value("s-desc"), tags: list(value("s-tags")), folder: value("s-folder"), time: { from: value("s-from") || "now-1h", to: value("s-to") || "now" }, refresh: value("s-refresh"), variables: vars } } satisfies Made);
    };
    return h("form", { onsubmit: submit, class: "stack" }, input("s-title", "Title", b.title), input("s-desc", "Description", b.description ?? ""),
      h("div", { class: "two-col" }, input("s-folder", "Folder", b.folder ?? "", "Names divided by slashes."), input("s-tags", "Tags", (b.tags ?? []).join(", "), "Divided by commas.")),
      h("div", { class: "two-col" }, input("s-from", "Opens from", b.time?.from ?? "now-1h"), input("s-to", "to", b.time?.to ?? "now")), input("s-refresh", "Refreshes every", b.refresh ?? "", "Such as 30s; empty: only when asked."),
      may("editor") && h("label", { class: "check" }, h("input", { type: "checkbox", id: "s-shared", checked: shared }), "Shared with the organization; editors can change it"),
      h("h3", null, "Variables"), h("p", { class: "small" }, "Queries refer to them as $name."), box, h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Apply")));
  }, { wide: true }) as Promise<Made | undefined>;
}

function variable(v: Variable, i: number, set: (v: Variable | undefined) => void): HTMLElement {
  const id = (n: string) => `v-${i}-${n}`;
  const text = (n: string, label: string, at: string, on: (x: string) => Partial<Variable>, placeholder = "") => h("div", { class: "field" }, h("label", { for: id(n) }, label), h("input", { class: "in mono", id: id(n), value: at, placeholder, autocomplete: "off", onchange: (e: Event) => set({ ...v, ...on((e.target as HTMLInputElement).value.trim()) }) }));
  const check = (label: string, at: boolean | undefined, key: "multi" | "include_all") => h("label", { class: "check" }, h("input", { type: "checkbox", checked: at === true, onchange: (e: Event) => set({ ...v, [key]: (e.target as HTMLInputElement).checked }) }), label);
  return h("fieldset", { class: "d-query" }, h("legend", null, `$${v.name}`), h("div", { class: "filters" },
    text("name", "Name", v.name, (x) => ({ name: x.replace(/\W/g, "") || v.name })),
    h("div", { class: "field" }, h("label", { for: id("type") }, "Choices from"), h("select", { class: "in", id: id("type"), onchange: (e: Event) => { const type = (e.target as HTMLSelectElement).value as Variable["type"]; set({ name: v.name, type, ...(v.label ? { label: v.label } : {}), ...(type === "interval" ? { options: ["1m", "5m", "15m", "1h"] } : {}), ...(type === "query" ? { language: "promql", query: "" } : {}) }); } }, kinds.map(([k, t]) => h("option", { value: k, selected: k === v.type }, t)))),
    v.type === "query" && h("div", { class: "field" }, h("label", { for: id("lang") }, "Language"), h("select", { class: "in", id: id("lang"), onchange: (e: Event) => set({ ...v, language: (e.target as HTMLSelectElement).value as "promql" }) }, ["promql", "sql"].map((l) => h("option", { value: l, selected: l === (v.language ?? "promql") }, l === "sql" ? "SQL" : "PromQL")))),
    v.type === "query" && text("query", "Query", v.query ?? "", (x) => ({ query: x }), v.language === "sql" ? "SELECT DISTINCT service FROM app" : "label_values(up, job)"),
    v.type === "stream" && text("signal", "Signal", v.query ?? "logs", (x) => ({ query: x })),
    /^(custom|interval|constant)$/.test(v.type) && text("options", "Values", (v.options ?? []).join(", "), (x) => ({ options: list(x) })),
    /^(query|stream)$/.test(v.type) && text("regex", "Keep what matches", v.regex ?? "", (x) => ({ regex: x })),
    /^(query|custom|stream)$/.test(v.type) && check("Several", v.multi, "multi"), /^(query|custom|stream)$/.test(v.type) && check("All", v.include_all, "include_all"),
    button({ icon: "trash-2", label: `Remove ${v.name}`, cls: "ghost icon", on: () => set(undefined) })));
}
