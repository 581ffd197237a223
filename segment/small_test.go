package segment

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/millstream/millstream"
)

// cut gives rows [from, to) of a batch; from is a multiple of 64.
func cut(b *millstream.Batch, from, to int) *millstream.Batch {
	out := &millstream.Batch{Times: b.Times[from:to]}
	for i := range b.Columns {
		out.Columns = append(out.Columns, sliceColumn(&b.Columns[i], from, to))
	}
	return out
}

// BenchmarkSmallSegments opens 1,000 segments of 960 rows and runs queries over all of them.
func BenchmarkSmallSegments(b *testing.B) {
	batches, _ := suite()
	var data, index [][]byte
	var size, indexSize int
	for _, x := range batches {
		for from := 0; from+960 <= len(x.Times) && len(data) < 1000; from += 960 {
			var d, ix bytes.Buffer
			if _, err := Encode(&d, &ix, []*millstream.Batch{cut(x, from, from+960)}, Options{}); err != nil {
				b.Fatal(err)
			}
			data, index = append(data, d.Bytes()), append(index, ix.Bytes())
			size, indexSize = size+d.Len(), indexSize+ix.Len()
		}
	}
	for _, q := range []struct {
		name string
		scan Scan
	}{
		{"open", Scan{}},
		{"phrase count", Scan{Filter: Contains{"message", "connection reset by peer"}, CountOnly: true}},
		{"error rate", Scan{Fields: []string{"service", "level"}, Times: true}},
	} {
		b.Run(q.name, func(b *testing.B) {
			start := cpuTime()
			for b.Loop() {
				for i := range data {
					r, err := Open(bytesAt(data[i]), int64(len(data[i])), bytesAt(index[i]), int64(len(index[i])))
					if err != nil {
						b.Fatal(err)
					}
					if q.name == "open" {
						continue
					}
					q.scan.Range = millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}
					if _, err := r.Scan(context.Background(), q.scan, func(*millstream.Batch) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric((cpuTime()-start).Seconds()*1e3/float64(b.N)*1000/float64(len(data)), "CPU-ms/1000")
			b.ReportMetric(float64(size)/float64(len(data)), "data-bytes")
			b.ReportMetric(float64(indexSize)/float64(len(data)), "index-bytes")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkOneRow encodes a segment of a single record.
func BenchmarkOneRow(b *testing.B) {
	batches, _ := suite()
	one := []*millstream.Batch{cut(batches[0], 0, 1)}
	for b.Loop() {
		var d, ix bytes.Buffer
		if _, err := Encode(&d, &ix, one, Options{}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(d.Len()), "data-bytes")
		b.ReportMetric(float64(ix.Len()), "index-bytes")
	}
}
