// Answers of a cluster of several nodes, computed as the node does, with a hash of the test's own: segments have the lowest cost at their owners.
import type { Ownership, Ranking, Simulation } from "../../src/ownership/model.ts";
import { random } from "./seed.ts";

export interface Member { id: string; weight: number; cached?: number; warm?: number; state?: string }
interface Piece { key: number; at: number; bytes: number }

const until = Date.UTC(2026, 2, 2, 12, 0, 0), days = 30;

/** Segments of the last 30 days, more and smaller ones of late. */
export function pieces(n: number): Piece[] {
  const r = random(7);
  return Array.from({ length: n }, () => {
    const age = Math.pow(r(), 1.3);
    return { key: Math.floor(r() * 2 ** 32), at: until - age * days * 864e5, bytes: Math.round(Math.exp(18.4 + 1.1 * (r() + r() + r() - 1.5) + age * 2)) };
  });
}

function uniform(key: number, id: string): number {
  let h = key ^ 0x9e3779b9;
  for (const c of id) h = Math.imul(h ^ c.charCodeAt(0), 0x01000193);
  for (const m of [0x7feb352d, 0x846ca68b]) h = Math.imul(h ^ (h >>> 16), m);
  return ((h ^ (h >>> 15)) >>> 0) / 2 ** 32 + 2 ** -33;
}

const cost = (key: number, m: Member) => -Math.log2(uniform(key, m.id)) / m.weight;
const owner = (p: Piece, list: Member[]) => list.reduce((a, b) => (cost(p.key, b) < cost(p.key, a) ? b : a)).id;

const weights = (list: Member[]) => list.reduce((sum, m) => sum + m.weight, 0);
const sum = (list: Piece[]) => list.reduce((n, p) => n + p.bytes, 0);

export function ownership(all: Piece[], list: Member[], buckets: number, start = until - days * 864e5, end = until + 1): Ownership {
  const width = Math.ceil((end - start) / buckets), rows = list.map((m) => ({ id: m.id, segments: Array<number>(buckets).fill(0), bytes: Array<number>(buckets).fill(0) }));
  const own = new Map(list.map((m) => [m.id, [] as Piece[]]));
  for (const p of all) {
    const id = owner(p, list), c = Math.floor((p.at - start) / width), row = rows.find((r) => r.id === id)!;
    own.get(id)!.push(p);
    if (c >= 0 && c < buckets) { row.segments[c]!++; row.bytes[c]! += p.bytes; }
  }
  return {
    placement_version: 4, segments: all.length, bytes: sum(all),
    members: list.map((m) => ({
      id: m.id, placement_id: `volume-of-${m.id}`, state: m.state ?? "up", weight: m.weight, expected: m.weight / weights(list), actual: own.get(m.id)!.length / Math.max(1, all.length), segments: own.get(m.id)!.length, bytes: sum(own.get(m.id)!),
      ...(m.cached === undefined ? {} : { cached_bytes: m.cached }), ...(m.warm === undefined ? {} : { warm_percent: m.warm }),
    })),
    heatmap: { start: new Date(start).toISOString(), end: new Date(start + width * buckets).toISOString(), bucket_seconds: width / 1000, buckets, rows },
  };
}

export function ranking(id: string, list: Member[]): Ranking {
  const key = [...id].reduce((h, c) => Math.imul(h ^ c.charCodeAt(0), 0x01000193) >>> 0, 0x811c9dc5);
  return {
    id, signal: "logs", stream: "shop-prod", start: "2026-02-24T10:00:00Z", end: "2026-02-24T11:59:58Z", rows: 5_712_004, bytes: 121_300_000, level: 2, placement_version: 4,
    ranking: [...list].sort((a, b) => cost(key, a) - cost(key, b)).map((m, i) => ({ rank: i + 1, id: m.id, placement_id: `volume-of-${m.id}`, state: m.state ?? "up", weight: m.weight, cost: cost(key, m) })),
  };
}

interface Change { add?: Member[]; remove?: string[]; reweigh?: Member[] }

export function simulation(all: Piece[], list: Member[], c: Change): Simulation {
  const after = [...list.filter((m) => !c.remove?.includes(m.id)).map((m) => c.reweigh?.find((x) => x.id === m.id) ?? m), ...(c.add ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1));
  const moves = new Map<string, { from: string; to: string; segments: number; bytes: number }>(), own = new Map(after.map((m) => [m.id, [] as Piece[]]));
  for (const p of all) {
    const from = owner(p, list), to = owner(p, after);
    own.get(to)!.push(p);
    if (from === to) continue;
    const m = moves.get(`${from} ${to}`) ?? { from, to, segments: 0, bytes: 0 };
    moves.set(`${from} ${to}`, { ...m, segments: m.segments + 1, bytes: m.bytes + p.bytes });
  }
  const moved = [...moves.values()], named = [...(c.add ?? []), ...(c.reweigh ?? [])].map((m) => m.id).concat(c.remove ?? []);
  return {
    segments: all.length, bytes: sum(all), moved_segments: moved.reduce((n, m) => n + m.segments, 0), moved_bytes: moved.reduce((n, m) => n + m.bytes, 0), moves: moved,
    shares: after.map((m) => ({ id: m.id, weight: m.weight, expected: m.weight / weights(after), actual: own.get(m.id)!.length / Math.max(1, all.length), segments: own.get(m.id)!.length, bytes: sum(own.get(m.id)!) })),
    moved_between_others: moved.filter((m) => !named.includes(m.from) && !named.includes(m.to)).reduce((n, m) => n + m.segments, 0),
  };
}
