// The page of one trace.
import "../app.ts";
import { type Action, empty, failure, skeleton, told } from "../lib/states.ts";
import { announce } from "../lib/a11y.ts";
import { explain, json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { $, button, crumb, h, icon, visible } from "../lib/dom.ts";
import { count, duration, plural } from "../lib/format.ts";
import { bind } from "../lib/keys.ts";
import { copy, more, toast } from "../lib/layers.ts";
import { formatTime, useZone, zoneLabel } from "../lib/time.ts";
import { onNavigate, read, write } from "../lib/url.ts";
import { MsSelect } from "../el/select.ts";
import { type ColourBy, type Columns, type Filter, noFilter, parseDuration, Trace } from "../traces/model.ts";
import { called, logsOf } from "../traces/links.ts";
import { SpanDrawer } from "../traces/span.ts";
import { Waterfall } from "../traces/waterfall.ts";

const app = $("#app")!;
const id = decodeURIComponent(location.pathname.split("/").pop()!).toLowerCase();
const title = $("#page-title")!;
useZone(read().get("tz"));
crumb(id);

void load();

async function load() {
  app.replaceChildren(skeleton(18));
  app.setAttribute("aria-busy", "true");
  try {
    const c = await json<Columns>(`/query/traces/${encodeURIComponent(id)}?format=columns`);
    app.setAttribute("aria-busy", "false");
    show(new Trace(c));
  } catch (e) {
    const err = explain(e);
    app.setAttribute("aria-busy", "false");
    document.title = `Trace ${visible(id)} · Millstream`;
    const back: Action = { text: "Search for traces", icon: "search", on: () => { location.href = orgPath("traces"); } };
    if (err.status !== 404 && err.status !== 400) return app.replaceChildren(failure(err, () => void load(), [back]));
    title.classList.remove("vh");
    title.textContent = "Trace";
    app.replaceChildren(h("div", { class: "pagehead" }, title, h("code", { class: "ell" }, visible(id))), empty(err.status === 400
      ? { title: "This is no trace id", icon: "circle-alert", text: "A trace id has up to 32 hexadecimal digits, such as 4bf92f3577b34da6a3ce929d0e0e4736.", actions: [back] }
      : { title: "No span of this trace is stored", icon: "waypoints", text: "Its spans may still be on their way, may have been left out by sampling, or are older than the retention of the stream. Records of it may be among the logs.",
        actions: [{ text: "Look again", icon: "refresh-cw", primary: true, on: () => void load() }, { text: "Search the logs for it", icon: "scroll-text", on: () => { location.href = logsOf("", undefined, `trace_id:${id}`); } }, back] }));
  }
}

function show(t: Trace) {
  const q = read(), root = t.root, start = Date.parse(t.c.start);
  const name = `${called(t.service(root))}: ${visible(t.name(root))}`;
  document.title = `${name} · Millstream`;
  title.classList.remove("vh");
  title.classList.add("ell");
  title.textContent = name;
  title.title = name;
  const period: [number, number] = [start - 60_000, start + t.c.duration_ns / 1e6 + 60_000];
  const head = h("div", { class: "pagehead" }, h("a", { class: "btn ghost icon", href: orgPath("traces"), "aria-label": "Traces", title: "Traces" }, icon("arrow-left", "s")), title, h("span", { class: "spacer" }),
    button({ text: "Copy id", icon: "copy", cls: "hide-s", on: () => void copy(t.c.trace_id, "Trace id copied") }),
    h("a", { class: "btn", href: logsOf("", period, `trace_id:${t.c.trace_id}`) }, icon("scroll-text", "s"), "Logs of this trace"),
    button({ text: "Share", icon: "share-2", cls: "hide-s", "aria-haspopup": "dialog", on: () => void share() }),
    button({ text: "JSON", icon: "download", cls: "hide-s", on: () => void download(t.c.trace_id) }),
    more(() => [
      { text: "Share", icon: "share-2", on: () => void share() }, { text: "Copy id", icon: "copy", on: () => void copy(t.c.trace_id, "Trace id copied") }, { text: "JSON", icon: "download", on: () => void download(t.c.trace_id) },
      { text: "Fold all", icon: "chevron-right", on: () => falls.foldAll(true) }, { text: "Unfold all", icon: "chevron-down", on: () => falls.foldAll(false) },
    ]));
  const share = async () => (await import("../share/dialog.ts")).shareDialog({ range: { from: t.c.start, to: t.c.start }, note: "The link shows the trace with the filters, the zoom and the span that are chosen here.", params: () => Object.fromEntries([...new Set(read().keys())].map((k) => [k, read().getAll(k)])), text: `Trace ${t.c.trace_id}, ${name}` });
  const figure = (k: string, v: string | Node, more = "", cls = "") => h("div", { class: "stat" }, h("dt", null, k), h("dd", { class: cls || null }, v, more && h("small", null, more)));
  const figures = h("dl", { class: "stats tr-stats", tabindex: "0", "aria-label": "Figures of the trace" }, figure("Duration", duration(t.c.duration_ns)), figure("Started", formatTime(start, { date: false, ms: true }), `${formatTime(start, { time: false })} ${zoneLabel()}`), figure("Spans", count(t.n)), figure("Errors", count(t.errors), "", t.errors ? "bad" : ""), figure("Services", String(t.c.services.length)), figure("Depth", String(t.depth)), figure("Trace id", h("code", null, t.c.trace_id)));

  const panel = h("div", { class: "tr-panel" });
  const drawer = new SpanDrawer(t, {
    close: () => { drawer.hide(); panel.classList.remove("with-drawer"); falls.scroller.focus(); },
    move: (by) => { const at = falls.rows.findIndex((r) => r.span === falls.selected && !r.group); for (let k = at + by; k >= 0 && k < falls.rows.length; k += by) if (!falls.rows[k]!.group) return falls.select(falls.rows[k]!.span); },
    focus: (span) => falls.select(t.find(span)),
  });
  const open = (span: number) => { panel.classList.add("with-drawer"); void drawer.show(span); };
  const falls = new Waterfall(t, {
    select: (span) => { write({ sel: span === null ? "" : t.id(span) }, "replace"); if (span !== null && drawer.open) void drawer.show(span); },
    open,
    zoom: (from, to) => write({ zoom: from <= 0 && to >= 1 ? "" : `${from.toFixed(6)},${to.toFixed(6)}` }, "replace"),
  });
  const bar = new FilterBar(t, falls);
  panel.append(falls.el, drawer.el);
  const notes = (t.c.warnings ?? []).concat(t.c.partial ? ["The trace may not be whole: some of its data could not be read."] : []).map((text) => h("div", { class: "banner", role: "status" }, icon("triangle-alert", "s"), h("span", null, text)));
  app.replaceChildren(head, figures, ...notes, bar.el, panel);

  const zoom = /^(0(?:\.\d+)?|1(?:\.0+)?),(0(?:\.\d+)?|1(?:\.0+)?)$/.exec(q.get("zoom") ?? "");
  if (zoom) falls.zoom(Number(zoom[1]), Number(zoom[2]));
  const at = q.get("sel") ? t.find(q.get("sel")!) : -1;
  if (at >= 0) { falls.select(at); if (!matchMedia("(max-width:720px)").matches) open(at); } // on a narrow window the details would lie over the trace
  bind([
    ...([["ArrowDown", "Next span"], ["j", "Next span", true], ["ArrowUp", "Previous span"], ["k", "Previous span", true], ["ArrowRight", "Unfold, or into the span"], ["ArrowLeft", "Fold, or out of the span"], ["shift+ArrowRight", "Later in the trace"], ["shift+ArrowLeft", "Earlier in the trace"]] as const)
      .map(([key, label, hidden]) => ({ key, label, hidden, group: "Trace", run: (e: KeyboardEvent) => falls.press(e) })),
    { key: "Enter", label: "Details of the span", group: "Trace", run: () => { if (falls.selected !== null) open(falls.selected); } },
    { key: "n", label: "Next error", group: "Trace", run: () => falls.nextError() },
    { key: "+", label: "Zoom in", group: "Trace", run: () => falls.scale(0.5) },
    { key: "-", label: "Zoom out", group: "Trace", run: () => falls.scale(2) },
    { key: "0", label: "The whole trace", group: "Trace", run: () => falls.zoom(0, 1) },
    { key: "/", label: "Filter the spans", group: "Trace", run: (e) => { e.preventDefault(); bar.focus(); } },
    { key: "c", label: "Only the critical path", group: "Trace", run: () => bar.toggle("critical") },
    { key: "shift+y", label: "Copy a link", group: "Trace", run: () => void copy(location.href, "Link copied") },
    { key: "Escape", label: "Close the details", group: "Trace", run: () => { if (drawer.open) { drawer.hide(); panel.classList.remove("with-drawer"); falls.scroller.focus(); } } },
  ]);
  announce(`${name}, ${plural(t.n, "span")}, ${duration(t.c.duration_ns)}, ${plural(t.errors, "error")}`);
  onNavigate(() => { const sel = read().get("sel"), i = sel ? t.find(sel) : -1; if (i >= 0) falls.select(i, false); });
}

/** The line above the waterfall: which spans to show, and how. */
class FilterBar {
  readonly el: HTMLElement;
  private f: Filter = { ...noFilter };
  private hide = true;
  private text: HTMLInputElement;
  private least: HTMLInputElement;
  private services = new MsSelect();
  private found = h("span", { class: "muted num tr-found", role: "status" });
  private buttons: Record<"errors" | "critical" | "hide", HTMLButtonElement>;

  constructor(private t: Trace, private falls: Waterfall) {
    const q = read();
    this.f = { text: q.get("q") ?? "", services: q.getAll("svc"), errors: q.get("err") === "1", least: 0, critical: q.get("path") === "1" };
    this.hide = q.get("hide") !== "0";
    this.text = h("input", { class: "in", type: "search", "aria-label": "Service or operation", placeholder: "Service or operation", spellcheck: "false", value: this.f.text });
    this.least = h("input", { class: "in tr-least", "aria-label": "Minimum duration, such as 20ms or 5%", placeholder: "Min. 20ms or 5%", spellcheck: "false", value: q.get("least") ?? "" });
    let timer = 0;
    for (const input of [this.text, this.least]) input.addEventListener("input", () => { clearTimeout(timer); timer = window.setTimeout(() => this.changed(), 120); });
    this.services.multi = true;
    this.services.label = "Services";
    this.services.placeholder = "All";
    this.services.items = t.c.services.map((value) => ({ value, label: called(value) })).sort((a, b) => (a.label < b.label ? -1 : 1));
    this.services.value = this.f.services;
    this.services.addEventListener("ms:change", () => { this.f.services = this.services.value as string[]; this.changed(); });
    const pressed = (text: string, ic: string, on: boolean, name: "errors" | "critical" | "hide") => button({ text, icon: ic, "aria-pressed": String(on), on: () => this.toggle(name) });
    this.buttons = { errors: pressed("Errors", "circle-alert", this.f.errors, "errors"), critical: pressed("Critical path", "route", this.f.critical, "critical"), hide: pressed("Hide others", "eye-off", this.hide, "hide") };
    const by = h("select", { class: "in tr-by", "aria-label": "Colour by" }, (["service", "status", "rank"] as const).map((v) => h("option", { value: v, selected: q.get("by") === v }, { service: "Colour by service", status: "Colour by status", rank: "Colour by speed" }[v])));
    by.addEventListener("change", () => { this.falls.colourBy = by.value as ColourBy; write({ by: by.value === "service" ? "" : by.value }, "replace"); });
    const skew = t.skews > 0 && h("label", { class: "check", title: "Moves spans that begin before their parent into its time" }, h("input", { type: "checkbox", onchange: (e: Event) => { t.correct((e.target as HTMLInputElement).checked); falls.rebuild(); falls.refresh(); } }), `Correct clock skew (${count(t.skews)})`);
    this.el = h("div", { class: "tr-bar", role: "group", "aria-label": "Which spans to show" }, h("span", { class: "in-icon" }, icon("search", "s"), this.text), this.services, this.buttons.errors, this.least, this.buttons.critical, this.buttons.hide, this.found, h("span", { class: "spacer" }), skew, by,
      button({ icon: "chevron-right", label: "Fold all", cls: "ghost icon hide-s", on: () => falls.foldAll(true) }), button({ icon: "chevron-down", label: "Unfold all", cls: "ghost icon hide-s", on: () => falls.foldAll(false) }));
    if (by.value !== "service") falls.colourBy = by.value as ColourBy;
    this.changed(false);
  }

  focus() { this.text.focus(); this.text.select(); }

  toggle(name: "errors" | "critical" | "hide") {
    if (name === "hide") this.hide = !this.hide; else this.f[name] = !this.f[name];
    this.changed();
  }

  private changed(keep = true) {
    const least = parseDuration(this.least.value, this.t.c.duration_ns);
    this.least.setAttribute("aria-invalid", String(Number.isNaN(least)));
    this.f.text = this.text.value.trim();
    this.f.least = Number.isNaN(least) ? 0 : least;
    for (const name of ["errors", "critical"] as const) this.buttons[name].setAttribute("aria-pressed", String(this.f[name]));
    this.falls.filter(this.f, this.hide);
    this.buttons.hide.disabled = !this.falls.view.match;
    this.buttons.hide.setAttribute("aria-pressed", String(this.hide && !this.buttons.hide.disabled));
    this.found.textContent = this.falls.view.match ? `${count(this.falls.matched)} of ${plural(this.t.n, "span")}` : "";
    if (keep) write({ q: this.f.text, svc: this.f.services, err: this.f.errors ? "1" : "", path: this.f.critical ? "1" : "", least: this.least.value.trim(), hide: this.hide ? "" : "0" }, "replace");
  }
}

async function download(trace: string) {
  try {
    const text = JSON.stringify(await json(`/query/traces/${trace}`), null, 1);
    const a = h("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `trace-${trace}.json` });
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
  } catch (e) {
    toast(told(e), { error: true });
  }
}
