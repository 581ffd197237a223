// What the page is made of, above the results: its title row and the query box.
import { Edited, type MsEditor } from "../el/editor.ts";
import { MsSelect } from "../el/select.ts";
import { TimeControl } from "../el/time.ts";
import { $, button, h, icon } from "../lib/dom.ts";
import { printed } from "../lib/keys.ts";
import { more } from "../lib/layers.ts";
import { describe, encodeFilter, type Filter, ops } from "./filters.ts";
import { shown } from "./record.ts";
import type { Mode } from "./state.ts";

export interface HeadActs {
  mode(m: Mode): void; views(): void; history(): void; share(): void; live(): void; copyMenu(b: HTMLElement): void; run(): void; stop(): void;
  editFilter(i: number, chip: HTMLElement): void; removeFilter(i: number): void; addFilter(b: HTMLElement): void;
}

export class Head {
  readonly time = new TimeControl();
  readonly stream = new MsSelect();
  readonly live: HTMLButtonElement;
  readonly estimate = h("span", { class: "est muted num" });
  readonly editorBox = h("div", { class: "editor" });
  readonly progress = h("div", { class: "progress", "aria-hidden": "true" }, h("i"));
  readonly cost = h("div", { class: "cost" });
  readonly notes = h("div", { class: "notes" });
  private modes: HTMLButtonElement[];
  private runButton: HTMLButtonElement;
  private stopButton: HTMLButtonElement;
  private chips = h("div", { class: "chips", role: "group", "aria-label": "Filters" });
  readonly edited: Edited;
  readonly nodes: HTMLElement[];

  constructor(private acts: HeadActs, editor: MsEditor) {
    const title = $("#page-title")!;
    title.classList.remove("vh");
    const modes: [Mode, string][] = [["search", "Search"], ["sql", "SQL"]];
    this.modes = modes.map(([id, text]) => h("button", { type: "button", "aria-pressed": "false", "data-mode": id, onclick: () => acts.mode(id) }, text));
    this.live = button({ text: "Live", icon: "radio", cls: "hide-s", "aria-pressed": "false", on: () => acts.live() });
    const views = button({ text: "Saved views", icon: "bookmark", cls: "ghost sm hide-s", "aria-haspopup": "dialog", on: () => acts.views() });
    const head = h("div", { class: "pagehead" }, title, h("div", { class: "seg", role: "group", "aria-label": "Query language" }, this.modes), views, button({ text: "History", icon: "history", cls: "ghost sm hide-s", on: () => acts.history() }), h("span", { class: "spacer" }),
      button({ text: "Share", icon: "share-2", cls: "hide-s", on: () => acts.share() }), this.live, more(() => [
        { text: "Share", icon: "share-2", on: () => acts.share() }, { text: "Live", icon: "radio", checked: this.live.getAttribute("aria-pressed") === "true", on: () => acts.live() },
        { text: "Saved views", icon: "bookmark", on: () => acts.views() }, { text: "History", icon: "history", on: () => acts.history() },
      ]), this.time);
    this.runButton = button({ text: "Run", icon: "play", cls: "primary", kbd: printed("mod+Enter"), on: () => acts.run() });
    this.edited = new Edited(this.runButton);
    this.stopButton = button({ text: "Stop, keep partial", icon: "square", cls: "danger", kbd: "Esc", hidden: true, on: () => acts.stop() });
    const copyButton = button({ icon: "copy", label: "Copy as link, SQL, curl or Grafana query", cls: "ghost icon sm", "aria-haspopup": "menu", "aria-expanded": "false", on: () => acts.copyMenu(copyButton) });
    this.stream.icon = "layers";
    this.stream.placeholder = "Stream";
    this.editorBox.append(editor);
    const add = button({ text: "Filter", icon: "plus", cls: "ghost sm", "aria-haspopup": "dialog", on: () => acts.addFilter(add) });
    const box = h("section", { class: "qbox", "aria-label": "Query" }, h("div", { class: "qrow" }, h("div", { class: "lead" }, this.stream), this.editorBox, h("div", { class: "act" }, copyButton, this.runButton, this.stopButton)),
      h("div", { class: "qfoot" }, this.chips, add, h("span", { class: "spacer" }), this.edited.el, this.estimate));
    this.nodes = [head, box, this.progress, this.cost, this.notes];
  }

  setMode(m: Mode) { for (const b of this.modes) b.setAttribute("aria-pressed", String(b.dataset.mode === m)); }
  setEditor(e: MsEditor) { this.editorBox.replaceChildren(e); }

  setRunning(on: boolean, stopping = false) {
    this.runButton.hidden = on;
    this.stopButton.hidden = !on;
    this.stopButton.disabled = stopping;
    this.stopButton.lastChild!.previousSibling!.textContent = stopping ? "Stopping…" : "Stop, keep partial";
  }

  setFilters(list: Filter[]) {
    const at = document.activeElement, had = this.chips.contains(at);
    this.chips.replaceChildren(...list.map((f, i) => {
      const text = f.values.map((v) => shown(v, 60)).join(" or ") || "";
      const chip = h("span", { class: `chip${/^(not|hasnot|nomatch)$/.test(f.op) ? " not" : ""}`, "data-f": encodeFilter(f) },
        h("button", { type: "button", class: "edit", "aria-label": `Change the filter ${describe(f)}`, onclick: () => this.acts.editFilter(i, chip) }, h("span", { class: "f" }, shown(f.field, 60)), h("span", { class: "o" }, ops[f.op].sign), text && h("span", { class: "v" }, text)),
        h("button", { type: "button", class: "rm", "aria-label": `Remove the filter ${describe(f)}`, onclick: () => this.acts.removeFilter(i) }, icon("x", "xs")));
      return chip;
    }));
    this.chips.hidden = list.length === 0;
    if (had && !document.body.contains(at)) (this.chips.querySelector<HTMLElement>("button") ?? this.runButton).focus();
  }
}
