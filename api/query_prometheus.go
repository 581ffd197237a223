package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/promql"
)

// metricReader opens metric sources. *query.Engine fits.
type metricReader interface {
	OpenMetrics(ctx context.Context, req query.Request) (*query.MetricSnapshot, error)
	FindMetrics(ctx context.Context, req query.Request, search string, limit int) ([]query.MetricName, int, *query.Answer, error)
}

// metadataReader knows what metrics are. ingest.Live fits.
type metadataReader interface {
	Metadata(ctx context.Context, org millstream.OrgID) (all []millstream.Metadata, reasons []string, err error)
	MetadataOf(ctx context.Context, org millstream.OrgID, names []string) (map[string]millstream.Metadata, error)
}

func (a *API) promRoutes() []route {
	const base = v1 + "/query/prometheus/api/v1"
	line := func(method, path, summary string, h handler) route {
		return route{method: method, path: base + path, policy: readTelemetry(), at: onQuerier, handle: h, doc: operation{summary: "Prometheus API: " + summary}, shape: promShape}
	}
	var routes []route
	both := func(path, summary string, f promCall) { // Grafana posts its parameters as a form
		routes = append(routes, line("GET", path, summary, a.prom(f)), line("POST", path, summary, a.prom(f)))
	}
	both("/query", "an expression at one time", func(ctx context.Context, p *promql.API, o promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.Query(ctx, o, v)
	})
	both("/query_range", "an expression at regular times", func(ctx context.Context, p *promql.API, o promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.QueryRange(ctx, o, v)
	})
	both("/query_exemplars", "exemplars", func(ctx context.Context, p *promql.API, o promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.Exemplars(ctx, o, v)
	})
	both("/series", "label sets", func(ctx context.Context, p *promql.API, o promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.Series(ctx, o, v)
	})
	both("/labels", "label names", func(ctx context.Context, p *promql.API, o promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.Labels(ctx, o, v)
	})
	both("/parse_query", "an expression as a tree", func(_ context.Context, p *promql.API, _ promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.ParseQuery(v)
	})
	both("/format_query", "an expression laid out", func(_ context.Context, p *promql.API, _ promql.Open, _ *http.Request, v url.Values) (*promql.Response, error) {
		return p.FormatQuery(v)
	})
	return append(routes,
		route{method: "GET", path: v1 + "/query/metrics", policy: readTelemetry(), at: onQuerier, handle: a.findMetrics, doc: operation{summary: "Find metrics by name", reply: metricsView{}, query: []param{
			{"search", "string", "words that the name has, in any case; names and words that begin with them come first"}, {"limit", "integer", "1 to 1000, default 1000"}}}},
		line("GET", "/label/{name}/values", "label values", a.prom(func(ctx context.Context, p *promql.API, o promql.Open, r *http.Request, v url.Values) (*promql.Response, error) {
			name, err := pathValue(r, "name")
			if err != nil {
				return nil, err
			}
			return p.LabelValues(ctx, o, name, v)
		})),
		line("GET", "/metadata", "types and help of metrics", a.prom(func(ctx context.Context, p *promql.API, _ promql.Open, r *http.Request, v url.Values) (*promql.Response, error) {
			return p.Metadata(ctx, func(ctx context.Context) ([]millstream.Metadata, []string, error) {
				return a.Metadata.Metadata(ctx, who(r).Org)
			}, v)
		})),
		line("GET", "/status/buildinfo", "version", a.buildInfo),
	)
}

type promCall func(ctx context.Context, p *promql.API, open promql.Open, r *http.Request, v url.Values) (*promql.Response, error)

// maxForm bounds the form that a Prometheus client posts.
const maxForm = 1 << 20

// prom serves one endpoint of the Prometheus API.
func (a *API) prom(f promCall) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			var long *http.MaxBytesError
			if errors.As(err, &long) {
				return millstream.Errorf(millstream.TooLarge, "the parameters are larger than %d bytes", long.Limit)
			}
			return millstream.Wrap(millstream.Invalid, err, "the parameters cannot be read: %v", err)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		req := query.Request{Org: who(r).Org, User: who(r).Actor(), Language: "promql", Statement: statementOf(r.Form)}
		res, err := f(ctx, a.PromQL, a.openMetrics(cancel, req, nil), r, r.Form)
		if err != nil {
			return promFailure(err)
		}
		defer res.Close()
		w.Header().Set("Content-Type", "application/json")
		_, err = res.WriteTo(w)
		return gone(err)
	}
}

// statementOf is what the running list shows of a call.
func statementOf(v url.Values) string {
	if q := v.Get("query"); q != "" {
		return q
	}
	return strings.Join(v["match[]"], " ")
}

// openMetrics gives the Prometheus engine its sources, and stops it when the query is canceled or out of time. seen receives what each reading cost.
func (a *API) openMetrics(stop context.CancelFunc, req query.Request, seen func(*query.Answer)) promql.Open {
	return func(ctx context.Context, first, last int64) (promql.Snapshot, error) {
		req := req
		req.Range = millstream.TimeRange{Start: nanos(first), End: nanos(last + 1)}
		s, err := a.Metrics.OpenMetrics(ctx, req)
		if err != nil {
			return promql.Snapshot{}, err
		}
		closed := make(chan struct{})
		go func() { // ends with the snapshot
			select {
			case <-s.Done:
				stop()
			case <-closed:
			}
		}()
		return promql.Snapshot{Sources: s.Sources, Warnings: s.Reasons, Close: func() {
			answer := s.Close()
			close(closed)
			if seen != nil && answer != nil {
				seen(answer)
			}
		}}, nil
	}
}

// nanos converts milliseconds; times beyond what nanoseconds can hold become the first or the last.
func nanos(ms int64) int64 {
	switch {
	case ms > math.MaxInt64/1_000_000:
		return math.MaxInt64
	case ms < math.MinInt64/1_000_000:
		return math.MinInt64
	}
	return ms * 1e6
}

// promFailure keeps the kind of Prometheus' own error types, so that the one table of statuses decides the reply.
func promFailure(err error) error {
	e := promql.AsError(err)
	kind := map[string]millstream.Kind{"bad_data": millstream.Invalid, "execution": millstream.Unprocessable, "timeout": millstream.Unavailable, "canceled": millstream.Canceled,
		"unavailable": millstream.Unavailable, "not_found": millstream.NotFound}[e.Type]
	if e.Status == http.StatusTooManyRequests {
		kind = millstream.RateLimited
	}
	return &millstream.Error{Kind: kind, Msg: e.Err.Error(), Err: err}
}

// promShape is the Prometheus API's error body.
func promShape(_ *http.Request, code int, d errorDetail) (string, []byte) {
	typ := map[int]string{400: "bad_data", 404: "not_found", 422: "execution", 429: "unavailable", 499: "canceled", 503: "unavailable", 504: "timeout"}[code]
	switch {
	case typ == "" && code < 500:
		typ = "bad_data"
	case typ == "":
		typ = "internal"
	}
	body, _ := encode(map[string]string{"status": "error", "errorType": typ, "error": d.Message}) // strings always encode
	return "application/json", body
}

func (a *API) buildInfo(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, map[string]any{"status": "success", "data": map[string]string{"version": "3.0.0", "application": "millstream", "revision": a.Version}})
}

// defaultPoints is how many points a PromQL range query has when it names no step.
const defaultPoints = 250

// runPromQL answers POST /query in PromQL: the expression over the time range as rows of _timestamp, the labels, and value.
func (a *API) runPromQL(ctx context.Context, req query.Request, sink query.Sink) (*query.Answer, error) {
	step, err := stepOf(req.Params)
	if err != nil {
		return nil, err
	}
	if req.Range.Start == timespec.First || req.Range.End == timespec.Last {
		return nil, millstream.Errorf(millstream.Invalid, "a PromQL statement needs a time_range with start and end")
	}
	if step == "" {
		step = strconv.FormatFloat(math.Max(1, math.Ceil(time.Duration(req.Range.End-req.Range.Start).Seconds()/defaultPoints)), 'f', -1, 64)
	}
	seconds := func(ns int64) string { return strconv.FormatFloat(float64(ns/1e6)/1e3, 'f', -1, 64) }
	v := url.Values{"query": {req.Statement}, "start": {seconds(req.Range.Start)}, "end": {seconds(req.Range.End)}, "step": {step}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	total := &query.Answer{Warnings: []string{}}
	began := a.Now()
	res, err := a.PromQL.QueryRange(ctx, a.openMetrics(cancel, req, func(one *query.Answer) { addAnswer(total, one) }), v)
	switch {
	case err != nil && total.Stopped: // an expression has no value before it has all of its samples
		return total, sink.Columns([]query.Column{})
	case err != nil:
		return nil, promFailure(err)
	}
	defer res.Close()
	total.Warnings = append(total.Warnings, res.Warnings()...)
	total.Stats.TookMS = a.Now().Sub(began).Milliseconds()
	return total, emitMatrix(res.Value(), sink)
}

func addAnswer(total, one *query.Answer) {
	total.Partial = total.Partial || one.Partial
	total.Stopped = total.Stopped || one.Stopped
	total.Reasons = append(total.Reasons, one.Reasons...)
	s, o := &total.Stats, one.Stats
	s.ScannedRows += o.ScannedRows
	s.ScannedBytes += o.ScannedBytes
	s.UnflushedRows += o.UnflushedRows
	s.Segments.Total += o.Segments.Total
	s.Segments.Pruned += o.Segments.Pruned
	s.Segments.Scanned += o.Segments.Scanned
	s.Segments.Cached += o.Segments.Cached
	s.Nodes = max(s.Nodes, o.Nodes)
}

// emitMatrix writes a PromQL result as rows.
func emitMatrix(value parser.Value, sink query.Sink) error {
	m, ok := value.(prom.Matrix)
	if !ok {
		return millstream.Errorf(millstream.Unprocessable, "the expression gives a %s; over a time range it must give a vector or a scalar", value.Type())
	}
	names := labelNames(m)
	cols := []query.Column{{Name: millstream.TimestampField, Type: "TIMESTAMP_NS"}}
	for _, n := range names {
		cols = append(cols, query.Column{Name: n, Type: "VARCHAR"})
	}
	cols = append(cols, query.Column{Name: "value", Type: "DOUBLE"}, query.Column{Name: "histogram", Type: "VARCHAR"})
	if err := sink.Columns(cols); err != nil {
		return err
	}
	for _, s := range m {
		if err := sink.Rows(seriesRows(s, names)); err != nil {
			return err
		}
	}
	return nil
}

func labelNames(m prom.Matrix) []string {
	seen := map[string]bool{}
	var names []string
	for _, s := range m {
		s.Metric.Range(func(l labels.Label) {
			if !seen[l.Name] {
				seen[l.Name] = true
				names = append(names, l.Name)
			}
		})
	}
	slices.Sort(names)
	return names
}

// seriesRows are the points of one series: its labels in every row.
func seriesRows(s prom.Series, names []string) *query.Rows {
	n := len(s.Floats) + len(s.Histograms)
	b := millstream.NewBuilder(millstream.Limits{MaxFields: len(names) + 4, MaxKey: math.MaxInt32, MaxRecord: math.MaxInt32})
	for i := range n {
		for _, name := range names {
			if v := s.Metric.Get(name); v != "" {
				b.String([]byte(name), []byte(v))
			}
		}
		if i < len(s.Floats) {
			b.Double([]byte("value"), s.Floats[i].F)
			_ = b.Commit(s.Floats[i].T * 1e6)
		} else {
			h := s.Histograms[i-len(s.Floats)]
			b.String([]byte("histogram"), []byte(h.H.String()))
			_ = b.Commit(h.T * 1e6)
		}
	}
	batch := b.Batch()
	out := &query.Rows{N: n}
	out.Columns = append(out.Columns, millstream.Column{Name: millstream.TimestampField, Type: millstream.Timestamp, Ints: batch.Times})
	for _, name := range append(slices.Clone(names), "value", "histogram") {
		c := batch.Column(name)
		if c == nil {
			c = nullColumn(name, n)
		}
		out.Columns = append(out.Columns, *c)
	}
	return out
}

// nullColumn is a column without a value in any row.
func nullColumn(name string, rows int) *millstream.Column {
	c := &millstream.Column{Name: name, Type: millstream.String, Valid: make([]uint64, (rows+63)/64), Offsets: make([]uint32, rows+1)}
	if name == "value" {
		c.Type, c.Offsets, c.Floats = millstream.Double, nil, make([]float64, rows)
	}
	return c
}
