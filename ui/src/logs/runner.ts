// What runs: the search as SQL, the run of a statement, what its cost line and its end say, and the records that follow when the reader goes down the list.
import { announce } from "../lib/a11y.ts";
import { type ApiError, explain, json } from "../lib/api.ts";
import { count, plural } from "../lib/format.ts";
import { toApi } from "../lib/time.ts";
import { keepTyped } from "../lib/url.ts";
import type { MsEditor } from "../el/editor.ts";
import { costDone, costIdle, costRunning, type CostState, estimateText } from "./cost.ts";
import type { Drawer } from "./drawer.ts";
import type { Fields } from "./fields.ts";
import { type Filter, name, where } from "./filters.ts";
import type { Head } from "./head.ts";
import { addHistory } from "./history.ts";
import { Marks, type Term } from "./marks.ts";
import { ArrayRow, Columns, fromNanos, nanos, type Roles, rolesOf, type Row } from "./record.ts";
import type { Results } from "./results.ts";
import { type Done, type Estimate, type Outcome, type Progress, Run } from "./run.ts";
import type { State } from "./state.ts";
import type { Tail } from "./tail.ts";

const pageRows = 1000; // records loaded at a time
const sqlRows = 10_000; // of a statement, which is not loaded in steps
const mostRows = 100_000; // in the list
const cutAt = 4096; // bytes of a text in the list
const wideAt = 300; // fields from which on only those that are shown are read
const askAbove = 5e9; // bytes that a reload does not read without being asked to

export interface Translation { sql: string; filter: string; warnings: string[]; terms: Term[] }
export interface RunOptions { reload?: boolean; refresh?: boolean; allow?: boolean; columns?: string }

/** The part of the page that runs queries. The rest of it says what is shown. */
export abstract class Runner {
  abstract state: State;
  abstract editor: MsEditor;
  abstract readonly head: Head;
  abstract readonly results: Results;
  abstract readonly fields: Fields;
  abstract readonly drawer: Drawer;
  abstract readonly tail: Tail;
  protected abstract readonly app: HTMLElement;
  abstract writeURL(how: "push" | "replace"): void;
  abstract redraw(): void;
  abstract explain(): void;
  protected abstract openSelected(): Promise<void>;
  protected abstract nothingYet(): Promise<void>;

  roles: Roles = {};
  marks = new Marks([]);
  columns: Columns | undefined;
  rows: Row[] = [];
  span: { start: string; end: string } | undefined; // of the last run: `now` is fixed for all its requests
  condition = ""; // the search as SQL, of the last run
  sql = ""; // as executed
  done: Done | undefined;
  estimate: Estimate | undefined;
  progress: Progress | undefined;
  wide = false; // the stream has so many fields that the list reads a few of them only
  protected generated: { sql: string; q: string; filters: Filter[]; condition: string } | undefined; // the statement that a search became
  protected asked = new AbortController();
  protected typed = 0;
  private current: Run | undefined;
  private timers: number[] = [];
  private loading = false; // more rows
  private whole = false; // there are no more rows
  private refreshing = false; // the run is the refresh interval's, not the reader's

  // ---- statements
  protected async translate(q: string): Promise<Translation | undefined> {
    if (!q.trim()) return undefined;
    return json<Translation>("/query/translate", { body: { language: "search", stream: this.state.stream, statement: q }, signal: this.asked.signal });
  }

  /** The condition of what is shown, in SQL; "" is all records. undefined: a statement of the reader's own, which has none that is known. */
  where(without?: string): string | undefined {
    if (this.state.mode === "sql") return this.generated && this.state.q === this.generated.sql ? where(this.generated.condition, this.generated.filters.filter((f) => f.field !== without), this.columns?.types) : undefined;
    return where(this.condition, this.state.filters.filter((f) => f.field !== without), this.columns?.types);
  }

  selection(without?: string) {
    const filter = this.where(without) ?? "";
    return this.span && this.state.stream ? { stream: this.state.stream, filter, time_range: this.span } : undefined;
  }

  get stream() { return this.state.stream; }
  /** The statement of the search, with its order and a limit. */
  statementText(limit = pageRows, offset = 0, columns = "*"): string {
    const w = this.where() ?? "", { key, desc } = this.state.sort;
    return `SELECT ${columns}\nFROM logs.${name(this.state.stream)}${w ? `\nWHERE ${w}` : ""}\nORDER BY ${key === "_timestamp" ? key : name(key)}${desc ? " DESC" : ""}\nLIMIT ${limit}${offset ? ` OFFSET ${offset}` : ""}`;
  }

  private narrow(c: Columns): string {
    const want = ["_timestamp", ...Object.values(this.roles), ...(this.state.cols ?? [])].filter((f): f is string => f !== undefined && c.at.has(f));
    return [...new Set(want)].map(name).join(", ");
  }

  /** Whether the box has another query than the one whose result is shown. */
  get edited() { return this.editor.value.trim() !== this.state.q.trim(); }

  // ---- running
  /** Runs the query: what is in the box and goes into the address, or with "none" once more what was run before. */
  async run(how: "push" | "replace" | "none" = "push", o: RunOptions = {}) {
    this.tail.stop();
    this.abandon();
    this.refreshing = o.refresh === true;
    if (how !== "none") {
      clearTimeout(this.typed);
      this.state.q = this.editor.value;
      keepTyped(undefined);
      this.writeURL(how);
    }
    this.head.edited.on = this.edited;
    if (!this.edited) this.editor.mark(null);
    if (!o.columns) { this.wide = false; this.whole = false; }
    if (!this.state.stream && this.state.mode === "search") return this.nothingYet();
    this.begin();
    const signal = this.asked.signal;
    try {
      this.span = toApi(this.state.range);
      if (this.state.mode === "search") {
        const t = await this.translate(this.state.q);
        if (signal.aborted) return;
        this.condition = t?.filter ?? "";
        this.marks = new Marks(t?.terms ?? []);
        for (const w of t?.warnings ?? []) this.results.warn(w);
      } else if (this.where() === undefined) this.marks = new Marks([]);
    } catch (e) {
      if (!signal.aborted) { this.failed(explain(e)); this.problemOfRun(explain(e)); }
      return;
    }
    const sql = this.state.mode === "sql", text = sql ? this.state.q : this.statementText(pageRows, 0, o.columns);
    const run = (this.current = new Run({ statement: text, language: "sql", time_range: this.span, limit: sql ? sqlRows : pageRows, cut: cutAt }));
    this.sql = text;
    let fresh = true;
    const outcome = await run.start({
      meta: (m, columns) => {
        if (this.current !== run) return;
        this.estimate = m.estimate ?? this.estimate;
        if (o.reload && !o.allow && (m.estimate?.bytes ?? 0) > askAbove) { run.cancel(); this.current = undefined; this.results.tooLarge(m.estimate!.bytes, () => void this.run("none", { allow: true })); this.end(); return; }
        if (!columns) return;
        this.setAnswerColumns(columns);
        if (!sql && !o.columns && columns.list.length > wideAt) { run.cancel(); this.wide = true; void this.run("none", { ...o, columns: this.narrow(columns) }); return; }
        if (fresh) void this.results.loadHistogram(signal);
      },
      progress: (p) => { this.progress = p; this.showProgress(); },
      rows: (rows) => {
        if (this.current !== run) return;
        if (this.wide) for (const r of rows) r.cuts ??= new Map();
        if (fresh) this.results.setRows((this.rows = [...rows]), this.results.keepPlace && o.refresh === true);
        else this.results.add(rows);
        fresh = false;
      },
    });
    if (this.current === run) this.finish(run, outcome, fresh, !o.reload);
  }

  private setAnswerColumns(c: Columns) {
    this.columns = c;
    this.roles = rolesOf((f) => c.at.has(f));
    this.results.setSort(this.state.mode === "search" ? this.state.sort : undefined);
    this.redraw();
  }

  private finish(run: Run, outcome: Outcome, fresh: boolean, listed: boolean) {
    this.end();
    const ms = performance.now() - run.started;
    if (outcome.kind === "cancelled") { costIdle(this.head.cost, "Stopped before the first row."); if (fresh) this.results.stopped(() => void this.run("none")); return; }
    if (outcome.kind === "error") { this.failed(outcome.error, ms); return; }
    if (fresh) this.results.setRows((this.rows = []));
    this.done = outcome.kind === "done" ? outcome.done : undefined;
    const state: CostState = outcome.kind === "cut" ? "cut" : outcome.done.stopped ? "stopped" : outcome.done.partial ? "partial" : "ok";
    const again = () => void this.run("none");
    costDone(this.head.cost, state, ms, this.done?.stats, () => this.explain());
    if (!this.edited) this.setEstimate(this.estimate);
    if (outcome.kind === "cut") this.results.partial(`${outcome.why} ${plural(this.rows.length, "row")} that arrived ${this.rows.length === 1 ? "is" : "are"} kept; others may be missing.`, again);
    else if (outcome.done.stopped) this.results.partial(`Stopped: what was found until then is shown, ${plural(this.rows.length, "row")}. Others may be missing.`, again);
    else if (outcome.done.partial) this.results.partial(`Partial result. ${(outcome.done.partial_reasons ?? []).join(" ")} Counts are lower bounds.`, again);
    for (const w of this.done?.warnings ?? []) if (!(this.state.mode === "search" && /limit/i.test(w))) this.results.warn(w);
    this.whole = this.state.mode === "sql" || this.rows.length < pageRows || state === "cut";
    this.results.finished();
    announce(`${state === "ok" ? "" : "Partial: "}${plural(this.rows.length, "record")} loaded`);
    if (listed) addHistory(this.state, { ms, rows: this.rows.length, bytes: this.done?.stats.scanned_bytes ?? 0, state });
    void this.fields.load();
    if (this.state.view !== "events") this.results.show(this.state.view);
    void this.openSelected();
  }

  private failed(e: ApiError, ms = 0) {
    this.end();
    this.done = undefined;
    if (e.code === "aborted") return;
    if (this.state.mode === "sql") this.problemOfRun(e);
    if (ms) costDone(this.head.cost, "error", ms, undefined, () => this.explain());
    else costIdle(this.head.cost, "The query did not run.");
    if (this.refreshing && this.rows.length) { this.results.partial(`The refresh failed: ${e.message} What is shown was loaded before.`, () => void this.run("none", { refresh: true })); return; }
    this.results.fail(e, () => void this.run("none"));
    addHistory(this.state, { ms, rows: 0, bytes: 0, state: "error" });
  }

  private problemOfRun(e: ApiError) { if (!this.edited) this.showProblem(e); }

  /** Marks where the query in the box is wrong. Positions count characters from 1. */
  showProblem(e: ApiError) {
    if (e.position === undefined || e.position < 1) return;
    const from = [...this.editor.value].slice(0, e.position - 1).join("").length;
    this.editor.mark({ from, message: e.hint ? `${e.message}: ${e.hint}` : e.message });
  }

  private begin() {
    this.progress = undefined;
    this.done = undefined;
    this.results.begin();
    const started = performance.now(), bar = this.head.progress, at = (ms: number, f: () => void) => this.timers.push(window.setTimeout(f, ms));
    at(150, () => { bar.classList.add("run"); bar.style.setProperty("--p", "6%"); this.results.dim(!this.current?.rows); });
    at(1000, () => { this.head.setRunning(true); this.timers.push(window.setInterval(() => this.showProgress(performance.now() - started), 250)); });
  }

  private showProgress(ms = 0) {
    const p = this.progress, share = p?.segments.total ? p.segments.done / p.segments.total : 0;
    this.head.progress.style.setProperty("--p", `${Math.max(6, share * 100)}%`);
    if (ms || p) costRunning(this.head.cost, p, ms, this.current?.rows ?? 0);
    if (Math.max(ms, p?.elapsed_ms ?? 0) > 30_000) document.title = `${Math.round(share * 100)}% · Logs · Millstream`;
  }

  private end() {
    for (const t of this.timers.splice(0)) { clearTimeout(t); clearInterval(t); }
    this.head.progress.classList.remove("run");
    this.head.setRunning(false);
    this.results.dim(false);
    this.results.busy(false);
    document.title = `${this.state.stream || "Logs"} · Logs · Millstream`;
    this.app.removeAttribute("aria-busy");
  }

  protected abandon() {
    this.asked.abort();
    this.asked = new AbortController();
    this.current?.cancel();
    this.current = undefined;
    this.end();
  }

  /** Ends what a view is loading when the next run begins. */
  viewSignal() { return this.asked.signal; }

  /** Shows a query that was not run: nothing is shown that another one found. */
  protected wait(how: "push" | "replace") {
    this.tail.stop();
    this.abandon();
    keepTyped(undefined);
    this.writeURL(how);
    this.head.edited.on = false;
    this.rows = [];
    this.span = this.done = this.estimate = undefined;
    if (this.drawer.isOpen) this.drawer.close();
    this.results.waiting(() => void this.run("replace"));
    this.setEstimate(undefined);
    costIdle(this.head.cost, "Not run.");
  }

  /** Ends what runs without waiting, as the page is left. */
  protected leave() { this.current?.cancel(); }

  get running() { return this.current?.running === true; }

  stop() {
    if (!this.current?.running) { this.abandon(); return; }
    this.current.stop();
    this.head.setRunning(true, true);
    announce("Stopping");
  }

  /** The next records of the list. */
  protected async more() {
    if (this.loading || this.whole || this.running || this.tail.on || this.rows.length === 0 || this.rows.length >= mostRows || !this.span) return;
    this.loading = true;
    this.results.foot("Loading more…");
    const signal = this.asked.signal, byTime = this.state.sort.key === "_timestamp";
    const last = this.rows.at(-1)!.time, ties = byTime ? this.rows.filter((r) => r.time === last).map((r) => JSON.stringify((r as ArrayRow).v)) : [];
    const range = !byTime ? this.span : this.state.sort.desc ? { start: this.span.start, end: fromNanos(nanos(last) + 1n) } : { start: last, end: this.span.end };
    const limit = pageRows + ties.length, got: ArrayRow[] = [];
    const run = new Run({ statement: this.statementText(limit, byTime ? 0 : this.rows.length, this.wide ? this.narrow(this.columns!) : "*"), language: "sql", time_range: range, limit, cut: cutAt });
    const stop = () => run.cancel();
    signal.addEventListener("abort", stop, { once: true });
    const outcome = await run.start({ rows: (rows) => got.push(...rows) });
    signal.removeEventListener("abort", stop);
    this.loading = false;
    if (signal.aborted) return;
    if (outcome.kind === "error") { this.results.moreFailed(outcome.error, () => void this.more()); return; }
    const fresh = got.filter((r) => { const i = r.time === last ? ties.indexOf(JSON.stringify(r.v)) : -1; if (i >= 0) ties.splice(i, 1); return i < 0; });
    if (this.wide) for (const r of fresh) r.cuts ??= new Map();
    this.whole = outcome.kind === "done" && got.length < limit;
    this.results.add(fresh);
    announce(`${count(this.rows.length)} records loaded`);
  }

  setEstimate(e: Estimate | undefined) { this.head.estimate.replaceChildren(...(e ? estimateText(e) : [])); }
}
