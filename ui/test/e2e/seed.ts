// Data for the tests, the same in every run but for the time it is moved to. It goes through the public intake, as any sender's would.
import type { TestNode } from "./node.ts";

/** Pseudo-random numbers in [0, 1), the same for the same seed. */
export function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const pick = <T>(list: readonly T[], r: () => number): T => list[Math.floor(r() * list.length)]!;
const hex = (r: () => number, digits: number) => Array.from({ length: digits }, () => Math.floor(r() * 16).toString(16)).join("");
const iso = (ms: number) => new Date(ms).toISOString();
const nano = (ms: number) => String(BigInt(Math.round(ms * 1000)) * 1000n);

/** A moment to seed at when pictures are to be compared: pages show it by an absolute range. */
export const fixed = Date.UTC(2026, 2, 2, 10, 0, 0);

/** Texts that try to be something else than text. */
export const hostile = [
  "<script>window.__hit=1</script>", "\"><img src=x onerror=window.__hit=1>", "'\"><svg/onload=window.__hit=1>", "javascript:window.__hit=1", "{{constructor.constructor('window.__hit=1')()}}",
  "\u202eevil\u202c \u2066isolated\u2069", "\u0000null\u0001\u001b[31mred", "a\u0301\u0301\u0301\u0301zalgo", "🦉".repeat(40), "../../etc/passwd", "x".repeat(3000), "'; DROP TABLE logs; --", "%00%0d%0aSet-Cookie:x", "line\nbreak\ttab", " ",
];

export const services = ["checkout-api", "payments", "inventory", "edge-gateway", "notifier"] as const;

const levels: [string, number][] = [["info", 0.64], ["debug", 0.2], ["warn", 0.09], ["error", 0.065], ["fatal", 0.005]];

const messages: Record<string, string[]> = {
  fatal: ["worker stopped: too many consecutive timeouts"],
  error: ["payment authorization failed: timeout after 3000 ms", "dequeue job da261385: upstream timeout contacting payments"],
  warn: ["circuit breaker half-open for payments", "retrying request, attempt 2", "slow query on orders"],
  info: ["POST /v1/checkout", "GET /v1/cart", "order committed", "cache refreshed"],
  debug: ["pool stats in_use=49 idle=0", "cache hit for session", "span exported"],
};

export interface Logs {
  n?: number; // records; 2,000
  stream?: string; // "app"
  at?: number; // ms of the newest; now
  span?: number; // ms that they cover; 15 minutes
  traces?: Trace[]; // records of these go among the others, with their ids
  hostile?: boolean; // one record for each hostile text, in message and in a field's value
  fields?: number; // further fields of the first record, for wide schemas
  seed?: number;
}

/** Log records, oldest first. Returns them as they were sent. */
export async function logs(node: TestNode, o: Logs = {}): Promise<Record<string, unknown>[]> {
  const r = random(o.seed ?? 1), n = o.n ?? 2000, at = o.at ?? Date.now(), span = o.span ?? 15 * 60_000;
  const out: Record<string, unknown>[] = [];
  for (let i = 0; i < n; i++) {
    let p = r(), level = "info";
    for (const [name, share] of levels) { if (p < share) { level = name; break; } p -= share; }
    const service = pick(services, r);
    out.push({
      _timestamp: iso(at - span + ((i + r() * 0.8) / n) * span), level, service, message: pick(messages[level]!, r),
      "http.route": pick(["/v1/checkout", "/v1/cart", "/healthz"], r), "http.status": level === "error" ? pick([500, 502, 504], r) : 200, duration_ms: Math.round(r() * 300), "host.name": `${service}-${1 + Math.floor(r() * 3)}`, region: pick(["eu-west-1", "us-east-1"], r),
    });
  }
  for (const t of o.traces ?? []) {
    for (const s of t.spans.filter((x, i) => i < 3 || x.error)) out.push({ _timestamp: iso(s.start + s.duration / 2), level: s.error ? "error" : "info", service: s.service, message: `${s.error ? "failed" : "handled"} ${s.name}`, trace_id: t.id, span_id: s.id, "host.name": `${s.service}-1` });
  }
  if (o.hostile) for (const [i, text] of hostile.entries()) out.push({ _timestamp: iso(at - i * 10), level: "error", service: text.slice(0, 200), message: text, [`attr_${i}`]: text });
  if (o.fields) Object.assign(out[0]!, Object.fromEntries(Array.from({ length: o.fields }, (_, i) => [`wide.f${i}`, i])));
  for (let i = 0; i < out.length; i += 5000) {
    await send(node, `/intake/json/${o.stream ?? "app"}`, out.slice(i, i + 5000).map((x) => JSON.stringify(x)).join("\n"), "application/x-ndjson");
  }
  return out;
}

export interface Span { id: string; parent: string; name: string; service: string; kind: number; start: number; duration: number; error: boolean; attributes: Record<string, unknown>; events?: { at: number; name: string; attributes: Record<string, unknown> }[]; links?: { trace: string; span: string }[] }
export interface Trace { id: string; spans: Span[]; error: boolean }

export interface Traces {
  n?: number; // 60
  stream?: string; // "default"
  at?: number; // ms at which the newest begins; now less a minute
  span?: number; // ms; 15 minutes
  hostile?: boolean; // a trace whose names are hostile texts
  seed?: number;
}

const server = 2, client = 3;

/** Traces of a shop: gateway, checkout, payments and inventory with a database. About one in eight fails. Returned oldest first. */
export async function traces(node: TestNode, o: Traces = {}): Promise<Trace[]> {
  const r = random(o.seed ?? 2), n = o.n ?? 60, at = o.at ?? Date.now() - 60_000, span = o.span ?? 15 * 60_000;
  const all = Array.from({ length: n }, (_, i) => shop(r, at - span + ((i + 1) / n) * span, i % 8 === 5));
  if (o.hostile) all.push(named(r, at));
  await sendSpans(node, all, o.stream);
  return all;
}

function shop(r: () => number, start: number, error: boolean): Trace {
  const spans: Span[] = [];
  const slow = error ? 4 : 1;
  const add = (parent: Span | undefined, service: string, name: string, kind: number, offset: number, duration: number, attributes: Record<string, unknown> = {}): Span => {
    const s: Span = { id: hex(r, 16), parent: parent?.id ?? "", name, service, kind, start: (parent?.start ?? start) + offset, duration, error: false, attributes };
    spans.push(s);
    return s;
  };
  const total = (80 + r() * 240) * slow;
  const root = add(undefined, "edge-gateway", "POST /v1/checkout", server, 0, total, { "http.method": "POST", "http.route": "/v1/checkout", "http.status": error ? 504 : 201 });
  const api = add(root, "checkout-api", "POST /v1/checkout", server, 2, total - 4, { "order.id": Math.floor(r() * 100_000) });
  add(api, "checkout-api", "cart.load", 1, 1, 6 + r() * 8);
  const stock = add(api, "inventory", "inventory.reserve", server, 15, total * 0.3, { "sku.count": 3 });
  for (let i = 0; i < 3; i++) add(stock, "inventory", "SELECT stock", client, 2 + i * total * 0.08, total * 0.06, { "db.system": "postgresql", "db.statement": "SELECT quantity FROM stock WHERE sku = $1 FOR UPDATE" });
  const pay = add(api, "payments", "payments.authorize", server, 15 + total * 0.32, total * 0.5, { provider: "stripe" });
  const call = add(pay, "payments", "stripe POST /charges", client, 3, total * 0.46, { "http.status": error ? 504 : 200, "peer.service": "stripe" });
  if (error) {
    for (const s of [root, api, pay, call]) s.error = true;
    call.events = [{ at: call.start + call.duration - 1, name: "exception", attributes: { "exception.type": "PaymentTimeout", "exception.message": "timeout after 3000 ms" } }];
  } else add(api, "notifier", "queue mail", 4, total * 0.85, 4);
  return { id: hex(r, 32), spans, error };
}

function named(r: () => number, start: number): Trace {
  const spans: Span[] = hostile.map((text, i) => ({ id: hex(r, 16), parent: "", name: text.slice(0, 500), service: text.slice(0, 120), kind: server, start: start + i * 3, duration: 40 - i, error: i % 2 === 0, attributes: { [`k${text.slice(0, 60)}`]: text } }));
  for (const s of spans.slice(1)) s.parent = spans[0]!.id;
  return { id: hex(r, 32), spans, error: true };
}

/** One trace with many spans: batches of repeated siblings below workers, some failing, as an import job would make. */
export async function bigTrace(node: TestNode, n = 100_000, at = Date.now() - 120_000): Promise<Trace> {
  const r = random(3);
  const root: Span = { id: hex(r, 16), parent: "", name: "import catalogue", service: "importer", kind: server, start: at, duration: 60_000, error: false, attributes: {} };
  const spans = [root];
  let worker = root, offset = 0;
  for (let i = 1; i < n; i++) {
    if (i % 200 === 1) {
      offset = (i / n) * 59_000;
      worker = { id: hex(r, 16), parent: root.id, name: `batch ${Math.floor(i / 200)}`, service: pick(services, r), kind: 1, start: at + offset, duration: 118, error: false, attributes: {} };
      spans.push(worker);
      continue;
    }
    const step = (i - 2) % 200;
    spans.push({ id: hex(r, 16), parent: worker.id, name: step % 50 === 49 ? "COMMIT" : "INSERT item", service: "catalogue-db", kind: client, start: worker.start + step * 0.55, duration: 0.2 + r() * 0.3, error: i % 997 === 0, attributes: { row: i } });
  }
  const t = { id: hex(r, 32), spans, error: true };
  await sendSpans(node, [t]);
  return t;
}

const value = (v: unknown) => (typeof v === "number" ? (Number.isInteger(v) ? { intValue: String(v) } : { doubleValue: v }) : typeof v === "boolean" ? { boolValue: v } : { stringValue: String(v) });
const attributes = (a: Record<string, unknown>) => Object.entries(a).map(([key, v]) => ({ key, value: value(v) }));

/** A trace whose sender has clocks that differ and has lost a span: a child that begins before its parent, and one whose parent is not there. */
export async function brokenTrace(node: TestNode, at = Date.now() - 90_000): Promise<Trace> {
  const r = random(5);
  const span = (name: string, service: string, parent: string, start: number, duration: number): Span => ({ id: hex(r, 16), parent, name, service, kind: server, start, duration, error: false, attributes: {} });
  const root = span("GET /report", "edge-gateway", "", at, 300), early = span("render", "reports", root.id, at - 80, 120), inner = span("load", "reports", early.id, at - 60, 40), orphan = span("audit", "auditor", "00000000000000aa", at + 20, 30);
  const t = { id: hex(r, 32), spans: [root, early, inner, orphan], error: false };
  await sendSpans(node, [t]);
  return t;
}

/** Sends spans as OTLP. */
export async function sendSpans(node: TestNode, all: Trace[], stream?: string) {
  const flat = all.flatMap((t) => t.spans.map((s) => ({ t, s })));
  for (let i = 0; i < flat.length; i += 10_000) {
    const byService = new Map<string, unknown[]>();
    for (const { t, s } of flat.slice(i, i + 10_000)) {
      const list = byService.get(s.service) ?? [];
      byService.set(s.service, list);
      list.push({
        traceId: t.id, spanId: s.id, parentSpanId: s.parent, name: s.name, kind: s.kind, startTimeUnixNano: nano(s.start), endTimeUnixNano: nano(s.start + s.duration), attributes: attributes(s.attributes), status: s.error ? { code: 2, message: "it failed" } : { code: 1 },
        ...(s.events ? { events: s.events.map((e) => ({ timeUnixNano: nano(e.at), name: e.name, attributes: attributes(e.attributes) })) } : {}),
        ...(s.links ? { links: s.links.map((l) => ({ traceId: l.trace, spanId: l.span })) } : {}),
      });
    }
    const body = { resourceSpans: [...byService].map(([service, spans]) => ({ resource: { attributes: attributes({ "service.name": service, "host.name": `${service.slice(0, 40)}-1`, "service.version": "4.18.2" }) }, scopeSpans: [{ scope: { name: "shop" }, spans }] })) };
    await send(node, "/intake/otlp/v1/traces", JSON.stringify(body), "application/json", stream ? { "stream-name": stream } : {});
  }
}

export interface Metrics {
  at?: number; // ms of the newest point; now
  span?: number; // ms; one hour
  step?: number; // ms; 15 s
  traces?: Trace[]; // exemplars point at these
  names?: number; // further gauges, for long lists of names
  series?: number; // of the gauge fleet_load, for answers with many series
  hostile?: boolean; // gauges whose names and labels are hostile texts
  native?: boolean; // response_size, an exponential histogram
  seed?: number;
}

const bounds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** Metrics of the shop as OTLP: requests_total by service and code, request_duration_seconds with exemplars, memory_bytes. */
export async function metrics(node: TestNode, o: Metrics = {}) {
  const r = random(o.seed ?? 4), at = o.at ?? Date.now(), span = o.span ?? 3_600_000, step = o.step ?? 15_000;
  const begin = nano(at - span - step), steps = Math.floor(span / step);
  const resourceMetrics: unknown[] = services.map((service, k) => {
    const ok: unknown[] = [], failed: unknown[] = [], took: unknown[] = [], memory: unknown[] = [];
    let good = 0, bad = 0, sum = 0;
    const buckets = bounds.map(() => 0).concat(0);
    for (let i = 0; i <= steps; i++) {
      const t = at - span + i * step, timeUnixNano = nano(t), here = Math.round(20 + 12 * Math.sin(i / 20 + k) + r() * 6), errors = i > steps * 0.7 && service === "payments" ? Math.round(4 + r() * 4) : Number(r() < 0.1);
      good += here; bad += errors;
      for (let j = 0; j < here; j++) { const s = (0.02 + r() * 0.2) * (errors > 2 ? 3 : 1); sum += s; const at = bounds.findIndex((b) => s <= b); buckets[at < 0 ? bounds.length : at]!++; }
      const point = { startTimeUnixNano: begin, timeUnixNano };
      ok.push({ ...point, asInt: String(good), attributes: attributes({ code: "200" }) });
      failed.push({ ...point, asInt: String(bad), attributes: attributes({ code: "500" }) });
      const from = o.traces?.find((x) => Math.abs(x.spans[0]!.start - t) < step / 2);
      took.push({ ...point, count: String(buckets.reduce((a, b) => a + b)), sum, bucketCounts: buckets.map(String), explicitBounds: bounds, ...(from ? { exemplars: [{ timeUnixNano: nano(from.spans[0]!.start), asDouble: from.spans[0]!.duration / 1000, traceId: from.id, spanId: from.spans[0]!.id }] } : {}) });
      memory.push({ timeUnixNano, asDouble: 2e8 + k * 5e7 + 4e7 * Math.sin(i / 33 + k) + r() * 1e6 });
    }
    return { resource: { attributes: attributes({ "service.name": service, "service.instance.id": `${service}-1` }) }, scopeMetrics: [{ scope: { name: "shop" }, metrics: [
      { name: "requests", unit: "1", description: "Requests answered.", sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: [...ok, ...failed] } },
      { name: "request_duration", unit: "s", description: "Time to answer.", histogram: { aggregationTemporality: 2, dataPoints: took } },
      { name: "memory", unit: "By", description: "Memory in use.", gauge: { dataPoints: memory } },
    ] }] };
  });
  const timeUnixNano = nano(at), gauge = (name: string, dataPoints: unknown[]) => ({ name, gauge: { dataPoints } });
  const one = (service: string, list: unknown[]) => ({ resource: { attributes: attributes({ "service.name": service }) }, scopeMetrics: [{ scope: { name: service }, metrics: list }] });
  for (let i = 0; i < (o.names ?? 0); i += 20_000) resourceMetrics.push(one("wide", Array.from({ length: Math.min(20_000, o.names! - i) }, (_, k) => gauge(`wide_metric_${i + k}`, [{ timeUnixNano, asDouble: i + k }]))));
  if (o.series) resourceMetrics.push(one("fleet", [gauge("fleet_load", Array.from({ length: o.series }, (_, i) => [0, 1, 2, 3].map((k) => ({ timeUnixNano: nano(at - k * 60_000), asDouble: 1 + ((i * 7919 + k) % 1000) / 10, attributes: attributes({ host: `host-${i}`, rack: `rack-${i % 40}` }) }))).flat())]));
  if (o.hostile) resourceMetrics.push(one(hostile[0]!, hostile.map((text, i) => gauge(i === 0 ? "hostile" : text.slice(0, 200), [{ timeUnixNano, asDouble: i, attributes: attributes({ text, [text.slice(0, 100)]: "v" }) }]))), one("hostile", [gauge("hostile", hostile.map((text, i) => ({ timeUnixNano, asDouble: i, attributes: attributes({ text }) })))]));
  if (o.native) resourceMetrics.push(one("edge-gateway", [{ name: "response_size", unit: "By", description: "Bytes of a reply.", exponentialHistogram: { aggregationTemporality: 2, dataPoints: exponential(r, at, span, step, begin) } }]));
  for (const x of resourceMetrics) await send(node, "/intake/otlp/v1/metrics", JSON.stringify({ resourceMetrics: [x] }), "application/json");
}

/** Points of an exponential histogram: sizes around 2 kB that grow and shrink. */
function exponential(r: () => number, at: number, span: number, step: number, begin: string) {
  const counts = new Array<number>(24).fill(0);
  let sum = 0;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => {
    for (let j = 0; j < 40; j++) { const k = Math.max(0, Math.min(23, Math.round(11 + 5 * Math.sin(i / 30) + (r() + r() + r() - 1.5) * 4))); counts[k]!++; sum += 2 ** (8 + k / 4); }
    return { startTimeUnixNano: begin, timeUnixNano: nano(at - span + i * step), count: String(counts.reduce((a, b) => a + b)), sum, scale: 2, zeroCount: "0", positive: { offset: 32, bucketCounts: counts.map(String) } };
  });
}

async function send(node: TestNode, path: string, body: string, type: string, headers: Record<string, string> = {}) {
  const res = await node.call("POST", path, body, { "Content-Type": type, ...headers });
  const text = await res.text();
  if (!res.ok) throw new Error(`${path}: ${res.status} ${text.slice(0, 500)}`);
  const reply = text ? JSON.parse(text) : {};
  const rejected = reply.rejected ?? Object.values(reply.partialSuccess ?? {})[0] ?? 0;
  if (Number(rejected) > 0) throw new Error(`${path}: rejected: ${text.slice(0, 500)}`);
}
