// Former versions of a dashboard: what differs from now, and taking one again.
import { button, h, visible } from "../lib/dom.ts";
import { dialog, toast } from "../lib/layers.ts";
import { told } from "../lib/states.ts";
import { formatTime } from "../lib/time.ts";
import { differences } from "./diff.ts";
import { type Body, type Kept, restore, type Version, version, versions } from "./model.ts";

export async function versionsDialog(k: Kept, now: Body): Promise<Kept | undefined> {
  let all: Version[];
  try { all = await versions(k.id); } catch (e) { toast(told(e), { error: true }); return undefined; }
  return dialog("Versions", (close) => {
    const out = h("div", { class: "d-diff", tabindex: "0", role: "group", "aria-label": "What differs from now" }, h("p", { class: "muted" }, "Choose a version to see what differs from now."));
    const show = async (v: Version) => {
      try {
        const body = (await version(k.id, v.version)).body, lines = differences(body, now);
        out.replaceChildren(h("p", null, `Version ${v.version} → now`), lines.length ? h("ul", { class: "mono small" }, lines.map((l) => h("li", null, visible(l)))) : h("p", { class: "muted" }, "Nothing differs."));
      } catch (e) { out.replaceChildren(h("p", { class: "alert" }, told(e))); }
    };
    const take = async (v: Version) => { try { close(await restore(k.id, v.version)); } catch (e) { toast(told(e), { error: true }); } };
    return [h("ul", { class: "d-versions" }, all.map((v) => h("li", null, h("button", { type: "button", class: "btn ghost", onclick: () => void show(v) }, `Version ${v.version}`), h("span", { class: "muted" }, `${formatTime(v.at, { date: true })}, ${visible(v.by.replace(/^user:/, ""))}`), v.version !== k.version && k.editable ? button({ text: "Restore", cls: "sm", label: `Restore version ${v.version}`, on: () => void take(v) }) : v.version === k.version ? h("span", { class: "pill" }, "now") : null))), out,
      h("div", { class: "acts" }, button({ text: "Close", cls: "primary", on: () => close() }))];
  }, { wide: true }) as Promise<Kept | undefined>;
}
