// The nodes that own segments: what their weight asks for, and what they have.
import { boot } from "../lib/boot.ts";
import { h, s, visible } from "../lib/dom.ts";
import { bytes, count, percent } from "../lib/format.ts";
import { type Colours, deviation, type Owner, type Share, signed, vcpu } from "./model.ts";

/** A node's name with its colour; it leads to the node. */
export function nodeName(colours: Colours, id: string, link = true): HTMLElement {
  const sw = h("i", { class: "sw", "aria-hidden": "true" });
  sw.style.setProperty("background", colours.of(id));
  return h("span", { class: "ow-node" }, sw, link ? h("a", { class: "link ell", href: `${boot.base}/cluster/nodes?node=${encodeURIComponent(id)}` }, visible(id)) : h("b", { class: "ell" }, visible(id)));
}

/** A bar of the actual part; the mark is the expected one. Both are of 1, max is what the whole width stands for. */
export function shareBar(colour: string, o: { actual: number; expected: number }, max: number): SVGElement {
  const x = (part: number) => String(Math.min(1000, (part / max) * 1000));
  return s("svg", { class: "ow-bar", viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { y: "3", width: "1000", height: "8", rx: "2", fill: "var(--surface-3)" }), s("rect", { y: "3", width: x(o.actual), height: "8", rx: "2", fill: colour }),
    s("line", { x1: x(o.expected), x2: x(o.expected), y1: "0", y2: "14", stroke: "var(--text)", "stroke-width": "2", "vector-effect": "non-scaling-stroke" }));
}

export const widest = (list: { actual: number; expected: number }[]) => Math.max(0.01, ...list.map((o) => Math.max(o.actual, o.expected))) * 1.06;

const th = (text: string, r = false, title?: string) => h("th", { scope: "col", class: r ? "r" : "", title }, text);

export function membersTable(list: Owner[], colours: Colours): HTMLElement {
  const max = widest(list), cached = list.some((o) => o.cached_bytes !== undefined), warm = list.some((o) => o.warm_percent !== undefined);
  return h("div", { class: "tblwrap", tabindex: "0", role: "region", "aria-label": "Nodes that own segments" },
    h("table", { class: "tbl ow-members" },
      h("thead", null, h("tr", null, th("Node"), th("Weight", true), h("th", { scope: "col", class: "ow-wide" }, h("span", { class: "vh" }, "Share as a bar; the mark is the expected share")), th("Expected", true), th("Actual", true), th("Deviation", true), th("Segments", true), th("Bytes", true), cached && th("Cached", true, "In its cache, of all organizations"), warm && th("Warm", true, "Of the segments that it owns, those whose index is in its cache"))),
      h("tbody", null, list.map((o) => h("tr", null,
        h("th", { scope: "row" }, nodeName(colours, o.id), o.state !== "up" && h("span", { class: "pill warn", title: "No heartbeat for a while: its standbys read its segments until it is back or gone" }, o.state)),
        h("td", { class: "r num" }, vcpu(o.weight)), h("td", { class: "ow-wide" }, shareBar(colours.of(o.id), o, max)), h("td", { class: "r num" }, percent(o.expected)), h("td", { class: "r num" }, h("b", null, percent(o.actual))),
        h("td", { class: "r num muted" }, o.segments > 0 || o.actual > 0 ? signed(deviation(o)) : "–"), h("td", { class: "r num" }, count(o.segments)), h("td", { class: "r num" }, bytes(o.bytes)),
        cached && h("td", { class: "r num" }, o.cached_bytes === undefined ? h("span", { class: "muted", title: "The node did not answer" }, "–") : bytes(o.cached_bytes)), warm && h("td", { class: "r num" }, warmCell(o)))))));
}

const warmCell = (o: Owner) => (o.warm_percent === undefined ? h("span", { class: "muted", title: "The node does not tell" }, "–") : o.warm_percent < 85 ? h("span", { class: "pill warn" }, percent(o.warm_percent / 100)) : percent(o.warm_percent / 100));

/** The shares after a change. */
export function sharesTable(list: Share[], colours: Colours, now: Owner[]): HTMLElement {
  const max = widest(list), before = new Map(now.map((o) => [o.id, o]));
  return h("div", { class: "tblwrap", tabindex: "0", role: "region", "aria-label": "Shares after the change" },
    h("table", { class: "tbl ow-shares" }, h("thead", null, h("tr", null, th("Afterwards"), h("th", { scope: "col", class: "ow-wide" }, h("span", { class: "vh" }, "Share as a bar; the mark is the expected share")), th("Actual", true), th("Segments", true), th("Bytes", true))),
      h("tbody", null, list.map((o) => {
        const was = before.get(o.id);
        return h("tr", null, h("th", { scope: "row" }, nodeName(colours, o.id, false)), h("td", { class: "ow-wide" }, shareBar(colours.of(o.id), o, max)), h("td", { class: "r num", title: `Expected ${percent(o.expected)} by ${vcpu(o.weight)}` }, h("b", null, percent(o.actual))),
          h("td", { class: "r num" }, count(o.segments), was && was.segments !== o.segments && h("small", { class: "muted" }, ` ${o.segments > was.segments ? "+" : "−"}${count(Math.abs(o.segments - was.segments))}`)), h("td", { class: "r num" }, bytes(o.bytes)));
      }))));
}
