import assert from "node:assert/strict";
import { test } from "node:test";

// The modules look at the document when they are loaded.
(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [] };

test("figures, sizes and durations", async () => {
  const f = await import("../../src/lib/format.ts");
  for (const [n, want] of [[0, "0"], [999, "999"], [1000, "1k"], [12_900, "12.9k"], [157_574, "158k"], [999_600, "1M"], [3_100_000, "3.1M"], [0.25, "0.25"]] as const) assert.equal(f.short(n), want);
  for (const [n, want] of [[0, "0 B"], [999, "999 B"], [1000, "1.00 kB"], [123_456, "123 kB"], [999_600, "1.00 MB"], [1.9e9, "1.90 GB"]] as const) assert.equal(f.bytes(n), want);
  for (const [n, want] of [[0, "0 ns"], [1500, "1.5 µs"], [412e6, "412 ms"], [2.1e9, "2.1 s"], [84 * 60e9, "1 h 24 min"], [59.96e9, "60 s"]] as const) assert.equal(f.duration(n), want);
  assert.equal(f.percent(0), "0.0%");
  assert.equal(f.percent(0.0001), "<0.1%");
  assert.equal(f.percent(1), "100%");
  assert.equal(f.plural(1, "row"), "1 row");
});
