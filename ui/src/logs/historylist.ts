// The runs of the past. One is put back into the page as it was, without running it.
import { button, h } from "../lib/dom.ts";
import { ago, bytes, duration, plural } from "../lib/format.ts";
import { dialog } from "../lib/layers.ts";
import { relativeLabel } from "../lib/time.ts";
import { history, keep, type Ran } from "./history.ts";
import type { LogsPage } from "./page.ts";
import { shown } from "./record.ts";

const states: Record<string, string> = { ok: "", partial: "partial", stopped: "stopped", cut: "cut off", error: "failed" };

export function historyList(p: LogsPage) {
  void dialog("History", (close) => {
    const list = h("ul", { class: "histlist" }), find = h("input", { class: "in", type: "search", placeholder: "Find in history", "aria-label": "Find in history", autofocus: true, oninput: () => draw() });
    const item = (r: Ran) => {
      const one = (k: string) => { const v = r.params[k]; return Array.isArray(v) ? v.join(", ") : v ?? ""; };
      const what = [one("q"), one("f") && `filters: ${decode(one("f"))}`].filter(Boolean).join("  ·  ") || "All records";
      return h("li", null, h("button", { type: "button", onclick: () => { close(); p.applyParams(r.params, "push", false); } }, h("span", { class: "mono ell" }, shown(what, 200)),
        h("span", { class: "muted small" }, [ago(r.t), shown(one("stream"), 60), one("mode") === "sql" ? "SQL" : "", relativeLabel({ from: one("from") || "now-15m", to: one("to") || "now" }), duration(r.ms * 1e6), plural(r.rows, "row"), bytes(r.bytes), states[r.state]].filter(Boolean).join(" · "))));
    };
    const draw = () => {
      const all = history(), q = find.value.toLowerCase(), some = all.filter((r) => decode(JSON.stringify(r.params)).toLowerCase().includes(q));
      list.replaceChildren(...some.slice(0, 200).map(item), ...(some.length ? [] : [h("li", { class: "muted none" }, all.length ? "Nothing in the history has this in it." : "Queries that you run appear here.")]));
    };
    draw();
    return [find, list, h("p", { class: "small muted" }, "Kept in this browser only. Opening one does not run it."), h("div", { class: "acts" }, button({ text: "Forget all", cls: "danger", on: () => { keep([]); draw(); } }), button({ text: "Close", cls: "primary", on: () => close() }))];
  }, { wide: true });
}
const decode = (t: string) => { try { return decodeURIComponent(t); } catch { return t; } };
