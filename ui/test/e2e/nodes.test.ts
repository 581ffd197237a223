// The cluster map: a real node alone, and clusters that are told to the page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { harness, keys, type Page, seed, until } from "./harness.ts";
import type { ClusterNode, Load, Rates } from "../../src/nodes/model.ts";

const t = harness({ seed: (node) => seed.logs(node, { n: 200 }) });

const path = (query = "") => `${t.node.url}/cluster/nodes${query}`;
const card = (page: Page, id: string) => page.locator(`.node[data-node="${id}"],.tile[data-node="${id}"]`);

function node(id: string, roles: string[], o: Partial<ClusterNode> = {}): ClusterNode {
  return { id, self: id === "router-1", roles, state: "up", version: "1.4.2", address: "10.4.33.8:5082", weight: 8, heartbeat_age_seconds: 1.2, since: new Date(Date.now() - 532_800_000).toISOString(), incarnation: 3, load: load(), ...o };
}

function load(o: Partial<Load> = {}, rates: Partial<Rates> = {}): Load {
  return { cpu: 3.4, memory_bytes: 24e9, memory_total_bytes: 64e9, unflushed_bytes: 0, queries_running: 0, ...o, rates: { rows_per_second: 0, stored_bytes_per_second: 0, fetched_bytes_per_second: 0, ...rates } };
}

function cluster(): ClusterNode[] {
  const intakes = [1, 2, 3].map((i) => `intake-${i}`), queriers = [1, 2, 3, 4, 5].map((i) => `querier-${i}`);
  const sent = [...intakes.map((to) => ({ to, writes_per_second: 210, queries_per_second: 0, bytes_per_second: 22e6 })), ...queriers.slice(0, 4).map((to, i) => ({ to, writes_per_second: 0, queries_per_second: 3 + i, bytes_per_second: 1.2e6 }))];
  return [
    node("alert-1", ["alert"], { weight: 2, load: load({ cpu: 0.2 }) }),
    ...[1, 2].map((i) => node(`compactor-${i}`, ["compactor"], { load: load({ cpu: 6.2 }, { fetched_bytes_per_second: 82e6, stored_bytes_per_second: 40e6 }) })),
    ...intakes.map((id, i) => node(id, ["intake"], { load: load({ unflushed_bytes: 1.6e9 }, { rows_per_second: 104_000 + 3000 * i, stored_bytes_per_second: 21e6 }) })),
    ...queriers.map((id, i) => node(id, ["querier"], { weight: 16, load: load({ cpu: 7 + i, queries_running: 4 + i }, { fetched_bytes_per_second: 29e6 * (i + 1) }) })),
    ...[1, 2, 3].map((i) => node(`router-${i}`, ["router"], { weight: 4, load: load({ cpu: 1.2 }), traffic: sent })),
  ].map((n) => (n.id === "querier-4" ? { ...n, heartbeat_age_seconds: 11.3, version: "1.4.1" } : n.id === "querier-5" ? { ...n, state: "draining" as const } : n));
}

/** Tells the page of nodes, or of trouble, as the API would; what it is told can be changed while it looks. */
async function tell(page: Page, nodes: ClusterNode[]) {
  const told = { nodes, trouble: "", status: 200 };
  await page.route("**/api/v1/cluster/events", (r) => told.status !== 200
    ? r.fulfill({ status: told.status, contentType: "application/json", headers: { "Retry-After": "5" }, body: JSON.stringify({ error: { code: "unavailable", message: "the database does not answer" } }) })
    : r.fulfill({ contentType: "text/event-stream", body: told.trouble ? `event: trouble\ndata: ${JSON.stringify({ error: { code: "unavailable", message: told.trouble } })}\n\n` : `event: nodes\ndata: ${JSON.stringify({ nodes: told.nodes })}\n\n` }));
  return told;
}

test("a standalone node: its card, figures and panel, live, by keyboard", async () => {
  const page = await t.page();
  await page.goto(`${t.node.url}/nodes`); // the short way
  assert.equal(new URL(page.url()).pathname, "/cluster/nodes");
  const own = page.locator(".node");
  await own.waitFor();
  assert.equal(await own.count(), 1);
  await until("it is up", async () => /standalone, up, heartbeat \d+ seconds ago/.test((await own.getAttribute("aria-label"))!));
  assert.equal(await page.locator(".mapin .edge").count() > 0, true);
  await page.getByRole("heading", { name: "Load" }).waitFor(); // the only node's panel is open
  assert.match(await page.locator(".side").innerText(), /Roles\s*standalone/);
  await until("rates arrive with the second event", async () => /rows\/s/.test(await page.locator(".statband").innerText()));
  const age = () => page.locator(".node .hb").innerText().then(parseFloat);
  const before = await age();
  await until("the age counts up, or starts again", async () => (await age()) !== before);
  await t.audit(page, "standalone");
  await keys(page, "v");
  await page.getByRole("table").waitFor();
  assert.match(page.url(), /view=table/);
  assert.equal(await page.getByRole("row").count(), 2);
  await t.audit(page, "standalone, table");
  await keys(page, "v p");
  await page.getByRole("button", { name: "Paused" }).waitFor();
  await keys(page, "p");
  await page.getByRole("button", { name: "Live" }).waitFor();
  await keys(page, "Escape");
  assert.equal(await page.locator(".side").isVisible(), false);
  await own.focus();
  await keys(page, "Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "node-h");
});

test("a cluster: nodes by role with their states, traffic of the chosen one, arrow keys, what changes is announced", async () => {
  const page = await t.page();
  const told = await tell(page, cluster());
  await until("the node keeps its own logs, to which the panel leads", async () => (await t.node.json<{ streams: { name: string }[] }>("GET", "/streams")).streams.some((s) => s.name === "_millstream"));
  await page.goto(path());
  await card(page, "querier-4").waitFor();
  assert.deepEqual(await page.locator(".rolehd").allInnerTexts().then((l) => l.map((x) => x.replace(/\s+/g, " "))), ["Routers 3", "Intakes 3", "Queriers 5", "Compactors 2", "Alerting 1"]);
  assert.match((await card(page, "querier-4").getAttribute("class"))!, /st-late/);
  assert.match((await card(page, "querier-5").getAttribute("class"))!, /st-draining/);
  assert.match(await page.locator(".statband").innerText(), /14[\s\S]*13 up[\s\S]*321k rows\/s[\s\S]*1 node on 1\.4\.1/);
  assert.equal(await page.locator(".edge.w:not(.idle)").count(), 9 + 3 + 2);
  assert.equal(await page.locator(".edge.q:not(.idle)").count(), 12);
  await card(page, "router-1").focus();
  await keys(page, "ArrowDown Enter");
  await page.locator("#node-h").waitFor();
  assert.equal(await page.locator("#node-h").innerText(), "router-2");
  assert.match(page.url(), /node=router-2/);
  assert.equal(await page.locator(".edge.hot").count(), 7);
  assert.match(await page.locator(".flows").innerText(), /intake-1\s*210 writes\/s, 22\.0 MB\/s/);
  await t.audit(page, "cluster");
  await page.locator(".flows button", { hasText: "querier-1" }).click();
  await until("the panel follows", async () => (await page.locator("#node-h").innerText()) === "querier-1");
  await until("both figures have a line", async () => (await page.locator(".spark").count()) === 2);
  await page.getByRole("link", { name: "Logs", exact: true }).last().waitFor();
  await t.shot(page, "nodes", { mask: [".num", ".hb", ".beats", ".spark", ".rate"] });
  told.nodes = cluster().filter((n) => n.id !== "intake-3").map((n) => (n.id === "intake-2" ? { ...n, state: "silent" as const, heartbeat_age_seconds: 31, load: undefined } : n));
  await until("a node has gone", async () => (await card(page, "intake-3").count()) === 0);
  await until("it is announced", async () => /intake-2 is silent, intake-3 has left/.test(await page.locator("#live").innerText()));
  await page.reload();
  await until("the address is the state", async () => (await page.locator("#node-h").innerText()) === "querier-1");
});

test("a large cluster is drawn as tiles, the worst first; every state has a sign of its own", async () => {
  const page = await t.page();
  const many = Array.from({ length: 40 }, (_, i) => node(`querier-${i}`, ["querier"], { state: i === 7 ? "fenced" : i === 9 ? "silent" : i === 11 ? "draining" : "up", heartbeat_age_seconds: i === 9 ? 40 : i === 13 ? 9 : 1 }));
  await tell(page, [...many, node("router-1", ["router", "intake"])]);
  await page.goto(path());
  await page.locator(".tile").first().waitFor();
  assert.deepEqual(await page.locator(".tile").evaluateAll((l) => l.slice(0, 5).map((e) => `${(e as HTMLElement).dataset.node} ${getComputedStyle(e.firstElementChild!, "::before").content}`)), ['querier-7 "×"', 'querier-9 "!"', 'querier-13 "…"', 'querier-11 "↓"', 'querier-0 "✓"']);
  assert.match(await card(page, "router-1").innerText(), /\+ intake/);
  await t.audit(page, "tiles");
});

test("draining asks for the name, says what is lost without the node, and what came of it", async () => {
  const page = await t.page({ allow: [/status of 503/] });
  let asked = 0, status = 202;
  const list = cluster().filter((n) => !/^intake-[23]$/.test(n.id));
  await tell(page, list);
  await page.route("**/api/v1/cluster/nodes/*/drain", (r) => { asked++; return r.fulfill({ status, contentType: "application/json", body: JSON.stringify(status === 202 ? { id: "intake-1", state: "draining" } : { error: { code: "unavailable", message: "the node intake-1 cannot be reached" } }) }); });
  await page.goto(path("?node=intake-1"));
  await page.getByRole("button", { name: "Drain…" }).click();
  const dialog = page.getByRole("dialog"), go = dialog.getByRole("button", { name: "Drain" });
  assert.match(await dialog.innerText(), /publishes what is unflushed: 1\.60 GB now[\s\S]*only live node with the role intake: until another one starts, writes would be refused/);
  assert.equal(await go.isDisabled(), true);
  await t.audit(page, "drain");
  await page.keyboard.type("intake-");
  assert.equal(await go.isDisabled(), true);
  await keys(page, "Enter");
  assert.equal(asked, 0);
  await keys(page, "1 Enter");
  await page.locator(".toast", { hasText: "Node intake-1 is draining" }).waitFor();
  assert.equal(asked, 1);
  status = 503;
  for (const close of await page.getByRole("button", { name: "Close the message" }).all()) await close.click();
  await page.getByRole("button", { name: "Drain…" }).click();
  await page.keyboard.type("intake-1");
  await go.click();
  await page.locator(".toast", { hasText: "Node intake-1 was not drained. The node intake-1 cannot be reached" }).waitFor();
  for (const close of await page.getByRole("button", { name: "Close the message" }).all()) await close.click();
  await page.getByRole("button", { name: "Drain…" }).click();
  await keys(page, "Escape");
  assert.equal(asked, 2);
});

test("faults: no answer at first, the database away, the stream lost", async () => {
  const page = await t.page({ allow: [/status of 503/, /ERR_FAILED/] });
  const told = await tell(page, cluster());
  told.status = 503;
  await page.goto(path());
  await page.locator(".state", { hasText: "the database does not answer" }).waitFor();
  await t.audit(page, "no answer");
  const again = page.getByRole("button", { name: "Try again" });
  await again.focus();
  await page.waitForResponse((r) => r.url().endsWith("/cluster/events")); // the page tries by itself, and the button keeps the focus
  await page.waitForTimeout(200);
  assert.equal(await again.evaluate((b) => b === document.activeElement), true);
  told.status = 200;
  await page.keyboard.press("Enter");
  await card(page, "router-1").waitFor();
  told.trouble = "the database does not answer";
  await page.locator(".banner", { hasText: /The nodes cannot be read: the database does not answer. What is shown is/ }).waitFor();
  assert.match((await page.locator(".store.bad").innerText()), /not read/);
  await t.audit(page, "trouble");
  told.trouble = "";
  await until("it is over", async () => (await page.locator(".banner").count()) === 0);
  await page.route("**/api/v1/cluster/events", (r) => r.abort());
  const text = await page.locator(".banner", { hasText: /What is shown is [\d.]+ s old; it is tried again\./ }).innerText();
  assert.match(text, /cannot be reached|no news/);
  const old = await page.locator(".node .hb").first().innerText();
  await new Promise((r) => setTimeout(r, 2200));
  assert.equal(await page.locator(".node .hb").first().innerText(), old, "ages do not grow by guesses");
});
