package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/segment/metrics"
)

// Metrics gives f the sources of an organization's samples in a time range (ns), in the order in which they were written. They are valid during f, which may be
// called again with a newer snapshot if one went stale. reasons say why samples may be missing, if some may. The answer is what Run's would be; f's own reading is not counted in it.
func (e *Engine) Metrics(ctx context.Context, req Request, f func(ctx context.Context, srcs []metrics.Source, reasons []string) error) (*Answer, error) {
	if req.Language == "" {
		req.Language = "promql"
	}
	return e.do(ctx, req, func(ctx context.Context, q *task) error {
		key := millstream.StreamKey{Org: q.Org, Signal: millstream.Metrics, Name: millstream.MetricStream}
		v, err := e.open(ctx, q.Org, []millstream.StreamKey{key}, q.Range)
		if err != nil {
			return err
		}
		defer v.release()
		if err := e.begin(q, v); err != nil {
			return err
		}
		st := v.find(key)
		if st == nil {
			return f(ctx, nil, q.answer.Reasons)
		}
		srcs, release, err := e.metricSources(ctx, q, st)
		if err != nil {
			return err
		}
		defer release()
		return f(ctx, srcs, q.answer.Reasons)
	})
}

// metricSources gives the metric stream's samples, in the order in which they were written: segments, then what is not flushed. If other nodes own some of the
// segments, one source stands for all segments; else each is open until release.
func (e *Engine) metricSources(ctx context.Context, q *task, st *stream) (srcs []metrics.Source, release func(), err error) {
	segments := slices.Clone(st.segments)
	slices.SortStableFunc(segments, writeOrder)
	if _, others := e.divide(segments, nil); len(others) > 0 {
		return append([]metrics.Source{&ownedSamples{ctx: ctx, e: e, q: q, segments: segments}}, st.heads...), func() {}, nil
	}
	defer e.prefetch(ctx, q, segments)()
	var handles []*cache.Handle
	release = func() {
		for _, h := range handles {
			h.Release()
		}
	}
	for _, s := range segments {
		src, h, err := e.openSamples(ctx, q, s)
		if err != nil {
			release()
			return nil, nil, err
		}
		handles, srcs = append(handles, h), append(srcs, src)
		q.progress.Sources.Add(1)
	}
	return append(srcs, st.heads...), release, nil
}

// openSamples pins a metric segment.
func (e *Engine) openSamples(ctx context.Context, q *task, s millstream.Segment) (metrics.Source, *cache.Handle, error) {
	h, err := e.fetch(ctx, q, s)
	if err != nil {
		return nil, nil, err
	}
	src, ok := h.Value().(metrics.Source)
	if !ok {
		h.Release()
		return nil, nil, fmt.Errorf("segment %s holds no samples", s.ID)
	}
	return src, h, nil
}

// writeOrder sorts segments as they were written. What one flush of a WAL published has one time; no order is known between flushes of different WALs.
func writeOrder(a, b millstream.Segment) int {
	return cmp.Or(cmp.Compare(a.Written, b.Written), cmp.Compare(a.WAL, b.WAL), cmp.Compare(a.To, b.To), cmp.Compare(a.ID, b.ID))
}

// labelValues lists the values of a label over all time that equal value.
func (e *Engine) labelValues(ctx context.Context, org millstream.OrgID, q *task, label, value string) ([]string, error) {
	key := millstream.StreamKey{Org: org, Signal: millstream.Metrics, Name: millstream.MetricStream}
	v, err := e.open(ctx, org, []millstream.StreamKey{key}, allTime)
	if err != nil {
		return nil, err
	}
	defer v.release()
	st := v.find(key)
	if st == nil {
		return nil, nil
	}
	m, err := labels.NewMatcher(labels.MatchEqual, label, value)
	if err != nil {
		return nil, err
	}
	srcs, release, err := e.metricSources(ctx, q, st)
	if err != nil {
		return nil, err
	}
	defer release()
	return metrics.LabelValues(ctx, srcs, label, metrics.Query{Min: math.MinInt64, Max: math.MaxInt64, Matchers: []*labels.Matcher{m}, KeysOnly: true})
}
