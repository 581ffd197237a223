// The Logs page at work: searching, reading, narrowing down, sharing, following; by keyboard alone where a reader may have nothing else.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { closes, copied, harness, keys, missed, type Page, phone, seed, until } from "./harness.ts";

let sent: Record<string, unknown>[] = [];

const t = harness({
  seed: async (node) => {
    const traces = await seed.traces(node, { n: 24 });
    sent = await seed.logs(node, { n: 3000, traces });
    await seed.logs(node, { n: 2000, stream: "shop", at: seed.fixed, span: 30 * 60_000, traces: await seed.traces(node, { n: 12, at: seed.fixed - 1500, span: 20 * 60_000, seed: 9 }) });
    await seed.logs(node, { n: 20, stream: "hostile", hostile: true });
    const at = new Date().toISOString();
    await node.call("POST", "/intake/json/coloured", [{ _timestamp: at, level: "info", message: "\u001b[31mred\u001b[0m and {\"a\":1}", link: "see https://example.com/run/1." }, { _timestamp: at, level: "info", message: "{\"user\":{\"id\":7},\"ok\":true}" }]);
  },
});

const rows = (page: Page) => page.locator(".rbody .g-row");
const text = (page: Page, selector: string) => page.locator(selector).first().innerText();
/** Waits until what is shown is what the run that began last has found, and its histogram. */
const done = (page: Page) => page.waitForFunction(() => document.querySelector(".results[aria-busy=false]") && document.querySelector(".cost .status") && !document.querySelector("#app[aria-busy=true],.histbox[aria-busy=true]"));
const param = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);

async function open(query = "stream=app&from=now-30m", o: Parameters<typeof t.page>[0] = {}): Promise<Page> {
  const page = await t.page(o);
  await page.goto(t.node.path("logs") + "?" + query);
  await rows(page).first().waitFor();
  await done(page);
  return page;
}

async function search(page: Page, q: string) {
  await page.keyboard.press("/");
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(q); // at once: what is half typed is checked on the way, and refused
  await page.keyboard.press("Control+Enter");
  await done(page);
}

test("the first rows need at most eight requests, move nothing that is there, and few elements", async () => {
  const page = await t.page();
  await page.addInitScript(() => {
    const w = window as unknown as { shift: number };
    w.shift = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries() as unknown as { value: number; hadRecentInput: boolean }[]) if (!e.hadRecentInput) w.shift += e.value; }).observe({ type: "layout-shift", buffered: true });
  });
  const before: string[] = [];
  let first = false;
  page.on("request", (r) => { if (!first && !/\.(woff2|svg)|\/readyz$/.test(r.url())) before.push(new URL(r.url()).pathname); }); // rows wait for neither fonts nor icons, nor for the sign of life that a frame asks for from time to time
  page.on("response", (r) => { if (r.url().endsWith("/query/stream")) first = true; });
  await page.goto(t.node.path("logs") + "?stream=app&from=now-30m");
  await rows(page).first().waitFor();
  assert.ok(before.length <= 8, `${before.length} requests: ${before.join(" ")}`);
  await done(page);
  await page.locator(".tops li").first().waitFor();
  await page.waitForTimeout(300);
  const shift = await page.evaluate(() => (window as unknown as { shift: number }).shift);
  assert.ok(shift <= 0.02, `layout shift ${shift}`);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(nodes <= 3000, `${nodes} elements`);
  assert.match(await text(page, ".cost"), /Done in .*segment.*pruned.*read.*from local cache.*1 node/s);
});

test("what every page must pass, with the drawer open; and the picture", async () => {
  const q = `stream=shop&from=${new Date(seed.fixed - 30 * 60_000).toISOString()}&to=${new Date(seed.fixed).toISOString()}`;
  const page = await open(q);
  await page.locator(".tops li").first().waitFor();
  await t.shot(page, "logs-list", { mask: [".cost", ".est"] });
  await page.locator(".rbody .g-row", { hasText: "handled POST /v1/checkout" }).first().click();
  await page.locator(".wf .sp").first().waitFor();
  await page.locator(".tops li .n").first().waitFor();
  await t.audit(page, "logs");
  await t.shot(page, "logs", { mask: [".cost", ".dt .nb", ".est"] });
});

test("by keyboard: a search, the third record, its service filtered out, and back", async () => {
  const page = await open();
  await search(page, "timeout level:error");
  const errors = sent.filter((r) => /timeout/.test(String(r.message)) && r.level === "error").length;
  assert.match(await text(page, ".hg-n"), new RegExp(`^${errors.toLocaleString("en-GB")}$`));
  assert.ok((await page.locator(".rbody mark").allInnerTexts()).some((m) => /timeout/i.test(m)));
  await keys(page, "Escape Escape j j j Enter");
  await page.locator(".drawer .dh h2").waitFor();
  assert.match(await rows(page).nth(2).getAttribute("class") ?? "", /cur/);
  const service = await text(page, ".drawer .dh h2");
  await page.keyboard.press("-");
  await page.getByRole("menuitem", { name: `service ≠ ${service}` }).waitFor();
  await page.keyboard.press("Enter");
  await until("rows without the service", async () => { const all = await page.locator(".rbody .svc").allInnerTexts(); return all.length > 0 && !all.includes(service); });
  assert.equal(param(page, "f"), `service:not:${service}`);
  await page.goBack();
  await until("rows with the service", async () => (await page.locator(".rbody .svc").allInnerTexts()).includes(service));
  assert.equal(await page.locator(".chips .chip").count(), 0);
});

test("what is typed and not run is said, and is not in the address; it outlives a reload, and refreshing runs what was run", async () => {
  const page = await open("stream=app&from=now-30m&q=level:error"), run = page.getByRole("button", { name: "Run", exact: false }).and(page.locator(".primary"));
  const errors = await text(page, ".hg-n"), sign = page.locator(".edited");
  assert.equal(await sign.isVisible(), false);
  await page.keyboard.press("/");
  await keys(page, "End");
  await page.keyboard.type(" timeout");
  await sign.waitFor();
  assert.match(await sign.innerText(), /Edited, not run\s*Ctrl ↵/);
  assert.equal(await run.getAttribute("aria-describedby"), await sign.getAttribute("id"));
  assert.equal(await sign.getAttribute("role"), "status", "it is announced");
  await rows(page).nth(2).click();
  await until("the record", () => param(page, "sel"));
  await page.locator(".drawer").focus();
  await keys(page, "w");
  await until("wrapped", () => param(page, "wrap") === "1");
  await page.waitForTimeout(400);
  assert.equal(param(page, "q"), "level:error");
  await t.audit(page, "logs, edited");
  const again = async (act: () => Promise<unknown>) => { const asked = page.waitForRequest((r) => r.url().endsWith("/query/stream")); await act(); assert.doesNotMatch((await asked).postData()!, /timeout/); await done(page); };
  await again(() => page.getByRole("button", { name: "Refresh" }).click());
  assert.equal(await sign.isVisible(), true);
  await again(() => page.reload());
  await sign.waitFor();
  assert.equal(await page.locator(".ed-in").inputValue(), "level:error timeout");
  assert.deepEqual([param(page, "q"), await text(page, ".hg-n")], ["level:error", errors]);
  await page.getByRole("button", { name: "Saved views" }).waitFor();
  await keys(page, "/ mod+Enter");
  await until("it is in the address", () => param(page, "q") === "level:error timeout");
  await done(page);
  assert.equal(await sign.isVisible(), false);
  await until("its result", async () => (await text(page, ".hg-n")) !== errors);
  await page.goBack();
  await until("what was run before", async () => param(page, "q") === "level:error" && (await page.locator(".ed-in").inputValue()) === "level:error" && (await text(page, ".hg-n")) === errors);
});

test("by keyboard: a part of the histogram is chosen, zoomed into, and left", async () => {
  const page = await open();
  const before = await text(page, ".hg-n");
  await page.keyboard.press("h");
  await keys(page, "ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight ArrowRight");
  await page.keyboard.press("End");
  for (let i = 0; i < 20; i++) await page.keyboard.press("ArrowRight");
  for (let i = 0; i < 6; i++) await page.keyboard.press("Shift+ArrowLeft");
  await page.locator(".hg-bar").waitFor();
  await page.keyboard.press("Enter");
  await until("an absolute range", () => /^\d{4}-/.test(param(page, "from") ?? ""));
  await until("fewer records", async () => (await text(page, ".hg-n")) !== before);
  await page.goBack();
  await until("the range of before", () => param(page, "from") === "now-30m");
});

test("the drawer: fields, JSON, what happened around it, the trace, links; and in place", async () => {
  const page = await open();
  await search(page, '"failed POST"');
  await keys(page, "Escape Escape j Enter");
  await page.locator(".wf .sp").first().waitFor();
  const trace = sent.find((r) => r.message === "failed POST /v1/checkout")!;
  assert.match((await page.locator(".mini a").getAttribute("href"))!, /\/default\/traces\/[0-9a-f]{32}\?sel=[0-9a-f]{16}$/);
  assert.match(await text(page, ".drawer .ft"), new RegExp(`service\\s+${trace.service}`));
  await page.getByRole("tab", { name: "Fields" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await text(page, ".drawer .json"), /"message": "failed POST/);
  await page.keyboard.press("y");
  await copied(page, /"trace_id"/);
  await page.keyboard.press("c");
  await page.locator(".cl.here").waitFor();
  assert.match(await text(page, ".ctxbar"), /service/);
  const around = await page.locator(".cl").count();
  await page.getByRole("button", { name: "Load 50 more before" }).click();
  await until("more records around", async () => (await page.locator(".cl").count()) > around);
  await page.locator(".ctxbar .chip button").first().click();
  await until("one condition less", async () => (await page.locator(".ctxbar .chip").count()) === 1);
  await page.locator(".ctx input").fill("order committed");
  await page.locator(".cl mark").first().waitFor();
  await page.locator(".drawer").focus();
  await keys(page, "shift+y");
  await page.goto(await copied(page, /^http/));
  await page.locator(".drawer .dh h2").waitFor();
  assert.equal(await text(page, ".drawer .dh h2"), trace.service);
  await page.locator(".drawer").focus();
  await keys(page, "Escape e");
  await page.locator(".rbody .g-detail .ft").waitFor();
  await keys(page, "e w");
  await page.locator(".rbody .g-detail").waitFor({ state: "detached" });
  await until("wrapped", () => param(page, "wrap") === "1");
});

test("fields: values are ticked, left out and counted; numbers have a spread; what is pinned stays", async () => {
  const page = await open();
  await page.locator(".tops input").first().waitFor();
  const warn = page.getByRole("checkbox", { name: "warn", exact: true }), error = page.getByRole("checkbox", { name: "error", exact: true });
  await warn.check();
  await until("the filter", () => param(page, "f") === "level:is:warn");
  await error.check();
  await until("both", () => param(page, "f") === "level:is:warn,error");
  await done(page);
  await until("only those", async () => (await page.locator(".rbody .lv").allInnerTexts()).every((l) => /WRN|ERR/.test(l)));
  await page.getByRole("checkbox", { name: "info", exact: true }).waitFor(); // the other values are still offered, once they are counted anew
  await page.keyboard.press("f");
  await page.keyboard.type("duration");
  await page.locator(".fhead", { hasText: "Found" }).waitFor();
  await until("only that field is listed", async () => (await page.locator(".fld").allInnerTexts()).every((f) => /duration/.test(f)));
  await keys(page, "ArrowDown ArrowDown Enter");
  await page.locator(".spread").waitFor();
  assert.match(await text(page, ".quant"), /min\s+\d+.*p95/s);
  await page.getByLabel("duration_ms at least").fill("250");
  await page.keyboard.press("Enter");
  await until("the bound", () => new URL(page.url()).searchParams.getAll("f").includes("duration_ms:gte:250"));
  await page.locator(".chips .edit", { hasText: "duration_ms" }).click();
  await page.locator(".filterform textarea").fill("280");
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await until("the changed bound", () => new URL(page.url()).searchParams.getAll("f").includes("duration_ms:gte:280"));
  await t.audit(page, "logs with filters");
});

test("SQL: a search becomes its statement and comes back; an edited one is not lost unasked; any statement's rows are shown", async () => {
  const page = await open("stream=app&from=now-30m&q=level:error&f=region:is:eu-west-1");
  const count = await text(page, ".hg-n");
  await page.getByRole("button", { name: "SQL", exact: true }).click();
  await page.locator(".cm-content, .ed-in").first().waitFor();
  await until("the statement", () => /FROM logs."app"\nWHERE .*level.*region/s.test(param(page, "q") ?? ""));
  await done(page);
  assert.equal(await text(page, ".hg-n"), count);
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await until("the search", () => param(page, "q") === "level:error" && param(page, "f") === "region:is:eu-west-1");
  await page.goto(t.node.path("logs") + `?mode=sql&from=now-30m&q=${encodeURIComponent('SELECT service, count(*) AS n FROM app GROUP BY service ORDER BY n DESC')}`);
  await rows(page).first().waitFor();
  assert.deepEqual(await page.locator(".rbody .g-hc").allInnerTexts(), ["Service", "n"]);
  assert.equal(await rows(page).count(), seed.services.length);
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.getByRole("dialog", { name: "Leave the statement?" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(param(page, "mode"), "sql");
});

test("a mistake is shown where it is, with what mends it, and what was typed stays", async () => {
  const page = await open("stream=app&from=now-30m", { allow: [/status of 400/] });
  await page.keyboard.press("/");
  await page.keyboard.type("level:error and (timeout");
  await page.keyboard.press("Control+Enter");
  await page.locator(".ed-message:not([hidden])").waitFor();
  assert.match(await text(page, ".ed-message"), /parenthesis.*add \)/);
  assert.equal(await page.locator(".ed-wrong").first().textContent(), "(");
  assert.equal(await page.locator(".ed-in").inputValue(), "level:error and (timeout");
  await t.audit(page, "logs with a mistake");
});

test("views, history and links bring back what was shown", async () => {
  const page = await open("stream=app&from=now-30m&q=timeout&f=level:is:error");
  await page.getByRole("button", { name: "Saved views" }).click();
  await page.locator("#view-name").fill("Timeouts");
  await page.keyboard.press("Enter");
  await page.locator(".viewlist .open").waitFor();
  await t.audit(page, "saved views");
  await page.keyboard.press("Escape");
  await page.goto(t.node.path("logs") + "?stream=shop&from=2026-01-01T00:00:00Z");
  await done(page);
  await page.getByRole("button", { name: "Saved views" }).click();
  await page.locator(".viewlist .open", { hasText: "Timeouts" }).click();
  await until("the view", () => param(page, "q") === "timeout" && param(page, "f") === "level:is:error" && param(page, "stream") === "app");
  await done(page);
  await page.getByRole("button", { name: "Saved views" }).click();
  await page.getByRole("button", { name: "Delete Timeouts" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("No view is saved yet").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.locator(".toast", { hasText: "View restored" }).waitFor();
  await page.keyboard.press("Escape");
  await search(page, "stats");
  await page.getByRole("button", { name: "History" }).click();
  let asked = 0;
  page.on("request", (r) => { if (/\/query\/(stream|histogram)$/.test(r.url())) asked++; });
  await page.locator(".histlist button", { hasText: "timeout" }).first().click();
  await until("the query of before", () => param(page, "q") === "timeout");
  await page.getByRole("heading", { name: "Not run yet" }).waitFor();
  assert.deepEqual([asked, await rows(page).count(), await page.locator(".hg path").count()], [0, 0, 0], "opening the history runs nothing, and shows nothing of another query");
  await t.audit(page, "logs, not run");
  await page.locator(".state").getByRole("button", { name: "Run" }).click();
  await rows(page).first().waitFor();
  await search(page, "payment");
  await page.getByRole("button", { name: /Copy as link/ }).click();
  await page.getByRole("menuitem", { name: "curl" }).click();
  assert.doesNotMatch(await copied(page, /^curl .*\$MS_TOKEN.*match_all/s), /ms_[a-z0-9]+_/);
  await page.getByRole("button", { name: "Share" }).click();
  await until("the link", async () => /from=\d{4}/.test(await page.getByRole("textbox", { name: "Link" }).inputValue()));
  await page.getByRole("button", { name: "Copy link" }).click();
  const link = await copied(page, /^http/), n = await text(page, ".hg-n");
  await page.goto(link);
  await done(page);
  await until("the same count", async () => (await text(page, ".hg-n")) === n);
});

test("a double click in Saved views does nothing twice", async () => {
  const page = await open("stream=app&from=now-30m&q=timeout");
  await page.getByRole("button", { name: "Saved views" }).click();
  const sent: string[] = [], dialog = page.getByRole("dialog", { name: "Saved views" });
  page.on("request", (r) => { if (/\/api\/v1\/views/.test(r.url()) && r.method() !== "GET") sent.push(r.method()); });
  await dialog.locator("#view-name").fill("Twice");
  await dialog.getByRole("button", { name: "Save what is shown" }).dblclick();
  await dialog.locator(".viewlist .open", { hasText: "Twice" }).waitFor();
  await dialog.getByRole("button", { name: "Pin Twice", exact: true }).dblclick();
  await dialog.getByRole("button", { name: "Unpin Twice" }).waitFor();
  await dialog.getByRole("button", { name: "Replace Twice by what is shown" }).dblclick();
  await page.locator(".toast", { hasText: "View replaced" }).waitFor();
  await dialog.getByRole("button", { name: "Delete Twice" }).dblclick();
  const question = page.getByRole("dialog", { name: "Delete the view?" });
  await question.getByRole("button", { name: "Delete", exact: true }).dblclick();
  await dialog.locator(".viewlist .open", { hasText: "Twice" }).waitFor({ state: "detached" });
  await page.locator(".toast", { hasText: "View deleted" }).getByRole("button", { name: "Undo" }).dblclick();
  await page.locator(".toast", { hasText: "View restored" }).waitFor();
  assert.deepEqual(sent, ["POST", "PUT", "PUT", "DELETE", "POST"]);
  assert.ok(await dialog.locator("[role=alert]").isHidden(), "nothing went wrong meanwhile");
});

test("messages are in the top bar: they cover nothing, and move nothing on the page; what the page shows anyway has none", async () => {
  const page = await open();
  await rows(page).first().click();
  await page.locator(".drawer .ft").waitFor();
  for (const width of [1440, 1000, 390, 320]) {
    await page.setViewportSize({ width, height: 844 });
    const places = () => page.evaluate(() => [".main", ".drawer", "#palette", "#account"].map((s) => document.querySelector(s)!.getBoundingClientRect().toJSON() as object));
    const before = await places();
    await page.getByRole("button", { name: "Copy a link to the record" }).click();
    await page.getByRole("button", { name: "Copy the record as JSON" }).click();
    const said = page.locator(".toast:visible");
    await said.filter({ hasText: "Record copied" }).first().waitFor();
    assert.deepEqual(await places(), before, `${width}: nothing moved`);
    const over = await page.evaluate(() => {
      const toast = document.querySelector(".toast")!, a = toast.getBoundingClientRect(), bar = document.querySelector(".topbar")!.getBoundingClientRect();
      const covers = [...document.querySelectorAll("a,button,input")].filter((e) => { const b = e.getBoundingClientRect(); return !toast.contains(e) && e.checkVisibility() && b.width > 1 && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom; });
      const text = toast.querySelector("span")!;
      return { covers: covers.map((e) => e.outerHTML.slice(0, 120)), inBar: a.top >= bar.top && a.bottom <= bar.bottom, legible: text.scrollHeight <= text.clientHeight + 2 && text.clientWidth > 40 };
    });
    assert.deepEqual(over, { covers: [], inBar: true, legible: true }, `${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("button", { name: "Close the details" }).click();
  await until("the messages end", async () => (await page.locator(".toast").count()) === 0);
  await page.locator(".tops .v", { hasText: "error" }).first().click();
  await page.locator(".chips .chip").waitFor();
  await done(page);
  assert.equal(await page.locator(".toast").count(), 0, "the filter is in sight");
});

test("an error is in the top bar where that has room for all of it, and else in a dialog", async () => {
  const page = await open(undefined, { allow: [/status of 503/] });
  await page.route("**/api/v1/preferences", (r) => r.fulfill({ status: 503, contentType: "application/json", body: '{"error":{"code":"unavailable","message":"the database does not answer, as it did not for the last minute"}}' }));
  const text = /Kept on this page only\. .*the last minute/i;
  await page.locator("#theme").click();
  await page.locator(".topbar .toast.error", { hasText: text }).waitFor();
  await page.getByRole("button", { name: "Close the message" }).click();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("#theme").click();
  const dialog = page.getByRole("dialog", { name: "This did not work" });
  await dialog.getByText(text).waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await page.locator(".toast").count(), 0);
});

test("following: newest on top, scrolling away pauses and counts, L goes back to the newest", async () => {
  const page = await open("stream=app&from=now-15m");
  await page.keyboard.press("l");
  await page.locator(".livebar .ok").waitFor();
  let n = 0;
  const send = async (count: number) => { await t.node.call("POST", "/intake/json/app", Array.from({ length: count }, () => ({ level: "info", service: "notifier", message: `live ${++n}` }))); };
  await until("new records on top", async () => { await send(5); await page.waitForTimeout(200); return /live \d/.test(await rows(page).first().innerText()) || (await page.locator(".rbody .g-row", { hasText: "live " }).count()) > 0; });
  const counted = async () => Number((await text(page, ".hg-n")).replace(/\D/g, "")), level = (await page.locator(".legend button[title=info] b").innerText()), start = await counted(), first = n;
  await page.evaluate(() => { const w = window as unknown as { drawn: number[] }; w.drawn = []; new MutationObserver(() => w.drawn.push(performance.now())).observe(document.querySelector(".hg-plot")!, { childList: true }); });
  for (let i = 0; i < 5; i++) { await send(30); await page.waitForTimeout(100); }
  await until("the histogram counts on", async () => (await counted()) >= start + 150 - first && (await page.locator(".legend button[title=info] b").innerText()) !== level);
  const drawn = await page.evaluate(() => (window as unknown as { drawn: number[] }).drawn);
  assert.ok(drawn.length < 2 || (drawn.at(-1)! - drawn[0]!) / (drawn.length - 1) > 900, `drawn at ${drawn.map(Math.round).join(" ")} ms`);
  await page.locator(".rbody .g-scroll").hover();
  await page.mouse.wheel(0, 200);
  await until("the pause", async () => /Paused/.test(await text(page, ".livebar")));
  const seen = () => page.evaluate(() => { const g = document.querySelector(".rbody .g-scroll")!.getBoundingClientRect(); return [...document.querySelectorAll(".rbody .g-row")].filter((r) => r.getBoundingClientRect().top > g.top + 26).map((r) => [r.textContent, Math.round(r.getBoundingClientRect().top)] as const).sort((a, b) => a[1] - b[1])[0]; });
  const before = await seen();
  await send(20);
  await until("the count", async () => /\d+ new record/.test(await text(page, ".livebar")));
  assert.deepEqual(await seen(), before, "nothing moves under the reader");
  await page.keyboard.press("l");
  await until("live again", async () => /Live/.test(await text(page, ".livebar")) && (await rows(page).filter({ hasText: `live ${n}` }).count()) === 1);
  await page.keyboard.press("Escape");
  await page.locator(".livebar").waitFor({ state: "hidden" });
});

test("exports in each format have the rows; a cell cannot become a formula", async () => {
  const page = await open("stream=app&from=now-30m&q=level:fatal");
  const fatal = sent.filter((r) => r.level === "fatal").length;
  const get = async (format: string, all: boolean) => {
    await page.getByRole("button", { name: "Export" }).click();
    if (all) await page.getByRole("radio", { name: /All matching/ }).check();
    await page.getByRole("radio", { name: format, exact: true }).check();
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator("dialog .primary").click()]);
    await page.locator("dialog").waitFor({ state: "detached" });
    return readFileSync(await file.path());
  };
  assert.equal((await get("CSV", false)).toString().trim().split("\r\n").length, fatal + 1);
  assert.equal((await get("JSON Lines", true)).toString().trim().split("\n").filter((l) => /"fatal"/.test(l)).length, fatal);
  assert.equal((await get("Parquet", true)).subarray(0, 4).toString(), "PAR1");
  assert.ok((await get("Arrow", true)).length > 100);
});

test("a chart is put together without SQL, and becomes a panel", async () => {
  const page = await open();
  const choice = (label: string) => page.locator(".cf", { has: page.getByText(label, { exact: true }) }).locator("select");
  await page.getByRole("tab", { name: "Chart" }).click();
  await page.locator("ms-chart canvas").waitFor();
  await choice("by").selectOption("service");
  await until("a series for each service", async () => { const all = await text(page, "ms-chart"); return seed.services.every((s) => all.includes(s)); });
  await t.audit(page, "logs, chart");
  await choice("Show").selectOption("p95");
  await choice("of").selectOption("duration_ms");
  await choice("as").selectOption("table");
  await page.locator(".chartout td").first().waitFor();
  assert.equal(await page.locator(".chartout tbody tr").count(), seed.services.length);
  await page.getByRole("button", { name: "Add to dashboard" }).click();
  await page.locator("#panel-title").fill("Slowest");
  if (await page.locator("#dash option").count() > 1) await page.locator("#dash").selectOption({ label: "A new dashboard" });
  await page.getByLabel("Name of the new dashboard").fill("Durations");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.locator(".toast", { hasText: "Panel added" }).waitFor();
  const { dashboards } = await t.node.json<{ dashboards: { name: string }[] }>("GET", "/dashboards");
  const mine = await page.evaluate(async () => (await (await fetch("/api/v1/dashboards")).json()).dashboards.map((d: { name: string }) => d.name));
  assert.ok([...mine, ...dashboards.map((d) => d.name)].includes("Durations"));
});

test("patterns: similar messages are one line; one of them is left out, or alone", async () => {
  const page = await t.page();
  await page.goto(t.node.path("logs") + "?stream=app&from=now-30m&q=level:error&view=patterns");
  const of = (message: RegExp) => sent.filter((r) => r.level === "error" && message.test(String(r.message))).length;
  const timeouts = page.locator(".pat", { hasText: "payment authorization failed" });
  await timeouts.waitFor();
  assert.equal((await timeouts.locator("b").innerText()), String(of(/^payment authorization/)));
  await t.audit(page, "logs, patterns");
  await timeouts.getByRole("button", { name: /Without this pattern/ }).click();
  await until("the others", async () => (await page.locator(".pat").count()) > 0 && (await timeouts.count()) === 0);
  await done(page);
  assert.equal(await text(page, ".hg-n"), String(of(/./) - of(/^payment authorization/)));
  await page.getByRole("button", { name: "Compare with before" }).first().click();
  await page.locator(".pat .chg, .pat .pill").first().waitFor();
  await page.locator(".pat", { hasText: "dequeue job" }).getByRole("button", { name: /Only this pattern/ }).click();
  await until("its records", async () => (await rows(page).count()) > 0 && (await rows(page).allInnerTexts()).every((r) => /dequeue job/.test(r)));
});

test("texts that try to be something else stay texts, everywhere", async () => {
  const page = await open("stream=hostile&from=now-30m", { allow: [/status of 400/] }); // a filter's field does not exist
  await keys(page, "j Enter");
  for (let i = 0; i < 22; i++) {
    await page.keyboard.press("ArrowDown");
    if (i % 4 === 0) { await page.getByRole("tab", { name: "JSON" }).click(); await page.getByRole("tab", { name: "Fields" }).click(); }
  }
  await page.keyboard.press("-");
  await keys(page, "Escape e w c");
  await page.locator(".cl").first().waitFor();
  await page.goto(t.node.path("logs") + `?stream=hostile&from=now-30m&q=${encodeURIComponent('"<img src=x onerror=window.__hit=1>"')}&f=${encodeURIComponent(encodeURIComponent("<b>:") + ":not:" + encodeURIComponent("'\"><script>window.__hit=1</script>"))}`);
  await page.locator(".chips .chip").waitFor();
  await page.waitForFunction(() => document.querySelector(".results[aria-busy=false]"));
  await page.goto(t.node.path("logs") + "?stream=hostile&from=now-30m");
  await rows(page).first().waitFor();
  await t.audit(page, "logs, hostile");
});

test("colours of terminals and JSON in messages are laid out; addresses can be followed", async () => {
  const page = await open("stream=coloured&from=now-30m");
  assert.equal(await page.locator(".rbody .ansi-1").first().innerText(), "red");
  await page.locator(".rbody .g-row", { hasText: "red" }).click();
  assert.equal(await page.locator(".drawer .ext").getAttribute("href"), "https://example.com/run/1");
  assert.equal(await page.locator(".drawer .ext").getAttribute("rel"), "noopener noreferrer");
  await page.locator(".rbody .g-row", { hasText: "user" }).click();
  await until("the laid out message", async () => /"user": \{\n/.test(await text(page, ".msgbox .mono")));
});

test("a click on a value's name ticks it, and the list says as many values as its box", async () => {
  const page = await open();
  const box = page.locator(".tops", { has: page.locator("input") }).first();
  const row = page.getByRole("row", { name: /^level, text, / });
  const values = Number(/(\d+) value/.exec(await box.locator(".fmore").innerText())![1]);
  assert.equal(await row.locator(".num").first().innerText(), String(values));
  await box.locator(".v", { hasText: "error" }).click();
  await until("the filter is in the address", () => param(page, "f") === "level:is:error");
});

test("at 390 px what the head has no room for is in a menu", async () => {
  const page = await open(undefined, { width: 390, height: 844 });
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Share" }).click();
  await page.getByRole("dialog", { name: "Share this view" }).waitFor();
});

test("on a phone the fields and the menu lie over the page, and can be put away", async () => {
  const page = await open(undefined, phone);
  await closes(page, ".fields", async () => { await page.getByRole("button", { name: "Fields", exact: true }).tap(); await page.locator(".fields .tops li").first().waitFor(); }, "Close the fields");
  assert.equal(await page.locator(".drawer:not([hidden])").count(), 0, "a record beneath was opened");
  await closes(page, "#nav", async () => { await page.locator("#menu").tap(); await page.locator("#nav").waitFor(); });
});

test("a level that the legend shows alone becomes a filter; a link with its query says the filters", async () => {
  const page = await open();
  await rows(page).first().waitFor();
  await page.locator(".legend button[title=error]").click();
  await until("the count says that it is a part", async () => / of /.test(await page.locator(".hg-n").innerText()));
  await page.getByRole("button", { name: "Filter by it" }).click();
  await page.locator(".chips .chip", { hasText: "level" }).waitFor();
  await until("all records are errors", async () => { const all = await page.locator(".rbody .g-row .lv").allInnerTexts(); return all.length > 0 && all.every((x) => x === "ERR"); });
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Copy with the query" }).click();
  await copied(page, /level is error\nhttp/);
});

test("by a finger: what is shown on hovering is in sight, or not there; a tap on a share filters nothing out", async () => {
  const page = await open(undefined, phone);
  await page.getByRole("button", { name: "Fields", exact: true }).tap();
  const value = page.locator(".fields .tops li", { hasText: "error" });
  await value.waitFor();
  assert.ok((await value.boundingBox())!.height >= 40);
  assert.deepEqual(await missed(page, ".fields"), []);
  await value.locator(".n").tap();
  await value.getByRole("button", { name: "Without level error" }).tap();
  await until("that alone filters", () => param(page, "f") === "level:not:error");
  await done(page);
  await page.getByRole("button", { name: "Close the fields" }).tap();
  await rows(page).first().tap();
  const row = page.locator(".drawer .fr", { has: page.locator("dt[title=service]") }); // which every record has
  const copy = row.getByRole("button", { name: "Copy the value of service" });
  await row.waitFor();
  assert.equal(await copy.isVisible(), false);
  await row.tap();
  await copy.waitFor();
  assert.deepEqual(await missed(page, ".drawer .dh"), []);
  assert.deepEqual(await missed(page, ".drawer .fr"), []);
  await t.audit(page, "logs, by a finger");
});
