// The ground of the browser tests: a real node and a real Chromium for each file, and what every page must pass.
//
//   const t = harness({ seed: async (node) => { await seed.logs(node); } });
//   test("…", async () => { const page = await t.page(); await page.goto(t.node.path("logs")); … });
//
// Each page is watched: a console error, a violation of the content policy, a request to another origin or a script that ran out of data fails the test.
import axe from "axe-core";
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, type TestContext } from "node:test";
import pixelmatch from "pixelmatch";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { PNG } from "pngjs";
import { owner, repo, TestNode } from "./node.ts";

export { owner, TestNode } from "./node.ts";
export * as seed from "./seed.ts";
export type { Page } from "playwright-core";

export const widths = [320, 390, 768, 1100, 1440, 1920];

const shots = join(repo, "docs", "screenshots");

export interface Options {
  fresh?: boolean; // nobody has set the node up
  env?: Record<string, string>; // settings of the node
  seed?: (node: TestNode) => Promise<unknown>; // once, before the tests; what it put in is in segments when they begin
}

export interface PageOptions {
  theme?: "light" | "dark";
  width?: number;
  height?: number;
  touch?: boolean; // by a finger: there is no hovering
  stranger?: boolean; // not signed in
  allow?: RegExp[]; // console errors that the test provokes
}

export class Harness {
  node!: TestNode;
  browser!: Browser;
  #session: Awaited<ReturnType<BrowserContext["storageState"]>> | undefined;
  #open: { context: BrowserContext; problems: string[] }[] = [];
  #problems = new WeakMap<Page, string[]>();

  constructor(private o: Options) {}

  async start() {
    const launched = chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb", "--font-render-hinting=none"] });
    this.node = await TestNode.start(this.o);
    await this.o.seed?.(this.node);
    if (this.o.seed) await this.node.flush();
    this.browser = await launched;
  }

  async stop() {
    await this.browser?.close();
    await this.node?.close();
  }

  /** Opens a page of 1440 x 900, signed in as the owner. */
  async page(o: PageOptions = {}): Promise<Page> {
    if (!o.stranger) this.#session ??= await this.#signIn();
    const context = await this.browser.newContext({ viewport: { width: o.width ?? 1440, height: o.height ?? 900 }, ...(o.touch ? { hasTouch: true, isMobile: true } : {}), colorScheme: o.theme ?? "light", reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB", permissions: ["clipboard-read", "clipboard-write"], ...(o.stranger ? {} : { storageState: this.#session! }) });
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (e) => console.error(`content policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
      // Even the shortest transition is a moment in which the colours of two themes mix.
      const still = new CSSStyleSheet();
      still.replaceSync("*,*::before,*::after{transition:none!important}");
      document.adoptedStyleSheets = [still];
    });
    const page = await context.newPage(), problems: string[] = [];
    if (process.env.SLOW) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: Number(process.env.SLOW) }); // SLOW=4: how a test behaves on a slow machine
    page.setDefaultTimeout(60_000); // a state is waited for; how soon it comes is the machine's affair
    page.setDefaultNavigationTimeout(120_000); // a document and all of its scripts
    const ended = /status of 404 .*\/query\/running\//; // a query that has ended before its cancellation came
    const note = (text: string) => { if (!ended.test(text) && !o.allow?.some((a) => a.test(text))) problems.push(text); };
    if (process.env.DEBUG_E2E) page.on("response", async (r) => { if (r.status() >= 400) console.log(r.status(), r.url(), r.request().postData(), await r.text().catch(() => "")); });
    page.on("console", (m) => { if (m.type() === "error") note(`console: ${m.text()} (${m.location().url})`); });
    page.on("pageerror", (e) => note(`error: ${e.stack ?? e.message}`));
    page.on("request", (r) => { if (!/^(data|blob):/.test(r.url()) && new URL(r.url()).origin !== this.node.url) note(`foreign request: ${r.url()}`); });
    this.#open.push({ context, problems });
    this.#problems.set(page, problems);
    return page;
  }

  /** Types the owner's name and password into the sign-in page. */
  async signIn(page: Page, who = owner) {
    await page.goto(`${this.node.url}/login`);
    await page.fill("#email", who.email);
    await page.fill("#password", who.password);
    await Promise.all([page.waitForURL((u) => !u.pathname.endsWith("/login")), page.click("form button.primary")]);
  }

  async #signIn() {
    const page = await this.page({ stranger: true });
    await this.signIn(page);
    return page.context().storageState();
  }

  /** Closes the test's pages and fails if one of them had a problem. If the test failed, it says first what they showed. */
  async settle(of?: { passed?: boolean }) {
    const list = this.#open.splice(0);
    if (of?.passed === false) {
      for (const p of list.flatMap(({ context }) => context.pages())) {
        const shown = await p.evaluate(() => `${[...document.querySelectorAll("[aria-busy=true]")].map((e) => `busy: ${e.tagName.toLowerCase()}.${e.className}\n`).join("")}${document.body.innerText.slice(0, 1500)}`).catch((e: Error) => e.message);
        console.log(`left at ${p.url()}\n${shown.replace(/\n+/g, "\n")}`);
      }
    }
    for (const { context } of list) {
      for (const p of context.pages()) if (!p.isClosed() && (await p.evaluate(() => "__hit" in window).catch(() => false))) list[0]!.problems.push("a script ran that came as data");
      await context.close();
    }
    assert.deepEqual(list.flatMap((x) => x.problems), []);
  }

  /** What every page must pass: axe in both themes, and nothing wider than the window at any width. */
  async audit(page: Page, name: string) {
    const size = page.viewportSize()!;
    for (const width of widths) {
      await page.setViewportSize({ width, height: size.height });
      await painted(page);
      let found: string[] = [];
      await until("", async () => (found = await page.evaluate(overflow)).length === 0, 10_000).catch(() => assert.fail(`${name}: wider than ${width} px: ${found.join(", ")}`)); // what is drawn for a width may come some frames later
    }
    await page.setViewportSize(size);
    assert.deepEqual(await page.evaluate(cutHard), [], `${name}: texts that are cut without an ellipsis`);
    for (const theme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
      await painted(page);
      assert.deepEqual(await violations(page), [], `${name}: axe, ${theme}`);
    }
    assert.deepEqual(this.#problems.get(page), [], name);
  }

  /**
   * Compares the page at 1440 x 900 with the stored picture, if there is one: 0.2 % of the pixels may differ, outside the elements of `mask`, which show times
   * and measured figures. With SHOTS=1 it stores the picture instead, and one of 390 px.
   */
  async shot(page: Page, name: string, o: { mask?: string[]; compare?: boolean } = {}) {
    for (const theme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
      const file = join(shots, `${name}-${theme}.png`);
      let now = await picture(page, 1440, 900);
      if (process.env.SHOTS) {
        mkdirSync(shots, { recursive: true });
        writeFileSync(file, now);
        writeFileSync(join(shots, `${name}-${theme}-390.png`), await picture(page, 390, 844));
        await page.setViewportSize({ width: 1440, height: 900 });
      } else if (o.compare !== false && existsSync(file)) {
        const was = readFileSync(file), differs = () => difference(page, was, now, o.mask ?? []);
        let share = await differs();
        for (const end = Date.now() + 10_000; share > 0.002 && Date.now() < end; share = await differs()) now = await picture(page, 1440, 900); // charts and fonts are drawn when they are there
        if (share > 0.002) mkdirSync(join(repo, ".cache"), { recursive: true });
        if (share > 0.002) writeFileSync(join(repo, ".cache", `${name}-${theme}.actual.png`), now);
        assert.ok(share <= 0.002, `${name}: ${(share * 100).toFixed(2)}% of the pixels differ from ${file}; see .cache/${name}-${theme}.actual.png`);
      }
    }
  }
}

/** Starts a node and a browser around the tests of a file. */
export function harness(o: Options = {}): Harness {
  const t = new Harness(o);
  before(() => t.start(), { timeout: 600_000 });
  afterEach((of) => t.settle(of as TestContext & { passed?: boolean })); // the types lack it
  after(() => t.stop());
  return t;
}

/** Presses keys, one after another: "j j Enter mod+k shift+J". */
export async function keys(page: Page, list: string) {
  for (const k of list.split(" ")) await page.keyboard.press(k.replace(/^mod\+/, "Control+").replace(/^shift\+/, "Shift+").replace(/\+([a-z])$/, (m, c: string) => (k.startsWith("shift+") ? "+" + c.toUpperCase() : m)));
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => Promise<unknown> | unknown, ms = 90_000) {
  for (const end = Date.now() + ms; ; await new Promise((r) => setTimeout(r, 50))) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
  }
}

/** Waits until the clipboard has a text like this, and returns it: a page puts it there some time after the click. */
export async function copied(page: Page, like: RegExp): Promise<string> {
  let text = "";
  await until(`the clipboard has ${like}`, async () => like.test((text = await page.evaluate(() => navigator.clipboard.readText()))));
  return text;
}

/** Tells how long a page's main thread computes for what is done to it, in ms, with the frame after it. Time on the clock would also be that of the machine's other work. */
export async function computing(page: Page): Promise<(act: () => Promise<unknown>) => Promise<number>> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration")!.value * 1000;
  return async (act) => {
    const before = await busy();
    await act();
    await painted(page);
    return (await busy()) - before;
  };
}

const painted = (page: Page) => page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));

async function picture(page: Page, width: number, height: number): Promise<Buffer> {
  await page.setViewportSize({ width, height });
  await page.evaluate(async () => { (document.activeElement as HTMLElement | null)?.blur?.(); await document.fonts.ready; });
  await painted(page);
  return page.screenshot({ animations: "disabled", caret: "hide" });
}

async function difference(page: Page, was: Buffer, now: Buffer, mask: string[]): Promise<number> {
  const a = PNG.sync.read(was), b = PNG.sync.read(now);
  if (a.width !== b.width || a.height !== b.height) return 1;
  const boxes = mask.length ? await page.locator(mask.join(",")).evaluateAll((list) => list.map((e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom].map(Math.round) as [number, number, number, number]; })) : [];
  for (const [left, top, right, bottom] of boxes) {
    for (let y = Math.max(0, top); y < Math.min(a.height, bottom); y++) for (const p of [a, b]) p.data.fill(0, (y * a.width + Math.max(0, left)) * 4, (y * a.width + Math.min(a.width, Math.max(0, right))) * 4);
  }
  return pixelmatch(a.data, b.data, undefined, a.width, a.height, { threshold: 0.15 }) / (a.width * a.height);
}

/** Elements that reach out of the window to the right, or that the frame cuts off. */
function overflow(): string[] {
  const out: string[] = [], root = document.documentElement, main = document.querySelector("main");
  if (root.scrollWidth > innerWidth) out.push(`document ${root.scrollWidth}`);
  if (main && main.scrollWidth > main.clientWidth + 1) {
    out.push(`main ${main.scrollWidth} > ${main.clientWidth}`);
    for (const e of main.querySelectorAll("*")) {
      const r = e.getBoundingClientRect();
      if (r.width > 0 && r.right > main.getBoundingClientRect().right + 1 && out.length < 6) out.push(`${e.tagName.toLowerCase()}.${e.getAttribute("class") ?? ""} to ${Math.round(r.right)}`);
    }
  }
  return out;
}

async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const run = (window as unknown as { axe: { run(root: unknown, o: unknown): Promise<{ violations: { id: string; help: string; nodes: { target: unknown[]; failureSummary?: string }[] }[] }> } }).axe.run;
    const found = await run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }, resultTypes: ["violations"] });
    return found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.target.join(" ")} (${n.failureSummary?.replace(/\s+/g, " ")})`).join("; ")}`);
  });
}

/** Elements that are to end with an ellipsis, but lay out their text as a flexible box, which has none. */
function cutHard(): string[] {
  return [...document.querySelectorAll("*")].filter((e) => {
    const s = getComputedStyle(e);
    return s.textOverflow === "ellipsis" && /flex|grid/.test(s.display) && [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent!.trim() !== "");
  }).map((e) => e.outerHTML.slice(0, 160));
}

/** A phone, held upright. */
export const phone: PageOptions = { width: 390, height: 844, touch: true };

/** What closes a pane that lies over the page of a phone: its button, if it has one, Escape, and a tap beside it, which does nothing else. */
export async function closes(page: Page, pane: string, open: () => Promise<unknown>, button?: string) {
  const shown = page.locator(pane), hidden = () => shown.waitFor({ state: "hidden" });
  if (button) {
    await open();
    await shown.getByRole("button", { name: button }).tap();
    await hidden();
  }
  await open();
  await page.keyboard.press("Escape");
  await hidden();
  await open();
  const box = (await shown.boundingBox())!, url = page.url();
  assert.ok(box.x + box.width <= page.viewportSize()!.width - 40, `${pane} leaves no room beside it: ${box.x + box.width}`);
  await page.touchscreen.tap(box.x + box.width + 20, box.y + box.height * 0.8);
  await hidden();
  assert.equal(page.url(), url, "the tap did something beneath");
}

/** The buttons of a part of a phone's page that a finger would miss: they cannot be seen, or are lower or narrower than 40 px. */
export const missed = (page: Page, part: string) => page.locator(part).locator("button").evaluateAll((list) => list.filter((b) => {
  const r = b.getBoundingClientRect();
  return r.width > 0 && (r.height < 40 || r.width < 40 || !b.checkVisibility({ opacityProperty: true, visibilityProperty: true }));
}).map((b) => `${b.getAttribute("aria-label") ?? b.textContent}: ${JSON.stringify(b.getBoundingClientRect())}`));
