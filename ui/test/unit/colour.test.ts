import assert from "node:assert/strict";
import { test } from "node:test";
import { dashOf, seriesColour, seriesColours } from "../../src/lib/colour.ts";

test("a name has the same colour on every page", () => {
  assert.deepEqual(seriesColour("checkout-api"), seriesColour("checkout-api"));
  assert.deepEqual(seriesColours(["checkout-api"]).get("checkout-api"), seriesColour("checkout-api"));
  const used = new Set(Array.from({ length: 200 }, (_, i) => seriesColour(`service-${i}`).token));
  assert.equal(used.size, 8);
});

test("names that are shown together have different colours, whatever their order", () => {
  const names = Array.from({ length: 20 }, (_, i) => `pod-${i}`);
  const a = seriesColours(names), b = seriesColours([...names].reverse());
  assert.deepEqual([...a].sort(), [...b].sort());
  const looks = [...a.values()].map((c) => c.token + c.dash);
  assert.equal(new Set(looks).size, 20);
  assert.deepEqual(new Set([...a.values()].map((c) => c.dash)), new Set([0, 1, 2]));
  assert.deepEqual(dashOf(0), []);
  assert.ok(dashOf(99).length > 0);
});
