// Following new records as they arrive. Newest on top; scrolling away pauses, and what arrives meanwhile is counted.
import { ApiError, explain, request } from "../lib/api.ts";
import { announce } from "../lib/a11y.ts";
import { button, h, icon } from "../lib/dom.ts";
import { count, plural } from "../lib/format.ts";
import { costIdle } from "./cost.ts";
import { columnsOf } from "./columns.ts";
import type { LogsPage } from "./page.ts";
import { ObjectRow, rolesOf, type Row } from "./record.ts";

const keep = 2000; // rows in the list, and rows that wait
const every = 250; // ms between additions to the list
const countEvery = 1000; // ms between counts of the histogram
const backOff = [1, 2, 4, 8, 15]; // s

export class Tail {
  on = false;
  private abort: AbortController | undefined;
  private waiting: Row[] = []; // newest last
  private uncounted: Row[] = []; // not in the histogram yet
  private counted = 0; // when the histogram was counted last
  private missed = 0; // while paused, beyond what waits
  private gap = ""; // why records may be missing, as the node told last
  private dropped = 0; // by the node, because this page was too slow
  private arrived: [number, number][] = []; // when how many came, of the last 5 s
  private timer = 0;
  private said = "";
  private lastRow = 0;

  constructor(private page: LogsPage) {}

  start() {
    const p = this.page;
    if (this.on || p.where() === undefined) return;
    this.on = true;
    this.dropped = this.missed = 0;
    this.gap = "";
    this.waiting = [];
    this.uncounted = [];
    this.arrived = [];
    this.abort = new AbortController();
    p.head.live.setAttribute("aria-pressed", "true");
    p.head.time.live = true;
    p.rows = p.state.sort.key === "_timestamp" && p.state.sort.desc ? p.rows.slice(0, keep) : [];
    p.results.setRows(p.rows);
    p.results.liveBar.hidden = false;
    costIdle(p.head.cost, "Following new records.");
    this.timer = window.setInterval(() => this.tick(), every);
    announce("Following new records");
    void this.follow(this.abort.signal);
    this.draw();
  }

  stop(leaving = false) {
    if (!this.on) return;
    this.on = false;
    this.abort?.abort();
    clearInterval(this.timer);
    if (leaving) return;
    this.count();
    const p = this.page;
    p.head.live.setAttribute("aria-pressed", "false");
    p.head.time.live = false;
    p.results.liveBar.hidden = true;
    costIdle(p.head.cost, "Stopped following.");
    announce("Stopped following");
  }

  private async follow(signal: AbortSignal) {
    const p = this.page;
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        const q = new URLSearchParams({ stream: p.stream });
        if (p.where()) q.set("filter", p.where()!);
        const res = await request(`/query/tail?${q}`, { signal, accept: "text/event-stream" });
        this.said = "";
        await this.read(res, signal, () => { tries = 0; });
        if (!signal.aborted) throw new ApiError(0, "cut", "The connection ended.");
      } catch (e) {
        const err = explain(e);
        if (signal.aborted) return;
        if (err.status >= 400 && err.status < 500 && err.status !== 429) { this.stop(); p.results.fail(err, () => { void p.run("none"); }); return; }
        const wait = Math.max(err.retryAfter, backOff[Math.min(tries, backOff.length - 1)]!);
        for (let s = wait; s > 0 && !signal.aborted; s--) { this.said = `Connection lost, retrying in ${s} s`; this.draw(); await new Promise((r) => setTimeout(r, 1000)); }
      }
    }
  }

  private async read(res: Response, signal: AbortSignal, alive: () => void) {
    const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    while (!signal.aborted) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      rest += value;
      const events = rest.split("\n\n");
      rest = events.pop()!;
      for (const e of events) this.event(e);
    }
  }

  private event(text: string) {
    let type = "message";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) type = line.slice(7);
      else if (line.startsWith("data: ")) {
        const data = JSON.parse(line.slice(6));
        if (type === "dropped") this.dropped += data.dropped;
        else if (type === "gap") this.gap = data.reason;
        else if (type === "records") this.take((data as Record<string, unknown>[]).map((o) => new ObjectRow(o)));
      }
    }
  }

  private take(rows: Row[]) {
    this.arrived.push([Date.now(), rows.length]);
    this.lastRow = Date.now();
    this.uncounted.push(...rows);
    this.waiting.push(...rows);
    if (this.waiting.length > keep) { const over = this.waiting.length - keep; this.waiting.splice(0, over); this.missed += over; }
  }

  get paused() { return !this.page.results.grid.atTop; }

  private tick() {
    if (!this.paused && this.waiting.length && !document.hidden) this.flush();
    if (Date.now() - this.counted >= countEvery) this.count();
    this.draw();
  }

  private count() {
    this.counted = Date.now();
    this.page.results.countOn(this.uncounted, this.dropped > 0);
    this.uncounted = [];
  }

  private flush() {
    const p = this.page, list = this.waiting.reverse();
    this.waiting = [];
    if (!p.roles.message && !p.roles.level) { // the first records of a stream whose fields are not known yet
      const has = new Set(list.slice(0, 50).flatMap((r) => r.entries().map(([k]) => k)));
      p.roles = rolesOf((f) => has.has(f));
      p.results.setColumns(columnsOf({ roles: p.roles, marks: p.marks, cols: p.state.cols, wrap: p.state.wrap, widths: p.widths, withDate: false }));
    }
    p.results.grid.total = 0;
    p.results.grid.prependRows(list, keep); // the list is the page's own array
    p.results.foot();
  }

  /** Back to the newest. */
  resume() {
    this.missed = 0;
    this.page.results.grid.scrollToRow(0);
    this.flush();
    this.draw();
  }

  private draw() {
    const now = Date.now();
    this.arrived = this.arrived.filter(([t]) => now - t < 5000);
    const rate = this.arrived.reduce((sum, [, n]) => sum + n, 0) / 5, waiting = this.waiting.length + this.missed;
    const quiet = this.lastRow ? Math.floor((now - this.lastRow) / 1000) : 0;
    const text = `${this.said}|${Math.round(rate * 10)}|${this.paused ? waiting : -1}|${this.dropped}|${this.gap}|${quiet > 15 ? quiet : 0}`;
    const bar = this.page.results.liveBar;
    if (bar.dataset.text === text) return;
    bar.dataset.text = text;
    bar.replaceChildren(
      this.said ? h("span", { class: "pill warn" }, icon("wifi-off", "xs"), this.said) : this.paused ? h("span", { class: "pill" }, "Paused") : h("span", { class: "pill ok" }, h("span", { class: "dot" }), "Live"),
      h("span", { class: "num muted" }, `${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} rows/s`), this.dropped ? h("span", { class: "num pill warn", title: "The node sends newer records instead when this page is too slow" }, `${count(this.dropped)} dropped`) : "",
      this.gap ? h("span", { class: "pill warn", title: this.gap }, "Gap") : "",
      quiet > 15 && !this.said ? h("span", { class: "pill" }, `Last record ${quiet} s ago`) : "", h("span", { class: "spacer" }),
      this.paused ? button({ text: `${plural(waiting, "new record", "new records")}`, icon: "arrow-up", cls: "sm primary", kbd: "L", on: () => this.resume() }) : "", button({ text: "Stop", icon: "square", cls: "sm", on: () => this.page.toggleLive() }));
  }
}
