// The page Nodes: the cluster as a map or a table, live.
import "../app.ts";
import { announce } from "../lib/a11y.ts";
import { type ApiError } from "../lib/api.ts";
import { $, button, h, icon, sentence, visible } from "../lib/dom.ts";
import { bytes, count, duration, plural, short } from "../lib/format.ts";
import { bind } from "../lib/keys.ts";
import { banner, empty, failure, skeleton, told } from "../lib/states.ts";
import { onNavigate, read, write } from "../lib/url.ts";
import { drain } from "../nodes/drain.ts";
import { Feed } from "../nodes/feed.ts";
import { NodeMap } from "../nodes/map.ts";
import { ageText, bytesPerSecond, Cluster, type ClusterNode, perSecond, states } from "../nodes/model.ts";
import { panel } from "../nodes/panel.ts";
import { NodeTable } from "../nodes/table.ts";

const staleAfter = 12_000; // ms without an event, which come every 5 s

class NodesPage {
  private c = new Cluster();
  private view: "map" | "table" = "map";
  private chosen = "";
  private untouched = true; // the only node's panel opens by itself
  private said = new Map<string, string>(); // states that were announced
  private trouble = "";
  private lost: ApiError | undefined;
  private map = new NodeMap(this.c, (id) => this.choose(id));
  private table = new NodeTable(this.c, (id) => this.choose(id));
  private views: HTMLButtonElement[];
  private live = button({ icon: "activity", text: "Live", "aria-pressed": "true", on: () => this.pause(!this.feed.paused) });
  private figures = h("dl", { class: "stats" });
  private notes = h("div", { class: "notes" });
  private legend: HTMLElement;
  private main = h("div", { class: "cl-main", "aria-busy": "true" }, skeleton(8));
  private side = h("aside", { class: "side", "aria-label": "Node", hidden: true });
  private due = false; // news has come that is not drawn yet
  private note = "";
  private told = "";
  private feed: Feed;

  constructor(private app: HTMLElement) {
    this.views = ([["map", "Map", "route"], ["table", "Table", "table-2"]] as const).map(([v, text, ic]) => h("button", { type: "button", "data-v": v, onclick: () => this.show(v) }, icon(ic, "s"), text));
    const head = $("#page-title")!;
    head.classList.remove("vh");
    const key = (cls: string, text: string) => h("span", null, h("i", { class: cls }), text);
    this.legend = h("div", { class: "mlegend" }, key("cpu", "CPU"), key("mem", "Memory"), key("w", "Writes"), key("q", "Queries"), key("m", "Object reads"));
    app.replaceChildren(
      h("div", { class: "pagehead" }, head, h("div", { class: "seg", role: "group", "aria-label": "View" }, this.views), h("span", { class: "spacer" }), this.legend, this.live),
      h("div", { class: "statband", tabindex: "0", role: "region", "aria-label": "Figures of the cluster" }, this.figures), this.notes, h("div", { class: "clwrap" }, this.main, this.side));
    app.setAttribute("aria-busy", "false");
    this.fromUrl();
    onNavigate(() => { this.fromUrl(); this.draw(); });
    bind([
      { key: "v", label: "Map or table", group: "Nodes", run: () => this.show(this.view === "map" ? "table" : "map") },
      { key: "p", label: "Pause or go on", group: "Nodes", run: () => this.pause(!this.feed.paused) },
      { key: "Escape", label: "Close the details", group: "Nodes", run: () => this.choose("") },
    ]);
    this.feed = new Feed({ nodes: (list) => this.take(list), trouble: (text) => { this.trouble = text; this.lost = undefined; this.map.trouble = text; this.redraw(); }, lost: (e) => { this.lost = e; this.redraw(); } });
    this.feed.start();
    setInterval(() => { if (!document.hidden) this.tick(); }, 1000);
  }

  private fromUrl() {
    const q = read(), v = q.get("view");
    this.view = v === "table" || v === "map" ? v : innerWidth <= 720 ? "table" : "map";
    this.chosen = q.get("node") ?? "";
    if (this.chosen) this.untouched = false;
  }

  private show(v: "map" | "table") {
    this.view = v;
    write({ view: v }, "replace");
    this.draw();
  }

  private take(list: ClusterNode[]) {
    this.trouble = this.map.trouble = "";
    this.lost = undefined;
    this.c.take(list);
    this.announceChanges();
    if (this.untouched && list.length === 1 && innerWidth > 1080) this.chosen = list[0]!.id;
    this.redraw();
  }

  /** Draws what was told; later if the reader holds something down now, whose click would be lost. */
  private redraw() {
    if (this.pressed) this.due = true;
    else this.draw();
  }

  private get pressed() { return this.main.matches(":active") || this.side.matches(":active"); }

  /** Tells of nodes that came, went or changed; the first list is no news. */
  private announceChanges() {
    const now = new Map(this.c.nodes.map((n) => [n.id, states[this.c.state(n)].text])), news: string[] = [];
    if (this.said.size > 0) {
      for (const [id, text] of now) if (this.said.get(id) !== text) news.push(`${id} is ${text}`);
      for (const id of this.said.keys()) if (!now.has(id)) news.push(`${id} has left`);
    }
    this.said = now;
    if (news.length > 0) announce(news.slice(0, 5).join(", "));
  }

  private choose(id: string) {
    const back = this.chosen;
    this.untouched = false;
    this.chosen = id === this.chosen ? "" : id;
    write({ node: this.chosen }, "replace");
    this.draw();
    if (this.chosen) $("#node-h", this.side)?.focus();
    else if (back) $(`[data-node="${CSS.escape(back)}"]`, this.main)?.focus();
  }

  private pause(on: boolean) {
    this.feed.pause(on);
    this.live.setAttribute("aria-pressed", String(!on));
    this.live.lastChild!.textContent = on ? "Paused" : "Live";
    announce(on ? "Paused" : "Live");
    this.tick();
  }

  private draw() {
    this.due = false;
    for (const b of this.views) b.setAttribute("aria-pressed", String(b.dataset.v === this.view));
    this.legend.hidden = this.view === "table";
    this.map.selected = this.table.selected = this.c.node(this.chosen) ? this.chosen : "";
    this.warn();
    if (this.c.at === 0) {
      const told = this.lost?.message ?? this.trouble;
      if (told === this.told) return; // what is said already stays, with the button that has the focus
      this.told = told;
      if (this.lost) this.main.replaceChildren(failure(this.lost, () => this.feed.start()));
      else if (this.trouble) this.main.replaceChildren(empty({ title: "The nodes cannot be read", icon: "database", text: this.trouble }));
      this.main.setAttribute("aria-busy", String(!this.lost && !this.trouble));
      return;
    }
    this.main.setAttribute("aria-busy", "false");
    this.figure();
    const el = this.c.nodes.length === 0 ? empty({ title: "No node has sent a heartbeat", icon: "server", text: "Nodes are listed from their first heartbeat on." }) : this.view === "map" ? this.map.el : this.table.el;
    if (el !== this.main.firstElementChild || this.main.childElementCount !== 1) this.main.replaceChildren(el);
    if (this.view === "map") this.map.draw(); else this.table.draw();
    this.details();
  }

  private figure() {
    const c = this.c, up = c.nodes.filter((n) => n.state === "up").length, rates = c.nodes.some((n) => n.load?.rates), versions = [...new Set(c.nodes.map((n) => n.version))];
    const newest = versions.sort((a, b) => count2(c, b) - count2(c, a))[0] ?? "–", others = c.nodes.filter((n) => n.version !== newest).length;
    const asked = c.sum((n) => c.asked(n.id));
    const list: [string, string, string][] = [
      ["Nodes", count(c.nodes.length), `${count(up)} up`],
      ["Ingest", rates ? perSecond(c.sum((n) => n.load?.rates?.rows_per_second), "rows") : "–", rates ? `${bytesPerSecond(c.sum((n) => n.load?.rates?.stored_bytes_per_second))} stored` : ""],
      ["Queries", `${count(c.sum((n) => n.load?.queries_running))} running`, asked > 0 ? `${short(asked)}/s forwarded` : ""],
      ["Object reads", rates ? bytesPerSecond(c.sum((n) => n.load?.rates?.fetched_bytes_per_second)) : "–", ""],
      ["Unflushed", bytes(c.sum((n) => n.load?.unflushed_bytes)), ""],
      ["Version", visible(newest), others > 0 ? `${plural(others, "node")} on ${versions.length === 2 ? visible(versions[1]!) : "others"}` : ""],
    ];
    this.figures.replaceChildren(...list.map(([k, v, more]) => h("div", { class: "stat" }, h("dt", null, k), h("dd", { class: "num" }, v, more && h("small", null, more)))));
  }

  private details() {
    const n = this.c.node(this.chosen), place = this.side.querySelector(".scroll")?.scrollTop ?? 0, at = document.activeElement as HTMLElement | null;
    this.side.hidden = !n;
    this.side.parentElement!.classList.toggle("open", n !== undefined);
    if (!n) { this.side.replaceChildren(); return; }
    const held = at && this.side.contains(at) ? (at.id ? `#${at.id}` : at.textContent ?? at.getAttribute("aria-label") ?? "") : undefined;
    this.side.replaceChildren(...panel(this.c, n, { close: () => this.choose(""), drain: (node) => void drain(this.c, node), choose: (id) => this.choose(id) }));
    this.side.querySelector(".scroll")!.scrollTop = place;
    if (held === undefined) return;
    const again = held.startsWith("#") ? this.side.querySelector<HTMLElement>(held) : [...this.side.querySelectorAll<HTMLElement>("button,a,[tabindex]")].find((e) => (e.textContent || e.getAttribute("aria-label")) === held || e.className === at!.className);
    again?.focus({ preventScroll: true });
  }

  /** What is wrong with the list itself: it is old, or the database does not give it. */
  private warn() {
    const old = Date.now() - this.c.at, since = this.c.at ? duration(Math.floor(old / 1000) * 1e9) : "";
    let text = "";
    if (this.c.at === 0 || this.feed?.paused) text = "";
    else if (this.trouble) text = `The nodes cannot be read: ${this.trouble}. What is shown is ${since} old.`;
    else if (old > staleAfter) text = `${this.lost ? told(this.lost) : "The node sends no news."} What is shown is ${since} old; it is tried again.`;
    this.app.classList.toggle("stale", text !== "");
    if (text === this.note) return;
    const kept = this.notes.querySelector(".banner span");
    if (text && this.note && kept) kept.textContent = sentence(text); // the same alert grows older without being read out again
    else this.notes.replaceChildren(...(text ? [banner("warn", text)] : []));
    this.notes.querySelector(".banner")?.setAttribute("aria-live", "off");
    if (text && !this.note) announce(text);
    this.note = text;
  }

  private tick() {
    if (this.pressed) return;
    if (this.due) this.draw();
    if (this.c.at === 0) return;
    this.warn();
    if (this.feed.paused || this.trouble || Date.now() - this.c.at > staleAfter) return; // ages that grow by themselves would be guesses
    if (this.view === "map") this.map.tick(); else this.table.draw();
    const n = this.c.node(this.chosen), age = n && this.side.querySelector("[data-age]");
    if (age) age.textContent = `Age ${ageText(this.c.age(n))}`;
  }
}

const count2 = (c: Cluster, version: string) => c.nodes.filter((n) => n.version === version).length;

new NodesPage($("#app")!);
