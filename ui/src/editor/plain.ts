// The query editor: a textarea over a copy of its text, which has the colours and the marks and makes both as tall as the text.
import { announce } from "../lib/a11y.ts";
import { h, mac } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import { type Completion, type Item, type Mark, markEnd, type Surface, type SurfaceOptions } from "./surface.ts";
import type { Token } from "./search.ts";

const maxColoured = 20_000; // characters; longer text stays in one colour

let serial = 0;

export function plain(host: HTMLElement, o: SurfaceOptions, tokens?: (text: string) => Token[]): Surface {
  const copy = h("pre", { class: "ed-copy", "aria-hidden": "true" }), hint = h("span", { class: "ed-hint" }, o.placeholder); // what is hinted at may need more than a line, too
  const field = h("textarea", { class: "ed-in", rows: "1", spellcheck: "false", autocapitalize: "none", autocomplete: "off", autocorrect: "off", placeholder: o.placeholder, "aria-label": o.label });
  const box = h("div", { class: "ed-plain" }, copy, field);
  host.append(box);
  let marked: Mark | null = null;

  const paint = () => {
    const text = field.value;
    const list: Token[] = tokens && text.length <= maxColoured ? tokens(text) : [{ text, kind: "" }];
    const [from, to] = marked ? [marked.from, markEnd(text, marked)] : [-1, -1];
    let at = 0;
    const spans: Node[] = [];
    for (const t of list) {
      // A token is cut where the mark begins and ends.
      const cuts = [at, ...[from, to].filter((c) => c > at && c < at + t.text.length), at + t.text.length];
      for (let i = 1; i < cuts.length; i++) {
        const part = text.slice(cuts[i - 1], cuts[i]);
        const cls = [t.kind && `ed-${t.kind}`, cuts[i - 1]! >= from && cuts[i]! <= to && "ed-wrong"].filter(Boolean).join(" ");
        spans.push(cls ? h("span", { class: cls }, part) : document.createTextNode(part));
      }
      at += t.text.length;
    }
    if (from >= text.length && from >= 0) spans.push(h("span", { class: "ed-wrong" }, " "));
    copy.replaceChildren(...(text ? spans : [hint]), "\u200b");
  };

  const popup = completions(host, field, copy, o, (c, it) => {
    field.setSelectionRange(c.from, c.to);
    insertText(field, it.apply ?? it.label);
  });

  field.addEventListener("input", () => { marked = null; paint(); o.onChange(); popup.typed(); });
  field.addEventListener("keydown", (e) => {
    if (e.isComposing || popup.key(e)) return;
    const mod = mac ? e.metaKey : e.ctrlKey;
    if (e.key === "Enter" && (mod || (!o.multiline && !e.shiftKey))) {
      e.preventDefault();
      e.stopPropagation();
      popup.close();
      o.onRun();
    }
  });
  paint();

  return {
    get value() { return field.value; },
    set value(v) { if (v !== field.value) { field.value = v; marked = null; paint(); } },
    get selection(): [number, number] { return [field.selectionStart, field.selectionEnd]; },
    get focused() { return document.activeElement === field; },
    select: (from, to) => field.setSelectionRange(from, to),
    focus: () => field.focus(),
    insert: (text) => { field.focus(); insertText(field, text); },
    repaint: paint,
    mark: (m) => { marked = m; paint(); field.setAttribute("aria-invalid", String(m !== null)); },
    destroy: () => { popup.close(); box.remove(); },
  };
}

// execCommand is the one way that the reader can undo.
function insertText(field: HTMLTextAreaElement, text: string) {
  if (document.activeElement === field && document.execCommand("insertText", false, text)) return;
  field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function completions(host: HTMLElement, field: HTMLTextAreaElement, copy: HTMLElement, o: SurfaceOptions, accept: (c: Completion, it: Item) => void) {
  const id = `ed-list-${++serial}`;
  let list: HTMLElement | undefined, shown: Completion | undefined, active = -1, timer = 0, asked = 0, quiet = false;

  const close = () => {
    clearTimeout(timer);
    asked++;
    list?.remove();
    list = shown = undefined;
    active = -1;
    for (const a of ["aria-controls", "aria-activedescendant"]) field.removeAttribute(a);
  };
  const choose = (i: number) => {
    const c = shown, it = c?.items[i];
    if (!c || !it) return;
    close();
    field.focus();
    quiet = true; // what is put in does not ask for more at once
    accept(c, it);
  };
  const activate = (i: number) => {
    active = i;
    [...list!.children].forEach((e, k) => e.setAttribute("aria-selected", String(k === i)));
    const on = list!.children[i];
    if (on) { field.setAttribute("aria-activedescendant", on.id); on.scrollIntoView({ block: "nearest" }); }
  };
  const show = (c: Completion) => {
    list?.remove();
    shown = c;
    active = -1;
    list = h("div", { class: "menu ed-list", id, role: "listbox", "aria-label": "Completions" }, c.items.slice(0, 100).map((it, i) =>
      h("div", { role: "option", id: `${id}-${i}`, "aria-selected": "false", onpointerdown: (e: Event) => { e.preventDefault(); choose(i); } }, it.kind && h("span", { class: "ed-kind" }, it.kind), h("span", { class: "ell mono" }, it.label), it.detail && h("span", { class: "end muted" }, it.detail))));
    host.append(list);
    field.setAttribute("aria-controls", id);
    const at = caretRect(copy, c.from), r = list.getBoundingClientRect();
    const below = at.bottom + 4 + r.height <= innerHeight || at.top < r.height;
    list.style.left = `${Math.max(8, Math.min(at.left - 6, innerWidth - r.width - 8))}px`;
    list.style.top = `${below ? at.bottom + 4 : at.top - r.height - 4}px`;
    announce(`${plural(c.items.length, "completion")}, down arrow to choose`);
  };
  const ask = async () => {
    const complete = o.complete();
    if (!complete || field.selectionStart !== field.selectionEnd) return close();
    const mine = ++asked;
    const c = await complete(field.value, field.selectionStart).catch(() => null);
    if (mine !== asked) return;
    const typed = c && field.value.slice(c.from, c.to);
    if (!c || c.items.length === 0 || (c.items.length === 1 && (c.items[0]!.apply ?? c.items[0]!.label) === typed)) return close();
    show(c);
  };
  field.autocomplete = "off";
  field.setAttribute("aria-autocomplete", "list");
  field.addEventListener("blur", close);
  field.addEventListener("pointerdown", close);
  return {
    close,
    typed() { clearTimeout(timer); if (quiet) quiet = false; else timer = window.setTimeout(() => void ask(), 80); },
    key(e: KeyboardEvent): boolean {
      if (e.key === " " && e.ctrlKey) { e.preventDefault(); void ask(); return true; }
      if (!list || !shown) return false;
      const n = list.children.length;
      if (e.key === "ArrowDown") activate((active + 1) % n);
      else if (e.key === "ArrowUp") activate((active + n - (active < 0 ? 0 : 1)) % n);
      else if (e.key === "Tab" && !e.shiftKey) choose(Math.max(0, active));
      else if (e.key === "Enter" && active >= 0 && !e.ctrlKey && !e.metaKey) choose(active);
      else if (e.key === "Escape") close();
      else {
        if (/^(Arrow|Home|End|Page)/.test(e.key)) close();
        return false;
      }
      e.preventDefault();
      e.stopPropagation();
      return true;
    },
  };
}

/** Where a character of the text is on the screen. */
function caretRect(copy: HTMLElement, offset: number): DOMRect {
  const walk = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  let left = offset;
  for (let n = walk.nextNode() as Text | null; n; n = walk.nextNode() as Text | null) {
    if (left <= n.length) {
      const r = document.createRange();
      r.setStart(n, left);
      r.collapse(true);
      const b = r.getBoundingClientRect();
      if (b.height > 0) return b;
    }
    left -= n.length;
  }
  return copy.getBoundingClientRect();
}
