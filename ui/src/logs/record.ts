// Records as the page holds them, wherever they came from.
import { visible } from "../lib/dom.ts";
import type { Level } from "../lib/level.ts";
import { levelOf } from "../lib/level.ts";

/** One record. Values are those of JSON. */
export interface Row {
  readonly time: string; // RFC 3339 with nanoseconds, or "" where a statement's rows have none
  get(field: string): unknown; // null or undefined: not set
  entries(): [string, unknown][]; // what is set, in the order of the columns
  readonly cut: boolean; // texts of it are shortened; the whole must be asked for
}

/** The columns of an answer, shared by its rows. */
export class Columns {
  readonly at = new Map<string, number>();
  readonly types = new Map<string, string>();
  constructor(readonly list: { name: string; type: string }[]) {
    list.forEach((c, i) => { this.at.set(c.name, i); this.types.set(c.name, c.type); });
  }
}

/** A row of an answer: an array of values. */
export class ArrayRow implements Row {
  cuts: Map<string, number> | undefined; // bytes of the whole texts
  constructor(readonly c: Columns, readonly v: unknown[]) {}
  get time() { const t = this.get("_timestamp"); return typeof t === "string" ? t : ""; }
  get(field: string) { const i = this.c.at.get(field); return i === undefined ? undefined : this.v[i]; }
  entries() { return this.c.list.flatMap((c, i) => (this.v[i] === null || this.v[i] === undefined ? [] : [[c.name, this.v[i]] as [string, unknown]])); }
  get cut() { return this.cuts !== undefined; }
}

/** A record that came as an object. */
export class ObjectRow implements Row {
  constructor(readonly o: Record<string, unknown>) {}
  get time() { return typeof this.o._timestamp === "string" ? this.o._timestamp : ""; }
  get(field: string) { return Object.hasOwn(this.o, field) ? this.o[field] : undefined; }
  entries() { return Object.entries(this.o).filter(([, v]) => v !== null); }
  get cut() { return false; }
}

export const toObject = (r: Row) => Object.fromEntries(r.entries());
export const toJSON = (r: Row, indent?: number) => JSON.stringify(toObject(r), null, indent);

/** A value as text. */
export const textOf = (v: unknown): string => (v === null || v === undefined ? "" : typeof v === "string" ? v : typeof v === "object" ? JSON.stringify(v) : String(v));

/** A value as it is shown: control characters are visible, longer texts are cut. */
export function shown(v: unknown, most = 1000): string {
  const t = textOf(v);
  return visible(t.length > most ? t.slice(0, most) + "…" : t);
}

/** Which of a stream's fields play which part. */
export interface Roles { level?: string; service?: string; message?: string; trace?: string; span?: string; host?: string }

const candidates: Record<keyof Roles, string[]> = {
  level: ["level", "severity_text", "severity", "log.level", "loglevel", "lvl", "severity_number"],
  service: ["service", "service.name", "service_name", "app", "application", "kubernetes.container_name", "k8s.container.name", "container", "unit", "program", "job"],
  message: ["message", "body", "msg", "log", "text", "event", "line"],
  trace: ["trace_id", "traceId", "traceid", "trace.id"],
  span: ["span_id", "spanId", "spanid", "span.id"],
  host: ["host.name", "host", "hostname", "node", "k8s.node.name"],
};

export function rolesOf(has: (field: string) => boolean): Roles {
  const out: Roles = {};
  for (const [role, names] of Object.entries(candidates) as [keyof Roles, string[]][]) {
    const found = names.find(has);
    if (found) out[role] = found;
  }
  return out;
}

export const rowLevel = (r: Row, roles: Roles): Level | "" => (roles.level ? levelOf(r.get(roles.level)) : "");
export const messageOf = (r: Row, roles: Roles): unknown => (roles.message ? r.get(roles.message) : undefined);

/** Names a record in the address: its time and a hash of what it has. */
export function idOf(r: Row): string {
  let hash = 2166136261;
  const text = r.entries().filter(([, v]) => typeof v !== "string" || v.length < 200).map(([k, v]) => `${k}=${textOf(v)}`).sort().join("\n");
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return `${r.time}~${(hash >>> 0).toString(36)}`;
}

/** The nanoseconds of a time, to put times in order and to step by the least. */
export function nanos(t: string): bigint {
  const m = /^(.{19})(?:\.(\d{1,9}))?Z$/.exec(t);
  return m ? BigInt(Date.parse(m[1] + "Z")) * 1_000_000n + BigInt((m[2] ?? "").padEnd(9, "0")) : 0n;
}

export function fromNanos(n: bigint): string {
  const s = n / 1_000_000_000n, rest = n % 1_000_000_000n;
  return `${new Date(Number(s) * 1000).toISOString().slice(0, 19)}.${String(rest).padStart(9, "0")}Z`;
}
