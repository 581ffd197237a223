package query_test

import (
	"fmt"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// patternsText is one line a pattern.
func patternsText(p *query.Patterns) (out []string) {
	for _, x := range p.Patterns {
		line := fmt.Sprintf("%s %d %.2f %v", x.Pattern, x.Count, x.Share, x.Levels)
		if x.Previous != nil {
			line += fmt.Sprintf(" before %d", *x.Previous)
		}
		out = append(out, line)
	}
	return out
}

func TestPatterns(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		n := newNode(t, nil)
		var records []string
		for i := range 60 {
			records = append(records, fmt.Sprintf("message=request_%d_took_%d.5ms level=%s", i, i*7, []string{"info", "warn"}[i%2]), "message=user_'u"+fmt.Sprint(i)+"'_is_gone")
		}
		records = append(records, "message=only_once", "other=field")
		n.append(millstream.Logs, "app", lines(epoch+1000e9, records...))
		if flushed {
			n.flush()
		}
		n.append(millstream.Logs, "app", lines(epoch+900e9, "message=request_7_took_1.5ms", "message=before_12"))
		sel := query.Selection{Org: org, Stream: "app", Range: millstream.TimeRange{Start: epoch + 1000e9, End: epoch + 1300e9}}
		got, err := n.Patterns(t.Context(), sel, query.PatternSearch{Compare: true})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, fmt.Sprintf("flushed %t", flushed), patternsText(got),
			"request <num> took <num>ms 60 0.50 map[info:30 warn:30] before 1", "user '<str>' is gone 60 0.50 map[] before 0", "only once 1 0.01 map[] before 0")
		if got.Warnings == nil || got.Total != 121 || got.Scanned != 121 || got.Sampled || got.Other != 0 || *got.Previous != 2 || len(got.Buckets) != 30 {
			t.Errorf("%d of %d, %d other, %d before", got.Scanned, got.Total, got.Other, *got.Previous)
		}
		p := got.Patterns[0]
		if p.Sample != "request 59 took 413.5ms" || p.First != "2026-11-30T00:16:40.000000000Z" || p.Last != "2026-11-30T00:18:38.000000000Z" || p.Counts[0] != 5 || p.Counts[29] != 0 {
			t.Errorf("%+v", p)
		}
		for _, p := range got.Patterns { // a pattern's condition selects its records
			rows, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT count(*) AS n FROM app WHERE " + p.Condition, Range: sel.Range})
			if err != nil || rows[1] != fmt.Sprint(p.Count) {
				t.Errorf("%s: %v %v, want %d", p.Condition, rows, err, p.Count)
			}
		}
		got, err = n.Patterns(t.Context(), sel, query.PatternSearch{Limit: 1})
		if err != nil || len(got.Patterns) != 1 || got.Other != 61 || got.Previous != nil || got.Patterns[0].Previous != nil {
			t.Errorf("one of them: %+v %v", got, err)
		}
		for _, filter := range []string{"level = 'warn'", "upper(level) = 'WARN'"} { // the second needs the SQL engine
			sel.Filter = filter
			got, err = n.Patterns(t.Context(), sel, query.PatternSearch{})
			if err != nil {
				t.Fatal(err)
			}
			expect(t, filter, patternsText(got), "request <num> took <num>ms 30 1.00 map[warn:30]")
		}
		sel.Language, sel.Filter = "search", "level:warn took"
		got, err = n.Patterns(t.Context(), sel, query.PatternSearch{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "searched", patternsText(got), "request <num> took <num>ms 30 1.00 map[warn:30]")
	}
}

func TestPatternErrors(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	for name, c := range map[string]struct {
		sel    query.Selection
		search query.PatternSearch
		kind   millstream.Kind
	}{
		"no field":       {app(""), query.PatternSearch{Field: "nope"}, millstream.Invalid},
		"limit":          {app(""), query.PatternSearch{Limit: 1001}, millstream.Invalid},
		"open range":     {query.Selection{Org: org, Stream: "app", Range: millstream.TimeRange{Start: -1 << 63, End: 1<<63 - 1}}, query.PatternSearch{}, millstream.Invalid},
		"stream":         {query.Selection{Org: org, Stream: "nope", Range: day}, query.PatternSearch{}, millstream.NotFound},
		"no condition":   {app("1 = 1) UNION ALL SELECT 'a', 'b' FROM app WHERE (1 = 1"), query.PatternSearch{}, millstream.Invalid},
		"no condition 3": {app("upper(level) = 'x') UNION ALL SELECT 'a', 'b', 'c' FROM app WHERE (1 = 1"), query.PatternSearch{}, millstream.Invalid},
	} {
		if _, err := n.Patterns(t.Context(), c.sel, c.search); millstream.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := n.Histogram(t.Context(), app("1 = 1) UNION ALL SELECT 'a' AS b, 2 AS n FROM app WHERE (1 = 1"), 0, ""); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("a histogram of what is no condition: %v", err)
	}
}

// TestPatternsInBoundedMemory: very many patterns do not push out the frequent ones.
func TestPatternsInBoundedMemory(t *testing.T) {
	n := newNode(t, nil)
	word := func(i int) string { // without a digit, so that each makes a pattern of its own
		var b []byte
		for ; i > 0; i /= 26 {
			b = append(b, byte('a'+i%26))
		}
		return string(b) + "-z"
	}
	var records []string
	for i := range 12_000 {
		records = append(records, "message="+word(i+1), fmt.Sprintf("message=often_%d", i))
	}
	n.append(millstream.Logs, "app", lines(epoch, records...))
	got, err := n.Patterns(t.Context(), query.Selection{Org: org, Stream: "app", Range: day}, query.PatternSearch{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	sum := got.Other
	for _, p := range got.Patterns {
		sum += p.Count
	}
	if p := got.Patterns[0]; p.Pattern != "often <num>" || p.Count != 12_000 || sum != 24_000 || len(got.Patterns) != 10 {
		t.Errorf("%+v, %d in all", p, sum)
	}
}
