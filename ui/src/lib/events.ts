// Server-sent events by fetch: an EventSource could not say for which organization it asks.
import { request } from "./api.ts";

export interface ServerEvent { event: string; data: string }

/** The events of a stream, as they come, until it ends or the signal does. */
export async function* events(path: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const res = await request(path, { signal, accept: "text/event-stream" });
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const e = { event: "message", data: "" };
        for (const line of rest.slice(0, end).split("\n")) {
          if (line.startsWith("event: ")) e.event = line.slice(7);
          else if (line.startsWith("data: ")) e.data += line.slice(6);
        }
        rest = rest.slice(end + 2);
        if (e.data) yield e;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
