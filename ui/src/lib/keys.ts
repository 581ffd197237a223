// Keys of the page. Single letters act only outside text fields, and not at all when the reader has switched them off.
import { boot } from "./boot.ts";
import { mac } from "./dom.ts";

export interface Key { key: string; label: string; group: string; run: (e: KeyboardEvent) => void; hidden?: boolean }

const keys: Key[] = [];
let prefix = ""; // the first key of a sequence such as "g l"
let prefixTimer = 0;

/** Registers keys; "mod+k" is ⌘K or Ctrl K, "g l" is G then L, "shift+j". Returns how to remove them. */
export function bind(list: Key[]): () => void {
  keys.push(...list);
  return () => { for (const k of list) keys.splice(keys.indexOf(k), 1); };
}

export const bound = (): readonly Key[] => keys;

export const typing = (t: EventTarget | null) => {
  const path = t instanceof Element && t.shadowRoot?.activeElement ? t.shadowRoot.activeElement : t;
  return path instanceof HTMLElement && (path.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(path.tagName) && !/^(checkbox|radio|button|submit|range)$/.test((path as HTMLInputElement).type));
};

function name(e: KeyboardEvent): string {
  const k = e.key.length === 1 ? e.key.toLowerCase() : e.key;
  const shifted = e.shiftKey && (e.key.length > 1 || /[a-z]/i.test(e.key));
  return ((mac ? e.metaKey : e.ctrlKey) ? "mod+" : "") + (e.altKey ? "alt+" : "") + (shifted ? "shift+" : "") + (k === " " ? "Space" : k);
}

// An Escape is for the topmost of what floats above the page, which may be gone by the time it gets here.
let floating = false;
addEventListener("keydown", (e) => { floating = e.key === "Escape" && document.querySelector("dialog[open],.menu,:popover-open") !== null; }, true);

addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.isComposing || /^(Shift|Control|Alt|Meta)$/.test(e.key)) return;
  const n = name(e);
  const single = !n.startsWith("mod+") && !/^(Escape|F\d+)$/.test(n);
  if (single && (typing(e.target) || (boot.prefs.single_keys === false && /^(shift\+)?.$/.test(n)))) return;
  if (floating || (single && document.querySelector("dialog[open]"))) return;
  if (/^(Enter|Space)$/.test(n) && e.target instanceof Element && e.target.closest("button,a[href],summary,select,[role=menu],[role=listbox]")) return; // it is pressed
  const want = prefix ? `${prefix} ${n}` : n;
  const hit = keys.findLast((k) => k.key === want) ?? keys.findLast((k) => k.key === n);
  const longer = hit?.key !== want || !prefix ? keys.some((k) => k.key.startsWith(n + " ")) : false;
  clearTimeout(prefixTimer);
  prefix = "";
  if (hit && !longer) {
    hit.run(e);
    return;
  }
  if (!longer) return;
  prefix = n; // a key that also begins sequences waits for the next one
  if (hit) e.preventDefault();
  prefixTimer = window.setTimeout(() => { prefix = ""; hit?.run(e); }, hit ? 400 : 1200);
});

/** A key as it is printed on this machine's keyboard. */
export const printed = (key: string) => key.split(" ").map((k) => k.split(/\+(?=.)/).map((p) => ({ mod: mac ? "⌘" : "Ctrl", shift: mac ? "⇧" : "Shift", alt: mac ? "⌥" : "Alt", Enter: "↵", Escape: "Esc", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" })[p] ?? p.toUpperCase()).join(mac ? "" : " ")).join(" then ");
