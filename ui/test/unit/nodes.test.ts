import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClusterNode } from "../../src/nodes/model.ts";

// The modules look at the document when they are loaded.
(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [] };
const { Cluster, mainRate, placeOf } = await import("../../src/nodes/model.ts");

const node = (id: string, roles: string[], o: Partial<ClusterNode> = {}): ClusterNode => ({ id, self: false, roles, state: "up", version: "1", address: "", weight: 2, heartbeat_age_seconds: 1, since: "", incarnation: 1, ...o });

test("an age counts up between events, but makes no node late that is in time", () => {
  const c = new Cluster();
  c.take([node("a", ["intake"], { heartbeat_age_seconds: 4 }), node("b", ["intake"], { heartbeat_age_seconds: 9 }), node("c", ["intake"], { heartbeat_age_seconds: 6 })], 1000);
  const [a, b, n] = c.nodes as [ClusterNode, ClusterNode, ClusterNode];
  assert.deepEqual([c.age(a, 1500), c.age(a, 6000), c.age(b, 6000), c.age(n, 6000), c.age(a, 0)], [4.5, 5, 14, 6, 4]);
  assert.deepEqual([c.state(a), c.state(b), c.state(n)], ["up", "late", "up"]);
});

test("a node stands with those of its first role; without it, roles that nobody else has are lost", () => {
  const c = new Cluster();
  c.take([node("a", ["querier", "router"]), node("b", ["intake"]), node("c", ["intake"], { state: "silent" }), node("s", ["standalone"], { state: "draining" })]);
  assert.deepEqual(c.nodes.map(placeOf), ["router", "intake", "intake", "standalone"]);
  assert.deepEqual(c.nodes.map((n) => c.alone(n)), [["router", "querier"], ["intake"], [], ["compactor", "alert"]]);
});

test("what a node gets is what others say they send", () => {
  const c = new Cluster(), t = (to: string, q: number) => ({ to, writes_per_second: 0, queries_per_second: q, bytes_per_second: 1 });
  const load = { cpu: 0, memory_bytes: 0, unflushed_bytes: 0, queries_running: 2 };
  c.take([node("r1", ["router"], { traffic: [t("q", 2), t("r1", 9)] }), node("r2", ["router"], { traffic: [t("q", 3)] }), node("q", ["querier"], { load }), node("w", ["querier"], { load }), node("x", ["querier"])]);
  assert.equal(c.asked("q"), 5);
  assert.equal(c.asked("r1"), 0);
  assert.deepEqual(["q", "w", "x"].map((id) => mainRate(c, c.node(id)!)), ["5 queries/s", "2 running", "does not answer"]);
});
