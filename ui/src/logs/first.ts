// No stream has data yet: how to send the first record, and a look every 3 s whether it has come.
import { json } from "../lib/api.ts";
import { boot, may, orgPath } from "../lib/boot.ts";
import { button, h } from "../lib/dom.ts";
import { copy } from "../lib/layers.ts";
import { empty } from "../lib/states.ts";

export function first(box: HTMLElement, signal: AbortSignal, found: (stream: string) => void) {
  const text = `curl -sS ${location.origin}${boot.base}/api/v1/intake/json/app \\\n  -H "Authorization: Bearer $MS_TOKEN" \\\n  -H "Content-Type: application/json" \\\n  -d '[{"level":"info","service":"demo","message":"hello"}]'`;
  const wait = h("p", { class: "muted row wait" }, h("span", { class: "dot" }), "Waiting for the first record");
  const code = h("div", { class: "code" }, h("div", { class: "ch" }, h("strong", null, "curl"), button({ text: "Copy", icon: "copy", cls: "ghost sm ml", on: () => void copy(text) })), h("pre", { tabindex: "0", role: "region", "aria-label": "Command" }, text));
  box.append(empty({ title: "Send the first record", icon: "plug", text: "Paste this in a terminal. The page goes on by itself when the record arrives.", extra: h("div", { class: "firstbox" }, code, wait), actions: may("editor") ? [{ text: "Other senders and tokens", icon: "send", on: () => { location.href = orgPath("send"); } }] : [] }));
  const look = async () => {
    if (signal.aborted || !box.isConnected) return;
    try {
      const { streams } = await json<{ streams: { name: string }[] }>("/streams?signal=logs", { signal });
      if (streams[0] && !signal.aborted) { found(streams[0].name); return; }
      wait.lastChild!.textContent = "Waiting for the first record";
    } catch { wait.lastChild!.textContent = "The node cannot be asked now; trying on"; }
    setTimeout(() => void look(), 3000);
  };
  setTimeout(() => void look(), 3000);
}
