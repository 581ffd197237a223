// The trace of a record, small: its longest spans over time.
import { explain, json } from "../lib/api.ts";
import { h, s } from "../lib/dom.ts";
import { duration, plural } from "../lib/format.ts";
import { told } from "../lib/states.ts";
import { nanos, shown } from "./record.ts";

interface Span { span_id: string; parent_span_id?: string; name: string; service?: string; status?: string; start: string; duration_ns: number }

const most = 6;

export async function waterfall(box: HTMLElement, id: string, span: string, signal: AbortSignal) {
  box.setAttribute("aria-busy", "true");
  let spans: Span[];
  try {
    spans = (await json<{ spans: Span[] }>(`/query/traces/${encodeURIComponent(id)}`, { signal })).spans;
  } catch (e) {
    const err = explain(e);
    if (err.code !== "aborted") box.replaceChildren(h("p", { class: "muted" }, err.status === 404 ? "No spans of this trace are stored." : told(err)));
    return;
  } finally {
    box.removeAttribute("aria-busy");
  }
  if (spans.length === 0) { box.replaceChildren(h("p", { class: "muted" }, "No spans of this trace are stored.")); return; }
  const starts = spans.map((x) => nanos(x.start)), first = starts.reduce((a, b) => (b < a ? b : a));
  const list = spans.map((x, i) => ({ ...x, at: Number(starts[i]! - first) }));
  const total = Math.max(1, ...list.map((x) => x.at + x.duration_ns));
  const keep = new Set([...list].sort((a, b) => Number(b.span_id === span) - Number(a.span_id === span) || b.duration_ns - a.duration_ns).slice(0, most));
  const order = list.filter((x) => keep.has(x)).sort((a, b) => a.at - b.at || b.duration_ns - a.duration_ns);
  box.replaceChildren(...order.map((x) => {
    const bad = x.status === "error";
    return h("div", { class: `sp${x.span_id === span ? " cur" : ""}` }, h("span", { class: "nm", title: `${shown(x.service ?? "", 80)}: ${shown(x.name, 200)}` }, shown(x.name, 80)),
      s("svg", { class: "tr", viewBox: "0 0 1000 8", preserveAspectRatio: "none", role: "img", "aria-label": `${bad ? "error, " : ""}from ${duration(x.at)}` }, s("rect", { width: 1000, height: 8, class: "bg" }), s("rect", { x: (1000 * x.at) / total, width: Math.max(4, (1000 * x.duration_ns) / total), height: 8, rx: 2, class: bad ? "bad" : x.parent_span_id ? "child" : "root" })),
      h("span", { class: "du num" }, duration(x.duration_ns)));
  }), h("p", { class: "muted more" }, [list.length > order.length ? `${order.length} longest of ${plural(list.length, "span")}` : plural(list.length, "span"), `${new Set(list.map((x) => x.service)).size} services`, duration(total)].join(" · ")));
}
