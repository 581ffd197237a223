// The Metrics page: finding a metric among very many, graphs, tables and heatmaps, errors, and taking the result elsewhere.
import assert from "node:assert/strict";
import { test } from "node:test";
import { closes, copied, harness, keys, type Page, phone, seed, until } from "./harness.ts";

const at = Math.floor(Date.now() / 3_600_000) * 3_600_000 - 60_000; // the same picture in every run, but for the hours on its axis
const span = { from: new Date(at - 3_540_000).toISOString(), to: new Date(at).toISOString() };
let traces: seed.Trace[] = [];

const t = harness({
  seed: async (node) => {
    traces = await seed.traces(node, { n: 40, at, span: 3_000_000 });
    await seed.logs(node, { n: 500, at });
    await seed.metrics(node, { at, traces, names: 100_000, series: 5000, hostile: true, native: true });
  },
});

const rate = 'sum by (service) (rate({"requests"}[5m]))';
const p95 = "histogram_quantile(0.95, sum by (le) (rate(request_duration_bucket[5m])))";

function url(o: Record<string, string | string[]> = {}) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries({ ...span, ...o })) for (const one of Array.isArray(v) ? v : [v]) q.append(k, one);
  return `${t.node.path("metrics")}?${q}`;
}

async function open(page: Page, o: Record<string, string | string[]> = {}) {
  await page.goto(url(o));
  await page.locator(".mx-body[aria-busy=false]").waitFor();
}

const status = (page: Page, n = 0) => page.locator(".mq-status").nth(n);
const drawn = async (page: Page) => { await page.locator(".mx-body[aria-busy=false] .ch-plot canvas").waitFor(); await page.waitForLoadState("networkidle"); };
const nodes = (page: Page) => page.evaluate(() => document.querySelectorAll("*").length);

test("a metric is found among 100,000, described, charted, and its exemplar leads to a trace", async () => {
  const page = await t.page();
  await open(page);
  await page.getByRole("heading", { name: "Choose a metric, or type a query" }).waitFor();
  await until("names are listed", async () => /^1,000 of 100,\d\d\d metrics/.test(await page.locator(".mb-note").innerText()));
  assert.ok((await nodes(page)) < 3000, `${await nodes(page)} elements`);
  await t.audit(page, "metrics, nothing chosen");

  await page.fill(".mb input", "metric_999 wide");
  await until("two words narrow the list", async () => (await page.locator(".mb-note").innerText()) === "111 metrics");
  for (const name of await page.locator(".mb-name").allInnerTexts()) assert.match(name, /wide_metric_999/);
  await page.fill(".mb input", "request_duration_b");
  await page.locator(".mb-name", { hasText: "request_duration_bucket" }).waitFor();
  await until("only that is left", async () => (await page.locator(".mb-name").count()) === 1);
  await page.getByRole("button", { name: "About request_duration_bucket" }).click();
  await page.locator(".mb-help", { hasText: "Time to answer." }).waitFor();
  const facts = await page.locator(".mb-facts").innerText();
  assert.match(facts, /histogram/);
  assert.match(facts, /\b54 series|\b45 series/);
  await page.locator(".mb-label", { hasText: /^service$/ }).click();
  await page.locator(".mb-values button", { hasText: "payments" }).waitFor();
  await page.locator(".mb-try button").first().click();
  await drawn(page);
  assert.match(new URL(page.url()).searchParams.get("q")!, /^histogram_quantile\(0\.95/);
  assert.match(await status(page).innerText(), /^1 series/);
  // The query is complete: what is chosen next takes its place, can be undone, and is put back.
  const asked = new URL(page.url()).searchParams.get("q")!;
  await page.getByRole("button", { name: "Raw values of request_duration_bucket" }).focus();
  await page.keyboard.press("Enter");
  await until("the metric alone is asked for", async () => new URL(page.url()).searchParams.get("q") === "request_duration_bucket");
  await page.keyboard.press("Control+z");
  assert.equal(await page.locator("textarea.ed-in").first().inputValue(), asked);
  await page.keyboard.press("Control+Enter");
  await until("the former is asked for again", async () => new URL(page.url()).searchParams.get("q") === asked);
  await drawn(page);
  const button = page.getByRole("button", { name: /exemplars/ });
  await button.waitFor();
  const [, shown, all] = /^(?:([\d,]+) of )?([\d,]+) exemplars$/.exec((await button.innerText()).trim())!;
  assert.equal(Number(all), traces.length * seed.services.length, "each service has one of each trace");
  assert.ok(Number(shown) > 0 && Number(shown) <= 60, `${shown} are drawn, so that they can be told apart`);
  await button.click();
  const link = page.getByRole("menuitem").first();
  await link.waitFor();
  assert.equal(await page.getByRole("menuitem").count(), Number(shown), "all that are drawn can be reached by keys");
  const href = await link.getAttribute("href");
  assert.ok(traces.some((x) => href!.endsWith(`/default/traces/${x.id}`)), `${href} is a trace that was sent`);
});

test("the reader's own metrics are before those that every installation has; a unit that is none is not shown", async () => {
  const page = await t.page();
  const group = page.locator(".mb-group", { hasText: "Of Millstream and of runtimes" });
  await until("the node has sent its own metrics, each 15 s", async () => {
    await open(page, { from: "now-3h", to: "now" });
    await page.fill(".mb input", "re");
    await until("the words are looked for", async () => !/1,000 of/.test(await page.locator(".mb-note").innerText()));
    return (await group.count()) === 1;
  }, 180_000);
  await until("the words are looked for", async () => !/1,000 of/.test(await page.locator(".mb-note").innerText()));
  const items = await page.locator(".mb-list > li").evaluateAll((list) => list.map((li) => (li.className === "mb-group" ? "|" : li.querySelector(".mb-name")!.textContent!)));
  const at = items.indexOf("|"), before = items.slice(0, at), after = items.slice(at + 1);
  assert.ok(before.includes("requests") && before.includes("response_size") && !before.some((n) => n.startsWith("millstream_")), before.join(" "));
  assert.ok(after.some((n) => n.startsWith("millstream_")) && after.every((n) => /^(millstream|go|process|prometheus|promhttp)_/.test(n)), after.join(" "));
  await t.audit(page, "metrics, groups");
  await page.locator(".mb input").focus();
  await keys(page, "ArrowDown");
  for (let i = 0; i < at; i++) await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement!.textContent), after[0], "the keys go on across the groups");
  await page.getByRole("button", { name: "About requests", exact: true }).click();
  await page.locator(".mb-help", { hasText: "Requests answered." }).waitFor();
  assert.deepEqual(await page.locator(".mb-facts .pill").allInnerTexts(), ["counter"]);
  assert.deepEqual(await page.locator(".mb-try button").allInnerTexts(), ["rate(requests[5m])", "sum by (service) (rate(requests[5m]))", "requests"]);
  await page.locator(".mb-try button").nth(1).click();
  await until("the suggestion is asked for", () => new URL(page.url()).searchParams.get("q") === "sum by (service) (rate(requests[5m]))");
  await drawn(page);
});

test("rate() of what is no counter is warned of, in a sentence; of a counter whose name does not say so it is not", async () => {
  const page = await t.page();
  await open(page, { q: "rate(memory[5m])" });
  await page.locator(".mx-info", { hasText: /^Metric might not be a counter.*"memory"/ }).waitFor();
  await page.getByRole("button", { name: "About memory", exact: true }).click();
  await page.locator(".mb-facts .pill", { hasText: "gauge" }).waitFor();
  assert.equal(await page.locator(".mb-try").count(), 0, "a gauge is asked for as it is");
  assert.equal(await page.locator(".mx-info").count(), 1);
  await open(page, { q: "rate(requests[5m])" });
  await drawn(page);
  await until("its sender said that it is a counter", async () => (await page.locator(".mx-info").count()) === 0);
  assert.ok(!(await page.locator(".lg-t thead").innerText()).includes("Sum"), "rates have no sum");
  await open(page, { q: "requests" });
  await drawn(page);
  assert.ok((await page.locator(".lg-t thead").innerText()).includes("Sum"));
});

test("long names break behind their separators, and are copied as they are", async () => {
  const page = await t.page();
  await open(page);
  await page.fill(".mb input", "request_duration");
  await until("the words are looked for", async () => !/1,000 of/.test(await page.locator(".mb-note").innerText()));
  const name = page.locator(".mb-name", { hasText: "request_duration_bucket" });
  await page.locator(".mb").evaluate((e) => e.style.setProperty("width", "160px"));
  const lines = await name.evaluate((e) => {
    const out: string[] = [];
    let top = -Infinity;
    for (const n of e.childNodes) for (let i = 0; n.nodeType === Node.TEXT_NODE && i < n.textContent!.length; i++) {
      const r = document.createRange();
      r.setStart(n, i);
      r.setEnd(n, i + 1);
      const at = r.getBoundingClientRect().top;
      if (at > top + 4) { out.push(""); top = at; }
      out[out.length - 1] += n.textContent![i];
    }
    return out;
  });
  assert.ok(lines.length > 1 && lines.slice(0, -1).every((l) => l.endsWith("_")), lines.join(" | "));
  assert.equal(lines.join(""), "request_duration_bucket");
  assert.equal(await name.evaluate((e) => { getSelection()!.selectAllChildren(e); return getSelection()!.toString(); }), "request_duration_bucket");
});

test("a metric that is chosen is asked for as its type wants it; the legend says first what tells its series apart", async () => {
  const page = await t.page();
  await open(page);
  const query = () => new URL(page.url()).searchParams.get("q");
  const choose = async (name: string, asks: string) => {
    await page.fill(".mb input", name);
    await page.locator(".mb-name", { hasText: new RegExp(`^${name}$`) }).click();
    await until(`${name} is asked for`, () => query() === asks);
    await drawn(page);
  };
  await choose("request_duration_bucket", "histogram_quantile(0.95, sum by (le) (rate(request_duration_bucket[5m])))");
  await choose("request_duration_count", "rate(request_duration_count[5m])");
  await choose("memory", "memory");
  await page.fill(".mb input", "requests");
  await page.getByRole("button", { name: "Raw values of requests", exact: true }).focus();
  await page.keyboard.press("Enter");
  await until("the raw values are asked for", () => query() === "requests");
  await until("ten series", async () => /^10 series/.test(await status(page).innerText()));
  await drawn(page);
  for (const name of await page.locator(".lg-l").allInnerTexts()) assert.match(name, /^\{code="\d+", job="[\w-]+", instance=/, name);
  await page.locator(".ch-plot .u-over").hover();
  assert.match(await page.locator(".ch-tip li .ell").first().innerText(), /^\{code="\d+", job="[\w-]+"\}$/);
  await page.locator("textarea.ed-in").first().fill("sum()");
  await page.locator("textarea.ed-in").first().evaluate((e: HTMLTextAreaElement) => e.setSelectionRange(4, 4));
  await page.locator(".mb-name", { hasText: /^requests$/ }).click();
  assert.equal(await page.locator("textarea.ed-in").first().inputValue(), "sum(requests)", "within an expression it is the name");
});

test("the metrics of one service: their names first, and what is chosen is of that service", async () => {
  const page = await t.page();
  await page.setViewportSize({ width: 390, height: 844 });
  await open(page, { service: "payments" });
  await page.locator(".mb-name", { hasText: "memory" }).waitFor();
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("heading", { name: "Choose a metric of payments" }).waitFor();
  assert.ok(!(await page.locator(".mb-name").allInnerTexts()).some((n) => n.startsWith("fleet") || n.includes("wide_metric")));
  await t.audit(page, "metrics of a service");
  await page.locator(".mb-name", { hasText: /^requests$/ }).click();
  await until("its rate", () => new URL(page.url()).searchParams.get("q") === 'rate(requests{service="payments"}[5m])');
  await drawn(page);
  assert.match(await status(page).innerText(), /^2 series/);
  await page.getByRole("button", { name: "Metrics of all services" }).click();
  await until("all are listed", async () => /of 100,/.test(await page.locator(".mb-note").innerText()));
  assert.equal(new URL(page.url()).searchParams.get("service"), null);
});

test("the time goes along to the other explorers, by link, key and palette", async () => {
  const page = await t.page();
  await open(page, { q: rate, tz: "Europe/Berlin" });
  const kept = () => { const q = new URL(page.url()).searchParams; return q.get("from") === span.from && q.get("to") === span.to && q.get("tz") === "Europe/Berlin"; };
  const nav = page.getByRole("navigation", { name: "Main" });
  await Promise.all([page.waitForURL(/\/logs\?/), nav.getByRole("link", { name: "Logs" }).click()]);
  assert.ok(kept(), page.url());
  await page.locator("ms-time").waitFor();
  await page.locator("main").focus();
  await Promise.all([page.waitForURL(/\/metrics\?/), keys(page, "g m")]);
  assert.ok(kept(), page.url());
  await page.locator(".mx-body[aria-busy=false]").waitFor();
  await keys(page, "mod+k");
  await page.locator(".pal-in").fill("Traces");
  await Promise.all([page.waitForURL(/\/traces\?/), page.keyboard.press("Enter")]);
  assert.ok(kept(), page.url());
});

test("a page that is no longer good can be loaded again", async () => {
  const page = await t.page({ allow: [/status of 403/] });
  await page.route(/\/query_range\?/, (r) => r.fulfill({ status: 403, json: { error: { code: "forbidden", message: "the request does not come from a page of this node that is still good", hint: "reload the page" } } }));
  await open(page, { q: rate });
  await page.locator(".state").getByText("The request does not come from").waitFor();
  await page.unroute(/\/query_range\?/);
  await page.getByRole("button", { name: "Reload the page" }).click();
  await drawn(page);
});

test("what is typed and not run is said, and neither kept, shared nor refreshed", async () => {
  const page = await t.page();
  await open(page, { q: rate });
  await drawn(page);
  const sign = page.locator(".mq .edited"), box = page.locator("textarea.ed-in").first();
  await box.focus();
  await keys(page, "End");
  await page.keyboard.type(" > 1000000");
  await sign.waitFor();
  assert.match(await sign.innerText(), /Edited, not run/);
  assert.equal(await page.locator(".mq-foot .primary").getAttribute("aria-describedby"), await sign.getAttribute("id"));
  const refreshed = page.waitForRequest((r) => r.url().includes("/query_range"));
  await page.getByRole("button", { name: "Refresh" }).click();
  assert.equal(new URL((await refreshed).url()).searchParams.get("query"), rate);
  await page.getByRole("button", { name: "Log axis" }).click();
  await until("the axis is in the address", () => new URL(page.url()).searchParams.get("log") === "1");
  assert.equal(new URL(page.url()).searchParams.get("q"), rate);
  assert.equal(await page.locator(".lg-t tbody tr").count(), 5, "the former result");
  await t.audit(page, "metrics, edited");
  await box.focus();
  await keys(page, "mod+Enter");
  await page.getByRole("heading", { name: "No series in this time range" }).waitFor();
  assert.equal(await sign.isVisible(), false);
  assert.equal(new URL(page.url()).searchParams.get("q"), `${rate} > 1000000`);
});

test("the address is the state: reload, back and forward show the same", async () => {
  const page = await t.page();
  await open(page, { q: [rate, "memory"], hide: "B" });
  await drawn(page);
  assert.equal(await status(page, 1).innerText(), "Hidden");
  assert.match(await status(page).innerText(), /^5 series/);
  assert.equal(await page.locator(".lg-t tbody tr").count(), 5);
  await page.getByRole("tab", { name: "Table" }).click();
  await page.locator("ms-grid [role=row]").nth(5).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("view"), "table");
  await page.reload();
  await page.locator("ms-grid [role=row]").nth(5).waitFor();
  assert.equal(await page.locator(".mq-row").count(), 2);
  await page.goBack();
  await drawn(page);
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Graph");
  await page.goForward();
  await page.locator("ms-grid [role=row]").nth(5).waitFor();
  await page.goto(url({ q: rate, view: "nonsense", step: "-3x", kind: "pie", from: "yesterdaze" }));
  await page.getByText("The time in the address cannot be used").waitFor();
  await drawn(page);
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Graph");
});

test("the range of time by keyboard: text with its errors, zoom, earlier and later, the calendar, the zone", async () => {
  const page = await t.page();
  await open(page, { q: rate });
  await drawn(page);
  const params = () => new URL(page.url()).searchParams;
  await page.locator("body").press("t");
  const field = page.locator("#tm-text");
  await field.waitFor();
  await until("the field has the focus", () => field.evaluate((e) => e === document.activeElement));
  await page.keyboard.type("now-5x to now");
  assert.match(await page.locator("#tm-note").innerText(), /unit is missing.*at character 6/);
  assert.equal(await field.getAttribute("aria-invalid"), "true");
  await page.keyboard.press("Enter");
  assert.equal(await field.isVisible(), true);
  const day = new Date(at).toISOString().slice(0, 10);
  await field.fill(`${day} 00:00 to ${day} 00:30`);
  assert.match(await page.locator("#tm-note").innerText(), new RegExp(`${day} 00:00 to 00:30`));
  await page.keyboard.press("Enter");
  await until("the range is in the address", () => params().get("from") === `${day}T00:00:00Z` && params().get("to") === `${day}T00:30:00Z`);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-haspopup")), "dialog", "the focus is back on the button");
  await keys(page, "t ArrowRight");
  await until("later by half", () => params().get("from") === `${day}T00:15:00Z`);
  await keys(page, "t ArrowLeft");
  await until("earlier by half", () => params().get("from") === `${day}T00:00:00Z`);
  await keys(page, "t z");
  await until("twice as long", () => Date.parse(params().get("to")!) - Date.parse(params().get("from")!) === 3_600_000);
  await page.locator("body").press("t");
  await field.waitFor();
  await page.evaluate(() => navigator.clipboard.writeText("2026-09-14T08:27:12.611Z ERROR payment failed"));
  await field.focus();
  await field.selectText();
  await page.keyboard.press("Control+v");
  await until("the times of the text", async () => (await field.inputValue()) === "2026-09-14T08:22:12.611Z to 2026-09-14T08:32:12.611Z");
  await t.audit(page, "time range");
  await page.locator("#tm-tz").selectOption("Asia/Tokyo");
  await until("the zone is in the address", () => params().get("tz") === "Asia/Tokyo");
  assert.match(await page.locator("ms-time .tm-zone").innerText(), /Tokyo/);
  await page.locator("body").press("t");
  await field.waitFor();
  const first = page.locator(".cal button[tabindex='0']");
  await first.focus();
  await keys(page, "ArrowUp Enter ArrowRight Enter");
  assert.match(await field.inputValue(), /^\d{4}-\d\d-\d\d 00:00 to \d{4}-\d\d-\d\d 00:00$/);
  await page.keyboard.press("Escape");
  await until("it is closed", async () => (await field.count()) === 0);
});

test("a part of the graph is chosen by pointer and by keys; the legend isolates", async () => {
  const page = await t.page();
  await open(page, { q: rate });
  await drawn(page);
  const from = () => Date.parse(new URL(page.url()).searchParams.get("from")!), to = () => Date.parse(new URL(page.url()).searchParams.get("to")!);
  const box = (await page.locator(".ch-plot .u-over").boundingBox())!;
  await page.mouse.move(box.x + box.width / 4, box.y + 80);
  await page.locator(".ch-tip").waitFor();
  assert.equal(await page.locator(".ch-tip li").count(), 5);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + 80, { steps: 5 });
  await page.mouse.up();
  await until("a quarter of the hour", () => Math.abs(to() - from() - 885_000) < 30_000);
  await drawn(page);
  const before = to() - from();
  await page.locator(".ch-plot").focus();
  await keys(page, "Home ArrowRight shift+ArrowRight shift+PageDown Enter");
  await until("shorter by keys", () => to() - from() < before);
  await page.locator(".lg-n").first().click();
  await until("one is shown", async () => (await page.locator(".lg-n[aria-pressed=true]").count()) === 1);
  await page.locator(".lg-n").nth(1).click({ modifiers: ["Control"] });
  await until("two are shown", async () => (await page.locator(".lg-n[aria-pressed=true]").count()) === 2);
  await page.locator(".lg-t th button", { hasText: "Max" }).click();
  assert.equal(await page.locator(".lg-t th[aria-sort=descending]").innerText(), "Max");
  await page.getByRole("button", { name: "Show as table" }).click();
  await page.getByRole("region", { name: "Values" }).waitFor();
});

test("5,000 series: the first thousand with ways to narrow, then all; 200 are drawn", async () => {
  const page = await t.page();
  await open(page, { q: "fleet_load", from: new Date(at - 300_000).toISOString() });
  await page.getByText("there are more than 1,000 series").waitFor();
  await page.getByRole("button", { name: "Top 20" }).click();
  await until("the query is narrower", () => new URL(page.url()).searchParams.get("q") === "topk(20, fleet_load)");
  await page.goBack();
  await page.getByText("there are more than 1,000 series").waitFor();
  await page.getByText("200 of 1,000 series are drawn").waitFor();
  await page.getByRole("button", { name: "Show up to 10,000" }).click();
  await until("all have come", async () => /^5,000 series/.test(await status(page).innerText()));
  await page.getByText("200 of 5,000 series are drawn").waitFor();
  assert.ok((await nodes(page)) < 8000, `${await nodes(page)} elements`);
  await page.locator(".lg-t th button", { hasText: "Last" }).click();
  await page.locator(".lg-t tbody tr").first().locator(".lg-n").click();
  await until("one of all is drawn", async () => (await page.locator(".ch-note:visible").count()) === 0);
  await page.getByRole("tab", { name: "Table" }).click();
  await page.locator("ms-grid [role=row]").nth(5).waitFor();
  assert.ok((await nodes(page)) < 3000, `${await nodes(page)} elements`);
});

test("errors: at the character; one query of two; too much at once; a silent node can be stopped", async () => {
  const page = await t.page({ allow: [/status of (400|429|500)/] });
  await open(page, { q: "sum(rate(memory[5m])" });
  await page.locator(".ed-message", { hasText: /^Unclosed left parenthesis/ }).waitFor();
  assert.match(await status(page).innerText(), /Failed/);
  await t.audit(page, "metrics, error");

  await page.route(/query_range\?query=broken/, (r) => r.fulfill({ status: 500, contentType: "application/json", headers: { "X-Request-Id": "abc123" }, body: '{"status":"error","errorType":"internal","error":"the disk is on fire"}' }));
  await open(page, { q: [rate, "broken"] });
  await drawn(page);
  await page.getByRole("alert").filter({ hasText: "Query B: the disk is on fire" }).waitFor();
  assert.equal(await page.locator(".lg-t tbody tr").count(), 5, "the other query is shown");

  await page.route(/query_range\?query=busy/, (r) => r.fulfill({ status: 429, contentType: "application/json", headers: { "Retry-After": "7" }, body: '{"status":"error","errorType":"unavailable","error":"too many queries run now"}' }));
  await open(page, { q: "busy" });
  await page.getByRole("heading", { name: "Too many requests" }).waitFor();
  await page.getByText("Try again in 7 s.").waitFor();

  await page.route(/query_range\?query=silent/, () => { /* never answered */ });
  await page.goto(url({ q: "silent" }));
  const stop = page.getByRole("button", { name: /^Stop/ });
  await stop.waitFor();
  await page.locator("body").press("Escape");
  await page.getByRole("heading", { name: "Stopped" }).waitFor();
  assert.match(await status(page).innerText(), /Stopped/);

  await open(page, { q: "no_such_metric_here" });
  await page.getByRole("heading", { name: "No series in this time range" }).waitFor();
});

test("a graph that cannot be renewed stays, and says since when; another query does not stay with it", async () => {
  const page = await t.page({ allow: [/status of 503/] });
  await open(page, { q: rate, from: "now-3h", to: "now" });
  await drawn(page);
  await page.route(/query_range/, (r) => r.fulfill({ status: 503, contentType: "application/json", body: '{"status":"error","errorType":"unavailable","error":"the node is starting"}' }));
  await page.getByRole("button", { name: "Refresh" }).click();
  const sign = page.locator(".mx-notes .banner", { hasText: /Not renewed since \d\d:\d\d:\d\d: the node is starting\./ });
  await sign.waitFor();
  assert.equal(await page.locator(".lg-t tbody tr").count(), 5);
  await t.audit(page, "metrics, not renewed").catch((e: Error) => { if (!/status of 503/.test(e.message)) throw e; });
  await page.locator("textarea.ed-in").first().fill("memory");
  await keys(page, "mod+Enter");
  await page.getByRole("heading", { name: "Not available now" }).waitFor();
  assert.equal(await sign.count(), 0);
  await page.unroute(/query_range/);
  await page.getByRole("button", { name: "Try again" }).click();
  await drawn(page);
});

test("hostile names and labels are shown as text", async () => {
  const page = await t.page();
  await open(page, { q: '{"hostile"}', from: new Date(at - 60_000).toISOString(), to: new Date(at + 60_000).toISOString() });
  await drawn(page);
  assert.ok((await page.locator(".lg-t").innerText()).includes("<script>window.__hit=1</script>"));
  assert.ok((await page.locator(".lg-t").innerText()).includes("[U+202E]"), "marks that turn the text are visible");
  await page.getByRole("button", { name: /^More about/ }).nth(3).click();
  await page.getByRole("menuitem", { name: "Copy the series" }).waitFor();
  await page.keyboard.press("Escape");
  await page.fill(".mb input", "onload");
  await until("one is left", async () => (await page.locator(".mb-name").count()) === 1);
  await page.locator(".mb-open").first().click();
  await page.locator(".mb-labels li").first().waitFor();
  await page.getByRole("button", { name: "Delete query A" }).click();
  await page.locator(".mb-name", { hasText: "<svg/onload" }).click();
  await until("it was queried", async () => /^1 series/.test(await status(page).innerText()));
  await page.getByRole("tab", { name: "Table" }).click();
  await page.locator("ms-grid [role=row]").nth(1).waitFor();
  await t.audit(page, "metrics, hostile texts");
});

test("heatmaps of classic and native histograms, and the tree of an expression", async () => {
  const page = await t.page();
  await open(page, { q: "sum by (le) (rate(request_duration_bucket[5m]))", view: "heatmap" });
  await page.locator("ms-heatmap").waitFor();
  await page.waitForLoadState("networkidle");
  await until("what it shows", async () => /Distribution over \d+ buckets/.test((await page.locator(".hm-box").getAttribute("aria-label"))!));
  await page.locator(".hm-box").focus();
  await keys(page, "ArrowUp ArrowLeft");
  assert.match(await page.locator("ms-heatmap .ch-tip").innerText(), /to .*(ms|s)/);
  await t.audit(page, "metrics, heatmap");
  await page.getByRole("button", { name: "Show as table" }).click();
  await page.getByRole("region", { name: "Counts" }).waitFor();
  await open(page, { q: "response_size", view: "heatmap" });
  await page.locator("ms-heatmap").waitFor();
  await until("bounds are sizes", async () => { await page.locator(".hm-box").hover({ position: { x: 400, y: 150 } }); return /kB|B/.test(await page.locator("ms-heatmap .ch-tip").innerText()); });
  await open(page, { q: rate, view: "heatmap" });
  await page.getByRole("heading", { name: "These series are no histogram" }).waitFor();

  await open(page, { q: `${rate} / 2 > 0`, view: "explain" });
  await page.locator(".ex-node").nth(3).waitFor();
  const titles = await page.locator(".ex-t").allInnerTexts();
  assert.ok(titles.includes("sum by (service)") && titles.includes("rate()"), titles.join(" | "));
  await until("each part is measured", async () => (await page.locator(".ex-facts").allInnerTexts()).every((x) => /series|number/.test(x)));
  await t.audit(page, "metrics, tree");
  await page.getByRole("button", { name: `Run alone: ${rate}`, exact: true }).click();
  await drawn(page);
  assert.equal(await page.locator(".mq-row").count(), 2);
});

test("sharing: links, curl and Grafana; a saved view; a panel of a dashboard; the logs of a series", async () => {
  const page = await t.page();
  await open(page, { q: rate, from: "now-3h", to: "now" });
  await page.locator(".mx-body[aria-busy=false]").waitFor();
  const share = async (item: string) => { await page.getByRole("button", { name: "Share" }).click(); await page.getByRole("menuitem", { name: item }).click(); };
  await share("Copy link, times fixed");
  const fixed = new URL(await copied(page, /^http/));
  assert.equal(fixed.searchParams.get("q"), rate);
  assert.match(fixed.searchParams.get("from")!, /^\d{4}-.*Z$/);
  await share("Copy link, times relative");
  assert.equal(new URL(await copied(page, /^http.*now/)).searchParams.get("from"), "now-3h");
  await share("Copy as curl");
  const curl = await copied(page, /^curl/);
  assert.match(curl, /\$MS_TOKEN/);
  assert.ok(curl.includes(`query=${rate}`));
  await share("Copy as Grafana panel");
  assert.equal(JSON.parse(await copied(page, /^\{/)).targets[0].expr, rate);

  await page.getByRole("button", { name: "Saved views" }).click();
  assert.equal(await page.inputValue("#view-name"), rate);
  await page.fill("#view-name", "Requests of the shop");
  await page.keyboard.press("Enter");
  await page.locator(".toast", { hasText: "saved" }).waitFor();
  await page.goto(t.node.path("metrics"));
  await page.getByRole("button", { name: "Saved views" }).click();
  await page.locator(".viewlist .open", { hasText: "Requests of the shop" }).click();
  await until("the view is open", () => new URL(page.url()).searchParams.get("q") === rate && new URL(page.url()).searchParams.get("from") === "now-3h");

  await page.getByRole("button", { name: "Add to dashboard" }).click();
  await page.fill("#panel-title", "Requests");
  await page.fill("#dash-title", "Shop");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.locator(".toast", { hasText: "Panel added" }).waitFor();
  await page.getByRole("button", { name: "Add to dashboard" }).click();
  await page.locator("#dash option", { hasText: "Shop" }).waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await until("it has two panels", async () => (await t.node.json<{ dashboards: { name: string; summary: { panels: number } }[] }>("GET", "/dashboards")).dashboards.find((d) => d.name === "Shop")?.summary.panels === 2);

  // The panel has the unit that was found for the graph: here that of the seconds which the sender declares.
  await open(page, { q: p95 });
  await drawn(page);
  const seen = await page.locator(".lg-t tbody tr td.num").first().innerText();
  assert.match(seen, /ms$|s$/);
  await page.getByRole("button", { name: "Add to dashboard" }).click();
  await page.locator("#dash option", { hasText: "Shop" }).waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Add", exact: true }).click();
  const open_ = page.locator(".toast", { hasText: "Panel added" }).getByRole("button", { name: "Open" });
  await open_.waitFor();
  await page.keyboard.press("F6"); // a message's action is one key away
  await until("Open has the focus", () => open_.evaluate((b) => b === document.activeElement));
  const { dashboards } = await t.node.json<{ dashboards: { id: string; name: string }[] }>("GET", "/dashboards"), shop = dashboards.find((d) => d.name === "Shop")!;
  const { body } = await t.node.json<{ body: { time?: { from: string }; panels: { grid: { x: number; y: number }; options?: { unit?: string } }[] } }>("GET", `/dashboards/${shop.id}`);
  assert.equal(body.time?.from, "now-3h", "a new dashboard begins with the page's range of time");
  assert.deepEqual(body.panels.map((p) => p.options?.unit), ["ops", "ops", "s"]);
  assert.deepEqual(body.panels.map((p) => [p.grid.x, p.grid.y]), [[0, 0], [12, 0], [0, 8]], "each goes to the first free place");

  await open(page, { q: 'requests{service="payments"}' });
  await drawn(page);
  await page.getByRole("button", { name: "Logs for this selection" }).click();
  await page.waitForURL(/\/default\/logs\?/);
  assert.match(new URL(page.url()).searchParams.get("q") ?? "", /service:"?payments"?/);
});

test("by keyboard alone: type a query, run it, change the view, hide and bring back", async () => {
  const page = await t.page();
  await open(page);
  await page.locator("body").press("/");
  await page.keyboard.type("memory");
  await keys(page, "Escape mod+Enter");
  await drawn(page);
  assert.equal(new URL(page.url()).searchParams.get("q"), "memory");
  await page.locator(".lg-scroll").focus();
  await keys(page, "v");
  await page.locator("ms-grid").waitFor();
  await keys(page, "[");
  await until("the browser is gone", async () => !(await page.locator(".mb").isVisible()));
  await keys(page, "f");
  await until("the field has the focus", () => page.locator(".mb input").evaluate((e) => e === document.activeElement));
  await page.keyboard.type("request_duration_sum");
  await until("one is left", async () => (await page.locator(".mb-name").count()) === 1);
  await page.getByRole("button", { name: "Delete query A" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Choose a metric, or type a query" }).waitFor();
  await page.locator(".mb-open").first().focus();
  await keys(page, "u");
  await page.locator("ms-grid").waitFor();
  await keys(page, "?");
  await page.getByRole("heading", { name: "Keys of this page" }).waitFor();
});

test("pictures, and the checks of every page", async () => {
  const page = await t.page();
  await open(page, { q: [rate, p95], hide: "B" });
  await drawn(page);
  await page.fill(".mb input", "request");
  await page.locator(".mb-name", { hasText: "request_duration_sum" }).waitFor();
  await until("PromQL's guess that a counter is none is refuted by what its sender said", async () => (await page.locator(".mx-info").count()) === 0);
  await t.audit(page, "metrics");
  await t.shot(page, "metrics", { mask: ["ms-time", ".mq-status", ".mb"] });
});

test("a panel is added once however often Add is clicked", async () => {
  const page = await t.page();
  await open(page, { q: rate });
  await page.getByRole("button", { name: "Add to dashboard" }).click();
  const dialog = page.getByRole("dialog", { name: "Add to a dashboard" });
  await dialog.getByLabel("Dashboard", { exact: true }).selectOption("");
  await dialog.getByLabel("Name of the new dashboard").fill("Clicked twice");
  await dialog.getByRole("button", { name: "Add" }).dblclick();
  await dialog.waitFor({ state: "detached" });
  await page.waitForLoadState("networkidle");
  const made = await page.evaluate(async () => ((await (await fetch("/api/v1/dashboards")).json()) as { dashboards: { name: string }[] }).dashboards.filter((d) => d.name === "Clicked twice").length);
  assert.equal(made, 1);
});

test("Escape leaves the query, so that the keys of the page work", async () => {
  const page = await t.page();
  await open(page, { q: rate });
  await keys(page, "/ Escape ?");
  await page.getByRole("dialog", { name: "Keys of this page" }).waitFor();
});

test("for a metric that does not exist those like it are offered, and one is taken", async () => {
  const page = await t.page();
  await open(page, { q: "rate(requests_duration_seconds_bucket[5m])" });
  await page.getByRole("heading", { name: "No series in this time range" }).waitFor();
  assert.equal(await page.getByText("Did you mean").count(), 0); // nothing has these words
  await open(page, { q: "rate(request_duration_seconds_bucket[5m])" });
  await page.getByText("Did you mean").getByRole("button", { name: "request_duration_bucket" }).click();
  await drawn(page);
  assert.equal(new URL(page.url()).searchParams.get("q"), "rate(request_duration_bucket[5m])");
});

test("on a phone the metric browser lies over the results, and can be put away again", async () => {
  const page = await t.page(phone);
  await open(page, { q: rate });
  await closes(page, ".mb", async () => { await page.getByRole("button", { name: "Metrics", exact: true }).tap(); await page.locator(".mb-name").first().waitFor(); }, "Hide the metric browser");
});
