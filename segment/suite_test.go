package segment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

// The suite runs on log records of the file of NDJSON that MILLSTREAM_BENCH_NDJSON names (its batches are cached beside it), else on a million that it makes up.
// Figures are CPU time of the process, scaled to 4 M rows.
const suiteScale = 4_000_000

var suite = sync.OnceValues(func() ([]*millstream.Batch, int64) {
	path := os.Getenv("MILLSTREAM_BENCH_NDJSON")
	if path == "" {
		return syntheticLogs(200_000)
	}
	info, err := os.Stat(path)
	if err != nil {
		panic(err)
	}
	if batches := cachedBatches(path + ".batches"); batches != nil {
		return batches, info.Size()
	}
	f, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	batches := decodeLogs(f)
	var out []byte
	for _, b := range batches {
		p := b.AppendTo(nil)
		out = append(binary.LittleEndian.AppendUint64(out, uint64(len(p))), p...)
	}
	if err := os.WriteFile(path+".batches", out, 0o600); err != nil {
		panic(err)
	}
	return batches, info.Size()
})

func cachedBatches(path string) (out []*millstream.Batch) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for len(p) > 0 {
		n := binary.LittleEndian.Uint64(p)
		b, err := millstream.DecodeBatch(p[8 : 8+n])
		if err != nil {
			panic(err)
		}
		out, p = append(out, b), p[8+n:]
	}
	return out
}

func decodeLogs(r io.Reader) (out []*millstream.Batch) {
	b := millstream.NewBuilder(millstream.Limits{})
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		at := int64(0)
		_, _ = d.Token()
		for d.More() {
			k, _ := d.Token()
			v, _ := d.Token()
			key := []byte(k.(string))
			switch v := v.(type) {
			case string:
				if k == "timestamp" {
					at, _ = parseTime(v)
				} else {
					b.String(key, []byte(v))
				}
			case json.Number:
				if n, err := v.Int64(); err == nil {
					b.Int(key, n)
				} else {
					f, _ := v.Float64()
					b.Double(key, f)
				}
			}
		}
		_ = b.Commit(at)
		if b.Rows() == runRows {
			out = append(out, b.Batch())
		}
	}
	if x := b.Batch(); x != nil {
		out = append(out, x)
	}
	return out
}

func syntheticLogs(rows int) ([]*millstream.Batch, int64) {
	var text strings.Builder
	x := uint64(1)
	next := func(n uint64) uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x % n
	}
	forms := []string{"request completed for order %d in %dms cache=w%d", "timeout after %dms waiting for w%d response, request %d",
		"upstream w%d failed: read tcp 10.%d.7.7: connection reset by peer after %dms", "loaded %d rows from table w%d in %dms"}
	for i := range rows {
		f := forms[0]
		if k := next(64); k < 3 {
			f = forms[k+1]
		}
		msg := fmt.Sprintf(f, next(1000000), next(20000), next(5000))
		fmt.Fprintf(&text, `{"timestamp":%q,"level":%q,"service":"svc-%d","trace_id":"%016x%016x","span_id":"%016x","user_id":"u%d","duration_ms":%d.5,"message":%q}`+"\n",
			millstream.FormatTime(int64(i)*5_000_000), []string{"info", "info", "info", "error"}[next(4)], next(24), i/8, i/8, next(math.MaxInt64), next(50000), next(900), msg)
	}
	return decodeLogs(strings.NewReader(text.String())), int64(text.Len())
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// suiteSegments encodes sealed runs and merges them four at a time, as a flush does, into files.
func suiteSegments(b *testing.B) (out []Source, rows int) {
	batches, _ := suite()
	dir := b.TempDir()
	file := func() *os.File {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		return f
	}
	for from := 0; from < len(batches); from += 4 {
		var in []*Reader
		for _, x := range batches[from:min(from+4, len(batches))] {
			in = append(in, encodeAll(b, suiteOptions(), x))
			rows += len(x.Times)
		}
		data, index := file(), file()
		info, err := Merge(data, index, in, suiteOptions())
		if err != nil {
			b.Fatal(err)
		}
		r, err := Open(data, info.DataSize, index, info.IndexSize)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, r)
	}
	return out, rows
}

func suiteOptions() Options {
	return Options{TimeOrder: os.Getenv("MILLSTREAM_BENCH_TIME_ORDER") != ""}
}

func BenchmarkSuiteEncode(b *testing.B) {
	batches, raw := suite()
	var data, index int64
	start := cpuTime()
	for b.Loop() {
		data, index = 0, 0
		for _, x := range batches {
			info, err := Encode(io.Discard, io.Discard, []*millstream.Batch{x}, suiteOptions())
			if err != nil {
				b.Fatal(err)
			}
			data, index = data+info.DataSize, index+info.IndexSize
		}
	}
	b.ReportMetric((cpuTime()-start).Seconds()/float64(b.N)/float64(raw)*1e9, "CPU-s/GB")
	b.ReportMetric(float64(data)/float64(raw), "data/raw")
	b.ReportMetric(float64(index)/float64(raw), "index/raw")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkSuiteMerge(b *testing.B) {
	batches, raw := suite()
	var in []*Reader
	for _, x := range batches {
		in = append(in, encodeAll(b, suiteOptions(), x))
	}
	start := cpuTime()
	for b.Loop() {
		if _, err := Merge(io.Discard, io.Discard, in, suiteOptions()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpuTime()-start).Seconds()/float64(b.N)/float64(raw)*1e9, "CPU-s/GB")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkSuite(b *testing.B) {
	segments, rows := suiteSegments(b)
	all := millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}
	trace := ""
	q := Scan{Range: all, Fields: []string{"trace_id"}, Limit: 1}
	if _, err := segments[len(segments)/2].Scan(context.Background(), q, func(x *millstream.Batch) error { trace = x.Columns[0].Str(0); return nil }); err != nil {
		b.Fatal(err)
	}
	phrase := Contains{"message", "connection reset by peer"}
	for _, q := range []struct {
		name string
		scan Scan
	}{
		{"histogram", Scan{Times: true}},
		{"rare word 100", Scan{Filter: Match{Query: "quasarflux"}, All: true, Limit: 100, Newest: true}},
		{"frequent word 100", Scan{Filter: Match{Query: "completed"}, All: true, Limit: 100, Newest: true}},
		{"frequent word count", Scan{Filter: Match{Query: "completed"}, CountOnly: true}},
		{"phrase count", Scan{Filter: phrase, CountOnly: true}},
		{"phrase 100", Scan{Filter: phrase, All: true, Limit: 100, Newest: true}},
		{"regex count", Scan{Filter: Regex{"message", regexp.MustCompile(`timeout after [0-9]{4,}ms`)}, CountOnly: true}},
		{"substring count", Scan{Filter: Contains{"message", "connectio"}, CountOnly: true}},
		{"trace_id", Scan{Filter: Compare{"trace_id", Eq, Value{Kind: StringValue, Str: trace}}, All: true, Times: true}},
		{"users", Scan{Fields: []string{"user_id"}}},
		{"durations by service", Scan{Fields: []string{"service", "duration_ms"}, Filter: Not{IsNull{"duration_ms"}}}},
		{"two fields 200", Scan{Filter: And{Compare{"service", Eq, Value{Kind: StringValue, Str: "checkout"}}, Compare{"level", Eq, Value{Kind: StringValue, Str: "error"}}}, All: true, Limit: 200, Newest: true}},
		{"error rate", Scan{Fields: []string{"service", "level"}, Times: true}},
		{"everything", Scan{All: true, Times: true}},
	} {
		b.Run(q.name, func(b *testing.B) {
			q.scan.Range = all
			start, n := cpuTime(), 0
			var selected, scanned int64
			for b.Loop() {
				n++
				selected, scanned = 0, 0
				left := q.scan
				for i := len(segments) - 1; i >= 0; i-- {
					stats, err := segments[i].Scan(context.Background(), left, func(*millstream.Batch) error { return nil })
					if err != nil {
						b.Fatal(err)
					}
					selected, scanned = selected+stats.Selected, scanned+stats.ScannedRows
					if left.Limit > 0 {
						if left.Limit -= int(stats.Selected); left.Limit <= 0 {
							break
						}
					}
				}
			}
			scale := float64(suiteScale) / float64(rows)
			if q.scan.Limit > 0 && selected >= int64(q.scan.Limit) {
				scale = 1 // the search ends early, whatever the size
			}
			b.ReportMetric((cpuTime()-start).Seconds()*1e3/float64(n)*scale, "CPU-ms/4Mrows")
			b.ReportMetric(float64(selected), "rows")
			b.ReportMetric(float64(scanned), "looked-at")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("count by service", func(b *testing.B) {
		start := cpuTime()
		for b.Loop() {
			for _, s := range segments {
				if _, ok := s.ValueCounts("service"); !ok {
					b.Fatal("no counts")
				}
			}
		}
		b.ReportMetric((cpuTime()-start).Seconds()*1e3/float64(b.N)*float64(suiteScale)/float64(rows), "CPU-ms/4Mrows")
		b.ReportMetric(0, "ns/op")
	})
}
