// The Explain view: the tree of each expression. Every part shows how many series it gives, what their labels are like and how long it took, and can be run alone.
import { explain as errorText } from "../lib/api.ts";
import { button, h, sentence, visible } from "../lib/dom.ts";
import { duration, plural } from "../lib/format.ts";
import { failure, skeleton } from "../lib/states.ts";
import { formatValue } from "../lib/units.ts";
import { type Ast, inside, parts, texts, title } from "./ast.ts";
import { call, instant, type Series } from "./prom.ts";
import type { Run } from "./run.ts";
import { letter } from "./state.ts";

const MOST_NODES = 40, LIMIT = 2000, AT_ONCE = 2;

export class ExplainView {
  readonly el = h("div", { class: "mx-explain" });
  private readonly abort = new AbortController();
  private work: (() => Promise<void>)[] = [];

  constructor(private on: { run(query: string): void }) {}

  stop() { this.abort.abort(); }

  async show(run: Run) {
    this.el.replaceChildren(skeleton(6));
    const trees = await Promise.all(run.results.map(async (r) => {
      const head = h("h2", null, `Query ${letter(r.index)}`);
      try {
        const { data } = await call<Ast>("parse_query", { query: r.query }, this.abort.signal);
        return h("section", null, head, h("ul", { class: "ex" }, this.node(inside(data), texts(r.query), run.span.end)));
      } catch (e) {
        return h("section", null, head, failure(errorText(e)));
      }
    }));
    if (this.abort.signal.aborted) return;
    this.el.replaceChildren(...trees);
    const work = this.work.splice(0), next = async (): Promise<void> => { for (let f = work.shift(); f && !this.abort.signal.aborted; f = work.shift()) await f(); };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
  }

  private node(n: Ast, text: (n: Ast) => string, end: number): HTMLElement {
    const facts = h("span", { class: "ex-facts" }), query = text(n), inner = parts(n);
    if (this.work.length < MOST_NODES) this.work.push(() => this.measure(query, end, facts));
    else facts.textContent = "Not measured";
    return h("li", null,
      h("div", { class: "ex-node" }, h("code", { class: "ex-t", title: query }, visible(title(n, text))), facts, n.type !== "matrixSelector" && button({ text: "Run alone", cls: "ghost sm", label: `Run alone: ${visible(query)}`, on: () => this.on.run(query) })),
      inner.length > 0 && h("ul", null, inner.map((x) => this.node(x, text, end))));
  }

  private async measure(query: string, end: number, box: HTMLElement) {
    box.textContent = "…";
    const began = performance.now();
    try {
      const a = await instant(query, end, LIMIT, this.abort.signal);
      const took = duration(Math.round(performance.now() - began) * 1e6);
      const what = a.type === "scalar" ? `The number ${formatValue(a.series[0]?.values[1][0])}` : `${a.cut ? "≥ " : ""}${plural(a.series.length, "series", "series")}`;
      box.replaceChildren(h("b", null, what), h("span", null, took), ...labels(a.series));
    } catch (e) {
      const err = errorText(e);
      if (err.code !== "aborted") box.replaceChildren(h("span", { class: "bad" }, sentence(err.message)));
    }
  }
}

/** The labels with the number of their values, those with the most first. */
function labels(series: Series[]): HTMLElement[] {
  const values = new Map<string, Set<string>>();
  for (const s of series) for (const [k, v] of Object.entries(s.metric)) if (k !== "__name__") values.set(k, (values.get(k) ?? new Set()).add(v));
  const list = [...values].sort((a, b) => b[1].size - a[1].size);
  return [...list.slice(0, 6).map(([k, v]) => h("span", { class: "pill" }, `${visible(k)} ${v.size}`)), ...(list.length > 6 ? [h("span", { class: "muted" }, `and ${list.length - 6} more`)] : [])];
}
