package query

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// TailEvent is new records of a stream, _timestamp first; with N 0 it only tells what is missing.
type TailEvent struct {
	Rows
	Dropped int64    // records left out since the last event because the reader was slow, or a node away for a moment; they were not filtered
	Gaps    []string // why further records may be missing whose number is not known
}

const (
	tailQueue = 32  // events that wait for a slow reader
	maxGaps   = 20  // that wait for a slow reader; more say nothing new
	maxTails  = 100 // live tails of an organization at a time: each filters every batch of its stream and may hold a queue of events
)

// Tail calls emit with the new records of a stream that pass the selection's filter, until ctx ends or emit fails; the selection's range is not used. opened, if
// not nil, is called once when nothing is wrong with the selection. It returns nil when ctx ended; one tail too many is RateLimited.
func (e *Engine) Tail(ctx context.Context, sel Selection, opened func(), emit func(TailEvent) error) error {
	place, err := e.tails.join(sel.Org)
	if err != nil {
		return millstream.Errorf(millstream.RateLimited, "%d live tails of the organization are open, the most that are allowed: close some first", maxTails)
	}
	defer e.tails.leave(sel.Org, place)
	filter, st, err := e.tailFilter(ctx, sel)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &tail{e: e, filter: filter, schema: st.schema, events: make(chan Rows, tailQueue), news: make(chan struct{}, 1)}
	open, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		begin := sync.OnceFunc(func() { close(open) })
		defer begin()
		_ = e.cfg.Unflushed.Follow(ctx, st.ID, func(f ingest.Followed) error { // take never fails, so that it ends with ctx
			begin()
			t.take(ctx, f)
			return nil
		})
	}()
	<-open
	if opened != nil {
		opened()
	}
	err = t.send(ctx, emit)
	cancel()
	<-done
	return err
}

// tailFilter finds the stream and turns the filter's text to an expression.
func (e *Engine) tailFilter(ctx context.Context, sel Selection) (segment.Expr, *stream, error) {
	key := sel.key()
	if key.Signal == millstream.Metrics {
		return nil, nil, millstream.Errorf(millstream.Invalid, "metrics have no live tail: use logs or traces")
	}
	if _, err := e.inSQL(ctx, &sel); err != nil {
		return nil, nil, err
	}
	stmt, err := e.cfg.Gate.Parse(ctx, "SELECT * FROM "+fromClause(key)+whereClause(sel.Filter), sql.Params{})
	if err != nil {
		return nil, nil, err
	}
	now := e.cfg.Now().UnixNano()
	v, err := e.open(ctx, sel.Org, keysOf(sel.Org, stmt.Tables()), millstream.TimeRange{Start: now, End: now + 1})
	if err != nil {
		return nil, nil, err
	}
	defer v.release()
	st := v.find(key)
	if st == nil {
		return nil, nil, e.unknown(ctx, sel.Org, stmt.Tables()[0])
	}
	bound, err := stmt.Bind(ctx, []sql.Table{{Key: key, Fields: st.schema.Fields}}, e.cfg.Now())
	if err != nil {
		return nil, nil, err
	}
	if bound.Plan == nil {
		return nil, nil, millstream.Errorf(millstream.Invalid, "a live tail's filter is made of comparisons, LIKE, IN, IS NULL and match functions on fields: this one is not")
	}
	return bound.Plan.Filter, st, nil
}

// tail is one live tail: take is called by the writer's side, send runs at the reader's pace.
type tail struct {
	e       *Engine
	filter  segment.Expr
	schema  millstream.Schema // when the tail began; batches may know more
	events  chan Rows
	dropped atomic.Int64
	news    chan struct{} // there is something to tell beside records

	mu   sync.Mutex
	gaps []string
}

// take tells what is missing and takes a batch; it never waits.
func (t *tail) take(ctx context.Context, f ingest.Followed) {
	if f.Missed > 0 {
		t.drop(int(f.Missed))
	}
	if f.Gap != "" {
		t.mu.Lock()
		if len(t.gaps) < maxGaps {
			t.gaps = append(t.gaps, f.Gap)
		}
		t.mu.Unlock()
	}
	if f.Missed > 0 || f.Gap != "" {
		select {
		case t.news <- struct{}{}:
		default:
		}
	}
	if f.Batch != nil {
		t.filterBatch(ctx, f.Batch)
	}
}

// filterBatch queues the records of a batch that pass.
func (t *tail) filterBatch(ctx context.Context, b *millstream.Batch) {
	if len(t.events) == cap(t.events) {
		t.drop(b.Rows())
		return
	}
	p := &sql.Plan{Star: true, Filter: t.filter, Order: []sql.Order{{}}, Limit: -1}
	r := scan.Request{Plan: p, Range: allTime, Schema: t.fields(b), Inputs: []scan.Input{scan.Opened(segment.Memory(b))}, Workers: 1}
	_, err := scan.Run(ctx, r, func(rows *Rows) error {
		select {
		case t.events <- *rows:
		default:
			t.drop(rows.N)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		t.e.log.Warn("a live tail's filter failed on a batch", "error", err)
		t.drop(b.Rows())
	}
}

// fields are those of a batch, with the types that the stream has for them.
func (t *tail) fields(b *millstream.Batch) (out millstream.Schema) {
	for i := range b.Columns {
		f := millstream.Field{Name: b.Columns[i].Name, Type: b.Columns[i].Type}
		if known, ok := t.schema.Field(f.Name); ok {
			f.Type = millstream.JoinType(known.Type, f.Type, known.WideInt)
		}
		out.Fields = append(out.Fields, f)
	}
	return out
}

func (t *tail) drop(n int) {
	t.dropped.Add(int64(n))
	t.e.metrics.dropped.Add(float64(n))
}

func (t *tail) send(ctx context.Context, emit func(TailEvent) error) error {
	for {
		var e TailEvent
		select {
		case e.Rows = <-t.events:
		case <-t.news:
		case <-ctx.Done():
			return nil
		}
		e.Dropped, e.Gaps = t.dropped.Swap(0), t.takeGaps()
		if e.N == 0 && e.Dropped == 0 && len(e.Gaps) == 0 { // told with records that came first
			continue
		}
		if err := emit(e); err != nil {
			if ctx.Err() != nil || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}

func (t *tail) takeGaps() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	gaps := t.gaps
	t.gaps = nil
	return gaps
}
