// The panel editor: a layer over the whole page with a preview, the queries, the options, and the panel as JSON.
import { MsEditor } from "../el/editor.ts";
import { boot } from "../lib/boot.ts";
import { button, h } from "../lib/dom.ts";
import { confirm, dialog } from "../lib/layers.ts";
import { usualStream } from "../logs/state.ts";
import { COLUMNS, type Grid, type Options, type Panel, type PanelType, type QueryLanguage, type Target } from "./model.ts";
import { type Host, PanelView } from "./panel.ts";

const types: [PanelType, string][] = [["timeseries", "Time series"], ["stat", "Single number"], ["gauge", "Gauge"], ["bar", "Bars"], ["table", "Table"], ["logs", "Logs"], ["heatmap", "Heatmap"], ["state-timeline", "State timeline"], ["traces", "Traces"], ["text", "Text"]];
const units: [string, string][] = [["", "none"], ["short", "short number"], ["percent", "percent (0–100)"], ["percentunit", "percent (0–1)"], ["bytes", "bytes"], ["Bps", "bytes per second"], ["s", "seconds"], ["ms", "milliseconds"], ["ns", "nanoseconds"], ["reqps", "requests per second"], ["ops", "operations per second"]];
const calcs = ["last", "first", "mean", "min", "max", "sum", "count", "range", "delta"];

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
const field = (label: string, input: HTMLElement, id: string, help?: string) => { input.id = id; return h("div", { class: "field" }, h("label", { for: id }, label), input, help && h("small", null, help)); };
const select = (list: [string, string][], value: string, on: (v: string) => void) => h("select", { class: "in", onchange: (e: Event) => on((e.target as Field).value) }, (list.some(([v]) => v === value) ? list : [...list, [value, value] as [string, string]]).map(([v, t]) => h("option", { value: v, selected: v === value }, t)));
const textbox = (value: string, on: (v: string) => void, o: Record<string, unknown> = {}) => h("input", { class: "in", autocomplete: "off", value, onchange: (e: Event) => on((e.target as Field).value), ...o });
const check = (text: string, value: boolean, on: (v: boolean) => void) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: value, onchange: (e: Event) => on((e.target as HTMLInputElement).checked) }), text);

/** Edits a panel; undefined when it was left. */
export function editPanel(start: Panel, host: Host): Promise<Panel | undefined> {
  if (start.type === "row") return renameRow(start);
  let p: Panel = { ...structuredClone(start), ...(start.targets ? { targets: start.targets.map((t) => (t.language === "search" && !t.stream ? { ...t, stream: usualStream() } : t)) } : {}) };
  const begun = JSON.stringify(p);
  return dialog(start.title ? `Edit ${start.title}` : "Edit the panel", (close) => {
    const preview = new PanelView(p, { editing: false, window: (w) => host.window(w), get chosen() { return host.chosen; }, get range() { return host.range; }, act: () => {} });
    preview.el.classList.add("d-preview");
    const queries = h("div", { class: "stack" }), options = h("div", { class: "d-opts" }), raw = h("textarea", { class: "in mono", rows: "14", spellcheck: "false", "aria-label": "The panel as JSON" }), problem = h("p", { class: "alert", role: "alert", hidden: true });
    // What is typed counts at once; the preview follows when the reader rests.
    let timer = 0;
    const set = (change: Partial<Panel>, redraw: "all" | "options" | "" = "all") => {
      p = { ...p, ...change };
      clearTimeout(timer);
      timer = window.setTimeout(() => preview.update(p), 500);
      if (redraw === "all") drawQueries();
      if (redraw) drawOptions();
    };
    const setOption = (change: Options) => set({ options: clean({ ...p.options, ...change }) }, "");
    const setTarget = (i: number, change: Partial<Target>, redraw: "all" | "" = "") => set({ targets: (p.targets ?? []).map((t, k) => (k === i ? { ...t, ...change } : t)) }, redraw);
    const drawQueries = () => {
      queries.replaceChildren(...(p.type === "text" ? [] : [...(p.targets ?? []).map((t, i) => queryRow(t, i, setTarget, () => set({ targets: p.targets!.filter((_, k) => k !== i) }), () => { clearTimeout(timer); preview.update(p); preview.refresh(); })),
        h("div", null, button({ text: "Add a query", icon: "plus", on: () => set({ targets: [...(p.targets ?? []), { ref: nextRef(p.targets ?? []), language: p.targets?.at(-1)?.language ?? "promql", statement: "" }] }) }))]));
    };
    const drawOptions = () => options.replaceChildren(...optionFields(p, set, setOption));
    const json = h("details", { class: "d-json" }, h("summary", null, "JSON"), raw, h("div", null, button({ text: "Take this JSON", on: () => {
      try {
        const next = JSON.parse(raw.value) as Panel;
        problem.hidden = true;
        set({ ...next, id: start.id, grid: { ...start.grid, ...next.grid } });
      } catch (e) { problem.hidden = false; problem.textContent = `This is not JSON: ${(e as Error).message}`; }
    } })), problem);
    json.addEventListener("toggle", () => { raw.value = JSON.stringify(p, null, 2); });
    drawQueries();
    drawOptions();
    queueMicrotask(() => preview.refresh());
    return [h("div", { class: "d-editor" }, h("div", { class: "d-left" }, preview.el, queries), h("div", { class: "d-right", tabindex: "0", role: "group", "aria-label": "Options" }, options, json)),
      h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), button({ text: "Apply", cls: "primary", on: () => close(p) }))];
  }, { cls: "full", leave: async () => JSON.stringify(p) === begun || (await confirm("Leave the panel?", "What was changed in it is lost.", { action: "Leave", danger: true })) }) as Promise<Panel | undefined>;
}

const nextRef = (list: Target[]) => { for (let i = 0; ; i++) { const r = String.fromCharCode(65 + (i % 26)) + (i >= 26 ? Math.floor(i / 26) : ""); if (!list.some((t) => t.ref === r)) return r; } };

function queryRow(t: Target, i: number, set: (i: number, change: Partial<Target>, redraw?: "all" | "") => void, remove: () => void, run: () => void): HTMLElement {
  const e = new MsEditor();
  e.label = `Query ${t.ref}`;
  e.language = t.language;
  e.multiline = t.language === "sql";
  e.placeholder = { promql: "rate(requests_total[$__rate_interval])", sql: "SELECT histogram(_timestamp, '1 minute') AS time, count(*) AS n FROM app GROUP BY time", search: "level:error timeout" }[t.language];
  e.value = t.statement;
  e.addEventListener("ms:change", (ev) => { ev.stopPropagation(); set(i, { statement: e.value }); });
  e.addEventListener("ms:run", (ev) => { ev.stopPropagation(); run(); });
  const id = (n: string) => `q-${i}-${n}`, streams = boot.streams.filter((s) => s.signal === "logs").map((s): [string, string] => [s.name, s.name]);
  return h("fieldset", { class: "d-query" }, h("legend", null, `Query ${t.ref}`), e, h("div", { class: "filters" },
    field("Language", select([["promql", "PromQL"], ["sql", "SQL"], ["search", "Search"]], t.language, (v) => set(i, { language: v as QueryLanguage, ...(v === "search" && !t.stream ? { stream: usualStream() } : {}) }, "all")), id("lang")),
    t.language === "search" && field("Stream", select(streams, t.stream ?? "", (v) => set(i, { stream: v })), id("stream")),
    t.language !== "search" && field("Legend", textbox(t.legend ?? "", (v) => set(i, { legend: v }), { placeholder: "{{service}}" }), id("legend")),
    t.language === "promql" && check("Newest value only", t.instant === true, (v) => set(i, { instant: v })),
    check("Hidden", t.hidden === true, (v) => set(i, { hidden: v })),
    button({ icon: "trash-2", label: `Remove query ${t.ref}`, cls: "ghost icon", on: remove })));
}

/** Options without those that say nothing. */
const clean = (o: Options): Options => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined && v !== "" && v !== false && !(Array.isArray(v) && v.length === 0)));

const numberOf = (v: string) => (v.trim() === "" || Number.isNaN(Number(v)) ? undefined : Number(v));

function optionFields(p: Panel, set: (c: Partial<Panel>, redraw?: "all" | "options" | "") => void, opt: (c: Options) => void): HTMLElement[] {
  const o = p.options ?? {}, out: HTMLElement[] = [
    field("Title", textbox(p.title ?? "", (v) => set({ title: v }, "")), "p-title"), field("Description", textbox(p.description ?? "", (v) => set({ description: v }, "")), "p-desc"),
    field("Shown as", select(types, p.type, (v) => set({ type: v as PanelType }, "all")), "p-type"),
  ];
  if (p.type === "text") return [...out, field("Text", h("textarea", { class: "in mono", rows: "12", onchange: (e: Event) => opt({ content: (e.target as Field).value }) }, o.content ?? ""), "p-content", "Markdown: headings, lists, links, emphasis, code.")];
  if (p.type === "logs" || p.type === "traces") return out;
  const num = (label: string, key: "min" | "max" | "decimals") => field(label, textbox(o[key] === undefined ? "" : String(o[key]), (v) => opt({ [key]: numberOf(v) }), { inputmode: "decimal" }), `p-${key}`);
  out.push(field("Unit", select(units.some(([u]) => u === (o.unit ?? "")) ? units : [...units, [o.unit!, o.unit!]], o.unit ?? "", (v) => opt({ unit: v })), "p-unit"), num("Decimals", "decimals"), num("Least", "min"), num("Greatest", "max"));
  if (p.type === "timeseries") {
    out.push(field("Drawn as", select([["", "lines"], ["bars", "bars"], ["points", "points"]], o.style ?? "", (v) => opt({ style: v })), "p-style"), field("Stacked", select([["", "no"], ["normal", "yes"]], o.stack ?? "", (v) => opt({ stack: v })), "p-stack"),
      check("Filled", (o.fill ?? 0) > 0, (v) => opt({ fill: v ? 25 : 0 })), check("Logarithmic axis", !!o.log, (v) => opt({ log: v ? 10 : 0 })), check("Nothing counts as zero", o.nulls === "zero", (v) => opt({ nulls: v ? "zero" : "" })));
  }
  if (/^(stat|gauge|bar)$/.test(p.type)) out.push(field("Number", select(calcs.map((c) => [c, c] as [string, string]), o.calc ?? "last", (v) => opt({ calc: v })), "p-calc"));
  const written = (o.thresholds ?? []).map((t) => (t.value === undefined ? t.color : `${t.value} ${t.color}`)).join(", ");
  out.push(field("Thresholds", textbox(written, (v) => opt({ thresholds: v.split(",").map((x) => x.trim()).filter(Boolean).map((x) => { const [a, b] = x.split(/\s+/); return b === undefined ? { color: a! } : { value: Number(a), color: b }; }).filter((t) => !("value" in t) || Number.isFinite(t.value)) }), { placeholder: "green, 80 orange, 95 red" }), "p-thresholds", "Values and the colours from them on."));
  return out;
}

const renameRow = (p: Panel) => dialog("Row", (close) => {
  const name = textbox(p.title ?? "", () => {}, { autofocus: true });
  return h("form", { onsubmit: (e: Event) => { e.preventDefault(); close({ ...p, title: name.value }); } }, field("Title", name, "row-title"), h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Apply")));
}) as Promise<Panel | undefined>;

/** Where a panel shall be, in numbers. */
export const moveDialog = (p: Panel) => dialog(`Move ${p.title || "the panel"}`, (close) => {
  const g = { ...p.grid };
  const num = (label: string, key: keyof Grid, max: number) => field(label, textbox(String(g[key]), (v) => { g[key] = Math.max(0, Math.min(max, Math.round(numberOf(v) ?? g[key]))); }, { inputmode: "numeric" }), `mv-${key}`);
  return h("form", { onsubmit: (e: Event) => { e.preventDefault(); for (const i of (e.target as HTMLElement).querySelectorAll<HTMLInputElement>("input")) i.dispatchEvent(new Event("change")); close(g); } },
    h("p", { class: "t2" }, `The grid has ${COLUMNS} columns; a row is 30 pixels high.`), h("div", { class: "two-col" }, num("Column", "x", COLUMNS - 1), num("Row", "y", 10_000), num("Width", "w", COLUMNS), num("Height", "h", 200)), h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), h("button", { class: "btn primary" }, "Move")));
}) as Promise<Grid | undefined>;
