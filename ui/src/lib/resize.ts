// The border between two panes: drawn by pointer, by keys (role=separator), remembered by this browser.
import { h } from "./dom.ts";

export interface Splitter { min: number; max: number; key: string; label: string; edge?: "left" | "right" | "top" | "bottom"; size?: number; on?: (size: number) => void }

const kept = (key: string) => { try { return Number(localStorage.getItem(`ms.size.${key}`)) || undefined; } catch { return undefined; } };

/**
 * Makes the separator of a pane; the caller puts it beside the pane. edge is the pane's edge that moves (default: right). The size is the pane's custom property --size,
 * in pixels; the style sheet says what it means and what holds without one. Double click or Enter goes back to that.
 */
export function splitter(pane: HTMLElement, o: Splitter): HTMLElement {
  const edge = o.edge ?? "right", across = edge === "left" || edge === "right";
  const sign = edge === "right" || edge === "bottom" ? 1 : -1;
  const measure = () => { const r = pane.getBoundingClientRect(); return across ? r.width : r.height; };
  const bar = h("div", { class: `splitter ${across ? "v" : "h"}`, role: "separator", tabindex: "0", "aria-label": o.label, "aria-orientation": across ? "vertical" : "horizontal", "aria-valuemin": o.min, "aria-valuemax": o.max });
  const tell = (size: number) => bar.setAttribute("aria-valuenow", String(Math.round(Math.max(o.min, Math.min(o.max, size)))));
  const set = (size: number, keep = true) => {
    const px = Math.round(Math.max(o.min, Math.min(o.max, size)));
    pane.style.setProperty("--size", `${px}px`);
    tell(px);
    if (keep) try { localStorage.setItem(`ms.size.${o.key}`, String(px)); } catch { /* a private window: for this page only */ }
    o.on?.(px);
  };
  const reset = () => {
    pane.style.removeProperty("--size");
    try { localStorage.removeItem(`ms.size.${o.key}`); } catch { /* nothing was kept */ }
    tell(measure());
    o.on?.(measure());
  };
  const before = kept(o.key);
  if (before) set(before, false);
  else tell(o.size ?? o.min);
  bar.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) return;
    e.preventDefault();
    bar.setPointerCapture(e.pointerId);
    const start = measure(), from = across ? e.clientX : e.clientY;
    const move = (m: PointerEvent) => set(start + sign * ((across ? m.clientX : m.clientY) - from), false);
    const end = () => {
      bar.removeEventListener("pointermove", move);
      bar.classList.remove("on");
      if (measure() !== start) set(measure());
    };
    bar.classList.add("on");
    bar.addEventListener("pointermove", move);
    bar.addEventListener("lostpointercapture", end, { once: true });
  });
  bar.addEventListener("dblclick", reset);
  bar.addEventListener("keydown", (e) => {
    const step = e.shiftKey ? 64 : 16;
    const by = across ? { ArrowRight: step, ArrowLeft: -step }[e.key] : { ArrowDown: step, ArrowUp: -step }[e.key];
    if (by !== undefined) set(measure() + sign * by);
    else if (e.key === "Home") set(o.min);
    else if (e.key === "End") set(o.max);
    else if (e.key === "Enter") reset();
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
  return bar;
}
