// What the server tells a page when it renders it.

export interface Boot {
  base: string; // path prefix of every link
  org: string; // slug of the organization; empty on pages of no organization
  user: { id: string; email: string; name: string };
  role: "viewer" | "editor" | "admin" | "owner";
  installation: boolean; // the reader looks after the installation: its nodes and their configuration
  csrf: string; // goes with every request that changes something
  now: string; // the server's clock, RFC 3339
  version: string;
  page: string;
  prefs: Prefs;
  streams: StreamRef[]; // at most 500, newest data first
  data: Record<string, unknown>; // of the page
}

export interface StreamRef { signal: "logs" | "metrics" | "traces"; name: string }

export interface Prefs {
  theme?: "system" | "light" | "dark";
  density?: "compact" | "normal" | "comfortable";
  time_zone?: string; // "browser", "UTC" or a name of the zone database
  clock?: "24h" | "12h";
  week_start?: "monday" | "saturday" | "sunday";
  single_keys?: boolean;
  reduced_motion?: "system" | "on" | "off";
  bytes?: "decimal" | "binary";
  default_stream?: string;
  default_range?: string;
}

const text = document.getElementById("boot")?.textContent;

export const boot: Boot = text ? JSON.parse(text) : { base: "", org: "", user: { id: "", email: "", name: "" }, role: "viewer", installation: false, csrf: "", now: new Date().toISOString(), version: "", page: "", prefs: {}, streams: [], data: {} };

/** How far this machine's clock is ahead of the server's, in milliseconds, good to the time a page takes to arrive. */
export const clockSkew = Date.now() - Date.parse(boot.now);

/** Path of a page of the organization. */
export const orgPath = (page: string) => `${boot.base}/${encodeURIComponent(boot.org)}/${page}`;

const ranks = ["viewer", "editor", "admin", "owner"];
/** Whether the reader has at least a role. The server decides; this only keeps what cannot work out of sight. */
export const may = (role: Boot["role"]) => ranks.indexOf(boot.role) >= ranks.indexOf(role);
