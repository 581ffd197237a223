package query_test

import (
	"fmt"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// TestCompareTraces: slow requests come from one region, and have large bodies.
func TestCompareTraces(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		n := newNode(t, nil)
		var records []string
		for i := range 200 {
			region, took, size := []string{"eu", "us"}[i%2], 1000+i, 10+i
			if i%10 == 0 {
				region, took, size = "ap", 900_000+i, 5000+i
			}
			rec := fmt.Sprintf("trace_id=t%d span_id=s%d name=GET service=web status=ok duration_ns=%d http.region=%s size=%d host=h%d", i, i, took, region, size, i%4)
			if i%10 == 0 && i%20 == 0 {
				rec += " retry=true"
			}
			records = append(records, rec, fmt.Sprintf("trace_id=t%d span_id=c%d parent_span_id=s%d name=SELECT service=db status=ok duration_ns=900000", i, i, i))
		}
		n.append(millstream.Traces, "default", lines(epoch, records...))
		if flushed {
			n.flush()
		}
		got, err := n.CompareTraces(t.Context(), query.Request{Org: org}, query.TraceComparison{
			TraceSearch: query.TraceSearch{Roots: true}, Selection: query.SpanBox{Range: day, MinDuration: 900_000}, Baseline: query.SpanBox{Range: day},
		})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, a := range got.Attributes {
			v := a.Values[0]
			value := "none"
			if v.Value != nil {
				value = *v.Value
			}
			texts = append(texts, fmt.Sprintf("%s %.2f: %s %.2f %.2f", a.Name, a.Score, value, v.Selection, v.Baseline))
		}
		expect(t, fmt.Sprintf("flushed %t", flushed), texts,
			"http.region 1.00: ap 1.00 0.00", "size 0.97: 205 to 5190 1.00 0.03", "retry 0.50: none 0.50 1.00", "host 0.28: h0 0.50 0.22")
		if got.Selection != (query.SpanSample{Spans: 20, Scanned: 20}) || got.Baseline != (query.SpanSample{Spans: 180, Scanned: 180}) {
			t.Errorf("%+v %+v", got.Selection, got.Baseline)
		}
		none, err := n.CompareTraces(t.Context(), query.Request{Org: org}, query.TraceComparison{
			Selection: query.SpanBox{Range: millstream.TimeRange{Start: 0, End: 1}}, Baseline: query.SpanBox{Range: day},
		})
		if err != nil || len(none.Attributes) != 0 || none.Baseline.Spans != 400 {
			t.Errorf("an empty selection: %+v %v", none, err)
		}
	}
}
