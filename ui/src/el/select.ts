// <ms-select>: choosing from a long list by typing. Items are given, or asked for as the reader types.
//
// Set label, and items or search, before it is put into the page; value and items may change at any time. Event, which bubbles: ms:change {value}.
import { h, icon } from "../lib/dom.ts";
import { announce } from "../lib/a11y.ts";
import { plural } from "../lib/format.ts";
import { place } from "../lib/layers.ts";

export interface Option { value: string; label?: string; detail?: string; icon?: string }

const shown = 200; // options in the list at once; typing narrows it

let serial = 0;

export class MsSelect extends HTMLElement {
  label = "";
  placeholder = "Any"; // on the button while nothing is chosen
  multi = false;
  clearable = false; // the first option is to choose nothing
  icon = "";
  search: ((q: string) => Promise<Option[]>) | undefined;
  #items: Option[] = [];
  #value: string | string[] = "";
  #button: HTMLButtonElement | undefined;
  #open: { box: HTMLElement; close: (focus: boolean) => void } | undefined;

  get items() { return this.#items; }
  set items(list: Option[]) { this.#items = list; this.#paint(); }

  /** What is chosen: an array where several may be. */
  get value(): string | string[] { return this.#value; }
  set value(v: string | string[]) { this.#value = v; this.#paint(); }

  connectedCallback() {
    if (this.#button) return;
    this.#button = h("button", { type: "button", class: "btn select", "aria-haspopup": "listbox", "aria-expanded": "false", onclick: () => (this.#open ? this.#open.close(true) : this.open()) });
    this.#button.addEventListener("keydown", (e) => { if (/^Arrow(Down|Up)$/.test(e.key) && !this.#open) { e.preventDefault(); this.open(); } });
    this.append(this.#button);
    this.#paint();
  }

  disconnectedCallback() { this.#open?.close(false); }

  override focus() { this.#button?.focus(); }

  get #chosen(): string[] { return Array.isArray(this.#value) ? this.#value : this.#value ? [this.#value] : []; }

  #paint() {
    if (!this.#button) return;
    const names = this.#chosen.map((v) => this.#items.find((it) => it.value === v)?.label ?? v);
    this.#button.replaceChildren(...[this.icon && icon(this.icon, "s"), this.label && h("span", { class: "sel-label" }, this.label + " "), h("span", { class: `ell sel-value${names.length ? "" : " muted"}` }, names.length > 2 ? `${names[0]} and ${names.length - 1} more` : names.join(", ") || this.placeholder), icon("chevron-down", "xs")].filter(Boolean) as Node[]);
    this.#button.title = names.join(", ");
  }

  #choose(v: string) {
    if (this.multi) this.#value = this.#chosen.includes(v) ? this.#chosen.filter((x) => x !== v) : [...this.#chosen, v];
    else this.#value = v;
    this.#paint();
    this.dispatchEvent(new CustomEvent("ms:change", { bubbles: true, detail: { value: this.#value } }));
  }

  open() {
    if (this.#open || !this.#button) return;
    const button = this.#button, id = `sel-${++serial}`;
    let found: Option[] = [], active = 0, asked = 0, timer = 0, answer = Promise.resolve();
    const list = h("div", { role: "listbox", id, "aria-label": this.label || "Options", "aria-multiselectable": this.multi ? "true" : undefined, class: "sel-list" });
    const input = h("input", { class: "in", role: "combobox", "aria-label": `Find ${this.label.toLowerCase()}`.trim(), "aria-controls": id, "aria-expanded": "true", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: "Type to narrow" });
    const note = h("p", { class: "sel-note muted", hidden: true });
    const box = h("div", { class: "menu sel-box" }, input, list, note);

    const activate = (i: number) => {
      active = Math.max(0, Math.min(i, list.children.length - 1));
      [...list.children].forEach((e, k) => e.classList.toggle("on", k === active));
      const on = list.children[active];
      if (on) { input.setAttribute("aria-activedescendant", on.id); on.scrollIntoView({ block: "nearest" }); } else input.removeAttribute("aria-activedescendant");
    };
    const paint = (all: Option[], q: string) => {
      found = all.slice(0, shown);
      if (this.clearable && !q && !this.multi) found.unshift({ value: "", label: this.placeholder });
      list.replaceChildren(...found.map((it, i) => {
        const on = this.#chosen.includes(it.value) || (!it.value && this.#chosen.length === 0);
        return h("div", { role: "option", id: `${id}-${i}`, "aria-selected": String(on), onclick: () => pick(i) }, this.multi ? h("span", { class: `sel-box-mark${on ? " on" : ""}` }, on && icon("check", "xs")) : icon("check", on ? "s" : "s off"), it.icon && icon(it.icon, "s"), h("span", { class: "ell" }, it.label ?? it.value), it.detail && h("span", { class: "end muted" }, it.detail));
      }));
      note.hidden = all.length > 0 && all.length <= shown;
      note.textContent = all.length === 0 ? "Nothing of that name" : `${shown} of ${plural(all.length, "option")}; type to narrow`;
      const at = q ? 0 : found.findIndex((it) => this.#chosen.includes(it.value));
      activate(Math.max(0, at));
      if (q) announce(plural(all.length, "option"));
    };
    const look = async () => {
      clearTimeout(timer);
      timer = 0;
      const q = input.value.trim(), mine = ++asked;
      if (!this.search) return paint(rank(this.#items, q), q);
      const all = await this.search(q).catch(() => []);
      if (mine === asked) paint(all, q);
    };
    const ask = () => (answer = look());
    const pick = (i: number) => {
      const it = found[i];
      if (!it) return;
      this.#choose(it.value);
      if (!this.multi) return close(true);
      paint(this.search ? found : rank(this.#items, input.value.trim()), input.value.trim());
      activate(i);
    };
    /** What Enter chooses is an option for the text that stands there, also if it was typed faster than it is looked for. */
    const enter = async () => {
      await (timer ? ask() : answer);
      if (this.#open?.box === box) pick(active);
    };
    const outside = (e: Event) => { if (!box.contains(e.target as Node) && !this.contains(e.target as Node)) close(false); };
    const close = (focus: boolean) => {
      clearTimeout(timer);
      asked++;
      box.remove();
      removeEventListener("pointerdown", outside, true);
      button.setAttribute("aria-expanded", "false");
      this.#open = undefined;
      if (focus) button.focus();
    };
    input.addEventListener("input", () => { clearTimeout(timer); timer = window.setTimeout(() => void ask(), this.search ? 150 : 0); });
    input.addEventListener("keydown", (e) => {
      const page = 8;
      const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page }[e.key];
      if (to !== undefined) activate(to);
      else if (e.key === "Enter") void enter();
      else if (e.key === "Escape") close(true);
      else if (e.key === "Tab") return close(true);
      else return;
      e.preventDefault();
      e.stopPropagation();
    });
    addEventListener("pointerdown", outside, true);
    (this.closest("dialog") ?? document.body).append(box);
    button.setAttribute("aria-expanded", "true");
    this.#open = { box, close };
    paint(rank(this.#items, ""), "");
    place(box, button);
    if (this.search) void ask();
    input.focus();
  }
}

/** Options whose name has the text, those that begin with it first. */
function rank(items: Option[], q: string): Option[] {
  if (!q) return items;
  const want = q.toLowerCase();
  const at = (it: Option) => (it.label ?? it.value).toLowerCase().indexOf(want);
  return items.filter((it) => at(it) >= 0).sort((a, b) => Math.min(1, at(a)) - Math.min(1, at(b)));
}

customElements.define("ms-select", MsSelect);

declare global { interface HTMLElementTagNameMap { "ms-select": MsSelect } }
