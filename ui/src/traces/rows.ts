// Which lines the waterfall shows: spans, and folded repetitions of one span among siblings.
import type { Trace } from "./model.ts";

/** A line: the span at a place, or with a group the repetitions that it is the first of. */
export interface Row { span: number; level: number; group?: Group; member?: boolean; parts: number; set: number } // parts and set: the place among its siblings' lines, for screen readers

export interface Group { id: string; members: number[]; open: boolean; median: number; longest: number; from: number; to: number; errors: number }

export const repeated = 20; // siblings of one service and name beyond which they fold into one line

export interface View {
  folded: Set<number>; // spans whose children are not shown
  opened: Set<string>; // groups whose members are shown
  match?: Uint8Array; // absent: no filter
  hide: boolean; // leave out what does not pass the filter, but for what leads to what does
}

/** The lines of a trace. It does not recurse: a trace may be as deep as it has spans. */
export function rowsOf(t: Trace, v: View): Row[] {
  const keep = v.match && v.hide ? leadingTo(t, v.match) : undefined;
  const out: Row[] = [];
  const stack: Row[] = [];
  const push = (list: Row[]) => { for (let i = list.length - 1; i >= 0; i--) stack.push(list[i]!); };
  push(lines(t, -1, 0, 0, t.n, v, keep));
  while (stack.length > 0) {
    const row = stack.pop()!;
    out.push(row);
    if (row.group) {
      if (row.group.open) push(row.group.members.map((span, k, all) => ({ span, level: row.level + 1, member: true, parts: k + 1, set: all.length })));
      continue;
    }
    if (v.folded.has(row.span) || t.children(row.span) === 0) continue;
    push(lines(t, row.span, row.level + 1, row.span + 1, t.end[row.span]!, v, keep));
  }
  return out;
}

/** The lines of the children of a span: places from `from` to `to` hold them and their descendants. */
function lines(t: Trace, parent: number, level: number, from: number, to: number, v: View, keep?: Uint8Array): Row[] {
  const byKey = new Map<number, number[]>(), order: number[] = [];
  for (let c = from; c < to; c = t.end[c]!) {
    if (keep && !keep[c]) continue;
    order.push(c);
    const key = t.key(c), list = byKey.get(key);
    if (list) list.push(c); else byKey.set(key, [c]);
  }
  const out: Row[] = [];
  for (const c of order) {
    const all = byKey.get(t.key(c))!;
    if (all.length <= repeated) out.push({ span: c, level, parts: 0, set: 0 });
    else if (all[0] === c) out.push({ span: c, level, group: groupOf(t, `${parent}/${t.key(c)}`, all, v), parts: 0, set: 0 });
  }
  out.forEach((r, i) => { r.parts = i + 1; r.set = out.length; });
  return out;
}

function groupOf(t: Trace, id: string, members: number[], v: View): Group {
  const lengths = Float64Array.from(members, (i) => t.length(i)).sort();
  let from = Infinity, to = -Infinity, errors = 0;
  for (const i of members) { from = Math.min(from, t.start[i]!); to = Math.max(to, t.start[i]! + t.length(i)); errors += t.error[i]!; }
  return { id, members, open: v.opened.has(id), median: lengths[lengths.length >> 1]!, longest: lengths[lengths.length - 1]!, from, to, errors };
}

/** Spans that pass, and those above them. */
function leadingTo(t: Trace, match: Uint8Array): Uint8Array {
  const keep = Uint8Array.from(match);
  for (let i = t.n - 1; i >= 0; i--) if (keep[i]) { const p = t.parent(i); if (p >= 0) keep[p] = 1; }
  return keep;
}

/** Makes a span visible: unfolds what is above it. */
export function uncover(t: Trace, v: View, i: number) {
  const line = [...t.ancestors(i), i];
  for (const p of line.slice(0, -1)) v.folded.delete(p);
  for (const c of line) {
    const parent = t.parent(c), key = t.key(c);
    let same = 0;
    for (let x = parent < 0 ? 0 : parent + 1, to = parent < 0 ? t.n : t.end[parent]!; x < to; x = t.end[x]!) if (t.key(x) === key) same++;
    if (same > repeated) v.opened.add(`${parent}/${key}`);
  }
}
