// The page Ownership: which node owns, caches and scans which segments, and what would move if the nodes changed.
import "../app.ts";
import { announce } from "../lib/a11y.ts";
import { type ApiError, explain, json } from "../lib/api.ts";
import { boot } from "../lib/boot.ts";
import { $, button, h, visible } from "../lib/dom.ts";
import { bytes, count, percent, plural } from "../lib/format.ts";
import { bind } from "../lib/keys.ts";
import { banner, empty, failure, skeleton, stale } from "../lib/states.ts";
import { formatTime, fromSpan, now, type Span, spanLabel } from "../lib/time.ts";
import { onNavigate, read, write } from "../lib/url.ts";
import { type Mode, Owners } from "../ownership/heatmap.ts";
import { membersTable } from "../ownership/members.ts";
import { Colours, deviation, type Ownership, planOf, planState, signed, vcpu, warmth } from "../ownership/model.ts";
import { Lookup } from "../ownership/ranking.ts";
import { WhatIf } from "../ownership/whatif.ts";

const ranges = [["", "All"], ["now-30d", "30 days"], ["now-7d", "7 days"], ["now-24h", "24 hours"]] as const;
const modes = [["segments", "Segments"], ["bytes", "Bytes"], ["share", "Share"]] as const;

class OwnershipPage {
  private d: Ownership | undefined;
  private at = 0; // when d came, ms
  private running: AbortController | undefined;
  private colours = new Colours();
  private map = new Owners();
  private lookup = new Lookup(this.colours, (id) => { write({ segment: id }); void this.lookup.find(id); });
  private whatif = new WhatIf(this.colours, (p) => { write(planState(p)); void this.whatif.show(p); });
  private ranges: HTMLButtonElement[];
  private modes: HTMLButtonElement[];
  private streams: HTMLSelectElement;
  private figures = h("dl", { class: "stats" });
  private notes = h("div", { class: "notes" });
  private note = h("span", { class: "muted num" });
  private heat = h("div", { class: "ow-heat" }, skeleton(5));
  private table = h("div", null, skeleton(4));
  private main: HTMLElement;

  constructor(app: HTMLElement) {
    const head = $("#page-title")!;
    head.classList.remove("vh");
    head.textContent = "Segment ownership";
    this.ranges = ranges.map(([from, text]) => h("button", { type: "button", "data-from": from, onclick: () => this.look(from, "") }, text));
    this.modes = modes.map(([m, text]) => h("button", { type: "button", "data-m": m, onclick: () => this.as(m) }, text));
    this.streams = h("select", { class: "in ow-streams", "aria-label": "Stream", onchange: () => { write({ stream: this.streams.value }); void this.load(); } }, h("option", { value: "" }, "All streams"), boot.streams.map((x) => h("option", { value: `${x.signal}/${x.name}` }, `${x.signal} / ${visible(x.name)}`)));
    this.map.colours = this.colours;
    this.map.addEventListener("ms:range", (e) => { const r = fromSpan((e as CustomEvent<Span>).detail); this.look(r.from, r.to); });
    this.main = h("div", { class: "ow-main", "aria-busy": "true" },
      h("section", { class: "card", "aria-labelledby": "heat-h" }, h("div", { class: "ow-hd" }, h("h2", { id: "heat-h" }, "Segments by time and owner"), this.note, h("span", { class: "spacer" }), h("div", { class: "seg", role: "group", "aria-label": "What the colours show" }, this.modes)), this.heat),
      h("section", { class: "card", "aria-labelledby": "members-h" }, h("div", { class: "ow-hd" }, h("h2", { id: "members-h" }, "Weight share and actual share"), h("span", { class: "muted" }, "The mark is the share that the weight asks for")), this.table),
      this.lookup.el);
    app.replaceChildren(
      h("div", { class: "pagehead" }, head, this.streams, h("span", { class: "spacer" }), h("div", { class: "seg", role: "group", "aria-label": "Time" }, this.ranges), button({ icon: "refresh-cw", label: "Refresh", cls: "icon", on: () => this.refresh() })),
      h("div", { class: "statband", tabindex: "0", role: "region", "aria-label": "Figures of the ownership" }, this.figures), this.notes, h("div", { class: "ow" }, this.main, h("aside", { class: "ow-side", "aria-label": "Simulation" }, this.whatif.el)));
    app.setAttribute("aria-busy", "false");
    onNavigate(() => this.fromUrl());
    bind([
      { key: "v", label: "Segments, bytes or share", group: "Ownership", run: () => this.as(modes[(modes.findIndex(([m]) => m === this.map.mode) + 1) % modes.length]![0]) },
      { key: "r", label: "Refresh", group: "Ownership", run: () => this.refresh() },
      { key: "/", label: "Find a segment", group: "Ownership", run: (e) => { e.preventDefault(); $("#segment")?.focus(); } },
    ]);
    this.fromUrl();
  }

  private fromUrl() {
    const q = read(), mode = modes.find(([m]) => m === q.get("view"));
    this.map.mode = mode ? mode[0] : "segments";
    this.streams.value = q.get("stream") ?? "";
    if (this.streams.selectedIndex < 0) this.streams.append(h("option", { value: q.get("stream")!, selected: true }, visible(q.get("stream")!)));
    void this.load();
    void this.whatif.show(planOf(q));
    void this.lookup.find(q.get("segment") ?? "");
  }

  private refresh() {
    void this.load();
    void this.whatif.show(planOf(read()));
  }

  private look(from: string, to: string) {
    write({ from, to });
    void this.load();
  }

  private as(m: Mode) {
    this.map.mode = m;
    write({ view: m === "segments" ? "" : m }, "replace");
    this.press();
    this.map.show();
  }

  private press() {
    const q = read(), from = q.get("from") ?? "";
    for (const b of this.modes) b.setAttribute("aria-pressed", String(b.dataset.m === this.map.mode));
    for (const b of this.ranges) b.setAttribute("aria-pressed", String(b.dataset.from === from && !q.get("to")));
  }

  private async load() {
    this.press();
    this.running?.abort();
    const { signal } = (this.running = new AbortController()), q = read(), ask = new URLSearchParams();
    if (q.get("from")) { ask.set("start", q.get("from")!); ask.set("end", q.get("to") || "now"); }
    const [sig, name] = split(q.get("stream") ?? "");
    if (name) { ask.set("stream", name); ask.set("signal", sig); }
    ask.set("buckets", innerWidth <= 720 ? "24" : "60");
    this.main.setAttribute("aria-busy", "true");
    if (this.d) this.main.classList.add("dim");
    try {
      this.d = await json<Ownership>(`/cluster/ownership?${ask}`, { signal });
      this.at = now();
      this.notes.replaceChildren();
      this.draw(this.d);
    } catch (e) {
      const err = explain(e);
      if (err.code !== "aborted") this.failed(err);
    } finally {
      if (!signal.aborted) { this.main.classList.remove("dim"); this.main.setAttribute("aria-busy", "false"); }
    }
  }

  private failed(e: ApiError) {
    const wrong = e.status === 400 || e.status === 404; // what was asked for: the old answer is one to another question
    if (this.d && !wrong) { this.notes.replaceChildren(stale(formatTime(this.at, { date: false }), e, () => void this.load())); return; }
    this.d = undefined;
    this.notes.replaceChildren();
    this.figures.replaceChildren();
    this.note.textContent = "";
    this.heat.replaceChildren(failure(e, wrong ? undefined : () => void this.load(), wrong ? [{ text: "Show all segments", primary: true, on: () => { write({ from: "", to: "", stream: "" }); this.streams.value = ""; void this.load(); } }] : []));
    this.table.replaceChildren(h("p", { class: "muted cardpad" }, "–"));
  }

  private draw(d: Ownership) {
    this.colours.nodes = d.members.map((o) => o.id);
    this.whatif.nodes = d.members;
    this.lookup.redraw();
    this.figure(d);
    this.table.replaceChildren(d.members.length > 0 ? membersTable(d.members, this.colours) : empty({ title: "No node owns segments", icon: "server", text: "No node with the role querier is there. Its segments are in the object store; the first querier that comes owns all of them." }));
    if (d.members.length === 1) this.notes.replaceChildren(banner("info", `Node ${visible(d.members[0]!.id)} owns every segment: it is the only node that runs queries. Under “What if” you see what another one would take over.`));
    this.note.textContent = "";
    if (d.segments === 0) this.heat.replaceChildren(empty({ title: "No segments yet", icon: "grid-3x3", text: "Records are in the write-ahead log until they are flushed; each flush makes segments, and each segment has one owner." }));
    else if (d.members.length === 0) this.heat.replaceChildren(empty({ title: `${plural(d.segments, "segment")} without an owner`, icon: "grid-3x3", text: "Start a node with the role querier." }));
    else {
      this.note.textContent = `${width(d.heatmap.bucket_seconds)} a column`;
      this.map.data = d;
      if (this.map.parentElement !== this.heat) this.heat.replaceChildren(this.map);
      const shown = d.heatmap.rows.reduce((sum, r) => sum + r.segments.reduce((a, b) => a + b, 0), 0);
      if (shown === 0) this.heat.replaceChildren(empty({ title: "No segment in this time", icon: "clock", text: `The ${plural(d.segments, "segment")} end before or after it.`, actions: [{ text: "Show all times", primary: true, on: () => this.look("", "") }] }));
    }
    announce(`${plural(d.segments, "segment")}, ${plural(d.members.length, "owner")}`);
  }

  private figure(d: Ownership) {
    const cpu = d.members.reduce((sum, o) => sum + o.weight, 0), warm = warmth(d.members), off = d.members.reduce((m, o) => (Math.abs(deviation(o)) > Math.abs(m) ? deviation(o) : m), 0);
    const cached = d.members.filter((o) => o.cached_bytes !== undefined), q = read();
    const list: [string, string, string][] = [
      ["Segments", count(d.segments), bytes(d.bytes)],
      ["Owners", count(d.members.length), vcpu(cpu)],
      ["Largest deviation", d.segments > 0 && d.members.length > 1 ? signed(off) : "–", "of a weight’s share"],
      ["Cached", cached.length > 0 ? bytes(cached.reduce((sum, o) => sum + o.cached_bytes!, 0)) : "–", cached.length < d.members.length ? `${count(cached.length)} of ${count(d.members.length)} nodes tell` : "of all organizations"],
      ["Cache warm", warm === undefined ? "–" : percent(warm / 100), warm === undefined ? "no node tells" : "of what is owned"],
      ["Shown", q.get("from") && d.heatmap.start ? spanLabel({ start: Date.parse(d.heatmap.start), end: Date.parse(d.heatmap.end!) }) : "All times", !q.get("from") && d.heatmap.start ? `since ${formatTime(d.heatmap.start, { time: false })}` : ""],
    ];
    this.figures.replaceChildren(...list.map(([k, v, more]) => h("div", { class: "stat" }, h("dt", null, k), h("dd", { class: "num" }, v, more && h("small", null, more)))));
  }
}

/** logs/app: the signal and the name of a stream, as the address has them. */
function split(t: string): [string, string] {
  const at = t.indexOf("/");
  return at > 0 ? [t.slice(0, at), t.slice(at + 1)] : ["", ""];
}

function width(seconds: number): string {
  const [n, unit] = seconds >= 86400 ? [seconds / 86400, "d"] : seconds >= 3600 ? [seconds / 3600, "h"] : seconds >= 60 ? [seconds / 60, "min"] : [seconds, "s"];
  return `${n >= 9.95 ? Math.round(n) : Number(n.toPrecision(2))} ${unit}`;
}

new OwnershipPage($("#app")!);
