// SQL as the node speaks it: the words that its statements are made of, and completion that knows which of them are common.
import type { Complete, Completion, Item } from "./surface.ts";

export const keywords = "SELECT FROM WHERE GROUP BY ORDER LIMIT AND OR NOT AS COUNT DESC ASC HAVING DISTINCT IN LIKE ILIKE BETWEEN IS NULL CASE WHEN THEN ELSE END JOIN LEFT ON USING WITH UNION ALL INTERVAL CAST OVER PARTITION FILTER OFFSET TRUE FALSE EXISTS INNER CROSS FULL RIGHT OUTER EXCEPT INTERSECT VALUES QUALIFY WINDOW ROWS RANGE PRECEDING FOLLOWING CURRENT ROW NULLS FIRST LAST";
export const functions = "count sum avg min max approx_count_distinct approx_quantile quantile_cont median stddev histogram date_trunc date_diff now epoch_ms strftime coalesce nullif lower upper length substring replace regexp_matches regexp_extract regexp_replace split_part starts_with contains concat round floor ceil abs greatest least arg_max arg_min any_value list string_agg row_number rank lag lead json_extract_string match_all match re_match";
export const types = "BOOLEAN BIGINT INTEGER DOUBLE VARCHAR TIMESTAMP DATE TIME";

const known: Item[] = [
  ...keywords.split(" ").filter((w) => w !== "COUNT").map((label) => ({ label, kind: "keyword" })),
  ...functions.split(" ").map((label) => ({ label, kind: "function", apply: `${label}(` })),
];

/** Completion of a statement: the page's own names first, then keywords, then functions. */
export const sqlComplete = (names: Complete | undefined): Complete => async (text, cursor) => {
  const before = text.slice(0, cursor);
  const word = /[\p{L}_][\p{L}\p{N}_.]*$/u.exec(before)?.[0] ?? "";
  const inText = (before.replace(/''/g, "").match(/'/g)?.length ?? 0) % 2 === 1;
  const mine: Completion | null = (await names?.(text, cursor).catch(() => null)) ?? null;
  if (inText || !word) return mine;
  const typed = word.toLowerCase();
  const more = known.filter((k) => k.label.toLowerCase().startsWith(typed) && k.label.toLowerCase() !== typed);
  const items = mine && mine.from === cursor - word.length ? [...mine.items, ...more] : more;
  return { from: cursor - word.length, to: cursor, items: items.slice(0, 50) };
};
