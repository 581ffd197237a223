// <ms-editor>: the box in which a query is typed. It can be typed in at once; for SQL and PromQL the editor takes over text, selection and focus when it is
// loaded, and when it cannot be loaded nothing is missed but colours and completion.
//
// Set label, placeholder, multiline, language and complete before it is put into the page. Events, which bubble: ms:change {value} for each change by the
// reader, ms:run for mod+Enter, and Enter where one line is enough.
import { h } from "../lib/dom.ts";
import { plain } from "../editor/plain.ts";
import { searchTokens } from "../editor/search.ts";
import type { Complete, Completion, Item, Mark, Surface, SurfaceOptions } from "../editor/surface.ts";

export type { Complete, Completion, Item, Mark };
export type Language = "search" | "sql" | "promql";

const loaders: Record<string, () => Promise<(host: HTMLElement, o: SurfaceOptions) => Surface>> = {
  sql: async () => (await import("../editor/sql.ts")).sqlEditor,
  promql: async () => (await import("../editor/promql.ts")).promqlEditor,
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

  override focus() { this.#surface?.focus(); }

  #say(m: Mark | null) {
    this.#message.hidden = !m;
    this.#message.textContent = m?.message ?? "";
    if (m) this.#message.setAttribute("role", "alert");
  }

  #options(): SurfaceOptions {
    return {
      label: this.label, placeholder: this.placeholder, multiline: this.multiline, complete: () => this.complete,
      onChange: () => { this.#say(null); this.dispatchEvent(new CustomEvent("ms:change", { bubbles: true, detail: { value: this.value } })); },
      onRun: () => { this.dispatchEvent(new CustomEvent("ms:run", { bubbles: true })); },
    };
  }

  #show() {
    const language = this.#language, load = loaders[language];
    this.#replace((host, o) => plain(host, o, language === "search" ? searchTokens : undefined));
    if (!load) return;
    load().then((make) => { if (this.#language === language && this.isConnected) this.#replace(make); }, () => { /* the plain field stays */ });
  }

  #replace(make: (host: HTMLElement, o: SurfaceOptions) => Surface) {
    const old = this.#surface;
    const value = this.value, selection = old?.selection, focused = old?.focused;
    old?.destroy();
    const next = make(this, this.#options());
    this.#surface = next;
    this.append(this.#message); // below what was made
    next.value = value;
    next.select(...(selection ?? [value.length, value.length]));
    if (focused) next.focus();
  }
}

customElements.define("ms-editor", MsEditor);

declare global { interface HTMLElementTagNameMap { "ms-editor": MsEditor } }
