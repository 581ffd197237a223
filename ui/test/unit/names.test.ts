// Names that every object has are ordinary names in data: a sender chooses its levels, fields, labels, metrics and units.
import assert from "node:assert/strict";
import { test } from "node:test";

(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [] };

test("names of Object.prototype are nothing special", async () => {
  const { levelOf } = await import("../../src/lib/level.ts");
  const { formatValue, unitOf } = await import("../../src/lib/units.ts");
  for (const name of ["constructor", "__proto__", "valueOf", "toString", "hasOwnProperty"]) {
    assert.equal(levelOf(name), "", name);
    assert.equal(formatValue(1, name), `1 ${name}`, name);
    assert.equal(unitOf(`app_${name}`), "", name);
    assert.equal(unitOf("app_x", name), name);
  }
  const { parseRange } = await import("../../src/lib/range.ts");
  const r = parseRange("constructor", { now: 0, zone: "UTC" } as any);
  assert.ok("error" in r, JSON.stringify(r));
});
