package metrics

import (
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/millstream/millstream/segment/metrics/metricstest"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// benchRuns are the samples of 1,000 series over two hours.
func benchRuns() []*run {
	w := metricstest.New(1000)
	var out []*run
	for i := range w.Keys {
		b := w.Batch(i, i+1, 0, maxChunkSamples)
		out = append(out, &run{Times: b.Time, Values: b.Value})
	}
	return out
}

// BenchmarkDecode reports the time to decode a sample of a packed chunk, and its bytes before the page's compression.
func BenchmarkDecode(b *testing.B) {
	var e encoder
	var chunks []Chunk
	size := 0
	for _, r := range benchRuns() {
		chunks = append(chunks, packFloats(&e, r))
		size += len(chunks[len(chunks)-1].Data)
	}
	var f floats
	b.ResetTimer()
	for range b.N {
		for i := range chunks {
			if err := f.load(&chunks[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := float64(len(chunks) * maxChunkSamples)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	b.ReportMetric(float64(size)/n, "B/sample")
}

// BenchmarkXOR is the same with Prometheus' chunks of 120 samples, compressed as pages of 64 KiB.
func BenchmarkXOR(b *testing.B) {
	var chunks []*chunkenc.XORChunk
	var page []byte
	raw, packed, samples := 0, 0, 0
	pages := encoders.Get().(*zstd.Encoder)
	for _, r := range benchRuns() {
		for from := 0; from < len(r.Times); from += 120 {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			if err != nil {
				b.Fatal(err)
			}
			for i := from; i < from+120; i++ {
				app.Append(0, r.Times[i], r.Values[i])
			}
			chunks, raw, samples = append(chunks, c), raw+len(c.Bytes()), samples+120
			if page = append(page, c.Bytes()...); len(page) > pageBytes {
				packed += len(pages.EncodeAll(page, nil))
				page = page[:0]
			}
		}
	}
	var it chunkenc.Iterator
	b.ResetTimer()
	for range b.N {
		for _, c := range chunks {
			for it = c.Iterator(it); it.Next() != chunkenc.ValNone; {
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
	b.ReportMetric(float64(raw)/float64(samples), "B/sample")
	b.ReportMetric(float64(packed)/float64(samples), "zstd-B/sample")
}
