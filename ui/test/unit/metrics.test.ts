import assert from "node:assert/strict";
import { test } from "node:test";

// The modules look at the document when they are loaded.
Object.assign(globalThis, { document: { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [], dispatchEvent: () => true }, location: { search: "", href: "http://localhost/" }, navigator: { platform: "" }, addEventListener: () => {} });

test("the unit of a query's values is found from its metric and from what is done with it", async () => {
  const { boundsUnit, guessUnit, metricNames } = await import("../../src/metrics/unit.ts");
  for (const [query, unit] of [
    ["node_memory_free_bytes", "bytes"], ["sum by (job) (rate(http_requests_total[5m]))", "/s"], ["rate(node_network_receive_bytes_total[5m])", "Bps"], ["rate(process_cpu_seconds_total[1m])", ""],
    ["histogram_quantile(0.95, sum by (le) (rate(request_duration_seconds_bucket[5m])))", "s"], ["rate(a_seconds_sum[5m]) / rate(a_seconds_count[5m])", "s"], ["count(up)", ""],
    ["rate(errors_total[5m]) / rate(requests_total[5m])", ""], ["cache_hit_ratio", "percentunit"], ["increase(jobs_total[1h])", ""], ["42", ""], ['{"http.server.duration"}', ""], ["request_duration_seconds_count", ""],
  ] as const) assert.equal(guessUnit(query), unit, query);
  assert.equal(guessUnit('sum({"memory"})', (n) => (n === "memory" ? "By" : "")), "bytes");
  assert.equal(guessUnit("histogram_quantile(0.5, rate(took_bucket[5m]))", (n) => (n === "took_bucket" ? "ms" : "")), "ms");
  assert.equal(boundsUnit("sum by (le) (rate(request_duration_seconds_bucket[5m]))"), "s");
  assert.deepEqual(metricNames('sum by (job, "le") (rate(a_total{job=~"x y",b="c"}[5m])) / on (x) group_left (y) b:c_total offset 5m # d'), ["a_total", "b:c_total"]);
});

test("a panel that is kept has the unit that was seen", async () => {
  const { panelOf } = await import("../../src/metrics/keep.ts");
  const { commonUnit } = await import("../../src/metrics/unit.ts");
  const { readState } = await import("../../src/metrics/state.ts");
  const s = readState(new URLSearchParams({ q: "rate(requests[5m])" }));
  assert.equal(panelOf(s, "x", "bytes").options!.unit, "bytes");
  assert.equal(panelOf(s, "x", "/s").options!.unit, "ops", "as dashboards name it");
  assert.equal("unit" in panelOf(s, "x", "").options!, false);
  assert.deepEqual([commonUnit([]), commonUnit(["s", "s"]), commonUnit(["s", "bytes"])], ["", "s", ""]);
});

test("metrics that every installation has are told from the reader's", async () => {
  const { common } = await import("../../src/metrics/prom.ts");
  for (const name of ["millstream_wal_bytes", "go_goroutines", "process_open_fds", "promhttp_metric_handler_requests_total"]) assert.equal(common(name), true, name);
  for (const name of ["goals_total", "go", "processed_total", "my_millstream_calls", "http_requests_total"]) assert.equal(common(name), false, name);
});

test("selectors quote what must be quoted, and errors point at the character", async () => {
  const { selector, seriesText, wrong } = await import("../../src/metrics/prom.ts");
  const { ApiError } = await import("../../src/lib/api.ts");
  assert.equal(selector("up"), "up");
  assert.equal(selector("up", { job: 'a"b\\c' }), 'up{job="a\\"b\\\\c"}');
  assert.equal(selector("http.duration", { "service.name": "x" }), '{"http.duration", "service.name"="x"}');
  assert.equal(seriesText({ __name__: "up", instance: "a:1" }), 'up{instance="a:1"}');
  assert.equal(seriesText({ code: "200" }), '{code="200"}');
  const at = (message: string, query: string) => wrong(new ApiError(400, "bad_data", message), query);
  assert.deepEqual([at('invalid parameter "query": 1:18: parse error: unclosed left parenthesis', "sum(rate(foo[5m])").at, at('invalid parameter "query": 1:18: parse error: unclosed left parenthesis', "sum(rate(foo[5m])").message], [17, "unclosed left parenthesis"]);
  assert.equal(at("2:3: parse error: unexpected <EOF>", "sum(\nfoo").at, 7);
  assert.equal(at("the disk is on fire", "up").at, undefined);
});

test("the step gives each point its pixels and no query more points than the server takes", async () => {
  const { stepSeconds } = await import("../../src/metrics/state.ts");
  const hours = (n: number) => ({ start: 0, end: n * 3_600_000 });
  assert.equal(stepSeconds({ step: "", pixels: 3 }, hours(1), 1000), 15);
  assert.equal(stepSeconds({ step: "", pixels: 1 }, hours(1), 1000), 5);
  assert.equal(stepSeconds({ step: "", pixels: 3 }, hours(24 * 30), 1000), 10_800);
  assert.equal(stepSeconds({ step: "1m", pixels: 3 }, hours(1), 1000), 60);
  assert.ok(hours(24 * 365).end / 1000 / stepSeconds({ step: "1s", pixels: 3 }, hours(24 * 365), 1000) <= 11_000);
});

test("classic histograms: le counts all below, a counter's steps are what came, a restart begins again", async () => {
  const { cells, grows } = await import("../../src/metrics/buckets.ts");
  const series = (le: string, values: number[]) => ({ metric: { le }, values: [[0, 10, 20, 30], values] as [number[], number[]], histograms: [[], []] as [number[], never[]] });
  const d = cells([series("+Inf", [4, 10, 2, 6]), series("1", [1, 3, 1, 2]), series("2", [4, 8, 2, 5])], { from: 0, to: 30, step: 10, growing: true })!;
  assert.deepEqual(d.rows, [{ lower: -Infinity, upper: 1 }, { lower: 1, upper: 2 }, { lower: 2, upper: Infinity }]);
  assert.deepEqual(d.cells, [[0, 2, 1, 1], [0, 2, 1, 2], [0, 2, 0, 1]]);
  assert.deepEqual(cells([series("1", [1, 2, 3, 4])], { from: 0, to: 30, step: 10, growing: false })!.cells, [[1, 2, 3, 4]]);
  assert.equal(cells([{ metric: {}, values: [[0], [1]], histograms: [[], []] }], { from: 0, to: 1, step: 1, growing: false }), undefined);
  assert.equal(grows("sum by (le) (x_bucket)"), true);
  assert.equal(grows("sum by (le) (rate(x_bucket[5m]))"), false);
});

test("native histograms: buckets of all points and series are rows; too many are merged by twos", async () => {
  const { cells } = await import("../../src/metrics/buckets.ts");
  const buckets = Array.from({ length: 150 }, (_, i) => ({ lower: i, upper: i + 1, count: 1 }));
  const d = cells([{ metric: {}, values: [[], []], histograms: [[0, 10], [{ count: 150, sum: 0, buckets }, { count: 2, sum: 0, buckets: [{ lower: 0, upper: 1, count: 2 }] }]] }], { from: 0, to: 10, step: 10, growing: false })!;
  assert.equal(d.rows.length, 75);
  assert.deepEqual(d.rows[0], { lower: 0, upper: 2 });
  assert.deepEqual([d.cells[0], d.cells[74]], [[2, 2], [2, 0]]);
});

test("a line breaks where points are missing, and lone points are drawn", async () => {
  const { align, singles, stack, stats, thin, valueRange } = await import("../../src/el/chart_data.ts");
  const a = align([{ name: "a", values: [[0, 10, 20, 60, 70], [1, 2, 3, 4, 5]] }, { name: "b", values: [[0, 30, 60], [9, NaN, 7]] }], 10);
  assert.deepEqual(a.x, [0, 10, 20, 30, 40, 60, 70]);
  assert.deepEqual(a.ys[0], [1, 2, 3, null, undefined, 4, 5]);
  assert.deepEqual(a.ys[1], [9, null, undefined, null, null, 7, undefined]);
  assert.deepEqual(singles(a.ys[1]!), [0, 5]);
  assert.deepEqual(stack([[1, 2, null], [10, null, 30]]), [[1, 2, 0], [11, 2, 30]]);
  assert.deepEqual(stats([[0, 1, 2], [3, null, 1]]), { last: 1, min: 1, avg: 2, max: 3, sum: 4 });
  assert.deepEqual(stats([[0], [NaN]]).last, null);
  assert.deepEqual(valueRange(null, null, false), [0, 1]);
  assert.deepEqual(valueRange(5, 5, false), [0, 6.25]);
  assert.equal(valueRange(90, 100, false)[0], 89.4);
  assert.equal(valueRange(90, 100, true)[0], 0);
  assert.deepEqual(thin([{ t: 1, v: 1 }, { t: 2, v: 9 }, { t: 90, v: 3 }, { t: 200, v: 1 }], 0, 100, 10), [{ t: 2, v: 9 }, { t: 90, v: 3 }]);
});

test("the parts of an expression have their texts, also behind characters of several bytes", async () => {
  const { parts, texts, title } = await import("../../src/metrics/ast.ts");
  const query = 'sum by (ü) (rate({"größe"}[5m])) > 2';
  const at = (from: string, to: string) => { const b = (s: string) => new TextEncoder().encode(s).length; const i = query.indexOf(from); return { start: b(query.slice(0, i)), end: b(query.slice(0, query.indexOf(to, i) + to.length)) }; };
  const selector = { type: "matrixSelector", ...at("{", "]") }, rate = { type: "call", func: { name: "rate" }, args: [selector], ...at("rate", ")") };
  const sum = { type: "aggregation", op: "sum", grouping: ["ü"], expr: { type: "parenExpr", expr: rate, start: 0, end: 1 }, ...at("sum", "))") };
  const tree = { type: "binaryExpr", op: ">", lhs: sum, rhs: { type: "numberLiteral", ...at("2", "2") }, matching: null, start: 0, end: new TextEncoder().encode(query).length };
  const text = texts(query);
  assert.equal(title(tree, text), "> 2");
  assert.deepEqual(parts(tree), [sum]);
  assert.equal(title(sum, text), "sum by (ü)");
  assert.deepEqual(parts(sum), [rate]);
  assert.equal(text(rate), 'rate({"größe"}[5m])');
  assert.equal(title(selector, text), '{"größe"}[5m]');
});

test("values with units", async () => {
  const { formatValue, unitOf, unitText } = await import("../../src/lib/units.ts");
  for (const [v, unit, want] of [[0.237, "s", "237 ms"], [0, "s", "0 s"], [1.5e9, "bytes", "1.50 GB"], [2500, "Bps", "2.50 kB/s"], [0.256, "percentunit", "25.6%"], [99.5, "percent", "99.5%"], [12.3456, "/s", "12.35/s"], [157_574, "", "158k"], [3, "widgets", "3 widgets"], [NaN, "s", "NaN"], [Infinity, "", "+Inf"], [null, "s", "–"], [1e-7, "", "1.00e-7"]] as const) assert.equal(formatValue(v, unit), want);
  assert.equal(unitOf("http_request_duration_seconds_bucket"), "s");
  assert.equal(unitOf("requests", "{request}"), "");
  assert.deepEqual(["1", "", "{request}", "By", "constructor"].map(unitText), ["", "", "request", "By", "constructor"]);
});

test("what adds up over the steps of a chart has a sum; rates, shares and durations have none", async () => {
  const { addsUp } = await import("../../src/lib/units.ts");
  for (const unit of ["", "short", "bytes", "widgets", "constructor"]) assert.ok(addsUp(unit), unit);
  for (const unit of ["/s", "reqps", "rows/s", "Bps", "bps", "opm", "hertz", "percent", "percentunit", "ratio", "s", "ms"]) assert.ok(!addsUp(unit), unit);
});

test("a time at the right edge has no text that would be cut", async () => {
  const { timeLabels } = await import("../../src/el/chart_data.ts");
  const minute = 60_000, marks = [0, 2, 4].map((m) => ({ t: m * minute, text: `16:4${m}` }));
  assert.deepEqual(timeLabels(marks, 0, 4 * minute, 350), ["16:40", "16:42", ""]);
  assert.deepEqual(timeLabels(marks, 0, 4 * minute + 5000, 350), ["16:40", "16:42", "16:44"]);
  assert.deepEqual(timeLabels([{ t: 4 * minute, text: "16:44:00" }], 0, 4 * minute + 5000, 350), [""]);
});

test("a metric that is chosen makes a query that can be run", async () => {
  const { taken } = await import("../../src/metrics/prom.ts");
  const at = (text: string) => { const i = text.indexOf("|"); return [text.replace("|", ""), [i, i]] as [string, [number, number]]; };
  for (const [query, chosen, want] of [
    ["|", "up", "up"], ["up|", "rate(up[5m])", "rate(up[5m])"], ["up{job=\"a\"}|", "down", "down"], ["|up", "down", "down"],
    ['{service="payments"}|', "http_requests_total", 'http_requests_total{service="payments"}'], ['{service="a}b"}|', "up", 'up{service="a}b"}'], ['{service="payments"}|', '{"http.duration"}', '{"http.duration", service="payments"}'],
    ['{"http.duration"}|', "up", "up"], ['{__name__="a"}|', "up", "up"], ["{service=\"x\"}|", "rate(up[5m])", "rate(up[5m])"],
    ["rate(up[5m])|", "down", "down"], ["rate(up[5m]) / |", "down", undefined], ["a or |", "b", undefined], ["sum(|)", "up", undefined], ["rate(|up[5m])", "down", undefined], ["(|", "up", undefined],
  ] as const) assert.equal(taken(at(query)[0], chosen, at(query)[1]), want, `${query} + ${chosen}`);
});

test("metrics like one that does not exist, and the query with one of them", async () => {
  const { rename, words } = await import("../../src/metrics/similar.ts");
  assert.deepEqual(words("http_server_request_duration_seconds_bucket"), ["http", "server", "request", "duration", "bucket"]);
  assert.deepEqual(words("_total"), []);
  const to = "http.requests";
  assert.equal(rename("rate(http_requests_total[5m])", "http_requests_total", to), 'rate({"http.requests"}[5m])');
  assert.equal(rename('sum(http_requests_total{code="500"})', "http_requests_total", to), 'sum({"http.requests", code="500"})');
  assert.equal(rename("a_http_requests_total + http_requests_total", "http_requests_total", "up"), "a_http_requests_total + up");
  assert.equal(rename('rate({"http.request"}[5m])', "http.request", to), 'rate({"http.requests"}[5m])');
  assert.equal(rename('up{job="up"}', "up", "down"), 'down{job="up"}');
});

test("a metric is asked for as its type wants it", async () => {
  const { usual } = await import("../../src/metrics/prom.ts");
  for (const [name, type, query] of [
    ["requests_total", "counter", "rate(x[5m])"], ["requests", "counter", "rate(x[5m])"], ["jobs_total", "", "rate(x[5m])"], ["jobs_total", "gauge", "x"], ["memory", "gauge", "x"], ["memory", "", "x"],
    ["took_bucket", "histogram", "histogram_quantile(0.95, sum by (le) (rate(x[5m])))"], ["took_bucket", "", "histogram_quantile(0.95, sum by (le) (rate(x[5m])))"],
    ["took_sum", "histogram", "rate(x[5m])"], ["took_count", "summary", "rate(x[5m])"], ["took_count", "", "x"], ["took", "histogram", "histogram_quantile(0.95, sum(rate(x[5m])))"], ["took", "summary", "x"],
  ] as const) assert.equal(usual(name, type)("x"), query, `${name}, ${type}`);
});

test("a series among others is named by what tells it from them", async () => {
  const { idleLabels, telling } = await import("../../src/el/chart_data.ts");
  const of = (...list: Record<string, string>[]) => { const idle = idleLabels(list.map((labels) => ({ labels }))); return list.map((l) => { const t = telling(l, idle); return `${t.name}|${t.own.map(String)}|${t.rest.map(String)}`; }); };
  assert.deepEqual(of({ __name__: "b", job: "api", le: "0.1", route: "/a" }, { __name__: "b", job: "api", le: "0.2", route: "/a" }), ["|le,0.1|job,api,route,/a", "|le,0.2|job,api,route,/a"]);
  assert.deepEqual(of({ __name__: "a", job: "x" }, { __name__: "b", job: "x" }), ["a||job,x", "b||job,x"], "the name where it differs");
  assert.deepEqual(of({ __name__: "a", job: "x" }), ["a|job,x|"], "alone it is whole");
  assert.deepEqual(of({ __name__: "a", job: "x" }, { __name__: "a", job: "x", le: "1" }), ["a||job,x", "|le,1|job,x"], "the name where nothing else tells it");
  assert.deepEqual(of({ instance: "a-1", job: "a", le: "1" }, { instance: "b-1", job: "b", le: "1" }, { instance: "b-1", job: "b", le: "2" }), ["|job,a,le,1|instance,a-1", "|job,b,le,1|instance,b-1", "|job,b,le,2|instance,b-1"], "what says the same as a shorter label");
});
