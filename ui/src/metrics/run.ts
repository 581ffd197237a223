// One run of the page's queries. Each query succeeds or fails alone; a new run ends the one before.
import { ApiError } from "../lib/api.ts";
import { now, resolve, type Span } from "../lib/time.ts";
import { type Answer, FIRST, instant, range, wrong } from "./prom.ts";
import { type State, stepSeconds } from "./state.ts";

export interface Result { index: number; query: string; answer?: Answer; failure?: ReturnType<typeof wrong>; took: number; limit: number } // took in ms
export interface Run { span: Span; step: number; results: Result[]; stopped: boolean } // step in seconds

export class Runner {
  private abort: AbortController | undefined;
  private limits = new Map<string, number>(); // queries of which more series were asked for

  get running() { return this.abort !== undefined; }

  /** Asks for more series of a query from now on. */
  more(query: string, limit: number) { this.limits.set(query, limit); }

  stop() { this.abort?.abort(); }

  /** Runs what is visible. each is called as answers come; the promise ends with the last, or with undefined when another run took over. */
  async run(s: State, width: number, each: (r: Result) => void): Promise<Run | undefined> {
    this.abort?.abort();
    const mine = (this.abort = new AbortController());
    const span = resolve(s.range, { now: now() }), step = stepSeconds(s, span, width);
    const start = Math.floor(span.start / (step * 1000)) * step * 1000; // at the same times in every run, so that points do not jump
    const list = s.queries.map((q, index) => ({ ...q, index })).filter((q) => q.text && !q.hidden);
    const at = s.view === "table" && s.instant;
    const results = await Promise.all(list.map(async ({ text: query, index }): Promise<Result> => {
      const began = performance.now(), limit = this.limits.get(query) ?? FIRST;
      let r: Result;
      try {
        const answer = at ? await instant(query, span.end, limit, mine.signal) : await range(query, { start, end: span.end, step, limit }, mine.signal);
        r = { index, query, answer, took: performance.now() - began, limit };
      } catch (e) {
        r = { index, query, failure: wrong(e, query), took: performance.now() - began, limit };
      }
      if (this.abort === mine) each(r);
      return r;
    }));
    if (this.abort !== mine) return undefined;
    this.abort = undefined;
    return { span, step, results, stopped: mine.signal.aborted };
  }
}

export const stoppedError = (e: ApiError) => e.code === "aborted";
