// The panel of one node: what it is, how it is, whom it talks to, and the way to drain it.
import { boot, orgPath } from "../lib/boot.ts";
import { button, h, icon, s, visible } from "../lib/dom.ts";
import { ago, bytes, count, percent, short } from "../lib/format.ts";
import { ageText, bytesPerSecond, type Cluster, type ClusterNode, cpuShare, has, memoryShare, perSecond, type Point, states } from "./model.ts";

export interface PanelActions { close: () => void; drain: (n: ClusterNode) => void; choose: (id: string) => void }

const telemetry = boot.data.telemetry === true; // the organization keeps the nodes' own logs

export function panel(c: Cluster, n: ClusterNode, on: PanelActions): Node[] {
  const state = c.state(n), { text, pill } = states[state];
  const line = (k: string, v: string | Node, cls = "num") => [h("dt", null, k), h("dd", { class: cls }, v)];
  const body = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Details of ${n.id}` },
    h("section", null,
      h("div", { class: "hd" }, h("h2", { class: "ell", id: "node-h", tabindex: "-1" }, visible(n.id)), h("span", { class: `pill ${pill}` }, h("span", { class: "dot" }), text), button({ icon: "x", label: "Close the details", cls: "ghost icon sm ml", on: on.close })),
      explanation(n, state),
      h("dl", { class: "kv" }, line("Roles", n.roles.join(", ")), line("Address", n.address || "–", "mono"), line("Version", visible(n.version)), line("Weight", `${short(n.weight)} vCPU`), line("Up", ago(Date.parse(n.since)).replace(/ ago$/, "")), line("Starts", count(n.incarnation)))),
    n.state !== "draining" && heartbeats(c, n),
    load(c, n),
    trafficOf(c, n, on.choose));
  const foot = h("div", { class: "foot" },
    telemetry && h("a", { class: "btn", href: `${orgPath("logs")}?${new URLSearchParams({ stream: "_millstream", q: `node:"${n.id}"`, from: "now-1h", to: "now" })}` }, icon("scroll-text", "s"), "Logs"),
    button({ icon: "power", text: "Drain…", cls: "danger", disabled: n.state === "draining", on: () => on.drain(n) }));
  return [body, foot];
}

function explanation(n: ClusterNode, state: string) {
  const text = {
    draining: "It takes nothing new, finishes what it has and stops.",
    refused: "It takes no call of the other nodes: its internal_token differs, or its release is too far from theirs.",
    fenced: "Another process was started under this id. This one takes no writes until it is restarted with an id of its own.",
    silent: "It sends no heartbeats. Peers send it nothing until it does; after 5 minutes it leaves the list.",
    late: "Its heartbeat is late. After the peer timeout, peers send it nothing.",
  }[state] ?? (n.load ? "" : "It sends heartbeats and does not answer this node on its internal listener.");
  return text && h("p", { class: "why" }, text);
}

function heartbeats(c: Cluster, n: ClusterNode) {
  const list = c.beats(n.id), late = list.filter((b) => b > 7.5).length;
  return h("section", null, h("h3", null, "Heartbeats", h("small", null, "As this page saw them")),
    h("div", { class: "beats", role: "img", "aria-label": `${list.length} readings of the heartbeat's age, ${late} late` }, Array.from({ length: 40 - list.length }, () => h("i", { class: "none" })), list.map((b) => h("i", { class: b > 15 ? "m" : b > 7.5 ? "l" : "" }))),
    h("p", { class: "t3 num", "data-age": n.id }, `Age ${ageText(c.age(n))}`));
}

function meter(name: string, text: string, part: number | undefined, cls = "") {
  const bar = h("div", { class: `bar ${cls}`.trim() }, h("i"));
  bar.style.setProperty("--part", String(part ?? 0));
  bar.classList.toggle("hot", (part ?? 0) > 0.9);
  return h("div", { class: "metric" }, h("div", { class: "mk" }, name, h("b", { class: "num" }, text)), part !== undefined && bar);
}

function course(name: string, text: string, points: number[], cls: string) {
  const most = Math.max(...points, 1e-9) * 1.1;
  const at = points.map((v, i) => `${((i / Math.max(1, points.length - 1)) * 300).toFixed(1)},${(38 - (v / most) * 34).toFixed(1)}`).join(" ");
  return h("div", { class: "metric wide" }, h("div", { class: "mk" }, name, h("b", { class: "num" }, text)),
    points.length > 1 && s("svg", { class: `spark ${cls}`, viewBox: "0 0 300 40", preserveAspectRatio: "none", role: "img", "aria-label": `${name} since the page was opened` }, s("polygon", { points: `0,40 ${at} 300,40` }), s("polyline", { points: at, "vector-effect": "non-scaling-stroke" })));
}

const sent = (n: ClusterNode, key: "writes_per_second" | "queries_per_second") => (n.traffic ?? []).filter((t) => t.to !== n.id).reduce((sum, t) => sum + t[key], 0);

function load(c: Cluster, n: ClusterNode) {
  if (!n.load) return null;
  const l = n.load, r = l.rates, past = c.points(n.id), of = (f: (p: Point) => number) => past.map(f);
  return h("section", null, h("h3", null, "Load"), h("div", { class: "two" },
    meter("CPU", cpuShare(n) === undefined ? `${l.cpu.toFixed(2)}` : percent(cpuShare(n)!), cpuShare(n)),
    meter("Memory", l.memory_total_bytes ? `${bytes(l.memory_bytes)} of ${bytes(l.memory_total_bytes)}` : bytes(l.memory_bytes), memoryShare(n), "mem"),
    has(n, "intake") && meter("Unflushed", bytes(l.unflushed_bytes), undefined),
    has(n, "querier") && meter("Queries running", count(l.queries_running), undefined),
    r && has(n, "intake") && course("Rows taken", perSecond(r.rows_per_second, "rows"), of((p) => p.rows), "w"),
    r && has(n, "querier") && course("Object reads", bytesPerSecond(r.fetched_bytes_per_second), of((p) => p.fetched), "m"),
    has(n, "router") && c.nodes.length > 1 && h("div", { class: "metric wide" }, h("div", { class: "mk" }, "Passes on", h("b", { class: "num" }, `${perSecond(sent(n, "writes_per_second"), "writes")}, ${perSecond(sent(n, "queries_per_second"), "queries")}`))),
    course("CPUs in use", l.cpu.toFixed(2), of((p) => p.cpu), "c")));
}

function trafficOf(c: Cluster, n: ClusterNode, choose: (id: string) => void) {
  const row = (id: string, t: { writes_per_second: number; queries_per_second: number; bytes_per_second: number }, out: boolean) => {
    const parts = [t.writes_per_second > 0 && perSecond(t.writes_per_second, "writes"), t.queries_per_second > 0 && perSecond(t.queries_per_second, "queries"), bytesPerSecond(t.bytes_per_second)].filter(Boolean);
    return h("li", null, icon(out ? "arrow-right" : "arrow-left", "xs"), h("span", { class: "vh" }, out ? "to " : "from "), h("button", { type: "button", class: "lnk ell", onclick: () => choose(id) }, visible(id)), h("span", { class: "num ml" }, parts.join(", ")));
  };
  const sent = (n.traffic ?? []).filter((t) => t.to !== n.id && t.bytes_per_second > 0), got = c.traffic(n.id).filter((t) => t.bytes_per_second > 0);
  if (sent.length + got.length === 0) return null;
  return h("section", null, h("h3", null, "Traffic"), h("ul", { class: "flows" }, sent.map((t) => row(t.to, t, true)), got.map((t) => row(t.from, t, false))));
}
