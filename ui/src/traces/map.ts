// The service map: services in layers, calls as lines whose width is how many and whose red part is how many failed.
import { h, s, visible } from "../lib/dom.ts";
import { duration, percent, short } from "../lib/format.ts";
import { type Layout, layOut, type Node as Place, size } from "./graph.ts";
import { called } from "./links.ts";

export interface Service { name: string; spans: number; errors: number; rate: number; p50_ns: number; p95_ns: number; p99_ns: number; operations: Operation[] }
export interface Operation { name: string; spans: number; errors: number; rate: number; p50_ns: number; p95_ns: number; p99_ns: number }
export interface Call { from: string; to: string; calls: number; errors: number; avg_ns: number }

/** A rate in few characters. */
export const perSecond = (rate: number) => (rate > 0 && rate < 0.01 ? "<0.01/s" : `${short(Number(rate.toPrecision(2)))}/s`);

const margin = 24; // px around the graph

export class ServiceMap {
  readonly el: HTMLElement;
  private svg = s("svg", { class: "sm-svg", role: "group", "aria-label": "Service map. Arrow keys go from service to service, Enter shows one" });
  private layout: Layout | undefined;
  private nodes = new Map<string, SVGElement>();
  private lines = new Map<Call, SVGElement>();
  private scale = 1;
  private chosen = "";
  private at = ""; // the service that has the focus

  constructor(private on: (name: string) => void) {
    this.el = h("div", { class: "sm-scroll" }, this.svg);
    this.svg.addEventListener("keydown", (e) => this.key(e));
    this.el.addEventListener("pointerdown", (e) => this.drag(e));
  }

  show(services: Service[], calls: Call[], period: number) {
    const names = [...services].sort((a, b) => b.spans - a.spans).map((x) => x.name), own = calls.filter((c) => names.includes(c.from) && names.includes(c.to));
    const l = (this.layout = layOut(names, own)), most = Math.max(1, ...own.map((c) => c.calls));
    this.nodes.clear();
    this.lines.clear();
    const edges = own.filter((c) => c.from !== c.to).map((c) => this.line(c, l.routes.get(c)!, most, period));
    const nodes = services.map((x) => this.node(x, l.nodes.get(x.name)!));
    this.svg.setAttribute("viewBox", `${-margin} ${-margin} ${l.width + 2 * margin} ${l.height + 2 * margin}`);
    this.svg.replaceChildren(s("g", { class: "sm-lines" }, ...edges), ...nodes);
    this.at = names.includes(this.at) ? this.at : this.sorted()[0]?.name ?? "";
    this.rove();
    this.fit();
    this.select(this.chosen);
  }

  /** As large as fits, up to its own size. */
  fit() {
    const l = this.layout!;
    this.zoom(Math.max(0.62, Math.min(1, (this.el.clientWidth - 4) / (l.width + 2 * margin), (this.el.clientHeight - 4) / (l.height + 2 * margin))));
  }

  zoom(scale: number) {
    const l = this.layout;
    if (!l) return;
    this.scale = Math.max(0.3, Math.min(2, scale));
    this.svg.setAttribute("width", String((l.width + 2 * margin) * this.scale));
    this.svg.setAttribute("height", String((l.height + 2 * margin) * this.scale));
  }

  get scaled() { return this.scale; }

  /** Marks a service and its calls. */
  select(name: string) {
    this.chosen = name;
    this.svg.classList.toggle("chosen", this.nodes.has(name));
    for (const [n, el] of this.nodes) el.classList.toggle("on", n === name);
    const near = new Set([name]);
    for (const [c, el] of this.lines) {
      const on = c.from === name || c.to === name;
      el.classList.toggle("on", on);
      if (on) near.add(c.from).add(c.to);
    }
    for (const [n, el] of this.nodes) el.classList.toggle("near", near.has(n));
  }

  private line(c: Call, points: [number, number][], most: number, period: number): SVGElement {
    const width = 1 + 3.5 * (Math.log(c.calls + 1) / Math.log(most + 1)), share = c.errors / Math.max(1, c.calls);
    const d = curve(points), g = s("g", { class: "sm-edge" }, s("title", null, `${visible(c.from)} calls ${visible(c.to)}: ${short(c.calls / period)}/s, ${percent(share)} failed, ${duration(c.avg_ns)} on average`), s("path", { d, class: "hit" }), s("path", { d, class: "calls", "stroke-width": width.toFixed(1) }), share >= 0.005 && s("path", { d, class: "bad", "stroke-width": Math.max(1, width * Math.min(1, share * 1.5)).toFixed(1) }), arrow(points));
    this.lines.set(c, g);
    return g;
  }

  private node(x: Service, p: Place): SVGElement {
    const share = x.errors / Math.max(1, x.spans), round = 2 * Math.PI * 13, name = called(x.name);
    const g = s("g", { class: `sm-node${share >= 0.05 ? " bad" : ""}`, transform: `translate(${p.x} ${p.y})`, role: "button", tabindex: "-1", "data-name": x.name, "aria-label": `${name}: ${short(x.rate)} spans a second, ${percent(share)} failed, 95 % within ${duration(x.p95_ns)}` },
      s("title", null, name), s("rect", { width: size.width, height: size.height, rx: 8, class: "box" }), s("circle", { cx: 26, cy: size.height / 2, r: 13, class: "ring" }),
      share > 0 && s("circle", { cx: 26, cy: size.height / 2, r: 13, class: "arc", "stroke-dasharray": `${Math.max(2, round * share)} ${round}`, transform: `rotate(-90 26 ${size.height / 2})` }),
      s("text", { x: 26, y: size.height / 2 + 3.5, "text-anchor": "middle", class: "pc" }, share > 0 ? `${share < 0.01 ? "<1" : Math.round(share * 100)}%` : "0"),
      s("text", { x: 48, y: 23, class: "nm" }, name.length > 19 ? name.slice(0, 18) + "…" : name), s("text", { x: 48, y: 40, class: "fg" }, `${perSecond(x.rate)} · p95 ${duration(x.p95_ns)}`));
    g.addEventListener("click", () => { this.at = x.name; this.rove(); this.on(x.name); });
    this.nodes.set(x.name, g);
    return g;
  }

  private sorted() { return [...(this.layout?.nodes.values() ?? [])].sort((a, b) => a.layer - b.layer || a.y - b.y); }

  /** One service at a time can be reached by Tab. */
  private rove(focus = false) {
    for (const [n, el] of this.nodes) el.setAttribute("tabindex", n === this.at ? "0" : "-1");
    const el = this.nodes.get(this.at);
    if (focus && el) { el.focus(); el.scrollIntoView({ block: "nearest", inline: "nearest" }); }
  }

  private key(e: KeyboardEvent) {
    const here = this.layout?.nodes.get(this.at);
    if (!here || e.metaKey || e.ctrlKey || e.altKey) return;
    if (e.key === "Enter" || e.key === " ") this.on(this.at);
    else {
      const all = this.sorted(), far = (p: Place) => Math.abs(p.y - here.y);
      const layer = (by: number) => { const ls = [...new Set(all.map((p) => p.layer))], to = ls[ls.indexOf(here.layer) + by]; return all.filter((p) => p.layer === to).sort((a, b) => far(a) - far(b))[0]; };
      const same = all.filter((p) => p.layer === here.layer), i = same.indexOf(here);
      const to = { ArrowRight: layer(1), ArrowLeft: layer(-1), ArrowDown: same[i + 1], ArrowUp: same[i - 1], Home: all[0], End: all[all.length - 1] }[e.key];
      if (!/^(Arrow|Home|End)/.test(e.key)) return;
      if (to) { this.at = to.name; this.rove(true); }
    }
    e.preventDefault();
    e.stopPropagation();
  }

  /** Draws the map along under the pointer. */
  private drag(e: PointerEvent) {
    if (e.button !== 0 || (e.target as Element).closest(".sm-node")) return;
    const { scrollLeft, scrollTop } = this.el;
    const move = (m: PointerEvent) => { this.el.scrollLeft = scrollLeft - (m.clientX - e.clientX); this.el.scrollTop = scrollTop - (m.clientY - e.clientY); };
    this.el.setPointerCapture(e.pointerId);
    this.el.addEventListener("pointermove", move);
    this.el.addEventListener("lostpointercapture", () => this.el.removeEventListener("pointermove", move), { once: true });
  }
}

/** A smooth line through the points. */
function curve(points: [number, number][]): string {
  let d = `M${points[0]![0]} ${points[0]![1]}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1]!, [x1, y1] = points[i]!, bend = (x1 - x0) / 2 || 40;
    d += `C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
  }
  return d;
}

function arrow(points: [number, number][]) {
  const [x, y] = points[points.length - 1]!, way = x >= points[points.length - 2]![0] ? 1 : -1;
  return s("path", { class: "tip", d: `M${x} ${y}l${-7 * way} -4v8z` });
}
