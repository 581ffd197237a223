// The pages that the server renders: Access, Settings, Streams, Send data, System status.
import assert from "node:assert/strict";
import { test } from "node:test";
import { copied, harness, type Page, seed, until } from "./harness.ts";

const hostile = `<img src=x onerror="window.__hit=1">`;
const t = harness({ seed: async (node) => { await seed.logs(node, { n: 300 }); await node.json("POST", "/intake/json/odd-types", [{ code: 1, [hostile]: "x" }, { code: "two" }]); } });

const said = (page: Page) => page.locator("[role=status].done").innerText();
const open = async (path: string, o = {}) => {
  const page = await t.page(o);
  await page.goto(t.node.path(path));
  return page;
};

test("breadcrumbs lead from a thing to the list it is in", async () => {
  const page = await t.page({ allow: [/status of 404/] });
  const crumbs = page.getByRole("navigation", { name: "Breadcrumb" }), trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  for (const [path, list, item] of [[`traces/${trace}`, "Traces", trace], ["services", "Traces", "Services"], ["streams/logs/odd-types", "Streams", "odd-types"]] as const) {
    await page.goto(t.node.path(path));
    const trail = async () => (await crumbs.innerText()).replace(/\s+/g, " ").trim();
    await until(path, async () => (await trail()) === `/ ${list} / ${item}`);
    await crumbs.getByRole("link", { name: list }).click();
    await page.waitForURL((u) => u.pathname.endsWith(`/${list.toLowerCase()}`));
    await until(list, async () => (await trail()) === `/ ${list}`);
  }
});

test("Access: somebody is invited by keyboard, accepts, and is removed", async () => {
  const page = await open("access");
  await page.focus("#email");
  await page.keyboard.type("bob@example.com");
  await page.keyboard.press("Tab");
  await page.keyboard.type(hostile);
  await page.keyboard.press("Enter");
  const link = await page.getByRole("button", { name: "Copy link" }).getAttribute("data-copy-text");
  await t.audit(page, "an invitation");
  await page.getByRole("button", { name: "Copy link" }).click();
  assert.equal(await copied(page, /^http/), link);
  const bob = await t.page({ stranger: true, allow: [/status of 400/] });
  await bob.goto(link!);
  await t.audit(bob, "invite");
  await bob.fill("#password", "a password of bob's");
  await Promise.all([bob.waitForURL(/\/logs/), bob.click("form button.primary")]);
  await bob.goto(t.node.path("access"));
  assert.match(bob.url(), /access\/tokens$/);
  await page.goto(t.node.path("access"));
  await t.audit(page, "users");
  await t.shot(page, "access", { mask: ["time", ".num"] });
  await page.getByRole("button", { name: "Remove bob@example.com" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.waitForURL(/done=removed/);
  assert.match(await said(page), /removed/);
  await bob.reload();
  assert.match(bob.url(), /\/login/);
});

test("Access: a token is made, seen once, works, and is revoked by keyboard", async () => {
  const page = await open("access/tokens");
  await page.fill("#name", "laptop");
  await page.click("form button.primary");
  const token = await page.locator("section .snippet code").first().innerText();
  assert.match(token, /^ms_[a-z2-7]{8}_[a-z2-7]{52}$/);
  await t.audit(page, "a new token");
  const asks = () => fetch(`${t.node.url}/api/v1/auth/me`, { headers: { Authorization: `Bearer ${token}` } }).then((r) => r.status);
  assert.equal(await asks(), 200);
  await page.goto(t.node.path("access/tokens"));
  assert.equal(await page.getByText(token).count(), 0);
  await t.audit(page, "tokens");
  await t.shot(page, "tokens", { mask: [".num", "code"] });
  await page.getByRole("button", { name: "Revoke laptop" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).focus();
  await Promise.all([page.waitForURL(/done=revoked/), page.keyboard.press("Enter")]);
  await until("the token is refused", async () => (await asks()) === 401);
});

test("Access: the audit log is filtered, and the organization keeps its settings", async () => {
  const page = await open("access/audit?action=token.create");
  await page.getByRole("cell", { name: "token.create" }).first().waitFor();
  await t.audit(page, "audit");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "CSV" }).click()]);
  assert.equal(file.suggestedFilename(), "audit.csv");
  await page.goto(t.node.path("access/organization"));
  await page.fill("#retention_days", "21");
  await page.click("form button.primary");
  assert.match(await said(page), /Saved/);
  assert.equal(await page.inputValue("#retention_days"), "21");
  await t.audit(page, "organization");
});

test("Settings: preferences are kept as they change, and undone; a wrong zone is refused", async () => {
  const page = await t.page({ allow: [/status of 4\d\d/] });
  await page.goto(`${t.node.url}/settings`);
  await t.audit(page, "settings");
  await t.shot(page, "settings");
  const kept = (code = 200) => page.waitForResponse((r) => r.url().endsWith("/preferences") && r.request().method() === "PUT" && r.status() === code);
  await Promise.all([kept(), page.selectOption("#bytes", "binary")]);
  await page.fill("#time_zone", "Europe/Vienna");
  await Promise.all([kept(), page.press("#time_zone", "Tab")]);
  await page.reload();
  assert.equal(await page.inputValue("#bytes"), "binary");
  assert.equal(await page.inputValue("#time_zone"), "Europe/Vienna");
  await page.fill("#time_zone", "Atlantis");
  await Promise.all([kept(400), page.press("#time_zone", "Tab")]);
  await until("the field is marked", async () => (await page.getAttribute("#time_zone", "aria-invalid")) === "true");
  await Promise.all([page.waitForEvent("load"), page.click("#prefs-undo")]);
  assert.equal(await page.inputValue("#time_zone"), "");
  assert.equal(await page.inputValue("#bytes"), "binary");
  await page.fill("#current", "not the password");
  await page.fill("#password", "another long password");
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.locator("#current[aria-invalid=true]").waitFor();
  await page.goto(`${t.node.url}/settings/configuration`);
  await page.getByText("MS_HTTP_LISTEN").waitFor();
  await t.audit(page, "configuration");
});

test("Streams: found by name while typing, with their schema, segments and settings", async () => {
  const page = await open("streams");
  await page.getByRole("link", { name: "odd-types", exact: true }).waitFor();
  await t.audit(page, "streams");
  await t.shot(page, "streams", { compare: false });
  await page.fill("#q", "odd");
  await until("one stream is left", async () => (await page.locator("#streams tbody tr").count()) === 1);
  await until("it is in the address", () => /q=odd/.test(page.url()));
  await page.getByRole("link", { name: "odd-types", exact: true }).click();
  const row = page.getByRole("row", { name: /code/ });
  assert.match(await row.innerText(), /widened/);
  await page.getByText(hostile).waitFor();
  await t.audit(page, "a stream");
  await page.getByRole("link", { name: "Segments" }).click();
  await page.getByRole("columnheader", { name: "Segment" }).waitFor();
  await t.audit(page, "segments");
  await page.getByLabel("Parts of the stream").getByRole("link", { name: "Settings" }).click();
  await page.fill("#retention_days", "3");
  await page.getByRole("button", { name: "Save" }).click();
  assert.match(await said(page), /Saved/);
  await t.audit(page, "a stream's settings");
  await page.fill("#confirm", "odd-types");
  await Promise.all([page.waitForURL(/\/streams\?done=deleted/), page.getByRole("button", { name: "Delete" }).click()]);
});

test("Send data: a token in the snippet, and the first record is shown as it arrives", async () => {
  const page = await open("send?sender=json&stream=first-time");
  await page.getByText("Waiting for the first record").waitFor();
  await t.audit(page, "send");
  await t.shot(page, "send", { mask: [".pagehead code", "pre"] });
  await page.getByRole("button", { name: "Make an intake token" }).click();
  const snippet = await page.locator(".snippet code", { hasText: "Bearer ms_" }).innerText();
  const token = /Bearer (ms_\S+?)"/.exec(snippet)![1]!;
  await page.getByText("Waiting for the first record").waitFor();
  const sent = await fetch(`${t.node.url}/api/v1/intake/json/first-time`, { method: "POST", headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify({ level: "info", message: hostile }) });
  assert.equal(sent.status, 200);
  await page.getByText("It has arrived.").waitFor();
  assert.match(await page.locator(".firstrec").innerText(), /onerror/);
  await t.audit(page, "the first record");
  await page.getByRole("link", { name: "Explore it" }).click();
  await page.waitForURL(/\/logs\?stream=first-time/);
  for (const sender of ["otlp", "collector", "prometheus", "fluentbit", "vector", "elastic", "alloy", "loki"]) {
    await page.goto(t.node.path(`send?sender=${sender}`));
    await page.locator(".wait").waitFor();
  }
});

test("Send data: what waits is told, also when the node cannot be asked; what was there before is not taken for new", async () => {
  const page = await t.page({ allow: [/status of 503/] });
  let asked = 0;
  await page.route(/\/api\/v1\/query$/, (r) => { asked++; return r.fulfill({ status: 503, contentType: "application/json", body: '{"error":{"code":"unavailable","message":"the catalog cannot be read","hint":"try again soon"}}' }); });
  await page.goto(t.node.path("send?sender=json&stream=waiting"));
  await page.getByText("Waiting for the first record…").waitFor();
  await t.node.call("POST", "/intake/json/waiting", [{ level: "info", message: "the first" }]);
  await page.goto(t.node.path("send?sender=json&stream=waiting")); // there is one now, and what it is cannot be read
  await page.getByText("It is not known whether a record has come; it is tried again. The catalog cannot be read. Try again soon").waitFor();
  await until("it is tried again", () => asked > 1);
  await page.unroute(/\/api\/v1\/query$/);
  await page.getByText(/^Waiting for a new record. The newest so far is from /).waitFor();
  await t.node.call("POST", "/intake/json/waiting", [{ level: "info", message: "the second" }]);
  await page.getByText("It has arrived.").waitFor();
  assert.match(await page.locator(".firstrec").innerText(), /the second/);
});

test("System status: what is wrong, kept up to date, and a running query is seen", async () => {
  const page = await open("logs");
  await page.goto(`${t.node.url}/cluster/status`);
  await page.getByText("Everything works.").waitFor();
  await t.audit(page, "status");
  await t.shot(page, "status", { compare: false });
  const before = await page.locator("#cards").innerText();
  await seed.logs(t.node, { n: 10 });
  await until("the figures change", async () => (await page.locator("#cards").innerText()) !== before);
});

test("System status: says that it is old when it cannot be renewed, and no longer when it can", async () => {
  const page = await t.page({ allow: [/ERR_FAILED|Failed to load|htmx:error/] });
  await page.goto(`${t.node.url}/cluster/status`);
  await page.route("**/cluster/status", (r) => r.abort());
  await page.getByText(/Last update \d+ s ago/).waitFor();
  await page.getByText("Everything works.").waitFor();
  await page.unroute("**/cluster/status");
  await page.getByText(/Last update/).waitFor({ state: "hidden" });
});

test("a page that is not there, and one for others, say so", async () => {
  const page = await t.page({ allow: [/status of 404/] });
  for (const path of ["nothing", "streams/logs/none", "dashboards/x/y/z"]) {
    await page.goto(t.node.path(path));
    await page.getByRole("heading", { name: "Not found" }).waitFor();
  }
  await page.goto(`${t.node.url}/nobody/logs`);
  await page.getByRole("heading", { name: "Not found" }).waitFor();
  await t.audit(page, "not found");
});
