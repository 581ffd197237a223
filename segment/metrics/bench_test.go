package metrics

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics/metricstest"
)

const (
	benchSeries = 10_000
	benchTicks  = 144 // a flush: 1.44 M samples
)

func benchBatches(w *metricstest.Workload, from, to int) []*millstream.Samples {
	var out []*millstream.Samples
	for tick := from; tick < to; tick += 4 {
		for a := 0; a < len(w.Keys); a += 500 {
			out = append(out, w.Batch(a, min(a+500, len(w.Keys)), tick, min(tick+4, to)))
		}
	}
	return out
}

// BenchmarkAppend reports the CPU time and memory of a sample on its way into a head.
func BenchmarkAppend(b *testing.B) {
	batches := benchBatches(metricstest.New(benchSeries), 0, benchTicks)
	b.ResetTimer()
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		h := NewHead()
		start := time.Now()
		for _, s := range batches {
			if _, err := h.Append(s); err != nil {
				b.Fatal(err)
			}
		}
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		n := float64(h.Samples())
		b.ReportMetric(float64(took.Nanoseconds())/n, "ns/sample")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/sample")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchSeries, "B/series")
		b.ReportMetric(float64(h.Size())/n, "Size/sample")
		runtime.KeepAlive(h)
	}
}

func benchHead(b testing.TB, w *metricstest.Workload, from, to int) *Head {
	h := NewHead()
	for _, s := range benchBatches(w, from, to) {
		if _, err := h.Append(s); err != nil {
			b.Fatal(err)
		}
	}
	return h
}

// BenchmarkEncode reports the CPU time and the bytes of a sample in a segment.
func BenchmarkEncode(b *testing.B) {
	h := benchHead(b, metricstest.New(benchSeries), 0, benchTicks)
	b.ResetTimer()
	for range b.N {
		var data, index bytes.Buffer
		if _, err := h.Encode(&data, &index); err != nil {
			b.Fatal(err)
		}
		n := float64(h.Samples())
		b.ReportMetric(float64(data.Len())/n, "dataB/sample")
		b.ReportMetric(float64(index.Len())/n, "indexB/sample")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	}
}

// BenchmarkMerge reports the CPU time and the bytes of a sample in a segment merged from five.
func BenchmarkMerge(b *testing.B) {
	w := metricstest.New(benchSeries)
	var in []Source
	for i := range 5 {
		in = append(in, encode(b, benchHead(b, w, i*benchTicks, (i+1)*benchTicks)))
	}
	b.ResetTimer()
	for range b.N {
		var data, index bytes.Buffer
		info, err := Merge(&data, &index, in)
		if err != nil {
			b.Fatal(err)
		}
		n := float64(info.Rows)
		b.ReportMetric(float64(data.Len()+index.Len())/n, "B/sample")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	}
}
