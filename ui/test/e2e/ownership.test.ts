// Ownership of segments: a real node that owns all of them, and clusters that are told to the page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { harness, keys, type Page, seed, until } from "./harness.ts";
import { type Member, ownership, pieces, ranking, simulation } from "./ownership_answers.ts";

const t = harness({ seed: async (node) => { await seed.logs(node, { n: 400 }); await node.flush(); await seed.logs(node, { n: 100, stream: "edge" }); } });

const path = (query = "") => `${t.node.url}/cluster/ownership${query}`;
const text = async (page: Page, where: string) => (await page.locator(where).innerText()).replace(/\s+/g, " ");

const five: Member[] = [
  { id: "querier-1", weight: 16, cached: 611e9, warm: 96.4 }, { id: "querier-2", weight: 16, cached: 604e9, warm: 95.9 }, { id: "querier-3", weight: 24, cached: 930e9, warm: 97.2 }, { id: "querier-4", weight: 16, cached: 402e9, warm: 71.5 }, { id: "querier-5", weight: 8, cached: 298e9, warm: 94.4 },
];
const segments = pieces(12_000);

/** Answers for a cluster; what fails can be changed while the page looks. */
async function tell(page: Page, members: Member[], all = segments) {
  const told = { status: 200, asked: [] as URLSearchParams[], bodies: [] as unknown[] };
  await page.route("**/api/v1/cluster/ownership**", async (r) => {
    const u = new URL(r.request().url());
    if (told.status !== 200) return r.fulfill({ status: told.status, contentType: "application/json", headers: { "Retry-After": "3", "X-Request-Id": "req-1" }, body: JSON.stringify({ error: { code: "unavailable", message: "the database does not answer" } }) });
    const id = /\/segments\/(.+)$/.exec(u.pathname)?.[1];
    if (id) return r.fulfill({ json: ranking(decodeURIComponent(id), members) });
    if (u.pathname.endsWith("/simulate")) { told.bodies.push(r.request().postDataJSON()); return r.fulfill({ json: simulation(all, members, r.request().postDataJSON()) }); }
    told.asked.push(u.searchParams);
    const at = (name: string) => { const v = u.searchParams.get(name); return v && /^\d/.test(v) ? Date.parse(v) : undefined; };
    return r.fulfill({ json: ownership(all, members, Number(u.searchParams.get("buckets")), at("start"), at("end")) });
  });
  return told;
}

test("a standalone node owns everything, says why, and can be asked what another one would take", async () => {
  const page = await t.page();
  await page.goto(`${t.node.url}/ownership`); // the short way
  assert.equal(new URL(page.url()).pathname, "/cluster/ownership");
  await page.getByText(/owns every segment: it is the only node that runs queries/).waitFor();
  const row = page.locator(".ow-members tbody tr");
  assert.equal(await row.count(), 1);
  assert.match((await row.innerText()).replace(/\s+/g, " "), /vCPU 100% 100%/);
  assert.match(await text(page, ".statband"), /Segments \d+ .*Owners 1 /);
  await t.audit(page, "standalone");
  await page.fill("#wi-name", "querier-9");
  await page.fill("#wi-weight", "4");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByText("0 segments move between the nodes that stay as they are").waitFor();
  assert.match(page.url(), /add=querier-9:4/);
  await t.audit(page, "what if, alone");

  // From the stream's list of segments to the owner of one.
  await page.goto(t.node.path("streams/logs/edge?tab=segments"));
  await page.locator("tbody th a").first().click();
  await page.waitForURL(/cluster\/ownership\?segment=/);
  await page.getByText("owner", { exact: true }).waitFor();
  assert.match(await text(page, ".ow-rank"), /logs \/ edge, .*100 rows/);
  await page.selectOption(".ow-streams", { label: "logs / edge" });
  await until("only the stream's segments are counted", async () => /Segments 1 /.test(await text(page, ".statband")));
});

test("a cluster: shares, heatmap by keyboard and as a table, closer looks", async () => {
  const page = await t.page(), told = await tell(page, five);
  await page.goto(path());
  await page.locator(".ow-members tbody tr").nth(4).waitFor();
  assert.match(await text(page, ".statband"), /Segments 12,000 .*Owners 5 80 vCPU.*Cached 2.8\d TB.*Cache warm 9\d\.\d%/);
  assert.match(await text(page, ".ow-members tbody tr:nth-child(4)"), /^querier-4 16 vCPU 20\.0% (19|20)\.\d% [+−]\d\.\d% 2,\d{3} .* 402 GB 71.5%$/);
  await t.audit(page, "a cluster");
  assert.equal(told.asked[0]!.get("buckets"), "60");
  await page.locator(".ow-plot").focus();
  await keys(page, "ArrowLeft");
  await page.locator(".ow-tip h3").getByText("querier-1").waitFor();
  await keys(page, "ArrowDown ArrowDown ArrowLeft");
  await until("the cell is read out", async () => /^querier-3, 2026-0\d-\d\d .*: \d+ segments?, /.test(await page.locator("#live").innerText()));
  await keys(page, "Enter");
  await page.waitForURL(/from=2026-0/);
  await until("the column is asked for", () => told.asked.length > 1 && told.asked[told.asked.length - 1]!.get("start")!.startsWith("2026-0"));
  await page.getByRole("button", { name: "All", exact: true }).click();
  await page.waitForURL((u) => !u.search.includes("from"));
  await page.getByRole("button", { name: "Show as table" }).click();
  await page.getByRole("table").filter({ hasText: "From (UTC)" }).waitFor();
  assert.equal(await page.locator(".ow-table tbody tr").count(), 60);
  await t.audit(page, "the heatmap as a table");
  await page.getByRole("button", { name: "Show as heatmap" }).click();
  for (const mode of ["Bytes", "Share"]) {
    await page.getByRole("button", { name: mode, exact: true }).click();
    await until(mode, async () => (await page.getByRole("button", { name: mode, exact: true }).getAttribute("aria-pressed")) === "true");
  }
  assert.match(page.url(), /view=share/);
  await t.audit(page, "deviations");
  await page.reload();
  await page.locator(".ow-scale").getByText("more than its weight").waitFor();
});

test("what if, by keyboard: a node comes, another goes, a third gets heavier; the address keeps it", async () => {
  const page = await t.page(), told = await tell(page, five);
  await page.goto(path("?segment=0199a0c4-7c1e-7000-8000-000000000042"));
  await page.locator(".ow-order li").nth(4).waitFor();
  assert.match(await text(page, ".ow-order li:first-child"), /^1 querier-\d owner \d/);
  await page.focus("#wi-name");
  assert.equal(await page.inputValue("#wi-name"), "querier-6");
  await keys(page, "Tab");
  await page.keyboard.type("16");
  await keys(page, "Enter");
  await page.locator(".ow-flow").waitFor();
  const moves = page.locator(".ow-moves tbody tr");
  assert.equal(await moves.count(), 5);
  for (const row of await moves.allInnerTexts()) assert.match(row.replace(/\s+/g, " "), /^querier-[1-5] querier-6 /);
  assert.match(await text(page, ".ow-bigs"), /^1[67]\.\d% [\d,]+ segments of 12,000/);
  await page.getByText("querier-6 owns").waitFor();
  await t.audit(page, "a node comes");
  await t.shot(page, "ownership");
  await page.getByRole("button", { name: "Leave out: + querier-6, 16 vCPU" }).focus();
  await keys(page, "Enter");
  await page.waitForURL((u) => !u.search.includes("add="));
  await page.getByRole("button", { name: "Remove node" }).focus();
  await keys(page, "Enter Tab Tab");
  await page.selectOption("#wi-node", "querier-5");
  await page.getByRole("button", { name: "Simulate" }).focus();
  await keys(page, "Enter");
  await until("only its segments move", async () => (await moves.allInnerTexts()).every((x) => x.startsWith("querier-5")) && (await moves.count()) === 4);
  await page.getByRole("button", { name: "Weight", exact: true }).click();
  await page.selectOption("#wi-node", "querier-1");
  assert.equal(await page.inputValue("#wi-weight"), "32");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.waitForURL(/remove=querier-5&weight=querier-1:32/);
  assert.deepEqual(told.bodies.at(-1), { add: [], remove: ["querier-5"], reweigh: [{ id: "querier-1", weight: 32 }] });
  await page.reload();
  await page.locator(".ow-plan li").nth(1).waitFor();
  await page.locator(".ow-moves").waitFor();
  await page.goBack();
  await until("back", async () => (await page.locator(".ow-plan li").count()) === 1);
  await page.getByRole("button", { name: "Add node" }).click();
  await page.fill("#wi-name", "querier-2");
  await page.getByRole("button", { name: "Simulate" }).click();
  assert.match(await text(page, ".ow-problem"), /There is a node querier-2 already/);
});

test("a node has one colour everywhere, whichever answer comes first", async () => {
  const page = await t.page();
  await tell(page, five);
  let go = () => {};
  const later = new Promise<void>((r) => { go = r; });
  await page.route("**/api/v1/cluster/ownership?**", async (r) => { await later; await r.fallback(); });
  await page.goto(path("?segment=0199a0c4-7c1e-7000-8000-000000000042&add=querier-6:16"));
  await page.locator(".ow-moves tbody tr").nth(4).waitFor();
  await page.locator(".ow-order li").nth(4).waitFor();
  go();
  await page.locator(".ow-members tbody tr").nth(4).waitFor();
  const colours = await page.locator(".ow-node").evaluateAll((list) => list.map((e) => [e.textContent!, getComputedStyle(e.querySelector("i")!).backgroundColor] as const));
  assert.equal(new Set(colours.map(([id]) => id)).size, 6);
  assert.equal(new Set(colours.map((x) => x.join(" "))).size, 6, JSON.stringify(colours));
  assert.equal(await page.inputValue("#wi-weight"), "16", "as most of the others");
});

test("a hundred nodes, one of them silent and some that do not tell", async () => {
  const page = await t.page(), many = Array.from({ length: 100 }, (_, i) => ({ id: `querier-${String(i + 1).padStart(3, "0")}`, weight: [8, 16, 32][i % 3]!, ...(i % 4 ? { cached: 1e11, warm: 90 } : {}), ...(i === 2 ? { state: "silent" } : {}) }));
  await tell(page, many, segments.slice(0, 4000));
  await page.goto(path("?segment=0199a0c4-7c1e-7000-8000-000000000042&remove=querier-002"));
  await page.locator(".ow-members .pill").getByText("silent").waitFor();
  assert.match(await text(page, ".statband"), /75 of 100 nodes tell/);
  await page.locator(".ow-moves").waitFor();
  assert.equal(await page.locator(".ow-moves tbody tr").count(), 12);
  await page.getByText(/^and \d+ smaller ones/).waitFor();
  assert.equal(await page.locator(".ow-flow").count(), 0);
  await page.getByRole("button", { name: "Show the other 92" }).click();
  assert.equal(await page.locator(".ow-order li").count(), 100);
  await t.audit(page, "a hundred nodes");
});

test("nothing there yet, and nobody there", async () => {
  const page = await t.page();
  await tell(page, five, []);
  await page.goto(path());
  await page.getByRole("heading", { name: "No segments yet" }).waitFor();
  await t.audit(page, "no segments");
  await page.unroute("**/api/v1/cluster/ownership**");
  await page.route("**/api/v1/cluster/ownership?**", (r) => r.fulfill({ json: { placement_version: 0, segments: 7, bytes: 700, members: [], heatmap: { bucket_seconds: 1, buckets: 60, start: "2026-03-01T00:00:00Z", end: "2026-03-01T00:01:00Z", rows: [] } } }));
  await page.reload();
  await page.getByRole("heading", { name: "7 segments without an owner" }).waitFor();
  await page.getByRole("heading", { name: "No node owns segments" }).waitFor();
  await t.audit(page, "nobody");
});

test("what fails says so, keeps what there is, and is tried again", async () => {
  const page = await t.page({ allow: [/status of (503|404|400)/] }), told = await tell(page, five);
  told.status = 503;
  await page.goto(path("?segment=0199a0c4-7c1e-7000-8000-000000000042&add=querier-6:16"));
  await page.locator(".ow-heat [role=alert]").waitFor();
  await page.locator(".ow-rank [role=alert]").waitFor();
  await page.locator(".ow-result [role=alert]").waitFor();
  await t.audit(page, "the database is away");
  told.status = 200;
  for (const where of [".ow-heat", ".ow-rank", ".ow-result"]) await page.locator(where).getByRole("button", { name: "Try again" }).click();
  await page.locator(".ow-members tbody tr").nth(4).waitFor();
  await page.locator(".ow-order li").nth(4).waitFor();
  await page.locator(".ow-moves").waitFor();
  told.status = 503;
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText(/Not renewed since .*the database does not answer/).waitFor();
  assert.equal(await page.locator(".ow-members tbody tr").count(), 5);
  told.status = 200;
  await page.locator(".notes").getByRole("button", { name: "Try again" }).click();
  await page.getByText(/Not renewed since/).waitFor({ state: "hidden" });

  // The real node: a segment that is not, a stream that is not, a change that cannot be.
  await page.unroute("**/api/v1/cluster/ownership**");
  await page.goto(path("?segment=0199a0c4-7c1e-7000-8000-000000000042&stream=logs/nothing&remove=querier-7"));
  await page.getByText(/There is no live segment with the id/).waitFor();
  await page.getByText(/there is no node "querier-7" among those that own segments/i).waitFor();
  await page.getByText(/there is no stream "nothing"/i).waitFor();
  await page.getByRole("button", { name: "Show all segments" }).click();
  await page.locator(".ow-members tbody tr").waitFor();
});
