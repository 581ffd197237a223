package promql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// maxPoints bounds the points per series of a range query: a week at 60 s, a year at 1 h.
const maxPoints = 11_000

var errTruncated = errors.New("results truncated due to limit")

// Query answers /query: an expression at one time.
func (a *API) Query(ctx context.Context, open Open, values url.Values) (*Response, error) {
	p := &params{Values: values}
	limit, at, timeout, lookback := p.limit(), p.time("time", a.now()), p.timeout(a.timeout), p.lookback()
	if p.err != nil {
		return nil, p.err
	}
	return a.run(ctx, open, p, timeout, limit, func(ctx context.Context, q *Queryable) (prom.Query, error) {
		return a.engine.NewInstantQuery(ctx, q, prom.NewPrometheusQueryOpts(values.Get("stats") == "all", lookback, nil), values.Get("query"), at)
	})
}

// QueryRange answers /query_range: an expression at regular times.
func (a *API) QueryRange(ctx context.Context, open Open, values url.Values) (*Response, error) {
	p := &params{Values: values}
	limit, start, end := p.limit(), p.required("start"), p.required("end")
	if p.err == nil && end.Before(start) {
		p.fail("end", errors.New("end timestamp must not be before start time"))
	}
	step := p.step()
	if p.err == nil && end.Sub(start)/step > maxPoints {
		p.err = badData(errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"))
	}
	timeout, lookback := p.timeout(a.timeout), p.lookback()
	if p.err != nil {
		return nil, p.err
	}
	return a.run(ctx, open, p, timeout, limit, func(ctx context.Context, q *Queryable) (prom.Query, error) {
		opts := prom.NewPrometheusQueryOpts(values.Get("stats") == "all", lookback, nil)
		return a.engine.NewRangeQuery(ctx, q, opts, values.Get("query"), start, end, step)
	})
}

// run executes a query. The Response owns the query's memory until it is closed.
func (a *API) run(ctx context.Context, open Open, p *params, timeout time.Duration, limit int,
	build func(context.Context, *Queryable) (prom.Query, error)) (*Response, error) {
	if err := checkText(p.Get("query")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	view := NewQueryable(ctx, open)
	defer view.Close()
	query, err := build(ctx, view)
	if err != nil {
		if e := AsError(err); e.Type == "canceled" || e.Type == "timeout" {
			return nil, e
		}
		return nil, badParameter("query", err)
	}
	if err := checkSubqueries(query.Statement()); err != nil {
		query.Close()
		return nil, err
	}
	res := query.Exec(ctx)
	if res.Err != nil {
		query.Close()
		return nil, AsError(res.Err)
	}
	r := &Response{data: queryData{value: truncate(res.Value, limit)}, close: query.Close}
	notes := res.Warnings
	notes.Merge(view.warnings())
	if limit > 0 && length(res.Value) > limit {
		notes.Add(errTruncated)
	}
	if s := p.Get("stats"); s != "" {
		r.data = queryData{value: truncate(res.Value, limit), stats: stats.NewQueryStats(query.Stats())}
		if s != "true" && s != "all" {
			notes.Add(fmt.Errorf("value %q for parameter \"stats\" is deprecated and will be rejected in the next major release, use %q or %q", s, "true", "all"))
		}
	}
	r.note(notes, p.Get("query"))
	return r, nil
}

func length(v parser.Value) int {
	switch v := v.(type) {
	case prom.Matrix:
		return len(v)
	case prom.Vector:
		return len(v)
	}
	return 0
}

func truncate(v parser.Value, limit int) parser.Value {
	if limit == 0 || length(v) <= limit {
		return v
	}
	switch v := v.(type) {
	case prom.Matrix:
		return v[:limit]
	case prom.Vector:
		return v[:limit]
	}
	return v
}

// FormatQuery answers /format_query: the expression laid out.
func (a *API) FormatQuery(values url.Values) (*Response, error) {
	if err := checkText(values.Get("query")); err != nil {
		return nil, err
	}
	expr, err := a.parser.ParseExpr(values.Get("query"))
	if err != nil {
		return nil, badParameter("query", err)
	}
	return &Response{data: expr.Pretty(0)}, nil
}

// Series answers /series: the label sets of the series that match one of the selectors.
func (a *API) Series(ctx context.Context, open Open, values url.Values) (*Response, error) {
	p := &params{Values: values}
	if len(values["match[]"]) == 0 {
		return nil, badData(errors.New("no match[] parameter provided"))
	}
	limit, start, end := p.limit(), p.time("start", minTime), p.time("end", maxTime)
	sets := p.selectors(a)
	if p.err != nil {
		return nil, p.err
	}
	var out []labels.Labels
	var b labels.ScratchBuilder
	notes, err := a.read(ctx, open, start, end, func(srcs []metrics.Source, q metrics.Query) error {
		q.KeysOnly = true
		seen := map[string]struct{}{}
		for _, q.Matchers = range sets {
			found, err := metrics.Select(ctx, srcs, q)
			if err != nil {
				return err
			}
			for i := range found {
				if len(sets) > 1 {
					if _, ok := seen[found[i].Key]; ok {
						continue
					}
					seen[found[i].Key] = struct{}{}
				}
				out = append(out, metrics.Labels(&b, found[i].Key))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(sets) > 1 {
		slices.SortFunc(out, labels.Compare)
	}
	if limit > 0 && len(out) > limit {
		out = out[:limit]
		notes.Add(errTruncated)
	}
	r := &Response{data: out}
	r.note(notes, "")
	return r, nil
}

// read opens a snapshot of a time range for f.
func (a *API) read(ctx context.Context, open Open, start, end time.Time, f func([]metrics.Source, metrics.Query) error) (annotations.Annotations, error) {
	view := NewQueryable(ctx, open)
	defer view.Close()
	q := metrics.Query{Min: timestamp.FromTime(start), Max: timestamp.FromTime(end)}
	s, err := view.snapshot(q.Min, q.Max)
	if err == nil {
		err = f(s.Sources, q)
	}
	if err != nil {
		return nil, AsError(err)
	}
	notes := view.warnings()
	if notes == nil {
		notes = annotations.Annotations{}
	}
	return notes, nil
}

// Labels answers /labels: the label names, of the series that match one of the selectors if there are any.
func (a *API) Labels(ctx context.Context, open Open, values url.Values) (*Response, error) {
	return a.list(ctx, open, values, metrics.LabelNames)
}

// LabelValues answers /label/{name}/values.
func (a *API) LabelValues(ctx context.Context, open Open, name string, values url.Values) (*Response, error) {
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return nil, badData(fmt.Errorf("invalid label name: %q", name))
	}
	return a.list(ctx, open, values, func(ctx context.Context, srcs []metrics.Source, q metrics.Query) ([]string, error) {
		return metrics.LabelValues(ctx, srcs, name, q)
	})
}

func (a *API) list(ctx context.Context, open Open, values url.Values,
	get func(context.Context, []metrics.Source, metrics.Query) ([]string, error)) (*Response, error) {
	p := &params{Values: values}
	limit, start, end := p.limit(), p.time("start", minTime), p.time("end", maxTime)
	sets := p.selectors(a)
	if p.err != nil {
		return nil, p.err
	}
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	out := []string{}
	notes, err := a.read(ctx, open, start, end, func(srcs []metrics.Source, q metrics.Query) error {
		for _, q.Matchers = range sets {
			list, err := get(ctx, srcs, q)
			if err != nil {
				return err
			}
			out = append(out, list...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if limit > 0 && len(out) > limit {
		out = out[:limit]
		notes.Add(errTruncated)
	}
	r := &Response{data: out}
	r.note(notes, "")
	return r, nil
}

// Exemplars answers /query_exemplars: the exemplars of all series that an expression reads.
func (a *API) Exemplars(ctx context.Context, open Open, values url.Values) (*Response, error) {
	p := &params{Values: values}
	start, end := p.time("start", minTime), p.time("end", maxTime)
	if p.err == nil && end.Before(start) {
		p.err = badData(errors.New("end timestamp must not be before start timestamp"))
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := checkText(values.Get("query")); err != nil {
		return nil, err
	}
	expr, err := a.parser.ParseExpr(values.Get("query"))
	if err != nil {
		return nil, badData(err)
	}
	selectors := parser.ExtractSelectors(expr)
	if len(selectors) == 0 {
		return &Response{}, nil
	}
	view := NewQueryable(ctx, open)
	defer view.Close()
	querier, err := view.ExemplarQuerier(ctx)
	if err != nil {
		return nil, AsError(err)
	}
	found, err := querier.Select(timestamp.FromTime(start), timestamp.FromTime(end), selectors...)
	if err != nil {
		return nil, AsError(err)
	}
	r := &Response{data: found}
	r.note(view.warnings(), "")
	return r, nil
}

// Metadata answers /metadata: type, unit and help text by metric name.
func (a *API) Metadata(ctx context.Context, get Metadata, values url.Values) (*Response, error) {
	limit, err := number(values, "limit")
	if err != nil {
		return nil, err
	}
	perMetric, err := number(values, "limit_per_metric")
	if err != nil {
		return nil, err
	}
	all, reasons, err := get(ctx)
	if err != nil {
		return nil, AsError(err)
	}
	metric := values.Get("metric")
	byName := map[string][]millstream.Metadata{}
	var names []string
	for _, m := range all {
		if metric != "" && m.Name != metric {
			continue
		}
		if byName[m.Name] == nil {
			names = append(names, m.Name)
		}
		if perMetric <= 0 || len(byName[m.Name]) < perMetric {
			byName[m.Name] = append(byName[m.Name], m)
		}
	}
	slices.Sort(names)
	if limit >= 0 && len(names) > limit {
		names = names[:limit]
	}
	return &Response{data: metadataData{names, byName}, warnings: reasons}, nil
}

// number reads an optional number; absent is -1.
func number(values url.Values, name string) (int, error) {
	s := values.Get(name)
	if s == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, badData(fmt.Errorf("%s must be a number", name))
	}
	return min(n, math.MaxInt32), nil
}
