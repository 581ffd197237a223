// A small form below a button: Escape and a click elsewhere close it, and the focus goes back.
import { h } from "../lib/dom.ts";
import { place } from "../lib/layers.ts";

export function pop(anchor: HTMLElement, label: string, content: (close: () => void) => Node[]): void {
  const el = h("div", { class: "pop", popover: "auto", role: "dialog", "aria-label": label });
  const close = () => { el.hidePopover(); };
  el.append(...content(close));
  document.body.append(el);
  el.addEventListener("toggle", (e) => {
    if ((e as ToggleEvent).newState !== "closed") return;
    const inside = el.contains(document.activeElement) || document.activeElement === document.body;
    el.remove();
    anchor.setAttribute("aria-expanded", "false");
    if (inside) anchor.focus();
  });
  el.showPopover();
  anchor.setAttribute("aria-expanded", "true");
  place(el, anchor);
  el.querySelector<HTMLElement>("[autofocus],input,select,button")?.focus();
}
