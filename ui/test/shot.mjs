// Takes a screenshot of a page of a running node: node test/shot.mjs URL FILE [theme] [width] [height] [email] [password].
import { chromium } from "playwright-core";

const [url, file, theme = "dark", width = "1440", height = "900", email = "dev@localhost.test", password = "millstream-dev"] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
const page = await browser.newPage({ viewport: { width: +width, height: +height }, colorScheme: theme });
page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") console.log("console:", m.text()); });
page.on("pageerror", (e) => console.log("error:", e.message));
page.on("requestfailed", (r) => console.log("failed:", r.url(), r.failure()?.errorText));
await page.goto(url);
if (page.url().includes("/login") && !url.includes("/login")) {
  await page.fill("#email", email);
  await page.fill("#password", password);
  await page.click("form button.primary");
  await page.waitForLoadState("networkidle");
}
await page.waitForTimeout(800);
await page.screenshot({ path: file });
console.log(page.url());
await browser.close();
