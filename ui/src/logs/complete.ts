// What may stand at the cursor: in a search the node knows; in SQL the fields of the stream are offered.
import { json } from "../lib/api.ts";
import { toApi } from "../lib/time.ts";
import type { Completion, Item } from "../el/editor.ts";
import { name } from "./filters.ts";
import { history } from "./history.ts";
import type { LogsPage } from "./page.ts";
import { logStreams } from "./state.ts";

let asked: AbortController | undefined;

export async function complete(p: LogsPage, text: string, cursor: number): Promise<Completion | null> {
  if (p.state.mode === "sql") return sql(p, text, cursor);
  if (!text.trim()) return recent();
  asked?.abort();
  const { signal } = (asked = new AbortController());
  const points = (n: number) => [...text].slice(0, n).join("").length; // the node counts characters, strings count units
  try {
    const c = await json<{ from: number; to: number; items: Item[] }>("/query/complete", { body: { stream: p.state.stream, statement: text, cursor: [...text.slice(0, cursor)].length, time_range: toApi(p.state.range) }, signal });
    return { from: points(c.from), to: points(c.to), items: c.items };
  } catch {
    return null; // completion is an extra
  }
}

function recent(): Completion | null {
  const seen = new Set<string>();
  for (const r of history()) if (r.params.mode === undefined && typeof r.params.q === "string") seen.add(r.params.q);
  const items = [...seen].slice(0, 8).map((q) => ({ label: q, kind: "recent", apply: q }));
  return items.length ? { from: 0, to: 0, items } : null;
}

function sql(p: LogsPage, text: string, cursor: number): Completion | null {
  const word = /[\p{L}\p{N}_.]*$/u.exec(text.slice(0, cursor))![0];
  const quote = (n: string) => (/^[a-z_][a-z0-9_]*$/.test(n) ? n : name(n));
  const items: Item[] = [...(p.columns?.list ?? []).slice(0, 2000).map((c) => ({ label: c.name, kind: "field", detail: c.type, apply: quote(c.name) })), ...logStreams().map((s) => ({ label: s, kind: "stream", apply: `logs.${quote(s)}` })),
    ...["match_all", "match", "re_match", "histogram", "count", "approx_count_distinct", "quantile_cont"].map((f) => ({ label: f, kind: "function", apply: `${f}(` }))];
  return { from: cursor - word.length, to: cursor, items: items.filter((i) => i.label.toLowerCase().includes(word.toLowerCase())).slice(0, 200) };
}
