// Former versions of a dashboard: what differs from now, and taking one again.
import { explain } from "../lib/api.ts";
import { button, h, visible } from "../lib/dom.ts";
import { dialog, toast } from "../lib/layers.ts";
import { formatTime } from "../lib/time.ts";
import { type Body, type Kept, restore, type Version, version, versions } from "./model.ts";

/** What differs between two states, by the path of each value; at most 200 lines. */
export function differences(was: unknown, is: unknown, path = ""): string[] {
  if (Object.is(was, is) || JSON.stringify(was) === JSON.stringify(is)) return [];
  const object = (x: unknown): x is Record<string, unknown> => typeof x === "object" && x !== null;
  if (object(was) && object(is)) {
    const key = (x: unknown, i: number) => (object(x) && "id" in x ? `#${String(x.id)}` : String(i));
    const entries = (x: Record<string, unknown>): [string, unknown][] => (Array.isArray(x) ? x.map((v, i) => [key(v, i), v]) : Object.entries(x));
    const a = new Map(entries(was)), b = new Map(entries(is));
    return [...new Set([...a.keys(), ...b.keys()])].flatMap((k) => differences(a.get(k), b.get(k), path ? `${path}.${k}` : k)).slice(0, 200);
  }
  const short = (x: unknown) => { const t = JSON.stringify(x) ?? ""; return t.length > 80 ? t.slice(0, 79) + "…" : t; };
  return [was === undefined ? `${path}: added ${short(is)}` : is === undefined ? `${path}: removed ${short(was)}` : `${path}: ${short(was)} → ${short(is)}`];
}

export async function versionsDialog(k: Kept, now: Body): Promise<Kept | undefined> {
  let all: Version[];
  try { all = await versions(k.id); } catch (e) { toast(explain(e).message, { error: true }); return undefined; }
  return dialog("Versions", (close) => {
    const out = h("div", { class: "d-diff", tabindex: "0", role: "group", "aria-label": "What differs from now" }, h("p", { class: "muted" }, "Choose a version to see what differs from now."));
    const show = async (v: Version) => {
      try {
        const body = (await version(k.id, v.version)).body, lines = differences(body, now);
        out.replaceChildren(h("p", null, `Version ${v.version} → now`), lines.length ? h("ul", { class: "mono small" }, lines.map((l) => h("li", null, visible(l)))) : h("p", { class: "muted" }, "Nothing differs."));
      } catch (e) { out.replaceChildren(h("p", { class: "alert" }, explain(e).message)); }
    };
    const take = async (v: Version) => { try { close(await restore(k.id, v.version)); } catch (e) { toast(explain(e).message, { error: true }); } };
    return [h("ul", { class: "d-versions" }, all.map((v) => h("li", null, h("button", { type: "button", class: "btn ghost", onclick: () => void show(v) }, `Version ${v.version}`), h("span", { class: "muted" }, `${formatTime(v.at, { date: true })}, ${visible(v.by.replace(/^user:/, ""))}`), v.version !== k.version && k.editable ? button({ text: "Restore", cls: "sm", label: `Restore version ${v.version}`, on: () => void take(v) }) : v.version === k.version ? h("span", { class: "pill" }, "now") : null))), out,
      h("div", { class: "acts" }, button({ text: "Close", cls: "primary", on: () => close() }))];
  }, { wide: true }) as Promise<Kept | undefined>;
}
