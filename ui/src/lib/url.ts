// The URL is the state of a page: reload, back, forward and a pasted link restore the same view.

export type State = Record<string, string | string[] | undefined>;

/** Reads the parameters. Unknown ones are kept by write. */
export const read = () => new URLSearchParams(location.search);

/** Sets parameters; undefined, "" and [] remove one. replace is for what is being typed, push for what the reader did. */
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
