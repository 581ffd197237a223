package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/millstream/millstream/query"
)

// fakeTracer notes what it is asked.
type fakeTracer struct {
	tracer
	asked string
	diff  query.TraceComparison
}

func (f *fakeTracer) Trace(_ context.Context, _ query.Request, stream, id string) (*query.Trace, error) {
	f.asked = fmt.Sprint("trace ", stream, " ", id)
	return &query.Trace{Answer: &query.Answer{}}, nil
}
func (f *fakeTracer) TraceColumns(_ context.Context, _ query.Request, stream, id string) (*query.TraceColumns, error) {
	f.asked = fmt.Sprint("columns ", stream, " ", id)
	return &query.TraceColumns{Answer: &query.Answer{}}, nil
}
func (f *fakeTracer) SummarizeTrace(_ context.Context, _ query.Request, stream, id string, budget int) (*query.TraceSummaryTree, error) {
	f.asked = fmt.Sprint("summary ", stream, " ", id, " ", budget)
	return &query.TraceSummaryTree{Answer: &query.Answer{}}, nil
}
func (f *fakeTracer) TraceChildren(_ context.Context, _ query.Request, stream, id, span string, offset, limit int) (*query.SpanChildren, error) {
	f.asked = fmt.Sprint("children ", stream, " ", id, " ", span, " ", offset, " ", limit)
	return &query.SpanChildren{Answer: &query.Answer{}}, nil
}
func (f *fakeTracer) Spans(_ context.Context, _ query.Request, stream, id, span string) (*query.Trace, error) {
	f.asked = fmt.Sprint("span ", stream, " ", id, " ", span)
	return &query.Trace{Answer: &query.Answer{}}, nil
}
func (f *fakeTracer) CompareTraces(_ context.Context, _ query.Request, c query.TraceComparison) (*query.TraceDifferences, error) {
	f.diff = c
	return &query.TraceDifferences{Answer: &query.Answer{}}, nil
}

func TestTraceForms(t *testing.T) {
	t.Parallel()
	f := &fakeTracer{}
	w := newWorld(t, func(a *API) { a.Traces = f })
	token := w.root()
	for path, want := range map[string]string{
		"ab":                           "trace  ab",
		"ab?stream=s":                  "trace s ab",
		"ab?format=columns":            "columns  ab",
		"ab?summary=true&budget=9":     "summary  ab 9",
		"ab?summary=1":                 "summary  ab 0",
		"ab?summary=false":             "trace  ab",
		"ab?span=7":                    "span  ab 7",
		"ab/children?span=7":           "children  ab 7 0 0",
		"ab/children?offset=0&limit=3": "children  ab  0 3",
		"ab/children?offset=8":         "children  ab  8 0",
	} {
		w.want(200, "GET", "/api/v1/query/traces/"+path, token, nil, nil)
		if f.asked != want {
			t.Errorf("%s: %s, want %s", path, f.asked, want)
		}
	}
	for path, message := range map[string]string{
		"ab?format=rows": "columns", "ab?format=columns&summary=true": "only one", "ab?summary=maybe": "true or false", "ab?summary=true&budget=0": "positive", "ab/children?limit=x": "positive",
	} {
		checkProblem(t, path, w.call("GET", "/api/v1/query/traces/"+path, token, nil), 400, "invalid_argument", message)
	}
}

func TestCompareTracesCall(t *testing.T) {
	t.Parallel()
	f := &fakeTracer{}
	w := newWorld(t, func(a *API) { a.Traces = f })
	token := w.root()
	w.want(200, "POST", "/api/v1/query/traces/compare", token, `{"service":"web","roots":true,"limit":3,"selection":{"time_range":{"start":1796000000,"end":1796000060},"min_duration":"500ms"}}`, nil)
	c := f.diff
	if c.Service != "web" || !c.Roots || c.Limit != 3 || c.Selection.MinDuration != 500_000_000 || c.Baseline.MinDuration != 0 || c.Baseline.Range != c.Selection.Range || c.Selection.Range.End != 1796000060e9 {
		t.Errorf("%+v", c)
	}
	checkProblem(t, "a duration", w.call("POST", "/api/v1/query/traces/compare", token, `{"selection":{"min_duration":"long"}}`), 400, "invalid_argument", "min_duration")
}
