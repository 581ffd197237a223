// Settings: preferences are kept as they are changed. The page itself is rendered on the server.
import "./basic.ts";
import { json } from "../lib/api.ts";
import { boot, type Prefs } from "../lib/boot.ts";
import { $, h } from "../lib/dom.ts";
import { toast } from "../lib/layers.ts";
import { applyLook, setPrefs } from "../lib/prefs.ts";
import { told } from "../lib/states.ts";

const form = $<HTMLFormElement>("#prefs");
if (form) {
  const zones = $("#zones")!;
  for (const z of ["browser", "UTC", ...Intl.supportedValuesOf("timeZone")]) zones.append(h("option", { value: z }));
  form.addEventListener("submit", (e) => e.preventDefault());
  form.addEventListener("change", (e) => {
    const at = e.target as HTMLInputElement | HTMLSelectElement;
    const value = at.name === "single_keys" ? at.value === "true" : at.value.trim() || undefined;
    at.removeAttribute("aria-invalid");
    void setPrefs({ [at.name]: value } as Prefs).then((ok) => {
      if (!ok) at.setAttribute("aria-invalid", "true");
    });
  });
  $("#prefs-undo")!.addEventListener("click", async () => {
    try {
      const { version } = await json<{ version: number }>("/preferences");
      if (version < 2) return toast("There is nothing to undo.");
      const kept = await json<{ preferences: Prefs }>("/preferences/restore", { body: { version: version - 1 } });
      boot.prefs = kept.preferences;
      applyLook();
      location.reload();
    } catch (err) {
      toast(told(err), { error: true });
    }
  });
}
