// The drawer of a span: what it was, what belongs to it, and what was logged in it.
import { explain, json } from "../lib/api.ts";
import { boot, orgPath } from "../lib/boot.ts";
import { button, h, touch, visible } from "../lib/dom.ts";
import { ago, duration, percent, plural } from "../lib/format.ts";
import { copy, menu } from "../lib/layers.ts";
import { levelOf, shortLevel } from "../lib/level.ts";
import { formatTime, now } from "../lib/time.ts";
import type { Trace } from "./model.ts";
import { called, identifier, literal, logsOf, metricsOf, quoted, servicesOf, tracesOf } from "./links.ts";

interface Span { stream: string; span_id: string; parent_span_id?: string; name: string; kind?: string; service?: string; status?: string; status_message?: string; start: string; duration_ns: number; self_ns?: number; attributes: Record<string, unknown>; events?: unknown; links?: unknown }
interface Answer { columns: { name: string }[]; rows: unknown[][] }

// The prefixes of the attributes that OpenTelemetry describes the sender with.
const ofResource = /^(service|host|os|process|container|k8s|cloud|deployment|device|faas|telemetry|webengine|browser|heroku|aws)\./;

export interface DrawerActs { close: () => void; move: (by: number) => void; focus: (span: string) => void }

export class SpanDrawer {
  readonly el = h("aside", { class: "drawer span-drawer", "aria-label": "Span", hidden: true });
  private asked: AbortController | undefined;

  constructor(private t: Trace, private on: DrawerActs) {
    this.el.addEventListener("keydown", (e) => {
      if (e.key === "Escape") { e.stopPropagation(); on.close(); }
    });
  }

  get open() { return !this.el.hidden; }

  hide() {
    this.asked?.abort();
    this.el.hidden = true;
  }

  async show(i: number) {
    const t = this.t, id = t.id(i);
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    this.el.hidden = false;
    const body = h("div", { class: "dscroll", tabindex: "0", role: "region", "aria-label": "Details of the span" }, this.figures(i));
    const more = h("div", { class: "sd-more", "aria-busy": "true" });
    body.append(more);
    this.el.replaceChildren(this.head(i), body);
    try {
      const found = await json<{ spans: Span[] }>(`/query/traces/${t.c.trace_id}?span=${encodeURIComponent(id)}`, { signal: asked.signal });
      const span = found.spans[0]!;
      more.removeAttribute("aria-busy");
      more.replaceChildren(...this.sections(i, span, asked.signal));
    } catch (e) {
      const err = explain(e);
      if (err.code === "aborted") return;
      more.removeAttribute("aria-busy");
      more.replaceChildren(h("p", { class: "sd-p" }, `The rest of the span cannot be shown: ${err.message}`), button({ text: "Try again", icon: "refresh-cw", cls: "sm", on: () => void this.show(i) }));
    }
  }

  private head(i: number) {
    const t = this.t, title = visible(t.name(i));
    const go = button({ icon: "ellipsis", label: "Where this span leads", cls: "ghost icon sm", "aria-haspopup": "menu", "aria-expanded": "false", on: () => menu(go, [
      { text: "Copy span id", icon: "copy", on: () => void copy(t.id(i), "Span id copied") },
      { text: "Copy link to this span", icon: "link", on: () => { const u = new URL(location.href); u.searchParams.set("sel", t.id(i)); void copy(u.href, "Link copied"); } },
      { rule: true, text: "" },
      { text: "Traces of this operation", icon: "waypoints", href: tracesOf(t.service(i), t.name(i)) },
      { text: "Logs of this service", icon: "scroll-text", href: logsOf(t.service(i), this.around(i)) },
      { text: "Metrics of this service", icon: "chart-line", href: metricsOf(t.service(i), this.wide(i)) },
    ], { label: "Where this span leads" }) });
    return h("div", { class: "dh" }, h("span", { class: `sw sp-${t.error[i] ? "err" : "ok"}`, "aria-hidden": "true" }), h("h2", { class: "ell", title }, title), h("span", { class: "spacer" }),
      button({ icon: "chevron-up", label: "Previous span", cls: "ghost icon sm", on: () => this.on.move(-1) }), button({ icon: "chevron-down", label: "Next span", cls: "ghost icon sm", on: () => this.on.move(1) }), go, button({ icon: "x", label: "Close", cls: "ghost icon sm", on: () => this.on.close() }));
  }

  /** The time of the span with so many ms, a minute, before and after it, for links. */
  private around(i: number, ms = 60_000): [number, number] {
    const start = Date.parse(this.t.c.start) + this.t.c.spans.start[i]! / 1e6;
    return [start - ms, start + this.t.length(i) / 1e6 + ms];
  }

  /** The same for figures: what moved shows only beside what was before it and came after, as far as that is past. */
  private wide(i: number): [number, number] {
    const [from, to] = this.around(i, 30 * 60_000);
    return [from, Math.max(from + 30 * 60_000, Math.min(to, now()))];
  }

  private figures(i: number) {
    const t = this.t, start = Date.parse(t.c.start) + t.c.spans.start[i]! / 1e6;
    const pair = (k: string, ...v: (Node | string | false)[]) => [h("dt", null, k), h("dd", null, v.filter(Boolean) as (Node | string)[])];
    return h("dl", { class: "sd-kv" },
      pair("Service", h("a", { class: "link", href: servicesOf(t.service(i), this.around(i, 450_000)) }, called(t.service(i)))),
      pair("Kind", t.kind(i) || "internal"),
      pair("Status", t.error[i] ? h("span", { class: "pill err" }, "error") : t.status(i) || "unset"),
      pair("Started", `${formatTime(start, { ms: true })} `, h("span", { class: "muted" }, `${duration(t.start[i]!)} after the trace began, ${ago(start, now())}`)),
      pair("Duration", `${duration(t.length(i))} `, h("span", { class: "muted" }, `${percent(t.length(i) / t.duration)} of the trace`)),
      pair("Own time", `${duration(t.self(i))} `, h("span", { class: "muted" }, "in which no child was at work")),
      t.critical.has(i) && pair("Critical path", `${duration(t.critical.get(i)!.reduce((sum, [a, b]) => sum + b - a, 0))} `, h("span", { class: "muted" }, "the trace waited for it")),
      t.missing[i] === 1 && pair("Parent", "not among the stored spans"),
      t.skewed[i] === 1 && pair("Clock", `begins ${duration(t.c.spans.start[t.parent(i)]! - t.c.spans.start[i]!)} before its parent: the clocks differ`));
  }

  private sections(i: number, s: Span, signal: AbortSignal): Node[] {
    const all = Object.entries(s.attributes).filter(([k]) => k !== "start").sort(([a], [b]) => (a < b ? -1 : 1));
    const own = all.filter(([k]) => !ofResource.test(k) && !/^db\.(statement|query\.text)$/.test(k)), resource = all.filter(([k]) => ofResource.test(k));
    const statement = s.attributes["db.statement"] ?? s.attributes["db.query.text"];
    const events = list(s.events), links = list(s.links);
    const logs = section("Logs", h("div", { "aria-busy": "true" }));
    void this.logs(logs.querySelector("div")!, i, signal);
    return [
      s.status_message ? h("div", { class: "msg failed" }, visible(s.status_message)) : "",
      this.place(s, signal),
      typeof statement === "string" ? section("Statement", h("pre", { class: "sd-sql mono", tabindex: "0", "aria-label": "Statement" }, formatSql(statement))) : "",
      section(`Attributes (${own.length})`, own.length ? fields(own) : h("p", { class: "muted" }, "None")),
      events.length > 0 && section(`Events (${events.length})`, h("ol", { class: "sd-events" }, events.map((e) => this.event(e, s)))),
      links.length > 0 && section(`Links (${links.length})`, h("ul", { class: "sd-links" }, links.map((l) => link(l)))),
      logs,
      section(`Resource (${resource.length})`, resource.length ? fields(resource) : h("p", { class: "muted" }, "None")),
    ].filter((x): x is Node => x instanceof Node);
  }

  private event(e: Record<string, unknown>, s: Span) {
    const at = String(e.time ?? e.timestamp ?? e.time_unix_nano ?? ""), ns = nanoseconds(at) - nanoseconds(s.start);
    const attributes = Object.entries((e.attributes ?? {}) as Record<string, unknown>), stack = attributes.find(([k]) => k === "exception.stacktrace");
    return h("li", null, h("p", null, h("b", null, visible(String(e.name ?? "event"))), h("span", { class: "muted num" }, Number.isFinite(ns) ? ` after ${duration(ns)}` : "")), fields(attributes.filter((a) => a !== stack)), stack && h("pre", { class: "sd-sql mono", tabindex: "0", "aria-label": "Stack trace" }, visible(String(stack[1]))));
  }

  /** Where the span stands among those of its operation in the day before it. */
  private place(s: Span, signal: AbortSignal): Node {
    const box = h("p", { class: "sd-p muted", "aria-live": "off" }, "Comparing with the day before…");
    const end = Date.parse(s.start) + 1, where = `service = ${literal(s.service ?? "")} AND name = ${literal(s.name)}`;
    const statement = `SELECT count(*), count(*) FILTER (WHERE duration_ns < ${Math.round(s.duration_ns)}), CAST(quantile_cont(duration_ns, 0.5) AS BIGINT) FROM traces.${identifier(s.stream)} WHERE ${where}`;
    json<Answer>("/query", { body: { statement, time_range: { start: new Date(end - 86_400_000).toISOString(), end: new Date(end).toISOString() } }, signal }).then((a) => {
      const [n, below, median] = a.rows[0]!.map(Number) as [number, number, number];
      box.textContent = n > 1 ? `Slower than ${percent(below / n)} of the ${plural(n, "span")} of this operation in the day before it; their median is ${duration(median)}.` : "The only span of this operation in the day before it.";
    }, (e) => { if (explain(e).code !== "aborted") box.textContent = "It cannot be compared with the day before now."; });
    return box;
  }

  /** The log records that carry the span's id. */
  private async logs(box: HTMLElement, i: number, signal: AbortSignal) {
    const t = this.t, [from, to] = this.around(i);
    const rows: { time: string; level: string; service: string; message: string; stream: string }[] = [];
    let failed = 0;
    await Promise.all(boot.streams.filter((x) => x.signal === "logs").slice(0, 12).map(async (x) => {
      const statement = `trace_id:${t.c.trace_id} span_id:${quoted(t.id(i))}`;
      const a = await json<Answer>("/query", { body: { language: "search", stream: x.name, statement, limit: 50, time_range: { start: new Date(from - 240_000).toISOString(), end: new Date(to + 240_000).toISOString() } }, signal }).catch(() => { failed++; return undefined; });
      const at = (name: string) => a!.columns.findIndex((c) => c.name === name);
      for (const r of a?.rows ?? []) rows.push({ time: String(r[at("_timestamp")]), level: String(r[at("level")] ?? ""), service: String(r[at("service")] ?? ""), message: String(r[at("message")] ?? ""), stream: x.name });
    }));
    if (signal.aborted) return;
    rows.sort((a, b) => (a.time < b.time ? -1 : 1));
    box.removeAttribute("aria-busy");
    const all = h("a", { class: "link", href: logsOf("", [from, to], `trace_id:${t.c.trace_id}`) }, "All logs of this trace");
    box.replaceChildren(
      rows.length ? h("ul", { class: "sd-logs" }, rows.slice(0, 50).map((r) => h("li", null, h("time", { class: "mono" }, formatTime(r.time, { date: false, ms: true })), level(r.level), h("span", { class: "mono" }, visible(r.message.slice(0, 1000)))))) : h("p", { class: "muted" }, failed ? "The logs cannot be read now." : "No record carries this span's id."),
      h("p", null, all));
  }
}

function level(text: string) {
  const l = levelOf(text);
  return l && h("span", { class: `lv ${l}` }, shortLevel[l]);
}

const section = (title: string, ...content: Node[]) => h("section", { class: "sd-sec" }, h("h3", null, title), content);

const fields = (list: [string, unknown][]) => h("dl", { class: "ft" }, list.map(([k, v]) => {
  const value = typeof v === "string" ? v : JSON.stringify(v);
  return h("div", { class: "fr", tabindex: touch() ? "-1" : null }, h("dt", { title: visible(k) }, visible(k)), h("dd", null, visible(value.slice(0, 8000)), h("span", { class: "fa" }, button({ icon: "copy", label: `Copy the value of ${visible(k).slice(0, 80)}`, cls: "ghost icon sm", on: () => void copy(value, "Value copied") }))));
}));

function link(l: Record<string, unknown>) {
  const trace = String(l.trace_id ?? l.traceId ?? ""), span = String(l.span_id ?? l.spanId ?? "");
  return h("li", null, h("a", { class: "link mono", href: `${orgPath("traces")}/${encodeURIComponent(trace)}?sel=${encodeURIComponent(span)}` }, trace), fields(Object.entries((l.attributes ?? {}) as Record<string, unknown>)));
}

const list = (v: unknown): Record<string, unknown>[] => (Array.isArray(v) ? v.filter((x) => x && typeof x === "object") : []);

/** Nanoseconds of an RFC 3339 time, good for differences. */
function nanoseconds(t: string): number {
  const fraction = /\.(\d+)/.exec(t)?.[1] ?? "";
  return Date.parse(t.replace(/\.\d+/, "")) * 1e6 + Number(fraction.padEnd(9, "0").slice(0, 9));
}

/** Puts the clauses of a statement on lines of their own. */
export const formatSql = (text: string) => visible(text.slice(0, 20_000).replace(/\s+/g, " ").trim().replace(/ (FROM|WHERE|GROUP BY|ORDER BY|HAVING|LIMIT|OFFSET|VALUES|SET|RETURNING|ON CONFLICT|UNION(?: ALL)?|(?:LEFT |RIGHT |FULL |INNER |CROSS )?(?:OUTER )?JOIN|FOR UPDATE) /gi, "\n$1 ").replace(/ (AND|OR) /gi, "\n  $1 "));
