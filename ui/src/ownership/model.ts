// What the API says about who owns segments, and what follows from it.
import { seriesColours } from "../lib/colour.ts";

export interface Owner { id: string; placement_id: string; state: string; weight: number; expected: number; actual: number; segments: number; bytes: number; cached_bytes?: number; warm_percent?: number }
export interface HeatRow { id: string; segments: number[]; bytes: number[] }
export interface Heat { start?: string; end?: string; bucket_seconds: number; buckets: number; rows: HeatRow[] }
export interface Ownership { placement_version: number; segments: number; bytes: number; members: Owner[]; heatmap: Heat }

export interface Ranked { rank: number; id: string; placement_id: string; state: string; weight: number; cost: number }
export interface Ranking { id: string; signal: string; stream: string; start: string; end: string; rows: number; bytes: number; level: number; placement_version: number; ranking: Ranked[] }

export interface Move { from: string; to: string; segments: number; bytes: number }
export interface Share { id: string; weight: number; expected: number; actual: number; segments: number; bytes: number }
export interface Simulation { segments: number; bytes: number; moved_segments: number; moved_bytes: number; moves: Move[]; shares: Share[]; moved_between_others: number }

/** Colours of nodes: those that are there keep theirs whatever is simulated; one that would come gets the next. */
export class Colours {
  private map = new Map<string, string>();
  set nodes(ids: string[]) { this.map = new Map([...seriesColours(ids)].map(([id, c]) => [id, `var(${c.token})`])); }
  of(id: string): string {
    if (!this.map.has(id)) {
      const used = new Set(this.map.values()), free = Array.from({ length: 8 }, (_, i) => `var(--c${i + 1})`).find((c) => !used.has(c));
      this.map.set(id, free ?? `var(--c${(this.map.size % 8) + 1})`);
    }
    return this.map.get(id)!;
  }
}

/** The largest deviation of a node's part of the segments from its weight's, of the latter. */
export const deviation = (o: Owner) => (o.expected > 0 ? o.actual / o.expected - 1 : 0);

/** How warm the caches are together, in percent of the owned bytes of those that tell; undefined if none does. */
export function warmth(list: Owner[]): number | undefined {
  let known = 0, warm = 0;
  for (const o of list) if (o.warm_percent !== undefined && o.bytes > 0) { known += o.bytes; warm += o.bytes * o.warm_percent; }
  return known > 0 ? warm / known : undefined;
}

/** How many standard errors a cell is off its node's part of the column: random noise of few segments stays within 1.5. */
export function offset(got: number, column: number, part: number): number {
  const error = Math.sqrt(column * part * (1 - part));
  return error > 0 ? (got - column * part) / error : 0;
}

export const vcpu = (n: number) => `${Number.isInteger(n) ? n : Number(n.toFixed(3))} vCPU`;
export const signed = (share: number) => `${share > 0 ? "+" : share < 0 ? "−" : ""}${Math.abs(share * 100).toFixed(1)}%`;

/** A change of the nodes, as the address has it: add=querier-4:16, remove=querier-2, weight=querier-1:32. */
export interface Plan { add: [string, number][]; remove: string[]; reweigh: [string, number][] }

export const isEmpty = (p: Plan) => p.add.length + p.remove.length + p.reweigh.length === 0;

function weighted(list: string[]): [string, number][] {
  return list.flatMap((t) => {
    const at = t.lastIndexOf(":"), w = Number(t.slice(at + 1));
    return at > 0 && w > 0 && Number.isFinite(w) ? [[t.slice(0, at), w] as [string, number]] : [];
  });
}

export const planOf = (q: URLSearchParams): Plan => ({ add: weighted(q.getAll("add")), remove: q.getAll("remove").filter(Boolean), reweigh: weighted(q.getAll("weight")) });

export const planState = (p: Plan) => ({ add: p.add.map(([id, w]) => `${id}:${w}`), remove: p.remove, weight: p.reweigh.map(([id, w]) => `${id}:${w}`) });

const named = (list: [string, number][]) => list.map(([id, weight]) => ({ id, weight }));
export const planBody = (p: Plan) => ({ add: named(p.add), remove: p.remove, reweigh: named(p.reweigh) });
