// Links from traces to the other pages, and names and texts in SQL.
import { orgPath } from "../lib/boot.ts";
import { visible } from "../lib/dom.ts";

export const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
export const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** A value in the search language. */
export const quoted = (text: string) => (/^[\p{L}\p{N}_.@$-][\p{L}\p{N}_.\/@$-]*$/u.test(text) && !/^(and|or|not|to)$/i.test(text) ? text : `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`);

export type Period = [from: number | string, to: number | string] | undefined; // ms, or texts of a range

const times = (p: Period): [string, string][] => (p ? [["from", point(p[0])], ["to", point(p[1])]] : []);
const point = (t: number | string) => (typeof t === "number" ? new Date(Math.floor(t)).toISOString() : t);
const page = (name: string, params: [string, string][]) => `${orgPath(name)}?${new URLSearchParams(params.filter(([, v]) => v !== "")).toString().replace(/%3A/gi, ":")}`;

export const tracesOf = (service: string, operation = "", p?: Period, more: [string, string][] = []) => page("traces", [["service", service], ["operation", operation], ...more, ...times(p)]);
export const logsOf = (service: string, p?: Period, q = "") => page("logs", [["q", q || `service:${quoted(service)}`], ...times(p)]);
/** The names of a service's metrics: its series have several units, so none is graphed before one is chosen. */
export const metricsOf = (service: string, p?: Period) => page("metrics", [["service", service], ...times(p)]);
export const servicesOf = (service: string, p?: Period) => page("services", [["service", service], ...times(p)]);
export const traceOf = (id: string, span = "") => page(`traces/${encodeURIComponent(id)}`, [["sel", span]]).replace(/\?$/, "");

/** A name of a service as it is shown; it may be anything, also nothing. */
export const called = (name: string) => (name === "" ? "unknown" : name.trim() === "" ? "(blank)" : visible(name));
