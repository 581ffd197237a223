package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/segment"
)

// redQuery is the state of one request for services.
type redQuery struct {
	*Engine
	q     *task
	edges bool
	slots chan struct{} // a token per part that is being read

	mu    sync.Mutex   // guards what q has scanned
	left  atomic.Int64 // bytes that summaries may still take
	spans atomic.Int64 // whose edges are made
	cut   atomic.Bool  // the edges of some were not
}

func (e *Engine) newRedQuery(q *task, edges bool) *redQuery {
	r := &redQuery{Engine: e, q: q, edges: edges, slots: make(chan struct{}, e.cfg.Workers)}
	r.left.Store(cmp.Or(e.cfg.Limits.Memory, scan.DefaultMemory))
	return r
}

// parted is a source that can be read in parts side by side.
type parted interface {
	Parts() ([]segment.Source, error)
}

// summaries gives those of all parts of a stream's sources that overlap the range. Those of segments come from their owners, who keep them.
func (r *redQuery) summaries(ctx context.Context, t *table) ([]*summary, error) {
	var found []*heard
	var unflushed []*summary
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		found, err = r.ofSegments(gctx, t)
		return err
	})
	g.Go(func() (err error) {
		unflushed, err = r.read(gctx, openedAll(t.sources), t.schema, nil)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []*summary
	for _, h := range found {
		some, ok := h.here.([]*summary)
		if !ok {
			one, err := r.elsewhere(h)
			if err != nil {
				return nil, err
			}
			some = []*summary{one}
		}
		out = append(out, some...)
	}
	return append(out, unflushed...), nil
}

// read gives the summaries of sources on this node, in their order. Edges are made of the segments in that set, and of other sources while there may be more.
func (r *redQuery) read(ctx context.Context, inputs []scan.Input, schema millstream.Schema, edges map[millstream.SegmentID]bool) ([]*summary, error) {
	parts := make([][]*summary, len(inputs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cap(r.slots))
	for i, in := range inputs {
		if !r.q.Range.Overlaps(in.First, in.Last) {
			continue
		}
		g.Go(func() (err error) {
			with := edges[in.Segment] || in.Segment == "" && r.wantEdges(int64(in.Rows))
			parts[i], err = r.source(gctx, in, schema, with)
			r.q.progress.Sources.Add(1)
			return err
		})
	}
	err := g.Wait()
	return slices.Concat(parts...), err
}

// source gives the summaries of one source: of a segment that lies in the range as a whole a single one, which is kept, else those of the parts that do not lie
// outside of it.
func (r *redQuery) source(ctx context.Context, in scan.Input, schema millstream.Schema, edges bool) ([]*summary, error) {
	key := summaryKey{in.Segment, wholeSegment, summaryTypes(schema)}
	whole := r.lasting(key, in.First, in.Last)
	if whole {
		if s := r.kept.get(key, edges); s != nil {
			return []*summary{s}, r.take(s)
		}
	}
	parts, err := r.parts(ctx, in, key, schema, edges)
	if err != nil || !whole {
		return parts, err
	}
	s := merge(parts, edges)
	r.kept.put(key, s) // the parts are asked for no more, so they are the first to be forgotten
	return []*summary{s}, nil
}

// lasting says whether what is read of a source between two times, both included, is right for other requests too.
func (r *redQuery) lasting(key summaryKey, first, last int64) bool {
	return key.segment != "" && r.q.Range.Contains(first) && r.q.Range.Contains(last)
}

// parts gives the summaries of a source's parts, which are read side by side.
func (r *redQuery) parts(ctx context.Context, in scan.Input, key summaryKey, schema millstream.Schema, edges bool) ([]*summary, error) {
	src, release, err := in.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	parts := []segment.Source{src}
	if p, ok := src.(parted); ok {
		if parts, err = p.Parts(); err != nil {
			return nil, err
		}
	}
	out := make([]*summary, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	for i, p := range parts {
		if first, last := p.Span(); r.q.Range.Overlaps(first, last) {
			g.Go(func() (err error) {
				out[i], err = r.part(gctx, p, summaryKey{key.segment, i, key.types}, schema, edges)
				return err
			})
		}
	}
	err = g.Wait()
	return slices.DeleteFunc(out, func(s *summary) bool { return s == nil }), err
}

// part gives the summary of one part, when it is its turn.
func (r *redQuery) part(ctx context.Context, p segment.Source, key summaryKey, schema millstream.Schema, edges bool) (*summary, error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.slots }()
	first, last := p.Span()
	lasting := r.lasting(key, first, last)
	if lasting {
		if s := r.kept.get(key, edges); s != nil {
			return s, r.take(s)
		}
	}
	s, stats, err := summarize(ctx, p, schema, r.q.Range, edges)
	r.mu.Lock()
	r.q.scanned(scan.Stats{ScannedRows: stats.ScannedRows, ScannedBytes: stats.ScannedBytes, Selected: stats.Selected})
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if lasting {
		r.kept.put(key, s)
	}
	return s, r.take(s)
}

// take books the memory of a summary.
func (r *redQuery) take(s *summary) error {
	if r.left.Add(-s.size) < 0 {
		return millstream.Errorf(millstream.Unprocessable, "the services of so many spans do not fit in memory: narrow the time range")
	}
	return nil
}

// wantEdges says whether the edges of so many rows more are to be made.
func (r *redQuery) wantEdges(rows int64) bool {
	if !r.edges {
		return false
	}
	if r.spans.Add(rows) <= maxEdgeSpans {
		return true
	}
	r.cut.Store(true)
	return false
}

// serviceSum is a service and its operations with most spans, from the most on.
type serviceSum struct {
	name          string
	spans, errors int64
	durations     digest
	top           []topOperation
}

type topOperation struct {
	*operationSummary
	durations []int64
}

// servicesOf makes the figures: the services by name, and of each the operations with most spans. There may be tens of thousands of others, whose durations
// only count for their services.
func servicesOf(s *summary, seconds float64) []Service {
	byName := map[string]*serviceSum{}
	from := 0
	for i := range s.operations {
		op := &s.operations[i]
		sum := byName[op.service]
		if sum == nil {
			sum = &serviceSum{name: op.service}
			byName[op.service] = sum
		}
		durations := s.durations[from:op.end]
		from = op.end
		sum.spans, sum.errors = sum.spans+op.spans, sum.errors+op.errors
		sum.durations.add(durations)
		sum.place(topOperation{op, durations})
	}
	out := make([]Service, 0, len(byName))
	var d digest
	for _, sum := range byName {
		v := Service{Name: sum.name, RED: newRED(sum.spans, sum.errors, &sum.durations, seconds), Operations: make([]Operation, 0, len(sum.top))}
		for _, op := range sum.top {
			d.reset()
			d.add(op.durations)
			v.Operations = append(v.Operations, Operation{Name: op.name, RED: newRED(op.spans, op.errors, &d, seconds)})
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// place puts an operation into the list of those with most spans, if it belongs there.
func (s *serviceSum) place(op topOperation) {
	order := func(a, b topOperation) int {
		return cmp.Or(cmp.Compare(b.spans, a.spans), strings.Compare(a.name, b.name))
	}
	if len(s.top) == maxOperations {
		if order(op, s.top[maxOperations-1]) > 0 {
			return
		}
		s.top = s.top[:maxOperations-1]
	}
	at, _ := slices.BinarySearchFunc(s.top, op, order)
	s.top = slices.Insert(s.top, at, op)
}

// newRED makes figures over a range of so many seconds (0: no rate).
func newRED(spans, errors int64, d *digest, seconds float64) RED {
	q := d.quantiles(0.5, 0.95, 0.99)
	r := RED{Spans: spans, Errors: errors, P50: q[0], P95: q[1], P99: q[2]}
	if seconds > 0 {
		r.Rate = float64(spans) / seconds
	}
	return r
}

// seconds is the length of the query's range; 0 without a start: there is no rate of all time.
func (e *Engine) seconds(q *task) float64 {
	if q.Range.Start == allTime.Start {
		return 0
	}
	end := q.Range.End
	if end == allTime.End {
		end = e.cfg.Now().UnixNano()
	}
	return float64(end-q.Range.Start) / 1e9
}
