// The drawing of a chart: uPlot, and what it lacks. It is loaded when the first chart has something to draw.
import uPlot from "uplot";
import { dashOf, paint, seriesColours } from "../lib/colour.ts";
import { timeTicks } from "../lib/time.ts";
import { formatValue } from "../lib/units.ts";
import { align, type ChartSeries, rightPadding, singles, stack, timeLabels, type Value, valueRange } from "./chart_data.ts";
import type { ChartData, Exemplar } from "./chart.ts";

export interface PlotOptions {
  el: HTMLElement;
  width: number;
  height: number;
  data: ChartData;
  series: ChartSeries[]; // those that are drawn
  exemplars: Exemplar[];
  on: { cursor(i: number | null, near: number | null): void; select(start: number, end: number): void; zoomOut(): void; open(e: Exemplar): void };
}

export interface Look { colour: string; dash: number[]; token: string }

/** How each series looks. Those that are drawn together have different colours. */
export function looks(series: readonly ChartSeries[]): Map<string, Look> {
  const given = seriesColours(series.filter((s) => !s.colour).map((s) => s.name));
  return new Map(series.map((s) => {
    const c = s.colour ? { token: s.colour, dash: 0 } : given.get(s.name)!;
    return [s.name, { token: c.token, colour: paint(c.token), dash: s.dash ? [4, 4] : dashOf(c.dash) }];
  }));
}

const font = () => `11px ${paint("--font-ui") || "sans-serif"}`;

export class Plot {
  readonly u: uPlot;
  readonly x: number[];
  readonly values: Value[][]; // as they are, not stacked
  private over = false;
  private pressed = false;
  private focused: number | null = null;
  private hits: { x: number; y: number; e: Exemplar }[] = [];

  constructor(private o: PlotOptions) {
    const { x, ys } = align(o.series, o.data.step);
    this.x = x;
    this.values = ys;
    const log = o.data.log ? ys.map((y) => y.map((v) => (typeof v === "number" && v <= 0 ? null : v))) : ys;
    const drawn = o.data.kind === "stack" ? stack(log) : log;
    this.u = new uPlot(this.options(drawn), [x, ...drawn] as uPlot.AlignedData, o.el);
    const over = this.u.over;
    over.addEventListener("mouseenter", () => { this.over = true; });
    over.addEventListener("mouseleave", () => { this.over = false; o.on.cursor(null, null); });
    over.addEventListener("mousedown", () => { this.pressed = true; });
    over.addEventListener("click", (e) => { const hit = this.hit(e); if (hit) o.on.open(hit); });
    over.addEventListener("mousemove", (e) => over.classList.toggle("on-exemplar", !!this.hit(e)));
  }

  private options(drawn: Value[][]): uPlot.Options {
    const { data } = this.o, stacked = data.kind === "stack", fromZero = data.kind !== "line" && data.kind !== undefined;
    const grid = { stroke: paint("--hair"), width: 1 }, stroke = paint("--text-3");
    const zone = data.zone ? { zone: data.zone } : {};
    const marks = (u: uPlot) => timeTicks({ start: data.from, end: data.to }, Math.max(2, Math.floor(u.width / 84)), zone);
    return {
      ms: 1, width: this.o.width, height: this.o.height, padding: [10, rightPadding, 0, 0], legend: { show: false }, focus: { alpha: 0.2 },
      scales: {
        x: { time: false, range: () => [data.from, data.to] },
        y: data.log ? { distr: 3, log: 10 } : { range: (_u, min, max) => valueRange(min, this.withThresholds(max), fromZero) },
      },
      axes: [
        { stroke, font: font(), grid, ticks: { show: false }, size: 24, gap: 4, splits: (u) => marks(u).map((m) => m.t), values: (u) => timeLabels(marks(u), data.from, data.to, u.width) },
        { stroke, font: font(), grid, ticks: { show: false }, gap: 6, space: 36, values: (_u, list) => list.map((v) => (v === null ? "" : formatValue(v, data.unit))), size: (_u, list) => 14 + 6.4 * Math.max(2, ...(list ?? []).map((t) => t.length)) },
      ],
      cursor: {
        sync: { key: "ms", scales: ["x", null as unknown as string], setSeries: false }, drag: { x: true, y: false, setScale: false }, focus: { prox: 24 }, y: false, points: { size: 6, width: 1.5, one: true },
        bind: { dblclick: () => () => { this.o.on.zoomOut(); return null; } },
      },
      series: [{}, ...this.series(drawn)],
      ...(stacked ? { bands: drawn.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number] })) } : {}),
      hooks: {
        setCursor: [() => this.pointed()],
        setSeries: [(_u, i) => { this.focused = i; this.pointed(); }],
        setSelect: [(u) => { if (this.pressed && u.select.width > 3) this.selected(); }],
        draw: [() => this.marks()],
      },
    };
  }

  private series(drawn: Value[][]): uPlot.Series[] {
    const { data, series } = this.o, kind = data.kind ?? "line", look = looks(series);
    return series.map((s, i) => {
      const { colour, dash } = look.get(s.name)!, lone = singles(drawn[i]!);
      return {
        label: s.name, stroke: colour, width: series.length > 60 ? 1 : 1.5, dash: kind === "bars" ? [] : dash, spanGaps: false,
        fill: kind === "line" ? undefined : `${colour}${kind === "stack" ? "66" : kind === "bars" ? "b3" : "26"}`,
        ...(kind === "bars" ? { paths: uPlot.paths.bars!({ size: [0.7, 48, 1] }) } : {}),
        points: { show: kind !== "bars" && lone.length > 0, size: 4, fill: colour, stroke: colour, filter: () => lone },
      } as uPlot.Series;
    });
  }

  private withThresholds(max: number | null) { return max === null ? max : Math.max(max, ...(this.o.data.thresholds ?? []).map((t) => t.value)); }

  /** The pointer is at a point of this chart, and not of one that it is shared with. */
  private pointed() {
    if (this.over) this.o.on.cursor(this.u.cursor.idx ?? null, this.focused ? this.focused - 1 : null);
  }

  private selected() {
    const { left, width } = this.u.select;
    this.pressed = false;
    const start = this.u.posToVal(left, "x"), end = this.u.posToVal(left + width, "x");
    this.u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.o.on.select(start, end);
  }

  /** Thresholds and exemplars, on top of the lines. */
  private marks() {
    const { ctx, bbox } = this.u, r = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 6 * r, bbox.width, bbox.height + 12 * r);
    ctx.clip();
    for (const t of this.o.data.thresholds ?? []) {
      const y = this.u.valToPos(t.value, "y", true);
      ctx.strokeStyle = ctx.fillStyle = paint(t.colour ?? "--lv-error");
      ctx.lineWidth = r;
      ctx.setLineDash([5 * r, 4 * r]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.font = `${11 * r}px ${paint("--font-ui")}`;
      if (t.label) ctx.fillText(t.label, bbox.left + 6 * r, y - 4 * r);
    }
    ctx.setLineDash([]);
    this.hits = this.o.exemplars.map((e) => {
      const x = this.u.valToPos(e.t, "x", true), y = Math.min(bbox.top + bbox.height, Math.max(bbox.top, this.u.valToPos(e.v, "y", true) || bbox.top)), d = 5 * r;
      ctx.beginPath();
      ctx.moveTo(x, y - d);
      ctx.lineTo(x + d, y);
      ctx.lineTo(x, y + d);
      ctx.lineTo(x - d, y);
      ctx.closePath();
      ctx.fillStyle = paint("--accent");
      ctx.strokeStyle = paint("--surface");
      ctx.lineWidth = 1.5 * r;
      ctx.fill();
      ctx.stroke();
      return { x: (x - bbox.left) / r, y: (y - bbox.top) / r, e };
    });
    ctx.restore();
  }

  private hit(e: MouseEvent): Exemplar | undefined {
    return this.hits.find((h) => Math.abs(h.x - e.offsetX) < 9 && Math.abs(h.y - e.offsetY) < 9)?.e;
  }

  /** Shows the cursor at a point, for the keys; also in the other charts of the page. */
  moveTo(i: number) {
    const left = this.u.valToPos(this.x[i]!, "x");
    (this.u.setCursor as (at: { left: number; top: number }, fire: boolean, share: boolean) => void)({ left, top: this.u.over.clientHeight / 2 }, false, true);
    this.o.on.cursor(i, null);
  }

  mark(a: number, b: number) {
    const left = this.u.valToPos(this.x[Math.min(a, b)]!, "x"), right = this.u.valToPos(this.x[Math.max(a, b)]!, "x");
    this.u.setSelect({ left, width: right - left, top: 0, height: this.u.over.clientHeight }, false);
  }

  focus(i: number | null) { this.u.setSeries(i === null ? null : i + 1, { focus: i !== null }, false); }
  left(i: number) { return this.u.valToPos(this.x[i]!, "x") + this.u.over.offsetLeft; }
  resize(width: number, height: number) { this.u.setSize({ width, height }); }
  destroy() { this.u.destroy(); }
}
