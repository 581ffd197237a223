package metrics

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics/metricstest"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

func key(t testing.TB, pairs ...string) string {
	t.Helper()
	var ls []millstream.Label
	for i := 0; i < len(pairs); i += 2 {
		ls = append(ls, millstream.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	k, err := millstream.EncodeLabels(nil, ls)
	if err != nil {
		t.Fatal(err)
	}
	return string(k)
}

// tableText is the table as lines of column=value, nulls left out.
func tableText(t *testing.T, srcs []Source, name string, r millstream.TimeRange) string {
	t.Helper()
	var out strings.Builder
	err := Table(context.Background(), srcs, name, r, func(b *millstream.Batch) error {
		for i, ns := range b.Times {
			fmt.Fprint(&out, ns)
			for k := range b.Columns {
				if c := &b.Columns[k]; c.IsValid(i) {
					fmt.Fprintf(&out, " %s=%s", c.Name, c.Text(i))
				}
			}
			out.WriteByte('\n')
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTable(t *testing.T) {
	h := NewHead()
	hist := &histogram.Histogram{Schema: 0, Count: 3, Sum: 4.5, ZeroThreshold: 0.5, ZeroCount: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{2}}
	stale := math.Float64frombits(value.StaleNaN) // the markers at 4 s end both series and are no rows
	b := &millstream.Samples{
		Series:    []string{key(t, "__name__", "m", "a", "1"), key(t, "__name__", "m", "value", "v"), key(t, "__name__", "other")},
		Ref:       []uint32{0, 0, 0, 1, 2, 0, 1},
		Time:      []int64{1000, 2000, 3000, 2000, 2000, 4000, 4000},
		Value:     []float64{1, 2.5, math.NaN(), 0, 7, stale, 0},
		Histogram: [][]byte{nil, nil, nil, EncodeHistogram(nil, hist, nil), nil, nil, EncodeHistogram(nil, &histogram.Histogram{Sum: stale}, nil)},
		Exemplars: []millstream.Exemplar{{Ref: 0, Time: 1500, Value: 9, Labels: key(t, "trace_id", "abc")}},
	}
	if _, err := h.Append(b); err != nil {
		t.Fatal(err)
	}
	want := `1000000000 value=1 a=1
2000000000 value=2.5 a=1 exemplar_value=9 exemplar_timestamp=1970-01-01T00:00:01.500000000Z exemplar_trace_id=abc
3000000000 value=NaN a=1
2000000000 count=3 sum=4.5 histogram={"schema":0,"count":3,"sum":4.5,"zero_threshold":0.5,"zero_count":1,"buckets":[[-0.5,0.5,1],[0.5,1,2]]} label_value=v
`
	all := millstream.TimeRange{Start: 0, End: 1e12}
	for name, src := range map[string]Source{"head": h, "segment": encode(t, h)} {
		if got := tableText(t, []Source{src}, "m", all); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		if got := tableText(t, []Source{src}, "m", millstream.TimeRange{Start: 2e9, End: 3e9}); strings.Count(got, "\n") != 2 {
			t.Errorf("%s: the range from 2 s to 3 s has\n%s", name, got)
		}
		if got := tableText(t, []Source{src}, "none", all); got != "" {
			t.Errorf("%s: an unknown metric has\n%s", name, got)
		}
	}
}

// TestTableBatches checks that rows are complete over several batches.
func TestTableBatches(t *testing.T) {
	w := metricstest.New(400)
	h := NewHead()
	if _, err := h.Append(w.Batch(0, 400, 0, 100)); err != nil {
		t.Fatal(err)
	}
	rows, batches := 0, 0
	err := Table(context.Background(), []Source{h}, "http_request_duration_seconds_bucket", millstream.TimeRange{End: math.MaxInt64}, func(b *millstream.Batch) error {
		for i := range b.Times {
			if b.Column("le").Str(i) == "" || b.Column("job").Str(i) == "" || b.Column("cluster").Str(i) != "prod-eu-1" {
				t.Fatalf("row %d lacks a label", i)
			}
		}
		rows, batches = rows+len(b.Times), batches+1
		return nil
	})
	if err != nil || rows != 7200 || batches != 1 {
		t.Fatalf("%d rows in %d batches, %v", rows, batches, err)
	}
}
