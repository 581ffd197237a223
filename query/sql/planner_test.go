package sql

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"golang.org/x/sys/unix"
)

// planOf binds a statement and gives its plan.
func planOf(t testing.TB, text string) *Plan {
	t.Helper()
	s, err := gate(t).Parse(t.Context(), text, Params{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := s.Bind(t.Context(), tablesOf(s, testFields()), time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b.Plan
}

func TestPlan(t *testing.T) {
	app := millstream.StreamKey{Org: "o", Signal: millstream.Logs, Name: "app"}
	count := func(name string, agg int) Output { return Output{Name: name, Key: -1, Agg: agg, Type: "BIGINT"} }
	field := func(name, typ string) Output { return Output{Name: name, Field: name, Key: -1, Agg: -1, Type: typ} }
	key := func(name string, i int, typ string) Output { return Output{Name: name, Key: i, Agg: -1, Type: typ} }
	level := func(op segment.Op, v string) segment.Expr {
		return segment.Compare{Field: "level", Op: op, Value: segment.Value{Kind: segment.StringValue, Str: v}}
	}
	for text, want := range map[string]Plan{
		"SELECT count(*) FROM app": {Aggregate: true, Aggs: []Agg{{}}, Out: []Output{count("count_star()", 0)}, Limit: -1},
		"SELECT * FROM app WHERE level = 'x' ORDER BY _timestamp DESC LIMIT 5 OFFSET 2": {Star: true, Filter: level(segment.Eq, "x"), Order: []Order{{Desc: true}}, Limit: 5, Offset: 2},
		"FROM app": {Star: true, Limit: -1},
		"SELECT level, _timestamp FROM app ORDER BY 2":   {Out: []Output{field("level", "VARCHAR"), field("_timestamp", "TIMESTAMP_NS")}, Order: []Order{{Out: 1}}, Limit: -1},
		"SELECT level AS l FROM app ORDER BY _timestamp": {Out: []Output{{Name: "l", Field: "level", Key: -1, Agg: -1, Type: "VARCHAR"}}, Order: []Order{{Out: -1}}, Limit: -1},
		"SELECT service, count(*) AS n FROM app GROUP BY service ORDER BY n DESC, 1 NULLS FIRST LIMIT 3": {Aggregate: true, Keys: []Key{{Field: "service"}}, Aggs: []Agg{{}},
			Out: []Output{key("service", 0, "VARCHAR"), count("n", 0)}, Order: []Order{{Out: 1, Desc: true}, {Out: 0, NullsFirst: true}}, Limit: 3},
		"SELECT histogram(_timestamp, '5m') b, n, avg(d) FROM app GROUP BY ALL ORDER BY histogram(_timestamp, '5m')": {Aggregate: true,
			Keys: []Key{{Field: "_timestamp", Bucket: 300e9}, {Field: "n"}}, Aggs: []Agg{{Func: Avg, Field: "d"}},
			Out: []Output{key("b", 0, "TIMESTAMP_NS"), key("n", 1, "BIGINT"), {Name: "avg(d)", Key: -1, Agg: 0, Type: "DOUBLE"}}, Order: []Order{{}}, Limit: -1},
		"SELECT DISTINCT ok FROM app": {Aggregate: true, Keys: []Key{{Field: "ok"}}, Out: []Output{key("ok", 0, "BOOLEAN")}, Limit: -1},
		"SELECT sum(CASE WHEN level = 'x' THEN 1 ELSE 0 END) s, count(*) FILTER (WHERE level <> 'y') c, sum(n) t, count(DISTINCT n) u, quantile_cont(n, 0.9) q FROM app": {Aggregate: true,
			Aggs: []Agg{{Filter: level(segment.Eq, "x"), NullIfEmpty: true}, {Filter: level(segment.Ne, "y")}, {Func: Sum, Field: "n"}, {Func: CountDistinct, Field: "n"}, {Func: Quantile, Field: "n", P: 0.9}},
			Out:  []Output{{Name: "s", Key: -1, Agg: 0, Type: "HUGEINT"}, count("c", 1), {Name: "t", Key: -1, Agg: 2, Type: "HUGEINT"}, count("u", 3), {Name: "q", Key: -1, Agg: 4, Type: "DOUBLE"}}, Limit: -1},
		"SELECT count(*), count(*), count(1) FROM app": {Aggregate: true, Aggs: []Agg{{}}, Out: []Output{count("count_star()", 0), count("count_star()", 0), count("count(1)", 0)}, Limit: -1},
	} {
		want.Stream = app
		if got := planOf(t, text); got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
}

// TestNotPlanned has statements that kernels would not answer as SQL does.
func TestNotPlanned(t *testing.T) {
	for _, text := range []string{
		"SELECT n + 1 FROM app", "SELECT * FROM app ORDER BY n", "SELECT * FROM app ORDER BY _timestamp, n", "SELECT service FROM app GROUP BY service HAVING count(*) > 1",
		"SELECT * FROM app, other", "SELECT * FROM (SELECT * FROM app)", "WITH a AS (SELECT 1) SELECT n FROM app", "SELECT n FROM app WHERE n = d", "SELECT sum(ok) FROM app",
		"SELECT sum(DISTINCT n) FROM app", "SELECT sum(status) FROM app", "SELECT quantile_cont(moment, 0.5) FROM app", "SELECT quantile_cont(n, [0.5, 0.9]) FROM app",
		"SELECT list(n) FROM app", "SELECT count(*) OVER () FROM app", "SELECT service, count(*) FROM app GROUP BY CUBE (service)", "SELECT lower(service) FROM app GROUP BY 1",
		"SELECT DISTINCT ON (service) service FROM app", "SELECT * EXCLUDE (n) FROM app", "SELECT COLUMNS('n') FROM app", "SELECT n FROM app USING SAMPLE 10%",
		"SELECT n FROM app LIMIT 10%", "SELECT n FROM app UNION SELECT n FROM app", "SELECT 1 FROM app", "SELECT count(*) + 1 FROM app", "SELECT n FROM app WHERE level = 'a' COLLATE NOCASE",
		"SELECT sum(CASE WHEN n > 1 THEN d ELSE 0 END) FROM app", "SELECT n FROM app QUALIFY row_number() OVER () = 1", "SELECT count(*) FROM app GROUP BY service ORDER BY service",
		"SELECT histogram(moment, '1m') AS b, count(*) FROM app GROUP BY b", "SELECT n FROM app WHERE n IN (SELECT 1)", "SELECT n FROM app WHERE n = 1.5::DECIMAL(4,2)",
		"SELECT sum(n) FILTER (WHERE n > d) FROM app", "SELECT string_agg(level ORDER BY n) FROM app", "SELECT max(n ORDER BY d) FROM app",
	} {
		if p := planOf(t, text); p != nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

// TestSuiteIsPlanned: every statement of the log benchmark runs on kernels.
func TestSuiteIsPlanned(t *testing.T) {
	body, err := os.ReadFile("testdata/suite.json")
	if err != nil {
		t.Fatal(err)
	}
	var statements map[string]string
	if err := json.Unmarshal(body, &statements); err != nil {
		t.Fatal(err)
	}
	f := func(name string, typ millstream.Type) millstream.Field {
		return millstream.Field{Name: name, Type: typ}
	}
	fields := map[string][]millstream.Field{"logs": {f("service", millstream.String), f("level", millstream.String), f("message", millstream.String),
		f("trace_id", millstream.String), f("user_id", millstream.Int64), f("duration_ms", millstream.Double)}}
	for name, text := range statements {
		s, err := gate(t).Parse(t.Context(), text, Params{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b, err := s.Bind(t.Context(), tablesOf(s, fields), time.Now()); err != nil || b.Plan == nil {
			t.Errorf("%s: no plan, %v", name, err)
		}
	}
}

// TestFilters: what a WHERE becomes. Names are short: C compare, and the literal with its kind.
func TestFilters(t *testing.T) {
	for where, want := range map[string]string{
		"n > 1.5":                                "{n 4 {1 0 1.5 }}",
		"n > 2.0":                                "{n 4 {0 2 0 }}",
		"5 > n":                                  "{n 2 {0 5 0 }}",
		"n = '7'":                                "{n 0 {0 7 0 }}",
		"d = 3":                                  "{d 0 {1 0 3 }}",
		"d < -1.25e2":                            "{d 2 {1 0 -125 }}",
		"status >= 500":                          "{status 5 {0 500 0 }}",
		"ok":                                     "{ok 0 {3 1 0 }}",
		"NOT ok":                                 "{{ok 0 {3 1 0 }}}",
		"ok = false":                             "{ok 0 {3 0 0 }}",
		"level IS NOT NULL":                      "{{level}}",
		"level LIKE '%a_b%'":                     "{level %a_b% false}",
		`level LIKE '%a\b%'`:                     `{level a\b}`,
		`level LIKE 'a\%'`:                       `{level a\\% false}`,
		"level LIKE 'plain'":                     "{level 0 {2 0 0 plain}}",
		"level ILIKE 'A%'":                       "{level A% true}",
		"message LIKE '%50!%%' ESCAPE '!'":       "{message 50%}",
		"starts_with(message, '50%')":            `{message 50\%% false}`,
		"regexp_matches(message, 'a.b')":         "{message a.b}",
		"message ~ 'a|b'":                        `{message \A(?:a|b)\z}`,
		"match(message, 'a \"b c\"')":            `{message a "b c"}`,
		"match('host.name', 'h1')":               "{host.name h1}",
		"match_all('x') OR n = 1":                "[{ x} {n 0 {0 1 0 }}]",
		"_timestamp >= '2023-11-14'":             "{_timestamp 5 {4 1699920000000000000 0 }}",
		"_timestamp > 5":                         "{_timestamp 4 {4 5 0 }}",
		"_timestamp < now() - INTERVAL 1 MINUTE": "{_timestamp 2 {4 1699999940000000000 0 }}",
		"_timestamp = TIMESTAMP_NS '2023-11-14 00:00:00.123456789'":     "{_timestamp 0 {4 1699920000123456789 0 }}",
		"_timestamp BETWEEN '2023-11-14' AND '2023-11-14T01:00:00Z'":    "[{_timestamp 5 {4 1699920000000000000 0 }} {_timestamp 3 {4 1699923600000000000 0 }}]",
		"moment < TIMESTAMPTZ '2023-11-14 01:00:00+01' AND n IN (1, 2)": "[{moment 2 {4 1699920000000000000 0 }} {n [{0 1 0 } {0 2 0 }]}]",
		"host.name <> 'a'":     "{host.name 1 {2 0 0 a}}",
		"app.host.name <> 'a'": "{host.name 1 {2 0 0 a}}",
	} {
		p := planOf(t, "SELECT n FROM app WHERE "+where)
		if p == nil {
			t.Errorf("%s: no plan", where)
			continue
		}
		if got := fmt.Sprint(p.Filter); got != want {
			t.Errorf("%s: got %s, want %s", where, got, want)
		}
	}
}

// TestCaseDistinctFields: fields that differ by case only are two columns, everywhere.
func TestCaseDistinctFields(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT "Level", "level" FROM cased WHERE n = d`:                          `SELECT "Level", "level#2" AS "level" FROM t0 AS cased WHERE (n = d)`,
		`SELECT c.level FROM cased c WHERE c."Level" = c.level`:                   `SELECT c."level#2" AS "level" FROM t0 AS c WHERE (c."Level" = c."level#2")`,
		`SELECT x.level FROM (SELECT "Level", level FROM cased) x`:                `SELECT x."level#2" AS "level" FROM (SELECT "Level", "level#2" AS "level#2" FROM t0 AS cased) AS x`,
		`WITH a AS (SELECT * FROM cased) SELECT "Level" FROM a WHERE level = 'x'`: `WITH a AS (SELECT * FROM t0 AS cased)SELECT "Level" FROM a WHERE ("level#2" = 'x')`,
		`SELECT * EXCLUDE (level) FROM cased`:                                     `SELECT * EXCLUDE ("level#2") FROM t0 AS cased`,
		`SELECT count(*) FROM cased a JOIN cased b USING (level)`:                 `SELECT count_star() FROM t0 AS a INNER JOIN t1 AS b USING ("level#2")`,
	} {
		s, err := gate(t).Parse(t.Context(), text, Params{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Bind(t.Context(), tablesOf(s, testFields()), time.Now())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if q, err := b.Direct(t.Context()); err != nil || strings.TrimSpace(q.SQL) != want {
			t.Errorf("%s:\n got %v, %v\nwant %s", text, q, err, want)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	g, err := NewGate()
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	const text = "SELECT histogram(_timestamp, '5 minute') AS b, service, sum(CASE WHEN level IN ('error','fatal') THEN 1 ELSE 0 END) AS errs, count(*) AS total FROM app GROUP BY b, service"
	s, err := g.Parse(b.Context(), text, Params{})
	if err != nil {
		b.Fatal(err)
	}
	tables, i := tablesOf(s, testFields()), 0
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"new", func() error {
			i++
			_, err := g.Parse(b.Context(), fmt.Sprintf("%s LIMIT %d", text, i), Params{})
			return err
		}},
		{"cached", func() error { _, err := g.Parse(b.Context(), text, Params{}); return err }},
		{"bind", func() error { _, err := s.Bind(b.Context(), tables, time.Now()); return err }},
		{"bind+sql", func() error {
			bound, err := s.Bind(b.Context(), tables, time.Now())
			if err == nil {
				_, err = bound.Exact(b.Context())
			}
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			start := cpuTime(b)
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpuTime is what this process has used.
func cpuTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
