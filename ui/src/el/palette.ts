// The command palette: one box that finds pages, what the organization has, and actions; and opens what is pasted into it, a trace id or an address of this node.
import { json } from "../lib/api.ts";
import { announce } from "../lib/a11y.ts";
import { boot, may, orgPath } from "../lib/boot.ts";
import { h, icon, visible } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import { bound, printed } from "../lib/keys.ts";
import { dialog } from "../lib/layers.ts";
import { dark, setPrefs } from "../lib/prefs.ts";
import { withTime } from "../lib/url.ts";

interface Entry { kind: string; title: string; detail?: string; icon: string; key?: string; href?: string; run?: () => void }

/** What GET /api/v1/search answers. */
interface Found { results: { kind: string; title: string; detail?: string; path: string }[] }

const icons: Record<string, string> = { logs: "scroll-text", metrics: "chart-line", traces: "waypoints", metric: "chart-line", dashboard: "layout-dashboard", view: "bookmark", service: "boxes", stream: "layers" };

const kinds: Record<string, string> = { stream: "Streams", metric: "Metrics", service: "Services", dashboard: "Dashboards", view: "Saved views" };

let opened = false;

/** Opens the palette, if no dialog is open. */
export function open() {
  if (opened || document.querySelector("dialog[open]")) return;
  opened = true;
  void dialog("Jump to, search, run", (close) => content((e) => {
    close();
    if (e.run) e.run(); else if (e.href) location.href = withTime(e.href);
  }), { wide: true, cls: "palette" }).finally(() => { opened = false; });
}

function content(choose: (e: Entry) => void): Node[] {
  const fixed = [...pages(), ...streams(), ...actions()];
  let shown: Entry[] = [], active = 0, asked = 0, timer = 0, found: Entry[] = [];
  const list = h("div", { class: "pal-list", role: "listbox", id: "pal-list", "aria-label": "Found" });
  const input = h("input", { class: "in pal-in", role: "combobox", "aria-label": "Find a page, a stream, an action, a trace id", "aria-controls": "pal-list", "aria-expanded": "true", "aria-autocomplete": "list", placeholder: "Page, stream, action, trace id…", autocomplete: "off", spellcheck: "false", autofocus: true });
  const none = h("p", { class: "pal-none muted", hidden: true }, "Nothing found. A trace id or an address of this node can be pasted here.");

  const activate = (i: number) => {
    active = shown.length ? (i + shown.length) % shown.length : 0;
    const options = [...list.querySelectorAll("[role=option]")];
    options.forEach((e, k) => e.setAttribute("aria-selected", String(k === active)));
    const on = options[active];
    if (on) { input.setAttribute("aria-activedescendant", on.id); on.scrollIntoView({ block: "nearest" }); } else input.removeAttribute("aria-activedescendant");
  };
  const paint = () => {
    const q = input.value.trim();
    shown = [...pasted(q), ...best(q, [...fixed, ...found]).slice(0, 60), ...logsFor(q)];
    // Entries of a kind stand together, in the order of the best of each kind.
    const kinds = [...new Set(shown.map((e) => e.kind))];
    shown = kinds.flatMap((k) => shown.filter((e) => e.kind === k));
    let i = 0;
    list.replaceChildren(...kinds.map((k) => h("div", { role: "group", "aria-label": k }, h("p", { class: "mh", "aria-hidden": "true" }, k), shown.filter((e) => e.kind === k).map((e) =>
      h("div", { role: "option", id: `pal-${i++}`, "aria-selected": "false", onclick: () => choose(e) }, icon(e.icon, "s"), h("span", { class: "ell" }, visible(e.title)), e.detail && h("span", { class: "muted ell" }, visible(e.detail)), e.key && h("kbd", { class: "end" }, printed(e.key)))))));
    none.hidden = shown.length > 0;
    activate(0);
  };
  const ask = async () => {
    const q = input.value.trim(), mine = ++asked;
    const fresh = q.length > 1 && boot.org ? await search(q) : [];
    if (mine !== asked) return;
    found = fresh;
    paint();
    announce(plural(shown.length, "entry", "entries"));
  };
  input.addEventListener("input", () => { paint(); clearTimeout(timer); timer = window.setTimeout(() => void ask(), 150); });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown") activate(active + 1);
    else if (e.key === "ArrowUp") activate(active - 1);
    else if (e.key === "Enter") { const at = shown[active]; if (at) choose(at); }
    else return;
    e.preventDefault();
  });
  paint();
  return [input, list, none];
}

function pages(): Entry[] {
  const page = (title: string, name: string, ic: string, key?: string): Entry => ({ kind: "Pages", title, icon: ic, key, href: orgPath(name) });
  const node = (title: string, path: string, ic: string): Entry => ({ kind: "Pages", title, icon: ic, href: `${boot.base}/${path}` });
  return [
    ...(boot.org ? [page("Logs", "logs", "scroll-text", "g l"), page("Metrics", "metrics", "chart-line", "g m"), page("Traces", "traces", "waypoints", "g t"), page("Services", "services", "boxes"), page("Dashboards", "dashboards", "layout-dashboard", "g d"), page("Streams", "streams", "layers", "g s")] : []),
    ...(boot.org && may("editor") ? [page("Send data", "send", "plug")] : []), ...(boot.org && may("admin") ? [page("Access", "access", "users")] : []),
    node("Settings", "settings", "settings"), node("System status", "cluster/status", "activity"),
  ];
}

function actions(): Entry[] {
  const own = bound().filter((k) => !k.hidden && k.group !== "Go to" && k.key !== "mod+k").map((k): Entry => ({ kind: "Actions", title: k.label, icon: "zap", key: k.key, run: () => k.run(new KeyboardEvent("keydown")) }));
  // What the page's head offers: Share, Saved views, Edit…
  const head = [...document.querySelectorAll<HTMLButtonElement>(".pagehead > button:enabled")].filter((b) => b.offsetParent && b.textContent?.trim()).map((b): Entry => ({ kind: "Actions", title: b.textContent!.trim(), icon: "zap", run: () => b.click() }));
  return [...head, ...own, { kind: "Actions", title: "Switch theme", icon: dark() ? "sun" : "moon", run: () => void setPrefs({ theme: dark() ? "light" : "dark" }) },
    ...((boot.data.orgs as string[] | undefined) ?? []).filter((o) => o !== boot.org).map((o): Entry => ({ kind: "Actions", title: `Switch to organization ${o}`, icon: "building-2", href: `${boot.base}/${encodeURIComponent(o)}/logs` })),
    { kind: "Actions", title: "Sign out", icon: "log-out", run: () => document.querySelector<HTMLFormElement>("#logout")?.submit() }];
}

function streams(): Entry[] {
  return boot.streams.map((s) => ({ kind: "Streams", title: s.name, detail: s.signal, icon: icons[s.signal] ?? "layers", href: streamPath(s.signal, s.name) }));
}

const streamPath = (signal: string, name: string) => orgPath(signal === "metrics" ? `metrics?q=${encodeURIComponent(name)}` : `${signal}?stream=${encodeURIComponent(name)}`);

/** What the organization has of that name; nothing while that cannot be found out. */
async function search(q: string): Promise<Entry[]> {
  const known = new Set(boot.streams.map((s) => `${s.signal} ${s.name}`));
  const found = await json<Found>(`/search?q=${encodeURIComponent(q)}&limit=20`).catch((): Found => ({ results: [] }));
  return found.results.filter((r) => r.kind !== "trace" && !known.has(`${r.detail} ${r.title}`)).map((r) => ({ kind: kinds[r.kind] ?? "Found", title: r.title, detail: r.detail, icon: icons[r.kind] ?? "search", href: boot.base + r.path }));
}

/** What pasted text leads to. */
function pasted(q: string): Entry[] {
  const out: Entry[] = [];
  const id = /^(?:[0-9a-f]{32}|[0-9a-f]{16})$/i.exec(q.replace(/-/g, ""));
  if (id && boot.org) out.push({ kind: "Open", title: `Open trace ${id[0].toLowerCase()}`, icon: "waypoints", href: orgPath(`traces/${id[0].toLowerCase()}`) });
  if (/^https?:\/\//i.test(q) && URL.canParse(q) && new URL(q).origin === location.origin) out.push({ kind: "Open", title: "Open this address", detail: q, icon: "link", href: q });
  return out;
}

/** The last resort: the text as a search of the logs. */
const logsFor = (q: string): Entry[] => (q.length > 1 && boot.org ? [{ kind: "Logs", title: `Search the logs for ${q}`, icon: "text-search", href: orgPath(`logs?q=${encodeURIComponent(/[\s:"()]/.test(q) ? JSON.stringify(q) : q)}`) }] : []);

/** The entries that have the text's letters in its order, best first: whole words before beginnings of words before letters apart. */
function best(q: string, all: Entry[]): Entry[] {
  if (!q) return all.filter((e) => e.kind !== "Streams").concat(all.filter((e) => e.kind === "Streams").slice(0, 8));
  return all.map((e) => ({ e, score: score(q.toLowerCase(), e.title.toLowerCase()) })).filter((x) => x.score > 0).sort((a, b) => b.score - a.score).map((x) => x.e);
}

function score(q: string, title: string): number {
  const at = title.indexOf(q);
  if (at >= 0) return 100 - Math.min(20, at) + (at === 0 || /\W/.test(title[at - 1]!) ? 40 : 0) - title.length / 100;
  let from = 0, gaps = 0;
  for (const c of q) {
    const next = title.indexOf(c, from);
    if (next < 0) return 0;
    gaps += from > 0 ? next - from : 0;
    from = next + 1;
  }
  return Math.max(1, 50 - gaps * 4);
}
