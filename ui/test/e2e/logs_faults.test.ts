// The Logs page when things go wrong or grow large: each case has a state of its own, and nothing that the reader typed is lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { computing, harness, keys, owner, type Page, seed, until } from "./harness.ts";

const MB = 1_000_000;

const t = harness({
  seed: async (node) => {
    await seed.logs(node, { n: 2000 });
    await node.call("POST", "/intake/json/large", [{ level: "error", service: "blob", message: `begin ${"payload ".repeat(MB / 8)}end` }, { level: "info", service: "blob", message: "small" }]);
    for (const part of [0, 1, 2]) await node.json("POST", "/intake/json/wide", Array.from({ length: 20 }, (_, k) => ({ level: "info", service: "wide", message: `record ${part} ${k}`, ...(k ? {} : Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`wide.f${part * 500 + i}`, i]))) })));
  },
});

const rows = (page: Page) => page.locator(".rbody .g-row");
const text = (page: Page, selector: string) => page.locator(selector).first().innerText();
const logs = (query: string) => `${t.node.path("logs")}?${query}`;
const api = (path: string) => `**/api/v1/query/${path}`;
const failed = { allow: [/status of \d\d\d/, /ERR_/] };

/** Answers queries of the page by frames that the test makes: `n` rows, then the end, or nothing more, or silence. */
async function answer(page: Page, n: number, how: "whole" | "cut" | "silent", bytes = 1) {
  await page.addInitScript(([n, how, bytes]) => {
    const real = window.fetch;
    window.fetch = (input, init) => {
      if (!String(input).endsWith("/query/stream")) return real(input, init);
      const lines: string[] = [JSON.stringify({ frame: "meta", id: "x", sql: "", columns: [{ name: "_timestamp", type: "TIMESTAMP_NS" }, { name: "level", type: "VARCHAR" }, { name: "service", type: "VARCHAR" }, { name: "message", type: "VARCHAR" }], estimate: { rows: n, bytes, segments: { total: 1, pruned: 0, to_scan: 1 } } })];
      const now = Date.now();
      for (let i = 0; i < n; i += 500) lines.push(JSON.stringify({ frame: "rows", rows: Array.from({ length: Math.min(500, n - i) }, (_, k) => [new Date(now - (i + k)).toISOString().replace("Z", "000000Z"), ["info", "error"][k % 2], "made", `row ${i + k}`]) }));
      if (how === "whole") lines.push(JSON.stringify({ frame: "done", stats: { took_ms: 5, scanned_rows: n, scanned_bytes: 1, segments: { total: 1, pruned: 0, scanned: 1, cached: 1 }, unflushed_rows: 0, nodes: 1 }, partial: false, warnings: [], stopped: false }));
      const body = new ReadableStream({
        start(c) {
          for (const l of lines) c.enqueue(new TextEncoder().encode(l + "\n"));
          if (how !== "silent") c.close();
          init?.signal?.addEventListener("abort", () => { try { c.error(new DOMException("aborted", "AbortError")); } catch { /* closed */ } });
        },
      });
      return Promise.resolve(new Response(body, { status: 200, headers: { "Content-Type": "application/x-ndjson" } }));
    };
  }, [n, how, bytes] as const);
}

test("a histogram that fails leaves the rows alone, and is tried again on its own", async () => {
  const page = await t.page(failed);
  let broken = true;
  await page.route(api("histogram"), (r) => (broken ? r.fulfill({ status: 500, contentType: "application/json", body: '{"error":{"code":"internal","message":"internal error","request_id":"abc"}}' }) : r.continue()));
  await page.goto(logs("stream=app&from=now-30m"));
  await page.locator(".hg-fail").waitFor();
  await rows(page).nth(10).waitFor();
  await t.audit(page, "logs, no histogram").catch((e: Error) => { if (!/status of 500/.test(e.message)) throw e; });
  broken = false;
  await page.locator(".hg-fail button").click();
  await page.locator(".hg path").first().waitFor();
});

test("a stream that breaks off after 300 rows keeps them and says so", async () => {
  const page = await t.page();
  await answer(page, 300, "cut");
  await page.goto(logs("stream=app&from=now-30m&q=level:error"));
  await page.locator(".banners .banner").waitFor();
  assert.match(await text(page, ".banners"), /broke off.*300 rows.*kept/s);
  assert.match(await text(page, ".cost"), /Cut off/);
  assert.equal(await page.locator(".rbody .g-scroll").getAttribute("aria-rowcount").then(Number) > 300, true);
  assert.equal(await page.locator(".ed-in").inputValue(), "level:error");
  await t.audit(page, "logs, cut off");
});

test("a silent node: Stop gives control back within ten seconds, with the rows that came", async () => {
  const page = await t.page(failed);
  await page.clock.install();
  await answer(page, 300, "silent");
  await page.route(api("running/*/stop"), () => { /* never answers */ });
  await page.goto(logs("stream=app&from=now-30m"));
  const stop = page.getByRole("button", { name: /Stop, keep partial/ });
  await stop.waitFor();
  await t.audit(page, "logs, running");
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 60_000));
  await page.keyboard.press("Escape");
  await page.clock.runFor(9900);
  assert.equal(await page.locator(".banners .banner").count(), 0, "it is waited for");
  await page.clock.runFor(100);
  await page.locator(".banners .banner").waitFor();
  assert.match(await text(page, ".banners"), /did not answer.*300 rows/s);
  assert.equal(await stop.isVisible(), false);
  await page.unroute(api("running/*/stop"));
});

test("too many requests, and a node that is not ready, say when to come again; the same query can be run again", async () => {
  const page = await t.page(failed);
  let status = 429;
  await page.route(api("stream"), (r) => (status ? r.fulfill({ status, contentType: "application/json", headers: { "Retry-After": "7", "X-Request-Id": "r-17" }, body: JSON.stringify({ error: { code: status === 429 ? "rate_limited" : "unavailable", message: "the organization's queries are limited", hint: "an administrator can raise query_qps", request_id: "r-17" } }) }) : r.continue()));
  await page.goto(logs("stream=app&from=now-30m&q=timeout"));
  await page.locator(".state.error").waitFor();
  assert.match(await text(page, ".state"), /Too many requests.*limited.*Try again in 7 s.*r-17/s);
  status = 503;
  await page.getByRole("button", { name: "Try again" }).click();
  await until("the other state", async () => /Not available now/.test(await text(page, ".state")));
  status = 0;
  await page.getByRole("button", { name: "Try again" }).click();
  await rows(page).first().waitFor();
  assert.equal(await page.locator(".ed-in").inputValue(), "timeout");
});

test("a session that ends during a query is renewed in place, and the query goes on", async () => {
  const page = await t.page(failed);
  let ended = true;
  await page.route(api("stream"), (r) => (ended ? r.fulfill({ status: 401, contentType: "application/json", body: '{"error":{"code":"unauthenticated","message":"the session has ended"}}' }) : r.continue()));
  await page.goto(logs("stream=app&from=now-30m&q=timeout"));
  await page.getByRole("dialog", { name: "Your session has ended" }).waitFor();
  ended = false;
  await page.fill("#re-email", owner.email);
  await page.fill("#re-password", owner.password);
  await page.keyboard.press("Enter");
  await rows(page).first().waitFor();
  assert.equal(await page.locator(".ed-in").inputValue(), "timeout");
});

test("no connection: said, and run again when it is back", async () => {
  const page = await t.page(failed);
  await page.goto(logs("stream=app&from=now-30m"));
  await rows(page).first().waitFor();
  await page.context().setOffline(true);
  await page.keyboard.press("/");
  await page.keyboard.type("timeout");
  await page.keyboard.press("Control+Enter");
  await page.getByText("The node cannot be reached").first().waitFor();
  assert.equal(await page.locator(".ed-in").inputValue(), "timeout");
  await page.context().setOffline(false);
  await rows(page).first().waitFor();
});

test("a message of a megabyte is cut in the list and whole in the drawer", async () => {
  const page = await t.page();
  await page.goto(logs("stream=large&from=now-30m"));
  const large = page.locator(".rbody .g-row", { hasText: "begin payload" });
  await large.waitFor();
  assert.ok((await large.innerText()).length < 1500);
  await large.click();
  const all = page.locator(".drawer .msgbox .btn", { hasText: /Show all 1\.00 MB/ });
  await all.waitFor();
  const compute = await computing(page);
  const took = await compute(async () => {
    await all.click();
    await until("the whole text", () => page.locator(".drawer .msgbox .mono").evaluate((e) => e.textContent!.endsWith("end")));
  });
  assert.ok(took < 5000, `${took} ms`);
  await page.keyboard.press("w");
  assert.ok((await large.innerText()).length < 5000);
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 3000);
});

test("a stream with very many fields: the list reads a few, the sidebar a page at a time, the drawer all of a record", async () => {
  const page = await t.page();
  await page.goto(logs("stream=wide&from=now-30m"));
  await rows(page).first().waitFor();
  await page.locator(".fld").first().waitFor();
  await page.keyboard.press("f");
  await page.keyboard.type("wide.f1499");
  await page.locator(".fld", { hasText: "wide.f1499" }).waitFor();
  await page.locator("#field-find").fill("");
  await until("all again", async () => /1,5\d\d/.test(await page.locator("#field-find").getAttribute("placeholder") ?? ""));
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 3000);
});

test("fifty thousand fields", async () => {
  const page = await t.page(), names = Array.from({ length: 50_000 }, (_, i) => `attribute.${String(i).padStart(5, "0")}`);
  await page.route(api("fields"), (r) => {
    const b = r.request().postDataJSON() as { search?: string; offset?: number; limit?: number; fields?: string[] };
    const found = names.filter((n) => n.includes(b.search ?? "")), from = b.offset ?? 0;
    return r.fulfill({ contentType: "application/json", body: JSON.stringify({ rows: 100, total: found.length, fields: [...(b.fields ?? []).map((name) => ({ name, type: "string", rows: 100, share: 1, top: [{ value: "a", rows: 60 }] })), ...found.slice(from, from + (b.limit ?? found.length)).map((name) => ({ name, type: "string", rows: 10, share: 0.1 }))] }) });
  });
  await page.goto(logs("stream=app&from=now-30m"));
  await page.locator(".fld", { hasText: "attribute." }).first().waitFor();
  assert.equal(await page.locator("#field-find").getAttribute("placeholder"), "Filter 50,000 fields");
  await until("a page more for each time that the end is reached", () => page.locator(".fields .g-scroll").evaluate((e) => { e.scrollTop = e.scrollHeight; return e.scrollHeight > 25 * 2000; }));
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 3000);
  await page.locator("#field-find").fill("49999");
  await page.locator(".fld", { hasText: "attribute.49999" }).waitFor();
});

test("a hundred thousand rows: at most 3,000 elements, and a key computes for at most 100 ms", async () => {
  const page = await t.page();
  await answer(page, 100_000, "whole");
  await page.goto(logs("stream=app&from=now-30m"));
  await until("all rows", async () => /100,000/.test(await text(page, ".lfoot")));
  await keys(page, "j End");
  assert.match(await page.locator(".rbody .g-row.cur").innerText(), /row 99999/);
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) <= 3000);
  const compute = await computing(page), took: number[] = [];
  for (const k of [...Array<string>(20).fill("k"), "Home", ...Array<string>(20).fill("j")]) took.push(await compute(() => page.keyboard.press(k)));
  took.sort((a, b) => a - b);
  assert.ok(took[0]! > 0 && took[Math.floor(took.length * 0.75)]! <= 100, `keys take ${took.map((x) => x.toFixed(1)).join(" ")} ms`);
});

test("addresses that nobody made: an unknown view, time, filter, stream and record, and one of 10 kB", async () => {
  const page = await t.page(failed);
  await page.goto(logs("stream=app&from=yesteryear&view=nonsense&mode=cobol&f=broken&sel=never~x"));
  await rows(page).first().waitFor();
  const said = await page.locator(".notes").innerText();
  for (const w of [/time in the address/i, /no view/i, /no mode/i, /filter/i]) assert.match(said, w);
  await until("the record", async () => /record of this link/.test(await page.locator(".notes").innerText()));
  await page.goto(logs("stream=nowhere&from=now-30m"));
  await page.locator(".state", { hasText: /no stream/ }).waitFor();
  const words = Array.from({ length: 900 }, (_, i) => `notthere${i}`).join(" or ");
  const long = logs(`stream=app&from=now-30m&q=${encodeURIComponent(words.slice(0, 10_000).replace(/ \w*$/, ""))}`);
  assert.ok(long.length > 10_000);
  await page.goto(long);
  await until("a short address", () => /[?&]s=/.test(page.url()));
  await page.reload();
  await until("what it stands for", async () => (await page.locator(".ed-in").inputValue()).startsWith("notthere0 or notthere1"));
  await page.goto(logs("s=unknown"));
  await page.getByText("This link is not known").waitFor();
});

test("nothing found: where the nearest data is, and the ways to it", async () => {
  const page = await t.page();
  await page.goto(logs("stream=app&from=now-10d&to=now-9d&q=timeout&f=level:is:error"));
  await page.locator(".state").waitFor();
  await page.getByText(/Newest record in this stream/).waitFor();
  await t.audit(page, "logs, nothing found");
  await page.getByRole("button", { name: "Widen the time to it" }).click();
  await rows(page).first().waitFor();
  assert.equal(await page.locator(".chips .chip").count(), 1);
});

test("another run, and leaving the page, end the query that runs", async () => {
  const page = await t.page(failed);
  await answer(page, 10, "silent");
  await page.goto(logs("stream=app&from=now-30m"));
  await rows(page).first().waitFor();
  const end = () => page.context().waitForEvent("request", (r) => r.method() === "DELETE" && /\/query\/running\//.test(r.url()));
  let ended = end();
  await page.keyboard.press("/");
  await page.keyboard.type("x");
  await page.keyboard.press("Control+Enter");
  await ended;
  await page.getByRole("button", { name: /Stop, keep partial/ }).waitFor();
  ended = end();
  await page.evaluate(() => dispatchEvent(new Event("pagehide"))); // what the browser sends as a page is left cannot be seen here once it is gone
  await ended;
});

test("a page that is opened does not start a very large query unasked", async () => {
  const page = await t.page(failed);
  await answer(page, 10, "whole", 6.2e9);
  await page.goto(logs("stream=app&from=now-30m&q=timeout"));
  await page.getByText("This query would read 6.20 GB").waitFor();
  assert.equal(await rows(page).count(), 0);
  await page.locator(".state").getByRole("button", { name: "Run" }).click();
  await rows(page).first().waitFor();
});

test("a refresh that fails leaves what was loaded", async () => {
  const page = await t.page(failed);
  await page.goto(logs("stream=app&from=now-30m"));
  await rows(page).first().waitFor();
  await page.route(api("stream"), (r) => r.fulfill({ status: 503, contentType: "application/json", body: '{"error":{"code":"unavailable","message":"the node is going down"}}' }));
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText(/The refresh failed.*going down/).waitFor();
  assert.ok((await rows(page).count()) > 10);
});

test("a node that restarts while it is followed: said, and followed again", async () => {
  const page = await t.page(failed);
  await page.goto(logs("stream=app&from=now-30m"));
  await rows(page).first().waitFor();
  await page.keyboard.press("l");
  await page.locator(".livebar .ok").waitFor();
  await t.node.stop();
  await page.getByText(/Connection lost, retrying/).first().waitFor();
  await t.node.run();
  await until("live again", async () => /^Live/.test((await text(page, ".livebar")).trim()));
  await until("a new record", async () => { await t.node.call("POST", "/intake/json/app", [{ level: "info", message: "after the restart" }]); return (await rows(page).filter({ hasText: "after the restart" }).count()) > 0; });
});

for (const off of [-5, 5]) {
  test(`a clock that is ${off} minutes off: "the last two minutes" are the node's`, async () => {
    await seed.logs(t.node, { n: 30, stream: `clock${off + 5}`, span: 10_000 });
    const page = await t.page();
    await page.addInitScript((ms) => {
      const Real = Date;
      const now = () => Real.now() + ms;
      window.Date = new Proxy(Real, { construct: (_, a) => (a.length ? new Real(...(a as [number])) : new Real(now())), get: (d, k) => (k === "now" ? now : Reflect.get(d, k)) });
    }, off * 60_000);
    await page.goto(logs(`stream=clock${off + 5}&from=now-2m`));
    await rows(page).first().waitFor();
    await until("all of them", async () => /^30\b/.test(await text(page, ".hg-hd"))).catch(async () => assert.fail(`${await text(page, ".hg-hd")}`));
  });
}
