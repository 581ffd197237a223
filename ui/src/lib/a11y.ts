// What screen readers are told: one polite live region, at most one message a second.
let region: HTMLElement | undefined;
let next = "";
let busy = false;

export function announce(text: string) {
  next = text;
  if (busy) return;
  busy = true;
  region ??= document.getElementById("live") ?? undefined;
  if (region) region.textContent = next;
  next = "";
  setTimeout(() => { busy = false; if (next) announce(next); }, 1000);
}
