package scan_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	qsql "github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// world is a stream with random records: as sources of every kind, and as one DuckDB table.
type world struct {
	schema  millstream.Schema
	batches []*millstream.Batch // types as each batch has them
	rng     millstream.TimeRange
	db      *sql.DB
	gate    *qsql.Gate
}

var epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()

// newWorld makes batches of random sizes. Later batches widen some fields. Times are distinct and, in part, out of order.
func newWorld(t *testing.T, r *rand.Rand, rows int) *world {
	t.Helper()
	w := &world{rng: millstream.TimeRange{Start: epoch - 1e9, End: epoch + int64(rows)*1e9}}
	at := 0
	for part := 0; at < rows; part++ {
		n := min(rows-at, 1+r.IntN(rows/2+1))
		w.batches = append(w.batches, randomBatch(r, at, n, part))
		at += n
	}
	for _, b := range w.batches {
		for _, c := range b.Columns {
			w.add(millstream.Field{Name: c.Name, Type: c.Type, Seen: []millstream.Type{c.Type}})
		}
	}
	w.load(t)
	return w
}

func (w *world) add(f millstream.Field) {
	for i := range w.schema.Fields {
		if w.schema.Fields[i].Name == f.Name {
			w.schema.Fields[i] = w.schema.Fields[i].Join(f)
			return
		}
	}
	w.schema.Fields = append(w.schema.Fields, f)
}

func randomBatch(r *rand.Rand, from, n, part int) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for i := range n {
		maybe := func(p float64, f func()) {
			if r.Float64() < p {
				f()
			}
		}
		maybe(0.9, func() { b.String([]byte("service"), fmt.Appendf(nil, "svc-%d", r.IntN(6))) })
		maybe(0.95, func() {
			b.String([]byte("level"), []byte([]string{"info", "warn", "error", "fatal", ""}[r.IntN(5)]))
		})
		maybe(0.8, func() { b.String([]byte("user_id"), fmt.Appendf(nil, "u%d", r.IntN(n+1))) })
		maybe(0.7, func() { b.Int([]byte("n"), r.Int64N(2000)-1000) })
		maybe(0.1, func() { b.Int([]byte("big"), math.MaxInt64-r.Int64N(3)) })
		maybe(0.6, func() { b.Double([]byte("d"), math.Round(r.NormFloat64()*1e4)/16) })
		maybe(0.5, func() { b.Bool([]byte("ok"), r.IntN(2) == 0) })
		maybe(0.5, func() { b.Time([]byte("seen"), epoch+r.Int64N(50)*1e6) })
		maybe(0.9, func() { b.String([]byte("message"), message(r)) })
		maybe(0.8, func() { // int64 at first, then double
			if part%2 == 0 {
				b.Int([]byte("num"), r.Int64N(20))
			} else {
				b.Double([]byte("num"), float64(r.Int64N(40))/2)
			}
		})
		maybe(0.8, func() { // int64 at first, then text
			if part%3 == 0 {
				b.Int([]byte("mixed"), r.Int64N(300)+400)
			} else {
				b.String([]byte("mixed"), []byte([]string{"404", "n/a", "500", "7", ""}[r.IntN(5)]))
			}
		})
		if err := b.Commit(epoch + int64(from+(i^3))*1e9 + r.Int64N(1e9)); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

func message(r *rand.Rand) []byte {
	words := []string{"connection", "reset", "by", "peer", "timeout", "after", "10ms", "GET", "/path", "user", "done", "Ünïcode"}
	var out []string
	for range 1 + r.IntN(8) {
		out = append(out, words[r.IntN(len(words))])
	}
	return []byte(strings.Join(out, " "))
}

// load fills DuckDB's table f, whose columns have the names that segment objects use.
func (w *world) load(t *testing.T) {
	t.Helper()
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	w.db = sql.OpenDB(connector)
	t.Cleanup(func() { _ = w.db.Close() })
	w.db.SetMaxOpenConns(1)
	cols := []string{"_timestamp BIGINT"}
	for _, f := range w.schema.Fields {
		cols = append(cols, fmt.Sprintf("%s %s", millstream.FieldID(f.Name), map[millstream.Type]string{
			millstream.Bool: "BOOLEAN", millstream.Int64: "BIGINT", millstream.Double: "DOUBLE", millstream.Timestamp: "BIGINT", millstream.String: "VARCHAR",
		}[f.Type]))
	}
	if _, err := w.db.Exec("CREATE TABLE f (" + strings.Join(cols, ", ") + ")"); err != nil {
		t.Fatal(err)
	}
	conn, err := connector.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	app, err := duckdb.NewAppenderFromConn(conn, "", "f")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range w.batches {
		for i, ts := range b.Times {
			row := []driver.Value{ts}
			for _, f := range w.schema.Fields {
				row = append(row, cell(b.Column(f.Name), i, f.Type))
			}
			if err := app.AppendRow(row...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := app.Close(); err != nil {
		t.Fatal(err)
	}
	if w.gate, err = qsql.NewGate(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.gate.Close() })
}

// cell is a value as the stream's type has it.
func cell(c *millstream.Column, i int, t millstream.Type) driver.Value {
	switch {
	case c == nil || !c.IsValid(i):
		return nil
	case t == millstream.String:
		return strings.Clone(c.Text(i))
	case t == millstream.Double && c.Type == millstream.Int64:
		return float64(c.Ints[i])
	case t == millstream.Double:
		return c.Floats[i]
	case t == millstream.Bool:
		return c.Ints[i] != 0
	}
	return c.Ints[i]
}

// sources gives the batches as they are in memory or as segments, or in part one and in part the other.
func (w *world) sources(t *testing.T, pick func(i int) bool) (ins []scan.Input) {
	t.Helper()
	for i, b := range w.batches {
		if pick(i) {
			ins = append(ins, scan.Opened(segment.Memory(b)))
			continue
		}
		ins = append(ins, scan.Opened(encoded(t, b)))
	}
	return ins
}

func encoded(t testing.TB, bs ...*millstream.Batch) *segment.Reader {
	t.Helper()
	var data, index bytes.Buffer
	if _, err := segment.Encode(&data, &index, bs, segment.Options{}); err != nil {
		t.Fatal(err)
	}
	r, err := segment.Open(bytes.NewReader(data.Bytes()), int64(data.Len()), bytes.NewReader(index.Bytes()), int64(index.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) bind(t *testing.T, text string) *qsql.Bound {
	t.Helper()
	stmt, err := w.gate.Parse(t.Context(), text, qsql.Params{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := stmt.Bind(t.Context(), []qsql.Table{{Key: millstream.StreamKey{Signal: millstream.Logs, Name: "t"}, Fields: w.schema.Fields}}, time.Unix(0, epoch))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

// kernels runs a plan and gives its rows as text.
func (w *world) kernels(t *testing.T, p *qsql.Plan, ins []scan.Input, workers int) [][]string {
	t.Helper()
	return w.run(t, scan.Request{Plan: p, Range: w.rng, Schema: w.schema, Inputs: ins, Workers: workers})
}

func (w *world) run(t *testing.T, req scan.Request) [][]string {
	t.Helper()
	var rows [][]string
	_, err := scan.Run(t.Context(), req, func(r *scan.Rows) error {
		for i := range r.N {
			row := make([]string, len(r.Columns))
			for j := range r.Columns {
				row[j] = show(&r.Columns[j], i)
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func show(c *millstream.Column, i int) string {
	switch {
	case !c.IsValid(i):
		return "∅"
	case c.Type == millstream.Double:
		return strconv.FormatFloat(c.Floats[i], 'g', 12, 64)
	}
	return strings.Clone(c.Text(i))
}

// duck runs the same statement in DuckDB.
func (w *world) duck(t *testing.T, b *qsql.Bound) [][]string {
	t.Helper()
	q, err := b.Direct(t.Context())
	if err != nil || q == nil {
		t.Fatalf("direct: %v", err)
	}
	for _, tab := range q.Tables {
		var cols []string
		for _, c := range tab.Columns {
			x := c.ID
			if c.Type == millstream.Timestamp {
				x = "make_timestamp_ns(" + x + ")"
			}
			cols = append(cols, fmt.Sprintf(`%s AS "%s"`, x, c.Name))
		}
		view := fmt.Sprintf("CREATE OR REPLACE TEMP VIEW %s AS SELECT %s FROM f WHERE _timestamp >= %d AND _timestamp < %d",
			tab.View, strings.Join(cols, ", "), w.rng.Start, w.rng.End)
		if _, err := w.db.Exec(view); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := w.db.Query(q.SQL)
	if err != nil {
		t.Fatalf("%s: %v", q.SQL, err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for rows.Next() {
		vals, ptrs := make([]any, len(names)), make([]any, len(names))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		row := make([]string, len(vals))
		for i, v := range vals {
			row[i] = showAny(v)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func showAny(v any) string {
	switch v := v.(type) {
	case nil:
		return "∅"
	case float64:
		return strconv.FormatFloat(v, 'g', 12, 64)
	case time.Time:
		return millstream.FormatTime(v.UnixNano())
	case *big.Int:
		return v.String()
	}
	return fmt.Sprint(v)
}

var (
	keyPool    = []string{"service", "level", "user_id", "n", "d", "ok", "seen", "num", "mixed", "histogram(_timestamp, '1 minute')", "histogram(_timestamp, '7 seconds')"}
	aggPool    = []string{"count(*)", "count(n)", "count(mixed)", "count(DISTINCT user_id)", "count(DISTINCT n)", "count(DISTINCT num)", "sum(n)", "sum(big)", "sum(d)", "avg(n)", "avg(num)", "min(n)", "max(d)", "min(service)", "max(message)", "min(_timestamp)", "max(_timestamp)", "min(mixed)", "max(ok)", "min(seen)", "quantile_cont(n, 0.95)", "quantile_cont(num, 0.5)", "quantile_cont(d, 0.25)", "median(d)"}
	filterPool = []string{"service = 'svc-1'", "level IN ('error', 'fatal')", "n > 10", "d <= 0.5", "user_id IS NOT NULL", "level <> 'info'", "num = 3", "num >= 4.5", "mixed >= 450", "mixed = '404'", "mixed IS NULL", "ok", "message LIKE '%reset by%'", "message ILIKE '%get%'", "n BETWEEN -5 AND 300", "NOT (service = 'svc-2')", "service = 'none'", "n = 1 OR level = 'warn'", "mixed LIKE '4%'", "seen > '2026-11-30 00:00:00.02'"}
)

func pick(r *rand.Rand, pool []string) string { return pool[r.IntN(len(pool))] }

// statement makes a random statement that kernels can run. ordered says that the order of its rows is fixed.
func statement(r *rand.Rand) (text string, ordered bool) {
	where := ""
	for range r.IntN(3) {
		if where == "" {
			where = " WHERE " + pick(r, filterPool)
		} else {
			where += " AND " + pick(r, filterPool)
		}
	}
	if r.IntN(4) == 0 {
		items := []string{"*", "_timestamp, service, n", "service, _timestamp, mixed, num, service", "message, seen, ok, _timestamp"}
		text = "SELECT " + pick(r, items) + " FROM t" + where
		if r.IntN(4) > 0 {
			text += " ORDER BY _timestamp" + pick(r, []string{"", " DESC"}) + fmt.Sprintf(" LIMIT %d OFFSET %d", r.IntN(60), r.IntN(3)*r.IntN(20))
			ordered = true
		}
		return text, ordered
	}
	var items, keys []string
	for i := range r.IntN(4) {
		items = append(items, fmt.Sprintf("%s AS k%d", pick(r, keyPool), i))
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	for i := range 1 + r.IntN(4) {
		a := pick(r, aggPool)
		if r.IntN(4) == 0 {
			a += " FILTER (WHERE " + pick(r, filterPool) + ")"
		}
		if r.IntN(8) == 0 {
			a = "sum(CASE WHEN " + pick(r, filterPool) + " THEN 1 ELSE 0 END)"
		}
		items = append(items, fmt.Sprintf("%s AS a%d", a, i))
	}
	text = "SELECT " + strings.Join(items, ", ") + " FROM t" + where
	if len(keys) > 0 {
		text += " GROUP BY " + strings.Join(keys, ", ")
		if r.IntN(2) == 0 {
			text += " ORDER BY a0" + pick(r, []string{"", " DESC", " DESC NULLS FIRST", " NULLS FIRST"})
			for _, k := range keys {
				text += ", " + k + pick(r, []string{"", " DESC"})
			}
			text += fmt.Sprintf(" LIMIT %d", 1+r.IntN(30))
			ordered = true
		}
	}
	return text, ordered
}

// TestKernelsAnswerLikeDuckDB runs random statements both ways, over sources in memory, in segments, and mixed.
func TestKernelsAnswerLikeDuckDB(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, r, 20+r.IntN(4000))
			memory := w.sources(t, func(int) bool { return true })
			mixed := w.sources(t, func(i int) bool { return i%2 == 0 })
			disk := w.sources(t, func(int) bool { return false })
			planned := 0
			for range 100 {
				if r.IntN(3) == 0 {
					w.rng = millstream.TimeRange{Start: epoch + r.Int64N(1e12), End: epoch + r.Int64N(4e12)}
				} else {
					w.rng = millstream.TimeRange{Start: 0, End: math.MaxInt64}
				}
				text, ordered := statement(r)
				b := w.bind(t, text)
				if b.Plan == nil {
					continue
				}
				planned++
				want := w.duck(t, b)
				for name, ins := range map[string][]scan.Input{"memory": memory, "mixed": mixed, "segments": disk} {
					got := w.kernels(t, b.Plan, ins, 1+r.IntN(3))
					if !same(got, want, ordered) {
						t.Fatalf("%s, range %v, %s:\n got %d rows %v\nwant %d rows %v", text, w.rng, name, len(got), head(got), len(want), head(want))
					}
					if got = w.spread(t, b.Plan, ins, r); !same(got, want, ordered) {
						t.Fatalf("%s, range %v, %s, divided between nodes:\n got %d rows %v\nwant %d rows %v", text, w.rng, name, len(got), head(got), len(want), head(want))
					}
				}
			}
			if planned < 70 {
				t.Errorf("%d of 100 statements had a plan", planned)
			}
		})
	}
}

func head(rows [][]string) [][]string { return rows[:min(len(rows), 12)] }

// same compares answers, as sets unless their order is fixed.
func same(a, b [][]string, ordered bool) bool {
	if len(a) != len(b) {
		return false
	}
	if !ordered {
		a, b = slices.Clone(a), slices.Clone(b)
		slices.SortFunc(a, slices.Compare)
		slices.SortFunc(b, slices.Compare)
	}
	return slices.EqualFunc(a, b, slices.Equal)
}
