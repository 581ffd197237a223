package scan_test

import (
	"bufio"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/json"
	"github.com/millstream/millstream/query/scan"
	qsql "github.com/millstream/millstream/query/sql"
)

// The suite runs on generated records, or on a file: go test ./query/scan -bench . -ndjson logs.ndjson, with what `msbench gen -kind logs` writes.
var ndjson = flag.String("ndjson", "", "file of log records for the benchmarks")

// suite is the log suite of the benchmark driver.
var suite = []struct{ name, sql string }{
	{"count_all", "SELECT count(*) AS n FROM t"},
	{"count_by_service", "SELECT service, count(*) AS n FROM t GROUP BY service"},
	{"histogram_1m", "SELECT histogram(_timestamp, '1 minute') AS b, count(*) AS n FROM t GROUP BY b ORDER BY b"},
	{"rare_word_100", "SELECT * FROM t WHERE match_all('quasarflux') ORDER BY _timestamp DESC LIMIT 100"},
	{"frequent_word_100", "SELECT * FROM t WHERE match_all('completed') ORDER BY _timestamp DESC LIMIT 100"},
	{"phrase_count", "SELECT count(*) AS n FROM t WHERE message LIKE '%connection reset by peer%'"},
	{"phrase_100", "SELECT * FROM t WHERE message LIKE '%connection reset by peer%' ORDER BY _timestamp DESC LIMIT 100"},
	{"regex_count", "SELECT count(*) AS n FROM t WHERE re_match(message, 'timeout after [0-9]{4,}ms')"},
	{"trace_id", "SELECT * FROM t WHERE trace_id = 'eaeb7f27b54e24016bad63e78306cb76' ORDER BY _timestamp"},
	{"top10_users", "SELECT user_id, count(*) AS n FROM t WHERE user_id IS NOT NULL GROUP BY user_id ORDER BY n DESC LIMIT 10"},
	{"p95_by_service", "SELECT service, quantile_cont(duration_ms, 0.95) AS p95 FROM t WHERE duration_ms IS NOT NULL GROUP BY service"},
	{"two_fields_200", "SELECT * FROM t WHERE service = 'checkout' AND level = 'error' ORDER BY _timestamp DESC LIMIT 200"},
	{"distinct_users", "SELECT count(DISTINCT user_id) AS n FROM t"},
	{"error_rate_5m", "SELECT histogram(_timestamp, '5 minute') AS b, service, sum(CASE WHEN level IN ('error','fatal') THEN 1 ELSE 0 END) AS errs, count(*) AS total FROM t GROUP BY b, service"},
}

// benchData is the stream of the benchmarks: segments of 256 k rows, as a flush makes them, in memory.
var benchData = sync.OnceValues(func() (*world, []scan.Input) {
	w := &world{rng: millstream.TimeRange{Start: 0, End: 1 << 62}}
	var err error
	if w.gate, err = qsql.NewGate(); err != nil {
		panic(err)
	}
	var ins []scan.Input
	for batches := range benchBatches() {
		r := encoded(&testing.B{}, batches...)
		for _, f := range r.Fields() {
			w.add(millstream.Field{Name: f.Name, Type: f.Type, WideInt: f.WideInt, Seen: []millstream.Type{f.Type}})
		}
		ins = append(ins, scan.Opened(r))
	}
	return w, ins
})

const benchSegment = 256 << 10

// benchBatches yields the batches of one segment at a time.
func benchBatches() func(yield func([]*millstream.Batch) bool) {
	if *ndjson == "" {
		return func(yield func([]*millstream.Batch) bool) {
			r := rand.New(rand.NewPCG(1, 2))
			for part := range 4 {
				yield([]*millstream.Batch{randomBatch(r, part*50_000, 50_000, 1)})
			}
		}
	}
	return func(yield func([]*millstream.Batch) bool) {
		f, err := os.Open(*ndjson)
		if err != nil {
			panic(err)
		}
		defer func() { _ = f.Close() }()
		var group []*millstream.Batch
		rows, body := 0, []byte(nil)
		flush := func() {
			res, err := json.Decode("t", body, time.Now(), decode.Limits{})
			if err != nil {
				panic(err)
			}
			group, rows, body = append(group, res.Batches...), rows+res.Accepted, body[:0]
			if rows >= benchSegment {
				yield(group)
				group, rows = nil, 0
			}
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if body = append(append(body, lines.Bytes()...), '\n'); len(body) > 4<<20 {
				flush()
			}
		}
		flush()
		if len(group) > 0 {
			yield(group)
		}
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSuite reports CPU milliseconds per run and per million rows.
func BenchmarkSuite(b *testing.B) {
	w, ins := benchData()
	rows := 0
	for _, in := range ins {
		rows += in.Rows
	}
	for _, q := range suite {
		b.Run(q.name, func(b *testing.B) {
			stmt, err := w.gate.Parse(b.Context(), q.sql, qsql.Params{})
			if err != nil {
				b.Fatal(err)
			}
			bound, err := stmt.Bind(b.Context(), []qsql.Table{{Key: millstream.StreamKey{Signal: millstream.Logs, Name: "t"}, Fields: w.schema.Fields}}, time.Now())
			if err != nil {
				b.Skip("the generated records lack a field: ", err)
			}
			if bound.Plan == nil {
				b.Fatal("no plan")
			}
			run := func() (n int) {
				_, err := scan.Run(context.Background(), scan.Request{Plan: bound.Plan, Range: w.rng, Schema: w.schema, Inputs: ins}, func(r *scan.Rows) error {
					n += r.N
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				return n
			}
			run()
			before := cpu()
			for b.Loop() {
				run()
			}
			ms := float64(cpu()-before) / 1e6 / float64(b.N)
			b.ReportMetric(ms, "cpu-ms/op")
			b.ReportMetric(ms/float64(rows)*1e6, "cpu-ms/Mrow")
		})
	}
}
