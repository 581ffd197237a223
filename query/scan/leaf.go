package scan

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// Batches runs one scan over all inputs of a request, of which the plan does not count, and emits what a single source of their rows would: see segment.Source. The
// types are those of the schema. emit is called by one goroutine at a time; a batch is valid during the call only.
func Batches(ctx context.Context, r Request, s segment.Scan, emit func(*millstream.Batch) error) (Stats, error) {
	if s.Limit > 0 && !s.CountOnly {
		return newestBatches(ctx, r, s, emit)
	}
	run := newRun(r)
	stats := make([]Stats, len(run.Inputs))
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(run.Workers)
	for i, in := range run.Inputs {
		g.Go(func() error {
			defer run.Progress.Sources.Add(1)
			return run.with(gctx, in, &stats[i], func(src segment.Source) error {
				st, err := src.Scan(gctx, s, func(b *millstream.Batch) error {
					mu.Lock()
					defer mu.Unlock()
					return emit(b)
				})
				run.scanned(&stats[i], st)
				return err
			})
		})
	}
	err := g.Wait()
	return sumStats(stats), err
}

// newestBatches is Batches with a limit: the newest records, or the oldest, of all inputs together, in that order.
func newestBatches(ctx context.Context, r Request, s segment.Scan, emit func(*millstream.Batch) error) (Stats, error) {
	p := &sql.Plan{Filter: s.Filter, Star: s.All, Limit: s.Limit, Order: []sql.Order{{Out: 0, Desc: s.Newest}}}
	if !s.All {
		p.Out = []sql.Output{{Name: millstream.TimestampField, Field: millstream.TimestampField, Key: -1, Agg: -1}}
		for _, f := range s.Fields {
			p.Out = append(p.Out, sql.Output{Name: f, Field: f, Key: -1, Agg: -1})
		}
	}
	r.Plan, r.Range = p, s.Range
	return Run(ctx, r, func(rows *Rows) error {
		return emit(&millstream.Batch{Times: rows.Columns[0].Ints, Columns: rows.Columns[1:]})
	})
}
