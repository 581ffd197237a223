// Sharing what is shown: with the time as it is now, or moving along.
import { explain } from "../lib/api.ts";
import { button, h } from "../lib/dom.ts";
import { copy, dialog } from "../lib/layers.ts";
import { formatTime, type Range, relativeLabel, zoneLabel } from "../lib/time.ts";
import { address, type Params } from "../lib/url.ts";

export interface Shared {
  range: Range; // as the page has it
  frozen?: Range | undefined; // as the last run resolved it
  params(range: Range, frozen: boolean): Params; // of the link
  note?: string; // what the link shows, where that is not a range of time
  text: string; // what was asked for, which goes with the link on request
}

export function shareDialog(o: Shared) {
  const fixed = /^now|^all/.test(o.range.from) || /^now/.test(o.range.to) ? o.frozen : undefined;
  let frozen = fixed !== undefined;
  void dialog("Share this view", (close) => {
    const out = h("textarea", { class: "in mono whole", rows: "3", readonly: true, "aria-label": "Link" }), problem = h("p", { class: "small", role: "status" });
    const make = async () => {
      try {
        out.value = `${location.origin}${location.pathname}?${await address(o.params(frozen && fixed ? fixed : o.range, frozen))}`;
        problem.textContent = "";
      } catch (e) {
        out.value = location.href;
        problem.textContent = `A short link cannot be made now (${explain(e).message}); this long one works too.`;
      }
    };
    const choice = (value: boolean, text: string, note: string) => h("label", { class: "check" }, h("input", { type: "radio", name: "frozen", onchange: () => { frozen = value; void make(); }, ...(frozen === value ? { checked: true } : {}) }), h("span", null, text, " ", h("span", { class: "muted" }, note)));
    void make();
    return [fixed ? h("div", { role: "radiogroup", "aria-label": "Time", class: "choices" }, choice(true, "Freeze the time", `${formatTime(fixed.from)} to ${formatTime(fixed.to)} ${zoneLabel()}`), choice(false, "Keep it relative", relativeLabel(o.range))) : h("p", { class: "t2" }, o.note ?? "The link shows the same time range."), out, problem,
      h("p", { class: "small muted" }, "Whoever opens it needs access to this organization."),
      h("div", { class: "acts" }, button({ text: "Close", on: () => close() }), button({ text: "Copy with the query", on: () => { void copy(`${o.text}\n${out.value}`, "Link and query copied"); close(); } }), button({ text: "Copy link", cls: "primary", autofocus: true, on: () => { void copy(out.value, "Link copied"); close(); } }))];
  });
}
