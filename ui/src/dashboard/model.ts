// A dashboard as the node keeps it (package dashboard has the meaning of each field), and what may be done with one.
import { json } from "../lib/api.ts";

export const COLUMNS = 24;

export interface Grid { x: number; y: number; w: number; h: number }
export type PanelType = "timeseries" | "stat" | "gauge" | "bar" | "table" | "logs" | "heatmap" | "state-timeline" | "traces" | "text" | "row" | "placeholder";
export type QueryLanguage = "promql" | "sql" | "search";
export interface Target { ref: string; language: QueryLanguage; statement: string; stream?: string; legend?: string; format?: string; instant?: boolean; step?: string; hidden?: boolean }
export interface Threshold { value?: number; color: string }
export interface Mapping { value?: string; from?: number; to?: number; text: string; color?: string }
export interface Options {
  unit?: string; decimals?: number; min?: number; max?: number; thresholds?: Threshold[]; threshold_mode?: string; mappings?: Mapping[]; stack?: string; style?: string; fill?: number; line?: number; nulls?: string;
  log?: number; legend?: { placement: string; calcs?: string[] }; calc?: string; horizontal?: boolean; sparkline?: boolean; collapsed?: boolean; content?: string;
}
export interface Panel { id: number; title?: string; description?: string; type: PanelType; grid: Grid; targets?: Target[]; options?: Options; original?: unknown }
export interface Variable { name: string; label?: string; type: "query" | "custom" | "constant" | "interval" | "text" | "stream"; language?: QueryLanguage; query?: string; regex?: string; options?: string[]; multi?: boolean; include_all?: boolean; all_value?: string; default?: string[]; hidden?: boolean }
export interface Body { title: string; description?: string; tags?: string[]; folder?: string; time?: { from: string; to: string }; refresh?: string; variables?: Variable[]; panels: Panel[] }
export interface Head { id: string; name: string; owner?: string; mine: boolean; shared: boolean; editable: boolean; version: number; updated_at: string; updated_by: string }
export interface Listed extends Head { summary: { description?: string; tags?: string[]; folder?: string; panels: number } }
export interface Kept extends Head { body: Body }
export interface Version { version: number; name: string; at: string; by: string }

const one = (id: string) => `/dashboards/${encodeURIComponent(id)}`;

export const list = async () => (await json<{ dashboards: Listed[] }>("/dashboards")).dashboards;
export const load = (id: string) => json<Kept>(one(id));
export const create = (body: Body, shared: boolean) => json<Kept>("/dashboards", { body: { body, shared } });
export const save = (id: string, body: Body, shared: boolean, version: number) => json<Kept>(one(id), { method: "PUT", body: { body, shared, version } });
export const remove = (d: Head) => json(one(d.id), { method: "DELETE", headers: { "If-Match": `"${d.version}"` } });
export const undelete = (id: string) => json(`${one(id)}/restore`, { body: {} });
export const versions = async (id: string) => (await json<{ versions: Version[] }>(`${one(id)}/versions`)).versions;
export const version = (id: string, n: number) => json<{ body: Body }>(`${one(id)}/versions/${n}`);
export const restore = (id: string, n: number) => json<Kept>(`${one(id)}/restore`, { body: { version: n } });
export const exported = (id: string, format: string) => json<unknown>(`${one(id)}/export?format=${format}`);

export interface ReportPanel { title: string; type: string; state: "converted" | "changed" | "placeholder"; notes?: string[] }
export interface Imported { report: { panels: ReportPanel[]; variables?: unknown[]; units?: unknown[]; data_sources?: unknown[] }; dashboard: Body; id?: string }
export const importFile = (content: unknown, dry: boolean, shared = false) => json<Imported>(`/dashboards/import?dry_run=${dry}&shared=${shared}`, { body: content });

export const emptyBody = (): Body => ({ title: "New dashboard", time: { from: "now-1h", to: "now" }, panels: [] });

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
