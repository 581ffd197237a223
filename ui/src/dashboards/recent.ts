// Which dashboards were opened last, in this browser.
import { boot } from "../lib/boot.ts";

const key = () => `ms.dashboards.${boot.org}`;

export function recent(): string[] {
  try { const v: unknown = JSON.parse(localStorage.getItem(key()) ?? "[]"); return Array.isArray(v) ? v.filter((x): x is string => typeof x === "string") : []; } catch { return []; }
}

export function remember(id: string) {
  try { localStorage.setItem(key(), JSON.stringify([id, ...recent().filter((x) => x !== id)].slice(0, 30))); } catch { /* storage is full or off: nothing depends on it */ }
}
