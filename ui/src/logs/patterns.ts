// The patterns tab: similar messages as one line each, with how many there are, how that changed, and a filter for or without them.
import { json } from "../lib/api.ts";
import { button, h, icon, s } from "../lib/dom.ts";
import { ago, count, percent, plural, short } from "../lib/format.ts";
import { levelOf, levels, shortLevel } from "../lib/level.ts";
import { banner, empty, skeleton } from "../lib/states.ts";
import { formatTime, now } from "../lib/time.ts";
import type { LogsPage } from "./page.ts";
import { shown } from "./record.ts";

interface Pattern { pattern: string; regexp: string; count: number; share: number; previous?: number; sample: string; first_seen: string; last_seen: string; counts: number[]; levels: Record<string, number> }
interface Answer { field: string; total: number; scanned: number; sampled: boolean; previous?: number; patterns: Pattern[]; other: number; partial: boolean }
type Order = "count" | "change" | "first";

const ms = (t: string) => Date.parse(t.replace(/(\.\d{3})\d+/, "$1"));

export async function patterns(box: HTMLElement, p: LogsPage, signal: AbortSignal) {
  const sel = p.selection();
  if (p.where() === undefined || !sel) { box.replaceChildren(empty({ title: "Patterns are made of searches", icon: "text-search", text: "A statement of your own has its own columns: go back to Search to see the patterns of a stream." })); return; }
  const compare = p.compare;
  box.replaceChildren(skeleton(10));
  const a = await json<Answer>("/query/patterns", { body: { ...sel, ...(p.roles.message ? { field: p.roles.message } : {}), limit: 200, compare }, signal });
  let order: Order = compare ? "change" : "count";
  const list = h("div", { class: "patlist", role: "list" }), head = h("div", { class: "pathead" });

  /** How much more of the whole a pattern is than it was before: the log of the ratio of the shares. */
  const change = (x: Pattern) => Math.log2(((x.count + 0.5) / (a.total + 1)) / (((x.previous ?? 0) + 0.5) / ((a.previous ?? 0) + 1)));
  const by: Record<Order, (x: Pattern, y: Pattern) => number> = { count: (x, y) => y.count - x.count, change: (x, y) => Math.abs(change(y)) - Math.abs(change(x)), first: (x, y) => ms(y.first_seen) - ms(x.first_seen) };

  function drawHead() {
    const choose = (o: Order, text: string) => h("button", { type: "button", "aria-pressed": String(o === order), onclick: () => { order = o; drawHead(); draw(); } }, text);
    head.replaceChildren(h("span", { class: "muted small" }, `${plural(a.patterns.length, "pattern")} of ${a.sampled ? "about " : ""}${plural(a.total, "message")}${a.other ? `, ${count(a.other)} in rarer ones` : ""}`), h("span", { class: "spacer" }),
      h("div", { class: "seg", role: "group", "aria-label": "Order" }, choose("count", "Most frequent"), compare && choose("change", "Most changed"), choose("first", "Newest")), button({ text: "Compare with before", icon: "split", cls: "sm", "aria-pressed": String(compare), on: () => { p.compare = !compare; p.results.show("patterns"); } }));
  }

  function draw() { list.replaceChildren(...[...a.patterns].sort(by[order]).map(row)); }

  function row(x: Pattern) {
    const level = levels.find((l) => Object.keys(x.levels).some((v) => levelOf(v) === l)) ?? "", top = Object.entries(x.levels).sort((m, n) => n[1] - m[1])[0]?.[0];
    const mostly = levelOf(top) || level;
    return h("div", { class: `pat ${mostly}`, role: "listitem" },
      h("div", { class: "patn num" }, h("b", null, short(x.count)), h("span", { class: "muted" }, percent(x.share)), compare && changeText(x)),
      spark(x.counts, mostly),
      h("div", { class: "patt" }, h("p", { class: "mono", title: shown(x.sample, 600) }, mostly && h("span", { class: `lv ${mostly}` }, shortLevel[mostly]), ...placeholders(x.pattern)), h("p", { class: "muted small" }, `First seen ${ago(ms(x.first_seen), now())}, last ${formatTime(x.last_seen)}. `, h("span", { class: "sample mono" }, shown(x.sample, 160)))),
      h("div", { class: "pata" }, button({ icon: "circle-plus", label: `Only this pattern: ${x.pattern.slice(0, 80)}`, cls: "ghost icon sm", on: () => only(x, "match") }), button({ icon: "circle-minus", label: `Without this pattern: ${x.pattern.slice(0, 80)}`, cls: "ghost icon sm", on: () => only(x, "nomatch") })));
  }

  function only(x: Pattern, op: "match" | "nomatch") {
    if (op === "match") { p.state.view = "events"; p.results.show("events"); }
    p.filter(a.field, op, [x.regexp]);
  }

  function changeText(x: Pattern) {
    if (x.previous === undefined) return false;
    if (x.previous === 0) return h("span", { class: "pill warn" }, "new");
    const c = change(x);
    return h("span", { class: `chg ${c > 0.2 ? "up" : c < -0.2 ? "down" : "muted"}`, title: `${count(x.previous)} before` }, icon(c > 0.2 ? "arrow-up" : c < -0.2 ? "arrow-down" : "minus", "xs"), c > 0.2 || c < -0.2 ? `${(2 ** Math.abs(c)).toFixed(1)}×` : "same");
  }

  drawHead();
  draw();
  box.replaceChildren(...(a.partial ? [banner("warn", "Partial: some records could not be read, so counts are lower bounds.")] : []), ...(a.sampled ? [banner("info", `Counted from a sample of ${plural(a.scanned, "record")}: figures are estimates.`)] : []), head,
    a.patterns.length ? list : empty({ title: "No messages", icon: "text-search", text: `No record of the result has the field ${shown(a.field, 80)}.` }));
}

/** The pattern, with what changes from message to message set off. */
function placeholders(text: string): Node[] {
  return text.split(/(<[a-z0-9*_]+>)/).map((part, i) => (i % 2 ? h("span", { class: "ph" }, part) : document.createTextNode(shown(part, 400))));
}

function spark(counts: number[], level: string): SVGElement {
  const max = Math.max(1, ...counts), w = 100 / Math.max(1, counts.length);
  return s("svg", { class: "patspark", viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": `over time, at most ${max}` }, s("path", { d: counts.map((n, i) => (n ? `M${(i * w).toFixed(2)} 24V${(24 - (23 * n) / max).toFixed(2)}h${(w * 0.8).toFixed(2)}V24z` : "")).join(""), fill: level ? `var(--lf-${level})` : "var(--accent-line)" }));
}
