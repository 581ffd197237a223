// Filters: conditions on one field each, shown as chips, kept in the address as field:op:value and put into queries as SQL.

export type Op = "is" | "not" | "gte" | "gt" | "lte" | "lt" | "has" | "hasnot" | "match" | "nomatch";
export interface Filter { field: string; op: Op; values: string[] }

export const ops: Record<Op, { sign: string; text: string }> = {
  is: { sign: "=", text: "is" }, not: { sign: "≠", text: "is not" }, gte: { sign: "≥", text: "is at least" }, gt: { sign: ">", text: "is more than" },
  lte: { sign: "≤", text: "is at most" }, lt: { sign: "<", text: "is less than" }, has: { sign: "exists", text: "is set" }, hasnot: { sign: "is not set", text: "is not set" },
  match: { sign: "~", text: "matches the expression" }, nomatch: { sign: "!~", text: "does not match the expression" },
};

const enc = (t: string) => encodeURIComponent(t).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
const dec = (t: string) => { try { return decodeURIComponent(t); } catch { return t; } };

export const encodeFilter = (f: Filter) => `${enc(f.field)}:${f.op}${f.values.length ? ":" + f.values.map(enc).join(",") : ""}`;

/** Reads a filter of the address; undefined if it is none. */
export function decodeFilter(text: string): Filter | undefined {
  const [field, op, ...rest] = text.split(":");
  if (!field || !op || !(op in ops)) return undefined;
  const one = op === "has" || op === "hasnot";
  if (one !== (rest.length === 0)) return undefined;
  return { field: dec(field), op: op as Op, values: one ? [] : rest.join(":").split(",").map(dec) };
}

export const same = (a: Filter, b: Filter) => a.field === b.field && a.op === b.op && a.values.length === b.values.length && a.values.every((v, i) => v === b.values[i]);

/** A name in SQL. */
export const name = (field: string) => `"${field.replaceAll('"', '""')}"`;
const text = (v: string) => `'${v.replaceAll("'", "''")}'`;
const numeric = /^(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|U[A-Z]+INT|DOUBLE|FLOAT|DECIMAL|int64|double|float|uint64)/;
export const isNumber = (type: string | undefined) => type !== undefined && numeric.test(type);

/** A value in SQL, for a field of a type that is known or not. */
function literal(v: string, type: string | undefined): string {
  if (isNumber(type) && /^-?\d{1,18}(\.\d{1,17})?$/.test(v)) return v;
  if (/^bool/i.test(type ?? "") && /^(true|false)$/.test(v)) return v;
  return text(v);
}

/** The condition of a filter in SQL. What lacks the field passes a negation. */
export function toSQL(f: Filter, type?: string): string {
  const n = name(f.field), vs = f.values.map((v) => literal(v, type));
  switch (f.op) {
    case "has": return `${n} IS NOT NULL`;
    case "hasnot": return `${n} IS NULL`;
    case "is": return vs.length === 1 ? `${n} = ${vs[0]}` : `${n} IN (${vs.join(", ")})`;
    case "not": return vs.length === 1 ? `(${n} IS NULL OR ${n} <> ${vs[0]})` : `(${n} IS NULL OR ${n} NOT IN (${vs.join(", ")}))`;
    case "match": return `re_match(${n}, ${text(f.values[0]!)})`;
    case "nomatch": return `(${n} IS NULL OR NOT re_match(${n}, ${text(f.values[0]!)}))`;
    default: return `${n} ${{ gte: ">=", gt: ">", lte: "<=", lt: "<" }[f.op]} ${vs[0]}`;
  }
}

/** One condition of a search's condition and of the filters; "" is all records. */
export function where(search: string, filters: Filter[], types: ReadonlyMap<string, string> | undefined): string {
  const parts = filters.map((f) => toSQL(f, types?.get(f.field)));
  if (search) parts.unshift(parts.length ? `(${search})` : search);
  return parts.join(" AND ");
}

/** A filter for people. */
export const describe = (f: Filter) => `${f.field} ${ops[f.op].text} ${f.values.join(" or ")}`.trim();
