// <ms-editor>: the box in which a query is typed. It can be typed in at once; colours and completion of SQL and PromQL come when they are loaded, and when they
// cannot be loaded nothing else is missed.
//
// Set label, placeholder, multiline, language and complete before it is put into the page. Events, which bubble: ms:change {value} for each change by the
// reader, ms:run for mod+Enter, and Enter where one line is enough.
import { h, sentence } from "../lib/dom.ts";
import { printed } from "../lib/keys.ts";
import { plain } from "../editor/plain.ts";
import { searchTokens, type Token } from "../editor/search.ts";
import type { Complete, Completion, Item, Mark, Surface, SurfaceOptions } from "../editor/surface.ts";

export type { Complete, Completion, Item, Mark };
export type Language = "search" | "sql" | "promql";

type Made = { tokens: (text: string) => Token[]; complete: (own: Complete | undefined) => Complete };

const loaders: Record<string, () => Promise<Made>> = {
  sql: async () => ({ tokens: (await import("../editor/tokens.ts")).sqlTokens, complete: (await import("../editor/sql.ts")).sqlComplete }),
  promql: async () => { const { promqlComplete } = await import("../editor/promql.ts"); return { tokens: (await import("../editor/tokens.ts")).promqlTokens, complete: (own) => own ?? promqlComplete }; },
};

let serial = 0;

export class MsEditor extends HTMLElement {
  label = "Query";
  placeholder = "";
  multiline = false;
  complete: Complete | undefined;
  #language: Language = "search";
  #surface: Surface | undefined;
  #text = ""; // before it is in the page
  #message = h("p", { class: "ed-message", hidden: true });

  connectedCallback() {
    if (this.#surface) return;
    this.#message.id = `ed-message-${++serial}`;
    this.append(this.#message);
    this.#show();
  }

  get language() { return this.#language; }
  set language(l: Language) {
    if (l === this.#language) return;
    this.#language = l;
    if (this.#surface) this.#show();
  }

  get value() { return this.#surface?.value ?? this.#text; }
  set value(v: string) {
    this.#text = v;
    if (!this.#surface || v === this.#surface.value) return;
    this.#surface.value = v;
    this.#say(null);
  }

  /** Shows where the statement is wrong, or that it is not. */
  mark(m: Mark | null) {
    this.#surface?.mark(m);
    this.#say(m);
  }

  /** Puts text in place of the selection. */
  insert(text: string) { this.#surface?.insert(text); }

  get selection(): [number, number] { return this.#surface?.selection ?? [this.#text.length, this.#text.length]; }

  /** Puts text in place of all that is there; unlike setting the value, the reader can undo it. */
  replace(text: string) { this.#surface?.select(0, this.value.length); this.insert(text); }

  override focus() { this.#surface?.focus(); }

  #say(m: Mark | null) {
    this.#message.hidden = !m;
    this.#message.textContent = sentence(m?.message ?? "");
    if (m) this.#message.setAttribute("role", "alert");
  }

  #options(complete: () => Complete | undefined): SurfaceOptions {
    return {
      label: this.label, placeholder: this.placeholder, multiline: this.multiline, complete,
      onChange: () => { this.#say(null); this.dispatchEvent(new CustomEvent("ms:change", { bubbles: true, detail: { value: this.value } })); },
      onRun: () => { this.dispatchEvent(new CustomEvent("ms:run", { bubbles: true })); },
    };
  }

  #show() {
    const language = this.#language;
    let made: Made | undefined;
    const old = this.#surface;
    const value = this.value, selection = old?.selection, focused = old?.focused;
    old?.destroy();
    const tokens = (text: string): Token[] => (language === "search" ? searchTokens(text) : made?.tokens(text) ?? [{ text, kind: "" }]);
    const next = plain(this, this.#options(() => (made ? made.complete(this.complete) : this.complete)), tokens);
    this.#surface = next;
    this.append(this.#message); // below what was made
    next.value = value;
    next.select(...(selection ?? [value.length, value.length]));
    if (focused) next.focus();
    loaders[language]?.().then((m) => { made = m; next.repaint(); }, () => { /* one colour, no completion */ });
  }
}

customElements.define("ms-editor", MsEditor);

/** The sign at a run button that what is typed is not what is shown. */
export class Edited {
  /** The text of the sign, to be put near the button. It is a live region of its own: what completion announces meanwhile does not take its place. */
  readonly el = h("span", { class: "edited", role: "status", id: `ed-edited-${++serial}` });

  constructor(private run: HTMLElement) { run.setAttribute("aria-describedby", this.el.id); }

  get on() { return this.run.classList.contains("is-edited"); }
  set on(yes: boolean) {
    if (yes === this.on) return;
    this.run.classList.toggle("is-edited", yes);
    this.el.replaceChildren(...(yes ? [h("span", { class: "dot" }), "Edited, not run", h("kbd", null, printed("mod+Enter"))] : []));
  }
}

declare global { interface HTMLElementTagNameMap { "ms-editor": MsEditor } }
