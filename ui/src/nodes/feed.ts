// What keeps the page's nodes fresh: one stream of events, which comes back after it was lost and rests while nobody looks.
import { type ApiError, explain } from "../lib/api.ts";
import { events } from "../lib/events.ts";
import { type ClusterNode } from "./model.ts";

export interface Told { nodes: (list: ClusterNode[]) => void; trouble: (text: string) => void; lost: (e: ApiError) => void }

const first = 1000, most = 10_000; // ms before the stream is opened again

export class Feed {
  paused = false;
  private open: AbortController | undefined;
  private timer = 0;
  private wait = first;

  constructor(private told: Told) {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
  }

  pause(on: boolean) {
    this.paused = on;
    if (on) this.stop(); else this.start();
  }

  start() {
    if (this.paused || document.hidden) return;
    this.stop();
    void this.run((this.open = new AbortController()));
  }

  private stop() {
    clearTimeout(this.timer);
    this.open?.abort();
    this.open = undefined;
  }

  private async run(c: AbortController) {
    try {
      for await (const e of events("/cluster/events", c.signal)) {
        this.wait = first;
        if (e.event === "nodes") this.told.nodes((JSON.parse(e.data) as { nodes: ClusterNode[] }).nodes);
        else if (e.event === "trouble") this.told.trouble((JSON.parse(e.data) as { error: { message: string } }).error.message);
      }
    } catch (e) {
      if (!c.signal.aborted) this.told.lost(explain(e));
    }
    if (c.signal.aborted) return;
    this.timer = window.setTimeout(() => this.start(), this.wait); // a stream that ended well too: its node stops, or wants to see the credential again
    this.wait = Math.min(most, this.wait * 2);
  }
}
