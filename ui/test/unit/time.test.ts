import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

// The modules look at the document when they are loaded.
(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [] };

interface Vector { text: string; zone: string; now: string; start?: string; end?: string; from?: string; to?: string; position?: number }
const vectors: Vector[] = JSON.parse(readFileSync(join(process.cwd(), "testdata/time_vectors.json"), "utf8"));
const moment = (s: string) => (s === "" ? 0 : Date.parse(s));

test("ranges are read as the server reads them", async () => {
  const { parseRange, resolve, isFault } = await import("../../src/lib/time.ts");
  for (const v of vectors) {
    const what = `${JSON.stringify(v.text)} in ${v.zone} at ${v.now}`;
    const o = { now: Date.parse(v.now), zone: v.zone, week: "monday" as const };
    const got = parseRange(v.text, o);
    if (v.position !== undefined) {
      assert.ok(isFault(got), `${what} was read as ${JSON.stringify(got)}`);
      assert.equal(got.position, v.position, `${what}: ${got.error}`);
      continue;
    }
    assert.ok(!isFault(got), `${what}: ${JSON.stringify(got)}`);
    assert.deepEqual(got, { from: v.from, to: v.to }, what);
    assert.deepEqual(resolve(got, o), { start: moment(v.start!), end: moment(v.end!) }, what);
  }
});

test("weeks begin on Sunday for readers who say so", async () => {
  const { resolve } = await import("../../src/lib/time.ts");
  const o = { now: Date.parse("2026-11-30T13:14:15Z"), zone: "UTC", week: "sunday" as const };
  assert.deepEqual(resolve({ from: "now/w", to: "now/w" }, o), { start: Date.parse("2026-11-29T00:00:00Z"), end: Date.parse("2026-12-06T00:00:00Z") });
});

test("labels and printed times", async () => {
  const t = await import("../../src/lib/time.ts");
  const o = { now: Date.parse("2026-11-30T13:14:15Z"), zone: "UTC" };
  for (const [from, to, want] of [
    ["now-15m", "now", "Last 15 minutes"], ["now-1h", "now", "Last hour"], ["now-1h-30m", "now", "Last 1 hour 30 minutes"], ["now/d", "now/d", "Today"], ["all", "now", "All time"],
    ["2026-11-30T08:00:00Z", "2026-11-30T09:00:00Z", "08:00 to 09:00"], ["2026-11-29T08:00:00Z", "2026-11-29T09:00:30Z", "2026-11-29 08:00:00 to 09:00:30"],
    ["2026-11-29T08:00:00Z", "2026-11-30T09:00:00Z", "2026-11-29 08:00 to 2026-11-30 09:00"], ["2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z", "2026-11-28 to 2026-11-29"],
    ["2026-11-29T08:00:00Z", "now", "2026-11-29 08:00 to now"],
  ] as const) assert.equal(t.relativeLabel({ from, to }, o), want);
  const at = "2026-09-14T08:27:12.611123456Z";
  assert.equal(t.formatTime(at, { zone: "UTC" }), "2026-09-14 08:27:12");
  assert.equal(t.formatTime(at, { zone: "Europe/Berlin", date: false, ms: true }), "10:27:12.611");
  assert.equal(t.formatTime(at, { zone: "UTC", ns: true }), "2026-09-14 08:27:12.611123456");
  assert.equal(t.formatTime("2026-09-14T08:27:12Z", { zone: "UTC", ns: true, date: false }), "08:27:12.000000000");
  assert.equal(t.zoneLabel("Asia/Kolkata", o.now), "Asia/Kolkata (UTC+05:30)");
  assert.equal(t.formatTime(Date.parse("2026-03-29T00:59:59Z"), { zone: "Europe/Berlin" }), "2026-03-29 01:59:59");
  assert.equal(t.formatTime(Date.parse("2026-03-29T01:00:00Z"), { zone: "Europe/Berlin" }), "2026-03-29 03:00:00");
});

test("times in pasted text", async () => {
  const { findTimes } = await import("../../src/lib/time.ts");
  const o = { now: Date.parse("2026-11-30T13:14:15Z"), zone: "UTC" };
  assert.deepEqual(findTimes("2026-09-14T08:27:12.611Z ERROR checkout failed id=42", o), { from: "2026-09-14T08:22:12.611Z", to: "2026-09-14T08:32:12.611Z" });
  assert.deepEqual(findTimes("between 2026-09-14 08:00:00,500 and 1796040000", o), { from: "2026-09-14T08:00:00.500Z", to: "2026-11-30T12:00:00Z" });
  assert.equal(findTimes("order 81442 of 192.168.0.1 at noon", o), undefined);
});

test("axis marks are at round times of the zone, also on the days when clocks change", async () => {
  const { timeTicks } = await import("../../src/lib/time.ts");
  const span = (a: string, b: string) => ({ start: Date.parse(a), end: Date.parse(b) });
  const texts = (a: string, b: string, n: number, zone: string) => timeTicks(span(a, b), n, { zone, now: 0 }).map((x) => x.text);
  assert.deepEqual(texts("2026-09-14T08:16:20Z", "2026-09-14T08:31:20Z", 5, "UTC"), ["08:20", "08:25", "08:30"]);
  assert.deepEqual(texts("2026-03-28T23:00:00Z", "2026-03-29T10:00:00Z", 4, "Europe/Berlin"), ["03-29", "04:00", "07:00", "10:00"]);
  assert.deepEqual(texts("2026-10-24T21:00:00Z", "2026-10-25T08:00:00Z", 4, "Europe/Berlin").at(1), "02:00");
  assert.deepEqual(texts("2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", 6, "UTC"), ["2026-01", "2026-04", "2026-07", "2026-10"]);
  for (const most of [2, 5, 10, 20]) for (const hours of [0.001, 0.3, 5, 77, 1000, 90_000]) assert.ok(timeTicks({ start: 1e12, end: 1e12 + hours * 36e5 }, most, { zone: "UTC" }).length <= most + 1);
});
