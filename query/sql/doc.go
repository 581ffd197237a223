// Package sql stands between a user's SQL and what runs it.
//
// A Gate parses a statement with DuckDB's own parser, to the syntax tree that json_serialize_sql prints, and refuses everything that is not on its lists of
// allowed syntax, functions and table functions. Tables are names of streams and nothing else. Nothing is ever decided by looking at the text.
//
// Statement.Bind then resolves the names against the streams' schemas. If kernels can give the very answer that SQL defines, it makes a Plan. If not, it edits
// the tree and lets DuckDB print it again, as SQL over views that the engine makes: t0, t1, … one for each reference to a stream. On the way
//
//   - conditions on one stream become a segment.Expr, so that a scan with its index finds the rows;
//   - match_all, match and re_match, which DuckDB does not have, become filters or columns that the scan computes; histogram becomes arithmetic;
//   - names get the case of the field they mean, `service.name` becomes one name, and fields that differ by case only get names that DuckDB can tell apart;
//   - a String field that meets a number is read as a number where it is one, so that a widened field does not fail a query;
//   - now() becomes one time for the whole statement, and _timestamp compares with it.
//
// The view of a stream shows its fields under their own names, so DuckDB's scoping, its errors and its output names are those of the user's statement.
package sql
