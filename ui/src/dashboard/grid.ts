// Where the panels of a dashboard lie: a grid of columns, in which nothing overlaps.
import type { Grid, Panel } from "./model.ts";

export const COLUMNS = 24;

/** Row by row, as they are read. */
export const inOrder = (panels: readonly Panel[]) => [...panels].sort((a, b) => a.grid.y - b.grid.y || a.grid.x - b.grid.x);

export const bottom = (panels: readonly Panel[]) => Math.max(0, ...panels.map((p) => p.grid.y + p.grid.h));
export const nextId = (panels: readonly Panel[]) => 1 + Math.max(0, ...panels.map((p) => p.id));
const hit = (a: Grid, b: Grid) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/** The first place, row by row, where a panel of this size lies free; below the last row, as the rows above hold what was put into them. */
export function firstFree(panels: readonly Pick<Panel, "type" | "grid">[], size: Pick<Grid, "w" | "h">): Grid {
  const w = Math.max(1, Math.min(COLUMNS, Math.round(size.w) || 1)), h = Math.max(1, Math.round(size.h) || 1);
  for (let y = Math.max(0, ...panels.filter((p) => p.type === "row").map((p) => p.grid.y + p.grid.h)); ; y++) {
    for (let x = 0; x + w <= COLUMNS; x++) if (!panels.some((p) => hit({ x, y, w, h }, p.grid))) return { x, y, w, h };
  }
}

/** The panels and one more of the size that it has: a row below all, anything else in the first free place, which the last row then shows. */
export function add(panels: readonly Panel[], p: Panel): Panel[] {
  if (p.type === "row") return [...panels, { ...p, grid: { x: 0, y: bottom(panels), w: COLUMNS, h: 1 } }];
  const last = inOrder(panels).findLast((q) => q.type === "row");
  return [...panels.map((q) => (q === last && q.options?.collapsed ? { ...q, options: { ...q.options, collapsed: false } } : q)), { ...p, grid: firstFree(panels, p.grid) }];
}

/** Puts one panel somewhere: those in its way go down, and all then rise as far as they can. The input is not changed. */
export function place(panels: Panel[], id: number, grid: Grid): Panel[] {
  const w = Math.max(1, Math.min(COLUMNS, grid.w)), mine: Grid = { w, h: Math.max(1, grid.h), x: Math.max(0, Math.min(COLUMNS - w, grid.x)), y: Math.max(0, grid.y) };
  const out = panels.map((p) => ({ ...p, grid: p.id === id ? mine : { ...p.grid } }));
  const queue = out.filter((p) => p.id === id);
  for (let steps = 0; queue.length && steps < 10_000; steps++) {
    const p = queue.shift()!;
    for (const q of out) if (q !== p && q.id !== id && hit(p.grid, q.grid)) { q.grid.y = p.grid.y + p.grid.h; queue.push(q); }
  }
  return rise(out);
}

/** Moves every panel up until something is above it. Rows stay above what they hold. */
export function rise(panels: Panel[]): Panel[] {
  const done: Panel[] = [];
  for (const p of inOrder(panels)) {
    const floor = p.type === "row" ? bottom(done) : Math.max(0, ...done.filter((q) => q.type === "row").map((q) => q.grid.y + q.grid.h));
    let y = Math.min(p.grid.y, bottom(done));
    const free = (at: number) => !done.some((q) => hit({ ...p.grid, y: at }, q.grid));
    while (y > floor && free(y - 1)) y--;
    y = Math.max(y, floor);
    while (!free(y)) y++;
    done.push({ ...p, grid: { ...p.grid, y } });
  }
  return done;
}

/** What is seen: panels of collapsed rows are not, and what is below rises. */
export function shown(panels: Panel[]): Panel[] {
  const out: Panel[] = [];
  let collapsed = false;
  for (const p of inOrder(panels)) {
    if (p.type === "row") collapsed = p.options?.collapsed === true;
    if (p.type === "row" || !collapsed) out.push(p);
  }
  return out.length === panels.length ? out : rise(out);
}
