import assert from "node:assert/strict";
import { test } from "node:test";
import type { Columns } from "../../src/traces/model.ts";

// The modules look at the document when they are loaded.
Object.assign(globalThis, { document: { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [] }, addEventListener: () => {} });
if (!("navigator" in globalThis)) Object.assign(globalThis, { navigator: { platform: "" } });

/** A trace of one service; each span is its parent's place, its name, its start and its duration. */
function columns(list: [parent: number, name: string, start: number, duration: number, status?: string][]): Columns {
  const names = [...new Set(list.map((x) => x[1]))], statuses = ["ok", "error"], depth: number[] = [];
  list.forEach(([p], i) => { depth[i] = p < 0 ? 0 : depth[p]! + 1; });
  return {
    trace_id: "ab", start: "2026-03-02T10:00:00Z", duration_ns: Math.max(...list.map((x) => x[2] + x[3])), services: ["web"], names, kinds: [""], statuses,
    spans: { id: list.map((_, i) => `s${i}`), parent: list.map((x) => x[0]), start: list.map((x) => x[2]), duration: list.map((x) => x[3]), self: list.map((x) => x[3]), depth, children: list.map((_, i) => list.filter((x) => x[0] === i).length), service: list.map(() => 0), name: list.map((x) => names.indexOf(x[1])), kind: list.map(() => 0), status: list.map((x) => statuses.indexOf(x[4] ?? "ok")) },
    missing_parent: [], critical_path: [],
  };
}

test("lines: folding, repeated siblings, hiding what does not pass", async () => {
  const { Trace, matches, noFilter } = await import("../../src/traces/model.ts");
  const { rowsOf, uncover } = await import("../../src/traces/rows.ts");
  const t = new Trace(columns([[-1, "GET", 0, 100], [0, "load", 1, 10], [1, "read", 2, 5], ...Array.from({ length: 30 }, (_, i): [number, string, number, number, string?] => [0, "insert", 20 + i, 1, i === 7 ? "error" : "ok"])]));
  const view = { folded: new Set<number>(), opened: new Set<string>(), hide: false };
  const said = () => rowsOf(t, view).map((r) => `${"  ".repeat(r.level)}${t.name(r.span)}${r.group ? ` x${r.group.members.length}` : ""}`);
  assert.deepEqual(said(), ["GET", "  load", "    read", "  insert x30"]);
  view.folded.add(1);
  assert.deepEqual(said(), ["GET", "  load", "  insert x30"]);
  uncover(t, view, 2);
  assert.deepEqual(said().slice(0, 3), ["GET", "  load", "    read"]);
  uncover(t, view, 10);
  assert.equal(said().length, 4 + 30);
  const match = matches(t, { ...noFilter, errors: true });
  assert.deepEqual(rowsOf(t, { ...view, opened: new Set(), match, hide: true }).map((r) => t.name(r.span)), ["GET", "insert"]);
});

test("a trace as deep as it has spans", async () => {
  const { Trace } = await import("../../src/traces/model.ts");
  const { rowsOf } = await import("../../src/traces/rows.ts");
  const n = 100_000, c = columns([[-1, "a", 0, 1]]), s = c.spans;
  for (let i = 1; i < n; i++) { s.id.push(`s${i}`); s.parent.push(i - 1); s.start.push(0); s.duration.push(1); s.self.push(0); s.depth.push(i); s.children[i - 1] = 1; s.children.push(0); s.service.push(0); s.name.push(0); s.kind.push(0); s.status.push(0); }
  const t = new Trace(c);
  assert.equal(t.depth, n);
  assert.equal(rowsOf(t, { folded: new Set(), opened: new Set(), hide: false }).length, n);
});

test("clock skew: a child that begins before its parent is moved into it with all below it, and back", async () => {
  const { Trace } = await import("../../src/traces/model.ts");
  const t = new Trace(columns([[-1, "a", 50, 100], [0, "b", 0, 40], [1, "c", 10, 10]]));
  assert.equal(t.skews, 1);
  t.correct(true);
  assert.deepEqual([...t.start], [50, 80, 90]);
  t.correct(false);
  assert.deepEqual([...t.start], [50, 0, 10]);
});

test("durations as they are typed", async () => {
  const { parseDuration } = await import("../../src/traces/model.ts");
  const { nanoseconds, durationText } = await import("../../src/traces/search.ts");
  assert.deepEqual(["", "20ms", "1.5s", "5%", "7"].map((x) => parseDuration(x, 1000)), [0, 20e6, 1.5e9, 50, 7e6]);
  assert.ok(Number.isNaN(parseDuration("soon", 1)));
  assert.deepEqual(["", ">500ms", "1m30s", "250us"].map(nanoseconds), [0, 500e6, 90e9, 250e3]);
  assert.ok(Number.isNaN(nanoseconds("12 parsecs")));
  for (const ns of [0, 750, 1500, 2.5e6, 9e9]) assert.equal(nanoseconds(durationText(ns)), ns);
});

test("the map: callers stand left of those they call, nothing overlaps, circles end", async () => {
  const { layOut, size, within } = await import("../../src/traces/graph.ts");
  const edge = (from: string, to: string) => ({ from, to });
  const edges = [edge("web", "api"), edge("api", "db"), edge("web", "db"), edge("api", "auth"), edge("auth", "api"), edge("db", "db"), edge("cron", "mail")];
  const l = layOut(["web", "api", "db", "auth", "cron", "mail", "alone"], edges);
  const at = (n: string) => l.nodes.get(n)!;
  assert.ok(at("web").x < at("api").x && at("api").x < at("db").x && at("api").x < at("auth").x);
  const all = [...l.nodes.values()];
  for (const a of all) for (const b of all) if (a !== b) assert.ok(a.x + size.width <= b.x || b.x + size.width <= a.x || a.y + size.height <= b.y || b.y + size.height <= a.y, `${a.name} over ${b.name}`);
  for (const n of all) assert.ok(n.x >= 0 && n.y >= 0 && n.x + size.width <= l.width && n.y + size.height <= l.height, n.name);
  assert.deepEqual([...within("auth", 1, edges)].sort(), ["api", "auth"]);
  assert.deepEqual([...within("auth", 2, edges)].sort(), ["api", "auth", "db", "web"]);
  const many = Array.from({ length: 150 }, (_, i) => `s${i}`), calls = many.flatMap((n, i) => [1, 7, 31].map((k) => edge(n, many[(i * k + k) % 150]!)));
  const began = process.cpuUsage().user; // µs
  assert.equal(layOut(many, calls).nodes.size, 150);
  const ms = (process.cpuUsage().user - began) / 1000;
  assert.ok(ms < 1000, `${ms} ms`);
});
