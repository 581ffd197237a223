package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/search"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// TraceSearch says which traces to find: those with a span that passes all that is set.
type TraceSearch struct {
	Stream      string // empty: every trace stream
	Service     string
	Operation   string // a span's name
	Status      string // ok, error or unset
	MinDuration int64  // ns
	MaxDuration int64  // ns; 0: no limit
	Roots       bool   // only spans without a parent
	Search      string // in the search language, over all fields of the span; empty: no condition
	Limit       int    // traces; 0: 20
}

// TraceSummary is a trace that was found.
type TraceSummary struct {
	TraceID    string   `json:"trace_id"`
	Root       string   `json:"root"`         // name of the span without a parent, or of the first
	Service    string   `json:"root_service"` // its service
	Start      string   `json:"start"`
	DurationNS int64    `json:"duration_ns"` // from the first start to the last end
	Spans      int      `json:"spans"`
	Errors     int      `json:"errors"`
	Services   []string `json:"services"`
	Matched    int      `json:"matched"` // spans that passed the search

	start, end int64
	rooted     bool
}

// Traces is the answer of a trace search, newest first.
type Traces struct {
	Traces []*TraceSummary `json:"traces"`
	*Answer
}

// maxTraces bounds a trace search.
const maxTraces = 1000

// SearchTraces finds traces with a span in the request's range. A trace's summary counts all its spans from an hour before the range to an hour after it.
func (e *Engine) SearchTraces(ctx context.Context, req Request, s TraceSearch) (*Traces, error) {
	if s.Limit <= 0 {
		s.Limit = 20
	}
	if s.Limit > maxTraces {
		return nil, millstream.Errorf(millstream.Invalid, "a trace search returns at most %d traces", maxTraces)
	}
	req.Language, req.Statement = "traces", "trace search"
	out := &Traces{}
	var err error
	out.Answer, err = e.do(ctx, req, func(ctx context.Context, q *task) error {
		out.Traces = []*TraceSummary{}
		found := map[string]*TraceSummary{}
		err := e.eachTraceStream(ctx, q, s.Stream, func(t *table) error { return e.matches(ctx, q, t, &s, found) })
		if err != nil || len(found) == 0 {
			return err
		}
		out.Traces = newest(found, s.Limit)
		return e.summarize(ctx, q, &s, out.Traces)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// filterOf is what a search asks of the spans of one stream: the fields of the stream decide what the search language means.
func (e *Engine) filterOf(ctx context.Context, q *task, t *table, s *TraceSearch) (segment.Expr, error) {
	fixed := s.filter()
	parsed, err := search.Parse(s.Search)
	if err != nil {
		return nil, err
	}
	c := parsed.Compile(t.schema.Fields, e.cfg.Now())
	for _, w := range c.Warnings {
		q.warn(w)
	}
	if c.SQL == "" {
		return fixed, nil
	}
	stmt, err := e.cfg.Gate.Parse(ctx, "SELECT * FROM "+fromClause(t.key)+whereClause(c.SQL), sql.Params{})
	if err != nil {
		return nil, err
	}
	bound, err := stmt.Bind(ctx, []sql.Table{{Key: t.key, Fields: t.schema.Fields}}, e.cfg.Now())
	if err != nil {
		return nil, err
	}
	if bound.Plan == nil {
		return nil, millstream.Errorf(millstream.Invalid, "this search is too involved for traces: use words, comparisons and ranges of fields")
	}
	if fixed == nil {
		return bound.Plan.Filter, nil
	}
	return segment.And{fixed, bound.Plan.Filter}, nil
}

func (s *TraceSearch) filter() segment.Expr {
	var f segment.And
	equal := func(field, v string) {
		if v != "" {
			f = append(f, segment.Compare{Field: field, Op: segment.Eq, Value: text(v)})
		}
	}
	equal("service", s.Service)
	equal("name", s.Operation)
	equal("status", s.Status)
	if s.MinDuration > 0 {
		f = append(f, segment.Compare{Field: "duration_ns", Op: segment.Ge, Value: segment.Value{Kind: segment.IntValue, Int: s.MinDuration}})
	}
	if s.MaxDuration > 0 {
		f = append(f, segment.Compare{Field: "duration_ns", Op: segment.Le, Value: segment.Value{Kind: segment.IntValue, Int: s.MaxDuration}})
	}
	if s.Roots {
		f = append(f, segment.Or{segment.IsNull{Field: "parent_span_id"}, segment.Compare{Field: "parent_span_id", Op: segment.Eq, Value: text("")}})
	}
	if len(f) == 0 {
		return nil
	}
	return f
}

// matches adds the newest traces with a matching span. Several spans of a trace may match, so it reads more rows until there are enough traces.
func (e *Engine) matches(ctx context.Context, q *task, t *table, s *TraceSearch, found map[string]*TraceSummary) error {
	filter, err := e.filterOf(ctx, q, t, s)
	if err != nil {
		return err
	}
	for limit := 4 * s.Limit; ; limit *= 8 {
		here, rows := map[string]*TraceSummary{}, 0
		p := &sql.Plan{
			Stream: t.key, Filter: filter, Order: []sql.Order{{Out: 0, Desc: true}}, Limit: limit,
			Out: []sql.Output{{Name: "t", Field: millstream.TimestampField}, {Name: "id", Field: "trace_id"}},
		}
		err := e.kernel(ctx, q, t, p, func(r *Rows) error {
			rows += r.N
			for i := range r.N {
				id := r.Columns[1].Text(i)
				if !r.Columns[1].IsValid(i) {
					continue
				}
				sum := here[id]
				if sum == nil {
					sum = &TraceSummary{TraceID: strings.Clone(id), start: r.Columns[0].Ints[i]}
					here[sum.TraceID] = sum
				}
				sum.Matched++
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(here) >= s.Limit || rows < limit || limit >= 1<<20 {
			for id, sum := range here {
				if had := found[id]; had != nil {
					had.Matched += sum.Matched
					had.start = max(had.start, sum.start)
				} else {
					found[id] = sum
				}
			}
			return nil
		}
	}
}

// newest keeps the traces whose matching span is newest.
func newest(found map[string]*TraceSummary, limit int) []*TraceSummary {
	out := make([]*TraceSummary, 0, len(found))
	for _, t := range found {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *TraceSummary) int {
		return cmp.Or(cmp.Compare(b.start, a.start), strings.Compare(a.TraceID, b.TraceID))
	})
	return out[:min(limit, len(out))]
}

// around is how far from the range a found trace's other spans are looked for.
const around = int64(3600e9)

// summarize reads the found traces' spans.
func (e *Engine) summarize(ctx context.Context, q *task, s *TraceSearch, traces []*TraceSummary) error {
	ids, byID := segment.In{Field: "trace_id"}, map[string]*TraceSummary{}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, t := range traces {
		ids.Values = append(ids.Values, text(t.TraceID))
		byID[t.TraceID] = t
		first, last = min(first, t.start), max(last, t.start)
	}
	asked := q.Range
	q.Range = millstream.TimeRange{Start: first - around, End: last + around}
	defer func() { q.Range = asked }()
	var out []sql.Output
	for _, f := range []string{millstream.TimestampField, "trace_id", "parent_span_id", "name", "service", "status", "duration_ns"} {
		out = append(out, sql.Output{Name: f, Field: f})
	}
	v, err := e.open(ctx, q.Org, []millstream.StreamKey{{Org: q.Org, Signal: millstream.Traces, Name: s.Stream}}, q.Range)
	if err != nil {
		return err
	}
	defer v.release()
	for _, st := range v.streams {
		t := e.streamTable(q, st)
		err := e.kernel(ctx, q, t, &sql.Plan{Stream: t.key, Filter: ids, Out: out, Limit: -1}, func(r *Rows) error {
			for i := range r.N {
				if sum := byID[r.Columns[1].Text(i)]; sum != nil {
					sum.add(r.Columns, i)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, t := range traces {
		t.Start, t.DurationNS = millstream.FormatTime(t.start), t.end-t.start
		slices.Sort(t.Services)
	}
	return nil
}

// add counts one span, given as the columns that summarize asks for.
func (t *TraceSummary) add(cols []millstream.Column, i int) {
	start, length := cols[0].Ints[i], int64(0)
	if c := &cols[6]; c.Type == millstream.Int64 && c.IsValid(i) {
		length = c.Ints[i]
	}
	if t.Spans == 0 || start < t.start {
		t.start = start
		if !t.rooted {
			t.Root, t.Service = strings.Clone(cols[3].Text(i)), strings.Clone(cols[4].Text(i))
		}
	}
	if parent := &cols[2]; !t.rooted && (!parent.IsValid(i) || parent.Text(i) == "") {
		t.rooted, t.Root, t.Service = true, strings.Clone(cols[3].Text(i)), strings.Clone(cols[4].Text(i))
	}
	t.end = max(t.end, start+length)
	t.Spans++
	if cols[5].Text(i) == "error" {
		t.Errors++
	}
	if service := cols[4].Text(i); service != "" && !slices.Contains(t.Services, service) {
		t.Services = append(t.Services, strings.Clone(service))
	}
}
