// <ms-time>: the range of time of a page. Buttons for earlier, the range, later and refresh; the range's pop-over has a text field, quick and recent ranges, a
// calendar, the zone and the refresh interval. The page owns the range: what the reader chooses comes out as events.
import { boot } from "../lib/boot.ts";
import { button, h, icon, mac, sentence } from "../lib/dom.ts";
import { place, toast } from "../lib/layers.ts";
import { findTimes, formatTime, fromSpan, isFault, now, parseRange, type Range, relativeLabel, resolve, type Span, spanLabel, zone, zoneLabel, zoneOf } from "../lib/time.ts";
import { check } from "../lib/range.ts";
import { Calendar } from "./calendar.ts";

const quick = ["5m", "15m", "30m", "1h", "3h", "6h", "12h", "24h", "2d", "7d", "30d", "today", "yesterday", "this week", "last week", "this month"];
const intervals: [string, string][] = [["", "Off"], ["5s", "5 s"], ["10s", "10 s"], ["30s", "30 s"], ["1m", "1 min"], ["5m", "5 min"], ["15m", "15 min"]];
const seconds = (every: string) => (/^\d+(s|m)$/.test(every) ? Number.parseInt(every, 10) * (every.endsWith("m") ? 60 : 1) : 0);
const recentKey = "ms.ranges";

function recent(): Range[] {
  try {
    return (JSON.parse(localStorage.getItem(recentKey) ?? "[]") as Range[]).filter((r) => !isFault(check(r, { now: now(), zone: zone() }))).slice(0, 8);
  } catch {
    return [];
  }
}

export class TimeControl extends HTMLElement {
  private range: Range = { from: "now-15m", to: "now" };
  private tzName = "";
  private every = "";
  private isLive = false;
  private timer = 0;
  private last = Date.now();
  private pop: HTMLElement | undefined;
  private readonly label = h("span", { class: "ell" });
  private readonly zoneText = h("span", { class: "muted hide-s tm-zone" });
  private readonly earlier = button({ icon: "chevron-left", label: "Earlier by half the range", cls: "icon hide-s", on: () => this.shift(-1) });
  private readonly later = button({ icon: "chevron-right", label: "Later by half the range", cls: "icon hide-s", on: () => this.shift(1) });
  private readonly main = h("button", { type: "button", class: "btn", "aria-haspopup": "dialog", "aria-expanded": "false", onclick: () => (this.pop ? this.close() : this.open()) }, icon("clock", "s"), this.label, this.zoneText);
  private readonly again = button({ icon: "refresh-cw", label: "Refresh", cls: "icon", on: () => this.emit("ms:refresh", { now: true }) });
  private readonly everyText = h("span", { class: "tm-every" });

  connectedCallback() {
    if (!this.firstChild) {
      this.again.append(this.everyText);
      this.append(h("div", { class: "btngroup", role: "group", "aria-label": "Time range" }, this.earlier, this.main, this.later, this.again));
    }
    this.show();
    this.timer = window.setInterval(() => this.tick(), 1000);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
    this.close(false);
  }

  get value() { return this.range; }
  set value(r: Range) { this.range = { from: r.from, to: r.to }; this.show(); }
  /** The zone's name as the URL has it; empty is the reader's own. */
  get tz() { return this.tzName; }
  set tz(name: string) { this.tzName = name; this.show(); }
  /** How often to refresh: "10s", "1m"; empty is never. While the page is hidden nothing is refreshed. */
  get refresh() { return this.every; }
  set refresh(every: string) { this.every = seconds(every) ? every : ""; this.last = Date.now(); this.show(); }
  /** While a page follows new data, the range has no meaning. */
  get live() { return this.isLive; }
  set live(on: boolean) { this.isLive = on; this.show(); }

  private get zoneName() { return this.tzName ? zoneOf(this.tzName) : zone(); }

  private show() {
    this.label.textContent = relativeLabel(this.range, { zone: this.zoneName });
    this.zoneText.textContent = this.zoneName === "UTC" ? "UTC" : this.zoneName.split("/").pop()!.replaceAll("_", " ");
    this.main.title = this.absolute();
    for (const b of [this.earlier, this.main, this.later]) b.hidden = this.isLive;
    this.everyText.textContent = intervals.find(([v]) => v === this.every && v)?.[1] ?? this.every;
    this.again.classList.toggle("icon", !this.every);
    const say = this.every ? `Refresh, now every ${this.everyText.textContent}` : "Refresh";
    this.again.setAttribute("aria-label", say);
    this.again.title = say;
  }

  private absolute(r = this.range): string {
    const s = check(r, { now: now(), zone: this.zoneName });
    return isFault(s) ? s.error : `${spanLabel(s, { zone: this.zoneName, now: 0 })} ${this.zoneName}`;
  }

  private tick() {
    const wait = seconds(this.every) * 1000;
    if (!wait || document.hidden || Date.now() - this.last < wait) return;
    this.last = Date.now();
    this.emit("ms:refresh", { now: true });
  }

  private emit(type: string, detail: unknown) { this.dispatchEvent(new CustomEvent(type, { bubbles: true, detail })); }

  private choose(r: Range) {
    this.value = r;
    try {
      localStorage.setItem(recentKey, JSON.stringify([r, ...recent().filter((x) => x.from !== r.from || x.to !== r.to)].slice(0, 8)));
    } catch { /* a private window: not remembered */ }
    this.emit("ms:range", r);
  }

  private span(): Span | undefined {
    const s = check(this.range, { now: now(), zone: this.zoneName });
    return isFault(s) ? undefined : s;
  }

  /** Moves by half of the range. */
  shift(by: -1 | 1) {
    const s = this.span();
    if (!s) return;
    const half = ((s.end - s.start) / 2) * by;
    this.choose(fromSpan({ start: s.start + half, end: s.end + half }));
  }

  /** Twice the range, around its middle, but not beyond now. */
  zoomOut() {
    const s = this.span();
    if (!s) return;
    const size = s.end - s.start, end = Math.max(s.end, Math.min(s.end + size / 2, now()));
    this.choose(fromSpan({ start: end - 2 * size, end }));
  }

  /** Takes moments, such as those that were marked in a chart. */
  setRange(s: Span) { this.choose(fromSpan(s)); }

  // ---- pop-over
  open() {
    if (this.isLive || this.pop) return;
    const pop = h("div", { class: "timepop", popover: "auto", role: "dialog", "aria-label": "Time range", oncopy: (e: ClipboardEvent) => this.copyRange(e) }, this.left(), this.right());
    this.pop = pop;
    this.append(pop);
    pop.addEventListener("toggle", (e) => { if ((e as ToggleEvent).newState === "closed" && this.pop === pop) this.close(); });
    pop.showPopover();
    place(pop, this.main);
    const r = pop.getBoundingClientRect(), a = this.main.getBoundingClientRect();
    pop.style.left = `${Math.max(8, Math.min(a.right - r.width, innerWidth - r.width - 8))}px`;
    this.main.setAttribute("aria-expanded", "true");
    const field = pop.querySelector("input")!;
    field.focus();
    field.select();
  }

  close(focus = true) {
    const pop = this.pop;
    if (!pop) return;
    this.pop = undefined;
    const inside = pop.contains(document.activeElement) || document.activeElement === document.body;
    pop.remove();
    this.main.setAttribute("aria-expanded", "false");
    if (focus && inside) this.main.focus();
  }

  private take(r: Range) {
    this.close();
    this.choose(r);
  }

  private left() {
    const id = "tm-text", note = h("p", { class: "tm-note", id: "tm-note", role: "status" });
    const field = h("input", { class: "in mono", id, type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": "tm-note", value: this.text(this.range) });
    const read = () => {
      const r = parseRange(field.value, { zone: this.zoneName });
      const bad = isFault(r);
      field.setAttribute("aria-invalid", String(bad));
      note.classList.toggle("bad", bad);
      note.replaceChildren(...(bad ? [h("span", { class: "mono tm-caret", "aria-hidden": "true" }, " ".repeat(r.position) + "^"), `${sentence(r.error)}, at character ${r.position + 1}`] : [this.absolute(r)]));
      return bad ? undefined : r;
    };
    const apply = () => { const r = read(); if (r) this.take(r); else field.focus(); };
    field.addEventListener("input", read);
    field.addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); apply(); } });
    field.addEventListener("paste", (e) => {
      const text = e.clipboardData?.getData("text") ?? "";
      const r = isFault(parseRange(text, { zone: this.zoneName })) ? findTimes(text, { zone: this.zoneName }) : undefined;
      if (!r) return;
      e.preventDefault();
      field.value = `${r.from} to ${r.to}`;
      read();
    });
    read();
    const calendar = new Calendar(this.zoneName, this.span(), (s) => { field.value = this.text(fromSpan(s)); read(); });
    return h("div", { class: "tm-left" },
      h("div", { class: "field" }, h("label", { for: id }, "From and to"), h("div", { class: "row" }, field, button({ text: "Apply", cls: "primary", on: apply })), note),
      calendar.el,
      h("div", { class: "row tm-tools" },
        button({ label: "Earlier", icon: "chevron-left", cls: "icon sm", on: () => { this.close(); this.shift(-1); } }), button({ label: "Later", icon: "chevron-right", cls: "icon sm", on: () => { this.close(); this.shift(1); } }),
        button({ text: "Zoom out", icon: "zoom-out", cls: "sm", on: () => { this.close(); this.zoomOut(); } }), button({ text: "Copy", icon: "copy", cls: "sm ml", title: `Copy the range (${mac ? "⌘C" : "Ctrl C"})`, on: () => void this.copyRange() })));
  }

  /** What the field shows of a range: relative as it is, absolute on the clock of the zone. */
  private text(r: Range): string {
    if (/^(now|all)/.test(r.from) || /^now/.test(r.to)) {
      const known = quick.find((q) => { const p = parseRange(q, { zone: this.zoneName }); return !isFault(p) && p.from === r.from && p.to === r.to; });
      return r.from === "all" ? "all" : known ?? `${r.from} to ${r.to}`;
    }
    const s = check(r, { now: now(), zone: this.zoneName });
    return isFault(s) ? `${r.from} to ${r.to}` : `${this.exact(s.start)} to ${this.exact(s.end)}`;
  }
  /** A wall clock when it names one moment only, else UTC. */
  private exact(t: number): string {
    const c = { date: true, seconds: t % 60_000 !== 0, ms: t % 1000 !== 0, zone: this.zoneName };
    const text = formatTime(t, c);
    const back = parseRange(`${text} to 2261-12-31`, { zone: this.zoneName }), late = parseRange(`1678-01-02 to ${text}`, { zone: this.zoneName });
    return !isFault(back) && !isFault(late) && Date.parse(back.from) === t && Date.parse(late.to) === t ? text : new Date(t).toISOString();
  }

  private right() {
    const item = (r: Range, text: string) => h("button", { type: "button", class: "tm-item", "aria-current": r.from === this.range.from && r.to === this.range.to ? "true" : null, onclick: () => this.take(r) }, text);
    const quicks = quick.flatMap((q) => { const r = parseRange(q, { zone: this.zoneName }); return isFault(r) ? [] : [item(r, relativeLabel(r))]; });
    const past = recent().filter((r) => !quick.some((q) => { const p = parseRange(q); return !isFault(p) && p.from === r.from && p.to === r.to; }));
    const zones = h("select", { class: "in", id: "tm-tz", onchange: (e: Event) => { const v = (e.target as HTMLSelectElement).value; this.tz = v; this.close(); this.emit("ms:tz", { tz: v }); } }, this.zones());
    const every = h("select", { class: "in", id: "tm-every", onchange: (e: Event) => { const v = (e.target as HTMLSelectElement).value; this.refresh = v; this.emit("ms:refresh", { every: v }); } },
      intervals.map(([v, text]) => h("option", { value: v, selected: v === this.every }, text)));
    return h("div", { class: "tm-right" },
      h("section", { "aria-label": "Quick ranges" }, h("h2", null, "Quick ranges"), h("div", { class: "tm-list" }, quicks)),
      past.length > 0 && h("section", { "aria-label": "Recent ranges" }, h("h2", null, "Recent"), h("div", { class: "tm-list one" }, past.map((r) => item(r, relativeLabel(r, { zone: this.zoneName }))))),
      h("div", { class: "field" }, h("label", { for: "tm-tz" }, "Time zone"), zones),
      h("div", { class: "field" }, h("label", { for: "tm-every" }, "Refresh every"), every));
  }

  private zones() {
    const own = zoneOf(boot.prefs.time_zone), browser = zoneOf("browser");
    const first = [["", `Yours: ${zoneLabel(own)}`], ["UTC", "UTC"], ...(browser !== own && browser !== "UTC" ? [[browser, `This browser: ${zoneLabel(browser)}`]] : [])];
    const all = Intl.supportedValuesOf("timeZone").filter((z) => z !== "UTC");
    if (this.tzName && this.tzName !== "UTC" && !all.includes(this.tzName)) all.unshift(this.tzName); // another name of one of them
    const option = (v: string, text: string) => h("option", { value: v, selected: v === this.tzName }, text);
    return [...first.map(([v, text]) => option(v!, text!)), h("optgroup", { label: "All zones" }, all.map((z) => option(z, z)))];
  }

  /** Copies the range in UTC; text that is selected is copied as usual. */
  private copyRange(e?: ClipboardEvent) {
    const active = document.activeElement;
    if (e && ((getSelection()?.toString() ?? "") || (active instanceof HTMLInputElement && active.selectionStart !== active.selectionEnd))) return;
    const { start, end } = resolve(this.range, { zone: this.zoneName });
    const text = `${new Date(start).toISOString()} to ${new Date(end).toISOString()}`;
    if (e?.clipboardData) {
      e.preventDefault();
      e.clipboardData.setData("text/plain", text);
      toast("Range copied");
      return;
    }
    navigator.clipboard?.writeText(text).then(() => toast("Range copied"), () => toast("The browser does not let this page copy", { error: true }));
  }
}
customElements.define("ms-time", TimeControl);
