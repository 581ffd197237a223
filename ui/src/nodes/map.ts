// The map: routers, intakes above queriers, the stores, compactors and alerting, and what flows between them.
import { h, icon, s, visible } from "../lib/dom.ts";
import { ageText, bytesPerSecond, type Cluster, type ClusterNode, cpuShare, mainRate, memoryShare, placeOf, type Role, roles, states } from "./model.ts";

const columns: Role[][] = [["standalone", "router"], ["intake", "querier"], [], ["compactor", "alert"]]; // the third is the stores'
const tilesAbove = 12; // nodes of a role

interface Edge { from: string; to: string; kind: "w" | "q" | "m"; rate: number }

const share = (el: HTMLElement, part: number | undefined) => { el.style.setProperty("--part", String(part ?? 0)); el.classList.toggle("hot", (part ?? 0) > 0.9); };

export class NodeMap {
  readonly el: HTMLElement;
  private svg = s("svg", { "aria-hidden": "true" });
  private inner = h("div", { class: "mapin" }, this.svg);
  private cards = new Map<string, HTMLButtonElement>();
  private stores = { obj: h("dl", { class: "kv" }), pg: h("dl", { class: "kv" }) };
  private boxes = new Map<string, HTMLElement>();
  private shape = "";
  trouble = ""; // of PostgreSQL
  selected = "";

  constructor(private c: Cluster, private choose: (id: string) => void) {
    this.el = h("div", { class: "map", role: "group", "aria-label": "Cluster map" }, this.inner);
    this.el.addEventListener("keydown", (e) => this.move(e));
    new ResizeObserver(() => this.edges()).observe(this.inner);
  }

  /** Arrow keys go from card to card in the order of reading. */
  private move(e: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[e.key], list = [...this.inner.querySelectorAll<HTMLElement>(".node,.tile")], at = list.indexOf(document.activeElement as HTMLElement);
    if (!step || at < 0) return;
    e.preventDefault();
    list[(at + step + list.length) % list.length]!.focus();
  }

  draw() {
    const shape = this.c.nodes.map((n) => `${n.id}\n${placeOf(n)}\n${n.roles}`).join("\n");
    if (shape !== this.shape) {
      this.shape = shape;
      this.build();
    }
    this.tick();
    this.edges();
  }

  private build() {
    const focused = (document.activeElement as HTMLElement | null)?.dataset.node;
    this.cards.clear();
    this.boxes.clear();
    const cols = columns.map((list, i) => h("div", { class: "col" }, i === 2 ? this.storeCards() : list.map((r) => this.group(r)))).filter((c) => c.childElementCount > 0);
    this.inner.replaceChildren(this.svg, ...cols);
    this.inner.classList.toggle("few", cols.length === 2);
    this.inner.style.setProperty("--cols", String(cols.length));
    if (focused) this.cards.get(focused)?.focus();
  }

  private group(role: Role): Node[] {
    const list = this.c.nodes.filter((n) => placeOf(n) === role), { name, icon: ic } = roles.find((r) => r.role === role)!;
    if (list.length === 0) return [];
    const tiles = list.length > tilesAbove;
    if (tiles) list.sort((a, b) => states[this.c.state(a)].rank - states[this.c.state(b)].rank || a.id.localeCompare(b.id));
    const cards = list.map((n) => this.card(n, tiles));
    const box = tiles ? h("div", { class: "tiles" }, cards) : undefined;
    if (box) this.boxes.set(role, box);
    return [h("h2", { class: "rolehd" }, icon(ic, "s"), name, h("span", { class: "n" }, String(list.length))), ...(box ? [box] : cards)];
  }

  private card(n: ClusterNode, tile: boolean) {
    const extra = n.roles.filter((r) => r !== placeOf(n));
    const b = h("button", { type: "button", class: tile ? "tile" : "node", "data-node": n.id, onclick: () => this.choose(n.id) }, tile ? h("span", { class: "mark" }) : [
      h("span", { class: "l1" }, h("span", { class: "dot" }), h("span", { class: "ell" }, visible(n.id)), n.self && h("span", { class: "here" }, "here")),
      n.roles.includes("standalone") ? h("span", { class: "l3" }, roles.slice(1).map((r) => h("span", null, r.role))) : extra.length > 0 && h("span", { class: "l3" }, extra.map((r) => h("span", null, `+ ${r}`))),
      h("span", { class: "l2 num" }, h("span", { class: "ell rate" }), h("span", { class: "hb" })),
      h("span", { class: "ld" }, h("span", { class: "bar cpu" }, h("i")), h("span", { class: "bar mem" }, h("i"))),
    ]);
    this.cards.set(n.id, b);
    return b;
  }

  private storeCards() {
    const box = (id: "obj" | "pg", name: string, ic: string) => { const b = h("section", { class: "store", "aria-label": name }, h("h2", null, icon(ic), name), this.stores[id]); this.boxes.set(id, b); return b; };
    return [box("obj", "Object store", "cloud"), box("pg", "PostgreSQL", "database")];
  }

  /** Renews what the cards say; heartbeats grow older between events. */
  tick(now = Date.now()) {
    for (const n of this.c.nodes) {
      const b = this.cards.get(n.id);
      if (!b) continue;
      const state = this.c.state(n), age = this.c.age(n, now), rate = mainRate(this.c, n);
      b.className = `${b.classList.contains("tile") ? "tile" : "node"} st-${state}`;
      b.setAttribute("aria-pressed", String(this.selected === n.id));
      const label = `${n.id}, ${n.roles.join(" and ")}, ${states[state].text}, heartbeat ${Math.round(age)} seconds ago${rate ? `, ${rate}` : ""}`;
      if (state !== b.dataset.state || b.dataset.label === undefined || this.c.at === now) b.setAttribute("aria-label", label);
      b.dataset.state = state;
      b.dataset.label = "";
      b.title = b.classList.contains("tile") ? label : "";
      const rateEl = b.querySelector(".rate");
      if (!rateEl) continue;
      rateEl.textContent = rate;
      b.querySelector(".hb")!.textContent = state === "up" || state === "late" || state === "silent" ? ageText(age) : states[state].text;
      share(b.querySelector<HTMLElement>(".cpu")!, cpuShare(n));
      share(b.querySelector<HTMLElement>(".mem")!, memoryShare(n));
    }
    const line = (k: string, v: string) => [h("dt", null, k), h("dd", { class: "num" }, v)];
    const rates = this.c.nodes.some((n) => n.load?.rates);
    this.stores.obj.replaceChildren(...line("Written", rates ? bytesPerSecond(this.c.sum((n) => n.load?.rates?.stored_bytes_per_second)) : "–"), ...line("Read", rates ? bytesPerSecond(this.c.sum((n) => n.load?.rates?.fetched_bytes_per_second)) : "–"));
    this.stores.pg.replaceChildren(...line("Members", String(this.c.nodes.length)), ...line("State", this.trouble ? "not read" : "read"));
    this.boxes.get("pg")?.classList.toggle("bad", this.trouble !== "");
  }

  private list(): Edge[] {
    const out: Edge[] = [];
    for (const n of this.c.nodes) {
      for (const t of n.traffic ?? []) {
        const to = this.c.node(t.to);
        if (!to || t.to === n.id) continue;
        if (t.writes_per_second > 0) out.push({ from: n.id, to: t.to, kind: "w", rate: t.writes_per_second });
        if (t.queries_per_second > 0) out.push({ from: n.id, to: t.to, kind: "q", rate: t.queries_per_second });
      }
      const r = n.load?.rates;
      if (r && r.stored_bytes_per_second > 0) out.push({ from: n.id, to: "obj", kind: "w", rate: r.stored_bytes_per_second / 1e4 });
      if (r && r.fetched_bytes_per_second > 0) out.push({ from: n.id, to: "obj", kind: "m", rate: r.fetched_bytes_per_second / 1e4 });
    }
    return out.concat(this.idle(out));
  }

  /** Ways that nothing takes now are drawn as hints, as long as they are few. */
  private idle(busy: Edge[]): Edge[] {
    if (this.c.nodes.length > 2 * tilesAbove) return [];
    const taken = new Set(busy.map((e) => `${e.from} ${e.to} ${e.kind}`)), out: Edge[] = [];
    const add = (from: string, to: string, kind: Edge["kind"]) => { if (!taken.has(`${from} ${to} ${kind}`)) out.push({ from, to, kind, rate: 0 }); };
    const up = this.c.nodes.filter((n) => n.state === "up");
    for (const n of up) {
      const p = placeOf(n);
      if (p === "router") for (const o of up) { if (placeOf(o) === "intake") add(n.id, o.id, "w"); else if (placeOf(o) === "querier") add(n.id, o.id, "q"); }
      if (p === "intake" || p === "standalone") add(n.id, "obj", "w");
      if (p === "querier" || p === "compactor" || p === "standalone") add(n.id, "obj", "m");
      if (p === "alert") add(n.id, "pg", "m");
    }
    return out;
  }

  /** Tiles are too small for lines of their own: those of a role share one, but for the chosen node's. */
  private gathered(): Edge[] {
    const end = (id: string) => (id !== this.selected && this.cards.get(id)?.classList.contains("tile") ? placeOf(this.c.node(id)!) : id);
    const sums = new Map<string, Edge>();
    for (const e of this.list()) {
      const from = end(e.from), to = end(e.to), key = `${from} ${to} ${e.kind}`, sum = sums.get(key);
      if (sum) sum.rate += e.rate; else sums.set(key, { ...e, from, to });
    }
    return [...sums.values()];
  }

  private edges() {
    if (!this.inner.isConnected || this.inner.offsetParent === null) return;
    const base = this.inner.getBoundingClientRect();
    const box = (id: string) => { const r = (this.cards.get(id) ?? this.boxes.get(id))?.getBoundingClientRect(); return r && { l: r.left - base.left, r: r.right - base.left, m: r.top - base.top + r.height / 2, t: r.top - base.top, h: r.height }; };
    const ports = new Map<string, number>();
    const paths = this.gathered().flatMap((e) => {
      const a = box(e.from), b = box(e.to);
      if (!a || !b) return [];
      const forward = a.r <= b.l, same = a.l === b.l, key = `${e.to} ${e.kind}`, port = ports.get(key) ?? 0;
      ports.set(key, port + 1);
      const off = { w: -7, q: 7, m: 5 }[e.kind];
      const x1 = forward || same ? a.r : a.l, x2 = same ? b.r : forward ? b.l : b.r, y1 = a.m + off, store = e.to === "obj" || e.to === "pg";
      const y2 = store ? b.t + b.h * (e.kind === "w" ? 0.3 : 0.68) + Math.min(port, 8) * 4 : b.m + (e.kind === "q" ? 4 : -4);
      const bend = same ? 60 : Math.max(24, Math.abs(x2 - x1) / 2), dir = forward || same ? 1 : -1;
      const d = `M${x1} ${y1}C${x1 + dir * bend} ${y1} ${x2 - (same ? -1 : dir) * bend} ${y2} ${x2} ${y2}`;
      const hot = this.selected !== "" && (e.from === this.selected || e.to === this.selected);
      const width = e.rate > 0 ? Math.min(e.kind === "m" ? 2.2 : 5, 1.2 + Math.log10(1 + e.rate)) : 1;
      const cls = `edge ${e.kind}${e.rate > 0 ? "" : " idle"}${hot ? " hot" : this.selected ? " dim" : ""}`;
      return [s("path", { class: cls, d, "stroke-width": width.toFixed(2) }), hot && e.rate > 0 && s("path", { class: "edge flow", d, "stroke-width": "1.5" })];
    });
    this.svg.replaceChildren(...paths.filter((p) => p instanceof Node));
  }
}
