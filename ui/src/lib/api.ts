// Requests to the node. One place knows the organization, the CSRF token, what an error looks like, and what to do when the session has ended.
import { boot } from "./boot.ts";

export class ApiError extends Error {
  constructor(
    public status: number, // 0: no answer came
    public code: string, // of API.md, or "offline", "aborted"
    message: string,
    public hint = "",
    public position: number | undefined = undefined,
    public retryAfter = 0, // seconds
    public request = "",
  ) { super(message); }
}

export interface Call { method?: string; body?: unknown; headers?: Record<string, string>; signal?: AbortSignal; keepalive?: boolean; accept?: string }

/** Asks the node; path is below /api/v1. Answers other than 2xx, and none at all, are thrown as ApiError. */
export async function request(path: string, o: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: o.accept ?? "application/json", "X-CSRF-Token": boot.csrf, ...o.headers };
  if (boot.org) headers["X-Org-Id"] = boot.org;
  if (o.body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method: o.method ?? (o.body === undefined ? "GET" : "POST"), headers, credentials: "same-origin", cache: "no-store" };
  if (o.body !== undefined) init.body = JSON.stringify(o.body);
  if (o.signal) init.signal = o.signal;
  if (o.keepalive) init.keepalive = true;
  for (;;) {
    let res: Response;
    try {
      res = await fetch(`${boot.base}/api/v1${path}`, init);
    } catch (e) {
      if (o.signal?.aborted) throw new ApiError(0, "aborted", "stopped");
      document.dispatchEvent(new CustomEvent("ms:offline"));
      throw new ApiError(0, "offline", "The node cannot be reached.", "It is tried again when the connection is back.");
    }
    document.dispatchEvent(new CustomEvent("ms:online"));
    if (res.ok) return res;
    const err = await errorOf(res);
    if (err.status === 401 && boot.user.id && session.renew && (await session.renew())) {
      headers["X-CSRF-Token"] = boot.csrf;
      continue;
    }
    throw err;
  }
}

/** What signs the reader in again in place, so that no work is lost; the frame sets it. */
export const session: { renew?: () => Promise<boolean> } = {};

export async function errorOf(res: Response): Promise<ApiError> {
  let e: { code?: string; message?: string; hint?: string; position?: number } = {};
  try {
    const body = await res.json();
    e = body.error && typeof body.error === "object" ? body.error : { message: body.error ?? body.message, code: body.errorType };
  } catch { /* not ours: a proxy's page */ }
  const after = Number(res.headers.get("Retry-After")) || 0;
  return new ApiError(res.status, e.code ?? "http_" + res.status, e.message ?? `The node answered ${res.status} ${res.statusText}`, e.hint ?? "", e.position, after, res.headers.get("X-Request-Id") ?? "");
}

/** A call that answers JSON. */
export async function json<T>(path: string, o: Call = {}): Promise<T> {
  const res = await request(path, o);
  return res.status === 204 ? (undefined as T) : ((await res.json()) as T);
}

/** Reads newline-delimited JSON as it comes. A line that is cut off at the end is an error: the answer is not whole. */
export async function* ndjson<T>(res: Response): AsyncGenerator<T> {
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += value;
      let at = 0;
      for (let nl = rest.indexOf("\n", at); nl >= 0; nl = rest.indexOf("\n", at)) {
        if (nl > at) yield JSON.parse(rest.slice(at, nl)) as T;
        at = nl + 1;
      }
      rest = rest.slice(at);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  if (rest.trim()) throw new ApiError(0, "cut", "The answer was cut off.", "Rows that arrived are kept.");
}

/** What any error is to the page. */
export const explain = (e: unknown): ApiError => (e instanceof ApiError ? e : new ApiError(0, "client", e instanceof Error ? e.message : String(e)));
