// Whose a segment is, and whose it would be next: looked up by its id.
import { announce } from "../lib/a11y.ts";
import { ApiError, explain, json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { button, h, visible } from "../lib/dom.ts";
import { bytes, count, plural } from "../lib/format.ts";
import { failure, told } from "../lib/states.ts";
import { spanLabel } from "../lib/time.ts";
import { nodeName } from "./members.ts";
import { type Colours, type Ranking, vcpu } from "./model.ts";

const shown = 8; // places of the order, before the reader asks for all

export class Lookup {
  readonly el: HTMLElement;
  private running: AbortController | undefined;
  private found: Ranking | undefined;
  private all = false;
  private readonly input = h("input", { class: "in mono", id: "segment", name: "segment", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Id of a segment" });
  private readonly out = h("div", { class: "ow-rank" });

  constructor(private colours: Colours, private on: (id: string) => void) {
    const form = h("form", { role: "search", class: "ow-find", onsubmit: (e: Event) => { e.preventDefault(); this.on(this.input.value.trim()); } }, h("label", { class: "vh", for: "segment" }, "Id of a segment"), this.input, button({ text: "Find", type: "submit" }));
    this.el = h("section", { class: "card", "aria-labelledby": "order-h" }, h("div", { class: "ow-hd" }, h("h2", { id: "order-h" }, "Standby order"), h("span", { class: "muted" }, "Of one segment"), h("span", { class: "spacer" }), form), this.out);
    this.say();
  }

  private say() {
    this.out.replaceChildren(h("p", { class: "t3" }, "The lowest cost owns; when the owner is away, the next one reads. The segments of a stream are listed on ", h("a", { class: "link", href: orgPath("streams") }, "its page"), "."));
  }

  /** Shows it once more, with the colours that the nodes have now. */
  redraw() { if (this.found) this.draw(this.found); }

  async find(id: string) {
    this.running?.abort();
    this.found = undefined;
    this.input.value = id;
    this.all = false;
    if (!id) { this.say(); return; }
    const { signal } = (this.running = new AbortController());
    this.out.setAttribute("aria-busy", "true");
    try {
      const r = await json<Ranking>(`/cluster/ownership/segments/${encodeURIComponent(id)}`, { signal });
      this.draw((this.found = r));
      announce(r.ranking[0] ? `Owned by ${r.ranking[0].id}, then ${r.ranking.slice(1, 3).map((n) => n.id).join(", ")}` : "No node owns segments");
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      if (err.status === 404) this.out.replaceChildren(h("p", { class: "t3", role: "status" }, told(err)));
      else this.out.replaceChildren(failure(err as ApiError, () => void this.find(id)));
    } finally {
      if (!signal.aborted) this.out.removeAttribute("aria-busy");
    }
  }

  private draw(r: Ranking) {
    const list = this.all ? r.ranking : r.ranking.slice(0, shown), rest = r.ranking.length - list.length;
    this.out.replaceChildren(
      h("p", { class: "t3" }, h("a", { class: "link", href: orgPath(`streams/${r.signal}/${encodeURIComponent(r.stream)}?tab=segments`) }, `${r.signal} / ${visible(r.stream)}`), `, ${spanLabel({ start: Date.parse(r.start), end: Date.parse(r.end) })}, ${plural(r.rows, "row")}, ${bytes(r.bytes)}, ${r.level === 0 ? "not merged yet" : plural(r.level, "merge")}`),
      h("ol", { class: "ow-order", "aria-label": "Owner and standbys" }, list.map((n, i) => h("li", { class: i === 0 ? "first" : "" }, h("span", { class: "p num" }, count(n.rank)), nodeName(this.colours, n.id), n.state !== "up" ? h("span", { class: "pill warn" }, n.state) : i === 0 ? h("span", { class: "pill ok" }, "owner") : i === 1 ? h("span", { class: "pill" }, "standby") : h("span"), h("span", { class: "s", title: `cost, with ${vcpu(n.weight)}` }, n.cost.toPrecision(4))))),
      ...(rest > 0 ? [button({ text: `Show the other ${count(rest)}`, cls: "ghost sm", on: () => { this.all = true; this.draw(r); } })] : []),
      ...(r.ranking.length === 0 ? [h("p", { class: "t3" }, "No node owns segments now.")] : []));
  }
}
