// Building elements. Text only ever becomes a text node: nothing here parses HTML.
declare const ICONS: string; // the sprite's file name, set by the build

type Child = Node | string | number | null | undefined | false | Child[];
type Attrs = Record<string, unknown>;

/** Makes an element. Attributes: `class`, `text`, `on…` listeners, `data-…`; true is an empty attribute, false, null and undefined leave it out. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attrs?: Attrs | null, ...children: Child[]): HTMLElementTagNameMap[K];
export function h(tag: string, attrs?: Attrs | null, ...children: Child[]): HTMLElement;
export function h(tag: string, attrs?: Attrs | null, ...children: Child[]): HTMLElement {
  const e = document.createElement(tag);
  set(e, attrs);
  append(e, children);
  return e;
}

const SVG = "http://www.w3.org/2000/svg";

/** Makes an SVG element. */
export function s(tag: string, attrs?: Attrs | null, ...children: Child[]): SVGElement {
  const e = document.createElementNS(SVG, tag);
  set(e, attrs);
  append(e, children);
  return e;
}

function set(e: Element, attrs?: Attrs | null) {
  for (const [k, v] of Object.entries(attrs ?? {})) {
    if (v === false || v === null || v === undefined) continue;
    if (k.startsWith("on") && typeof v === "function") e.addEventListener(k.slice(2), v as EventListener);
    else if (k === "text") e.textContent = String(v);
    else if (k === "value" && "value" in e) (e as HTMLInputElement).value = String(v);
    else e.setAttribute(k, v === true ? "" : String(v));
  }
}

function append(e: Element, children: Child[]) {
  for (const c of children) {
    if (Array.isArray(c)) append(e, c);
    else if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node ? c : String(c));
  }
}

const spriteBase = (document.querySelector<HTMLLinkElement>('link[rel="stylesheet"]')?.getAttribute("href") ?? "").replace(/[^/]*$/, "");

/** Whether a finger points: nothing hovers, and targets are larger. The style sheet touch.css has the same condition. */
export const touch = () => matchMedia("(hover:none),(pointer:coarse)").matches;

/** An icon of the sprite; size is "", "s" (14 px) or "xs" (12 px). */
export const icon = (name: string, size = "") => s("svg", { class: `i ${size}`.trim(), "aria-hidden": "true" }, s("use", { href: `${spriteBase}${ICONS}#${name}` }));

/** A button. Icon-only buttons need a label. */
export function button(o: { icon?: string; label?: string; text?: string; cls?: string; kbd?: string; on?: (e: MouseEvent) => void } & Attrs): HTMLButtonElement {
  const { icon: ic, label, text, cls, kbd, on, ...rest } = o;
  return h("button", { type: "button", class: `btn ${cls ?? ""}`.trim(), "aria-label": label, title: !text ? label : undefined, onclick: on, ...rest }, ic && icon(ic, "s"), text, kbd && h("kbd", null, kbd));
}

/** What a form or a button does. While that goes on, a second click does nothing, nor does the second one of a double click. */
export function sending(send: () => Promise<unknown>): (e: Event) => Promise<void> {
  let busy = false;
  return async (e) => {
    e.preventDefault();
    if (busy || (e instanceof MouseEvent && e.detail > 1)) return;
    busy = true;
    try { await send(); } finally { busy = false; }
  };
}

export const $ = <T extends Element = HTMLElement>(sel: string, root: ParentNode = document) => root.querySelector<T>(sel);
export const $$ = <T extends Element = HTMLElement>(sel: string, root: ParentNode = document) => [...root.querySelectorAll<T>(sel)];

/** Control characters, and those that turn the direction of the text around them, shown as what they are. */
export const visible = (t: string) => t.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `[U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

/** A message as a sentence begins, as pages of the server show it; an address stays as it is. */
export const sentence = (t: string) => (/^\S*@/.test(t) ? t : t.charAt(0).toUpperCase() + t.slice(1));

/** A name that may break behind its separators: what takes it from the page, by copying or by its text, has the name alone. */
export const breakable = (name: string): Child[] => name.split(/(?<=[_.:])(?=[^_.:])/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));

/** Says at the end of the breadcrumbs what the page shows. */
export function crumb(text: string) { const el = $("#crumb"); if (el) el.textContent = visible(text); }

export const mac = /Mac|iPhone|iPad/.test(navigator.platform);
