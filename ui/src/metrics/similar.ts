// A metric that does not exist: those with the same words in their names, as when "http_requests" was sent as "http.requests" or the unit is not in the name.
import { json } from "../lib/api.ts";
import { button, visible } from "../lib/dom.ts";
import { selector } from "./prom.ts";

const suffix = /^(total|seconds|milliseconds|bytes|ratio|percent)$/i; // which Prometheus adds to names and OpenTelemetry does not
const most = 3;

/** The parts of a name that others like it must have. */
export const words = (name: string) => name.split(/[^A-Za-z0-9]+/).filter((w) => w && !suffix.test(w));

/** The query with another metric in place of one. */
export function rename(query: string, from: string, to: string): string {
  const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), name = literal(from), bare = selector(to) === to;
  const quoted = query.replace(new RegExp(`([{,]\\s*)${literal(JSON.stringify(from))}(?=\\s*[,}])`, "g"), (_, before: string) => before + JSON.stringify(to));
  return quoted.replace(new RegExp(`(?<![\\w:"'])${name}(?![\\w:"'])(\\s*\\{)?`, "g"), (_, brace: string | undefined) => (bare ? to + (brace ?? "") : brace ? `{${JSON.stringify(to)}, ` : selector(to)));
}

/** Offers metrics in place of one that nothing was found for; nothing if it exists. */
export async function offer(box: HTMLElement, name: string, pick: (to: string) => void) {
  const search = words(name).join(" ");
  if (!search) return;
  const { metrics } = await json<{ metrics: { name: string }[] }>(`/query/metrics?${new URLSearchParams({ search, limit: "20" })}`);
  if (metrics.length === 0 || metrics.some((m) => m.name === name)) return;
  const list = metrics.map((m) => m.name).sort((a, b) => a.length - b.length).slice(0, most);
  box.replaceChildren("Did you mean ", ...list.flatMap((to, i) => [i > 0 && (i === list.length - 1 ? " or " : ", "), button({ text: visible(to), cls: "sm mono", on: () => pick(to) })]).filter((x) => x !== false), "?");
}
