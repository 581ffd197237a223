// The reader's preferences: kept by the node per user and organization, and the look in a cookie as well, so that the server renders it without a flash.
import { json } from "./api.ts";
import { boot, type Prefs } from "./boot.ts";
import { toast } from "./layers.ts";
import { told } from "./states.ts";

export function applyLook() {
  const { theme = "system", density = "normal", reduced_motion = "system" } = boot.prefs;
  const d = document.documentElement.dataset;
  if (theme === "system") delete d.theme; else d.theme = theme;
  if (density === "normal") delete d.density; else d.density = density;
  if (reduced_motion === "system") delete d.motion; else d.motion = reduced_motion;
  document.cookie = `ms_look=${theme}.${density}; Path=${boot.base || "/"}; Max-Age=31536000; SameSite=Lax${location.protocol === "https:" ? "; Secure" : ""}`;
  document.dispatchEvent(new CustomEvent("ms:look"));
}

/** Changes preferences at once and keeps them. */
export async function setPrefs(change: Prefs): Promise<boolean> {
  Object.assign(boot.prefs, change);
  applyLook();
  try {
    await json("/preferences", { method: "PUT", body: boot.prefs });
    return true;
  } catch (e) {
    toast(`Kept on this page only. ${told(e)}`, { error: true });
    return false;
  }
}

export const dark = () => (boot.prefs.theme ?? "system") === "dark" || ((boot.prefs.theme ?? "system") === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
