// The tree of a PromQL expression as the node parses it, and its parts written as PromQL again.
import { quote, selector } from "./prom.ts";

interface Matcher { name: string; value: string; type: string }
export interface Ast {
  type: string;
  op?: string; expr?: Ast; param?: Ast | null; grouping?: string[]; without?: boolean;
  lhs?: Ast; rhs?: Ast; bool?: boolean; matching?: { card: string; labels: string[]; on: boolean; include: string[] } | null;
  func?: { name: string }; args?: Ast[];
  name?: string; matchers?: Matcher[]; range?: number; offset?: number; step?: number; timestamp?: number | null; startOrEnd?: string | null;
  val?: string;
}

/** The expressions that a node is made of. */
export const parts = (n: Ast): Ast[] => [n.lhs, n.rhs, n.param ?? undefined, n.expr, ...(n.args ?? [])].filter((x): x is Ast => !!x && x.type !== "numberLiteral" && x.type !== "stringLiteral");

/** What a node does, in short. */
export function title(n: Ast): string {
  switch (n.type) {
    case "aggregation": return `${n.op}${grouping(n)}`;
    case "binaryExpr": return `${n.op}${n.bool ? " bool" : ""}${matching(n)}`;
    case "call": return `${n.func!.name}()`;
    case "parenExpr": return "( )";
    case "unaryExpr": return n.op!;
    case "subquery": return `subquery${subrange(n)}`;
    default: return text(n);
  }
}

/** A node as PromQL. */
export function text(n: Ast): string {
  switch (n.type) {
    case "aggregation": return `${n.op}${grouping(n)} (${n.param ? `${text(n.param)}, ` : ""}${text(n.expr!)})`;
    case "binaryExpr": return `${text(n.lhs!)} ${n.op}${n.bool ? " bool" : ""}${matching(n)} ${text(n.rhs!)}`;
    case "call": return `${n.func!.name}(${(n.args ?? []).map(text).join(", ")})`;
    case "parenExpr": return `(${text(n.expr!)})`;
    case "unaryExpr": return `${n.op}${text(n.expr!)}`;
    case "numberLiteral": return n.val!;
    case "stringLiteral": return quote(n.val!);
    case "subquery": return `${text(n.expr!)}${subrange(n)}${at(n)}`;
    case "matrixSelector": return `${vector(n)}[${duration(n.range!)}]${at(n)}`;
    case "vectorSelector": return vector(n) + at(n);
  }
  return n.type;
}

const label = (k: string) => (/^[a-zA-Z_]\w*$/.test(k) ? k : quote(k));
const list = (names: string[]) => `(${names.map(label).join(", ")})`;
const grouping = (n: Ast) => (n.without ? ` without ${list(n.grouping ?? [])}` : n.grouping?.length ? ` by ${list(n.grouping)}` : "");
const subrange = (n: Ast) => `[${duration(n.range!)}:${n.step ? duration(n.step) : ""}]`;

function matching(n: Ast): string {
  const m = n.matching;
  if (!m || (!m.on && m.labels.length === 0 && m.card === "one-to-one") || m.card === "many-to-many" && !m.on && m.labels.length === 0) return "";
  const group = m.card === "many-to-one" ? ` group_left ${list(m.include ?? [])}` : m.card === "one-to-many" ? ` group_right ${list(m.include ?? [])}` : "";
  return ` ${m.on ? "on" : "ignoring"} ${list(m.labels)}${group}`;
}

function vector(n: Ast): string {
  const rest = (n.matchers ?? []).filter((m) => !(m.name === "__name__" && m.type === "=" && m.value === n.name));
  const name = n.name ? selector(n.name) : "";
  const inside = rest.map((m) => `${label(m.name)}${m.type}${quote(m.value)}`).join(", ");
  if (!inside) return name || "{}";
  return name.startsWith("{") ? `${name.slice(0, -1)}, ${inside}}` : `${name}{${inside}}`;
}

function at(n: Ast): string {
  const pin = n.timestamp !== null && n.timestamp !== undefined ? ` @ ${n.timestamp / 1000}` : n.startOrEnd ? ` @ ${n.startOrEnd}()` : "";
  return pin + (n.offset ? ` offset ${n.offset < 0 ? "-" : ""}${duration(Math.abs(n.offset))}` : "");
}

/** Milliseconds as a duration of PromQL. */
export function duration(ms: number): string {
  let left = ms, out = "";
  for (const [unit, size] of [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000], ["ms", 1]] as const) {
    const n = Math.floor(left / size);
    if (n) out += n + unit;
    left -= n * size;
  }
  return out || "0s";
}
