// The nodes as the API tells of them, and what the page makes of that.
import { bytes, count, short } from "../lib/format.ts";

export interface Rates { rows_per_second: number; stored_bytes_per_second: number; fetched_bytes_per_second: number }
export interface Load { cpu: number; memory_bytes: number; memory_total_bytes?: number; unflushed_bytes: number; queries_running: number; rates?: Rates }
export interface Traffic { to: string; writes_per_second: number; queries_per_second: number; bytes_per_second: number }
export interface ClusterNode {
  id: string; self: boolean; roles: string[]; state: "up" | "silent" | "draining" | "refused" | "fenced"; version: string; address: string; weight: number;
  heartbeat_age_seconds: number; since: string; incarnation: number; load?: Load; traffic?: Traffic[];
}

export type State = ClusterNode["state"] | "late";

/** Seconds between heartbeats, and after which one is late. */
const beat = 5, lateAfter = 7.5;

export const states: Record<State, { text: string; pill: string; rank: number }> = {
  fenced: { text: "fenced", pill: "err", rank: 0 }, refused: { text: "refuses calls", pill: "err", rank: 1 }, silent: { text: "silent", pill: "err", rank: 1 }, late: { text: "heartbeat late", pill: "warn", rank: 2 },
  draining: { text: "draining", pill: "info", rank: 3 }, up: { text: "up", pill: "ok", rank: 4 },
};

/** The roles in the order of the map, and how it calls those who carry them. */
export const roles = [
  { role: "standalone", name: "Standalone", icon: "server" }, { role: "router", name: "Routers", icon: "route" }, { role: "intake", name: "Intakes", icon: "arrow-down-to-line" },
  { role: "querier", name: "Queriers", icon: "search" }, { role: "compactor", name: "Compactors", icon: "boxes" }, { role: "alert", name: "Alerting", icon: "bell" },
] as const;
export type Role = (typeof roles)[number]["role"];

export const has = (n: ClusterNode, role: string) => n.roles.includes(role) || n.roles.includes("standalone");
/** Where a node stands on the map: with those of its first role. */
export const placeOf = (n: ClusterNode): Role => roles.find((r) => n.roles.includes(r.role))?.role ?? "alert";

const beatsKept = 40, pointsKept = 60;

export interface Point { rows: number; queries: number; fetched: number; cpu: number }
interface Past { beats: number[]; points: Point[] }

/** The cluster as of the last event, with what was seen since the page was opened. */
export class Cluster {
  nodes: ClusterNode[] = [];
  at = 0; // when the last event came, by this machine's clock; 0: none yet
  private past = new Map<string, Past>();
  private recorded = 0;

  take(nodes: ClusterNode[], now = Date.now()) {
    this.nodes = nodes;
    this.at = now;
    if (now - this.recorded < 3000) return; // news between two regular events is no further point of a course
    this.recorded = now;
    for (const id of this.past.keys()) if (!this.node(id)) this.past.delete(id);
    for (const n of nodes) {
      const p = this.past.get(n.id) ?? { beats: [], points: [] };
      this.past.set(n.id, p);
      p.beats = [...p.beats, n.heartbeat_age_seconds].slice(-beatsKept);
      if (n.load?.rates) p.points = [...p.points, { rows: n.load.rates.rows_per_second, queries: this.asked(n.id), fetched: n.load.rates.fetched_bytes_per_second, cpu: n.load.cpu }].slice(-pointsKept);
    }
  }

  node(id: string) { return this.nodes.find((n) => n.id === id); }
  beats(id: string) { return this.past.get(id)?.beats ?? []; }
  points(id: string) { return this.past.get(id)?.points ?? []; }

  /** How long ago a node sent its last heartbeat. It counts up between events; that of a node in time no further than to the next one, of which the page hears only later. */
  age(n: ClusterNode, now = Date.now()) {
    const told = n.heartbeat_age_seconds, counted = told + Math.max(0, now - this.at) / 1000;
    return told > lateAfter ? counted : Math.min(counted, Math.max(told, beat));
  }

  state(n: ClusterNode): State { return n.state === "up" && n.heartbeat_age_seconds > lateAfter ? "late" : n.state; }

  /** Queries a second that others send to a node. */
  asked(id: string) { return this.traffic(id).reduce((sum, t) => sum + t.queries_per_second, 0); }
  /** Writes a second that others send to a node. */
  written(id: string) { return this.traffic(id).reduce((sum, t) => sum + t.writes_per_second, 0); }
  /** What others send to a node. */
  traffic(id: string) { return this.nodes.flatMap((n) => (n.traffic ?? []).filter((t) => t.to === id && n.id !== id).map((t) => ({ ...t, from: n.id }))); }

  sum(f: (n: ClusterNode) => number | undefined) { return this.nodes.reduce((sum, n) => sum + (f(n) ?? 0), 0); }

  /** Roles that nobody else could take over now. */
  alone(n: ClusterNode) {
    return roles.filter((r) => r.role !== "standalone" && has(n, r.role) && !this.nodes.some((o) => o.id !== n.id && o.state === "up" && has(o, r.role))).map((r) => r.role);
  }
}

export const perSecond = (n: number, unit: string) => `${short(n >= 100 ? Math.round(n) : n)} ${unit}/s`;
export const bytesPerSecond = (n: number) => `${bytes(Math.round(n))}/s`;

/** The rate that says most about a node. */
export function mainRate(c: Cluster, n: ClusterNode): string {
  if (!n.load) return n.state === "up" ? "does not answer" : "";
  const r = n.load.rates;
  switch (placeOf(n)) {
    case "router": return r ? perSecond(sumOf(n, "writes_per_second") + sumOf(n, "queries_per_second"), "calls") : "";
    case "querier": return c.asked(n.id) > 0 ? perSecond(c.asked(n.id), "queries") : `${count(n.load.queries_running)} running`;
    case "compactor": return r ? bytesPerSecond(r.fetched_bytes_per_second) : "";
    case "alert": return "";
    default: return r ? perSecond(r.rows_per_second, "rows") : "";
  }
}
const sumOf = (n: ClusterNode, key: "writes_per_second" | "queries_per_second") => (n.traffic ?? []).reduce((sum, t) => sum + t[key], 0);

export const ageText = (s: number) => (s < 100 ? `${s.toFixed(1)} s` : `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`);

/** 0 to 1, or undefined where the whole is not known. */
export const cpuShare = (n: ClusterNode) => (n.load && n.weight > 0 ? Math.min(1, n.load.cpu / n.weight) : undefined);
export const memoryShare = (n: ClusterNode) => (n.load?.memory_total_bytes ? Math.min(1, n.load.memory_bytes / n.load.memory_total_bytes) : undefined);
