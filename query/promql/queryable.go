package promql

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/millstream/millstream/segment/metrics"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// Queryable is Prometheus' view of metric sources, for one query. It implements storage.Queryable, storage.ChunkQueryable and storage.ExemplarQueryable.
type Queryable struct {
	ctx  context.Context // of the query: Prometheus' Querier method passes none
	open Open

	mu    sync.Mutex
	opens []Snapshot
}

// NewQueryable returns a view for one query. Close it when the query is done.
func NewQueryable(ctx context.Context, open Open) *Queryable { return &Queryable{ctx: ctx, open: open} }

// Close releases what was opened.
func (q *Queryable) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.opens {
		if s.Close != nil {
			s.Close()
		}
	}
	q.opens = nil
}

func (q *Queryable) snapshot(first, last int64) (Snapshot, error) {
	s, err := q.open(q.ctx, first, last)
	if err != nil {
		return s, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opens = append(q.opens, s)
	return s, nil
}

// Warnings are the snapshots' reasons for a partial answer.
func (q *Queryable) warnings() annotations.Annotations {
	q.mu.Lock()
	defer q.mu.Unlock()
	var as annotations.Annotations
	for _, s := range q.opens {
		for _, w := range s.Warnings {
			as.Add(errors.New(w))
		}
	}
	return as
}

// Querier implements storage.Queryable.
func (q *Queryable) Querier(first, last int64) (storage.Querier, error) {
	s, err := q.snapshot(first, last)
	if err != nil {
		return nil, err
	}
	return &querier{labelQuerier{s.Sources, first, last}}, nil
}

// ChunkQuerier implements storage.ChunkQueryable.
func (q *Queryable) ChunkQuerier(first, last int64) (storage.ChunkQuerier, error) {
	s, err := q.snapshot(first, last)
	if err != nil {
		return nil, err
	}
	return &chunkQuerier{labelQuerier{s.Sources, first, last}}, nil
}

// labelQuerier is what both kinds of querier share.
type labelQuerier struct {
	sources     []metrics.Source
	first, last int64
}

func (l *labelQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names, err := metrics.LabelNames(ctx, l.sources, metrics.Query{Min: l.first, Max: l.last, Matchers: ms})
	return cut(names, hints), nil, err
}

func (l *labelQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values, err := metrics.LabelValues(ctx, l.sources, name, metrics.Query{Min: l.first, Max: l.last, Matchers: ms})
	return cut(values, hints), nil, err
}

func cut(list []string, hints *storage.LabelHints) []string {
	if hints != nil && hints.Limit > 0 && len(list) > hints.Limit {
		return list[:hints.Limit]
	}
	return list
}

func (*labelQuerier) Close() error { return nil }

func (l *labelQuerier) query(hints *storage.SelectHints, ms []*labels.Matcher) metrics.Query {
	q := metrics.Query{Min: l.first, Max: l.last, Matchers: ms}
	if hints != nil {
		q.Min, q.Max = max(q.Min, hints.Start), min(q.Max, hints.End)
		q.KeysOnly = hints.Func == "series"
	}
	return q
}

func (l *labelQuerier) series(ctx context.Context, sorted bool, hints *storage.SelectHints, ms []*labels.Matcher) ([]series, error) {
	found, err := metrics.Select(ctx, l.sources, l.query(hints, ms))
	if err != nil {
		return nil, err
	}
	if hints != nil && hints.Limit > 0 && len(found) > hints.Limit {
		found = found[:hints.Limit]
	}
	out := make([]series, len(found))
	var b labels.ScratchBuilder
	for i := range found {
		out[i] = series{labels: metrics.Labels(&b, found[i].Key), chunks: found[i].Chunks}
	}
	if sorted {
		slices.SortFunc(out, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	}
	return out, nil
}

type querier struct{ labelQuerier }

// Select implements storage.Querier.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	list, err := q.series(ctx, sorted, hints, ms)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return &seriesSet{list: list, at: -1}
}

type seriesSet struct {
	list []series
	at   int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.list) }
func (s *seriesSet) At() storage.Series              { return &s.list[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// series is one series of an answer.
type series struct {
	labels labels.Labels
	chunks []metrics.Chunk
}

func (s *series) Labels() labels.Labels { return s.labels }

func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if it, ok := it.(*metrics.Iterator); ok {
		it.Reset(s.chunks)
		return it
	}
	return metrics.NewIterator(s.chunks)
}

type chunkQuerier struct{ labelQuerier }

// Select implements storage.ChunkQuerier. Chunks of this kind are for remote readers; they are encoded on the way.
func (q *chunkQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	list, err := q.series(ctx, sorted, hints, ms)
	if err != nil {
		return storage.ErrChunkSeriesSet(err)
	}
	return storage.NewSeriesSetToChunkSet(&seriesSet{list: list, at: -1})
}

// ExemplarQuerier implements storage.ExemplarQueryable.
func (q *Queryable) ExemplarQuerier(ctx context.Context) (storage.ExemplarQuerier, error) {
	return &exemplarQuerier{ctx: ctx, q: q}, nil
}

type exemplarQuerier struct {
	ctx context.Context // Prometheus passes it when it makes the querier
	q   *Queryable
}

// Select implements storage.ExemplarQuerier: the exemplars of all series that match one of the selectors.
func (e *exemplarQuerier) Select(first, last int64, selectors ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	s, err := e.q.snapshot(first, last)
	if err != nil {
		return nil, err
	}
	byKey := map[string]metrics.SeriesExemplars{}
	for _, ms := range selectors {
		list, err := metrics.Exemplars(e.ctx, s.Sources, metrics.Query{Min: first, Max: last, Matchers: ms})
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			byKey[x.Key] = x
		}
	}
	out := make([]exemplar.QueryResult, 0, len(byKey))
	var b labels.ScratchBuilder
	for _, x := range byKey {
		r := exemplar.QueryResult{SeriesLabels: metrics.Labels(&b, x.Key)}
		for _, m := range x.Exemplars {
			r.Exemplars = append(r.Exemplars, exemplar.Exemplar{Labels: metrics.Labels(&b, m.Labels), Value: m.Value, Ts: m.Time, HasTs: true})
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b exemplar.QueryResult) int { return labels.Compare(a.SeriesLabels, b.SeriesLabels) })
	return out, nil
}
