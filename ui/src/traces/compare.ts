// What the selected spans have in common that the others have not: attributes by how much their values differ.
import { explain, json } from "../lib/api.ts";
import { button, h, s, visible } from "../lib/dom.ts";
import { count, percent, short } from "../lib/format.ts";
import { failure, skeleton } from "../lib/states.ts";
import { toApi } from "../lib/time.ts";
import type { Box } from "./heatmap.ts";
import { quoted } from "./links.ts";
import { byRoots, durationText, type Search } from "./search.ts";

interface Value { value: string | null; min?: number; max?: number; selection: number; baseline: number }
interface Differences { selection: Sample; baseline: Sample; attributes: { name: string; score: number; values: Value[] }[] }
interface Sample { spans: number; scanned: number; sampled: boolean }

/** Fills the panel; filter is told what to add to the search. */
export async function compare(box: HTMLElement, sel: Search, b: Box, period: { start: number; end: number }, on: { filter: (q: string) => void; close: () => void }, signal: AbortSignal) {
  const head = (note: string) => h("div", { class: "dh" }, h("h2", null, "What is different"), h("span", { class: "muted ell" }, note), h("span", { class: "spacer" }), button({ icon: "x", label: "Close the comparison", cls: "ghost icon sm", on: on.close }));
  box.hidden = false;
  box.replaceChildren(head(""), skeleton(8));
  const body = { stream: sel.stream, service: sel.service, operation: sel.operation, status: sel.status, search: sel.q, roots: byRoots(sel), limit: 30,
    selection: { time_range: toApi(b), min_duration: durationText(b.least), max_duration: durationText(b.most) }, baseline: { time_range: toApi(period), min_duration: sel.least, max_duration: sel.most } };
  try {
    const d = await json<Differences>("/query/traces/compare", { body, signal });
    const of = (x: Sample) => `${x.sampled ? `${count(x.scanned)} of ` : ""}${count(x.spans)}`;
    const list = d.attributes.filter((a) => a.score >= 0.02);
    box.replaceChildren(head(`${of(d.selection)} selected, ${of(d.baseline)} others`), h("div", { class: "dscroll", tabindex: "0", role: "region", "aria-label": "Differences" },
      list.length ? list.map((a) => attribute(a, on.filter)) : h("p", { class: "sd-p muted" }, "The selected spans are like the others in every attribute.")));
  } catch (e) {
    const err = explain(e);
    if (err.code !== "aborted") box.replaceChildren(head(""), failure(err, () => void compare(box, sel, b, period, on, signal)));
  }
}

function attribute(a: Differences["attributes"][number], filter: (q: string) => void) {
  return h("section", { class: "cmp" }, h("h3", { class: "mono ell", title: visible(a.name) }, visible(a.name)), h("ul", null, a.values.slice(0, 5).map((v) => {
    const name = v.value !== null ? visible(v.value).slice(0, 200) : v.min !== undefined ? `${short(v.min)} to ${short(v.max!)}` : "not set";
    const q = v.value !== null ? `${field(a.name)}=${quoted(v.value)}` : v.min !== undefined ? `${field(a.name)}:[${v.min} to ${v.max}]` : `-_exists:${field(a.name)}`;
    return h("li", null, h("span", { class: "ell mono", title: name }, name || "empty"), bars(v.selection, v.baseline), h("span", { class: "num muted" }, `${percent(v.selection)} / ${percent(v.baseline)}`),
      button({ icon: "circle-plus", label: `Only ${a.name} ${name}`, cls: "ghost icon sm", on: () => filter(q) }), button({ icon: "circle-minus", label: `Without ${a.name} ${name}`, cls: "ghost icon sm", on: () => filter(v.value === null && v.min === undefined ? `_exists:${field(a.name)}` : `-${q}`) }));
  })));
}

const field = (name: string) => (/^[\p{L}\p{N}_.@$-]+$/u.test(name) ? name : quoted(name));

/** The share among the selected spans over the share among the others. */
const bars = (a: number, b: number) => s("svg", { class: "cmp-b", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { width: 100 * a, height: 5, class: "a" }), s("rect", { y: 6.5, width: 100 * b, height: 5, class: "b" }));
