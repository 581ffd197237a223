// Draining a node: what happens, in order, and the question whether that is meant.
import { explain, json } from "../lib/api.ts";
import { button, h, visible } from "../lib/dom.ts";
import { bytes, plural } from "../lib/format.ts";
import { dialog, toast } from "../lib/layers.ts";
import { banner, told } from "../lib/states.ts";
import { type Cluster, type ClusterNode, has } from "./model.ts";

const lacks: Record<string, string> = {
  router: "no node would serve the API and these pages", intake: "writes would be refused", querier: "queries would be refused", compactor: "segments would not be merged, and nothing that is past its retention deleted", alert: "no alert rule would be evaluated",
};

export async function drain(c: Cluster, n: ClusterNode): Promise<void> {
  const alone = c.alone(n);
  const yes = await dialog(`Drain ${visible(n.id)}?`, (close) => {
    const go = button({ icon: "power", text: "Drain", cls: "danger", disabled: true, on: () => close(true) });
    const input = h("input", { class: "in", id: "drain-id", autocomplete: "off", spellcheck: "false", autofocus: true, oninput: () => { go.disabled = input.value !== n.id; }, onkeydown: (e: KeyboardEvent) => { if (e.key === "Enter" && !go.disabled) close(true); } });
    return [
      h("ol", { class: "steps" },
        h("li", null, "It leaves the cluster with its next heartbeat, and its load balancer is told that it is not ready. Other nodes stop sending to it within some seconds."),
        has(n, "intake") && h("li", null, `It publishes what is unflushed${n.load ? `: ${bytes(n.load.unflushed_bytes)} now` : ""}. Nothing is lost: what cannot be published stays in its write-ahead log.`),
        has(n, "querier") && h("li", null, `It finishes its queries${n.load ? `: ${plural(n.load.queries_running, "runs", "run")} now` : ""}. Those that take longer than its grace are cut.`),
        h("li", null, "The process stops. It is back when something starts it again.")),
      alone.length > 0 && banner("warn", `It is the only live node with the ${alone.length > 1 ? "roles" : "role"} ${alone.join(", ")}: until another one starts, ${alone.map((r) => lacks[r]).join("; ")}.`),
      n.self && banner("info", "It is the node that answers this page."),
      h("div", { class: "field" }, h("label", { for: "drain-id" }, "Type ", h("code", null, n.id), " to confirm"), input),
      h("div", { class: "acts" }, button({ text: "Cancel", on: () => close() }), go),
    ].filter((x) => x !== false);
  });
  if (!yes) return;
  try {
    await json(`/cluster/nodes/${encodeURIComponent(n.id)}/drain`, { method: "POST" });
    toast(`Node ${visible(n.id)} is draining`);
  } catch (e) {
    const err = explain(e);
    toast(`Node ${visible(n.id)} was not drained. ${told(err)}`, { error: true });
  }
}
