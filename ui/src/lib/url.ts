// The URL is the state of a page: reload, back, forward and a pasted link restore the same view. A state that is too long for an address is kept by the node, and
// the address names it.
import { json } from "./api.ts";

export type State = Record<string, string | string[] | undefined>;
export type Params = Record<string, string | string[]>;

/** Reads the parameters. Unknown ones are kept by write. */
export const read = () => new URLSearchParams(location.search);

/** Sets parameters; undefined, "" and [] remove one. push makes a step that the reader can go back. */
export function write(change: State, how: "push" | "replace" = "push") {
  const q = read();
  for (const [k, v] of Object.entries(change)) {
    q.delete(k);
    for (const one of Array.isArray(v) ? v : v ? [v] : []) q.append(k, one);
  }
  const text = q.toString().replace(/%3A/gi, ":").replace(/%2C/gi, ",").replace(/%2F/gi, "/");
  const url = location.pathname + (text ? "?" + text : "") + location.hash;
  if (url === location.pathname + location.search + location.hash) return;
  history[how === "push" ? "pushState" : "replaceState"](history.state, "", url);
}

/** Calls f when the reader goes back or forward. */
export const onNavigate = (f: () => void) => addEventListener("popstate", f);

/** What was typed and not run. It stays with this entry of the browser's history: a reload and the way back bring it back, a link does not have it. */
export const typed = () => (history.state as { typed?: string } | null)?.typed;

export function keepTyped(text: string | undefined) {
  if (text !== typed()) history.replaceState({ ...(history.state as object | null), typed: text }, "");
}

const longest = 1900; // characters of an address's parameters
let last = { text: "", id: "" };

/** A state without what is empty. */
export function filled(s: State): Params {
  const out: Params = {};
  for (const [k, v] of Object.entries(s)) if (v !== undefined && v.length) out[k] = v;
  return out;
}

export function toQuery(p: Params): URLSearchParams {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(p)) for (const one of Array.isArray(v) ? v : [v]) q.append(k, one);
  return q;
}

const queryText = (p: Params) => toQuery(p).toString().replace(/%3A/gi, ":").replace(/%2C/gi, ",").replace(/%2F/gi, "/");

/** The address's parameters for a state: themselves, or the name of a link. */
export async function address(p: Params): Promise<string> {
  const text = queryText(p);
  if (text.length <= longest) return text;
  if (last.text !== text) last = { text, id: (await json<{ id: string }>("/links", { body: { state: p } })).id };
  return `s=${encodeURIComponent(last.id)}`;
}

/** The state that a link's name stands for. */
export const kept = async (id: string, signal?: AbortSignal) => (await json<{ state: Params }>(`/links/${encodeURIComponent(id)}`, signal ? { signal } : {})).state;

/** The address of a page of an explorer, with the time that this page shows, if it shows one. */
export function withTime(path: string): string {
  const shown = document.querySelector<HTMLElement & { value: { from: string; to: string }; tz: string }>("ms-time");
  if (!shown?.value || !/\/(logs|metrics|traces|services)$/.test(path)) return path;
  const { value: { from, to }, tz } = shown;
  return `${path}?${queryText(filled({ from, to, tz }))}`;
}

let timer = 0;
/** Puts a link's name into the address when the state is long, once the reader rests. Until then, and when it cannot be kept, the address is long. The
 *  names are those of the parameters that the state may have. */
export function shorten(p: Params, names: string[]) {
  clearTimeout(timer);
  if (queryText(p).length <= longest) return;
  timer = window.setTimeout(async () => {
    try {
      const short = await address(p);
      write({ ...Object.fromEntries([...read().keys()].filter((k) => names.includes(k)).map((k) => [k, undefined])), s: short.slice(2) }, "replace");
    } catch { /* the long address works, too */ }
  }, 500);
}
