// What happened around a record: the records before and after it that share its service and host.
import { explain, json } from "../lib/api.ts";
import { button, h } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import { failure } from "../lib/states.ts";
import { formatTime } from "../lib/time.ts";
import { nodes } from "./marks.ts";
import { idOf, messageOf, ObjectRow, type Roles, type Row, rowLevel, shown, textOf } from "./record.ts";

interface Answer { before: Record<string, unknown>[]; target: Record<string, unknown>[]; after: Record<string, unknown>[]; more_before: boolean; more_after: boolean }
interface Place { stream: string; roles: Roles; signal: AbortSignal }

const step = 50;

export async function context(box: HTMLElement, row: Row, at: Place) {
  const shared = new Map<string, unknown>();
  for (const f of [at.roles.service, at.roles.host]) if (f && row.get(f) !== undefined && row.get(f) !== null) shared.set(f, row.get(f));
  const view = { before: step, after: step, find: "" };
  const list = h("div", { class: "ctxlist", tabindex: "0", role: "region", "aria-label": "Records around" }), bar = h("div", { class: "ctxbar" }), count = h("span", { class: "muted small", role: "status" });
  const find = h("input", { class: "in", type: "search", placeholder: "Find in these", "aria-label": "Find in these records", oninput: () => { view.find = find.value; draw(); } });
  box.replaceChildren(bar, h("div", { class: "row" }, find, count), list);
  let answer: Answer | undefined;

  const chips = () => bar.replaceChildren(h("span", { class: "muted small" }, "Same"), ...[...shared].map(([f, v]) => h("span", { class: "chip" }, h("span", { class: "f" }, shown(f, 40)), h("span", { class: "o" }, "="), h("span", { class: "v ell" }, shown(v, 60)), button({ icon: "x", label: `Any ${f}`, cls: "ghost icon sm", on: () => { shared.delete(f); chips(); void load(); } }))), ...(shared.size ? [] : [h("span", { class: "muted small" }, "Stream only")]));

  async function load() {
    list.setAttribute("aria-busy", "true");
    try {
      answer = await json<Answer>("/query/context", { signal: at.signal, body: { stream: at.stream, at: row.time, before: view.before, after: view.after, by: Object.fromEntries(shared) } });
      draw();
    } catch (e) {
      const err = explain(e);
      if (err.code !== "aborted") list.replaceChildren(failure(err, () => void load()));
    } finally {
      list.removeAttribute("aria-busy");
    }
  }

  function draw() {
    if (!answer) return;
    const a = answer, id = idOf(row), re = view.find ? new RegExp(view.find.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu") : undefined;
    const all = [...a.after].reverse().concat([...a.target].reverse(), [...a.before].reverse()).map((o) => new ObjectRow(o));
    let hits = 0, target: HTMLElement | undefined;
    const lines = all.map((r) => {
      const text = textOf(messageOf(r, at.roles) ?? JSON.stringify(r.o)).slice(0, 1000), hit = re?.test(text) ?? false;
      if (re) re.lastIndex = 0;
      if (hit) hits++;
      const level = rowLevel(r, at.roles), here = r.time === row.time && (row.cut || idOf(r) === id);
      const line = h("div", { class: `cl ${level}${here ? " here" : ""}${re && !hit ? " off" : ""}`, "aria-current": here ? "true" : null }, h("time", null, formatTime(r.time, { date: false, ms: true })), h("span", { class: "m" }, level && h("span", { class: "vh" }, level, " "), ...nodes(text, re)));
      if (here) target ??= line;
      return line;
    });
    const top = list.scrollTop, fresh = list.childElementCount === 0;
    const more = (which: "before" | "after") => button({ text: `Load ${step} more ${which === "after" ? "after" : "before"}`, cls: "sm", on: () => { view[which] = Math.min(1000, view[which] + step); void load(); } });
    list.replaceChildren(...(a.more_after ? [more("after")] : []), ...lines, ...(a.more_before ? [more("before")] : []));
    count.textContent = re ? `${hits} of ${plural(all.length, "record")}` : plural(all.length, "record");
    if (fresh && target) list.scrollTop = target.offsetTop - list.clientHeight / 2;
    else list.scrollTop = top;
  }

  chips();
  await load();
}
