package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/promql"
)

// tracer finds traces. *query.Engine fits.
type tracer interface {
	Trace(ctx context.Context, req query.Request, stream, id string) (*query.Trace, error)
	TraceColumns(ctx context.Context, req query.Request, stream, id string) (*query.TraceColumns, error)
	SummarizeTrace(ctx context.Context, req query.Request, stream, id string, budget int) (*query.TraceSummaryTree, error)
	TraceChildren(ctx context.Context, req query.Request, stream, id, span string, offset, limit int) (*query.SpanChildren, error)
	Spans(ctx context.Context, req query.Request, stream, id, span string) (*query.Trace, error)
	CompareTraces(ctx context.Context, req query.Request, c query.TraceComparison) (*query.TraceDifferences, error)
	SearchTraces(ctx context.Context, req query.Request, s query.TraceSearch) (*query.Traces, error)
	Services(ctx context.Context, req query.Request, stream string, edges bool) (*query.Services, error)
}

func (a *API) traceRoutes() []route {
	times := []param{{"start", "string", "earliest time"}, {"end", "string", "latest time, excluded"}, {"stream", "string", "trace stream; default: all"}}
	return []route{
		{method: "GET", path: v1 + "/query/traces/{trace_id}", policy: readTelemetry(), at: onQuerier, handle: a.trace, doc: operation{summary: "The spans of a trace, all in columns, or the part of a large one that is looked at first", reply: query.Trace{}, query: append([]param{
			{"span", "string", "only the span of this id"}, {"format", "string", "columns: every span without its attributes, one array a property"},
			{"summary", "boolean", "up to budget spans of the tree, nearest to the root first, with the numbers of their children"}, {"budget", "integer", "spans of a summary; default 2000"}}, times...)}},
		{method: "GET", path: v1 + "/query/traces/{trace_id}/children", policy: readTelemetry(), at: onQuerier, handle: a.traceChildren, doc: operation{summary: "The children of a span of a trace", reply: query.SpanChildren{}, query: append([]param{
			{"span", "string", "id of the parent; empty: the roots"}, {"offset", "integer", ""}, {"limit", "integer", "default 1000"}}, times...)}},
		{method: "POST", path: v1 + "/query/traces/compare", policy: readTelemetry(), at: onQuerier, handle: a.compareTraces, doc: operation{summary: "The attributes whose values differ most between two sets of spans", body: compareBody{}, reply: query.TraceDifferences{}}},
		{method: "GET", path: v1 + "/query/traces", policy: readTelemetry(), at: onQuerier, handle: a.searchTraces, doc: operation{summary: "Find traces", reply: query.Traces{}, query: append([]param{
			{"service", "string", ""}, {"operation", "string", "name of a span"}, {"min_duration", "string", "of a span, such as 250ms"}, {"max_duration", "string", ""},
			{"status", "string", "ok, error or unset"}, {"roots", "boolean", "only spans without a parent"}, {"search", "string", "in the search language, over the fields of a span"}, {"limit", "integer", "traces; default 20"}}, times...)}},
		{method: "GET", path: v1 + "/query/services", policy: readTelemetry(), at: onQuerier, handle: a.services, doc: operation{summary: "Services with operations, rate, errors and durations; edges of the service map", reply: query.Services{},
			query: append([]param{{"edges", "boolean", "also the edges"}}, times...)}},
	}
}

// traceRequest reads what all three have in common.
func (a *API) traceRequest(r *http.Request) (query.Request, error) {
	q := r.URL.Query()
	span, err := timespec.Range(q.Get("start"), q.Get("end"), a.Now())
	return query.Request{Org: who(r).Org, User: who(r).Actor(), Range: span}, err
}

func (a *API) trace(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "trace_id")
	if err != nil {
		return err
	}
	req, err := a.traceRequest(r)
	if err != nil {
		return err
	}
	t, err := a.traceForm(r, req, id)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, t)
}

// traceForm reads a trace in the form that is asked for.
func (a *API) traceForm(r *http.Request, req query.Request, id string) (any, error) {
	q := r.URL.Query()
	summary, err := flag(q.Get("summary"), "summary", false)
	if err != nil {
		return nil, err
	}
	stream, format, span := q.Get("stream"), q.Get("format"), q.Get("span")
	switch {
	case format != "" && format != "columns":
		return nil, millstream.Errorf(millstream.Invalid, "format %q is unknown: use columns, or none", format)
	case format != "" && (summary || span != "") || summary && span != "":
		return nil, millstream.Errorf(millstream.Invalid, "only one of format, summary and span can be asked for")
	case format == "columns":
		return a.Traces.TraceColumns(r.Context(), req, stream, id)
	case span != "":
		return a.Traces.Spans(r.Context(), req, stream, id, span)
	case summary:
		budget, err := count(q.Get("budget"), "budget")
		if err != nil {
			return nil, err
		}
		return a.Traces.SummarizeTrace(r.Context(), req, stream, id, budget)
	}
	return a.Traces.Trace(r.Context(), req, stream, id)
}

// flag reads true or false.
func flag(text, name string, absent bool) (bool, error) {
	if text == "" {
		return absent, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, millstream.Errorf(millstream.Invalid, "%s is true or false", name)
	}
	return v, nil
}

// count reads a positive number; 0 if there is none.
func count(text, name string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, millstream.Errorf(millstream.Invalid, "%s %q is not a positive number", name, text)
	}
	return n, nil
}

func (a *API) traceChildren(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "trace_id")
	if err != nil {
		return err
	}
	req, err := a.traceRequest(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	limit, err := count(q.Get("limit"), "limit")
	if err != nil {
		return err
	}
	offset := 0
	if q.Get("offset") != "0" {
		if offset, err = count(q.Get("offset"), "offset"); err != nil {
			return err
		}
	}
	list, err := a.Traces.TraceChildren(r.Context(), req, q.Get("stream"), id, q.Get("span"), offset, limit)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, list)
}

func (a *API) searchTraces(w http.ResponseWriter, r *http.Request) error {
	req, err := a.traceRequest(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	s := query.TraceSearch{Stream: q.Get("stream"), Service: q.Get("service"), Operation: q.Get("operation"), Status: q.Get("status"), Search: q.Get("search")}
	if s.Roots, err = flag(q.Get("roots"), "roots", false); err != nil {
		return err
	}
	if s.MinDuration, err = duration(q.Get("min_duration"), "min_duration"); err != nil {
		return err
	}
	if s.MaxDuration, err = duration(q.Get("max_duration"), "max_duration"); err != nil {
		return err
	}
	if s.Limit, err = count(q.Get("limit"), "limit"); err != nil {
		return err
	}
	found, err := a.Traces.SearchTraces(r.Context(), req, s)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, found)
}

// duration reads a duration in nanoseconds: Go's form such as 1.5ms, Prometheus' such as 1d, or a number of seconds.
func duration(text, name string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return int64(d), nil
	}
	d, err := promql.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, millstream.Errorf(millstream.Invalid, "%s %q is not a duration: write 250ms, 1.5s or 2m", name, text)
	}
	return int64(d), nil
}

func (a *API) services(w http.ResponseWriter, r *http.Request) error {
	req, err := a.traceRequest(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	edges, err := flag(q.Get("edges"), "edges", true)
	if err != nil {
		return err
	}
	s, err := a.Traces.Services(r.Context(), req, q.Get("stream"), edges)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, s)
}
