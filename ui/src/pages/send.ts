// Send data: looks for a record that was not there when the page was opened, and shows it.
import "./basic.ts";
import { json } from "../lib/api.ts";
import { orgPath } from "../lib/boot.ts";
import { $, h, visible } from "../lib/dom.ts";
import { ago } from "../lib/format.ts";
import { told } from "../lib/states.ts";

const box = $("#waiting"), out = $("#received");
const every = 2000; // ms between looks

type Found = { key: string; at?: number; text: string; link: string } | undefined;

// Each look asks for the newest of a kind within the last hour.
async function logs(stream: string): Promise<Found> {
  const { streams } = await json<{ streams: { name: string }[] }>("/streams?signal=logs");
  if (!streams.some((s) => s.name === stream)) return;
  const name = `"${stream.replaceAll('"', '""')}"`;
  const r = await json<{ columns: { name: string }[]; rows: unknown[][] }>("/query", { body: { language: "sql", statement: `SELECT * FROM ${name} ORDER BY _timestamp DESC LIMIT 1`, time_range: { start: "now-1h", end: "now+1h" } } });
  const row = r.rows[0];
  if (!row) return;
  const record = Object.fromEntries(r.columns.map((c, i) => [c.name, row[i]] as const).filter(([, v]) => v !== null));
  const text = JSON.stringify(record, null, 1);
  return { key: text, at: Date.parse(String(record._timestamp)), text, link: orgPath("logs") + "?stream=" + encodeURIComponent(stream) };
}

async function traces(): Promise<Found> {
  const r = await json<{ traces: Record<string, unknown>[] }>("/query/traces?start=now-1h&end=now&limit=1");
  const t = r.traces[0];
  return t && { key: JSON.stringify(t), text: JSON.stringify(t, null, 1), link: orgPath("traces") };
}

async function metrics(): Promise<Found> {
  const start = Math.floor(Date.now() / 1000) - 300;
  const r = await json<{ data: string[] }>(`/query/prometheus/api/v1/label/__name__/values?start=${start}&limit=20000`);
  const names = r.data.filter((n) => !/^(millstream|go|process|promhttp|work_(overlap|ownership))_/.test(n));
  if (names.length === 0) return;
  return { key: String(names.length), text: names.slice(0, 20).join("\n") + (names.length > 20 ? "\n…" : ""), link: orgPath("metrics") };
}

if (box && out) {
  const signal = box.dataset.signal!, stream = box.dataset.stream!;
  const look = () => (signal === "metrics" ? metrics() : signal === "traces" ? traces() : logs(box.dataset.sender === "alloy" || box.dataset.sender === "loki" ? "default" : stream));
  let before: string | undefined | null = null; // null: not looked yet
  const show = (ok: boolean, text: string, ...more: (Node | false)[]) => out.replaceChildren(h("p", { class: `wait ${ok ? "ok" : ""}`.trim() }, h("span", { class: "dot" }), text), ...more.filter((m): m is Node => m !== false));
  let waiting = false; // is said already
  const step = async () => {
    try {
      const found = await look();
      if (before !== null && found && found.key !== before) {
        show(true, "It has arrived.", h("pre", { class: "firstrec", tabindex: "0", "aria-label": "The record" }, visible(found.text.slice(0, 20_000))), h("p", null, h("a", { class: "btn primary", href: found.link }, "Explore it")));
        return;
      }
      if (before === null) before = found?.key;
      if (!waiting) show(false, found?.at ? `Waiting for a new record. The newest so far is from ${ago(found.at)}.` : found ? "Waiting for something new: there are some already." : "Waiting for the first record…");
      waiting = true;
    } catch (e) { // what is there is not known, so nothing that comes later can be told to be new
      show(false, `It is not known whether a record has come; it is tried again. ${told(e)}`);
      waiting = false;
    }
    setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", () => void step(), { once: true }) : void step()), every);
  };
  show(false, "Looking…");
  void step();
}
