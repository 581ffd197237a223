package query

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// Span is one span of a trace. Attributes are all other fields of the record.
type Span struct {
	Stream        string          `json:"stream"`
	TraceID       string          `json:"trace_id"`
	SpanID        string          `json:"span_id"`
	ParentSpanID  string          `json:"parent_span_id,omitempty"`
	Name          string          `json:"name"`
	Kind          string          `json:"kind,omitempty"`
	Service       string          `json:"service,omitempty"`
	Status        string          `json:"status,omitempty"`
	StatusMessage string          `json:"status_message,omitempty"`
	Start         string          `json:"start"`
	DurationNS    int64           `json:"duration_ns"`
	SelfNS        int64           `json:"self_ns"` // in which none of its children was at work
	Depth         int32           `json:"depth"`
	Children      int32           `json:"children"`
	MissingParent bool            `json:"missing_parent,omitempty"` // it names a parent that is not in the trace
	Attributes    map[string]any  `json:"attributes"`
	Events        json.RawMessage `json:"events,omitempty"`
	Links         json.RawMessage `json:"links,omitempty"`

	start int64
}

// Trace is all spans of a trace, by start.
type Trace struct {
	TraceID      string     `json:"trace_id"`
	Spans        []Span     `json:"spans"`
	CriticalPath []PathStep `json:"critical_path"` // in the order of time
	*Answer
}

// maxSpans is how many spans of one trace are returned with all their attributes.
const maxSpans = 20_000

var traceID = regexp.MustCompile(`^[0-9a-fA-F]{1,32}$`)

// Trace finds the spans of a trace in one trace stream, or in all if stream is empty. A range of zero means all time. No span is NotFound.
func (e *Engine) Trace(ctx context.Context, req Request, stream, id string) (*Trace, error) {
	req, id, err := traceRequest(req, id)
	if err != nil {
		return nil, err
	}
	out := &Trace{TraceID: id}
	out.Answer, err = e.do(ctx, req, func(ctx context.Context, q *task) error {
		out.Spans = []Span{}
		return e.eachTraceStream(ctx, q, stream, func(t *table) error {
			spans, err := e.spans(ctx, q, t, ofTrace(id), maxSpans)
			out.Spans = append(out.Spans, spans...)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if len(out.Spans) == 0 {
		return nil, millstream.Errorf(millstream.NotFound, "there is no trace %s", out.TraceID)
	}
	slices.SortStableFunc(out.Spans, func(a, b Span) int { return cmp.Compare(a.start, b.start) })
	tree := treeOf(out.Spans)
	tree.describe(out.Spans)
	out.CriticalPath = tree.pathSteps()
	return out, nil
}

// Spans finds the spans of a trace that have one span id; there is usually one.
func (e *Engine) Spans(ctx context.Context, req Request, stream, id, span string) (*Trace, error) {
	req, id, err := traceRequest(req, id)
	if err != nil {
		return nil, err
	}
	out := &Trace{TraceID: id, CriticalPath: []PathStep{}}
	filter := segment.And{ofTrace(id), segment.Compare{Field: "span_id", Op: segment.Eq, Value: text(strings.ToLower(span))}}
	out.Answer, err = e.do(ctx, req, func(ctx context.Context, q *task) error {
		out.Spans = []Span{}
		return e.eachTraceStream(ctx, q, stream, func(t *table) error {
			spans, err := e.spans(ctx, q, t, filter, maxSpans)
			out.Spans = append(out.Spans, spans...)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if len(out.Spans) == 0 {
		return nil, millstream.Errorf(millstream.NotFound, "there is no span %s in the trace %s", span, id)
	}
	return out, nil
}

// traceRequest completes the request for a trace. Ids are stored in lower case.
func traceRequest(req Request, id string) (Request, string, error) {
	if !traceID.MatchString(id) {
		return req, "", millstream.Errorf(millstream.Invalid, "%q is not a trace id: it has up to 32 hexadecimal digits", id)
	}
	if req.Range == (millstream.TimeRange{}) {
		req.Range = allTime
	}
	id = strings.ToLower(id)
	req.Language, req.Statement = "trace", "trace "+id
	return req, id, nil
}

func text(s string) segment.Value { return segment.Value{Kind: segment.StringValue, Str: s} }

// eachTraceStream takes a snapshot of one or all trace streams and calls f for each.
func (e *Engine) eachTraceStream(ctx context.Context, q *task, stream string, f func(*table) error) error {
	v, err := e.open(ctx, q.Org, []millstream.StreamKey{{Org: q.Org, Signal: millstream.Traces, Name: stream}}, q.Range)
	if err != nil {
		return err
	}
	defer v.release()
	if err := e.begin(q, v); err != nil {
		return err
	}
	if len(v.streams) == 0 && stream != "" {
		return millstream.Errorf(millstream.NotFound, "there is no stream %q of signal traces", stream)
	}
	for _, st := range v.streams {
		if err := f(e.streamTable(q, st)); err != nil {
			return err
		}
	}
	return nil
}

// kernel runs a plan over a table.
func (e *Engine) kernel(ctx context.Context, q *task, t *table, p *sql.Plan, emit func(*Rows) error) error {
	stats, err := scan.Run(ctx, e.request(q, t, p), emit)
	q.scanned(stats)
	if stats.Cut {
		q.warn(fmt.Sprintf("spans beyond %d MiB were left out: narrow the time range", maxAnswerBytes>>20))
	}
	return err
}

// spans reads whole spans that pass a filter, oldest first, since a root begins before its children.
func (e *Engine) spans(ctx context.Context, q *task, t *table, filter segment.Expr, limit int) ([]Span, error) {
	p := &sql.Plan{Stream: t.key, Filter: filter, Star: true, Order: []sql.Order{{}}, Limit: limit + 1}
	var out []Span
	err := e.kernel(ctx, q, t, p, func(r *Rows) error {
		for i := range r.N {
			out = append(out, newSpan(t.key.Name, r.Columns, i))
		}
		return nil
	})
	if len(out) > limit {
		out = out[:limit]
		q.warn(fmt.Sprintf("the trace has more than %d spans: columns and summaries show all of them", limit))
	}
	return out, err
}

func newSpan(stream string, cols []millstream.Column, i int) Span {
	s := Span{Stream: stream, Attributes: map[string]any{}}
	texts := map[string]*string{
		"trace_id": &s.TraceID, "span_id": &s.SpanID, "parent_span_id": &s.ParentSpanID, "name": &s.Name, "kind": &s.Kind, "service": &s.Service,
		"status": &s.Status, "status_message": &s.StatusMessage,
	}
	for k := range cols {
		c := &cols[k]
		if !c.IsValid(i) {
			continue
		}
		switch field := texts[c.Name]; {
		case field != nil:
			*field = strings.Clone(c.Text(i))
		case c.Name == millstream.TimestampField:
			s.start, s.Start = c.Ints[i], millstream.FormatTime(c.Ints[i])
		case c.Name == "duration_ns" && c.Type == millstream.Int64:
			s.DurationNS = c.Ints[i]
		case c.Name == "events" && c.Type == millstream.String && json.Valid([]byte(c.Str(i))):
			s.Events = json.RawMessage(strings.Clone(c.Str(i)))
		case c.Name == "links" && c.Type == millstream.String && json.Valid([]byte(c.Str(i))):
			s.Links = json.RawMessage(strings.Clone(c.Str(i)))
		default:
			s.Attributes[c.Name] = value(c, i)
		}
	}
	return s
}

// jsonDouble is a double as JSON can have it: NaN and the infinities are null.
func jsonDouble(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return f
}
