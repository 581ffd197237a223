// The first minutes with a node: set it up, sign in, look around the frame.
import assert from "node:assert/strict";
import { test } from "node:test";
import { harness, keys, owner, type Page, until } from "./harness.ts";

const t = harness({ fresh: true });

const text = (page: Page, selector: string) => page.locator(selector).first().innerText();

test("the first run: a wrong code is refused with what was typed kept; the right one makes the owner and signs in", async () => {
  const page = await t.page({ stranger: true, allow: [/status of 4\d\d/] });
  await page.goto(t.node.url);
  assert.match(page.url(), /\/setup$/);
  await t.audit(page, "setup");
  await page.fill("#code", "not the code");
  await page.fill("#email", owner.email);
  await page.fill("#password", owner.password);
  await page.fill("#organization", "default");
  await page.click("form button.primary");
  assert.match(await text(page, "[role=alert]"), /code/i);
  assert.equal(await page.inputValue("#email"), owner.email);
  await page.fill("#code", t.node.setupCode);
  await page.fill("#password", owner.password);
  await page.click("form button.primary");
  await page.getByRole("heading", { name: "The node is set up" }).waitFor();
  await t.audit(page, "the first token");
  await t.node.authorize();
});

test("signing in: a wrong password says no more than that; the way back leads to where the reader wanted to go", async () => {
  const page = await t.page({ stranger: true, allow: [/status of 401/] });
  await page.goto(t.node.path("logs") + "?q=timeout&from=now-1h");
  assert.match(page.url(), /\/login\?next=/);
  await t.audit(page, "login");
  await t.shot(page, "login");
  await page.fill("#email", owner.email);
  await page.fill("#password", "not the password");
  await page.click("form button.primary");
  assert.match(await text(page, "[role=alert]"), /e-mail|password/i);
  assert.equal(await page.inputValue("#email"), owner.email);
  await page.fill("#password", owner.password);
  await page.click("form button.primary");
  await page.waitForURL(/\/default\/logs\?q=timeout&from=now-1h$/);
});

test("signing in by keyboard, and out again", async () => {
  const page = await t.page({ stranger: true });
  await page.goto(`${t.node.url}/login`);
  await page.locator("#email:focus").waitFor();
  await page.keyboard.type(owner.email);
  await page.keyboard.press("Tab");
  await page.keyboard.type(owner.password);
  await Promise.all([page.waitForURL(/\/logs/), page.keyboard.press("Enter")]);
  await page.focus("#account");
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Sign out" }).focus();
  await Promise.all([page.waitForURL(/\/login/), page.keyboard.press("Enter")]);
  await page.goto(t.node.path("logs"));
  assert.match(page.url(), /\/login\?next=/);
});

test("the frame: theme and density change at once and stay", async () => {
  const page = await t.page();
  await page.goto(t.node.path("traces"));
  const kept = () => page.waitForResponse((r) => r.url().endsWith("/preferences") && r.request().method() === "PUT" && r.ok());
  await Promise.all([kept(), page.click("#theme")]);
  assert.equal(await page.getAttribute("html", "data-theme"), "dark");
  await page.click("#account");
  await Promise.all([kept(), page.getByRole("menuitemradio", { name: "Compact" }).click()]);
  assert.equal(await page.getAttribute("html", "data-density"), "compact");
  await page.reload();
  assert.equal(await page.getAttribute("html", "data-theme"), "dark");
  assert.equal(await page.getAttribute("html", "data-density"), "compact");
  // Another browser of the same reader has them too.
  await page.context().clearCookies({ name: "ms_look" });
  await page.reload();
  assert.equal(await page.getAttribute("html", "data-theme"), "dark");
  await page.click("#account");
  await Promise.all([kept(), page.getByRole("menuitemradio", { name: "Normal" }).click()]);
  await Promise.all([kept(), page.click("#theme")]);
  assert.equal(await page.getAttribute("html", "data-theme"), "light");
});

test("the frame: another organization", async () => {
  await t.node.json("POST", "/organizations", { slug: "other", name: "Other" }, { Authorization: `Bearer ${(await t.node.json<{ token: string }>("POST", "/auth/login", owner)).token}` });
  const page = await t.page();
  await page.goto(t.node.path("metrics"));
  await page.focus("#org");
  await keys(page, "Enter");
  await page.getByRole("menuitemradio", { name: "other" }).focus();
  await Promise.all([page.waitForURL(/\/other\/metrics/), keys(page, "Enter")]);
  assert.match(await text(page, "#org"), /other/);
});

test("a session that ended is renewed in place: nothing is lost", async () => {
  const page = await t.page({ allow: [/status of 401/] });
  await page.goto(t.node.path("dashboards"));
  await page.context().clearCookies({ name: "ms_session" });
  const asked = page.evaluate(async () => { (document.querySelector("#theme") as HTMLElement).click(); });
  await asked;
  const dialog = page.getByRole("dialog", { name: "Your session has ended" });
  await dialog.waitFor();
  await t.audit(page, "renewing the session");
  await dialog.getByLabel("Password").fill("wrong");
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Password").fill(owner.password);
  const kept = page.waitForResponse((r) => r.url().endsWith("/preferences") && r.ok());
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await kept;
  await dialog.waitFor({ state: "detached" });
  await Promise.all([page.waitForResponse((r) => r.url().endsWith("/preferences") && r.ok()), page.click("#theme")]);
});

test("a page left open in another tab signs in again after its reader has signed out, and goes on", async () => {
  const page = await t.page({ stranger: true, allow: [/status of 40[13]/] });
  await t.signIn(page);
  await page.goto(t.node.path("dashboards"));
  const other = await page.context().newPage();
  await other.goto(t.node.path("metrics"));
  await other.evaluate(() => (document.querySelector("#logout") as HTMLFormElement).submit());
  await other.waitForURL(/\/login/);
  await page.click("#theme");
  const dialog = page.getByRole("dialog", { name: "Your session has ended" });
  await dialog.getByLabel("Password").fill(owner.password);
  const kept = page.waitForResponse((r) => r.url().endsWith("/preferences") && r.ok());
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await kept;
  await dialog.waitFor({ state: "detached" });
});

test("a second click on a form's button sends it once: the invitation stays in sight", async () => {
  const page = await t.page();
  await page.goto(t.node.path("access"));
  await page.fill("#email", "twice@example.test");
  await page.getByRole("button", { name: "Add", exact: true }).dblclick();
  await page.getByRole("heading", { name: "Invitation for twice@example.test" }).waitFor();
});

test("help lists the keys, and single letters go to the pages", async () => {
  const page = await t.page();
  await page.goto(t.node.path("dashboards"));
  await keys(page, "?");
  const help = page.getByRole("dialog", { name: "Keys of this page" });
  await help.getByText("Go to Traces").waitFor();
  await t.audit(page, "help");
  await keys(page, "Escape");
  await help.waitFor({ state: "detached" });
  await Promise.all([page.waitForURL(/\/default\/traces/), keys(page, "g t")]);
});

test("the palette finds pages, streams and actions, and opens a pasted trace id", async () => {
  await t.node.json("POST", "/intake/json/shop-orders", [{ message: "hello" }]);
  await t.node.flush();
  const page = await t.page({ allow: [/status of 404/] });
  await page.goto(t.node.path("dashboards"));
  await keys(page, "mod+k");
  const palette = page.getByRole("dialog", { name: "Jump to, search, run" });
  await palette.getByRole("option").first().waitFor();
  await t.audit(page, "palette");
  await page.keyboard.type("orders");
  await palette.getByRole("option", { name: /shop-orders/ }).waitFor();
  await keys(page, "Enter");
  await page.waitForURL(/\/default\/logs\?stream=shop-orders/);
  await keys(page, "mod+k");
  await page.keyboard.type("thme");
  await palette.getByRole("option", { name: /theme/i }).first().waitFor();
  await page.locator("[role=combobox]").fill("4bf92f3577b34da6a3ce929d0e0e4736");
  await palette.getByRole("option", { name: /Open trace/ }).waitFor();
  await Promise.all([page.waitForURL(/\/default\/traces\/4bf92f3577b34da6a3ce929d0e0e4736$/), keys(page, "Enter")]);
});

test("the connection is lost and comes back", async () => {
  const page = await t.page({ allow: [/Failed to load resource|ERR_/] });
  await page.goto(t.node.path("dashboards"));
  await until("the node is healthy", async () => /Healthy/.test(await text(page, "#health")));
  await t.node.stop("SIGKILL");
  await page.evaluate(() => document.dispatchEvent(new CustomEvent("ms:offline")));
  await until("the loss is shown", async () => /Connection lost/.test(await text(page, "#health")));
  await t.node.run();
  await until("it is back", async () => /Healthy/.test(await text(page, "#health")));
});
