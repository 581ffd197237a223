// SQL as the node speaks it: the words that its statements are made of, and completion that knows which of them are common.
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { sql, SQLDialect } from "@codemirror/lang-sql";
import { codemirror } from "./core.ts";
import type { SurfaceOptions } from "./surface.ts";

const common = "SELECT FROM WHERE GROUP BY ORDER BY LIMIT AND OR NOT AS COUNT DESC ASC HAVING DISTINCT IN LIKE ILIKE BETWEEN IS NULL CASE WHEN THEN ELSE END JOIN LEFT ON USING WITH UNION ALL INTERVAL CAST OVER PARTITION FILTER OFFSET TRUE FALSE EXISTS INNER CROSS FULL RIGHT OUTER EXCEPT INTERSECT VALUES QUALIFY WINDOW ROWS RANGE PRECEDING FOLLOWING CURRENT ROW NULLS FIRST LAST";
const functions = "count sum avg min max approx_count_distinct approx_quantile quantile_cont median stddev histogram time_bucket date_trunc date_diff now epoch_ms strftime coalesce nullif lower upper length substring replace regexp_matches regexp_extract regexp_replace split_part starts_with contains concat round floor ceil abs greatest least arg_max arg_min any_value first last list string_agg row_number rank lag lead json_extract_string match_all str_match re_match";
const types = "BOOLEAN BIGINT INTEGER DOUBLE VARCHAR TIMESTAMP DATE TIME";

const dialect = SQLDialect.define({ keywords: common.toLowerCase(), types: types.toLowerCase(), builtin: functions, identifierQuotes: '"', operatorChars: "+-*/%<>!=~|&^:" });

const words = [...new Set(common.split(" "))].map((label, i) => ({ label, type: "keyword", boost: 20 - i / 4 }));
const calls = functions.split(" ").map((label) => ({ label, type: "function", detail: "function", boost: -5 }));

export function sqlEditor(host: HTMLElement, o: SurfaceOptions) {
  const complete = async (c: CompletionContext): Promise<CompletionResult | null> => {
    const before = c.matchBefore(/[\p{L}\p{N}_."@$-]*/u);
    const mine = await o.complete()?.(c.state.doc.toString(), c.pos).catch(() => null);
    if ((!before || before.text === "") && !c.explicit && !mine) return null;
    const from = mine?.from ?? before?.from ?? c.pos;
    const items = (mine?.items ?? []).map((it) => ({ label: it.label, type: it.kind, detail: it.detail ?? it.kind, apply: it.apply, boost: 30 }));
    return { from, options: [...items, ...words, ...calls], validFor: /^[\p{L}\p{N}_]*$/u };
  };
  return codemirror(host, o, [sql({ dialect, upperCaseKeywords: true }).language, dialect.language.data.of({ autocomplete: complete })]);
}
