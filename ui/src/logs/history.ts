// The last 200 runs of the reader, kept by this browser.
import { boot } from "../lib/boot.ts";
import type { Params } from "../lib/url.ts";
import { params as paramsOf, type State } from "./state.ts";

export interface Ran { t: number; params: Params; ms: number; rows: number; bytes: number; state: string }

const most = 200;
const key = () => `ms.logs.history.${boot.user.id}.${boot.org}`;

export function history(): Ran[] {
  try { return JSON.parse(localStorage.getItem(key()) ?? "[]") as Ran[]; } catch { return []; }
}

export function addHistory(s: State, r: Omit<Ran, "t" | "params">) {
  const params = paramsOf({ ...s, sel: "", refresh: "" });
  const text = JSON.stringify(params);
  if (text.length > 20_000) return;
  keep([{ t: Date.now(), params, ...r }, ...history().filter((x) => JSON.stringify(x.params) !== text)]);
}

export function keep(list: Ran[]) {
  for (let n = most; n > 0; n = Math.floor(n / 2)) {
    try { localStorage.setItem(key(), JSON.stringify(list.slice(0, n))); return; } catch { /* too large: fewer of them */ }
  }
}
