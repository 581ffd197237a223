// The pages Traces, Trace and Services, with the traces of a shop, one of a hundred thousand spans, one with clocks that differ and one with hostile names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { computing, copied, harness, keys, type Page, phone, seed, until } from "./harness.ts";
import type { Trace } from "./seed.ts";

let shop: Trace[], big: Trace, broken: Trace, failing: Trace;

const t = harness({
  seed: async (node) => {
    shop = await seed.traces(node, { n: 120, hostile: true });
    big = await seed.bigTrace(node);
    broken = await seed.brokenTrace(node);
    failing = shop.filter((x) => x.error && x.spans[0]!.service === "edge-gateway").at(-1)!;
    await seed.logs(node, { n: 200, traces: shop });
    await seed.traces(node, { n: 60, at: seed.fixed, seed: 7 });
  },
});

const open = async (page: Page, path: string) => { await page.goto(t.node.path(path)); await page.locator("#app[aria-busy=false]").waitFor(); };
const rows = (page: Page) => page.locator(".g-row");
const found = (page: Page) => page.locator(".lfoot .num");
const then = (ms: number) => new Date(ms).toISOString();
const picture = `from=${then(seed.fixed - 16 * 60_000)}&to=${then(seed.fixed + 60_000)}`;

test("search: by service, status, duration and attributes, all of it in the address", async () => {
  const page = await t.page();
  await open(page, "traces?from=now-30m");
  await rows(page).first().waitFor();
  await until("the first hundred", async () => /The 100 newest/.test(await found(page).innerText()));
  await page.getByRole("button", { name: "Up to 1,000" }).click();
  await until("all are shown", async () => /^12\d traces$/.test(await found(page).innerText()));
  await page.getByRole("group", { name: "Status" }).getByRole("button", { name: "Errors" }).click();
  await until("only failed ones", async () => /^1\d traces$/.test(await found(page).innerText()));
  assert.match(page.url(), /status=error/);
  await page.locator("ms-select", { hasText: "Service" }).getByRole("button").click();
  await page.getByRole("option", { name: "payments" }).waitFor();
  await page.keyboard.type("paym");
  await until("one option is left", async () => (await page.getByRole("option").count()) === 1);
  await keys(page, "Enter");
  await until("of payments", () => page.url().includes("service=payments"));
  await page.getByLabel("From, such as 250ms").fill("200ms");
  await keys(page, "Enter");
  await page.getByLabel("Attributes or trace id").fill("http.status:504");
  await Promise.all([page.waitForResponse((r) => r.url().includes("search=http.status")), keys(page, "Enter")]);
  await page.locator(".tq-results[aria-busy=false]").waitFor();
  await until("with the attribute", () => page.url().includes("q=http.status:504"));
  await until("found", async () => Number((await found(page).innerText()).split(" ")[0]) > 5);
  const url = page.url(), n = await found(page).innerText();
  await page.reload();
  await until("the same after a reload", async () => (await found(page).count()) > 0 && (await found(page).innerText()) === n);
  assert.equal(page.url(), url);
  await page.goBack();
  await until("back", () => !page.url().includes("http.status"));
});

test("search: a mistake is shown at its character, and nothing found says how to go on", async () => {
  const page = await t.page({ allow: [/status of 400/] });
  await open(page, "traces?from=now-30m");
  await rows(page).first().waitFor();
  await page.getByLabel("Attributes or trace id").fill("http.status:(500 or");
  await keys(page, "Enter");
  await page.locator(".ed-message:not([hidden])").waitFor();
  assert.equal(await page.inputValue(".ed-in"), "http.status:(500 or");
  await page.getByLabel("Attributes or trace id").fill("http.status:999");
  await keys(page, "Enter");
  await page.getByRole("heading", { name: "No traces" }).waitFor();
  await t.audit(page, "no traces");
  await page.getByRole("button", { name: "Drop all conditions" }).click();
  await rows(page).first().waitFor();
});

test("what is typed and not run is said; views and links bring back what was found", async () => {
  const page = await t.page();
  await open(page, "traces?from=now-30m&service=payments&sort=-duration");
  await rows(page).first().waitFor();
  const params = () => new URL(page.url()).searchParams, sign = page.locator(".qbox .edited"), find = page.locator(".qbox .primary");
  await page.getByLabel("Attributes or trace id").fill("http.status:504");
  await sign.waitFor();
  assert.match(await sign.innerText(), /Edited, not run/);
  assert.equal(await find.getAttribute("aria-describedby"), await sign.getAttribute("id"));
  const refreshed = page.waitForRequest((r) => r.url().includes("/query/traces?"));
  await page.getByRole("button", { name: "Refresh" }).click();
  assert.doesNotMatch((await refreshed).url(), /504/);
  assert.equal(params().get("q"), null);
  await t.audit(page, "traces, edited");
  await page.getByLabel("Attributes or trace id").focus();
  await keys(page, "mod+Enter");
  await until("it is run", () => params().get("q") === "http.status:504");
  await until("the sign is gone", async () => !(await sign.isVisible()));
  const n = async () => (await found(page).count()) > 0 && (await found(page).innerText());
  await page.locator(".tq-results[aria-busy=false]").waitFor();
  const had = await n();

  await page.getByRole("button", { name: "Saved views" }).click();
  await page.fill("#view-name", "Timeouts of payments");
  await page.keyboard.press("Enter");
  await page.locator(".viewlist .open").waitFor();
  await t.audit(page, "views of traces");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Share" }).click();
  const link = page.getByRole("textbox", { name: "Link" });
  await until("the times are frozen", async () => /from=\d{4}-.*&to=\d{4}-/.test(await link.inputValue()));
  await page.getByRole("radio", { name: /Keep it relative/ }).check();
  await until("the times are relative", async () => /from=now-30m/.test(await link.inputValue()));
  await page.getByRole("radio", { name: /Freeze the time/ }).check();
  await until("the times are frozen again", async () => /from=\d{4}/.test(await link.inputValue()));
  await t.audit(page, "share traces");
  await page.getByRole("button", { name: "Copy link" }).click();
  const shared = await copied(page, /^http/);
  await page.goto(t.node.path("traces"));
  await page.goto(shared);
  await until("the link shows the same", async () => (await n()) === had);
  assert.deepEqual([params().get("service"), params().get("q"), params().get("sort")], ["payments", "http.status:504", "-duration"]);

  await open(page, "traces?from=now-1h&status=ok");
  await rows(page).first().waitFor();
  await page.getByRole("button", { name: "Saved views" }).click();
  await page.locator(".viewlist .open", { hasText: "Timeouts of payments" }).click();
  await until("the view is open", () => params().get("q") === "http.status:504" && params().get("from") === "now-30m" && params().get("status") === null);
  await until("its traces", async () => (await n()) === had);
  await page.goBack();
  await until("what was shown before", () => params().get("status") === "ok");

  // A search that is too long for an address has a name.
  const long = Array.from({ length: 300 }, (_, i) => `-order.id:${i}`).join(" ");
  await page.getByLabel("Attributes or trace id").fill(long);
  await keys(page, "mod+Enter");
  await until("it is run", () => params().get("q") === long);
  await page.getByRole("button", { name: "Share" }).click();
  await until("a short link", async () => /\?s=[\w-]+$/.test(await link.inputValue()));
  const short = await link.inputValue();
  await page.goto(short);
  await until("the search of the link", async () => (await page.locator(".ed-in").inputValue()) === long && params().get("q") === long);
});

test("durations over time: a box by keyboard is shown, and is compared with the others", async () => {
  const page = await t.page();
  await open(page, `traces?${picture}`);
  await rows(page).first().waitFor();
  await page.locator(".hm-svg rect").first().waitFor();
  await t.audit(page, "traces");
  await t.shot(page, "traces", { mask: [".cost"] });
  await page.setViewportSize({ width: 1440, height: 900 });
  // The failed ones are the slow ones: from the top of the picture down.
  await page.locator(".hm-plot").focus();
  await keys(page, "ArrowRight" + " ArrowLeft".repeat(96) + " ArrowUp".repeat(20) + " shift+ArrowRight".repeat(96) + " shift+ArrowDown".repeat(4));
  await page.getByRole("button", { name: "Compare with the others" }).click();
  const side = page.getByRole("complementary", { name: "What is different" });
  await side.getByText("http.status", { exact: true }).waitFor();
  await t.audit(page, "comparison");
  await side.getByRole("button", { name: "Only http.status 504" }).click();
  await until("the value is in the search", () => /q=http.status(=|%3D)504/.test(page.url()));
  await page.goBack();
  await until("the search before is back", () => !page.url().includes("http.status"));
  await until("the box is the range", async () => { // a box that was begun before the former picture was drawn anew is gone with it, and is begun again
    await page.locator(".hm-svg rect").first().waitFor();
    await page.locator(".hm-plot").focus();
    await keys(page, "ArrowRight shift+ArrowRight shift+ArrowUp Enter");
    await page.waitForTimeout(500);
    return /from=.*min=|min=.*from=/.test(page.url()) && page.url().includes("max=");
  });
  await page.goBack();
  await page.getByRole("button", { name: "Show as table" }).click();
  await page.locator(".hm-table td").first().waitFor();
});

test("a part that fails leaves the others", async () => {
  const page = await t.page({ allow: [/status of 50\d/] });
  await page.route("**/api/v1/query", (r) => r.fulfill({ status: 500, contentType: "application/json", body: '{"error":{"code":"internal","message":"internal error","request_id":"abc"}}' }));
  await open(page, "traces?from=now-30m");
  await rows(page).first().waitFor();
  await page.locator(".tq-heat .state.error").waitFor();
  await t.audit(page, "durations failed");
  await page.unroute("**/api/v1/query");
  await page.locator(".tq-heat").getByRole("button", { name: "Try again" }).click();
  await page.locator(".hm-svg rect").first().waitFor();
  await page.route("**/api/v1/query/traces?*", (r) => r.fulfill({ status: 503, headers: { "Retry-After": "7" }, contentType: "application/json", body: '{"error":{"code":"unavailable","message":"the node is starting"}}' }));
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText(/Not renewed since \d\d:\d\d:\d\d: the node is starting\. Try again in 7 s\./).waitFor();
  await page.locator(".hm-svg rect").first().waitFor();
  assert.ok((await rows(page).count()) > 0, "the list of before stays");
  await t.audit(page, "traces, not renewed").catch((e: Error) => { if (!/status of 503/.test(e.message)) throw e; });
  await page.getByRole("group", { name: "Status" }).getByRole("button", { name: "Errors" }).click();
  await page.locator(".tq-results .state.error", { hasText: "the node is starting" }).waitFor(); // another search has no list of before
  assert.equal(await page.locator(".notes .stale").count(), 0);
  await page.unroute("**/api/v1/query/traces?*");
  await page.locator(".tq-results").getByRole("button", { name: "Try again" }).click();
  await rows(page).first().waitFor();
});

test("by keyboard: to a trace from the list, through its spans, to its logs and back", async () => {
  const page = await t.page();
  await open(page, "traces?from=now-30m&service=checkout-api&operation=POST+/v1/checkout&status=error");
  await rows(page).first().waitFor();
  await keys(page, "j j k Enter");
  await page.waitForURL(/\/traces\/[0-9a-f]{32}/);
  await page.locator(".wf-row").first().waitFor();
  await keys(page, "ArrowDown ArrowDown ArrowLeft");
  await until("it is folded", async () => (await page.locator(".wf-row[aria-selected=true]").getAttribute("aria-expanded")) === "false");
  await keys(page, "ArrowRight n n Enter");
  const drawer = page.getByRole("complementary", { name: "Span" });
  await drawer.getByText("Attributes (").waitFor();
  assert.match(page.url(), /sel=[0-9a-f]{16}/);
  await keys(page, "+ shift+ArrowRight");
  await until("it is zoomed", () => page.url().includes("zoom="));
  await keys(page, "0");
  await until("it is whole", () => !page.url().includes("zoom="));
  await keys(page, "shift+y");
  assert.equal(await copied(page, /traces/), page.url());
  // An Escape is for the topmost: what lies below stays.
  await keys(page, "?");
  const help = page.getByRole("dialog", { name: "Keys of this page" });
  await help.getByText("Copy a link").waitFor();
  await keys(page, "Escape");
  await help.waitFor({ state: "hidden" });
  assert.ok(await drawer.isVisible());
  // The palette has what the page's head offers.
  await page.keyboard.press("Control+k");
  await page.keyboard.type("share");
  await page.getByRole("option", { name: "Share", exact: true }).and(page.locator("[aria-selected=true]")).waitFor();
  await keys(page, "Enter");
  await page.getByRole("dialog", { name: "Share this view" }).waitFor();
  await keys(page, "Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.ok(await drawer.isVisible());
  await keys(page, "Escape");
  await drawer.waitFor({ state: "hidden" });
  const here = page.url();
  await page.getByRole("link", { name: "Logs of this trace" }).focus();
  await Promise.all([page.waitForURL(/\/logs\?/), keys(page, "Enter")]);
  await rows(page).first().waitFor();
  await page.goBack();
  await until("the trace again", () => page.url() === here);
  await page.locator(".wf-row").first().waitFor();
});

test("to a trace from a log and back", async () => {
  const page = await t.page();
  await page.goto(`${t.node.path("logs")}?stream=app&from=now-30m&q=${encodeURIComponent(`trace_id:${failing.id}`)}`);
  await rows(page).first().waitFor();
  await keys(page, "j o");
  await page.waitForURL(new RegExp(`/traces/${failing.id}`));
  await page.locator(".wf-row").first().waitFor();
  await page.goBack();
  await page.waitForURL(/\/logs\?/);
  await rows(page).first().waitFor();
});

test("a trace: figures, critical path, filters, details, logs within a span", async () => {
  const page = await t.page();
  await open(page, `traces/${failing.id}`);
  await page.getByRole("heading", { name: "edge-gateway: POST /v1/checkout" }).waitFor();
  assert.equal(await page.locator(".tr-stats .stat", { hasText: "Spans" }).locator("dd").innerText(), String(failing.spans.length));
  assert.equal(await page.locator(".tr-stats .stat", { hasText: "Errors" }).locator("dd").innerText(), "4");
  assert.ok((await page.locator(".wf-cp path").count()) > 3);
  await page.getByText("stripe POST /charges").click();
  const drawer = page.getByRole("complementary", { name: "Span" });
  await drawer.getByText("PaymentTimeout").waitFor();
  await drawer.getByText(/Slower than|only span/).waitFor();
  await drawer.locator(".sd-logs").getByText("failed stripe POST /charges").waitFor();
  await t.audit(page, "trace with details");
  await page.getByRole("button", { name: "Errors", exact: true }).click();
  await until("only failed spans and those above", async () => (await page.locator(".wf-body .wf-row").count()) === 4);
  await page.getByRole("button", { name: "Hide others" }).click();
  await until("the others are dimmed", async () => (await page.locator(".wf-body .wf-row.dimmed").count()) === failing.spans.length - 4);
  await page.getByRole("button", { name: "Errors", exact: true }).click();
  await page.getByLabel("Minimum duration").fill("10%");
  await until("by share of the trace", async () => /of 9 spans/.test(await page.locator(".tr-found").innerText()));
  assert.match(page.url(), /least=10%25/);
});

test("a trace is shared as it is shown; in a narrow window it comes before the details of a span", async () => {
  const page = await t.page(), span = failing.spans.find((s) => s.error)!;
  await open(page, `traces/${failing.id}?sel=${span.id}&err=1`);
  const drawer = page.getByRole("complementary", { name: "Span" });
  await drawer.getByText("Attributes (").waitFor();
  await page.getByRole("button", { name: "Share" }).click();
  const link = page.getByRole("dialog").getByLabel("Link");
  await until("the link is made", async () => (await link.inputValue()) === page.url());
  await keys(page, "Escape");
  assert.equal(await drawer.isVisible(), true, "Escape closes the dialog and not what is behind it");
  await keys(page, "Shift+Y");
  assert.equal(await copied(page, new RegExp(`^http.*sel=${span.id}`)), page.url());
  await drawer.getByRole("button", { name: "Where this span leads" }).click();
  const around = new URL((await page.getByRole("menuitem", { name: "Metrics of this service" }).getAttribute("href"))!, page.url()).searchParams;
  assert.ok(Date.parse(around.get("to")!) - Date.parse(around.get("from")!) >= 30 * 60_000, "figures are shown with what was before");
  await keys(page, "Escape");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.reload();
  await page.locator(".wf-row[aria-selected=true]").waitFor();
  assert.equal(await drawer.isVisible(), false);
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Share" }).click();
  await page.getByRole("dialog", { name: "Share this view" }).waitFor();
  await keys(page, "Escape");
  await page.locator(".wf-row[aria-selected=true] .wf-op").click();
  await drawer.getByText("Attributes (").waitFor();
});

test("on a phone what the heads have no room for is in a menu", async () => {
  const page = await t.page(phone);
  for (const [path, items] of [[`traces/${shop[0]!.id}`, ["Share", "Copy id", "JSON", "Fold all", "Unfold all"]], ["traces?from=now-30m", ["Share", "Saved views"]]] as const) {
    await open(page, path);
    await page.getByRole("button", { name: "More", exact: true }).tap();
    assert.deepEqual(await page.getByRole("menuitem").allInnerTexts(), items);
    await page.getByRole("menuitem", { name: "Share" }).tap();
    await page.getByRole("dialog", { name: /^Share/ }).waitFor();
  }
});

test("a trace as a picture", async () => {
  const page = await t.page();
  await open(page, `traces?${picture}&status=error`);
  await rows(page).first().locator("a").click();
  await page.locator(".wf-row").first().waitFor();
  await page.getByText("payments.authorize").click();
  await page.getByText(/Slower than|only span/).waitFor();
  await page.locator(".sd-sec [aria-busy]").waitFor({ state: "detached" });
  await t.shot(page, "trace", { mask: [".sd-kv"] });
});

test("a hundred thousand spans: few elements, quick keys, errors found", async () => {
  const page = await t.page();
  await page.goto(t.node.path(`traces/${big.id}`));
  await page.locator(".wf-row").first().waitFor();
  await until("all are there", async () => (await page.locator(".tr-stats .stat", { hasText: "Spans" }).locator("dd").innerText()) === "100,000");
  await page.getByText(/^×19\d$/).first().waitFor();
  await page.locator(".wf-scroll").focus();
  const compute = await computing(page), took: number[] = [];
  for (let i = 0; i < 60; i++) took.push(await compute(() => page.keyboard.press(i % 10 === 9 ? "PageDown" : "ArrowDown")));
  took.sort((a, b) => a - b);
  assert.ok(took[0]! > 0 && took[took.length / 2]! <= 100, `keys take ${took.map((x) => x.toFixed(1)).join(" ")} ms`);
  await page.getByRole("button", { name: "Unfold all" }).click();
  await keys(page, "End");
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(nodes <= 3000, `${nodes} elements`);
  await page.getByRole("button", { name: "Errors", exact: true }).click();
  await until("the failed ones are found", async () => /^100 of 100,000 spans$/.test(await page.locator(".tr-found").innerText()));
  await page.locator(".wf-scroll").focus();
  await keys(page, "Home n");
  await until("an error is selected", async () => /error/.test((await page.locator(".wf-row[aria-selected=true]").getAttribute("aria-label")) ?? ""));
  await t.audit(page, "large trace");
});

test("a missing parent and clocks that differ are told, and the clocks can be corrected", async () => {
  const page = await t.page();
  await open(page, `traces/${broken.id}`);
  await page.getByText("Unknown parent").waitFor();
  const early = () => page.locator(".wf-row", { hasText: "render" }).first().getAttribute("aria-label");
  const before = await early();
  await page.getByLabel(/Correct clock skew/).check();
  await until("it moves", async () => (await early()) !== before);
  await t.audit(page, "broken trace");
});

test("no such trace, and no trace id", async () => {
  const page = await t.page({ allow: [/status of 40\d|ERR_FAILED/] });
  await open(page, "traces/0123456789abcdef0123456789abcdef");
  await page.getByRole("heading", { name: "No span of this trace is stored" }).waitFor();
  await t.audit(page, "unknown trace");
  await open(page, "traces/not-an-id");
  await page.getByRole("heading", { name: "This is no trace id" }).waitFor();
  await page.route("**/api/v1/query/traces/*", (r) => r.abort());
  await page.goto(t.node.path(`traces/${failing.id}`));
  await page.getByRole("heading", { name: "The node cannot be reached" }).waitFor();
});

test("hostile names stay text", async () => {
  const page = await t.page();
  const evil = shop.at(-1)!;
  await open(page, `traces/${evil.id}`);
  await page.locator(".wf-row").first().waitFor();
  await page.locator(".wf-row", { hasText: "<script>window.__hit=1</script>" }).first().click();
  await page.getByText("Attributes (").waitFor();
  await t.audit(page, "hostile trace");
  await open(page, "services?from=now-30m&view=table");
  await rows(page).first().waitFor();
  await t.audit(page, "hostile services");
  await open(page, "services?from=now-30m");
  await page.locator(".sm-node").first().waitFor();
  await open(page, `traces?from=now-30m&service=${encodeURIComponent("'; DROP TABLE logs; --")}`);
  await rows(page).first().waitFor();
});

test("services: the map by keyboard, one service with its figures, and the ways on", async () => {
  const page = await t.page();
  await open(page, `services?${picture}`);
  await page.locator(".sm-node").first().waitFor();
  await t.audit(page, "service map");
  await t.shot(page, "services");
  await page.locator(".sm-node[tabindex='0']").focus();
  await keys(page, "ArrowRight Enter");
  const panel = page.getByRole("complementary", { name: "Service" });
  await panel.getByRole("heading", { name: "checkout-api" }).waitFor();
  await panel.locator("canvas").first().waitFor();
  assert.match(page.url(), /service=checkout-api/);
  await t.audit(page, "a service");
  for (const width of [390, 1100, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    const cut = await panel.locator(".sv-ops").evaluate((table) => {
      const room = table.closest("aside")!.getBoundingClientRect();
      return [...table.querySelectorAll("th,td")].filter((c) => { const r = c.getBoundingClientRect(); return r.right > room.right - 4 || c.scrollWidth > c.clientWidth + 1; }).map((c) => c.textContent);
    });
    assert.deepEqual(cut, [], `no column of the operations is cut at ${width} px`);
  }
  assert.match((await panel.getByRole("link", { name: "Logs" }).getAttribute("href"))!, /\/logs\?q=service:checkout-api&from=/);
  assert.match((await panel.getByRole("link", { name: "Metrics" }).getAttribute("href"))!, /\/metrics\?service=checkout-api&from=/, "no query: its metrics have several units");
  await panel.getByRole("link", { name: "Errors" }).click();
  await page.waitForURL(/traces\?service=checkout-api&status=error/);
  await rows(page).first().waitFor();
  await page.goBack();
  await page.locator(".sm-node.on").waitFor();
  await page.locator("ms-select", { hasText: "Around" }).getByRole("button").click();
  await page.keyboard.type("payments");
  await keys(page, "Enter");
  await page.getByRole("button", { name: "1 call away" }).click();
  await until("its neighbours", async () => (await page.locator(".sm-node").count()) === 2);
  await page.getByRole("button", { name: "Table" }).click();
  await rows(page).first().waitFor();
  assert.equal(await rows(page).count(), 2);
});

test("nothing yet: the pages say how to send traces", async () => {
  const login = await t.node.json<{ token: string }>("POST", "/auth/login", { email: "owner@example.com", password: "harbour lights at dusk" });
  await t.node.json("POST", "/organizations", { slug: "empty", name: "Empty" }, { Authorization: `Bearer ${login.token}` });
  const page = await t.page();
  for (const name of ["traces", "services"]) {
    await page.goto(`${t.node.url}/empty/${name}`);
    await page.getByRole("heading", { name: "No traces yet" }).waitFor();
    await t.audit(page, `empty ${name}`);
  }
});
