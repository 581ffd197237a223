// Saved views: the state of a page under a name, one's own or the organization's.
import { type ApiError, explain, json } from "../lib/api.ts";
import { may } from "../lib/boot.ts";
import { button, h, icon, sending, visible } from "../lib/dom.ts";
import { confirm, dialog, toast } from "../lib/layers.ts";
import { failure, told } from "../lib/states.ts";
import type { Params } from "../lib/url.ts";

export interface Viewed {
  page: "logs" | "metrics" | "traces";
  name?: string; // that is proposed
  state(): Params; // what is shown
  open(state: Params): void;
}

interface Listed { id: string; name: string; owner?: string; mine: boolean; shared: boolean; editable: boolean; version: number; summary: { page: string; description?: string; pinned?: boolean } }
interface View extends Omit<Listed, "summary"> { body: { page: string; state: Params; description?: string; pinned?: boolean } }

const path = (id: string) => `/views/${encodeURIComponent(id)}`;

const short = (name: string, most: number) => visible(name.length > most ? name.slice(0, most) + "…" : name);

export function viewsDialog(p: Viewed) {
  void dialog("Saved views", (close) => {
    const box = h("div", { class: "viewlist", "aria-busy": "true" }), name = h("input", { class: "in", id: "view-name", maxlength: "200", required: true, autocomplete: "off", autofocus: true, value: p.name ?? "", placeholder: "Name" }), shared = h("input", { type: "checkbox", id: "view-shared", disabled: !may("editor") });
    const problem = h("div", { class: "alert", role: "alert", hidden: true });
    const said = (e: unknown) => { const err = explain(e); problem.hidden = false; problem.textContent = err.status === 409 || err.status === 412 ? "Somebody else has changed it meanwhile; the list below is new." : told(err); void load(); };
    const body = (pinned = false) => ({ page: p.page, state: p.state(), pinned });

    const save = sending(async () => {
      problem.hidden = true;
      try {
        await json("/views", { body: { name: name.value.trim(), shared: shared.checked, body: body() } });
        toast(`View “${name.value.trim()}” saved`);
        name.value = "";
        void load();
      } catch (err) { said(err); }
    });
    async function open(v: Listed) {
      try {
        const full = await json<View>(path(v.id));
        close();
        p.open(full.body.state);
      } catch (e) { said(e); }
    }
    async function change(v: Listed, f: (full: View) => { shared: boolean; body: View["body"] }, text: string) {
      try {
        const full = await json<View>(path(v.id)), next = f(full);
        await json(path(v.id), { method: "PUT", headers: { "If-Match": `"${v.version}"` }, body: { name: v.name, ...next } });
        toast(text);
        void load();
      } catch (e) { said(e); }
    }
    async function remove(v: Listed) {
      if (!(await confirm("Delete the view?", `“${v.name}” can be brought back for 30 days.`, { action: "Delete", danger: true }))) return;
      try {
        await json(path(v.id), { method: "DELETE", headers: { "If-Match": `"${v.version}"` } });
        toast("View deleted", { action: { text: "Undo", on: () => void json(`${path(v.id)}/restore`, { body: {} }).then(() => toast("View restored"), (e: ApiError) => toast(told(e), { error: true })) } });
        void load();
      } catch (e) { said(e); }
    }
    const row = (v: Listed) => h("li", null, h("button", { type: "button", class: "open", onclick: sending(() => open(v)) }, icon(v.summary.pinned ? "star" : "bookmark", "s"), h("span", { class: "ell" }, short(v.name, 200)), h("span", { class: "muted small nb" }, v.shared ? (v.mine ? "Shared by you" : `By ${short(v.owner ?? "a former member", 60)}`) : "Private")),
      ...(v.editable ? [button({ icon: "star", label: v.summary.pinned ? `Unpin ${v.name}` : `Pin ${v.name}`, cls: "ghost icon sm", "aria-pressed": String(v.summary.pinned === true), on: sending(() => change(v, (f) => ({ shared: f.shared, body: { ...f.body, pinned: !f.body.pinned } }), v.summary.pinned ? "Unpinned" : "Pinned")) }), button({ icon: "save", label: `Replace ${v.name} by what is shown`, cls: "ghost icon sm", on: sending(() => change(v, (f) => ({ shared: f.shared, body: { ...f.body, ...body(f.body.pinned) } }), "View replaced")) }),
        button({ icon: "trash-2", label: `Delete ${v.name}`, cls: "ghost icon sm", on: sending(() => remove(v)) })] : []));
    async function load() {
      try {
        const { views: all } = await json<{ views: Listed[] }>("/views"), mine = all.filter((v) => v.summary.page === p.page).sort((a, b) => Number(b.summary.pinned === true) - Number(a.summary.pinned === true) || a.name.localeCompare(b.name));
        box.replaceChildren(mine.length ? h("ul", null, mine.map(row)) : h("p", { class: "muted none" }, "No view is saved yet. Give what is shown a name."));
      } catch (e) {
        box.replaceChildren(failure(explain(e), () => void load()));
      } finally {
        box.removeAttribute("aria-busy");
      }
    }
    void load();
    return [h("form", { class: "row viewform", onsubmit: save }, h("label", { class: "vh", for: "view-name" }, "Name of the view"), name, h("label", { class: "check nb", title: may("editor") ? "" : "Sharing needs the role editor" }, shared, "Shared"), h("button", { class: "btn primary" }, "Save what is shown")), problem, box, h("div", { class: "acts" }, button({ text: "Close", on: () => close() }))];
  }, { wide: true });
}
