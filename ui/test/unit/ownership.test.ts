import assert from "node:assert/strict";
import { test } from "node:test";
import { Colours, deviation, isEmpty, offset, planBody, planOf, planState, signed, vcpu, warmth, type Owner } from "../../src/ownership/model.ts";

const owner = (o: Partial<Owner>): Owner => ({ id: "a", placement_id: "v", state: "up", weight: 16, expected: 0.4, actual: 0.4, segments: 0, bytes: 0, ...o });

test("a plan survives the address, whatever the ids", () => {
  const p = { add: [["a:b", 0.5], ["ü&=", 16]] as [string, number][], remove: ["c:1"], reweigh: [["d", 32]] as [string, number][] };
  const q = new URLSearchParams();
  for (const [k, list] of Object.entries(planState(p))) for (const v of list) q.append(k, v);
  assert.deepEqual(planOf(new URLSearchParams(q.toString())), p);
  assert.deepEqual(planBody(p), { add: [{ id: "a:b", weight: 0.5 }, { id: "ü&=", weight: 16 }], remove: ["c:1"], reweigh: [{ id: "d", weight: 32 }] });
  assert.ok(!isEmpty(p));
  for (const text of ["add=", "add=x", "add=:4", "add=x:0", "add=x:-1", "add=x:Infinity", "weight=x:y", "remove="]) assert.ok(isEmpty(planOf(new URLSearchParams(text))), text);
});

test("figures", () => {
  assert.equal(warmth([owner({})]), undefined);
  assert.equal(warmth([owner({ bytes: 300, warm_percent: 100 }), owner({ bytes: 100, warm_percent: 60 }), owner({ bytes: 999 })]), 90);
  assert.equal(deviation(owner({ actual: 0.5 })).toFixed(2), "0.25");
  assert.equal(deviation(owner({ expected: 0 })), 0);
  assert.equal(signed(-0.0312), "−3.1%");
  assert.equal(signed(0), "0.0%");
  assert.equal(vcpu(16), "16 vCPU");
  assert.equal(vcpu(1.5), "1.5 vCPU");
});

test("deviations are in standard errors", () => {
  assert.equal(offset(50, 100, 0.5), 0);
  assert.equal(offset(60, 100, 0.5), 2);
  assert.equal(offset(0, 0, 0.5), 0);
  assert.equal(offset(7, 7, 1), 0);
});

test("a node that would come has a colour that no other has, and keeps it", () => {
  const c = new Colours();
  c.nodes = ["a", "b", "c"];
  const was = ["a", "b", "c"].map((id) => c.of(id)), fresh = c.of("new");
  assert.equal(new Set([...was, fresh]).size, 4);
  assert.equal(c.of("new"), fresh);
  assert.deepEqual(["a", "b", "c"].map((id) => c.of(id)), was);
});
