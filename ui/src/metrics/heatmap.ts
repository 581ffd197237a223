// The Heatmap view.
import { h } from "../lib/dom.ts";
import { empty } from "../lib/states.ts";
import { Heatmap } from "../el/heatmap.ts";
import { cells, grows } from "./buckets.ts";
import type { Run } from "./run.ts";

export class HeatmapView {
  private readonly map = new Heatmap();
  readonly el = h("div", { class: "mx-heat" });

  constructor(range: (start: number, end: number) => void, zoomOut: () => void) {
    this.map.addEventListener("ms:range", (e) => { e.stopPropagation(); const { start, end } = (e as CustomEvent<{ start: number; end: number }>).detail; range(start, end); });
    this.map.addEventListener("ms:zoomout", zoomOut);
  }

  show(run: Run, unit: string) {
    const step = run.step * 1000;
    const one = run.results.find((r) => r.answer);
    const data = one && cells(one.answer!.series, { from: run.span.start, to: run.span.end, step, growing: grows(one.query) });
    if (!data || data.rows.length === 0) {
      this.el.replaceChildren(empty({ title: data ? "Nothing was counted in this time" : "These series are no histogram", icon: "grid-3x3", text: "A heatmap needs buckets: the metric of a native histogram, or the series with the label le of a classic one, such as sum by (le) (rate(request_duration_seconds_bucket[5m]))." }));
      return;
    }
    this.el.replaceChildren(this.map);
    this.map.data = { ...data, unit };
  }
}
