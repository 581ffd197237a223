// One run of a statement: its frames as they come, stopping it, and ending it when the reader goes elsewhere.
import { ApiError, explain, json, ndjson, request } from "../lib/api.ts";
import { ArrayRow, Columns } from "./record.ts";

export interface Estimate { rows: number; bytes: number; segments: { total: number; pruned: number; to_scan: number } }
export interface Stats { took_ms: number; scanned_rows: number; scanned_bytes: number; segments: { total: number; pruned: number; scanned: number; cached: number }; unflushed_rows: number; nodes: number }
export interface Progress { segments: { done: number; total: number; pruned: number }; rows: number; bytes: number; cached: number; nodes: number; elapsed_ms: number }
export interface Meta { id: string; sql?: string; columns: { name: string; type: string }[] | null; estimate?: Estimate }
export interface Done { stats: Stats; partial: boolean; partial_reasons?: string[]; warnings: string[]; stopped: boolean }

type Frame =
  | ({ frame: "meta" } & Meta)
  | ({ frame: "progress" } & Progress)
  | { frame: "rows"; rows: unknown[][]; cut?: [number, number, number][] }
  | { frame: "warning"; code: string; text: string }
  | ({ frame: "done" } & Done)
  | { frame: "error"; error: { code: string; message: string; hint?: string; position?: number; request_id?: string } };

export interface Statement { statement: string; language?: "sql"; time_range?: { start: string; end: string }; limit?: number; cut?: number }

export interface Handlers {
  meta?: (m: Meta, columns: Columns | undefined) => void;
  progress?: (p: Progress) => void;
  rows: (rows: ArrayRow[]) => void;
}

/** How a run ended. cut: the stream broke off, or nothing came after Stop: the rows that arrived stand. */
export type Outcome = { kind: "done"; done: Done } | { kind: "cut"; why: string } | { kind: "error"; error: ApiError } | { kind: "cancelled" };

const stopPatience = 10_000; // ms until Stop gives control back without the node

export class Run {
  readonly id = crypto.randomUUID();
  readonly started = performance.now();
  rows = 0;
  stopping = false;
  private abort = new AbortController();
  private silent = false;
  private ended = false;
  private patience = 0;

  constructor(private statement: Statement) {}

  get running() { return !this.ended; }

  async start(on: Handlers): Promise<Outcome> {
    try {
      const res = await request("/query/stream", { body: { ...this.statement, id: this.id }, signal: this.abort.signal, accept: "application/x-ndjson" });
      return await this.read(res, on);
    } catch (e) {
      return this.broken(explain(e));
    } finally {
      this.ended = true;
      clearTimeout(this.patience);
    }
  }

  private async read(res: Response, on: Handlers): Promise<Outcome> {
    let columns: Columns | undefined;
    for await (const f of ndjson<Frame>(res)) {
      if (this.abort.signal.aborted) break;
      if (f.frame === "meta") {
        if (f.columns) columns = new Columns(f.columns);
        on.meta?.(f, columns);
      } else if (f.frame === "progress") on.progress?.(f);
      else if (f.frame === "rows" && columns) {
        const list = f.rows.map((v) => new ArrayRow(columns!, v));
        for (const [row, column, size] of f.cut ?? []) (list[row]!.cuts ??= new Map()).set(columns.list[column]!.name, size);
        this.rows += list.length;
        on.rows(list);
      } else if (f.frame === "done") return { kind: "done", done: f };
      else if (f.frame === "error") return this.broken(new ApiError(500, f.error.code, f.error.message, f.error.hint ?? "", f.error.position, 0, f.error.request_id ?? ""));
    }
    if (this.abort.signal.aborted) return this.broken(new ApiError(0, "aborted", "stopped"));
    return this.broken(new ApiError(0, "cut", "The answer was cut off."));
  }

  private broken(e: ApiError): Outcome {
    if (this.silent) return { kind: "cut", why: "The node did not answer the request to stop within 10 s." };
    if (e.code === "aborted") return { kind: "cancelled" };
    if (this.rows > 0 && e.status === 0) return { kind: "cut", why: "The connection broke off before the end." };
    if (e.code === "cut" || e.code === "client") return { kind: "error", error: new ApiError(0, "cut", "The answer broke off before the first row.", "Run it again.") };
    return { kind: "error", error: e };
  }

  /** Ends the query with the rows that are ready. When the node stays silent, the page has control again after 10 s. */
  stop() {
    if (this.ended || this.stopping) return;
    this.stopping = true;
    this.patience = window.setTimeout(() => { this.silent = true; this.abort.abort(); }, stopPatience);
    json(`/query/running/${this.id}/stop`, { method: "POST", body: {}, signal: AbortSignal.timeout(stopPatience) }).catch((e) => {
      if (explain(e).status === 404 && !this.ended) this.abort.abort(); // it has ended, or never began
    });
  }

  /** Ends it without an answer; also as the page is left. */
  cancel() {
    if (this.ended) return;
    this.ended = true;
    this.abort.abort();
    void request(`/query/running/${this.id}`, { method: "DELETE", keepalive: true }).catch(() => { /* it has ended, which is what was wanted */ });
  }
}
