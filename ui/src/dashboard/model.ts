// A dashboard as the node keeps it (package dashboard has the meaning of each field), and what may be done with one.
import { json } from "../lib/api.ts";

export * from "./grid.ts";

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
