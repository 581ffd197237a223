// Sharing what is shown: with the time as it is now, or moving along.
import { explain } from "../lib/api.ts";
import { button, h } from "../lib/dom.ts";
import { copy, dialog } from "../lib/layers.ts";
import { formatTime, relativeLabel, zoneLabel } from "../lib/time.ts";
import type { LogsPage } from "./page.ts";
import { address } from "./share.ts";

export function shareDialog(p: LogsPage) {
  const relative = /^now|^all/.test(p.state.range.from) || /^now/.test(p.state.range.to);
  let frozen = relative && p.span !== undefined;
  void dialog("Share this view", (close) => {
    const out = h("textarea", { class: "in mono", rows: "3", readonly: true, "aria-label": "Link" }), problem = h("p", { class: "small", role: "status" });
    const make = async () => {
      const state = frozen && p.span ? { ...p.state, range: { from: p.span.start, to: p.span.end }, refresh: "" } : p.state;
      try {
        out.value = `${location.origin}${location.pathname}?${await address(state)}`;
        problem.textContent = "";
      } catch (e) {
        out.value = location.href;
        problem.textContent = `A short link cannot be made now (${explain(e).message}); this long one works too.`;
      }
    };
    const choice = (value: boolean, text: string, note: string) => h("label", { class: "check" }, h("input", { type: "radio", name: "frozen", onchange: () => { frozen = value; void make(); }, ...(frozen === value ? { checked: true } : {}) }), h("span", null, text, " ", h("span", { class: "muted" }, note)));
    void make();
    const text = () => `${p.state.stream}: ${p.editor.value || "all records"}\n${out.value}`;
    return [relative && p.span ? h("div", { role: "radiogroup", "aria-label": "Time", class: "choices" }, choice(true, "Freeze the time", `${formatTime(p.span.start)} to ${formatTime(p.span.end)} ${zoneLabel()}`), choice(false, "Keep it relative", relativeLabel(p.state.range))) : h("p", { class: "t2" }, "The link shows the same time range."), out, problem,
      h("p", { class: "small muted" }, "Whoever opens it needs access to this organization."),
      h("div", { class: "acts" }, button({ text: "Close", on: () => close() }), button({ text: "Copy with the query", on: () => { void copy(text(), "Link and query copied"); close(); } }), button({ text: "Copy link", cls: "primary", autofocus: true, on: () => { void copy(out.value, "Link copied"); close(); } }))];
  });
}
