// The row of variables above the panels.
import { MsSelect } from "../el/select.ts";
import { h, visible } from "../lib/dom.ts";
import { ALL, type Chosen } from "./vars.ts";

const nameOf = (o: string) => (o === ALL ? "All" : visible(o));

/** Shows the variables; change is called with what was chosen. */
export function variableRow(box: HTMLElement, chosen: readonly Chosen[], change: (name: string, value: string[]) => void) {
  const seen = chosen.filter((c) => !c.v.hidden && c.v.type !== "constant");
  box.hidden = seen.length === 0;
  box.replaceChildren(...seen.map((c) => {
    const label = c.v.label || c.v.name, id = `var-${c.v.name}`;
    if (c.v.type === "text") return h("div", { class: "d-var" }, h("label", { for: id }, visible(label)), h("input", { class: "in", id, value: c.value[0] ?? "", autocomplete: "off", onchange: (e: Event) => change(c.v.name, [(e.target as HTMLInputElement).value]) }));
    const s = new MsSelect();
    s.label = label;
    s.multi = c.v.multi === true;
    s.items = [...new Set([...c.options, ...c.value])].map((o) => ({ value: o, label: nameOf(o) }));
    s.value = s.multi ? [...c.value] : (c.value[0] ?? "");
    s.addEventListener("ms:change", (e) => {
      let list = [(e as CustomEvent<{ value: string | string[] }>).detail.value].flat();
      // All and single values exclude each other: the newer choice counts.
      if (list.length > 1 && list.includes(ALL)) list = c.value.includes(ALL) ? list.filter((v) => v !== ALL) : [ALL];
      change(c.v.name, list);
    });
    return h("div", { class: "d-var", id }, s, c.problem && h("span", { class: "pill err", title: c.problem }, "no choices"));
  }));
}
