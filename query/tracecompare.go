package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// SpanBox is a box in the picture of durations over time.
type SpanBox struct {
	Range                    millstream.TimeRange
	MinDuration, MaxDuration int64 // ns, both included; 0: no limit
}

// TraceComparison asks what the spans in one box have in common that others have not.
type TraceComparison struct {
	TraceSearch // selects the spans of both; its durations and limit are not used
	Selection   SpanBox
	Baseline    SpanBox // spans of the selection are not counted here
	Limit       int     // attributes; 0: 20
}

// TraceDifferences are attributes by how much their values differ, most first.
type TraceDifferences struct {
	Selection  SpanSample      `json:"selection"`
	Baseline   SpanSample      `json:"baseline"`
	Attributes []AttributeDiff `json:"attributes"`
	*Answer
}

// SpanSample says how many spans were looked at, the newest, of how many there are.
type SpanSample struct {
	Spans   int64 `json:"spans"`
	Scanned int64 `json:"scanned"`
	Sampled bool  `json:"sampled"`
}

// AttributeDiff is one attribute. Score is the greatest difference between a value's shares.
type AttributeDiff struct {
	Name   string      `json:"name"`
	Score  float64     `json:"score"`
	Values []ValueDiff `json:"values"` // by difference, most first
}

// ValueDiff is a value, or a range of numbers, and the share of spans that have it. A nil Value stands for spans without the attribute.
type ValueDiff struct {
	Value     *string  `json:"value"`
	Min       *float64 `json:"min,omitempty"` // of a range, both included
	Max       *float64 `json:"max,omitempty"`
	Selection float64  `json:"selection"`
	Baseline  float64  `json:"baseline"`
}

// Bounds of a comparison.
const (
	comparedSpans  = 5000 // of each side
	comparedValues = 10   // shown of an attribute
	numberRanges   = 8    // into which numbers of many values are divided
	maxCompared    = 200  // attributes
)

// notCompared are the fields that tell spans apart, and those by which they were chosen.
var notCompared = map[string]bool{
	millstream.TimestampField: true, "trace_id": true, "span_id": true, "parent_span_id": true, "duration_ns": true, "events": true, "links": true, "end_time": true,
}

// CompareTraces finds the attributes whose values differ most between two sets of spans.
func (e *Engine) CompareTraces(ctx context.Context, req Request, c TraceComparison) (*TraceDifferences, error) {
	if c.Limit = cmp.Or(c.Limit, 20); c.Limit < 1 || c.Limit > maxCompared {
		return nil, millstream.Errorf(millstream.Invalid, "a comparison shows from 1 to %d attributes", maxCompared)
	}
	req.Language, req.Statement = "traces", "compare traces"
	req.Range = c.Selection.Range
	out := &TraceDifferences{}
	var err error
	out.Answer, err = e.do(ctx, req, func(ctx context.Context, q *task) error {
		box := c.Selection.filter()
		selection, baseline := &spanValues{}, &spanValues{}
		if err := e.compared(ctx, q, &c, c.Selection.Range, box, selection); err != nil {
			return err
		}
		outside := segment.And{c.Baseline.filter(), segment.Not{X: segment.And{inTime(c.Selection.Range), box}}}
		if err := e.compared(ctx, q, &c, c.Baseline.Range, outside, baseline); err != nil {
			return err
		}
		out.Selection, out.Baseline = selection.sample(), baseline.sample()
		out.Attributes = differences(selection, baseline, c.Limit)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if out.Attributes == nil { // the query was stopped
		out.Attributes = []AttributeDiff{}
	}
	return out, nil
}

func (b *SpanBox) filter() segment.Expr {
	s := TraceSearch{MinDuration: b.MinDuration, MaxDuration: b.MaxDuration}
	if f := s.filter(); f != nil {
		return f
	}
	return segment.And{}
}

// inTime is a time range as a condition.
func inTime(r millstream.TimeRange) segment.Expr {
	at := func(op segment.Op, ns int64) segment.Expr {
		return segment.Compare{Field: millstream.TimestampField, Op: op, Value: segment.Value{Kind: segment.TimeValue, Int: ns}}
	}
	return segment.And{at(segment.Ge, r.Start), at(segment.Lt, r.End)}
}

// spanValues are the values of a sample of spans: per attribute, each span's value, and for numbers the number.
type spanValues struct {
	total   int64
	spans   int64
	texts   map[string]map[string]int64
	numbers map[string][]float64
}

func (v *spanValues) sample() SpanSample { return SpanSample{v.total, v.spans, v.spans < v.total} }

// compared reads one side.
func (e *Engine) compared(ctx context.Context, q *task, c *TraceComparison, r millstream.TimeRange, box segment.Expr, v *spanValues) error {
	v.texts, v.numbers = map[string]map[string]int64{}, map[string][]float64{}
	common := c.TraceSearch
	common.MinDuration, common.MaxDuration = 0, 0
	q.Range = r
	return e.eachTraceStream(ctx, q, c.Stream, func(t *table) error {
		all := segment.And{box}
		f, err := e.filterOf(ctx, q, t, &common)
		if err != nil {
			return err
		}
		if f != nil {
			all = append(all, f)
		}
		count := &sql.Plan{Stream: t.key, Filter: all, Aggregate: true, Aggs: []sql.Agg{{Func: sql.Count}}, Out: []sql.Output{{Key: -1}}, Limit: -1}
		err = e.kernel(ctx, q, t, count, func(r *Rows) error {
			v.total += r.Columns[0].Ints[0]
			return nil
		})
		if err != nil {
			return err
		}
		newest := &sql.Plan{Stream: t.key, Filter: all, Star: true, Order: []sql.Order{{Desc: true}}, Limit: comparedSpans}
		return e.kernel(ctx, q, t, newest, func(r *Rows) error {
			v.take(r)
			return nil
		})
	})
}

func (v *spanValues) take(r *Rows) {
	v.spans += int64(r.N)
	for k := range r.Columns {
		c := &r.Columns[k]
		if notCompared[c.Name] {
			continue
		}
		for i := range r.N {
			if !c.IsValid(i) {
				continue
			}
			if x := double(c, i); x != nil {
				v.numbers[c.Name] = append(v.numbers[c.Name], *x)
			}
			m := v.texts[c.Name]
			if m == nil {
				m = map[string]int64{}
				v.texts[c.Name] = m
			}
			m[string(appendText(nil, c, i))]++
		}
	}
}

// differences compares the attributes of both sides.
func differences(a, b *spanValues, limit int) []AttributeDiff {
	out := []AttributeDiff{}
	if a.spans == 0 || b.spans == 0 {
		return out
	}
	names := maps.Clone(a.texts)
	maps.Copy(names, b.texts)
	for name := range names {
		d := AttributeDiff{Name: name}
		if xs, ys := a.numbers[name], b.numbers[name]; len(xs)+len(ys) > 0 && max(len(a.texts[name]), len(b.texts[name])) > comparedValues {
			d.Values = rangeDiffs(xs, ys, a.spans, b.spans)
		} else {
			d.Values = textDiffs(a.texts[name], b.texts[name], a.spans, b.spans)
		}
		d.Values = append(d.Values, ValueDiff{Selection: 1 - shares(d.Values, func(v ValueDiff) float64 { return v.Selection }), Baseline: 1 - shares(d.Values, func(v ValueDiff) float64 { return v.Baseline })})
		slices.SortFunc(d.Values, func(x, y ValueDiff) int {
			return cmp.Or(cmp.Compare(y.difference(), x.difference()), strings.Compare(deref(x.Value), deref(y.Value)))
		})
		d.Score = d.Values[0].difference()
		d.Values = slices.DeleteFunc(d.Values, func(v ValueDiff) bool { return v.Selection < 1e-9 && v.Baseline < 1e-9 })
		d.Values = d.Values[:min(len(d.Values), comparedValues)]
		if d.Score > 1e-9 {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(x, y AttributeDiff) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), strings.Compare(x.Name, y.Name))
	})
	return out[:min(limit, len(out))]
}

func (v ValueDiff) difference() float64 { return math.Abs(v.Selection - v.Baseline) }

func shares(vs []ValueDiff, side func(ValueDiff) float64) (sum float64) {
	for _, v := range vs {
		sum += side(v)
	}
	return min(1, sum)
}

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func textDiffs(a, b map[string]int64, na, nb int64) (out []ValueDiff) {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]int64{}
	}
	maps.Copy(all, b)
	for value := range all {
		out = append(out, ValueDiff{Value: &value, Selection: share(a[value], na), Baseline: share(b[value], nb)})
	}
	return out
}

// rangeDiffs divides numbers into ranges of about equally many.
func rangeDiffs(a, b []float64, na, nb int64) (out []ValueDiff) {
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	slices.Sort(a)
	slices.Sort(b)
	within := func(xs []float64, lo, hi float64) int64 {
		from, _ := slices.BinarySearch(xs, lo)
		to, _ := slices.BinarySearch(xs, math.Nextafter(hi, math.Inf(1)))
		return int64(to - from)
	}
	for at := 0; at < len(all); {
		lo := all[at]
		hi := all[min(len(all)-1, max(at, len(all)*(len(out)+1)/numberRanges-1))]
		label := fmt.Sprintf("%s to %s", millstream.FormatDouble(lo), millstream.FormatDouble(hi))
		out = append(out, ValueDiff{Value: &label, Min: &lo, Max: &hi, Selection: share(within(a, lo, hi), na), Baseline: share(within(b, lo, hi), nb)})
		at, _ = slices.BinarySearch(all, math.Nextafter(hi, math.Inf(1)))
	}
	return out
}
