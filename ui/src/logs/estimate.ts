// While the reader types: whether the query can be read, and what a run would cost.
import { explain, json } from "../lib/api.ts";
import { toApi } from "../lib/time.ts";
import type { LogsPage } from "./page.ts";
import { name, where } from "./filters.ts";
import type { Estimate } from "./run.ts";

let asked: AbortController | undefined;

export async function estimate(p: LogsPage) {
  asked?.abort();
  const { signal } = (asked = new AbortController()), s = p.state, text = p.editor.value;
  try {
    let statement = text;
    if (s.mode === "search") {
      const t = text.trim() ? await json<{ filter: string }>("/query/translate", { body: { language: "search", stream: s.stream, statement: text }, signal }) : undefined;
      const w = where(t?.filter ?? "", s.filters, p.columns?.types);
      statement = `SELECT * FROM logs.${name(s.stream)}${w ? ` WHERE ${w}` : ""}`;
    }
    if (!statement.trim()) { p.setEstimate(undefined); return; }
    const e = await json<Estimate>("/query/estimate", { body: { language: "sql", statement, time_range: toApi(s.range) }, signal });
    if (p.editor.value === text) p.setEstimate(e);
  } catch (e) {
    const err = explain(e);
    if (signal.aborted || p.editor.value !== text) return;
    p.setEstimate(undefined);
    if (err.position && s.mode === "search") p.showProblem(err);
  }
}
