// What floats above the page: dialogs, menus, toasts. Escape closes the topmost and gives the focus back.
import { button, h, icon } from "./dom.ts";
import { announce } from "./a11y.ts";

declare class CloseWatcher { onclose: () => void; destroy(): void } // the types lack it, as some browsers do

let dialogs = 0; // made so far; one may open over another, and each is named by its own heading

/** Opens a modal dialog; the promise ends when it is closed. `close` is given to the content. */
export function dialog(title: string, content: (close: (value?: unknown) => void) => Node | Node[], o: { wide?: boolean; cls?: string; leave?: () => Promise<boolean> } = {}): Promise<unknown> {
  const back = document.activeElement as HTMLElement | null;
  return new Promise((done) => {
    let value: unknown;
    const name = `dlg-h${++dialogs}`;
    const d = h("dialog", { class: `${o.cls ?? ""} ${o.wide ? "wide" : ""}`.trim() || null, "aria-labelledby": name });
    const close = (v?: unknown) => { value = v; d.close(); };
    d.append(h("div", { class: "body" }, h("h2", { id: name }, title), content(close)));
    const leave = async () => { if (!o.leave || (await o.leave())) close(); };
    d.addEventListener("click", (e) => { if (e.target === d && e.detail < 2) void leave(); }); // the second click of the double click that opened it is none beside it
    d.addEventListener("cancel", (e) => { if (e.target === d && o.leave) { e.preventDefault(); void leave(); } });
    d.addEventListener("close", () => { const box = d.querySelector(".toasts"); if (box) put(box, ground()); d.remove(); back?.focus(); done(value); });
    document.body.append(d);
    d.showModal();
    d.querySelector<HTMLElement>("[autofocus]")?.focus();
  });
}

/** Asks before something that cannot be taken back. With a name, the reader must type it. */
export const confirm = (title: string, text: string, o: { action: string; danger?: boolean; type?: string } = { action: "Continue" }) =>
  dialog(title, (close) => {
    const go = button({ text: o.action, cls: o.danger ? "danger" : "primary", on: () => close(true), disabled: o.type !== undefined });
    const input = o.type !== undefined && h("input", { class: "in", id: "dlg-name", autocomplete: "off", autofocus: true, oninput: (e: Event) => { go.disabled = (e.target as HTMLInputElement).value !== o.type; } });
    return [h("p", { class: "t2" }, text), input ? h("div", { class: "field" }, h("label", { for: "dlg-name" }, "Type ", h("code", null, o.type), " to confirm"), input) : h("span", { hidden: true }), h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), go)];
  }).then(Boolean);

export interface MenuItem { text: string; icon?: string; kbd?: string; end?: string; checked?: boolean; danger?: boolean; on?: () => void; href?: string; heading?: boolean; rule?: boolean }

let openMenu: { el: HTMLElement; close: (focus?: boolean) => void } | undefined;

/** Opens a menu below an element. */
export function menu(anchor: HTMLElement, items: MenuItem[], o: { label?: string } = {}) {
  const again = openMenu && anchor.getAttribute("aria-expanded") === "true";
  openMenu?.close(false);
  if (again) return;
  const nodes = items.map((it) => {
    if (it.rule) return h("hr", { role: "separator" });
    if (it.heading) return h("p", { class: "mh", role: "presentation" }, it.text);
    const role = it.checked === undefined ? "menuitem" : "menuitemradio";
    const inner = [it.checked !== undefined ? icon(it.checked ? "check" : it.icon ?? "minus", it.checked || it.icon ? "s" : "s off") : it.icon && icon(it.icon, "s"), h("span", { class: "ell" }, it.text), it.kbd && h("kbd", null, it.kbd), it.end && h("span", { class: "end muted" }, it.end)];
    const attrs = { role, tabindex: "-1", "aria-checked": it.checked === undefined ? undefined : String(it.checked), class: it.danger ? "danger" : null };
    return it.href ? h("a", { ...attrs, href: it.href }, inner) : h("button", { ...attrs, type: "button", onclick: () => { close(); it.on?.(); } }, inner);
  });
  const el = h("div", { class: "menu", role: "menu", "aria-label": o.label ?? anchor.getAttribute("aria-label") ?? "Menu" }, nodes);
  const focusable = () => [...el.querySelectorAll<HTMLElement>("[role^=menuitem]")];
  const onKey = (e: KeyboardEvent) => {
    const list = focusable(), at = list.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: (at + 1) % list.length, ArrowUp: (at - 1 + list.length) % list.length, Home: 0, End: list.length - 1 }[e.key];
    if (to !== undefined) list[to]?.focus();
    else if (e.key === "Escape" || e.key === "Tab") close();
    else if (e.key.length === 1 && /\S/.test(e.key)) list.find((x, i) => i > at && x.textContent?.trim().toLowerCase().startsWith(e.key.toLowerCase()))?.focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const outside = (e: Event) => { if (!el.contains(e.target as Node) && !anchor.contains(e.target as Node)) close(false); };
  const close = (focus = true) => {
    el.remove();
    removeEventListener("pointerdown", outside, true);
    anchor.setAttribute("aria-expanded", "false");
    openMenu = undefined;
    if (focus) anchor.focus();
  };
  el.addEventListener("keydown", onKey);
  addEventListener("pointerdown", outside, true);
  (anchor.closest("dialog") ?? document.body).append(el);
  place(el, anchor);
  anchor.setAttribute("aria-expanded", "true");
  openMenu = { el, close };
  (el.querySelector<HTMLElement>("[aria-checked=true]") ?? focusable()[0])?.focus();
}

/** What a row of buttons has no room for on a small window: it goes with buttons of the class hide-s. */
export const more = (items: () => MenuItem[]) => button({ icon: "ellipsis", label: "More", cls: "icon only-s", "aria-haspopup": "menu", "aria-expanded": "false", on: (e: MouseEvent) => menu(e.currentTarget as HTMLElement, items()) });

/**
 * For a pane that lies over the page where there is little room: a veil takes the taps beside it, which close it, as Escape and the way back do. The focus goes into
 * the pane. What it returns takes the veil away, and gives the focus back if it was in the pane. Where the pane has a place of its own, the veil is not shown and nothing of this happens.
 */
export function over(pane: HTMLElement, close: () => void): () => void {
  const back = document.activeElement as HTMLElement | null, veil = h("div", { class: "veil", "aria-hidden": "true", onclick: close });
  const escape = (e: KeyboardEvent) => {
    if (e.key !== "Escape" || !veil.checkVisibility() || document.querySelector("dialog[open],.menu,:popover-open")) return;
    e.preventDefault();
    e.stopPropagation();
    close();
  };
  pane.before(veil);
  document.addEventListener("keydown", escape, true);
  const watcher = veil.checkVisibility() && "CloseWatcher" in window ? new CloseWatcher() : undefined; // the gesture "back" of a phone
  if (watcher) watcher.onclose = close;
  if (veil.checkVisibility() && !pane.contains(back)) { pane.tabIndex = -1; pane.focus({ preventScroll: true }); }
  return () => {
    const inside = pane.contains(document.activeElement);
    watcher?.destroy();
    veil.remove();
    document.removeEventListener("keydown", escape, true);
    if (inside && !pane.checkVisibility()) back?.focus({ preventScroll: true });
  };
}

/** Puts a floating element below its anchor, or above it, inside the window. */
export function place(el: HTMLElement, anchor: Element) {
  const a = anchor.getBoundingClientRect(), r = el.getBoundingClientRect();
  const below = a.bottom + 4 + r.height <= innerHeight || a.top < r.height + 4;
  el.style.left = `${Math.max(8, Math.min(a.left, innerWidth - r.width - 8))}px`;
  el.style.top = `${below ? Math.min(a.bottom + 4, Math.max(8, innerHeight - r.height - 8)) : a.top - r.height - 4}px`;
}

/** Where messages are when no dialog is open: in the room that the top bar has left, where they cover nothing and move nothing. */
const ground = () => document.querySelector(".topbar") ?? document.body;
const put = (box: Element, host: Element) => host.insertBefore(box, host.querySelector(":scope>.cmdk"));

/**
 * A short message in the top bar; errors stay until they are closed. What a page shows anyway needs none. The newest is in sight; an error that it hides comes back
 * after it. An error that has not room enough is said in a dialog instead.
 */
export function toast(text: string, o: { error?: boolean; action?: { text: string; on: () => void } } = {}) {
  let box = document.querySelector<HTMLElement>(".toasts");
  box ??= h("div", { class: "toasts", role: "region", "aria-label": "Messages" });
  const host = [...document.querySelectorAll("dialog[open]")].at(-1) ?? ground(); // what is outside a dialog cannot be reached
  if (box.parentElement !== host) put(box, host);
  const end = () => t.remove(), said = h("span", { title: text }, text);
  const t = h("div", { class: `toast ${o.error ? "error" : ""}`.trim(), role: o.error ? "alert" : null }, icon(o.error ? "circle-alert" : "circle-check", "s"), said,
    o.action && button({ text: o.action.text, cls: "sm", kbd: "F6", on: () => { end(); o.action!.on(); } }), button({ icon: "x", label: "Close the message", cls: "ghost icon sm", on: end }));
  box.prepend(t);
  if (o.error && said.scrollHeight > said.clientHeight + 2) { end(); void dialog("This did not work", (close) => [h("p", { class: "t2" }, text), h("div", { class: "acts" }, button({ text: "Close", cls: "primary", autofocus: true, on: () => close() }))]); }
  if (o.error) return;
  announce(o.action ? `${text}. ${o.action.text}: F6` : text);
  const gone = () => (t.contains(document.activeElement) ? void setTimeout(gone, 1000) : end()); // not from under the reader's focus
  setTimeout(gone, o.action ? 9000 : 4500);
}

/** Puts text on the clipboard, and says so; browsers offer it over HTTPS and on localhost only. */
export async function copy(text: string, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
    toast(what);
  } catch {
    await dialog("Copy this", () => h("textarea", { class: "in mono", rows: "8", readonly: true, autofocus: true, "aria-label": "Text to copy", onfocus: (e: Event) => (e.target as HTMLTextAreaElement).select() }, text));
  }
}
