// The title row of the pages Traces and Services.
import { orgPath } from "../lib/boot.ts";
import { $, h } from "../lib/dom.ts";
import { TimeControl } from "../el/time.ts";
import { read } from "../lib/url.ts";

/** The page's title with its tabs; what follows goes to the right end, before the time. */
export function titleRow(at: "traces" | "services", time: TimeControl, ...more: Node[]): HTMLElement {
  const title = $("#page-title")!;
  title.classList.remove("vh");
  const kept = new URLSearchParams([...read()].filter(([k]) => /^(from|to|tz|refresh)$/.test(k))).toString().replace(/%3A/gi, ":");
  const tab = (page: "traces" | "services", text: string) => h("a", { href: orgPath(page) + (kept ? "?" + kept : ""), "aria-current": page === at ? "page" : null }, text);
  return h("div", { class: "pagehead" }, title, h("nav", { class: "seg", "aria-label": "Traces" }, tab("traces", "Traces"), tab("services", "Services")), h("span", { class: "spacer" }), more, time);
}
