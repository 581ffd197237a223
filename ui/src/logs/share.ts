// States that are too long for an address are kept by the node, and the address names them.
import { json } from "../lib/api.ts";
import { write } from "../lib/url.ts";
import { type State, toQuery } from "./state.ts";

const longest = 1900; // characters of an address's parameters
let last = { text: "", id: "" };

export function params(s: State): Record<string, string | string[]> {
  const out: Record<string, string | string[]> = {};
  for (const [k, v] of Object.entries(toQuery(s))) if (v !== undefined && v.length) out[k] = v;
  return out;
}

export function queryText(p: Record<string, string | string[]>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(p)) for (const one of Array.isArray(v) ? v : [v]) q.append(k, one);
  return q.toString().replace(/%3A/gi, ":").replace(/%2C/gi, ",").replace(/%2F/gi, "/");
}

/** The address's parameters for a state: themselves, or the name of a link. */
export async function address(s: State): Promise<string> {
  const p = params(s), text = queryText(p);
  if (text.length <= longest) return text;
  if (last.text !== text) last = { text, id: (await json<{ id: string }>("/links", { body: { state: p } })).id };
  return `s=${encodeURIComponent(last.id)}`;
}

let timer = 0;
/** Puts a link's name into the address when the state is long, once the reader rests. Until then, and when it cannot be kept, the address is long. */
export async function shorten(s: State) {
  clearTimeout(timer);
  const text = queryText(params(s));
  if (text.length <= longest) return;
  timer = window.setTimeout(async () => {
    try {
      const short = await address(s);
      const now = new URLSearchParams(location.search), gone = Object.fromEntries([...now.keys()].filter((k) => k in toQuery(s)).map((k) => [k, undefined]));
      write({ ...gone, s: short.slice(2) }, "replace");
    } catch { /* the long address works, too */ }
  }, 500);
}
