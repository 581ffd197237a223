package query

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// LeafNode is another node that runs a part of a query; *rpc.Client fits.
type LeafNode interface {
	Leaf(ctx context.Context, ask []byte, emit func(frame []byte) error) error
}

// Owners says where segments are read.
type Owners struct {
	Self millstream.NodeID
	// Reader is the node that a segment is read on: its owner, or the first of its standbys that is not among those that failed; nil: there is none, and this node
	// reads it. It is called for each segment of a query.
	Reader func(s millstream.SegmentID, failed []millstream.NodeID) *millstream.Member
	Dial   func(m millstream.Member) LeafNode
	// Silence is how long an owner may say nothing until the next in rank is asked as well; 0: DefaultSilence.
	Silence time.Duration
}

// DefaultSilence is four times the pace at which a leaf says that it is alive.
const DefaultSilence = 4 * leafPace

// owned is segments that one node reads.
type owned struct {
	node     *millstream.Member // nil: this one
	segments []millstream.Segment
}

// divide groups segments by the first in their rank that is not among those that failed.
func (e *Engine) divide(segments []millstream.Segment, failed []millstream.NodeID) (own []millstream.Segment, others []owned) {
	o := e.cfg.Owners
	if o == nil {
		return segments, nil
	}
	at := map[millstream.NodeID]int{}
	for _, s := range segments {
		m := o.Reader(s.ID, failed)
		if m == nil || m.ID == o.Self {
			own = append(own, s)
			continue
		}
		i, ok := at[m.ID]
		if !ok {
			i = len(others)
			at[m.ID] = i
			others = append(others, owned{node: m})
		}
		others[i].segments = append(others[i].segments, s)
	}
	return own, others
}

// part is a piece of work on segments: how another node is asked, and how this one does it.
type part struct {
	ask   leafAsk // without segments
	local func(ctx context.Context, segments []millstream.Segment) (*heard, error)
	// stream takes rows as they come, from several goroutines; nil: all are kept until they are complete. local then uses it as well.
	stream func(*millstream.Batch) error
}

// gather has segments read by their owners and returns what each of them found. An owner that cannot be reached, or goes while it reads, is replaced by the next in
// rank of each of its segments, at last by this node; one that falls silent is raced by those. Each segment is in the result exactly once.
func (e *Engine) gather(ctx context.Context, q *task, p *part, sh owned, failed []millstream.NodeID) ([]*heard, error) {
	if sh.node == nil {
		h, err := p.local(ctx, sh.segments)
		return []*heard{h}, err
	}
	if p.stream != nil {
		return e.gatherStream(ctx, q, p, sh, failed)
	}
	race, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait() // a loser ends as soon as its context does
	defer cancel()
	type result struct {
		found []*heard
		err   error
	}
	first, second := make(chan result, 1), make(chan result, 1)
	silent := make(chan struct{})
	wg.Go(func() {
		h, err := e.askOwner(race, q, p, sh, func() { close(silent) }, nil)
		first <- result{[]*heard{h}, err}
	})
	failed = append(slices.Clip(failed), sh.node.ID)
	next := func() {
		wg.Go(func() {
			found, err := e.redivide(race, q, p, sh.segments, failed)
			second <- result{found, err}
		})
	}
	racing := false
	for {
		select {
		case r := <-first:
			if r.err == nil || !replaceable(ctx, r.err) {
				return r.found, r.err
			}
			e.passOver(ctx, sh, r.err)
			if !racing {
				next()
			}
			s := <-second
			return s.found, s.err
		case <-silent:
			e.log.Warn("an owner of segments is silent; others read them as well", "node", sh.node.ID, "segments", len(sh.segments))
			e.metrics.hedged.Inc()
			silent, racing = nil, true
			next()
		case s := <-second:
			if s.err == nil {
				return s.found, nil
			}
			r := <-first // the silent one may still answer
			return r.found, r.err
		}
	}
}

// redivide gathers segments without the nodes that failed.
func (e *Engine) redivide(ctx context.Context, q *task, p *part, segments []millstream.Segment, failed []millstream.NodeID) ([]*heard, error) {
	own, others := e.divide(segments, failed)
	shares := others
	if len(own) > 0 {
		shares = append(shares, owned{segments: own})
	}
	found := make([][]*heard, len(shares))
	g, gctx := errgroup.WithContext(ctx)
	for i, sh := range shares {
		g.Go(func() (err error) {
			found[i], err = e.gather(gctx, q, p, sh, failed)
			return err
		})
	}
	err := g.Wait()
	return slices.Concat(found...), err
}

// streamAfter is how many bytes of rows of one owner are kept before they are passed on and the owner can no longer be replaced.
const streamAfter = 32 << 20

// States of a stream of rows: held back, passed on, or given up for another node.
const (
	holding int32 = iota
	passing
	abandoned
)

// gatherStream is gather for rows that are too many to be kept: once some were passed on, an owner that fails fails the query, since nobody knows which are missing.
func (e *Engine) gatherStream(ctx context.Context, q *task, p *part, sh owned, failed []millstream.NodeID) ([]*heard, error) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	var state atomic.Int32
	var kept []*millstream.Batch
	size := 0
	pass := func() error {
		for _, b := range kept {
			if err := p.stream(b); err != nil {
				return err
			}
		}
		kept = nil
		return nil
	}
	silent := func() {
		if state.CompareAndSwap(holding, abandoned) {
			e.metrics.hedged.Inc()
			cancel()
		}
	}
	h, err := e.askOwner(own, q, p, sh, silent, func(b *millstream.Batch) error {
		if state.Load() == passing {
			return p.stream(b)
		}
		kept = append(kept, b)
		if size += b.Size(); size > streamAfter && state.CompareAndSwap(holding, passing) {
			return pass()
		}
		return nil
	})
	switch {
	case err == nil && (state.Load() == passing || state.CompareAndSwap(holding, passing)):
		return []*heard{h}, pass()
	case state.Load() == passing && replaceable(ctx, err):
		return nil, millstream.Wrap(millstream.Unavailable, err, "node %s failed while it sent rows: run the query again", sh.node.ID)
	case state.Load() != abandoned && !replaceable(ctx, err):
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	e.passOver(ctx, sh, err)
	return e.redivide(ctx, q, p, sh.segments, append(slices.Clip(failed), sh.node.ID))
}

// askOwner asks one node. It calls silent, once, when the node has said nothing for too long.
func (e *Engine) askOwner(ctx context.Context, q *task, p *part, sh owned, silent func(), onBatch func(*millstream.Batch) error) (*heard, error) {
	ask := p.ask
	ask.Segments = sh.segments
	b := bytes.NewBuffer(bytes.Clone(form[:]))
	if err := gob.NewEncoder(b).Encode(ask); err != nil {
		return nil, err
	}
	patience := e.cfg.Owners.Silence
	if patience <= 0 {
		patience = DefaultSilence
	}
	watch := time.AfterFunc(patience, silent)
	defer watch.Stop()
	h, err := hear(ctx, e.cfg.Owners.Dial(*sh.node), b.Bytes(), func() {
		if watch.Stop() { // else it has fired, once and for all
			watch.Reset(patience)
		}
	}, onBatch)
	switch {
	case err == nil:
		q.counts.took(sh.node.ID, h.done.Read)
	case millstream.KindOf(err) == millstream.NotFound:
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return h, err
}

// replaceable says whether an error is about the node that was asked rather than about what was asked of it.
func replaceable(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (millstream.KindOf(err) == millstream.Unavailable || busy(err) || errors.Is(err, errFrame))
}

// busy is an owner that has no place for a leaf.
func busy(err error) bool { return millstream.KindOf(err) == millstream.RateLimited }

// passOver notes that others read the segments of a node.
func (e *Engine) passOver(ctx context.Context, sh owned, err error) {
	level := slog.LevelWarn
	if busy(err) { // of which there are many at a time, and which the node counts
		level = slog.LevelDebug
	}
	e.log.Log(ctx, level, "an owner of segments failed, is silent or busy; others read them", "node", sh.node.ID, "segments", len(sh.segments), "error", err)
	e.metrics.standby.Inc()
}

// own are the segments that this node reads itself.
func (e *Engine) own(segments []millstream.Segment) []millstream.Segment {
	own, _ := e.divide(segments, nil)
	return own
}

// request is a plan over a table, whose segments are read by their owners.
func (e *Engine) request(q *task, t *table, p *sql.Plan) scan.Request {
	own, others := e.divide(t.segments, nil)
	r := scan.Request{
		Plan: p, Range: q.Range, Schema: t.schema, Inputs: t.open(t, own), Workers: e.cfg.Workers, Memory: e.cfg.Limits.Memory,
		MaxBytes: maxAnswerBytes, Progress: &q.progress,
	}
	if p.Aggregate {
		r.Shares = e.groupShares(q, others)
		return r
	}
	for _, sh := range others {
		r.Inputs = append(r.Inputs, scan.Opened(&ownedElsewhere{e: e, q: q, schema: t.schema, owned: sh}))
	}
	return r
}

// groupShares has an aggregating plan run by the owners of segments that are not this node's.
func (e *Engine) groupShares(q *task, others []owned) (out []scan.Share) {
	for _, sh := range others {
		out = append(out, func(ctx context.Context, r scan.Request) (states [][]byte, st scan.Stats, err error) {
			p := &part{ask: leafAsk{Plan: r.Plan, Range: r.Range, Schema: r.Schema}}
			p.local = func(ctx context.Context, segments []millstream.Segment) (*heard, error) {
				own := r
				own.Shares, own.Inputs = nil, e.localInputs(q, segments)
				state, st, err := scan.Groups(ctx, own)
				return &heard{state: state, done: leafDone{Stats: st}}, err
			}
			found, err := e.gather(ctx, q, p, sh, nil)
			if err != nil {
				return nil, st, err
			}
			for _, h := range found {
				states, st = append(states, h.state), plus(st, h.done.Stats)
			}
			q.progress.Sources.Add(int64(len(sh.segments)))
			return states, st, nil
		})
	}
	return out
}

func plus(a, b scan.Stats) scan.Stats {
	a.ScannedRows += b.ScannedRows
	a.ScannedBytes += b.ScannedBytes
	a.Selected += b.Selected
	a.Pruned += b.Pruned
	a.Stopped = a.Stopped || b.Stopped
	return a
}

// ownedElsewhere is the source of segments that another node reads. It keeps a scan's rows until they are complete, so that a node that fails on the way is replaced
// without a trace; a scan without a limit of many rows is bounded by the query's memory.
type ownedElsewhere struct {
	e      *Engine
	q      *task
	schema millstream.Schema
	owned
}

func (o *ownedElsewhere) Rows() (n int) {
	for i := range o.segments {
		n += int(o.segments[i].Rows)
	}
	return n
}

func (o *ownedElsewhere) Span() (first, last int64) {
	first, last = o.segments[0].MinTime, o.segments[0].MaxTime
	for i := range o.segments {
		first, last = min(first, o.segments[i].MinTime), max(last, o.segments[i].MaxTime)
	}
	return first, last
}

// Fields are the stream's: the owner reads its segments as the stream has their fields.
func (o *ownedElsewhere) Fields() []segment.FieldStat {
	out := make([]segment.FieldStat, 0, len(o.schema.Fields))
	for _, f := range o.schema.Fields {
		if f.Name != millstream.TimestampField {
			out = append(out, segment.FieldStat{Name: f.Name, Type: f.Type, WideInt: f.WideInt})
		}
	}
	return out
}

// ValueCounts are not known here.
func (o *ownedElsewhere) ValueCounts(string) ([]segment.ValueCount, bool) { return nil, false }

// Scan implements segment.Source.
func (o *ownedElsewhere) Scan(ctx context.Context, s segment.Scan, emit func(*millstream.Batch) error) (st segment.ScanStats, err error) {
	p := &part{ask: leafAsk{Scan: &s, Range: s.Range, Schema: o.schema}}
	if s.Limit == 0 && !s.CountOnly {
		var mu sync.Mutex
		p.stream = func(b *millstream.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			return emit(b)
		}
	}
	p.local = func(ctx context.Context, segments []millstream.Segment) (*heard, error) {
		return o.readHere(ctx, s, segments, p.stream)
	}
	found, err := o.e.gather(ctx, o.q, p, o.owned, nil)
	if err != nil {
		return st, err
	}
	o.q.progress.Sources.Add(int64(len(o.segments) - 1)) // the whole counts as one input
	stopped := false
	for _, h := range found {
		stopped = stopped || h.done.Stats.Stopped
		st.Selected += h.done.Stats.Selected
		st.ScannedRows += h.done.Stats.ScannedRows
		st.ScannedBytes += h.done.Stats.ScannedBytes
		o.q.pruned.Add(int64(h.done.Stats.Pruned))
	}
	if err := emitMerged(found, s, emit); err != nil || !stopped {
		return st, err
	}
	return st, scan.ErrStopped // what this node read itself is not the whole, which a source says by its error
}

// readHere scans segments whose owners are gone.
func (o *ownedElsewhere) readHere(ctx context.Context, s segment.Scan, segments []millstream.Segment, stream func(*millstream.Batch) error) (*heard, error) {
	h := &heard{}
	if stream == nil {
		stream = func(b *millstream.Batch) error {
			kept, err := millstream.DecodeBatch(b.AppendTo(nil)) // it is the source's during the call only
			h.batches = append(h.batches, kept)
			return err
		}
	}
	req := scan.Request{Range: s.Range, Schema: o.schema, Inputs: o.e.localInputs(o.q, segments), Workers: o.e.cfg.Workers, Memory: o.e.cfg.Limits.Memory}
	stats, err := scan.Batches(ctx, req, s, stream)
	h.done.Stats = stats
	return h, err
}

// emitMerged emits what several nodes found. With a limit each of them was in the order of time, and so the whole must be.
func emitMerged(found []*heard, s segment.Scan, emit func(*millstream.Batch) error) error {
	var all []*millstream.Batch
	for _, h := range found {
		all = append(all, h.batches...)
	}
	if s.Limit == 0 || len(found) < 2 {
		for _, b := range all {
			if err := emit(b); err != nil {
				return err
			}
		}
		return nil
	}
	ins := make([]scan.Input, len(all))
	for i, b := range all {
		ins[i] = scan.Opened(segment.Memory(b))
	}
	s.Filter = nil // they passed it
	_, err := scan.Batches(context.Background(), scan.Request{Range: s.Range, Schema: schemaOf(all), Inputs: ins}, s, emit)
	return err
}

// schemaOf are the fields of batches whose types agree.
func schemaOf(batches []*millstream.Batch) (out millstream.Schema) {
	seen := map[string]bool{}
	for _, b := range batches {
		for i := range b.Columns {
			if c := &b.Columns[i]; !seen[c.Name] {
				seen[c.Name] = true
				out.Fields = append(out.Fields, millstream.Field{Name: c.Name, Type: c.Type})
			}
		}
	}
	return out
}
