// The script of server-rendered pages: the frame and htmx.
import "../app.ts";
import "htmx.org/dist/htmx.esm.js";
import { boot } from "../lib/boot.ts";
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
