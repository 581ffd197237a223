// The list of dashboards: found by name, folder and tag; starred and recent ones first.
import { explain } from "../lib/api.ts";
import { boot, may, orgPath } from "../lib/boot.ts";
import { button, h, icon, visible } from "../lib/dom.ts";
import { ago } from "../lib/format.ts";
import { menu, toast } from "../lib/layers.ts";
import { empty, failure, skeleton, told } from "../lib/states.ts";
import { read, write } from "../lib/url.ts";
import { saveFile } from "../dashboard/file.ts";
import { exported, list, type Listed, remove, undelete } from "../dashboard/model.ts";
import { recent } from "./recent.ts";

const starKey = `ms.stars.${boot.org}`;
const stars = (): string[] => { try { const v: unknown = JSON.parse(localStorage.getItem(starKey) ?? "[]"); return Array.isArray(v) ? v.filter((x): x is string => typeof x === "string") : []; } catch { return []; } };

export class DashboardList {
  private all: Listed[] = [];
  private readonly body = h("div", { class: "scroll page" });
  private readonly table = h("section", { class: "card", "aria-label": "Dashboards" });
  private q = read().get("q") ?? "";
  private tag = read().get("tag") ?? "";

  constructor(private root: HTMLElement) {}

  async start() {
    document.getElementById("page-title")?.remove();
    const write_ = may("editor");
    this.root.replaceChildren(h("div", { class: "pagehead" }, h("h1", null, "Dashboards"), h("span", { class: "spacer" }), write_ && button({ text: "Import", icon: "upload", on: () => void this.import() }), h("a", { class: "btn primary", href: orgPath("dashboards/new") }, icon("plus", "s"), "New dashboard")), this.body);
    this.body.replaceChildren(skeleton(6));
    await this.load();
    this.root.removeAttribute("aria-busy");
  }

  private async load() {
    try {
      this.all = await list();
    } catch (e) { this.body.replaceChildren(failure(explain(e), () => void this.load())); return; }
    if (this.all.length === 0) {
      this.body.replaceChildren(h("section", { class: "card" }, empty({ title: "No dashboards yet", icon: "layout-dashboard", text: "A dashboard shows what several queries answer, side by side. Those of Grafana that use Prometheus queries can be imported.", actions: [{ text: "New dashboard", primary: true, on: () => { location.href = orgPath("dashboards/new"); } }, ...(may("editor") ? [{ text: "Import", on: () => void this.import() }] : [])] })));
      return;
    }
    const input = h("input", { class: "in", id: "q", type: "search", value: this.q, autocomplete: "off", placeholder: "Part of the name or folder", oninput: (e: Event) => { this.q = (e.target as HTMLInputElement).value; write({ q: this.q }, "replace"); this.draw(); } });
    const tags = [...new Set(this.all.flatMap((d) => d.summary.tags ?? []))].sort();
    this.body.replaceChildren(h("div", { class: "filters", role: "search" }, h("div", { class: "field" }, h("label", { for: "q" }, "Name"), input),
      tags.length > 0 && h("div", { class: "field" }, h("label", { for: "tag" }, "Tag"), h("select", { class: "in", id: "tag", onchange: (e: Event) => { this.tag = (e.target as HTMLSelectElement).value; write({ tag: this.tag }, "replace"); this.draw(); } }, h("option", { value: "" }, "all"), tags.map((t) => h("option", { value: t, selected: t === this.tag }, t))))), this.table);
    this.draw();
  }

  private draw() {
    const words = this.q.toLowerCase().split(/\s+/).filter(Boolean), starred = new Set(stars()), opened = recent();
    const rank = (d: Listed) => (starred.has(d.id) ? 0 : 1);
    const found = this.all.filter((d) => (!this.tag || d.summary.tags?.includes(this.tag)) && words.every((w) => `${d.name} ${d.summary.folder ?? ""}`.toLowerCase().includes(w)))
      .sort((a, b) => rank(a) - rank(b) || (a.summary.folder ?? "").localeCompare(b.summary.folder ?? "") || a.name.localeCompare(b.name)).slice(0, 500);
    if (found.length === 0) { this.table.replaceChildren(h("p", { class: "muted cardpad d-none" }, "No dashboard matches.")); return; }
    this.table.replaceChildren(h("div", { class: "tblwrap" }, h("table", { class: "tbl" },
      h("thead", null, h("tr", null, h("th", { scope: "col", class: "tight" }, h("span", { class: "vh" }, "Starred")), h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "Folder"), h("th", { scope: "col" }, "Tags"), h("th", { scope: "col", class: "r" }, "Panels"), h("th", { scope: "col" }, "Seen by"), h("th", { scope: "col" }, "Changed"), h("th", { scope: "col" }, h("span", { class: "vh" }, "Actions")))),
      h("tbody", null, found.map((d) => h("tr", null,
        h("td", null, button({ icon: "star", label: `Star ${d.name}`, cls: "ghost icon sm", "aria-pressed": String(starred.has(d.id)), on: () => this.star(d.id) })),
        h("th", { scope: "row" }, h("a", { class: "strong link", href: orgPath(`dashboards/${encodeURIComponent(d.id)}`), title: d.summary.description ?? null }, visible(d.name)), opened[0] === d.id && [" ", h("span", { class: "pill" }, "last opened")]),
        h("td", null, visible(d.summary.folder ?? "")), h("td", null, (d.summary.tags ?? []).map((t) => h("span", { class: "pill" }, visible(t)))), h("td", { class: "r num" }, String(d.summary.panels)),
        h("td", null, d.shared ? "everybody" : d.mine ? "you" : visible(d.owner ?? "")), h("td", { class: "num" }, ago(Date.parse(d.updated_at))),
        h("td", { class: "r" }, button({ icon: "ellipsis", label: `Menu of ${d.name}`, cls: "ghost icon sm", "aria-haspopup": "menu", on: (e: MouseEvent) => this.menu(d, e.currentTarget as HTMLElement) }))))))));
  }

  private star(id: string) {
    const now = stars();
    try { localStorage.setItem(starKey, JSON.stringify(now.includes(id) ? now.filter((x) => x !== id) : [...now, id])); } catch { /* not kept */ }
    this.draw();
  }

  private menu(d: Listed, anchor: HTMLElement) {
    const file = (format: string) => async () => { try { saveFile(`${d.name}.json`, JSON.stringify(await exported(d.id, format), null, 2), "application/json"); } catch (e) { toast(told(e), { error: true }); } };
    menu(anchor, [
      { text: "Open", icon: "arrow-right", href: orgPath(`dashboards/${encodeURIComponent(d.id)}`) },
      { text: "Export as JSON", icon: "download", on: () => void file("millstream")() }, { text: "Export for Grafana", icon: "download", on: () => void file("grafana")() },
      ...(d.editable ? [{ rule: true, text: "" }, { text: "Delete", icon: "trash-2", danger: true, on: () => void this.remove(d) }] : []),
    ], { label: d.name });
  }

  private async remove(d: Listed) {
    try {
      await remove(d);
      this.all = this.all.filter((x) => x.id !== d.id);
      if (this.all.length) this.draw(); else await this.load();
      toast(`Dashboard “${visible(d.name)}” deleted`, { action: { text: "Undo", on: () => void undelete(d.id).then(() => this.load(), (e) => toast(told(e), { error: true })) } });
    } catch (e) { toast(told(e), { error: true }); }
  }

  private async import() {
    const id = await (await import("./import.ts")).importDialog();
    if (id) location.href = orgPath(`dashboards/${encodeURIComponent(id)}`);
  }
}
