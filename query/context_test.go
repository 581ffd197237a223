package query_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// around is a request for the records about a time of stream app.
func around(at int64, before, after int, by ...query.Same) query.Around {
	return query.Around{Selection: query.Selection{Org: org, Stream: "app", Range: millstream.TimeRange{Start: 0, End: 1 << 62}}, At: at, Before: before, After: after, By: by}
}

// numbers are the field n of objects.
func numbers(t *testing.T, list []json.RawMessage) string {
	t.Helper()
	var out []string
	for _, o := range list {
		var r struct{ N int }
		if err := json.Unmarshal(o, &r); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
		out = append(out, fmt.Sprint(r.N))
	}
	return strings.Join(out, " ")
}

// TestContext: a record of each of two hosts every second; then one a day later and one a month later.
func TestContext(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		n := newNode(t, nil)
		var records []string
		for i := range 100 {
			records = append(records, fmt.Sprintf("n=%d host=h%d status=%d ok=%t", i, i%2, 200+i%3, i%2 == 0))
		}
		n.append(millstream.Logs, "app", lines(epoch, records[:60]...))
		if flushed {
			n.flush()
		}
		n.append(millstream.Logs, "app", lines(epoch+60e9, records[60:]...))
		n.append(millstream.Logs, "app", lines(epoch+70e9, "n=700 host=h2")) // at the time of another
		n.append(millstream.Logs, "app", lines(epoch+24*3600e9, "n=1000 host=h0 message=it's"))
		n.append(millstream.Logs, "app", lines(epoch+30*24*3600e9, "n=2000 host=h1"))
		if flushed {
			n.flush()
		}
		for name, c := range map[string]struct {
			ask  query.Around
			want string // before | target | after | more before, more after
		}{
			"plain":      {around(epoch+10e9, 3, 3), "7 8 9|10|11 12 13|true true"},
			"at start":   {around(epoch, 3, 1), "|0|1|false true"},
			"exactly 2":  {around(epoch+2e9, 2, 0), "0 1|2||false false"},
			"two at it":  {around(epoch+70e9, 1, 1), "69|70 700|71|true true"},
			"by host":    {around(epoch+97e9, 2, 3, query.Same{Field: "host", Value: "h1"}), "93 95|97|99 2000|true false"},
			"far":        {around(epoch+98e9, 1, 2, query.Same{Field: "host", Value: "h0"}), "96|98|1000|true false"},
			"number":     {around(epoch+10e9, 2, 2, query.Same{Field: "status", Value: json.Number("201")}), "4 7|10|13 16|true true"},
			"bool":       {around(epoch+10e9, 1, 1, query.Same{Field: "ok", Value: true}), "8|10|12|true true"},
			"null":       {around(epoch+70e9, 1, 3, query.Same{Field: "ok", Value: nil}), "|700|1000 2000|false false"},
			"quote":      {around(epoch+70e9, 1, 3, query.Same{Field: "message", Value: "it's"}), "||1000|false false"},
			"no record":  {around(epoch+10e9+1, 1, 1), "10||11|true true"},
			"in between": {around(epoch+10*24*3600e9, 1, 1), "1000||2000|true false"},
		} {
			got, err := n.Context(t.Context(), c.ask)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text := fmt.Sprintf("%s|%s|%s|%t %t", numbers(t, got.Before), numbers(t, got.Target), numbers(t, got.After), got.MoreBefore, got.MoreAfter)
			if text != c.want || got.Partial {
				t.Errorf("%s (flushed %t): got %s, want %s (%v)", name, flushed, text, c.want, got.Reasons)
			}
		}
		filtered := around(epoch+10e9, 2, 2)
		filtered.Filter, filtered.Range = "status = 202", millstream.TimeRange{Start: epoch + 7e9, End: epoch + 12e9}
		got, err := n.Context(t.Context(), filtered)
		if err != nil || numbers(t, got.Before) != "8" || numbers(t, got.Target) != "10" || numbers(t, got.After) != "11" || got.MoreAfter {
			t.Errorf("filtered and bounded: %+v %v", got, err)
		}
	}
}

func TestContextErrors(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.MaxScanRows = 12 })
	requests(n, true)
	for name, c := range map[string]struct {
		ask  query.Around
		kind millstream.Kind
	}{
		"too many": {around(epoch, 1001, 0), millstream.Invalid},
		"negative": {around(epoch, -1, 0), millstream.Invalid},
		"a list":   {around(epoch, 1, 1, query.Same{Field: "ms", Value: []any{1}}), millstream.Invalid},
		"no field": {around(epoch, 1, 1, query.Same{Field: "nope", Value: "x"}), millstream.Invalid},
		"stream":   {query.Around{Selection: query.Selection{Org: org, Stream: "nope", Range: day}, At: epoch, Before: 1}, millstream.NotFound},
	} {
		if _, err := n.Context(t.Context(), c.ask); millstream.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 5 {
		n.append(millstream.Logs, "app", lines(epoch+4000e9, "service=cart ms=1", "service=cart ms=2", "service=cart ms=3"))
	}
	got, err := n.Context(t.Context(), around(epoch+60e9, 0, 50, query.Same{Field: "service", Value: "cart"}))
	if err != nil || !got.Partial || len(got.After) != 2 || !strings.Contains(got.Reasons[0], "further away") {
		t.Errorf("over the rows that a query may scan: %d after, %v %v", len(got.After), got.Answer, err)
	}
}

// BenchmarkContext looks around the middle of a million records.
func BenchmarkContext(b *testing.B) {
	n := newNode(b, nil)
	const segments, rows = 100, 10_000
	for s := range segments {
		records := make([]string, rows)
		for i := range records {
			records[i] = fmt.Sprintf("service=svc%d host=h%d level=info message=request_%d_was_served", i%24, i%977, i)
		}
		n.append(millstream.Logs, "app", lines(epoch+int64(s*rows)*1e9, records...))
		n.flush()
	}
	for name, by := range map[string][]query.Same{
		"all": nil, "service": {{Field: "service", Value: "svc3"}}, "host": {{Field: "service", Value: "svc3"}, {Field: "host", Value: "h3"}}, "absent": {{Field: "host", Value: "nope"}},
	} {
		b.Run(name, func(b *testing.B) {
			began := time.Now()
			for b.Loop() {
				if _, err := n.Context(b.Context(), around(epoch+500_003e9, 50, 50, by...)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/1e3/float64(b.N), "ms/op")
		})
	}
}
