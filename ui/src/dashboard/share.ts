// Sharing a dashboard: who sees it, and a link that shows the same.
import { explain } from "../lib/api.ts";
import { boot, may } from "../lib/boot.ts";
import { button, h, visible } from "../lib/dom.ts";
import { confirm, copy, dialog, toast } from "../lib/layers.ts";
import { banner, told } from "../lib/states.ts";
import { formatTime, fromSpan, type Range, relativeLabel, type Span, zoneLabel } from "../lib/time.ts";
import type { Chosen } from "./vars.ts";

export interface Shared {
  title: string;
  shared: boolean;
  range: Range;
  span: Span; // what the range means now
  chosen: readonly Chosen[];
  publish: () => Promise<void>; // makes the dashboard visible to the organization
}

/** The page's address with the time and the variables that are shown, also those that nobody chose: their defaults may change. */
export function link(here: string, d: Pick<Shared, "range" | "span" | "chosen">, frozen: boolean): string {
  const u = new URL(here), range = frozen ? fromSpan(d.span) : d.range;
  u.searchParams.set("from", range.from);
  u.searchParams.set("to", range.to);
  if (frozen) u.searchParams.delete("refresh");
  for (const { v, value } of d.chosen) {
    if (v.type === "constant") continue;
    u.searchParams.delete(`var-${v.name}`);
    for (const one of value) u.searchParams.append(`var-${v.name}`, one);
  }
  u.search = u.search.replace(/%3A/gi, ":").replace(/%2C/gi, ",").replace(/%2F/gi, "/");
  return u.href;
}

export function shareDialog(d: Shared) {
  const relative = /^now|^all/.test(d.range.from) || /^now/.test(d.range.to);
  let frozen = relative, shared = d.shared;
  void dialog("Share this dashboard", (close) => {
    const out = h("textarea", { class: "in mono", rows: "3", readonly: true, "aria-label": "Link" });
    const make = () => { out.value = link(location.href, d, frozen); };
    const choice = (value: boolean, text: string, note: string) => h("label", { class: "check" }, h("input", { type: "radio", name: "frozen", checked: frozen === value, onchange: () => { frozen = value; make(); } }), h("span", null, text, " ", h("span", { class: "muted" }, note)));
    const copyLink = button({ text: "Copy link", cls: "primary", autofocus: true, on: () => { void copy(out.value, "Link copied"); close(); } });
    const who = h("div");
    const publish = async () => {
      if (!(await confirm("Make it visible to the organization?", `Everybody in ${visible(boot.org)} can then open “${visible(d.title)}”, and its editors can change it. Only you can make it private again, in its settings.`, { action: "Make visible" }))) return;
      try {
        await d.publish();
        shared = true;
        draw();
        copyLink.focus();
      } catch (e) {
        const err = explain(e);
        toast(`It is still private. ${told(err)}`, { error: true });
      }
    };
    const draw = () => who.replaceChildren(shared ? h("p", { class: "t2" }, `Everybody in ${visible(boot.org)} who has the link sees the dashboard.`)
      : banner("warn", `This dashboard is private: the link opens for nobody but you.${may("editor") ? "" : " Making it visible to the organization needs the role “editor”."}`, may("editor") ? [{ text: "Make visible to the organization", on: () => void publish() }] : []));
    make();
    draw();
    return [who, relative ? h("div", { role: "radiogroup", "aria-label": "Time", class: "choices" }, choice(true, "Freeze the time", `${formatTime(d.span.start)} to ${formatTime(d.span.end)} ${zoneLabel()}`), choice(false, "Keep it relative", relativeLabel(d.range))) : h("p", { class: "t2" }, "The link shows the same time range."), out,
      h("div", { class: "acts" }, button({ text: "Close", on: () => close() }), copyLink)];
  });
}
