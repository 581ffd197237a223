package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

var shared = sync.OnceValues(NewGate)

func gate(t testing.TB) *Gate {
	t.Helper()
	g, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// attacks must all be refused by the gate, before anything runs.
var attacks = map[string][]string{
	"files": {
		"SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_csv_auto('/etc/passwd')", "SELECT * FROM read_text('/etc/passwd')",
		"SELECT * FROM read_blob('/etc/passwd')", "SELECT * FROM read_parquet('/x.parquet')", "SELECT * FROM parquet_scan('/x.parquet')",
		"SELECT * FROM parquet_metadata('/x.parquet')", "SELECT * FROM read_json('/x.json')", "SELECT * FROM read_ndjson('/x.json')",
		"SELECT * FROM glob('/*')", "SELECT * FROM sniff_csv('/etc/passwd')", "SELECT * FROM read_duckdb('/x.db')", `SELECT * FROM "read_csv"('/etc/passwd')`,
		"SELECT * FROM READ_TEXT('/etc/passwd')", "SELECT read_text('/etc/passwd')", "SELECT (SELECT content FROM read_text('/etc/passwd'))",
		"SELECT * FROM app WHERE x IN (SELECT content FROM read_text('/etc/passwd'))", "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
		"SELECT * FROM app ORDER BY (SELECT content FROM read_text('/etc/passwd'))", "SELECT * FROM app LIMIT (SELECT 1 FROM glob('*'))",
		"SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM glob('*'))) FROM app", "SELECT sum(x) OVER (ORDER BY (SELECT 1 FROM glob('*'))) FROM app",
		"SELECT * FROM app JOIN glob('*') g ON true", "SELECT list_transform([1], x -> (SELECT 1 FROM glob('*')))",
		"SELECT * REPLACE ((SELECT content FROM read_text('/x')) AS a) FROM app", "SELECT COLUMNS(c -> getenv(c) = 'x') FROM app", "COPY app TO '/tmp/x'",
		"COPY (SELECT 1) TO '/tmp/x.csv'", "EXPORT DATABASE '/tmp/x'", "IMPORT DATABASE '/tmp/x'", "SELECT * FROM range(3) UNION ALL SELECT 1 FROM glob('*')",
		"VALUES ((SELECT content FROM read_text('/x')))", "SELECT * FROM (VALUES ((SELECT 1 FROM glob('*')))) v",
	},
	"network and extensions": {
		"INSTALL httpfs", "LOAD httpfs", "FORCE INSTALL httpfs FROM 'http://localhost'", "UPDATE EXTENSIONS", "CREATE SECRET (TYPE s3)",
		"SELECT * FROM which_secret('s3://x', 's3')", "SELECT * FROM duckdb_secrets()", "SELECT * FROM duckdb_extensions()",
	},
	"settings": {
		"SET memory_limit = '100GB'", "SET GLOBAL threads = 8", "RESET memory_limit", "PRAGMA database_list", "PRAGMA enable_profiling", "SELECT current_setting('home_directory')",
		"SELECT * FROM duckdb_settings()", "SELECT * FROM pragma_version()", "SELECT getenv('PATH')", "SELECT getvariable('x')", "SET VARIABLE x = 1",
		"SELECT * FROM duckdb_variables()", "SELECT version()", "SELECT current_query()", "SELECT current_database()", "SELECT current_schemas(true)",
		"SELECT write_log('x')", "SELECT sleep_ms(100000)", "SELECT pg_sleep(100)", "SELECT txid_current()", "SELECT setseed(0.5)",
	},
	"catalog": {
		"SELECT * FROM duckdb_views()", "SELECT * FROM duckdb_tables()", "SELECT * FROM duckdb_columns()", "SELECT * FROM duckdb_functions()",
		"SELECT * FROM duckdb_memory()", "SELECT * FROM duckdb_temporary_files()", "SELECT * FROM duckdb_logs()", "SELECT * FROM duckdb_prepared_statements()",
		"SELECT * FROM pragma_show('t0')", "SELECT * FROM pragma_table_info('t0')", "SELECT obj_description(1)", "SELECT nextval('s')",
	},
	"statements in statements": {
		"SELECT * FROM query('SELECT 1')", "SELECT * FROM query_table('t0')", "SELECT * FROM json_execute_serialized_sql('{}')", "SELECT json_serialize_sql('SELECT 1')",
		"SELECT json_deserialize_sql('{}')", "SELECT json_serialize_plan('SELECT 1')", "SELECT * FROM sql_auto_complete('SEL')", "PREPARE p AS SELECT 1",
		"EXECUTE p", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "SUMMARIZE app", "SHOW databases", "SHOW app.x; SELECT 1", "SELECT 1; SELECT 2",
		"SELECT 1; ATTACH ':memory:' AS x", "CALL pragma_version()", "CALL enable_logging()", "SELECT * FROM (DESCRIBE app)", "SELECT * FROM (SHOW TABLES)",
		"SELECT * FROM (SUMMARIZE app)", "DESCRIBE SELECT * FROM read_csv('/etc/passwd')",
	},
	"instance": {
		"ATTACH ':memory:' AS x", "ATTACH '/tmp/x.db'", "DETACH x", "USE memory", "CREATE TABLE x (i int)", "CREATE VIEW v AS SELECT 1", "DROP VIEW t0",
		"CREATE MACRO m(a) AS a", "CREATE TYPE e AS ENUM ('a')", "CREATE SEQUENCE s", "INSERT INTO app VALUES (1)", "UPDATE app SET a = 1", "DELETE FROM app", "TRUNCATE app",
		"ALTER VIEW t0 RENAME TO t1", "BEGIN", "COMMIT", "CHECKPOINT", "VACUUM", "ANALYZE", "SELECT * FROM enable_logging()", "SELECT * FROM disable_logging()",
		"SELECT * FROM truncate_duckdb_logs()", "SELECT * FROM checkpoint()", "SELECT * FROM force_checkpoint()", "SELECT * FROM enable_profiling()",
		"SELECT * FROM enable_peg_parser()", "SELECT * FROM arrow_scan(1, 2, 3)", "SELECT * FROM seq_scan('x')", "SELECT * FROM repeat(1, 10)",
		"SELECT * FROM repeat_row(1, num_rows=10)", "SELECT * FROM test_all_types()", "SELECT * FROM summary(app)", "MERGE INTO app USING b ON true WHEN MATCHED THEN DELETE",
	},
	"schemas": {"SELECT main.getenv('x')", "SELECT system.main.current_setting('x')", "SELECT pg_catalog.pg_typeof(1)", "SELECT information_schema.x()"},
	"sizes": {
		"SELECT repeat('x', 1000001)", "SELECT repeat('x', n) FROM app", "SELECT length(repeat(repeat('x', 10000), 10000))", "SELECT lpad('x', 100000000, 'y')",
		"SELECT rpad(x, 1000000, 'y') FROM (SELECT lpad('x', 1000, 'y') AS x)", "SELECT repeat(x, 1000) FROM (SELECT repeat(x, 1000) AS x FROM (SELECT repeat('x', 1000) AS x))",
		"SELECT range(100000000)", "SELECT generate_series(0, 1000000000)", "SELECT range(n) FROM app", "SELECT range(0, 10, n) FROM app",
		"SELECT * FROM range(100000000000)", "SELECT printf('%2000000000d', 1)", "SELECT format('{:>2000000000}', 1)", "SELECT format('{:{}}', 1, 2000000000)",
		"SELECT printf('%*d', 2000000000, 1)", "SELECT printf(x) FROM app", "SELECT 'x' || '" + strings.Repeat("y", MaxText) + "'",
		"SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 300),
	},
	"syntax": {"", "  ", "SELEC 1", "SELECT 'a\x00b'", "SELECT '\xff'", "SELECT * FROM app AT (VERSION => 1)", "SELECT ?", "SELECT $a", "PIVOT app ON a USING sum(b)",
		"SELECT * FROM app PIVOT (sum(a) FOR b IN (1, 2))", "UNPIVOT app ON a, b INTO NAME n VALUE v"},
}

func TestAttacks(t *testing.T) {
	g := gate(t)
	for group, statements := range attacks {
		for _, text := range statements {
			_, err := g.Parse(t.Context(), text, Params{})
			if k := millstream.KindOf(err); k != millstream.Invalid && k != millstream.TooLarge {
				t.Errorf("%s: %.100q was let through: %v", group, text, err)
			}
		}
	}
}

// TestPseudoTables: names that DuckDB would look up in its catalog or on disk are names of streams to the gate, and nothing else.
func TestPseudoTables(t *testing.T) {
	g := gate(t)
	for text, want := range map[string]string{
		"SELECT * FROM information_schema.tables": "logs/information_schema.tables", "SELECT * FROM pg_catalog.pg_class": "logs/pg_catalog.pg_class",
		"SELECT * FROM '/etc/passwd'": "logs//etc/passwd", "SELECT * FROM sqlite_master": "logs/sqlite_master", "SELECT * FROM memory.main.t0": "logs/memory.main.t0",
		"SELECT * FROM 'http://localhost/x.parquet'": "logs/http://localhost/x.parquet", "FROM metrics.up": "metrics/up", `FROM traces."a b"`: "traces/a b",
		"FROM metrics.http.server.duration": "metrics/http.server.duration", "TABLE logs.app": "logs/app", "FROM my.app": "logs/my.app", "FROM t0": "logs/t0",
	} {
		s, err := g.Parse(t.Context(), text, Params{})
		if err != nil {
			// Four parts are more than a name can have for DuckDB.
			if !strings.Contains(text, "http.server") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if got := fmt.Sprintf("%s/%s", s.Tables()[0].Signal, s.Tables()[0].Name); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// allowed is what users write; none of it may be refused.
var allowed = []string{
	"SELECT 1", "FROM app", "SELECT DISTINCT ON (service) * FROM app ORDER BY service, _timestamp DESC", "SELECT * EXCLUDE (n) FROM app USING SAMPLE 10%",
	"WITH a AS (SELECT * FROM app), b AS MATERIALIZED (SELECT * FROM a) SELECT * FROM b JOIN a USING (service)",
	"SELECT service, count(*) FROM app GROUP BY CUBE (service, level) HAVING count(*) > 1", "SELECT * FROM app ASOF JOIN traces.spans s ON app._timestamp >= s._timestamp",
	"SELECT *, row_number() OVER w FROM app WINDOW w AS (PARTITION BY service ORDER BY _timestamp) QUALIFY row_number() OVER w = 1",
	"SELECT date_trunc('hour', _timestamp), strftime(_timestamp, '%H'), epoch_ms(_timestamp), extract(dow FROM _timestamp) FROM app",
	"SELECT regexp_extract(message, 'a(b)', 1), split_part(message, ' ', 1), message[1:3], message->>'$.a', json_extract_string(message, 'a') FROM app",
	"SELECT CASE WHEN n > 1 THEN 'a' ELSE 'b' END, coalesce(level, 'x'), nullif(level, ''), n::DOUBLE, TRY_CAST(level AS INT) FROM app",
	"SELECT list(level ORDER BY n), string_agg(DISTINCT level, ','), arg_max(level, n), approx_quantile(n, [0.5, 0.9]), mode(level) FROM app",
	"SELECT * FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL 1 HOUR) g(t) LEFT JOIN app ON _timestamp = t",
	"SELECT [x * 2 FOR x IN [1, 2] IF x > 1], {'a': 1}.a, MAP {'k': 1}['k']", "SELECT unnest(string_split(message, ' ')) AS w, count(*) FROM app GROUP BY w",
	"WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 10) SELECT * FROM r", "SELECT n FROM app UNION ALL BY NAME SELECT n FROM other",
	"SELECT repeat('=', 10), lpad(level, 10, ' '), format('{:>10}', n), printf('%5.2f', d) FROM app",
	"SELECT range(10), * FROM range(1, 100, 2)", "(SELECT 1) EXCEPT (SELECT 2) ORDER BY ALL LIMIT 10%", "SELECT level COLLATE NOCASE FROM app ORDER BY 1 DESC NULLS FIRST",
	"SELECT * FROM app WHERE (service, level) IN (SELECT service, level FROM other)", "SELECT (SELECT max(n) FROM other o WHERE o.service = app.service) FROM app",
	"SELECT columns('^s') FROM app", "SELECT * LIKE 's%' FROM app", "SELECT #1, level FROM app", "SELECT now() - INTERVAL '1 day', current_date, today()", "VALUES (1, 'a'), (2, 'b')",
}

func TestAllowed(t *testing.T) {
	g := gate(t)
	for _, text := range allowed {
		if _, err := g.Parse(t.Context(), text, Params{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPositions(t *testing.T) {
	fields := testFields()
	for text, want := range map[string]struct {
		position int
		hint     string
	}{
		"SELECT servce FROM app":                        {8, `did you mean "service"?`},
		"SELECT 'ü', servce FROM app":                   {13, `did you mean "service"?`},
		"SELECT a.servce FROM app a":                    {8, `did you mean "service"?`},
		"SELECT n FROM app WHERE lvel = 'x'":            {25, `did you mean "level"?`},
		"SELECT cuont(*) FROM app":                      {8, `did you mean "count"?`},
		"SELECT\n  upprr(level) FROM app":               {10, `did you mean "upper"?`},
		"SELECT 1 FROM app WHERE match(mesage, 'x')":    {31, `did you mean "message"?`},
		"SELECT 1 FROM app WHERE re_match(message,'(')": {42, "the syntax is RE2's"},
		"SELECT 1 FROM app WHERE match_all(n)":          {35, "write match_all('words')"},
		"SELECT histogram(_timestamp, 'x') FROM app":    {8, "write histogram(_timestamp, '1 minute'); for months and years use date_trunc"},
		"SELECT LEVEL FROM cased":                       {8, "write the name in its exact case, in double quotes"},
		"SELECT n FROM app a JOIN app b ON true":        {8, "write the table's alias before it"},
		"SELECT n FRM app":                              {14, ""},
		"SELECT * FROM app JOIN other USING (servic)":   {19, `did you mean "service"?`},
		"SELECT n FROM app ORDER BY srvice":             {28, `did you mean "service"?`},
		"SELECT n FROM app GROUP BY zzzzzzzz":           {28, ""},
	} {
		err := bindError(t, text, fields)
		var e *millstream.Error
		if !errors.As(err, &e) || e.Kind != millstream.Invalid {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if e.Position != want.position || e.Hint != want.hint {
			t.Errorf("%s: position %d, hint %q (%v); want %+v", text, e.Position, e.Hint, err, want)
		}
	}
}

// bindError parses and binds and gives the first error.
func bindError(t testing.TB, text string, fields map[string][]millstream.Field) error {
	t.Helper()
	s, err := gate(t).Parse(t.Context(), text, Params{})
	if err != nil {
		return err
	}
	_, err = s.Bind(t.Context(), tablesOf(s, fields), time.Unix(1_700_000_000, 0))
	return err
}

func TestUnknownTable(t *testing.T) {
	s, err := gate(t).Parse(t.Context(), "SELECT * FROM ap", Params{})
	if err != nil {
		t.Fatal(err)
	}
	var e *millstream.Error
	if err := UnknownTable(s.Tables()[0], []string{"app", "zoo"}); !errors.As(err, &e) || e.Kind != millstream.NotFound || e.Position != 15 || e.Hint != `did you mean "app"?` {
		t.Errorf("got %+v", e)
	}
	if err := UnknownTable(s.Tables()[0], []string{"zoo"}); !errors.As(err, &e) || e.Hint != "SHOW TABLES lists the streams" {
		t.Errorf("got %+v", e)
	}
	if err := UnknownTable(TableRef{Signal: millstream.Metrics, Name: "up"}, nil); !errors.As(err, &e) || !strings.Contains(e.Hint, "__name__/values") {
		t.Errorf("got %+v", e)
	}
}

func TestReservedName(t *testing.T) {
	for statement, hint := range map[string]string{
		"SELECT * FROM default":                       `default is a word of SQL: write "default" or logs.default`,
		"SELECT é FROM\n default":                     `default is a word of SQL: write "default" or logs.default`,
		"SELECT * FROM app JOIN order ON true":        `order is a word of SQL: write "order" or logs.order`,
		"SELECT * FROM":                               "",
		"SELEC 1":                                     "",
		"SELECT a b c FROM app":                       "",
		"SELECT * FROM app WHERE level = 'a' default": "",
	} {
		var e *millstream.Error
		if _, err := gate(t).Parse(t.Context(), statement, Params{}); !errors.As(err, &e) || e.Kind != millstream.Invalid || e.Hint != hint {
			t.Errorf("%s: got %+v", statement, err)
		}
	}
}

func TestShow(t *testing.T) {
	for text, want := range map[string]struct {
		kind   Kind
		tables int
	}{"SHOW TABLES": {ShowTables, 0}, "SHOW ALL TABLES": {ShowTables, 0}, "DESCRIBE app": {Describe, 1}, "describe metrics.up": {Describe, 1}, "SELECT 1": {Select, 0}} {
		s, err := gate(t).Parse(t.Context(), text, Params{})
		if err != nil || s.Kind != want.kind || len(s.Tables()) != want.tables {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}

// TestLongTexts has texts of the full length that nest as deep as they can. The parser has to refuse them or take them: it runs in this process.
func TestLongTexts(t *testing.T) {
	fill := func(before, open, middle, end, after string) string {
		n := (MaxText - len(before) - len(middle) - len(after)) / (len(open) + len(end))
		return before + strings.Repeat(open, n) + middle + strings.Repeat(end, n) + after
	}
	for name, text := range map[string]string{
		"parentheses": fill("SELECT ", "(", "1", ")", ""), "lists": fill("SELECT ", "[", "1", "]", ""), "sum": fill("SELECT 1", "+1", "", "", ""),
		"not": fill("SELECT ", "NOT ", "true", "", ""), "subqueries": fill("SELECT * FROM ", "(SELECT * FROM ", "t", ")", ""),
		"scalar": fill("SELECT ", "(SELECT ", "1", ")", ""), "unions": fill("SELECT 1", " UNION SELECT 1", "", "", ""), "joins": fill("SELECT 1 FROM a", ",a", "", "", ""),
		"cases": fill("SELECT ", "CASE WHEN 1 THEN ", "1", " END", ""), "calls": fill("SELECT ", "lower(", "'a'", ")", ""), "ands": fill("SELECT 1", " AND 1", "", "", ""),
		"with": fill("", "WITH a AS (", "SELECT 1", ") SELECT 1", ""), "structs": fill("SELECT ", "{a:", "1", "}", ""), "casts": fill("SELECT 1", "::INT", "", "", ""),
		"names": fill("SELECT a", ".b", "", "", ""), "types": fill("SELECT 1::INT", "[]", "", "", ""), "struct types": fill("SELECT 1::", "STRUCT(a ", "INT", ")", ""),
		"lambdas": fill("SELECT list_transform([1],", "x -> ", "1", "", ")"), "texts": fill("SELECT 'a'", "||'a'", "", "", ""), "in": fill("SELECT 1 IN (1", ",1", "", "", ")"),
		"comments": fill("SELECT 1 ", "/*", "", "*/", ""), "methods": fill("SELECT 'a'", ".lower()", "", "", ""),
	} {
		start := time.Now()
		err := bindError(t, text, testFields())
		if k := millstream.KindOf(err); err != nil && k != millstream.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// TestWideStatements has short texts that stand for very many columns. They must be refused before memory is taken for those: it is this process's.
func TestWideStatements(t *testing.T) {
	double := func(first, next string, n int) string {
		text := "WITH c0 AS (" + first + ")"
		for i := 1; i < n; i++ {
			text += fmt.Sprintf(", c%d AS (%s)", i, strings.ReplaceAll(next, "$", fmt.Sprint("c", i-1)))
		}
		return text + fmt.Sprintf(" SELECT count(*) FROM c%d", n-1)
	}
	for name, text := range map[string]string{
		"joined":     double("SELECT 1 AS x", "SELECT * FROM $ a, $ b", 40),
		"repeated":   double("SELECT 1 AS x", "SELECT *, * FROM $", 40),
		"subqueries": double("SELECT 1 AS x", "SELECT * FROM (SELECT a.*, b.* FROM $ a, $ b) q", 40),
		"streams":    double("SELECT * FROM app", "SELECT * FROM $ a, $ b", 30),
		"many":       double("SELECT * FROM app", "SELECT * FROM $ a, $ b", 12) + strings.Repeat(", c10", 500),
	} {
		start := time.Now()
		if err := bindError(t, text, testFields()); millstream.KindOf(err) != millstream.Invalid || !strings.Contains(err.Error(), "columns") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	if err := bindError(t, double("SELECT * FROM app", "SELECT a.* FROM $ a, $ b", 40), testFields()); err != nil {
		t.Errorf("a chain of queries: %v", err)
	}
}

// TestFunctionsExist keeps names out of the allow-list that DuckDB does not have, and finds those that it dropped.
func TestFunctionsExist(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var names string
	err = db.QueryRow("SELECT string_agg(DISTINCT lower(function_name), ' ') FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro')").Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	known := nameSet(names, ownNames, "coalesce = <> < > <= >= == -> unnest")
	for name := range scalarFunctions {
		if !known[name] {
			t.Errorf("DuckDB has no function %s", name)
		}
	}
}

func TestParams(t *testing.T) {
	g := gate(t)
	p := Params{Positional: []any{"a'b", 1.5, nil, true}, Named: map[string]any{"From": int64(7)}}
	for text, want := range map[string]string{
		"SELECT ?, ?":                       `SELECT 'a''b' AS "?", 1.5`,
		"SELECT $3 IS NULL, $4":             "SELECT (NULL IS NULL)",
		"SELECT n FROM app WHERE n > $from": "7",
	} {
		s, err := g.Parse(t.Context(), text, p)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		b, err := s.Bind(t.Context(), tablesOf(s, testFields()), time.Now())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		q, err := b.Direct(t.Context())
		if err != nil || !strings.Contains(q.SQL, strings.TrimPrefix(strings.SplitN(want, " AS", 2)[0], "SELECT ")) {
			t.Errorf("%s: %v, %v", text, q, err)
		}
	}
	for _, text := range []string{"SELECT $5", "SELECT $other"} {
		if _, err := g.Parse(t.Context(), text, p); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCache(t *testing.T) {
	g, err := NewGate()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for i := range 3 * maxCached {
		if _, err := g.Parse(context.Background(), fmt.Sprintf("SELECT %d", i), Params{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.cache) != maxCached || len(g.order) != maxCached {
		t.Errorf("%d cached, %d in order", len(g.cache), len(g.order))
	}
	a, _ := g.Parse(context.Background(), "SELECT 1.25", Params{})
	if b, _ := g.Parse(context.Background(), "SELECT 1.25", Params{}); a != b {
		t.Error("the second parse was not from the cache")
	}
}

func testFields() map[string][]millstream.Field {
	f := func(name string, t millstream.Type) millstream.Field {
		return millstream.Field{Name: name, Type: t, Seen: []millstream.Type{t}}
	}
	app := []millstream.Field{f("service", millstream.String), f("level", millstream.String), f("message", millstream.String), f("n", millstream.Int64),
		f("d", millstream.Double), f("ok", millstream.Bool), f("moment", millstream.Timestamp), f("host.name", millstream.String), f("status", millstream.String)}
	return map[string][]millstream.Field{"app": app, "other": app, "cased": append(app, f("Level", millstream.String), f("SERVICE", millstream.Int64))}
}

func tablesOf(s *Statement, fields map[string][]millstream.Field) []Table {
	var out []Table
	for _, r := range s.Tables() {
		out = append(out, Table{Key: millstream.StreamKey{Org: "o", Signal: r.Signal, Name: r.Name}, Fields: fields[r.Name]})
	}
	return out
}

func TestParallel(t *testing.T) {
	g, err := NewGate()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				text := fmt.Sprintf("SELECT service, max(n) + %d FROM app WHERE d > n GROUP BY 1", i*j)
				s, err := g.Parse(t.Context(), text, Params{})
				if err != nil {
					t.Error(err)
					return
				}
				b, err := s.Bind(t.Context(), tablesOf(s, testFields()), time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				if q, err := b.Exact(t.Context()); err != nil || !strings.Contains(q.SQL, fmt.Sprintf("+ %d)", i*j)) {
					t.Errorf("%s: %v, %v", text, q, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestParserIsLocked: the parser's own instance could not be turned against the node either.
func TestParserIsLocked(t *testing.T) {
	g := gate(t)
	for _, q := range []string{"SELECT * FROM read_text('/etc/hostname')", "SET threads = 2", "INSTALL httpfs"} {
		if _, err := g.db.ExecContext(t.Context(), q); err == nil {
			t.Errorf("%s: it ran", q)
		}
	}
}

// Each expression without a name costs a call of the parser, so their number has a bound that is told at once.
func TestManyExpressions(t *testing.T) {
	for name, text := range map[string]string{
		"one list":   "SELECT 1" + strings.Repeat(", 1", maxItems),
		"subqueries": "SELECT (SELECT 1" + strings.Repeat(", 1", maxItems/2) + "), (SELECT 1" + strings.Repeat(", 1", maxItems/2) + ")",
	} {
		began := time.Now()
		_, err := gate(t).Parse(t.Context(), text, Params{})
		if millstream.KindOf(err) != millstream.Invalid || !strings.Contains(fmt.Sprint(err), "more than 4096 expressions") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: refused after %s", name, took)
		}
	}
	if _, err := gate(t).Parse(t.Context(), "SELECT 1"+strings.Repeat(", 1", maxItems-1), Params{}); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
}
