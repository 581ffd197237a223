// The nodes as a table; also what narrow windows show first.
import { h, visible } from "../lib/dom.ts";
import { ago, bytes, percent, short } from "../lib/format.ts";
import { ageText, type Cluster, type ClusterNode, cpuShare, mainRate, states } from "./model.ts";

interface Column { key: string; label: string; r?: boolean; wide?: boolean; by: (n: ClusterNode) => number | string; text: (n: ClusterNode) => string | Node }

export class NodeTable {
  readonly el = h("div", { class: "tblwrap", tabindex: "0", role: "region", "aria-label": "Nodes" });
  selected = "";
  private sort = { key: "state", desc: false };
  private columns: Column[];

  constructor(private c: Cluster, private choose: (id: string) => void) {
    const state = (n: ClusterNode) => states[c.state(n)];
    this.columns = [
      { key: "id", label: "Node", by: (n) => n.id, text: (n) => h("button", { type: "button", class: "lnk ell", "data-node": n.id, "aria-pressed": String(n.id === this.selected), onclick: () => choose(n.id) }, visible(n.id)) },
      { key: "state", label: "State", by: (n) => state(n).rank, text: (n) => h("span", { class: `pill ${state(n).pill}` }, h("span", { class: "dot" }), state(n).text) },
      { key: "roles", label: "Roles", by: (n) => n.roles.join(" "), text: (n) => n.roles.join(", ") },
      { key: "age", label: "Heartbeat", r: true, by: (n) => n.heartbeat_age_seconds, text: (n) => ageText(c.age(n)) },
      { key: "rate", label: "Rate", r: true, by: (n) => n.load?.rates?.rows_per_second ?? c.asked(n.id), text: (n) => mainRate(c, n) || "–" },
      { key: "cpu", label: "CPU", r: true, by: (n) => cpuShare(n) ?? -1, text: (n) => (cpuShare(n) === undefined ? "–" : percent(cpuShare(n)!)) },
      { key: "memory", label: "Memory", r: true, by: (n) => n.load?.memory_bytes ?? -1, text: (n) => (n.load ? bytes(n.load.memory_bytes) : "–") },
      { key: "weight", label: "Weight", r: true, by: (n) => n.weight, text: (n) => `${short(n.weight)} vCPU` },
      { key: "version", label: "Version", by: (n) => n.version, text: (n) => visible(n.version) },
      { key: "address", label: "Address", by: (n) => n.address, text: (n) => h("span", { class: "mono" }, n.address) },
      { key: "since", label: "Up", r: true, by: (n) => -Date.parse(n.since), text: (n) => ago(Date.parse(n.since)).replace(/ ago$/, "") },
    ];
  }

  draw() {
    const at = document.activeElement, focus = this.el.contains(at) ? { node: (at as HTMLElement).dataset.node, sort: (at as HTMLElement).dataset.sort } : undefined;
    const by = this.columns.find((x) => x.key === this.sort.key)!.by;
    const rows = [...this.c.nodes].sort((x, y) => { const a = by(x), b = by(y); return (a < b ? -1 : a > b ? 1 : x.id.localeCompare(y.id)) * (this.sort.desc && a !== b ? -1 : 1); });
    this.el.replaceChildren(h("table", { class: "tbl nodes" },
      h("caption", { class: "vh" }, "Nodes of the cluster"),
      h("thead", null, h("tr", null, this.columns.map((x) => h("th", { scope: "col", class: x.r ? "r" : null, "aria-sort": x.key === this.sort.key ? (this.sort.desc ? "descending" : "ascending") : null }, h("button", { type: "button", "data-sort": x.key, onclick: () => this.order(x.key) }, x.label))))),
      h("tbody", null, rows.map((n) => h("tr", { class: n.id === this.selected ? "sel" : null, onclick: (e: Event) => { if (!(e.target as Element).closest("button")) this.choose(n.id); } }, this.columns.map((x, i) => (i === 0 ? h("th", { scope: "row" }, x.text(n)) : h("td", { class: x.r ? "r num" : null }, x.text(n)))))))));
    if (focus?.node) this.el.querySelector<HTMLElement>(`[data-node="${CSS.escape(focus.node)}"]`)?.focus();
    if (focus?.sort) this.el.querySelector<HTMLElement>(`[data-sort="${focus.sort}"]`)?.focus();
  }

  private order(key: string) {
    this.sort = { key, desc: this.sort.key === key && !this.sort.desc };
    this.draw();
  }
}
