// The frame of every page: menus, theme, keys, connection, session. Each page's script imports it first.
import { errorOf, session } from "./lib/api.ts";
import { boot, orgPath } from "./lib/boot.ts";
import { $, button, h, icon, sending } from "./lib/dom.ts";
import { bind, bound, type Key, printed } from "./lib/keys.ts";
import { copy, dialog, menu, over } from "./lib/layers.ts";
import { applyLook, dark, setPrefs } from "./lib/prefs.ts";
import { told } from "./lib/states.ts";
import { withTime } from "./lib/url.ts";

const later = (f: () => void) => ("requestIdleCallback" in window ? requestIdleCallback(f, { timeout: 2000 }) : setTimeout(f, 300));

// ---- look
applyLook();
const themeButton = $("#theme");
const showTheme = () => themeButton?.replaceChildren(icon(dark() ? "sun" : "moon"));
themeButton?.addEventListener("click", () => { void setPrefs({ theme: dark() ? "light" : "dark" }); });
document.addEventListener("ms:look", showTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
showTheme();

const densities = ["compact", "normal", "comfortable"] as const;
const nextDensity = () => void setPrefs({ density: densities[(densities.indexOf(boot.prefs.density ?? "normal") + 1) % 3] });

// ---- menus
const orgButton = $("#org");
orgButton?.addEventListener("click", () => {
  const all = (boot.data.orgs as string[] | undefined) ?? [];
  const page = location.pathname.split("/").slice(-1)[0];
  menu(orgButton, all.map((o) => ({ text: o, checked: o === boot.org, href: `${boot.base}/${encodeURIComponent(o)}/${boot.page || page}` })), { label: "Organizations" });
});

const account = $("#account");
account?.addEventListener("click", () => menu(account, [
  { text: boot.user.email, heading: true },
  { text: "Profile and settings", icon: "settings", href: `${boot.base}/settings` },
  { rule: true, text: "" }, { text: "Density", heading: true },
  ...densities.map((d) => ({ text: d[0]!.toUpperCase() + d.slice(1), checked: (boot.prefs.density ?? "normal") === d, on: () => void setPrefs({ density: d }) })),
  { rule: true, text: "" },
  { text: "Sign out", icon: "log-out", on: () => $<HTMLFormElement>("#logout")?.submit() },
], { label: "Account" }));

const navButton = $("#menu"), nav = $("#nav");
let lifted: (() => void) | undefined;
function showNav(on: boolean) {
  nav!.classList.toggle("open", on);
  navButton!.setAttribute("aria-expanded", String(on));
  lifted?.();
  lifted = on ? over(nav!, () => showNav(false)) : undefined;
}
navButton?.addEventListener("click", () => showNav(!nav!.classList.contains("open")));

// From explorer to explorer the time stays. The links get it when they are about to be followed, in this tab or in another.
for (const event of ["pointerdown", "click"]) nav?.addEventListener(event, (e) => {
  const a = (e.target as Element).closest("a");
  if (a) a.href = withTime(a.pathname);
}, true);

// ---- palette: its code comes when it is asked for
const openPalette = async () => (await import("./el/palette.ts")).open();
$("#palette")?.addEventListener("click", () => void openPalette());

// ---- keys
const go = (page: string) => () => { location.href = page.startsWith("/") ? boot.base + page : withTime(orgPath(page)); };
bind([
  { key: "mod+k", label: "Jump to, search, run", group: "Everywhere", run: (e) => { e.preventDefault(); void openPalette(); } },
  { key: "?", label: "Keys of this page", group: "Everywhere", run: () => help() },
  { key: "F6", label: "To the last message", group: "Everywhere", run: (e) => { const b = $<HTMLElement>(".toast button"); if (b) { e.preventDefault(); b.focus(); } } },
  { key: "d", label: "Change the density", group: "Everywhere", run: nextDensity },
  ...(boot.org ? ([["l", "logs", "Logs"], ["m", "metrics", "Metrics"], ["t", "traces", "Traces"], ["d", "dashboards", "Dashboards"], ["s", "streams", "Streams"]] as const).map(([k, page, label]) => ({ key: `g ${k}`, label: `Go to ${label}`, group: "Go to", run: go(page) })) : []),
  ...(boot.installation ? ([["n", "nodes", "Nodes"], ["o", "ownership", "Ownership"]] as const).map(([k, page, label]) => ({ key: `g ${k}`, label: `Go to ${label}`, group: "Go to", run: go(`/cluster/${page}`) })) : []),
]);

function help() {
  if (document.querySelector("dialog[open]")) return;
  const groups = new Map<string, Key[]>();
  for (const k of bound()) if (!k.hidden) groups.set(k.group, [...(groups.get(k.group) ?? []), k]);
  void dialog("Keys of this page", (close) => [
    h("div", { class: "keyhelp", tabindex: "0", role: "group", "aria-label": "Keys", autofocus: true }, [...groups].map(([name, list]) => h("section", null, h("h3", null, name), h("dl", { class: "kv" }, list.map((k) => [h("dt", null, k.label), h("dd", null, h("kbd", null, printed(k.key)))]))))),
    h("div", { class: "acts" }, boot.prefs.single_keys === false && h("p", { class: "small" }, "Single-letter keys are switched off in Settings."), button({ text: "Close", cls: "primary", on: () => close() })),
  ], { wide: true });
}
$("#help")?.addEventListener("click", help);

// ---- connection and health
const health = $("#health");
let wait = 1, timer = 0;
function showHealth(cls: string, text: string) {
  if (!health) return;
  health.className = `pill ${cls} hide-s`;
  health.replaceChildren(h("span", { class: "dot" }), text);
}
async function checkHealth() {
  clearTimeout(timer);
  try {
    const res = await fetch(`${boot.base}/api/v1/readyz`, { cache: "no-store" });
    const body = (await res.json()) as { checks?: Record<string, { state: string }> };
    const bad = Object.entries(body.checks ?? {}).filter(([, c]) => c.state !== "ok").map(([name]) => name);
    if (wait > 1) document.dispatchEvent(new CustomEvent("ms:back"));
    wait = 1;
    showHealth(res.ok ? "" : "err", res.ok ? "Healthy" : bad.length ? `${bad.join(", ")}: not working` : "Not ready");
    timer = window.setTimeout(checkHealth, 15_000);
  } catch {
    showHealth("err", `Connection lost, retrying in ${wait} s`);
    timer = window.setTimeout(checkHealth, wait * 1000);
    wait = Math.min(15, wait * 2);
  }
}
if (health) {
  later(() => void checkHealth());
  document.addEventListener("ms:offline", () => { if (wait === 1) void checkHealth(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) void checkHealth(); });
}

// ---- session: signing in again in place, so that nothing that was typed or found is lost
let renewing: Promise<boolean> | undefined;
session.renew = () => (renewing ??= signIn().finally(() => { renewing = undefined; }));

async function signIn(): Promise<boolean> {
  const done = await dialog("Your session has ended", (close) => {
    const problem = h("div", { class: "alert", role: "alert", hidden: true });
    const email = h("input", { class: "in", id: "re-email", name: "email", type: "email", autocomplete: "username", required: true, value: boot.user.email });
    const password = h("input", { class: "in", id: "re-password", name: "password", type: "password", autocomplete: "current-password", required: true, autofocus: true });
    const send = () => fetch(`${boot.base}/login`, { method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams({ email: email.value, password: password.value, form_token: boot.csrf }) }).catch(() => undefined);
    const submit = sending(async () => {
      let res = await send();
      const fresh = res?.status === 403 && ((await res.clone().json().catch(() => ({}))) as { csrf?: string }).csrf; // the reader signed out in another tab, which ended this page's token
      if (fresh) { boot.csrf = fresh; res = await send(); }
      if (res?.ok) {
        const body = (await res.json()) as { csrf: string; user: string };
        if (body.user !== boot.user.id) location.reload();
        boot.csrf = body.csrf;
        return close(true);
      }
      const err = res && (await errorOf(res));
      problem.hidden = false;
      problem.replaceChildren(h("strong", null, err ? told(err) : "The node cannot be reached."));
    });
    return h("form", { onsubmit: submit }, h("p", { class: "t2" }, "Sign in again to go on. The page and everything on it stays as it is."), problem,
      h("div", { class: "field" }, h("label", { for: "re-email" }, "E-mail address"), email), h("div", { class: "field" }, h("label", { for: "re-password" }, "Password"), password),
      h("div", { class: "acts" }, button({ text: "Not now", on: () => close() }), h("button", { class: "btn primary" }, "Sign in")));
  });
  return done === true;
}

// ---- small things on server-rendered pages
document.addEventListener("click", (e) => {
  const b = (e.target as Element).closest?.<HTMLElement>("[data-copy-text]");
  if (b) void copy(b.dataset.copyText!, "Copied");
});
