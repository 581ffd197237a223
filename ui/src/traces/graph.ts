// Where the services of the map stand: in layers from those that call to those that are called, with as few crossings as a few sweeps find.

export interface Node { name: string; layer: number; x: number; y: number }
export interface Edge { from: string; to: string }
export interface Layout { nodes: Map<string, Node>; routes: Map<Edge, [number, number][]>; width: number; height: number } // routes: points that an edge passes

export const size = { width: 190, height: 54, across: 92, down: 20 }; // px: of a node, and the least between two

interface Place { name: string; layer: number; order: number; y: number; up: Place[]; down: Place[]; real: boolean }

const apart = 36; // px between two parts of the graph that have no connection

/** Lays a graph out. Parts that nothing connects stand below each other, in the order of the first name of each; services without calls stand side by side at the end. */
export function layOut(names: string[], edges: Edge[]): Layout {
  const known = new Set(names), own = edges.filter((e) => e.from !== e.to && known.has(e.from) && known.has(e.to));
  const all: Layout = { nodes: new Map(), routes: new Map(), width: size.width, height: 0 };
  const parts = components(names, own), alone = parts.filter((p) => p.length === 1).flat();
  for (const part of parts.filter((p) => p.length > 1)) {
    const inside = new Set(part), l = layOutPart(part, own.filter((e) => inside.has(e.from))), top = all.height && all.height + apart;
    for (const n of l.nodes.values()) all.nodes.set(n.name, { ...n, y: n.y + top });
    for (const [e, points] of l.routes) all.routes.set(e, points.map(([x, y]) => [x, y + top]));
    all.width = Math.max(all.width, l.width);
    all.height = top + l.height;
  }
  const columns = Math.max(3, Math.floor((all.width + size.across) / (size.width + size.across))), top = all.height && all.height + apart;
  alone.forEach((name, i) => all.nodes.set(name, { name, layer: i % columns, x: (i % columns) * (size.width + size.across), y: top + Math.floor(i / columns) * (size.height + size.down) }));
  if (alone.length) {
    all.width = Math.max(all.width, Math.min(columns, alone.length) * (size.width + size.across) - size.across);
    all.height = top + Math.ceil(alone.length / columns) * (size.height + size.down) - size.down;
  }
  return all;
}

/** Groups of names that calls connect, whatever their direction. */
function components(names: string[], edges: Edge[]): string[][] {
  const near = new Map(names.map((n) => [n, [] as string[]])), seen = new Set<string>();
  for (const e of edges) { near.get(e.from)!.push(e.to); near.get(e.to)!.push(e.from); }
  return names.filter((n) => !seen.has(n)).flatMap((n) => {
    if (seen.has(n)) return [];
    const part = [n];
    seen.add(n);
    for (const x of part) for (const y of near.get(x)!) if (!seen.has(y)) { seen.add(y); part.push(y); }
    return [part];
  });
}

function layOutPart(names: string[], own: Edge[]): Layout {
  const forward = acyclic(names, own);
  const layers = layering(names, forward);
  const { rows, chains } = places(names, layers, forward);
  for (let i = 0; i < 8; i++) sweep(rows, i % 2 === 0);
  settle(rows);
  const deepest = Math.max(0, ...rows.flat().map((p) => p.y + (p.real ? size.height : 14)));
  const nodes = new Map<string, Node>(), x = (layer: number) => layer * (size.width + size.across);
  for (const p of rows.flat()) if (p.real) nodes.set(p.name, { name: p.name, layer: p.layer, x: x(p.layer), y: p.y });
  const routes = new Map<Edge, [number, number][]>();
  for (const e of own) {
    const a = nodes.get(e.from)!, b = nodes.get(e.to)!, back = b.layer <= a.layer;
    const between = chains.get(e)!.map((p): [number, number] => [x(p.layer) + size.width / 2, p.y + 7]);
    routes.set(e, back ? [[a.x, a.y + size.height / 2], ...between.reverse(), [b.x + size.width, b.y + size.height / 2]] : [[a.x + size.width, a.y + size.height / 2], ...between, [b.x, b.y + size.height / 2]]);
  }
  return { nodes, routes, width: rows.length * (size.width + size.across) - size.across, height: deepest };
}

/** The edges with their direction for layering: those that would close a circle are turned around. */
function acyclic(names: string[], edges: Edge[]): { e: Edge; from: string; to: string }[] {
  const out = new Map(names.map((n) => [n, [] as Edge[]])), incoming = new Map(names.map((n) => [n, 0]));
  for (const e of edges) { out.get(e.from)!.push(e); incoming.set(e.to, incoming.get(e.to)! + 1); }
  const state = new Map<string, 1 | 2>(), turned = new Set<Edge>();
  // From those that nobody calls, so that circles are opened far from where calls begin.
  for (const start of [...names].sort((a, b) => incoming.get(a)! - incoming.get(b)!)) {
    if (state.has(start)) continue;
    const stack: { n: string; i: number }[] = [{ n: start, i: 0 }];
    state.set(start, 1);
    while (stack.length) {
      const top = stack[stack.length - 1]!, e = out.get(top.n)![top.i++];
      if (!e) { state.set(top.n, 2); stack.pop(); continue; }
      const s = state.get(e.to);
      if (s === 1) turned.add(e);
      else if (!s) { state.set(e.to, 1); stack.push({ n: e.to, i: 0 }); }
    }
  }
  return edges.map((e) => (turned.has(e) ? { e, from: e.to, to: e.from } : { e, from: e.from, to: e.to }));
}

/** The longest way from a caller that nobody calls. */
function layering(names: string[], edges: { from: string; to: string }[]): Map<string, number> {
  const layer = new Map(names.map((n) => [n, 0])), waiting = new Map(names.map((n) => [n, 0])), out = new Map(names.map((n) => [n, [] as string[]]));
  for (const e of edges) { out.get(e.from)!.push(e.to); waiting.set(e.to, waiting.get(e.to)! + 1); }
  const ready = names.filter((n) => waiting.get(n) === 0);
  for (const n of ready) {
    for (const to of out.get(n)!) {
      layer.set(to, Math.max(layer.get(to)!, layer.get(n)! + 1));
      waiting.set(to, waiting.get(to)! - 1);
      if (waiting.get(to) === 0) ready.push(to);
    }
  }
  return layer;
}

/** The rows of places, with places for the edges that pass a layer. */
function places(names: string[], layers: Map<string, number>, edges: { e: Edge; from: string; to: string }[]) {
  const rows: Place[][] = [];
  const put = (name: string, layer: number, real: boolean): Place => {
    const p: Place = { name, layer, order: 0, y: 0, up: [], down: [], real };
    const row = (rows[layer] ??= []);
    p.order = row.length;
    row.push(p);
    return p;
  };
  for (let i = 0; i <= Math.max(0, ...layers.values()); i++) rows[i] = [];
  const at = new Map(names.map((n) => [n, put(n, layers.get(n)!, true)]));
  const chains = new Map<Edge, Place[]>();
  for (const { e, from, to } of edges) {
    const chain: Place[] = [];
    let last = at.get(from)!;
    for (let l = last.layer + 1; l < layers.get(to)!; l++) { const p = put("", l, false); link(last, p); chain.push(p); last = p; }
    link(last, at.get(to)!);
    chains.set(e, chain);
  }
  return { rows, chains };
}

const link = (a: Place, b: Place) => { a.down.push(b); b.up.push(a); };

/** Orders each layer by where its neighbours stand in the one before, or after. */
function sweep(rows: Place[][], downwards: boolean) {
  for (const row of downwards ? rows : [...rows].reverse()) {
    const middle = (p: Place) => { const list = downwards ? p.up : p.down; return list.length ? list.reduce((sum, q) => sum + q.order, 0) / list.length : p.order; };
    const by = new Map(row.map((p) => [p, middle(p)]));
    row.sort((a, b) => by.get(a)! - by.get(b)! || a.order - b.order).forEach((p, i) => { p.order = i; });
  }
}

const middleOf = (p: Place) => p.y + (p.real ? size.height : 14) / 2;

/** Heights: each place as near to its neighbours as its layer has room. */
function settle(rows: Place[][]) {
  const gap = (p: Place) => (p.real ? size.height : 14) + size.down;
  for (const row of rows) { let y = 0; for (const p of row) { p.y = y; y += gap(p); } }
  for (let round = 0; round < 6; round++) {
    for (const row of round % 2 ? [...rows].reverse() : rows) {
      const want = row.map((p) => { const all = [...p.up, ...p.down]; return all.length ? all.reduce((sum, q) => sum + middleOf(q), 0) / all.length - (middleOf(p) - p.y) : p.y; });
      // In order and apart: pushed down by those above, then as a whole towards where they want to be.
      let floor = -Infinity;
      row.forEach((p, i) => { p.y = Math.max(want[i]!, floor); floor = p.y + gap(p); });
      const drift = row.reduce((sum, p, i) => sum + want[i]! - p.y, 0) / Math.max(1, row.length);
      for (const p of row) p.y += drift;
    }
  }
  const top = Math.min(...rows.flat().map((p) => p.y));
  for (const p of rows.flat()) p.y -= top;
}

/** Names within so many calls of one, in either direction. */
export function within(name: string, hops: number, edges: Edge[]): Set<string> {
  const found = new Set([name]);
  let edge = [name];
  for (let i = 0; i < hops; i++) {
    const here = new Set(edge);
    edge = [...new Set(edges.flatMap((e) => [here.has(e.from) ? e.to : "", here.has(e.to) ? e.from : ""]))].filter((n) => n !== "" && !found.has(n));
    for (const n of edge) found.add(n);
  }
  return found;
}
