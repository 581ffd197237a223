import assert from "node:assert/strict";
import { test } from "node:test";

// The modules look at the document when they are loaded.
Object.assign(globalThis, { document: { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [], dispatchEvent: () => true }, location: { search: "", href: "http://localhost/" }, navigator: { platform: "" }, addEventListener: () => {} });

const begin = Date.parse("2026-09-14T08:00:00Z");
const buckets = (counts: number[]) => ({ starts: counts.map((_, i) => begin + i * 1000), width: 1000, series: [{ name: "info", level: "info" as const, counts, total: counts.reduce((a, b) => a + b) }], total: counts.reduce((a, b) => a + b) });

test("records that arrive are counted in their buckets and levels", async () => {
  const { countOn } = await import("../../src/logs/counts.ts");
  const was = buckets([1, 0, 2]), now = begin + 2900;
  assert.equal(countOn(was, [], now), was, "nothing changed");
  const d = countOn(was, [{ t: begin + 1500, name: "info", level: "info" }, { t: begin + 2100, name: "error", level: "error" }, { t: begin - 1, name: "info", level: "info" }, { t: NaN, name: "info", level: "info" }], now);
  assert.deepEqual(d.series.map((s) => [s.name, s.counts, s.total]), [["info", [1, 1, 2], 4], ["error", [0, 0, 1], 1]]);
  assert.equal(d.total, 5);
  assert.deepEqual(was.series[0]!.counts, [1, 0, 2], "what was shown is not touched");
});

test("the buckets move on with the clock, also over more than all of them; a record of the near future is in", async () => {
  const { countOn } = await import("../../src/logs/counts.ts");
  const two = countOn(buckets([1, 0, 2]), [], begin + 4200);
  assert.deepEqual([two.starts, two.series[0]!.counts, two.total], [[begin + 2000, begin + 3000, begin + 4000], [2, 0, 0], 2]);
  const far = countOn(buckets([1, 0, 2]), [{ t: begin + 3_600_000, name: "info", level: "info" }], begin + 3_600_100);
  assert.deepEqual([far.starts.at(-1), far.series[0]!.counts], [begin + 3_600_000, [0, 0, 1]]);
  assert.deepEqual(countOn(buckets([1, 0, 2]), [{ t: begin + 3100, name: "info", level: "info" }], begin + 2900).series[0]!.counts, [0, 2, 1]);
  assert.equal(countOn(buckets([1, 0, 2]), [{ t: begin + 1e9, name: "info", level: "info" }], begin + 2900).total, 3, "one of the far future moves nothing");
});

test("records without a level join those that have none; an empty stream begins with empty buckets", async () => {
  const { blank, countOn, seriesName, toData } = await import("../../src/logs/counts.ts");
  const d = toData({ interval: "1s", buckets: ["2026-09-14T08:00:00.000000000Z", "2026-09-14T08:00:01.000000000Z"], series: [{ value: null, total: 3, counts: [1, 2] }], total: 3, partial: false }, 1000);
  assert.deepEqual(d.series.map((s) => s.name), ["records"]);
  const mixed = toData({ interval: "1s", buckets: ["2026-09-14T08:00:00Z"], series: [{ value: "WARN", total: 1, counts: [1] }, { value: "warning", total: 2, counts: [2] }, { value: null, total: 1, counts: [1] }], total: 4, partial: false }, 1000);
  assert.deepEqual(mixed.series.map((s) => [s.name, s.total, s.values]), [["warn", 3, ["WARN", "warning"]], ["no level", 1, undefined]], "a level is filtered for by all values that mean it");
  assert.deepEqual(countOn(d, [{ t: begin, ...seriesName(undefined) }], begin + 1000).series.map((s) => [s.name, s.counts]), [["records", [2, 2]]]);
  const empty = blank({ start: "2026-09-14T08:00:00.5Z", end: "2026-09-14T08:15:00.5Z" });
  assert.equal(empty.starts.length, Math.ceil(900_500 / empty.width));
  assert.equal(countOn(empty, [{ t: begin + 900_000, ...seriesName("WARN") }], begin + 900_500).total, 1);
});

test("times below a histogram are whole seconds, minutes or hours apart", async () => {
  const { niceStep } = await import("../../src/lib/time.ts");
  for (const [width, least, apart] of [[10_000, 9, 120_000], [1000, 12, 15_000], [30_000, 7, 300_000], [60_000, 7, 600_000], [100, 3, 500], [3600_000, 5, 6 * 3600_000]] as const) assert.equal(niceStep(width, least) * width, apart);
});
