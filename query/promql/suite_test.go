package promql

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/segment/metrics/metricstest"
)

const (
	suiteSeries = 10_000
	suiteTicks  = 1440 // six hours
	flushTicks  = 144
)

// suite is 14.4 M samples in ten segments.
type suite struct {
	w       *metricstest.Workload
	sources []metrics.Source
}

func newSuite(tb testing.TB, flush int) *suite {
	tb.Helper()
	s := &suite{w: metricstest.New(suiteSeries)}
	dir := tb.TempDir()
	for from := 0; from < suiteTicks; from += flush {
		h := metrics.NewHead()
		for a := 0; a < suiteSeries; a += 1000 {
			if _, err := h.Append(s.w.Batch(a, a+1000, from, min(from+flush, suiteTicks))); err != nil {
				tb.Fatal(err)
			}
		}
		s.sources = append(s.sources, segmentFile(tb, filepath.Join(dir, strconv.Itoa(from)), h))
	}
	return s
}

func segmentFile(tb testing.TB, path string, h *metrics.Head) *metrics.Reader {
	tb.Helper()
	var files [2]*os.File
	for i, name := range []string{path + ".parquet", path + ".index"} {
		f, err := os.Create(name)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = f.Close() })
		files[i] = f
	}
	info, err := h.Encode(files[0], files[1])
	if err != nil {
		tb.Fatal(err)
	}
	r, err := metrics.Open(files[0], info.DataSize, files[1], info.IndexSize)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (s *suite) open(context.Context, int64, int64) (Snapshot, error) {
	return Snapshot{Sources: s.sources}, nil
}

// suiteQuery is a query of the benchmark and the CPU time in ms that it may take.
type suiteQuery struct {
	name   string
	budget float64
	run    func(*API, *suite) (*Response, error)
}

func (s *suite) seconds(tick int) string {
	return strconv.FormatInt((s.w.Start+int64(tick)*s.w.Step)/1000, 10)
}

func rangeQuery(expr, step string) func(*API, *suite) (*Response, error) {
	return func(a *API, s *suite) (*Response, error) {
		return a.QueryRange(context.Background(), s.open, url.Values{"query": {expr}, "start": {s.seconds(0)}, "end": {s.seconds(suiteTicks)}, "step": {step}})
	}
}

func instantQuery(expr string) func(*API, *suite) (*Response, error) {
	return func(a *API, s *suite) (*Response, error) {
		return a.Query(context.Background(), s.open, url.Values{"query": {expr}, "time": {s.seconds(suiteTicks)}})
	}
}

func (s *suite) span() url.Values {
	return url.Values{"start": {s.seconds(0)}, "end": {s.seconds(suiteTicks)}}
}

var suiteQueries = []suiteQuery{
	{"rate_sum_by_job_range", 200, rangeQuery(`sum by (job) (rate(http_requests_total[5m]))`, "60")},
	{"histogram_quantile_range", 664, rangeQuery(`histogram_quantile(0.95, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`, "60")},
	{"node_cpu_busy_range", 229, rangeQuery(`1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))`, "60")},
	{"error_ratio_range", 289, rangeQuery(`sum by (job) (rate(http_requests_total{code="500"}[5m])) / sum by (job) (rate(http_requests_total[5m]))`, "60")},
	{"single_series_range", 6, rangeQuery(`node_load1{instance="node-7:9100"}`, "15")},
	{"rate_sum_by_job_instant", 34, instantQuery(`sum by (job) (rate(http_requests_total[5m]))`)},
	{"topk_instant", 20, instantQuery(`topk(10, rate(http_requests_total[5m]))`)},
	{"count_all_instant", 232, instantQuery(`count({__name__=~".+"})`)},
	{"count_by_name_instant", 180, instantQuery(`count by (__name__) ({__name__=~".+"})`)},
	{"avg_over_6h_instant", 42, instantQuery(`avg_over_time(node_memory_MemAvailable_bytes[6h])`)},
	{"labels", 5, func(a *API, s *suite) (*Response, error) { return a.Labels(context.Background(), s.open, s.span()) }},
	{"label_values_instance", 5, func(a *API, s *suite) (*Response, error) {
		return a.LabelValues(context.Background(), s.open, "instance", s.span())
	}},
	{"series_match", 5, func(a *API, s *suite) (*Response, error) {
		v := s.span()
		v.Set("match[]", `http_requests_total{job="checkout"}`)
		return a.Series(context.Background(), s.open, v)
	}},
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSuite reports the CPU time of each query over 14.4 M samples in ten segments, with its answer encoded.
func BenchmarkSuite(b *testing.B) {
	s := newSuite(b, flushTicks)
	a := New(Options{})
	b.Cleanup(func() { _ = a.Close() })
	for _, q := range suiteQueries {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime()
			for range b.N {
				r, err := q.run(a, s)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(q.budget, "budget-ms")
		})
	}
}

// BenchmarkSmallSegments runs one query over the same samples in 20 and in 1,000 segments, which are opened for each run.
func BenchmarkSmallSegments(b *testing.B) {
	w := metricstest.New(1000)
	a := New(Options{})
	b.Cleanup(func() { _ = a.Close() })
	for _, segments := range []int{20, 1000} {
		var objects [][2][]byte
		for i := range segments {
			h := metrics.NewHead()
			if _, err := h.Append(w.Batch(0, 1000, i*1000/segments, (i+1)*1000/segments)); err != nil {
				b.Fatal(err)
			}
			var data, index bytes.Buffer
			if _, err := h.Encode(&data, &index); err != nil {
				b.Fatal(err)
			}
			objects = append(objects, [2][]byte{data.Bytes(), index.Bytes()})
		}
		b.Run(strconv.Itoa(segments), func(b *testing.B) {
			before := cpuTime()
			for range b.N {
				s := &suite{w: w}
				for _, o := range objects {
					r, err := metrics.Open(bytes.NewReader(o[0]), int64(len(o[0])), bytes.NewReader(o[1]), int64(len(o[1])))
					if err != nil {
						b.Fatal(err)
					}
					s.sources = append(s.sources, r)
				}
				r, err := rangeQuery(`sum by (job) (rate(http_requests_total[5m]))`, "60")(a, s)
				if err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
