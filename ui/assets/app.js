// Conveniences. Every page works without this file.
"use strict";

// A button on each snippet that copies it; browsers offer the clipboard over HTTPS and on localhost only.
if (navigator.clipboard) {
  for (const box of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn sm copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy: " + box.dataset.copy);
    const said = document.createElement("span");
    said.className = "vh";
    said.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(box.querySelector("code").textContent);
        said.textContent = button.textContent = "Copied";
      } catch {
        said.textContent = button.textContent = "Select it and copy";
      }
      setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
    });
    box.append(button, said);
  }
}

// A button that shows what is typed into a password field.
for (const input of document.querySelectorAll("input[type=password]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn sm reveal";
  button.textContent = "Show";
  button.setAttribute("aria-label", "Show the password");
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const shown = input.type === "text";
    input.type = shown ? "password" : "text";
    button.textContent = shown ? "Show" : "Hide";
    button.setAttribute("aria-pressed", String(!shown));
    input.focus();
  });
  input.parentElement.append(button);
  input.form.addEventListener("submit", () => { input.type = "password"; });
}
