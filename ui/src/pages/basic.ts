// The script of server-rendered pages: the frame and htmx.
import "../app.ts";
import "htmx.org/dist/htmx.esm.js";
import { boot } from "../lib/boot.ts";
import { h } from "../lib/dom.ts";
import { duration } from "../lib/format.ts";
import { confirm } from "../lib/layers.ts";

document.addEventListener("htmx:config:request", (e) => {
  const ctx = (e as CustomEvent).detail.ctx;
  ctx.request.headers["X-CSRF-Token"] = boot.csrf;
  if (boot.org) ctx.request.headers["X-Org-Id"] = boot.org;
});

// A form that cannot be taken back asks first.
document.addEventListener("submit", (e) => {
  const form = e.target as HTMLFormElement;
  const text = form.dataset.confirm;
  if (!text || form.dataset.sure) return;
  e.preventDefault();
  void confirm("Are you sure?", text, { action: form.querySelector("button")?.textContent?.trim() || "Continue", danger: true, type: form.dataset.type }).then((yes) => {
    if (!yes) return;
    form.dataset.sure = "1";
    form.requestSubmit();
  });
});

// A form that is on its way is not sent again by a second click: of two tokens or invitations the reader would see only the later reply.
const onItsWay = 3000; // ms
document.addEventListener("submit", (e) => {
  const form = e.target as HTMLFormElement;
  if (e.defaultPrevented || form.method !== "post") return;
  if (Date.now() - Number(form.dataset.sent ?? 0) < onItsWay) e.preventDefault();
  else form.dataset.sent = String(Date.now());
});

// A part that renews itself says so when it has not for three intervals: what is shown may be old.
const live = document.querySelector<HTMLElement>("[hx-trigger^=every]");
if (live) {
  const every = Number(/every (\d+)s/.exec(live.getAttribute("hx-trigger")!)?.[1] ?? 5) * 1000;
  const pill = h("span", { class: "pill", role: "status", hidden: true });
  document.querySelector(".pagehead")?.append(pill);
  let last = Date.now();
  document.addEventListener("htmx:after:swap", () => { last = Date.now(); pill.hidden = true; });
  setInterval(() => {
    if (document.hidden || Date.now() - last < 3 * every) return;
    pill.hidden = false;
    pill.textContent = `Last update ${duration(Math.round((Date.now() - last) / 1000) * 1e9)} ago`;
  }, 1000);
}
