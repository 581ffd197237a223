// The tree of a PromQL expression as the node parses it. Each part has the place of its text, in bytes of the expression.

export interface Ast {
  type: string;
  start: number;
  end: number;
  op?: string;
  expr?: Ast;
  param?: Ast | null;
  grouping?: string[];
  without?: boolean;
  lhs?: Ast;
  rhs?: Ast;
  bool?: boolean;
  matching?: { card: string; labels: string[]; on: boolean; include: string[] } | null;
  func?: { name: string };
  args?: Ast[];
}

/** Gives the text of any part of an expression. */
export function texts(query: string): (n: Ast) => string {
  const bytes = new TextEncoder().encode(query), decoder = new TextDecoder();
  return (n) => decoder.decode(bytes.subarray(n.start, n.end)).trim();
}

/** The expressions that a part is made of. Brackets are looked through; numbers and strings are no expressions of their own. */
export function parts(n: Ast): Ast[] {
  const list = [n.lhs, n.rhs, n.param ?? undefined, n.expr, ...(n.args ?? [])].filter((x): x is Ast => !!x && x.type !== "numberLiteral" && x.type !== "stringLiteral");
  return list.map(inside);
}

export const inside = (n: Ast): Ast => (n.type === "parenExpr" && n.expr ? inside(n.expr) : n);

/** What a part does, in short; a selector is shown as it is written. */
export function title(n: Ast, text: (n: Ast) => string): string {
  switch (n.type) {
    case "aggregation": return `${n.op}${grouping(n)}`;
    case "binaryExpr": return `${n.op}${n.bool ? " bool" : ""}${matching(n)}${constant(n, text)}`;
    case "call": return `${n.func!.name}()`;
    case "unaryExpr": return n.op!;
    case "subquery": return "subquery";
  }
  return text(n);
}

const list = (names: string[]) => `(${names.join(", ")})`;
const grouping = (n: Ast) => (n.without ? ` without ${list(n.grouping ?? [])}` : n.grouping?.length ? ` by ${list(n.grouping)}` : "");

/** The number that is added, compared with and so on. */
function constant(n: Ast, text: (n: Ast) => string): string {
  const number = [n.lhs, n.rhs].find((x) => x?.type === "numberLiteral");
  return number ? ` ${text(number)}` : "";
}

function matching(n: Ast): string {
  const m = n.matching;
  if (!m || (!m.on && m.labels.length === 0 && !/one-to-many|many-to-one/.test(m.card))) return "";
  const group = m.card === "many-to-one" ? ` group_left ${list(m.include ?? [])}` : m.card === "one-to-many" ? ` group_right ${list(m.include ?? [])}` : "";
  return ` ${m.on ? "on" : "ignoring"} ${list(m.labels)}${group}`;
}
