// Exporting: the rows that are loaded, or all that match, in each format.
import { explain, json, request } from "../lib/api.ts";
import { button, h } from "../lib/dom.ts";
import { bytes, count, plural } from "../lib/format.ts";
import { dialog, toast } from "../lib/layers.ts";
import { told } from "../lib/states.ts";
import type { LogsPage } from "./page.ts";
import { textOf, toJSON, toObject } from "./record.ts";
import type { Estimate } from "./run.ts";

const formats = [
  { id: "csv", name: "CSV", type: "text/csv" }, { id: "ndjson", name: "JSON Lines", type: "application/x-ndjson" },
  { id: "parquet", name: "Parquet", type: "application/vnd.apache.parquet" }, { id: "arrow", name: "Arrow", type: "application/vnd.apache.arrow.stream" },
];
const most = 100_000; // rows of one answer

export function exportDialog(p: LogsPage) {
  let all = false, format = formats[0]!;
  void dialog("Export", (close) => {
    const problem = h("div", { class: "alert", role: "alert", hidden: true }), size = h("span", { class: "muted" }), progress = h("p", { class: "small muted", role: "status" });
    const abort = new AbortController();
    const check = (name: string, text: string, on: () => void, checked: boolean, extra?: Node) => h("label", { class: "check" }, h("input", { type: "radio", name, onchange: on, ...(checked ? { checked: true } : {}) }), h("span", null, text, " ", extra ?? ""));
    const go = button({ text: "Export", icon: "download", cls: "primary", on: () => void start() });
    async function start() {
      problem.hidden = true;
      go.disabled = true;
      progress.textContent = "Preparing…";
      try {
        const blob = all || format.id === "parquet" || format.id === "arrow" ? await fetched() : loaded();
        save(blob, `${p.state.stream || "query"}-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "")}.${format.id}`);
        close();
        toast(`${bytes(blob.size)} exported`);
      } catch (e) {
        const err = explain(e);
        problem.hidden = false;
        problem.textContent = told(err);
        progress.textContent = "";
        go.disabled = false;
      }
    }
    async function fetched(): Promise<Blob> {
      const sql = p.state.mode === "sql", limit = all ? most : Math.min(most, Math.max(1, p.rows.length));
      const res = await request("/query", { accept: format.type, signal: abort.signal, body: { statement: sql ? p.sql : p.statementText(limit), time_range: p.span, limit } });
      const parts: Uint8Array<ArrayBuffer>[] = [];
      let n = 0;
      for (const reader = res.body!.getReader(); ; ) {
        const { value, done } = await reader.read();
        if (done) break;
        parts.push(value);
        progress.textContent = `${bytes((n += value.length))} received`;
      }
      return new Blob(parts, { type: format.type });
    }
    const loaded = () => new Blob([format.id === "csv" ? csv(p) : p.rows.map((r) => toJSON(r) + "\n").join("")], { type: format.type });
    void json<Estimate>("/query/estimate", { body: { statement: p.state.mode === "sql" ? p.sql : p.statementText(most), time_range: p.span }, signal: abort.signal }).then((e) => { size.textContent = `(about ${bytes(e.bytes)} to read)`; }, () => { /* the export works without */ });
    const total = p.results.histogram.data?.total;
    const note = h("p", { class: "small muted" }, total !== undefined && total > most ? `One export has at most ${count(most)} rows; narrow the time for the rest, or use the API.` : p.rows.some((r) => r.cut) ? "Long texts of loaded rows are cut as in the list; “all matching” has them whole." : "");
    return [h("div", { role: "radiogroup", "aria-label": "Rows", class: "choices" }, check("what", `${plural(p.rows.length, "loaded row")}`, () => { all = false; }, true), check("what", "All matching", () => { all = true; }, false, h("span", { class: "muted" }, total !== undefined && p.where() !== undefined ? `${count(Math.min(total, most))} rows ` : "", size))),
      h("div", { role: "radiogroup", "aria-label": "Format", class: "choices row" }, formats.map((f) => check("format", f.name, () => { format = f; }, f === format))), note, problem, progress, h("div", { class: "acts" }, button({ text: "Cancel", on: () => { abort.abort(); close(); } }), go)];
  });
}

/** The loaded rows as CSV. A text that a spreadsheet would take for a formula gets a quote before it. */
function csv(p: LogsPage): string {
  const names = [...new Set(p.rows.flatMap((r) => Object.keys(toObject(r))))];
  const cell = (v: unknown) => { let t = textOf(v); if (typeof v === "string" && /^[=+\-@\t\r]/.test(t)) t = `'${t}`; return /[",\n\r]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t; };
  return [names.map(cell).join(","), ...p.rows.map((r) => names.map((n) => cell(r.get(n))).join(","))].join("\r\n") + "\r\n";
}

function save(blob: Blob, name: string) {
  const url = URL.createObjectURL(blob), a = h("a", { href: url, download: name.replace(/[^\w.-]+/g, "-") });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 30_000);
}
