// The standard states of a panel. Each takes the place of the panel's content; none loses what the reader typed.
import { type ApiError, explain } from "./api.ts";
import { button, h, icon, sentence } from "./dom.ts";

export interface Action { text: string; icon?: string; primary?: boolean; on: () => void }

const acts = (list: Action[]) => list.length > 0 && h("div", { class: "acts" }, list.map((a) => button({ text: a.text, icon: a.icon, cls: a.primary ? "primary" : "", on: a.on })));

/** Rows of the real height while nothing is there yet; they appear after 150 ms. */
export const skeleton = (rows = 12) => h("div", { class: "skel", "aria-hidden": "true" }, Array.from({ length: rows }, () => h("i")));

export const empty = (o: { title: string; text?: string; icon?: string; actions?: Action[]; extra?: Node }) =>
  h("div", { class: "state" }, h("span", { class: "ic" }, icon(o.icon ?? "search")), h("h2", null, o.title), o.text && h("p", null, sentence(o.text)), o.extra, acts(o.actions ?? []));

/** An error: what the server said, how to go on, and the id that finds the request in the node's log. */
export function failure(e: ApiError, retry?: () => void, more: Action[] = []): HTMLElement {
  if (e.status === 403 && /^reload the page/.test(e.hint)) return h("div", { class: "state warn" }, h("span", { class: "ic" }, icon("refresh-cw")), h("h2", null, "This page has to be loaded again"), h("p", null, "Its session has ended, or somebody else has signed in."), h("p", { class: "t2" }, sentence(e.message)), acts([{ text: "Reload the page", icon: "refresh-cw", primary: true, on: () => location.reload() }, ...more]));
  if (e.status === 403) return h("div", { class: "state warn" }, h("span", { class: "ic" }, icon("lock")), h("h2", null, "Not allowed"), h("p", null, sentence(e.message)), h("p", { class: "t2" }, sentence(e.hint) || "An administrator of the organization can give you the role."), acts(more));
  const title = e.code === "offline" ? "The node cannot be reached" : e.status === 429 ? "Too many requests" : e.status === 503 ? "Not available now" : e.status === 504 ? "It took too long" : e.status === 404 ? "Not found" : "This did not work";
  const list = [...(retry ? [{ text: "Try again", icon: "refresh-cw", on: retry }] : []), ...more];
  return h("div", { class: "state error", role: "alert" },
    h("span", { class: "ic" }, icon(e.code === "offline" ? "wifi-off" : "circle-alert")), h("h2", null, title), h("pre", { class: "mono", tabindex: "0", "aria-label": "What the node said" }, sentence(e.message)),
    e.hint && h("p", null, sentence(e.hint)), e.retryAfter > 0 && h("p", null, `Try again in ${e.retryAfter} s.`),
    e.request && h("p", { class: "req" }, "Request ", h("code", null, e.request)), acts(list));
}

/** What an error says to a person where there is no room for a panel: the message and how to go on, in sentences. */
export function told(e: unknown): string {
  const { message, hint } = explain(e);
  return hint ? `${sentence(message).replace(/[^.!?]$/, "$&.")} ${sentence(hint)}` : sentence(message);
}

/** A line above a panel: partial, degraded, or something to know. */
export const banner = (kind: "warn" | "error" | "info", text: string, actions: Action[] = []) =>
  h("div", { class: `banner ${kind === "warn" ? "" : kind}`.trim(), role: kind === "error" ? "alert" : "status" }, icon(kind === "info" ? "info" : "triangle-alert", "s"), h("span", null, sentence(text)), actions.map((a) => button({ text: a.text, icon: a.icon, cls: "sm", on: a.on })));

/** Above a panel that could not be renewed and keeps what it shows: since when, why, and how to go on. */
export const stale = (since: string, e: ApiError, retry: () => void) =>
  banner("warn", `Not renewed since ${since}: ${e.message.replace(/\.?$/, ".")}${e.retryAfter > 0 ? ` Try again in ${e.retryAfter} s.` : ""}`, [{ text: "Try again", icon: "refresh-cw", on: retry }]);
