import assert from "node:assert/strict";
import { test } from "node:test";

(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [], addEventListener: () => {}, createElement: () => ({ setAttribute: () => {}, append: () => {}, addEventListener: () => {} }), documentElement: { dataset: {} } };
(globalThis as any).navigator ??= { platform: "" };
(globalThis as any).addEventListener = () => {};

const p = (id: number, x: number, y: number, w: number, h: number, type = "stat", options?: object) => ({ id, type, grid: { x, y, w, h }, ...(options ? { options } : {}) }) as any;
const at = (list: any[]) => Object.fromEntries(list.map((q) => [q.id, [q.grid.x, q.grid.y, q.grid.w, q.grid.h]]));
const apart = (list: any[]) => list.every((a, i) => list.every((b, k) => i === k || a.grid.x >= b.grid.x + b.grid.w || b.grid.x >= a.grid.x + a.grid.w || a.grid.y >= b.grid.y + b.grid.h || b.grid.y >= a.grid.y + a.grid.h));

test("a panel that is put somewhere pushes others down, and all rise", async () => {
  const { place, rise, shown } = await import("../../src/dashboard/model.ts");
  const two = [p(1, 0, 0, 12, 4), p(2, 12, 0, 12, 4)];
  assert.deepEqual(at(place(two, 1, { x: 12, y: 0, w: 12, h: 4 })), { 1: [12, 0, 12, 4], 2: [12, 4, 12, 4] });
  assert.deepEqual(at(two), { 1: [0, 0, 12, 4], 2: [12, 0, 12, 4] }); // the input stays
  assert.deepEqual(at(rise([p(1, 0, 7, 6, 3), p(2, 0, 20, 6, 3)])), { 1: [0, 0, 6, 3], 2: [0, 3, 6, 3] });
  assert.deepEqual(at(place([p(1, 0, 0, 6, 3)], 1, { x: 99, y: -5, w: 99, h: 0 })), { 1: [0, 0, 24, 1] });
  const rows = [p(1, 0, 0, 24, 1, "row", { collapsed: true }), p(2, 0, 1, 6, 4), p(3, 0, 5, 24, 1, "row"), p(4, 0, 6, 6, 4)];
  assert.deepEqual(at(shown(rows)), { 1: [0, 0, 24, 1], 3: [0, 1, 24, 1], 4: [0, 2, 6, 4] });
  // Whatever is moved where: nothing overlaps, nothing leaves the grid, nothing is lost.
  let seed = 7;
  const random = (n: number) => { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return seed % n; };
  let list = Array.from({ length: 25 }, (_, i) => p(i + 1, random(20), random(30), 1 + random(12), 1 + random(8)));
  for (let i = 0; i < 300; i++) {
    list = place(list, 1 + random(25), { x: random(30) - 3, y: random(40) - 3, w: 1 + random(26), h: 1 + random(9) });
    assert.equal(list.length, 25);
    assert.ok(list.every((q: any) => q.grid.x >= 0 && q.grid.x + q.grid.w <= 24 && q.grid.y >= 0));
    if (i > 30) assert.ok(apart(list), `overlap after ${i} moves`);
  }
});

test("a new panel goes to the first free place", async () => {
  const { add, firstFree, rise } = await import("../../src/dashboard/model.ts");
  const is = (list: any[], w: number, h: number, want: number[]) => { const g = firstFree(list, { w, h }); assert.deepEqual([g.x, g.y, g.w, g.h], want); };
  is([], 12, 8, [0, 0, 12, 8]);
  is([p(1, 0, 0, 12, 8)], 12, 8, [12, 0, 12, 8]); // beside the first
  is([p(1, 0, 0, 12, 8)], 13, 8, [0, 8, 13, 8]); // too wide for that
  is([p(1, 0, 0, 12, 8), p(2, 12, 0, 12, 5)], 12, 8, [12, 5, 12, 8]); // below the shorter one
  is([p(1, 0, 0, 8, 8), p(2, 16, 0, 8, 8)], 8, 8, [8, 0, 8, 8]); // between two
  is([p(1, 0, 0, 8, 8), p(2, 16, 0, 8, 8), p(3, 0, 8, 24, 4)], 8, 9, [0, 12, 8, 9]); // the gap is too low
  is([p(1, 0, 0, 24, 8)], 12, 8, [0, 8, 12, 8]);
  is([p(1, 0, 0, 6, 4), p(2, 0, 4, 24, 1, "row"), p(3, 0, 5, 12, 8)], 12, 8, [12, 5, 12, 8]); // not above the last row
  is([p(1, 0, 0, 6, 4)], 99, 0, [0, 4, 24, 1]);
  is([p(1, 0, 0, 6, 4)], NaN, NaN, [6, 0, 1, 1]);
  const folded = [p(1, 0, 0, 24, 1, "row", { collapsed: true }), p(2, 0, 1, 12, 8)];
  const more = add(folded, p(3, 0, 0, 12, 8));
  assert.equal(more[0]!.options?.collapsed, false, "the row shows what was put into it");
  assert.deepEqual(at(more)[3], [12, 1, 12, 8]);
  assert.equal(folded[0].options.collapsed, true); // the input stays
  assert.deepEqual(at(add(more, p(4, 3, 3, 5, 5, "row")))[4], [0, 9, 24, 1]);
  // Whatever is added: nothing overlaps, nobody moves, and the new ones are where rising would put them.
  let seed = 11, list: any[] = [];
  const random = (n: number) => { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return (seed >> 8) % n; };
  for (let i = 1; i <= 60; i++) {
    const before = at(list);
    list = add(list, p(i, random(24), random(24), 1 + random(24), 1 + random(9), i % 20 === 0 ? "row" : "stat"));
    assert.ok(apart(list), `overlap after ${i}`);
    assert.deepEqual(at(list.slice(0, -1)), before);
    assert.deepEqual(at(rise(list)), at(list));
  }
});

test("a shared link has the time and the variables that are shown", async () => {
  const { link } = await import("../../src/dashboard/share.ts");
  const chosen = [{ v: { name: "svc", type: "query", multi: true }, options: [], value: ["a b", "c&d"] }, { v: { name: "fixed", type: "constant" }, options: [], value: ["x"] }, { v: { name: "none", type: "query", multi: true }, options: [], value: [] }] as any;
  const d = { range: { from: "now-1h", to: "now" }, span: { start: Date.UTC(2026, 0, 2, 3, 4, 5), end: Date.UTC(2026, 0, 2, 4, 4, 5) }, chosen };
  const here = "https://ms.example/base/shop/dashboards/1?var-svc=old&refresh=10s&tz=UTC";
  assert.equal(link(here, d, false), "https://ms.example/base/shop/dashboards/1?refresh=10s&tz=UTC&from=now-1h&to=now&var-svc=a+b&var-svc=c%26d");
  assert.equal(link(here, d, true), "https://ms.example/base/shop/dashboards/1?tz=UTC&from=2026-01-02T03:04:05Z&to=2026-01-02T04:04:05Z&var-svc=a+b&var-svc=c%26d");
});

test("variables in statements", async () => {
  const { fill } = await import("../../src/dashboard/vars.ts");
  const w = { span: { start: 0, end: 3_600_000 }, step: 15 };
  const v = (name: string, value: string[], o: object = {}, options: string[] = value) => ({ v: { name, type: "query", ...o }, options, value }) as any;
  const list = [v("job", ['a"b.c'], {}), v("many", ["x.y", 'q"'], { multi: true }), v("all", ["$__all"], { multi: true }, ["$__all", "p", "q"]), v("none", [], { multi: true }), v("every", ["$__all"], { all_value: ".+" }, ["$__all", "p"]), v("expr", ['up{a="b"}'], { type: "constant" })];
  const is = (text: string, language: any, want: string) => assert.equal(fill(text, list, language, w), want, text);
  is('up{job="$job"}', "promql", 'up{job="a\\"b.c"}');
  is('up{job=~"$many"}', "promql", 'up{job=~"(x\\\\.y|q\\")"}');
  is('up{job=~"$all"}', "promql", 'up{job=~"(p|q)"}');
  is('up{job=~"$none"}', "promql", 'up{job=~".*"}');
  is('up{job=~"${every}"}', "promql", 'up{job=~".+"}');
  is("sum($expr)", "promql", 'sum(up{a="b"})');
  is("rate(up[$__rate_interval]) / $__range_s", "promql", "rate(up[1m]) / 3600");
  is("x IN ($many)", "sql", "x IN ('x.y','q\"')");
  is("x = '$job'", "sql", "x = 'a\"b.c'");
  is("x IN ($none)", "sql", "x IN (NULL)");
  is("job:$all -job:$job", "search", 'job:(p or q) -job:"a\\"b.c"');
  is("job:$none", "search", "job:*");
  is("$unknown ${unknown:csv} $$", "sql", "$unknown ${unknown:csv} $$");
  is("${many:csv} ${many:pipe} ${many:singlequote} [[all:csv]]", "sql", "x.y,q\" x.y|q\" 'x.y','q\"' p,q");
});

test("tables become series, and series numbers", async () => {
  const { linesOf, named, numbers, reduce, seriesName } = await import("../../src/dashboard/query.ts");
  const t = { columns: [{ name: "time", type: "TIMESTAMP" }, { name: "level", type: "VARCHAR" }, { name: "n", type: "BIGINT" }], rows: [["2026-01-01T00:01:00Z", "error", 2], ["2026-01-01T00:00:00Z", "error", 1], ["2026-01-01T00:00:00Z", "info", null]] };
  const lines = linesOf(t)!;
  assert.deepEqual(lines.map((l) => [l.name, l.values[1]]), [["error", [1, 2]], ["info", [null]]]);
  assert.equal(linesOf({ columns: [{ name: "n", type: "BIGINT" }], rows: [[1]] }), undefined);
  assert.equal(named("{{ a }} of {{missing}}", { a: "1" }), "1 of ");
  assert.equal(named(undefined, { __name__: "up", job: "x" }), 'up{job="x"}');
  assert.equal(seriesName(undefined, { __name__: "up", job: "x", "a.b": "y" }, "up"), 'up{job="x", "a.b"="y"}', "as Metrics has it");
  assert.equal(seriesName("__auto", {}, "sum(up)"), "sum(up)");
  assert.equal(seriesName("{{job}}", { job: "x" }, "up"), "x");
  assert.deepEqual(["last", "first", "mean", "min", "max", "sum", "count", "range", "delta"].map((c) => reduce([4, null, 1, 7, NaN, 2], c)), [2, 4, 3.5, 1, 7, 14, 4, 6, -2]);
  assert.equal(reduce([], "mean"), null);
  const frame = { target: {} as any, statement: "", warnings: [], partial: false, took: 1 };
  assert.deepEqual(numbers([{ ...frame, table: { columns: [{ name: "service", type: "VARCHAR" }, { name: "n", type: "BIGINT" }], rows: [["a", 3], ["b", null]] } }]).map((x) => [x.name, x.value]), [["a", 3], ["b", null]]);
});

test("CSV keeps what spreadsheets would run from them; versions are compared by path", async () => {
  const { toCsv } = await import("../../src/dashboard/file.ts");
  assert.equal(toCsv({ columns: [{ name: "a", type: "VARCHAR" }, { name: "b", type: "BIGINT" }], rows: [["=cmd()", -1], ['say "x",\n', null]] }), "a,b\r\n'=cmd(),-1\r\n\"say \"\"x\"\",\n\",\r\n");
  const { differences } = await import("../../src/dashboard/diff.ts");
  assert.deepEqual(differences({ title: "a", panels: [{ id: 1, w: 2 }, { id: 2 }] }, { title: "b", panels: [{ id: 1, w: 3 }], tags: ["x"] }), ['title: "a" → "b"', "panels.#1.w: 2 → 3", 'panels.#2: removed {"id":2}', 'tags: added ["x"]']);
});

test("series that two queries have by one name are told apart", async () => {
  const { distinct } = await import("../../src/dashboard/query.ts");
  const f = (ref: string, ...names: string[]) => ({ target: { ref, language: "promql", statement: "" }, lines: names.map((name) => ({ name, labels: {}, values: [[], []] })) }) as any;
  const names = (...frames: any[]) => distinct(frames).map((x) => x.name);
  assert.deepEqual(names(f("A", "cart", "web"), f("B", "cart")), ["A cart", "web", "B cart"]);
  assert.deepEqual(names(f("A", "cart", "cart"), f("B")), ["cart", "cart (2)"]);
  assert.deepEqual(names(f("A", "x"), {} as any), ["x"]);
});
