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
	SearchTraces(ctx context.Context, req query.Request, s query.TraceSearch) (*query.Traces, error)
	Services(ctx context.Context, req query.Request, stream string, edges bool) (*query.Services, error)
}

func (a *API) traceRoutes() []route {
	times := []param{{"start", "string", "earliest time"}, {"end", "string", "latest time, excluded"}, {"stream", "string", "trace stream; default: all"}}
	return []route{
		{method: "GET", path: v1 + "/query/traces/{trace_id}", policy: readTelemetry(), handle: a.trace, doc: operation{summary: "The spans of a trace", reply: query.Trace{}, query: times}},
		{method: "GET", path: v1 + "/query/traces", policy: readTelemetry(), handle: a.searchTraces, doc: operation{summary: "Find traces", reply: query.Traces{}, query: append([]param{
			{"service", "string", ""}, {"operation", "string", "name of a span"}, {"min_duration", "string", "of a span, such as 250ms"}, {"max_duration", "string", ""},
			{"status", "string", "ok, error or unset"}, {"limit", "integer", "traces; default 20"}}, times...)}},
		{method: "GET", path: v1 + "/query/services", policy: readTelemetry(), handle: a.services, doc: operation{summary: "Services with operations, rate, errors and durations; edges of the service map", reply: query.Services{},
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
	t, err := a.Traces.Trace(r.Context(), req, r.URL.Query().Get("stream"), id)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, t)
}

func (a *API) searchTraces(w http.ResponseWriter, r *http.Request) error {
	req, err := a.traceRequest(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	s := query.TraceSearch{Stream: q.Get("stream"), Service: q.Get("service"), Operation: q.Get("operation"), Status: q.Get("status")}
	if s.MinDuration, err = duration(q.Get("min_duration"), "min_duration"); err != nil {
		return err
	}
	if s.MaxDuration, err = duration(q.Get("max_duration"), "max_duration"); err != nil {
		return err
	}
	if text := q.Get("limit"); text != "" {
		if s.Limit, err = strconv.Atoi(text); err != nil || s.Limit < 1 {
			return millstream.Errorf(millstream.Invalid, "limit %q is not a positive number", text)
		}
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
	edges, err := strconv.ParseBool(q.Get("edges"))
	if q.Get("edges") == "" {
		edges, err = true, nil
	}
	if err != nil {
		return millstream.Errorf(millstream.Invalid, "edges is true or false")
	}
	s, err := a.Traces.Services(r.Context(), req, q.Get("stream"), edges)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, s)
}
