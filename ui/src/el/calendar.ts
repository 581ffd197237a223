// A month of days. The first day that is chosen begins a range of whole days, the second ends it.
import { announce } from "../lib/a11y.ts";
import { boot } from "../lib/boot.ts";
import { button, h } from "../lib/dom.ts";
import { formatTime, now, type Span } from "../lib/time.ts";
import { weekStart } from "../lib/range.ts";
import { add, civil, floor } from "../lib/zone.ts";

export class Calendar {
  readonly el = h("div", { class: "cal" });
  private month: number; // its first moment
  private first: number | undefined; // the day chosen first
  private focused: number;

  constructor(private zone: string, private span: Span | undefined, private on: (s: Span) => void) {
    this.focused = floor(span ? span.end - 1 : now(), "d", zone);
    this.month = floor(this.focused, "M", zone);
    this.draw();
  }

  private day(t: number, n: number) { return floor(add(t, n, "d", this.zone), "d", this.zone); }
  private end(t: number) { return this.day(t, 1); }

  private go(months: number) {
    this.month = add(this.month, months, "M", this.zone);
    this.focused = this.month;
    this.draw();
  }

  private pick(t: number) {
    this.focused = t;
    if (this.first === undefined) this.first = t;
    const from = Math.min(this.first, t), to = Math.max(this.first, t);
    announce(this.first === t ? `From ${this.text(t)}; choose the last day` : `${this.text(from)} to ${this.text(to)}`);
    if (this.first !== t || this.span?.start === t) this.first = undefined;
    this.span = { start: from, end: this.end(to) };
    this.draw(true);
    this.on(this.span);
  }

  private text(t: number) { return new Intl.DateTimeFormat(undefined, { timeZone: this.zone, weekday: "long", day: "numeric", month: "long", year: "numeric" }).format(t); }

  private key(e: KeyboardEvent) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 }[e.key];
    const months = { PageUp: -1, PageDown: 1 }[e.key];
    if (by === undefined && months === undefined) return;
    e.preventDefault();
    this.focused = by !== undefined ? this.day(this.focused, by) : floor(add(this.focused, months!, "M", this.zone), "d", this.zone);
    this.month = floor(this.focused, "M", this.zone);
    this.draw(true);
  }

  private draw(focus = false) {
    const start = floor(this.month, "w", this.zone, weekStart(boot.prefs.week_start)), m = civil(this.month, this.zone).month, today = floor(now(), "d", this.zone);
    const names = Array.from({ length: 7 }, (_, i) => this.day(start, i));
    const weekday = (t: number, width: "short" | "long") => new Intl.DateTimeFormat(undefined, { timeZone: this.zone, weekday: width }).format(t);
    const cell = (t: number) => {
      const c = civil(t, this.zone), inside = this.span && t < this.span.end && this.end(t) > this.span.start;
      return h("td", { role: "gridcell", "aria-selected": String(!!inside) }, h("button", { type: "button", tabindex: t === this.focused ? "0" : "-1", class: `${c.month === m ? "" : "out"} ${inside ? "in" : ""} ${t === today ? "now" : ""}`.trim() || null,
        "aria-label": this.text(t), "aria-current": t === today ? "date" : null, onclick: () => this.pick(t) }, String(c.day)));
    };
    const weeks = Array.from({ length: 6 }, (_, w) => h("tr", { role: "row" }, Array.from({ length: 7 }, (_, i) => cell(this.day(start, w * 7 + i)))));
    const title = new Intl.DateTimeFormat(undefined, { timeZone: this.zone, month: "long", year: "numeric" }).format(this.month);
    this.el.replaceChildren(
      h("div", { class: "cal-hd" }, button({ icon: "chevron-left", label: "Month before", cls: "ghost icon sm", on: () => this.go(-1) }), h("span", { "aria-live": "polite" }, title), button({ icon: "chevron-right", label: "Next month", cls: "ghost icon sm", on: () => this.go(1) })),
      h("table", { role: "grid", "aria-label": `${title}, times in ${this.zone}, today is ${formatTime(now(), { time: false, zone: this.zone })}`, onkeydown: (e: KeyboardEvent) => this.key(e) },
        h("thead", null, h("tr", { role: "row" }, names.map((t) => h("th", { scope: "col", abbr: weekday(t, "long") }, weekday(t, "short").slice(0, 2))))), h("tbody", null, weeks)));
    if (focus) this.el.querySelector<HTMLElement>('td button[tabindex="0"]')?.focus();
  }
}
