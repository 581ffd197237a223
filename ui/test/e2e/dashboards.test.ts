// Dashboards: made, edited by keyboard, saved against others, imported, shared; and what happens when a query fails.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repo } from "./node.ts";
import { copied, harness, keys, type Page, seed, until } from "./harness.ts";

const hostileText = seed.hostile[1]!;
const t = harness({ seed: async (node) => { await seed.logs(node, { n: 2000, stream: "shop" }); await seed.metrics(node); } });

interface Kept { id: string; version: number }
const make = (body: Record<string, unknown>, shared = true) => t.node.json<Kept>("POST", "/dashboards", { shared, body });
const open = async (id: string, o: Parameters<typeof t.page>[0] = {}, q = "") => {
  const page = await t.page(o);
  await page.goto(t.node.path(`dashboards/${id}${q}`));
  return page;
};
const panel = (page: Page, title: string) => page.getByRole("region", { name: title, exact: true });

const sql = (statement: string) => [{ ref: "A", language: "sql", statement }];
const several = {
  title: "Shop", time: { from: "now-3h", to: "now" },
  variables: [{ name: "svc", label: "Service", type: "query", language: "sql", query: "SELECT DISTINCT service FROM shop ORDER BY 1", multi: true, include_all: true, default: ["$__all"] }],
  panels: [
    { id: 1, title: "Records", type: "stat", grid: { x: 0, y: 0, w: 6, h: 5 }, targets: sql("SELECT count(*) AS n FROM shop WHERE service IN ($svc)") },
    { id: 2, title: "By level", type: "timeseries", grid: { x: 6, y: 0, w: 18, h: 8 }, options: { stack: "normal" }, targets: sql("SELECT histogram(_timestamp, '1 minute') AS time, level, count(*) AS n FROM shop WHERE service IN ($svc) GROUP BY time, level") },
    { id: 3, title: "By service", type: "bar", grid: { x: 0, y: 5, w: 6, h: 6 }, targets: sql("SELECT service, count(*) AS n FROM shop WHERE service IN ($svc) GROUP BY service ORDER BY n DESC") },
    { id: 4, title: "Latest", type: "logs", grid: { x: 6, y: 8, w: 18, h: 7 }, targets: [{ ref: "A", language: "search", stream: "shop", statement: "service:$svc" }] },
    { id: 5, title: "Rows", type: "table", grid: { x: 0, y: 11, w: 6, h: 7 }, targets: sql("SELECT service, level, count(*) AS n FROM shop GROUP BY service, level") },
    { id: 6, title: "Notes", type: "text", grid: { x: 6, y: 15, w: 9, h: 5 }, options: { content: "# Runbook\n\n* **first**: `errors`\n* <b>not markup</b>\n\n[docs](https://example.com) and [bad](javascript:alert(1))" } },
  ],
};

test("panels of every kind show what their queries answer; a variable changes them and the address", async () => {
  const { id } = await make(several);
  const page = await open(id);
  await panel(page, "Records").locator(".d-value").waitFor();
  assert.equal(await panel(page, "Records").locator(".d-value").innerText(), "2k");
  await panel(page, "By level").getByText("error").first().waitFor();
  await panel(page, "Latest").locator("li").first().waitFor();
  await panel(page, "Notes").getByText("<b>not markup</b>").waitFor();
  assert.equal(await panel(page, "Notes").getByRole("link").count(), 1);
  await t.audit(page, "dashboard");
  await t.shot(page, "dashboard", { mask: [".d-body", ".d-cost"] });
  await page.getByRole("button", { name: /Service/ }).click();
  await page.getByRole("option", { name: "payments" }).click();
  await keys(page, "Escape");
  await until("the panels follow", async () => (await panel(page, "By service").locator("li").count()) === 1);
  assert.match(page.url(), /var-svc=payments/);
  const again = await open(id, {}, new URL(page.url()).search);
  await until("a link shows the same", async () => (await panel(again, "By service").locator("li").count()) === 1);
});

test("Escape in the editor of a panel asks before it throws away what was typed, and a panel of logs has a stream", async () => {
  const { id } = await make(several);
  const page = await open(id), editor = page.locator("dialog.full textarea.ed-in").first(), dialogs = page.locator("dialog[open]");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("menuitem", { name: "Logs" }).click();
  assert.notEqual(await page.locator("#q-0-stream").inputValue(), "");
  await editor.fill("level:error");
  await page.locator("dialog.full .d-logs li").first().waitFor();
  assert.equal(await page.locator("dialog.full .d-preview").count(), 1, "the preview keeps its height");
  await editor.press("Escape");
  if ((await dialogs.count()) === 1) await editor.press("Escape"); // the first closed the proposals
  await page.getByRole("heading", { name: "Leave the panel?" }).waitFor();
  await dialogs.last().getByRole("button", { name: "Cancel" }).click();
  assert.equal(await editor.inputValue(), "level:error");
  await editor.press("Escape");
  await page.getByRole("button", { name: "Leave" }).click();
  await until("the editor is closed", async () => (await dialogs.count()) === 0);
});

test("one query fails and the other panels stay; retry brings it back; 429 says when", async () => {
  const { id } = await make(several);
  const page = await t.page({ allow: [/status of (500|429)/] });
  let broken = true;
  await page.route("**/api/v1/query", (r) => {
    const body = r.request().postData() ?? "";
    if (broken && body.includes("ORDER BY n DESC")) return r.fulfill({ status: 500, json: { error: { code: "internal", message: "something broke" } }, headers: { "X-Request-Id": "abc123" } });
    if (broken && body.includes("GROUP BY service, level")) return r.fulfill({ status: 429, json: { error: { code: "rate_limited", message: "too many requests" } }, headers: { "Retry-After": "7" } });
    return r.continue();
  });
  await page.goto(t.node.path(`dashboards/${id}`));
  await panel(page, "By service").getByText("something broke").waitFor();
  await panel(page, "By service").getByText("abc123").waitFor();
  await panel(page, "Rows").getByText("Try again in 7 s.").waitFor();
  await panel(page, "Records").locator(".d-value").waitFor();
  await t.audit(page, "a broken panel");
  broken = false;
  await panel(page, "By service").getByRole("button", { name: "Try again" }).click();
  await panel(page, "By service").locator("li").first().waitFor();
});

test("a panel that cannot be renewed keeps what it shows, and says since when", async () => {
  const { id } = await make(several);
  const page = await t.page({ allow: [/status of 500/] });
  let broken = false;
  await page.route("**/api/v1/query", (r) => (broken && (r.request().postData() ?? "").includes("ORDER BY n DESC") ? r.fulfill({ status: 500, json: { error: { code: "internal", message: "something broke" } } }) : r.continue()));
  await page.goto(t.node.path(`dashboards/${id}`));
  const one = panel(page, "By service");
  await one.locator("li").first().waitFor();
  broken = true;
  await page.getByRole("button", { name: "Refresh" }).click();
  await one.locator(".d-notes .banner", { hasText: /Not renewed since \d\d:\d\d:\d\d: something broke\./ }).waitFor();
  assert.ok((await one.locator(".d-body li").count()) > 0);
  await t.audit(page, "a panel that was not renewed").catch((e: Error) => { if (!/status of 500/.test(e.message)) throw e; });
  broken = false;
  await one.getByRole("button", { name: "Try again" }).click();
  await until("the sign is gone", async () => (await one.locator(".d-notes .banner").count()) === 0);
});

test("at most six queries run at once", async () => {
  const { id } = await make({ title: "Many", panels: Array.from({ length: 12 }, (_, i) => ({ id: i + 1, title: `P${i}`, type: "stat", grid: { x: (i % 12) * 2, y: 0, w: 2, h: 4 }, targets: sql(`SELECT count(*) + ${i} AS n FROM shop`) })) });
  const page = await t.page();
  let now = 0, most = 0;
  await page.route("**/api/v1/query", async (r) => { most = Math.max(most, ++now); await new Promise((f) => setTimeout(f, 100)); await r.continue(); now--; });
  await page.goto(t.node.path(`dashboards/${id}`));
  await panel(page, "P11").locator(".d-value").waitFor();
  assert.ok(most <= 6, `${most} at once`);
});

test("made by hand: a panel on PromQL, moved and sized by keyboard only, undone, saved", async () => {
  const page = await t.page();
  await page.goto(t.node.path("dashboards/new"));
  await page.getByRole("button", { name: "Add a panel" }).click();
  const editor = page.getByRole("dialog");
  await editor.getByLabel("Title").fill(hostileText);
  await editor.getByRole("textbox", { name: "Query A" }).fill("sum(up) or vector(3)");
  await keys(page, "mod+Enter");
  await t.audit(page, "the panel editor");
  await editor.getByRole("button", { name: "Apply" }).click();
  const el = panel(page, hostileText);
  await el.waitFor();
  const area = () => el.evaluate((e) => (e as HTMLElement).style.gridArea.replace(/\s/g, ""));
  assert.equal(await area(), "1/1/span8/span12");
  await el.focus();
  await keys(page, "m ArrowRight ArrowRight Enter");
  assert.equal(await area(), "1/3/span8/span12");
  await keys(page, "r ArrowRight ArrowDown Enter");
  assert.equal(await area(), "1/3/span9/span13");
  await keys(page, "m ArrowRight Escape");
  assert.equal(await area(), "1/3/span9/span13");
  await keys(page, "mod+z");
  await until("one step back", async () => (await area()) === "1/3/span8/span12");
  await t.audit(page, "editing");
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByRole("dialog").getByLabel("Title").fill("Made by hand");
  await t.audit(page, "a dashboard's settings");
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await page.getByRole("heading", { name: "Made by hand" }).waitFor(); // no reader saves before
  await keys(page, "mod+s");
  await page.locator(".toast").getByText("Dashboard saved").waitFor();
  await page.waitForURL(/dashboards\/[0-9a-f-]{36}/);
  await page.reload();
  await page.getByRole("heading", { name: "Made by hand" }).waitFor();
  assert.equal(await area(), "1/3/span8/span12");
});

test("what is changed while a save is under way is not taken for saved, and a second save meanwhile makes no second dashboard", async () => {
  const page = await t.page();
  await page.goto(t.node.path("dashboards/new"));
  const entitle = async (title: string) => {
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("dialog").getByLabel("Title").fill(title);
    await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
    await page.getByRole("heading", { name: title }).waitFor();
  };
  let go = () => {}, made = 0;
  const gate = new Promise<void>((done) => { go = done; });
  await page.route("**/dashboards", async (r) => {
    if (r.request().method() === "POST") { made++; await gate; }
    await r.continue();
  });
  await entitle("Sent first");
  await keys(page, "mod+s");
  await until("the save is under way", () => Promise.resolve(made === 1));
  await entitle("Changed meanwhile");
  await keys(page, "mod+s");
  go();
  await page.locator(".toast").getByText("Dashboard saved").waitFor();
  await page.waitForURL(/dashboards\/[0-9a-f-]{36}/);
  assert.equal(made, 1);
  assert.ok(await page.locator(".editing").count(), "the change is still to be saved");
  await page.getByRole("button", { name: "Save" }).click();
  await until("it is saved", async () => !(await page.locator(".editing").count()));
  await page.reload();
  await page.getByRole("heading", { name: "Changed meanwhile" }).waitFor();
});

test("a private dashboard is made visible from where it is shared, after a question; its link shows the same to others", async () => {
  const made = await t.node.json<Kept>("POST", "/dashboards", { body: { ...several, title: "Mine alone" } });
  const who = { email: "bob@example.com", password: "a lamp on every pier" };
  await t.node.json("POST", "/users", { ...who, role: "viewer" });
  const bob = await t.page({ stranger: true, allow: [/status of 404/] });
  await t.signIn(bob, who);
  await bob.goto(t.node.path(`dashboards/${made.id}`));
  await bob.getByText("There is no such dashboard").waitFor();

  const page = await open(made.id, {}, "?var-svc=payments&refresh=30s");
  const dialog = page.getByRole("dialog", { name: "Share this dashboard" }), visible = dialog.getByRole("button", { name: "Make visible to the organization" });
  await panel(page, "Records").locator(".d-value").waitFor();
  await page.keyboard.press("Shift+Y");
  await dialog.getByText("This dashboard is private").waitFor();
  await t.audit(page, "sharing a private dashboard");
  await t.shot(page, "dashboard-share", { mask: [".d-body", ".d-cost", "dialog textarea", "dialog .choices"] });
  await visible.click();
  await page.getByRole("dialog", { name: /^Make it visible/ }).getByRole("button", { name: "Cancel" }).click();
  assert.equal((await t.node.json<{ shared: boolean }>("GET", `/dashboards/${made.id}`)).shared, false, "made visible without a yes");
  await visible.press("Enter");
  await page.getByRole("button", { name: "Make visible", exact: true }).press("Enter");
  await dialog.getByText("who has the link sees the dashboard").waitFor();
  assert.equal((await t.node.json<{ shared: boolean }>("GET", `/dashboards/${made.id}`)).shared, true);
  await dialog.getByLabel(/Keep it relative/).check();
  assert.match(await dialog.getByLabel("Link").inputValue(), /from=now-3h&to=now/);
  await dialog.getByLabel(/Freeze the time/).check();
  await dialog.getByRole("button", { name: "Copy link" }).click();
  await page.locator(".pagehead").getByText("shared", { exact: true }).waitFor();
  const link = await copied(page, /^http/);
  assert.match(link, /from=20[^&]*Z&to=20[^&]*Z/);
  assert.doesNotMatch(link, /refresh/);
  await bob.goto(link);
  await until("the same service", async () => (await panel(bob, "By service").locator("li").count()) === 1);
  assert.equal(await bob.getByRole("button", { name: "Edit", exact: true }).count(), 0);
});

test("a new panel is put beside the others where there is room; the way back to the list is in the breadcrumbs", async () => {
  const { id } = await make({ title: `Half ${hostileText}`, panels: [several.panels[5], { ...several.panels[0], targets: sql("SELECT count(*) AS n FROM shop") }].map((p, i) => ({ ...p, grid: { x: 0, y: i * 8, w: 12, h: 8 } })) });
  const page = await open(id), area = (title: string) => panel(page, title).evaluate((e) => (e as HTMLElement).style.gridArea.replace(/\s/g, ""));
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("menuitem", { name: "Text" }).click();
  await page.getByRole("dialog").getByLabel("Title").fill("Beside");
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await panel(page, "Beside").waitFor();
  assert.equal(await area("Beside"), "1/13/span8/span12");
  await page.getByRole("button", { name: "Menu of Records" }).click();
  await page.getByRole("menuitem", { name: "Duplicate" }).click();
  await until("the copy is there", async () => (await panel(page, "Records").count()) === 2);
  assert.equal(await panel(page, "Records").nth(1).evaluate((e) => (e as HTMLElement).style.gridArea.replace(/\s/g, "")), "9/13/span8/span12");
  await keys(page, "mod+s");
  await page.locator(".toast").getByText("Dashboard saved").waitFor();
  const crumbs = page.getByRole("navigation", { name: "Breadcrumb" });
  assert.equal((await crumbs.innerText()).replace(/\s+/g, " ").trim(), `/ Dashboards / Half ${hostileText}`);
  await crumbs.getByRole("link", { name: "Dashboards" }).click();
  await page.getByRole("heading", { name: "Dashboards" }).waitFor();
  assert.equal(await crumbs.getByRole("link").count(), 0);
});

test("dragged by pointer, and the time of a brush is the whole dashboard's", async () => {
  const { id } = await make(several);
  const page = await open(id);
  await panel(page, "By level").locator("canvas").waitFor();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await panel(page, "Records").locator(".d-grip").waitFor(); // as soon as it is edited
  const head = (await panel(page, "Records").locator(".d-head").boundingBox())!;
  await page.mouse.move(head.x + 40, head.y + 12);
  await page.mouse.down();
  await page.mouse.move(head.x + 40, head.y + 12 + 38 * 12, { steps: 6 });
  await page.mouse.up();
  await until("it has moved", async () => Number((await panel(page, "Records").evaluate((e) => (e as HTMLElement).style.gridArea)).split("/")[0]) > 1);
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();
  let plot!: { x: number; y: number; width: number };
  await until("it is drawn", async () => (await panel(page, "By level").locator(".u-over").count()) === 1 && (await panel(page, "By level").getAttribute("aria-busy")) === null && (plot = (await panel(page, "By level").locator(".u-over").boundingBox())!));
  await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 40);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.8, plot.y + 40, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=20/);
});

test("a save against somebody else's says who, keeps the changes, and can be a copy; versions are compared and restored", async () => {
  const made = await make(several);
  const page = await open(made.id, { allow: [/status of 4(09|12)/] });
  await panel(page, "Records").waitFor();
  await keys(page, "e");
  await t.node.json("PUT", `/dashboards/${made.id}`, { shared: true, version: made.version, body: { ...several, title: "Theirs" } });
  await page.getByRole("button", { name: "Menu of Notes" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await keys(page, "mod+s");
  const dialog = page.getByRole("dialog", { name: "Somebody else saved this dashboard" });
  await dialog.waitFor();
  await t.audit(page, "a conflict");
  await dialog.getByRole("button", { name: "Take theirs" }).click();
  await page.getByRole("heading", { name: "Theirs" }).waitFor();
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Versions" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Version 1", exact: true }).click();
  await page.getByText(/title: "Shop" → "Theirs"/).waitFor();
  await t.audit(page, "versions");
  await page.getByRole("button", { name: "Restore version 1" }).click();
  await page.getByRole("heading", { name: "Shop", exact: true }).waitFor();
});

test("one of Grafana is imported with a report, and exported", async () => {
  const page = await t.page({ allow: [/status of 400/] });
  await page.goto(t.node.path("dashboards"));
  await page.getByRole("button", { name: "Import" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("or its text").fill("{");
  await dialog.getByRole("button", { name: "Look" }).click();
  await dialog.getByText("This is not JSON").waitFor();
  await dialog.getByLabel("or its text").fill(readFileSync(join(repo, "dashboard/grafana/testdata/modern.json"), "utf8"));
  await dialog.getByRole("button", { name: "Look" }).click();
  await dialog.getByRole("region", { name: "What becomes of it" }).waitFor();
  await t.audit(page, "the report of an import");
  await Promise.all([page.waitForURL(/dashboards\/[0-9a-f-]{36}/), dialog.getByRole("button", { name: "Import" }).click()]);
  await page.locator(".d-panel").first().waitFor();
  await page.getByRole("button", { name: "More", exact: true }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "Export for Grafana" }).click()]);
  assert.ok(Array.isArray((JSON.parse(readFileSync(await file.path(), "utf8")) as { panels: unknown[] }).panels));
});

test("the list: found, starred, deleted and brought back", async () => {
  await make({ ...several, title: `List ${hostileText}`, folder: "ops/night", tags: ["blue"] });
  const page = await t.page();
  await page.goto(t.node.path("dashboards"));
  await page.getByRole("link", { name: `List ${hostileText}` }).waitFor();
  await t.audit(page, "dashboards");
  await t.shot(page, "dashboards", { compare: false });
  await page.getByRole("searchbox", { name: "Name" }).fill("night list");
  await until("one is left", async () => (await page.locator("tbody tr").count()) === 1);
  await page.getByRole("button", { name: /^Star/ }).click();
  assert.equal(await page.getByRole("button", { name: /^Star/ }).getAttribute("aria-pressed"), "true");
  await page.getByRole("button", { name: /^Menu of List/ }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByText("No dashboard matches.").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByRole("link", { name: `List ${hostileText}` }).waitFor();
});

test("an unknown dashboard and an unknown time have a state of their own", async () => {
  const page = await open("00000000-0000-0000-0000-000000000000", { allow: [/status of 404/] });
  await page.getByText("There is no such dashboard").waitFor();
  await t.audit(page, "no such dashboard");
  const { id } = await make(several);
  await page.goto(t.node.path(`dashboards/${id}?from=yesteryear&to=now`));
  await page.getByText(/is not understood/).waitFor();
  await panel(page, "Records").locator(".d-value").waitFor();
});
