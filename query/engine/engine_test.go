package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/millstream/millstream"
	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be its own child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildArg {
		if err := ChildMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func newPool(t testing.TB, change func(*Options)) *Pool {
	t.Helper()
	o := Options{Dir: t.TempDir()}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// writeFiles makes n Parquet files of 1,000 rows each: times 1 ms apart from a start, a text, an integer.
func writeFiles(t testing.TB, n int) []string {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir := t.TempDir()
	var files []string
	for i := range n {
		f := filepath.Join(dir, fmt.Sprintf("%d.parquet", i))
		_, err := db.Exec(fmt.Sprintf(`COPY (SELECT make_timestamp_ns(1700000000000000000 + %d + i * 1000000) AS _timestamp, 'svc' || (i %% 5) AS %s, i AS %s
			FROM range(1000) t(i)) TO '%s' (FORMAT parquet, ROW_GROUP_SIZE 2048)`, i*1_000_000_000, millstream.FieldID("service"), millstream.FieldID("n"), f))
		if err != nil {
			t.Fatal(err)
		}
		files = append([]string{f}, files...)
	}
	return files
}

func table(files ...string) Table {
	return Table{View: "t0", Files: files, Columns: []Column{
		{ID: millstream.TimestampField, Name: millstream.TimestampField, Type: millstream.Timestamp},
		{ID: millstream.FieldID("service"), Name: "service", Type: millstream.String},
		{ID: millstream.FieldID("n"), Name: "n", Type: millstream.Int64},
		{ID: millstream.FieldID("gone"), Name: "gone.field", Type: millstream.Double},
	}}
}

// answer is a result as text: a line of names and types, then one a row.
func answer(t testing.TB, p *Pool, j Job) (string, Stats, error) {
	t.Helper()
	var b strings.Builder
	stats, err := p.Run(t.Context(), j, func(r arrow.RecordBatch) error {
		if b.Len() == 0 {
			for i, f := range r.Schema().Fields() {
				typ, _ := f.Metadata.GetValue(TypeKey)
				fmt.Fprintf(&b, "%s%s:%s", comma(i), f.Name, typ)
			}
			b.WriteByte('\n')
		}
		for row := range int(r.NumRows()) {
			for i, c := range r.Columns() {
				b.WriteString(comma(i) + c.ValueStr(row))
			}
			b.WriteByte('\n')
		}
		return nil
	})
	return b.String(), stats, err
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func TestRun(t *testing.T) {
	p := newPool(t, nil)
	files := writeFiles(t, 2)
	for name, c := range map[string]struct{ sql, want string }{
		"group":        {"SELECT service, count(*) AS n FROM t0 GROUP BY service ORDER BY 1 LIMIT 2", "service:VARCHAR,n:BIGINT\nsvc0,400\nsvc1,400\n"},
		"empty":        {"SELECT service, n FROM t0 WHERE n < 0", "service:VARCHAR,n:BIGINT\n"},
		"same names":   {"SELECT n, n AS n, count(*), count(*) FROM t0 WHERE n = 1 GROUP BY n", "n:BIGINT,n:BIGINT,count_star():BIGINT,count_star():BIGINT\n1,1,2,2\n"},
		"absent field": {`SELECT max("gone.field") AS m FROM t0`, "m:DOUBLE\n(null)\n"},
		"time":         {"SELECT min(_timestamp) AS t FROM t0 WHERE _timestamp > '2023-11-14 22:13:21'", "t:TIMESTAMP_NS\n2023-11-14T22:13:21.001\n"},
		"numbers":      {"SELECT sum(n) AS h, 1.50 AS d, 2::UTINYINT AS u, 1e300 AS f, -5::HUGEINT AS m FROM t0", "h:HUGEINT,d:DECIMAL(3,2),u:UTINYINT,f:DOUBLE,m:HUGEINT\n999000,1.5,2,1e+300,-5\n"},
		"nested": {"SELECT [1, 2] AS l, {'a': 'x', 'b': [NULL, true]} AS s, MAP {'k': 1} AS m",
			"l:INTEGER[],s:STRUCT(\"a\" VARCHAR, \"b\" BOOLEAN[]),m:MAP(VARCHAR, INTEGER)\n[1,2],{\"a\":\"x\",\"b\":[null,true]},{\"k\":1}\n"},
		"others": {"SELECT INTERVAL 90 MINUTE AS i, DATE '2024-02-29' AS d, TIME '01:02:03' AS t, '\\xAB'::BLOB AS b, NULL AS n, true AS y",
			"i:INTERVAL,d:DATE,t:TIME,b:BLOB,n:INTEGER,y:BOOLEAN\n01:30:00,2024-02-29,01:02:03.000000,qw==,(null),true\n"},
		"texts": {"SELECT 'exactly12byt' AS a, 'thirteen byte' AS b, '' AS c, NULL::VARCHAR AS d, 'ü€' AS e",
			"a:VARCHAR,b:VARCHAR,c:VARCHAR,d:VARCHAR,e:VARCHAR\nexactly12byt,thirteen byte,,(null),ü€\n"},
	} {
		got, _, err := answer(t, p, Job{SQL: c.sql, Tables: []Table{table(files...)}})
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

func TestRangeAndEmptyTable(t *testing.T) {
	p := newPool(t, nil)
	tab := table(writeFiles(t, 2)...)
	tab.Range = &millstream.TimeRange{Start: 1700000000500000000, End: 1700000001500000000}
	none := table()
	none.View = "t1"
	got, _, err := answer(t, p, Job{SQL: "SELECT count(*) AS n FROM t0 UNION ALL SELECT count(*) FROM t1", Tables: []Table{tab, none}})
	if want := "n:BIGINT\n1000\n0\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestOpenRange(t *testing.T) {
	p := newPool(t, nil)
	for _, r := range []millstream.TimeRange{{Start: math.MinInt64, End: math.MaxInt64}, {Start: math.MinInt64, End: 1 << 62}, {Start: 0, End: math.MaxInt64}} {
		tab := table(writeFiles(t, 2)...)
		tab.Range = &r
		got, _, err := answer(t, p, Job{SQL: "SELECT count(*) AS n FROM t0", Tables: []Table{tab}})
		if want := "n:BIGINT\n2000\n"; err != nil || got != want {
			t.Errorf("%v: got %q, %v; want %q", r, got, err, want)
		}
	}
}

func TestManyRowsAndLimits(t *testing.T) {
	p := newPool(t, nil)
	tab := table(writeFiles(t, 50)...)
	rows, sum := int64(0), int64(0)
	stats, err := p.Run(t.Context(), Job{SQL: "SELECT n, CASE WHEN n % 3 = 0 THEN NULL ELSE service END AS s, n % 2 = 0 AS even FROM t0", Tables: []Table{tab}}, func(r arrow.RecordBatch) error {
		rows += r.NumRows()
		for i := range int(r.NumRows()) {
			if r.Column(1).IsNull(i) {
				sum++
			}
		}
		return nil
	})
	if err != nil || rows != 50_000 || stats.Rows != rows || stats.Truncated || sum != 50*334 {
		t.Errorf("rows %d, nulls %d, stats %+v, %v", rows, sum, stats, err)
	}
	_, stats, err = answer(t, p, Job{SQL: "SELECT n FROM t0 ORDER BY n DESC", Tables: []Table{tab}, MaxRows: 3000})
	if err != nil || stats.Rows != 3000 || !stats.Truncated {
		t.Errorf("limited: %+v, %v", stats, err)
	}
	_, stats, err = answer(t, p, Job{SQL: "SELECT n FROM t0 LIMIT 3000", Tables: []Table{tab}, MaxRows: 3000})
	if err != nil || stats.Rows != 3000 || stats.Truncated {
		t.Errorf("exactly at the limit: %+v, %v", stats, err)
	}
	_, _, err = answer(t, p, Job{SQL: "SELECT service FROM t0", Tables: []Table{tab}, MaxBytes: 1000})
	if millstream.KindOf(err) != millstream.Unprocessable {
		t.Errorf("over MaxBytes: %v", err)
	}
}

func TestErrors(t *testing.T) {
	p := newPool(t, nil)
	tab := table(writeFiles(t, 1)...)
	for sql, want := range map[string]millstream.Kind{
		"SELECT nothing FROM t0":                         millstream.Invalid,
		"SELECT CAST(service AS BIGINT) FROM t0":         millstream.Invalid,
		"SELECT 1; SELECT 2":                             millstream.Invalid,
		"SELECT * FROM '/etc/passwd'":                    millstream.Invalid,
		"SELECT error('x')":                              millstream.Invalid,
		"SELECT list_reduce([], (a, b) -> a + b) AS r":   millstream.Invalid,
		"SELECT 9223372036854775807::BIGINT + n FROM t0": millstream.Invalid,
	} {
		_, _, err := answer(t, p, Job{SQL: sql, Tables: []Table{tab}})
		if millstream.KindOf(err) != want {
			t.Errorf("%s: %v", sql, err)
		}
		for _, hidden := range []string{tab.Files[0], "LINE 1"} {
			if err != nil && strings.Contains(millstream.Message(err), hidden) {
				t.Errorf("%s: the message shows %q: %s", sql, hidden, millstream.Message(err))
			}
		}
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

// TestDamagedFile: a fault of a file is ours, not the statement's, and is not shown.
func TestDamagedFile(t *testing.T) {
	p := newPool(t, nil)
	f := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(f, []byte("PAR1 this is not Parquet PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT n FROM t0", Tables: []Table{table(f)}}); millstream.KindOf(err) != millstream.Internal {
		t.Errorf("damaged: %v", err)
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT n FROM t0", Tables: []Table{table(f + ".gone")}}); millstream.KindOf(err) != millstream.Internal {
		t.Errorf("missing: %v", err)
	}
}

// forever is a query that runs until it is stopped.
const forever = "SELECT count(*) FROM range(100000000000) a(x) WHERE hash(x) = 1"

func TestCancel(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Grace = 5 * time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	start := time.Now()
	_, err := p.Run(ctx, Job{SQL: forever}, func(arrow.RecordBatch) error { return nil })
	if millstream.KindOf(err) != millstream.Canceled || time.Since(start) > time.Minute {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if n := len(p.idle); n != 1 {
		t.Errorf("%d idle children; the canceled one should go on", n)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, Job{SQL: forever}, func(arrow.RecordBatch) error { return nil }); millstream.KindOf(err) != millstream.Timeout {
		t.Errorf("deadline: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(done, Job{SQL: forever}, func(arrow.RecordBatch) error { return nil }); millstream.KindOf(err) != millstream.Canceled {
		t.Errorf("canceled before: %v", err)
	}
}

func TestEmitError(t *testing.T) {
	p := newPool(t, nil)
	enough := errors.New("enough")
	_, err := p.Run(t.Context(), Job{SQL: "SELECT x FROM range(1000000000) r(x)"}, func(arrow.RecordBatch) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if got, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil || got != "x:INTEGER\n1\n" {
		t.Errorf("after: %q, %v", got, err)
	}
}

func TestKilledWhenItDoesNotStop(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Grace = 200 * time.Millisecond; o.Memory = 4 << 30 })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	// One expression over one row: DuckDB looks for an interrupt between chunks of rows only.
	_, err := p.Run(ctx, Job{SQL: "SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000))"}, func(arrow.RecordBatch) error { return nil })
	if millstream.KindOf(err) != millstream.Timeout || time.Since(start) > 30*time.Second { // the statement takes minutes
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil {
		t.Errorf("after the kill: %v", err)
	}
}

func TestCrash(t *testing.T) {
	p := newPool(t, nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for crashed := false; !crashed; time.Sleep(10 * time.Millisecond) {
			p.mu.Lock()
			for c := range p.all { // there is none before the job needs it
				crashed = true
				if err := unix.Kill(c.cmd.Process.Pid, unix.SIGSEGV); err != nil {
					t.Error(err)
				}
			}
			p.mu.Unlock()
		}
	})
	_, err := p.Run(t.Context(), Job{SQL: forever}, func(arrow.RecordBatch) error { return nil })
	if millstream.KindOf(err) != millstream.Unprocessable || !strings.Contains(err.Error(), "engine failed") {
		t.Errorf("got %v", err)
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil {
		t.Errorf("after the crash: %v", err)
	}
}

func TestMemory(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Memory, o.Temp = 128<<20, 1<<20 })
	for name, sql := range map[string]string{
		"counted by DuckDB": "SELECT count(*) FROM (SELECT DISTINCT x, hash(x) FROM range(20000000) r(x))",
		"one huge text":     "SELECT length(repeat('x', 3000000000))",
		"a huge list":       "SELECT len(range(400000000))",
		"doubling":          "WITH RECURSIVE r AS (SELECT 'xxxxxxxxxxxxxxxx' AS s, 1 AS i UNION ALL SELECT s || s, i + 1 FROM r WHERE i < 28) SELECT max(length(s)) FROM r",
	} {
		_, _, err := answer(t, p, Job{SQL: sql})
		if millstream.KindOf(err) != millstream.Unprocessable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil {
		t.Errorf("after: %v", err)
	}
}

func TestManyFiles(t *testing.T) {
	p := newPool(t, nil)
	got, _, err := answer(t, p, Job{SQL: "SELECT count(*) AS n, count(DISTINCT service) AS s FROM t0", Tables: []Table{table(writeFiles(t, 200)...)}})
	if want := "n:BIGINT,s:BIGINT\n200000,5\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestIdleChildrenStop(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Idle = 50 * time.Millisecond })
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil {
		t.Fatal(err)
	}
	p.wg.Wait() // the child's goroutine ends with it
	p.mu.Lock()
	defer p.mu.Unlock()
	if left, err := filepath.Glob(filepath.Join(p.o.Dir, "child-*")); err != nil || len(left) > 0 || len(p.all) > 0 {
		t.Errorf("left: %v, %v, %d children", left, err, len(p.all))
	}
}

func TestCloseEndsJobs(t *testing.T) {
	p := newPool(t, nil)
	time.AfterFunc(200*time.Millisecond, func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.Run(t.Context(), Job{SQL: forever}, func(arrow.RecordBatch) error { return nil }); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("running: %v", err)
	}
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1"}); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("after: %v", err)
	}
}

func TestParallel(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Children = 2 })
	tab := table(writeFiles(t, 3)...)
	errs := make(chan error, 12)
	for i := range cap(errs) {
		go func() {
			got, _, err := answer(t, p, Job{SQL: fmt.Sprintf("SELECT count(*) + %d AS n FROM t0", i), Tables: []Table{tab}})
			if want := fmt.Sprintf("n:BIGINT\n%d\n", 3000+i); err == nil && got != want {
				err = fmt.Errorf("got %q, want %q", got, want)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if len(p.all) > 2 {
		t.Errorf("%d children", len(p.all))
	}
}

// Rows of a megabyte go out a few at a time, whole and in order, though DuckDB gives 2,048 at once.
func TestWideRows(t *testing.T) {
	p := newPool(t, nil)
	n, largest := int64(0), 0
	_, err := p.Run(t.Context(), Job{SQL: "SELECT i, CASE WHEN i % 7 <> 0 THEN repeat(chr(65 + (i % 26)::INTEGER), 1 << 20) END AS s FROM range(100) AS r(i)"}, func(r arrow.RecordBatch) error {
		size := 0
		for i := range int(r.NumRows()) {
			s := r.Column(1).(*array.String).Value(i)
			size += len(s)
			if r.Column(0).(*array.Int64).Value(i) != n || r.Column(1).IsNull(i) != (n%7 == 0) || n%7 != 0 && s != strings.Repeat(string(rune('A'+n%26)), 1<<20) {
				t.Errorf("row %d is wrong", n)
			}
			n++
		}
		largest = max(largest, size)
		return nil
	})
	if err != nil || n != 100 || largest > batchBytes || largest < batchBytes/2 {
		t.Errorf("%d rows, the largest batch has %d bytes, %v", n, largest, err)
	}
}
