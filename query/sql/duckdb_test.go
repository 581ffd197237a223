package sql

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/segment"
)

// oracle is a DuckDB that holds the test streams as tables under their own names.
func oracle(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	columns := `make_timestamp_ns(1700000000000000000 + i * 100000000000 + i) AS _timestamp,
		CASE WHEN i % 7 = 0 THEN NULL ELSE 'svc' || (i % 5) END AS service, CASE i % 4 WHEN 0 THEN 'error' WHEN 1 THEN 'Info' WHEN 2 THEN 'a%b_c\d' END AS level,
		'message ' || i || ' of 50% at C:\dir_' || (i % 10) || CASE WHEN i % 3 = 0 THEN E'\nline' ELSE '' END AS message,
		CASE WHEN i % 6 = 0 THEN NULL ELSE i - 40 END AS n, CASE WHEN i % 5 = 0 THEN NULL ELSE i / 8 END AS d, CASE WHEN i % 3 < 2 THEN i % 3 = 0 END AS ok,
		make_timestamp_ns(i * 1000000007) AS moment, 'h' || (i % 2) AS "host.name", CASE WHEN i % 9 = 0 THEN 'n/a' WHEN i % 9 < 8 THEN (i * 7)::VARCHAR END AS status`
	for _, q := range []string{"SET TimeZone = 'UTC'", "CREATE TABLE app AS SELECT " + columns + " FROM range(100) r(i)",
		"CREATE TABLE other AS SELECT " + columns + " FROM range(60, 140) r(i)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// rows gives a result as text, sorted unless the statement orders it; types is its column types.
func rows(t testing.TB, db *sql.DB, query string, ordered bool) (names, types []string, out []string) {
	t.Helper()
	r, err := db.Query(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return nil, nil, nil
	}
	defer r.Close()
	names, _ = r.Columns()
	kinds, _ := r.ColumnTypes()
	for _, k := range kinds {
		types = append(types, k.DatabaseTypeName())
	}
	for r.Next() {
		values := make([]any, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := r.Scan(into...); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(values...))
	}
	if err := r.Err(); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	if !ordered {
		slices.Sort(out)
	}
	return names, types, out
}

// views makes the tables of a query as a scan would: with the filter applied, and with the columns in their order.
func views(t testing.TB, db *sql.DB, s *Statement, q *Query, filter bool) {
	t.Helper()
	for _, v := range q.Tables {
		var columns []string
		for _, c := range v.Columns {
			source := quoted(c.Field)
			if c.Field == "" {
				i := slices.IndexFunc(v.Computed, func(x Computed) bool { return x.Name == c.Name })
				source = exprSQL(v.Computed[i].Expr)
			}
			columns = append(columns, source+" AS "+quoted(c.Name))
		}
		where := ""
		if filter && v.Filter != nil {
			where = " WHERE " + exprSQL(v.Filter)
		}
		create := fmt.Sprintf("CREATE OR REPLACE TEMP TABLE %s AS SELECT %s FROM %s%s", v.View, strings.Join(columns, ", "), quoted(s.Tables()[v.Ref].Name), where)
		if _, err := db.Exec(create); err != nil {
			t.Fatalf("%s: %v", create, err)
		}
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func text_(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// exprSQL writes a filter in DuckDB's words, after the documentation of segment.Expr.
func exprSQL(e segment.Expr) string {
	join := func(parts []segment.Expr, op, empty string) string {
		if len(parts) == 0 {
			return empty
		}
		out := make([]string, len(parts))
		for i, p := range parts {
			out[i] = exprSQL(p)
		}
		return "(" + strings.Join(out, op) + ")"
	}
	switch e := e.(type) {
	case segment.And:
		return join(e, " AND ", "true")
	case segment.Or:
		return join(e, " OR ", "false")
	case segment.Not:
		return "(NOT " + exprSQL(e.X) + ")"
	case segment.IsNull:
		return "(" + quoted(e.Field) + " IS NULL)"
	case segment.Compare:
		op := [...]string{"=", "<>", "<", "<=", ">", ">="}[e.Op]
		field, value := quoted(e.Field), valueSQL(e.Value)
		if e.Field == "status" && e.Value.Kind <= segment.FloatValue {
			field = "TRY_CAST(" + field + " AS DOUBLE)"
		}
		return fmt.Sprintf("(%s %s %s)", field, op, value)
	case segment.In:
		parts := make([]segment.Expr, len(e.Values))
		for i, v := range e.Values {
			parts[i] = segment.Compare{Field: e.Field, Value: v}
		}
		return join(parts, " OR ", "false")
	case segment.Like:
		op := "LIKE"
		if e.Fold {
			op = "ILIKE"
		}
		return fmt.Sprintf(`(%s %s %s ESCAPE '\')`, quoted(e.Field), op, text_(e.Pattern))
	case segment.Contains:
		return fmt.Sprintf("contains(%s, %s)", quoted(e.Field), text_(e.Text))
	case segment.Regex:
		return fmt.Sprintf("regexp_matches(%s, %s)", quoted(e.Field), text_(e.Re.String()))
	case segment.Match:
		if e.Field == "" {
			e.Field = "message"
		}
		return fmt.Sprintf("list_contains(string_split(%s, ' '), %s)", quoted(e.Field), text_(e.Query))
	}
	panic(fmt.Sprintf("%T", e))
}

func valueSQL(v segment.Value) string {
	switch v.Kind {
	case segment.IntValue:
		return fmt.Sprint(v.Int)
	case segment.FloatValue:
		return fmt.Sprintf("%e::DOUBLE", v.Float)
	case segment.BoolValue:
		return fmt.Sprint(v.Int != 0)
	case segment.TimeValue:
		return fmt.Sprintf("make_timestamp_ns(%d)", v.Int)
	}
	return text_(v.Str)
}

// equivalents are statements whose answers have to be DuckDB's own. Where DuckDB has no such statement, the second text is one of the same meaning.
var equivalents = [][2]string{
	{"SELECT * EXCLUDE (_timestamp) FROM app WHERE service = 'svc1'", `SELECT d, "host.name", level, message, moment, n, ok, service, status FROM app WHERE service = 'svc1'`},
	{"SELECT host.name, count(*) AS c FROM app GROUP BY host.name", `SELECT "host.name", count(*) AS c FROM app GROUP BY 1`},
	{`SELECT a."host.name" AS h, a.host.name FROM app a`, `SELECT "host.name" AS h, "host.name" FROM app`},
	{"SELECT n FROM app WHERE n > 3 AND n <= 20 AND n <> 7 AND 15 > n", ""}, {"SELECT n FROM app WHERE n BETWEEN -5 AND 5.5", ""},
	{"SELECT n FROM app WHERE NOT (n > 3 OR ok)", ""}, {"SELECT n FROM app WHERE n IN (1, 2, 3) OR n NOT IN (1, 2, 50)", ""}, {"SELECT d FROM app WHERE d > 2.5 AND d < '9.25'", ""},
	{"SELECT n FROM app WHERE n = '5'", ""}, {"SELECT ok, count(*) AS c FROM app WHERE ok GROUP BY ok", ""}, {"SELECT n FROM app WHERE ok = 'false'", ""},
	{"SELECT n FROM app WHERE ok IS NULL AND level IS NOT NULL", ""}, {"SELECT n FROM app WHERE n > 0.5 AND d = 3", ""}, {"SELECT n FROM app WHERE n IS NOT DISTINCT FROM NULL", ""},
	{`SELECT level FROM app WHERE level LIKE 'a%b_c\d'`, ""}, {`SELECT message FROM app WHERE message LIKE '%C:\dir_3%'`, ""}, {`SELECT message FROM app WHERE message LIKE '%50!%%' ESCAPE '!'`, ""},
	{`SELECT level FROM app WHERE level LIKE 'a!%b!_c\d' ESCAPE '!'`, ""}, {"SELECT level FROM app WHERE level ILIKE '%ERR%' OR level NOT ILIKE 'in%'", ""},
	{"SELECT level FROM app WHERE level LIKE 'error'", ""}, {"SELECT level ILIKE '%R%' AS a, level NOT ILIKE '%INF%' AS b, n FROM app WHERE n > d OR level ILIKE '%OR%'", ""},
	{"SELECT count_if(ok) AS a, median(n) AS b, mean(d) AS c, min(level) AS d, max(_timestamp) AS e, sum(d) AS f, count(level) AS g FROM app WHERE n > 5", ""},
	{"SELECT count_if(ok) AS a, median(n) AS b, sum(CASE WHEN ok THEN 1 ELSE 0 END) AS c, count(CASE WHEN ok THEN 1 END) AS d, sum(n) AS f FROM app WHERE n > 500", ""}, {"SELECT message FROM app WHERE message LIKE '%%'", ""}, {"SELECT message FROM app WHERE message NOT LIKE '%1%'", ""},
	{`SELECT message FROM app WHERE contains(message, '50%') AND starts_with(message, 'message 1') AND NOT ends_with(message, '_4') AND suffix(message, 'e')`, ""},
	{"SELECT message FROM app WHERE regexp_matches(message, 'e [0-9]+ o.*_[1-5]$')", ""}, {`SELECT message FROM app WHERE message ~ 'message .*'`, ""},
	{"SELECT message FROM app WHERE re_match(message, 'e 1[0-9] ')", "SELECT message FROM app WHERE regexp_matches(message, 'e 1[0-9] ')"},
	{"SELECT n, re_match(message, '1') AS r FROM app WHERE n > 3 OR re_match(message, 'dir_4')", "SELECT n, regexp_matches(message, '1') AS r FROM app WHERE n > 3 OR regexp_matches(message, 'dir_4')"},
	{"SELECT CASE WHEN match(message, '12') THEN 'a' WHEN match_all('13') THEN 'b' END AS k, count(*) AS c FROM app GROUP BY k",
		"SELECT CASE WHEN message LIKE 'message 12 %' THEN 'a' WHEN message LIKE 'message 13 %' THEN 'b' END AS k, count(*) AS c FROM app GROUP BY k"},
	{"SELECT count(*) AS c FROM app WHERE status >= 100", "SELECT count(*) AS c FROM app WHERE TRY_CAST(status AS DOUBLE) >= 100"},
	{"SELECT count(*) AS c FROM app WHERE status IN (7, 14) OR n = status", "SELECT count(*) AS c FROM app WHERE TRY_CAST(status AS DOUBLE) IN (7, 14) OR n = TRY_CAST(status AS DOUBLE)"},
	{"SELECT sum(status) AS s, avg(status + 1) AS a FROM app", "SELECT sum(TRY_CAST(status AS DOUBLE)) AS s, avg(TRY_CAST(status AS DOUBLE) + 1) AS a FROM app"},
	{"SELECT count(*) AS c FROM app WHERE status = true OR false <> status", "SELECT count(*) AS c FROM app WHERE TRY_CAST(status AS BOOLEAN) = true OR false <> TRY_CAST(status AS BOOLEAN)"},
	{"SELECT n FROM app WHERE _timestamp >= '2023-11-14 23:00:00' AND _timestamp < timestamptz '2023-11-15 01:30:00+01:00'", "SELECT n FROM app WHERE _timestamp >= '2023-11-14 23:00:00' AND _timestamp < '2023-11-15 00:30:00'"},
	{"SELECT n FROM app WHERE _timestamp > 1700001000000000000", "SELECT n FROM app WHERE epoch_ns(_timestamp) > 1700001000000000000"},
	{"SELECT n FROM app WHERE _timestamp > now() - INTERVAL 2 HOUR", "SELECT n FROM app WHERE _timestamp > TIMESTAMP '2023-11-15 00:00:00' - INTERVAL 2 HOUR"},
	{"SELECT n FROM app WHERE _timestamp > current_timestamp - INTERVAL '1 month' AND moment < now()", "SELECT n FROM app WHERE _timestamp > TIMESTAMP '2023-10-15 00:00:00' AND moment < TIMESTAMP '2023-11-15'"},
	{"SELECT n FROM app WHERE date_trunc('day', _timestamp) = DATE '2023-11-15'", ""}, {"SELECT n FROM app WHERE moment > DATE '1970-01-01' AND _timestamp < TIMESTAMP '2023-11-15'", ""},
	{"SELECT histogram(_timestamp, '10 minutes') AS b, count(*) AS c FROM app GROUP BY b", "SELECT make_timestamp_ns(epoch_ns(_timestamp) // 600000000000 * 600000000000) AS b, count(*) AS c FROM app GROUP BY 1"},
	{"SELECT histogram(_timestamp, INTERVAL 1 HOUR) AS b, max(moment) AS m FROM app GROUP BY ALL ORDER BY b DESC", "SELECT date_trunc('hour', _timestamp)::TIMESTAMP_NS AS b, max(moment) AS m FROM app GROUP BY ALL ORDER BY b DESC"},
	{"SELECT a.n AS x, b.n AS y FROM app a JOIN other b ON a.n = b.n WHERE a.n > 30 AND b.level = 'error'", ""},
	{"SELECT a.n AS x, b.n AS y FROM app a LEFT JOIN other b ON a.n = b.n AND b.level = 'error' WHERE a.n > 30 AND b.n IS NULL", ""},
	{"SELECT a.n AS x, b.n AS y FROM app a RIGHT JOIN other b ON a.n = b.n WHERE a.n IS NULL AND b.n > 70", ""}, {"SELECT a.n AS x, b.n AS y FROM app a FULL JOIN other b USING (n) WHERE b.d > 1", ""},
	{"SELECT n, a.level, b.d AS e FROM app a JOIN other b USING (n) WHERE n > 40", ""}, {"SELECT count(*) AS c FROM app NATURAL JOIN other", ""},
	{"SELECT a.n AS x, b.n AS y FROM app a ASOF JOIN other b ON a._timestamp >= b._timestamp WHERE b.level = 'error' AND a.n > 30", ""},
	{"SELECT n FROM app SEMI JOIN other USING (n) WHERE level = 'error'", ""}, {"SELECT n FROM app ANTI JOIN other USING (n)", ""},
	{"WITH app AS (SELECT * FROM app WHERE level = 'error') SELECT service, count(*) AS c FROM app WHERE n > 0 GROUP BY service", ""},
	{"WITH t0 AS (SELECT 5 AS n) SELECT app.n AS x, t0.n AS y FROM app, t0 WHERE app.n > 55", ""}, {"WITH a(x, y) AS (SELECT n, level FROM app) SELECT x FROM a WHERE y = 'error'", ""},
	{"WITH RECURSIVE r AS (SELECT min(n) AS i FROM app UNION ALL SELECT i + 10 FROM r WHERE i < 20) SELECT i FROM r", ""},
	{"SELECT s.level AS l, s.c FROM (SELECT level, count(*) AS c FROM app WHERE d > 1 GROUP BY level) s WHERE s.c > 10", ""},
	{"SELECT n FROM app WHERE n > (SELECT avg(n) FROM other) AND service IN (SELECT service FROM other WHERE n > 90)", ""},
	{"SELECT n, (SELECT max(o.n) FROM other o WHERE o.service = app.service) AS m FROM app WHERE EXISTS (SELECT 1 FROM other WHERE other.n = app.n)", ""},
	{"SELECT n FROM app UNION ALL SELECT n FROM other ORDER BY 1 NULLS FIRST LIMIT 10", ""}, {"SELECT n, level FROM app EXCEPT SELECT n, level FROM other", ""},
	{"SELECT n AS a FROM app UNION ALL BY NAME SELECT d AS b FROM other", ""}, {"SELECT DISTINCT ON (service) service, n FROM app ORDER BY service, n DESC NULLS LAST", ""},
	{"SELECT service, n, row_number() OVER (PARTITION BY service ORDER BY n) AS r FROM app WHERE n IS NOT NULL QUALIFY r <= 2", ""},
	{"SELECT n, sum(n) OVER (ORDER BY _timestamp ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM app ORDER BY _timestamp", ""},
	{"SELECT level, list(n ORDER BY n) FILTER (WHERE n > 50) AS l FROM app GROUP BY level", ""}, {"SELECT list_transform([n, 2], x -> x + n) AS l FROM app WHERE n > 50", ""},
	{"SELECT max(COLUMNS('^[nd]$')) FROM app", "SELECT max(d) AS d, max(n) AS n FROM app"}, {"SELECT * REPLACE (n + 1 AS n) FROM (SELECT n, level FROM app) WHERE n > 55", ""},
	{"SELECT x.* FROM (SELECT n, host.name FROM app) x WHERE x.host.name = 'h1'", `SELECT n, "host.name" FROM app WHERE "host.name" = 'h1'`},
	{"SELECT app.n, r.i AS i FROM app, range(3) r(i) WHERE app.n = r.i", ""}, {"SELECT unnest([1, 2]) AS u, n FROM app WHERE n = 1", ""},
	{"SELECT service, GROUPING(service) AS g, count(*) AS c FROM app GROUP BY ROLLUP (service)", ""}, {"SELECT n AS service FROM app WHERE service = 'svc1' ORDER BY service", ""},
	{"SELECT {'a': n, 'b': level}.a AS x FROM app WHERE n = 3", ""}, {"SELECT lower(level) AS l FROM app WHERE l = 'info'", ""}, {"SELECT SERVICE, Level FROM app WHERE SERVICE = 'svc2'", "SELECT service AS SERVICE, level AS Level FROM app WHERE service = 'svc2'"},
	{"SELECT count(*) FROM app WHERE true", ""}, {"SELECT count(*) FROM app WHERE NULL", ""}, {"SELECT count(*) FROM app WHERE n = NULL OR false", ""}, {"SELECT 1 AS one WHERE 1 = 1", ""},
	{"SELECT n FROM app LIMIT 0", ""}, {"SELECT VALUES_.a FROM (VALUES (1, 'x'), (2, 'y')) VALUES_(a, b) WHERE b = 'y'", ""}, {"SELECT json_extract_string('{\"a\":' || n || '}', '$.a') AS j FROM app WHERE n > 50", ""},
	{"SELECT n FROM app WHERE level = 'error' ORDER BY n DESC LIMIT 3 OFFSET 2", ""}, {"SELECT count(*) AS c FROM app USING SAMPLE 100%", ""}, {"SELECT app.* EXCLUDE (moment) FROM app ORDER BY n LIMIT 3", "SELECT _timestamp, d, \"host.name\", level, message, n, ok, service, status FROM app ORDER BY n LIMIT 3"},
	{"SELECT epoch_ns(_timestamp) AS ns FROM app ORDER BY 1 DESC LIMIT 1", ""}, {"SELECT typeof(_timestamp) AS t, typeof(n) AS u FROM app LIMIT 1", ""},
}

func TestAnswersAreDuckDBs(t *testing.T) {
	db := oracle(t)
	now := time.Date(2023, 11, 15, 0, 0, 0, 0, time.UTC)
	for _, e := range equivalents {
		s, err := gate(t).Parse(t.Context(), e[0], Params{})
		if err != nil {
			t.Errorf("%s: %v", e[0], err)
			continue
		}
		b, err := s.Bind(t.Context(), tablesOf(s, testFields()), now)
		if err != nil {
			t.Errorf("%s: %v", e[0], err)
			continue
		}
		other := e[1]
		if other == "" {
			other = e[0]
		}
		ordered := strings.Contains(e[0], "ORDER BY") && !strings.Contains(e[0], "OVER (PARTITION") && !strings.Contains(e[0], "list(")
		wantNames, wantTypes, want := rows(t, db, other, ordered)
		for mode, make := range map[string]func() (*Query, error){"exact": func() (*Query, error) { return b.Exact(t.Context()) }, "direct": func() (*Query, error) { return b.Direct(t.Context()) }} {
			q, err := make()
			if err != nil {
				t.Errorf("%s: %s: %v", e[0], mode, err)
				continue
			}
			if q == nil {
				if !strings.Contains(e[0], "match") {
					t.Errorf("%s: no direct query", e[0])
				}
				continue
			}
			views(t, db, s, q, mode == "exact")
			names, types, got := rows(t, db, q.SQL, ordered)
			for i := range q.Columns {
				if q.Columns[i] != "" {
					names[i] = q.Columns[i]
				}
			}
			if !slices.Equal(names, wantNames) || !slices.Equal(types, wantTypes) || !slices.Equal(got, want) {
				t.Errorf("%s (%s)\n  %s\n  got  %q %q\n  want %q %q\n  got  %.300q\n  want %.300q", e[0], mode, q.SQL, names, types, wantNames, wantTypes, got, want)
			}
			checkPlan(t, b.Plan, e[0], wantNames, wantTypes)
		}
	}
}

// checkPlan compares what a plan says of its columns with what DuckDB says.
func checkPlan(t testing.TB, p *Plan, text string, names, types []string) {
	t.Helper()
	if p == nil || p.Star {
		return
	}
	for i, o := range p.Out {
		if o.Name != names[i] || o.Type != types[i] {
			t.Errorf("%s: the plan has %s %s, DuckDB %s %s", text, o.Name, o.Type, names[i], types[i])
		}
	}
}
