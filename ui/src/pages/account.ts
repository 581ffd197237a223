// The pages outside the frame. They work without this: it shows what is typed into a password field, and copies snippets.
for (const input of document.querySelectorAll<HTMLInputElement>("input[type=password]")) {
  const b = document.createElement("button");
  b.type = "button";
  b.className = "btn sm reveal";
  b.textContent = "Show";
  b.setAttribute("aria-label", "Show the password");
  b.setAttribute("aria-pressed", "false");
  b.addEventListener("click", () => {
    const shown = input.type === "text";
    input.type = shown ? "password" : "text";
    b.textContent = shown ? "Show" : "Hide";
    b.setAttribute("aria-pressed", String(!shown));
    input.focus();
  });
  input.parentElement!.append(b);
  input.form!.addEventListener("submit", () => { input.type = "password"; });
}

if (navigator.clipboard) {
  for (const box of document.querySelectorAll<HTMLElement>("[data-copy]")) {
    const b = document.createElement("button");
    b.type = "button";
    b.className = "btn sm copy";
    b.textContent = "Copy";
    b.setAttribute("aria-label", "Copy: " + box.dataset.copy);
    const said = document.createElement("span");
    said.className = "vh";
    said.setAttribute("role", "status");
    b.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(box.querySelector("code")!.textContent!);
        said.textContent = b.textContent = "Copied";
      } catch {
        said.textContent = b.textContent = "Select it and copy";
      }
      setTimeout(() => { b.textContent = "Copy"; said.textContent = ""; }, 2000);
    });
    box.append(b, said);
  }
}

export {};
