// A trace as the waterfall works with it: one array a property, the spans from top to bottom, each before its children.
import { seriesColours } from "../lib/colour.ts";

/** What GET /query/traces/{id}?format=columns answers. Times are ns after start; services, names, kinds and statuses are numbers into the lists. */
export interface Columns {
  trace_id: string;
  start: string;
  duration_ns: number;
  services: string[]; names: string[]; kinds: string[]; statuses: string[];
  spans: { id: string[]; parent: number[]; start: number[]; duration: number[]; self: number[]; depth: number[]; children: number[]; service: number[]; name: number[]; kind: number[]; status: number[] };
  missing_parent: number[];
  critical_path: [place: number, from: number, to: number][];
  partial?: boolean;
  warnings?: string[];
}

export type ColourBy = "service" | "status" | "rank";

export class Trace {
  readonly n: number;
  readonly end: Int32Array; // first place after the span's descendants
  readonly start: Float64Array; // ns, corrected for skew if asked for
  readonly error: Uint8Array;
  readonly missing: Uint8Array;
  readonly skewed: Uint8Array; // begins before its parent, which only clocks that differ can do
  readonly critical = new Map<number, [from: number, to: number][]>();
  readonly errors: number;
  readonly depth: number;
  readonly skews: number;
  duration: number;
  corrected = false;
  readonly colours: string[]; // token of each service
  #rank: Uint8Array | undefined;

  constructor(readonly c: Columns) {
    const s = c.spans, n = s.id.length, failed = c.statuses.indexOf("error");
    this.n = n;
    this.end = new Int32Array(n);
    this.start = Float64Array.from(s.start);
    this.error = Uint8Array.from(s.status, (v) => Number(v === failed));
    this.missing = new Uint8Array(n);
    for (const i of c.missing_parent) this.missing[i] = 1;
    this.skewed = new Uint8Array(n);
    for (let i = 0; i < n; i++) { const p = s.parent[i]!; if (p >= 0 && s.start[i]! < s.start[p]!) this.skewed[i] = 1; }
    for (let i = n - 1; i >= 0; i--) {
      if (this.end[i] === 0) this.end[i] = i + 1;
      const p = s.parent[i]!;
      if (p >= 0) this.end[p] = Math.max(this.end[p]!, this.end[i]!);
    }
    for (const [i, from, to] of c.critical_path) {
      const list = this.critical.get(i);
      if (list) list.push([from, to]); else this.critical.set(i, [[from, to]]);
    }
    const sum = (a: Uint8Array) => a.reduce((x, y) => x + y, 0);
    this.errors = sum(this.error);
    this.skews = sum(this.skewed);
    this.depth = s.depth.reduce((a, b) => Math.max(a, b), 0) + 1;
    this.duration = c.duration_ns;
    const colours = seriesColours(c.services);
    this.colours = c.services.map((name) => colours.get(name)!.token);
  }

  id(i: number) { return this.c.spans.id[i]!; }
  parent(i: number) { return this.c.spans.parent[i]!; }
  name(i: number) { return this.c.names[this.c.spans.name[i]!]!; }
  service(i: number) { return this.c.services[this.c.spans.service[i]!]!; }
  kind(i: number) { return this.c.kinds[this.c.spans.kind[i]!]!; }
  status(i: number) { return this.c.statuses[this.c.spans.status[i]!]!; }
  length(i: number) { return this.c.spans.duration[i]!; }
  self(i: number) { return this.c.spans.self[i]!; }
  level(i: number) { return this.c.spans.depth[i]!; }
  children(i: number) { return this.c.spans.children[i]!; }
  find(id: string) { return this.c.spans.id.indexOf(id); }

  /** The places of the spans that a span is below, the root first. */
  ancestors(i: number): number[] {
    const out: number[] = [];
    for (let p = this.parent(i); p >= 0; p = this.parent(p)) out.unshift(p);
    return out;
  }

  /** Spans that have no parent, and those whose parent is missing, of which the longest of the former is what the trace is called by. */
  get root(): number {
    let best = 0;
    for (let i = 0; i < this.n; i = this.end[i]!) if ((this.missing[best] && !this.missing[i]) || (this.missing[best] === this.missing[i] && this.length(i) > this.length(best))) best = i;
    return best;
  }

  /**
   * Moves spans whose clock is off into their parents, with all below them: to the middle of the parent's time, or to its start where they are longer.
   * What the node says of the critical path holds for the times as they were sent.
   */
  correct(on: boolean) {
    const s = this.c.spans;
    const moved = new Float64Array(this.n);
    let last = 0, first = 0;
    for (let i = 0; i < this.n; i++) {
      const p = s.parent[i]!;
      moved[i] = p >= 0 ? moved[p]! : 0;
      if (on && p >= 0 && this.skewed[i]) {
        const room = s.duration[p]! - s.duration[i]!;
        moved[i] = this.start[p]! + (room > 0 ? room / 2 : 0) - s.start[i]!;
      }
      this.start[i] = s.start[i]! + moved[i]!;
      first = Math.min(first, this.start[i]!);
      last = Math.max(last, this.start[i]! + s.duration[i]!);
    }
    this.duration = on ? Math.max(1, last - first) : this.c.duration_ns;
    this.corrected = on;
  }

  /** The colour of a span, as a token of the style sheet. */
  colour(i: number, by: ColourBy): string {
    if (by === "service") return this.colours[this.c.spans.service[i]!]!;
    if (by === "status") return this.error[i] ? "--lf-error" : this.status(i) === "ok" ? "--ok-fill" : "--border-strong";
    return `--seq-${2 + this.rank[i]!}`;
  }

  /** How slow a span is among those of its service and name: 0 for the fastest fifth to 4 for the slowest. */
  get rank(): Uint8Array {
    if (this.#rank) return this.#rank;
    const groups = new Map<number, number[]>();
    for (let i = 0; i < this.n; i++) {
      const key = this.key(i), list = groups.get(key);
      if (list) list.push(i); else groups.set(key, [i]);
    }
    this.#rank = new Uint8Array(this.n);
    for (const list of groups.values()) {
      list.sort((a, b) => this.length(a) - this.length(b));
      list.forEach((i, k) => { this.#rank![i] = list.length === 1 ? 2 : Math.min(4, Math.floor((k / list.length) * 5)); });
    }
    return this.#rank;
  }

  /** The same for spans of one service and name. */
  key(i: number) { return this.c.spans.service[i]! * this.c.names.length + this.c.spans.name[i]!; }
}

export interface Filter {
  text: string; // in service or name, in any case
  services: string[]; // empty: all
  errors: boolean;
  least: number; // ns
  critical: boolean;
}

export const noFilter: Filter = { text: "", services: [], errors: false, least: 0, critical: false };

export const filtering = (f: Filter) => f.text !== "" || f.services.length > 0 || f.errors || f.least > 0 || f.critical;

/** Which spans pass a filter. */
export function matches(t: Trace, f: Filter): Uint8Array {
  const out = new Uint8Array(t.n), s = t.c.spans, words = f.text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (name: string, service: string) => words.every((w) => name.includes(w) || service.includes(w));
  const names = t.c.names.map((x) => x.toLowerCase()), services = t.c.services.map((x) => x.toLowerCase());
  const wanted = t.c.services.map((x) => f.services.length === 0 || f.services.includes(x));
  const said = new Map<number, boolean>(); // by service and name
  for (let i = 0; i < t.n; i++) {
    const key = t.key(i);
    let ok = said.get(key);
    if (ok === undefined) said.set(key, (ok = wanted[s.service[i]!]! && (words.length === 0 || has(names[s.name[i]!]!, services[s.service[i]!]!))));
    if (!ok && words.length === 1 && words[0]!.length === 16 && s.id[i] === words[0]) ok = true;
    if (ok && (!f.errors || t.error[i]) && s.duration[i]! >= f.least && (!f.critical || t.critical.has(i))) out[i] = 1;
  }
  return out;
}

/** A duration as one types it: 250ms, 1.5s, 20us, 2m, or 5% of the whole. NaN if it is none. */
export function parseDuration(text: string, whole: number): number {
  const m = /^\s*>?=?\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|min|h|%)?\s*$/.exec(text);
  if (!m) return text.trim() === "" ? 0 : NaN;
  const unit = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 60e9, min: 60e9, h: 3600e9, "%": whole / 100 }[m[2] ?? "ms"]!;
  return Number(m[1]) * unit;
}
