// What if: nodes that come, go or change their weight, and what would move from whom to whom. Nothing is applied.
import { announce } from "../lib/a11y.ts";
import { explain, json } from "../lib/api.ts";
import { button, h, icon, s, visible } from "../lib/dom.ts";
import { bytes, count, percent, plural } from "../lib/format.ts";
import { failure } from "../lib/states.ts";
import { nodeName, sharesTable } from "./members.ts";
import { type Colours, isEmpty, type Move, type Owner, type Plan, planBody, type Simulation, vcpu } from "./model.ts";

type Kind = "add" | "remove" | "reweigh";

const shownMoves = 12;

export class WhatIf {
  readonly el: HTMLElement;
  private plan: Plan = { add: [], remove: [], reweigh: [] };
  private kind: Kind = "add";
  private members: Owner[] = [];
  private running: AbortController | undefined;
  private result: Simulation | undefined; // of the plan
  private touched = false; // the name that is offered was changed
  private weighed = false; // so was the weight
  private readonly kinds: HTMLButtonElement[];
  private readonly name = h("input", { class: "in", id: "wi-name", autocomplete: "off", spellcheck: "false", maxlength: "128", oninput: () => { this.touched = true; } });
  private readonly node = h("select", { class: "in", id: "wi-node", onchange: () => { this.weighed = false; this.offerWeight(); } });
  private readonly weight = h("input", { class: "in num", id: "wi-weight", type: "number", min: "0.001", max: "100000", step: "any", value: "1", required: true, oninput: () => { this.weighed = true; } });
  private readonly nameField = h("div", { class: "field" }, h("label", { for: "wi-name" }, "Name"), this.name);
  private readonly nodeField = h("div", { class: "field", hidden: true }, h("label", { for: "wi-node" }, "Node"), this.node);
  private readonly weightField = h("div", { class: "field" }, h("label", { for: "wi-weight" }, "vCPU"), this.weight);
  private readonly problem = h("p", { class: "ow-problem", role: "alert" });
  private readonly chips = h("ul", { class: "ow-plan", "aria-label": "The change" });
  private readonly out = h("div", { class: "ow-result" });

  constructor(private colours: Colours, private on: (p: Plan) => void) {
    this.kinds = ([["add", "Add node"], ["remove", "Remove node"], ["reweigh", "Weight"]] as const).map(([k, text]) => h("button", { type: "button", "data-k": k, onclick: () => this.choose(k) }, text));
    const form = h("form", { onsubmit: (e: Event) => { e.preventDefault(); this.take(); } }, h("div", { class: "seg ow-kinds", role: "group", "aria-label": "What changes" }, this.kinds), h("div", { class: "ow-fields" }, this.nameField, this.nodeField, this.weightField, button({ text: "Simulate", type: "submit", cls: "primary" })), this.problem);
    this.el = h("section", { "aria-labelledby": "whatif-h" }, h("h2", { id: "whatif-h" }, icon("flask-conical", "s"), "What if", h("small", null, "Nothing is applied")), form, this.chips, this.out);
    this.choose("add");
  }

  /** The nodes of now. */
  set nodes(list: Owner[]) {
    this.members = list;
    const was = this.node.value;
    this.node.replaceChildren(...list.map((o) => h("option", { value: o.id }, `${visible(o.id)}, ${vcpu(o.weight)}`)));
    if (list.some((o) => o.id === was)) this.node.value = was;
    this.offerName();
    this.offerWeight();
    if (this.result) this.draw(this.result); // with their colours, and with what they have now
  }

  private choose(k: Kind) {
    this.kind = k;
    for (const b of this.kinds) b.setAttribute("aria-pressed", String(b.dataset.k === k));
    this.nameField.hidden = k !== "add";
    this.nodeField.hidden = k === "add";
    this.weightField.hidden = k === "remove";
    this.weight.required = k !== "remove";
    this.problem.textContent = "";
    this.weighed = false;
    this.offerWeight();
  }

  /** A name after those that are there: querier-6 after querier-5. */
  private offerName() {
    if (this.touched && this.name.value) return;
    const taken = new Set([...this.members.map((o) => o.id), ...this.plan.add.map(([id]) => id)]), last = this.members.at(-1)?.id.replace(/\d+$/, "") || "querier-";
    const base = /[-_.]$/.test(last) ? last : last + "-";
    let n = 1;
    while (taken.has(base + n)) n++;
    this.name.value = base + n;
    this.touched = false;
  }

  /** A weight as others have it, or twice what a node has. */
  private offerWeight() {
    const sorted = this.members.map((m) => m.weight).sort((a, b) => a - b), middle = sorted[sorted.length >> 1], own = this.members.find((m) => m.id === this.node.value)?.weight;
    const w = this.kind === "add" ? middle : own && own * 2;
    if (w && !this.weighed) this.weight.value = String(w);
  }

  private take() {
    const id = this.kind === "add" ? this.name.value.trim() : this.node.value, w = Number(this.weight.value), p = this.plan;
    const taken = this.members.some((o) => o.id === id) || p.add.some(([a]) => a === id);
    this.problem.textContent = !id ? "Name a node." : this.kind === "add" && taken ? `There is a node ${visible(id)} already.` : "";
    if (this.problem.textContent) { (this.kind === "add" ? this.name : this.node).focus(); return; }
    const without = { add: p.add, remove: p.remove.filter((x) => x !== id), reweigh: p.reweigh.filter(([x]) => x !== id) };
    this.touched = this.weighed = false;
    this.on(this.kind === "add" ? { ...without, add: [...p.add, [id, w]] } : this.kind === "remove" ? { ...without, remove: [...without.remove, id] } : { ...without, reweigh: [...without.reweigh, [id, w]] });
  }

  /** Shows a change and computes what it would move. */
  async show(p: Plan) {
    this.plan = p;
    this.result = undefined;
    this.running?.abort();
    this.offerName();
    this.drawPlan();
    if (isEmpty(p)) {
      this.out.replaceChildren(h("p", { class: "t3" }, "See which segments would get another owner if a node came, went or had other CPUs. It is computed from the segments that are there, with the function that places them."));
      return;
    }
    const { signal } = (this.running = new AbortController());
    this.out.setAttribute("aria-busy", "true");
    this.out.classList.add("dim");
    try {
      const r = await json<Simulation>("/cluster/ownership/simulate", { body: planBody(p), signal });
      this.draw((this.result = r));
      announce(`${percent(part(r.moved_segments, r.segments))} of the segments would move`);
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      this.out.replaceChildren(failure(err, () => void this.show(p)));
    } finally {
      if (!signal.aborted) { this.out.removeAttribute("aria-busy"); this.out.classList.remove("dim"); }
    }
  }

  private drawPlan() {
    const p = this.plan, chip = (text: string, without: Plan) => h("li", { class: "pill" }, text, h("button", { type: "button", "aria-label": `Leave out: ${text}`, onclick: () => { this.on(without); (this.chips.querySelector("button") ?? this.kinds[0])!.focus(); } }, icon("x", "xs")));
    this.chips.replaceChildren(
      ...p.add.map(([id, w], i) => chip(`+ ${visible(id)}, ${vcpu(w)}`, { ...p, add: p.add.filter((_, j) => j !== i) })),
      ...p.remove.map((id, i) => chip(`− ${visible(id)}`, { ...p, remove: p.remove.filter((_, j) => j !== i) })),
      ...p.reweigh.map(([id, w], i) => chip(`${visible(id)} to ${vcpu(w)}`, { ...p, reweigh: p.reweigh.filter((_, j) => j !== i) })));
    this.chips.hidden = isEmpty(p);
  }

  private draw(r: Simulation) {
    const big = (n: string, text: string) => h("div", null, h("div", { class: "ow-big num" }, n), h("div", { class: "t3" }, text));
    if (r.segments === 0) { this.out.replaceChildren(h("p", { class: "t3" }, "There are no segments yet, so nothing would move."), sharesTable(r.shares, this.colours, this.members)); return; }
    this.out.replaceChildren(
      h("div", { class: "ow-bigs" }, big(percent(part(r.moved_segments, r.segments)), `${plural(r.moved_segments, "segment")} of ${count(r.segments)}`), big(bytes(r.moved_bytes), `${percent(part(r.moved_bytes, r.bytes))} of the bytes`)),
      ...(r.moves.length > 0 ? [this.flows(r)] : []), this.checks(r), ...(r.moves.length > 0 ? [this.moves(r)] : []), sharesTable(r.shares, this.colours, this.members));
  }

  private checks(r: Simulation): HTMLElement {
    const li = (ok: boolean, text: string) => h("li", { class: ok ? "" : "bad" }, icon(ok ? "circle-check" : "triangle-alert", "s"), text);
    const stay = r.moved_between_others === 0, added = new Set(this.plan.add.map(([id]) => id)), coming = r.shares.filter((o) => added.has(o.id));
    return h("ul", { class: "ow-checks" }, li(stay, stay ? "0 segments move between the nodes that stay as they are" : `${plural(r.moved_between_others, "segment")} would move between nodes that stay as they are: that must not be`),
      coming.map((o) => li(true, `${visible(o.id)} owns ${percent(o.actual)}; its weight asks for ${percent(o.expected)}`)), r.moved_segments > 0 && h("li", null, icon("info", "s"), "Nothing is copied: the new owners read from the object store what they warm or are asked for"));
  }

  private moves(r: Simulation): HTMLElement {
    const list = [...r.moves].sort((a, b) => b.segments - a.segments), most = list[0]!.segments, cut = list.slice(0, shownMoves);
    return h("div", { class: "tblwrap", tabindex: "0", role: "region", "aria-label": "What would move" },
      h("table", { class: "tbl ow-moves" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "From"), h("th", { scope: "col" }, "To"), h("th", { scope: "col", class: "ow-wide" }, h("span", { class: "vh" }, "As a bar")), h("th", { scope: "col", class: "r" }, "Segments"), h("th", { scope: "col", class: "r" }, "Bytes"))),
        h("tbody", null, cut.map((m) => h("tr", null, h("th", { scope: "row" }, m.from ? nodeName(this.colours, m.from, false) : h("span", { class: "muted" }, "nobody")), h("td", null, nodeName(this.colours, m.to, false)),
          h("td", { class: "ow-wide" }, s("svg", { class: "ow-bar", viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { y: "3", width: String((m.segments / most) * 1000), height: "8", rx: "2", fill: this.colours.of(m.from || m.to) }))), h("td", { class: "r num" }, count(m.segments)), h("td", { class: "r num" }, bytes(m.bytes)))))),
      list.length > cut.length && h("p", { class: "t3 cardpad" }, `and ${count(list.length - cut.length)} smaller ones`));
  }

  /** From whom on the left, to whom on the right; the thickness is the number of segments. */
  private flows(r: Simulation): Node {
    const sum = (key: "from" | "to") => { const m = new Map<string, number>(); for (const x of r.moves) m.set(x[key], (m.get(x[key]) ?? 0) + x.segments); return [...m].sort((a, b) => b[1] - a[1]); };
    const from = sum("from"), to = sum("to"), rows = Math.max(from.length, to.length);
    if (rows > 10) return document.createTextNode("");
    const gap = 6, hgt = Math.max(64, 26 * rows + gap), total = r.moved_segments, at = (list: [string, number][]) => {
      const high = hgt - gap * (list.length - 1), out = new Map<string, { y: number; h: number; used: number }>();
      let y = 0;
      for (const [id, n] of list) { const part = (n / total) * high; out.set(id, { y, h: part, used: 0 }); y += part + gap; }
      return out;
    };
    // At both ends the bands lie in the order of their other ends, so that they do not cross more than they must.
    const left = at(from), right = at(to), x0 = 104, x1 = 220, mid = (x0 + x1) / 2, starts = new Map<Move, number>();
    for (const m of [...r.moves].sort((a, b) => right.get(a.to)!.y - right.get(b.to)!.y)) {
      const l = left.get(m.from)!;
      starts.set(m, l.y + l.used);
      l.used += (m.segments / sumOf(from, m.from)) * l.h;
    }
    const paths = [...r.moves].sort((a, b) => left.get(a.from)!.y - left.get(b.from)!.y).map((m) => {
      const l = left.get(m.from)!, t = right.get(m.to)!, lh = (m.segments / sumOf(from, m.from)) * l.h, th = (m.segments / sumOf(to, m.to)) * t.h, ly = starts.get(m)!, ty = t.y + t.used;
      t.used += th;
      return s("path", { d: `M${x0} ${ly}C${mid} ${ly} ${mid} ${ty} ${x1} ${ty}V${ty + th}C${mid} ${ty + th} ${mid} ${ly + lh} ${x0} ${ly + lh}Z`, fill: this.colours.of(m.from || m.to), opacity: ".3" });
    });
    const ends = (m: Map<string, { y: number; h: number }>, x: number, tx: number, anchor: string) => [...m].flatMap(([id, p]) => [s("rect", { x: String(x), y: String(p.y), width: "6", height: String(Math.max(1, p.h)), rx: "1.5", fill: id ? this.colours.of(id) : "var(--border-strong)" }), s("text", { x: String(tx), y: String(p.y + p.h / 2 + 4), "text-anchor": anchor }, clip(id || "nobody"))]);
    const label = `${[...from].map(([id, n]) => `${count(n)} from ${id || "nobody"}`).join(", ")}; ${[...to].map(([id, n]) => `${count(n)} to ${id}`).join(", ")}`;
    return s("svg", { class: "ow-flow", viewBox: `0 -2 324 ${hgt + 4}`, role: "img", "aria-label": label }, paths, ends(left, x0 - 6, x0 - 12, "end"), ends(right, x1, x1 + 12, "start"));
  }
}

const sumOf = (list: [string, number][], id: string) => list.find(([x]) => x === id)![1];
const part = (n: number, of: number) => (of > 0 ? n / of : 0);
const clip = (t: string) => { const v = visible(t); return v.length > 14 ? `${v.slice(0, 6)}…${v.slice(-7)}` : v; };
