package query_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

var allFields = query.FieldSearch{Limit: -1}

func TestFields(t *testing.T) {
	for _, flush := range []bool{false, true} {
		n := newNode(t, nil)
		requests(n, true)
		if flush {
			n.flush()
		}
		f, err := n.Fields(t.Context(), app("service <> 'auth'"), query.FieldSearch{Names: []string{"service", "ms"}, Top: 1, Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range f.Fields {
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}
		expect(t, fmt.Sprintf("flushed %t", flush), got,
			`{"name":"level","type":"string","rows":5,"share":1,"estimated":true,"distinct":2}`,
			`{"name":"message","type":"string","rows":5,"share":1,"estimated":true,"distinct":4}`,
			`{"name":"ms","type":"double","conflict":true,"rows":5,"share":1,"distinct":5,"min":1.5,"max":900,"p50":12,"p95":735.9999999999999,"distribution":[3,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1],"top":[{"value":"1.5","rows":1}]}`,
			`{"name":"ok","type":"bool","rows":2,"share":0.4,"estimated":true,"distinct":2}`,
			`{"name":"service","type":"string","rows":5,"share":1,"distinct":2,"min":"cart","max":"pay","top":[{"value":"cart","rows":3}]}`,
			`{"name":"status","type":"string","conflict":true,"rows":5,"share":1,"estimated":true,"distinct":4}`,
			`{"name":"user","type":"string","rows":1,"share":0.2,"estimated":true,"distinct":1}`)
		if f.Warnings == nil || f.Rows != 5 || f.Total != 7 || f.Sampled != 5 {
			t.Errorf("%d rows, %d fields, %d sampled", f.Rows, f.Total, f.Sampled)
		}
		f, err = n.Fields(t.Context(), app(""), allFields)
		if err != nil || f.Rows != 7 || len(f.Fields) != 7 || f.Fields[2].Name != "ms" || f.Fields[2].Rows != 6 || !f.Fields[2].Estimated || f.Fields[2].Top != nil {
			t.Errorf("without a filter: %+v %v", f, err)
		}
		if p := f.Fields[2].P50; p == nil || *p != 7.5 || f.Fields[2].Max != 900.0 {
			t.Errorf("estimated numbers: %+v", f.Fields[2])
		}
	}
	n := newNode(t, nil)
	if _, err := n.Fields(t.Context(), query.Selection{Org: org, Stream: "nope", Range: day}, allFields); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("unknown stream: %v", err)
	}
}

// TestFieldsOfSegmentsThatReachOut: without a filter a field's rows are those of whole segments; what is said of the selection is in keeping with it.
func TestFieldsOfSegmentsThatReachOut(t *testing.T) {
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", lines(epoch-60e9, strings.Split(strings.Repeat("level=error code=500 trace=a,", 29)+"level=info trace=b", ",")...))
	n.append(millstream.Logs, "app", lines(epoch+60e9, "level=info", "level=error code=502", "level=info", "level=info", "level=info", "level=info"))
	n.flush()
	f, err := n.Fields(t.Context(), app(""), allFields)
	if err != nil || f.Rows != 6 {
		t.Fatalf("%+v %v", f, err)
	}
	for _, x := range f.Fields {
		if x.Rows != map[string]int64{"level": 6, "code": 1}[x.Name] || x.Distinct != nil && *x.Distinct != map[string]int64{"level": 2, "code": 1}[x.Name] {
			t.Errorf("%s: %d rows, %+v", x.Name, x.Rows, x)
		}
	}
}

// TestFieldPages: a list of very many fields is read in parts.
func TestFieldPages(t *testing.T) {
	n := newNode(t, nil)
	records := []string{"level=warn", "level=info", "level=info", "level=info"}
	for i := range 2700 {
		records[1+i/900] += fmt.Sprintf(" Attr.%04d=%d", i, i)
	}
	for i, r := range records { // a batch has at most 2,000 fields
		n.append(millstream.Logs, "app", lines(epoch+int64(i), r))
		n.flush()
	}
	for name, c := range map[string]struct {
		search query.FieldSearch
		want   string // total, then names
	}{
		"first":        {query.FieldSearch{Limit: 2}, "2701 Attr.0000 Attr.0001"},
		"next":         {query.FieldSearch{Limit: 2, Offset: 2}, "2701 Attr.0002 Attr.0003"},
		"last":         {query.FieldSearch{Limit: 5, Offset: 2700}, "2701 level"},
		"beyond":       {query.FieldSearch{Limit: 5, Offset: 4000}, "2701"},
		"search":       {query.FieldSearch{Search: "aTTr.001", Limit: 2, Offset: 8}, "10 Attr.0018 Attr.0019"},
		"named":        {query.FieldSearch{Names: []string{"level"}}, "2701 level"},
		"named beside": {query.FieldSearch{Names: []string{"level"}, Search: "attr.2699", Limit: 9}, "1 Attr.2699 level"},
		"none":         {query.FieldSearch{Search: "nope", Limit: -1}, "0"},
	} {
		for _, filter := range []string{"", "level IS NOT NULL"} {
			f, err := n.Fields(t.Context(), app(filter), c.search)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{fmt.Sprint(f.Total)}
			for _, x := range f.Fields {
				got = append(got, x.Name)
				if want := map[bool]float64{true: 1, false: 0.25}[x.Name == "level"]; x.Share != want || x.Distinct == nil {
					t.Errorf("%s: %+v", name, x)
				}
			}
			expect(t, name, got, strings.Split(c.want, " ")...)
		}
	}
	if f, err := n.Fields(t.Context(), app(""), allFields); err != nil || len(f.Fields) != 2701 || f.Sampled != 0 || f.Fields[0].Estimated {
		t.Errorf("%d fields, %d sampled, %v", len(f.Fields), f.Sampled, err)
	}
}

// TestFieldNumbers: numbers that have no place in JSON, and those that overflow a difference.
func TestFieldNumbers(t *testing.T) {
	n := newNode(t, nil)
	b := millstream.NewBuilder(millstream.Limits{})
	for i, v := range []float64{1, math.NaN(), math.Inf(1), -math.MaxFloat64, math.MaxFloat64} {
		b.Double([]byte("odd"), v)
		b.Int([]byte("big"), []int64{math.MinInt64, 0, math.MaxInt64}[i%3])
		b.Int([]byte("one"), 7)
		if err := b.Commit(epoch + int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	n.append(millstream.Logs, "app", b.Batch())
	for _, names := range [][]string{{"odd", "big", "one"}, nil} {
		f, err := n.Fields(t.Context(), app(""), query.FieldSearch{Names: names, Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(f); err != nil {
			t.Error(err)
		}
		for _, x := range f.Fields {
			sum := int64(0)
			for _, c := range x.Distribution {
				sum += c
			}
			if want := map[string]int64{"big": 5, "one": 5, "odd": 0}[x.Name]; sum != want {
				t.Errorf("%s (named %t): %d in the distribution, want %d: %+v", x.Name, names != nil, sum, want, x)
			}
		}
	}
}
