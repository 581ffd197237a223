// The script of server-rendered pages: the frame and htmx.
import "../app.ts";
import "htmx.org/dist/htmx.esm.js";
import { boot } from "../lib/boot.ts";

document.addEventListener("htmx:config:request", (e) => {
  const ctx = (e as CustomEvent).detail.ctx;
  ctx.request.headers["X-CSRF-Token"] = boot.csrf;
  if (boot.org) ctx.request.headers["X-Org-Id"] = boot.org;
});
