package query

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

// A leaf is the part of a query that runs on the node that owns some of its segments, for the node that coordinates the query. What is asked and what is answered
// travel as frames of bytes, which package rpc carries without looking at them. Both ends have the same form of it, see form.go.

// leafAsk is what a leaf does: group the rows of segments by a plan, scan them, answer a question about samples, summarize spans, or count fields. It names the segments with all that is needed to
// read them, so that a leaf takes no snapshot of its own.
type leafAsk struct {
	Segments []millstream.Segment
	Schema   millstream.Schema
	Range    millstream.TimeRange
	Plan     *sql.Plan // one of these is set
	Scan     *segment.Scan
	Samples  *samplesAsk
	Services *servicesAsk
	Fields   bool // how many records have each field
}

// check says whether there is one thing to do.
func (a *leafAsk) check() error {
	n := 0
	for _, set := range []bool{a.Plan != nil, a.Scan != nil, a.Samples != nil, a.Services != nil, a.Fields} {
		if set {
			n++
		}
	}
	if n != 1 {
		return millstream.Errorf(millstream.Invalid, "a leaf's request asks %d things instead of one: are all nodes of one release?", n)
	}
	return nil
}

// org is whose segments they are.
func (a *leafAsk) org() millstream.OrgID {
	if len(a.Segments) == 0 {
		return ""
	}
	return a.Segments[0].Org
}

// Kinds of frames, their first byte.
const (
	frameBatch    = 'b' // a millstream.Batch
	frameState    = 's' // bytes of the one answer that is not of the kinds above, in order; of groups, see scan.Groups
	frameSeries   = 'm' // the length of a segment's id, the id, metrics.AppendSeries: in the order in which they were written
	frameProgress = 'p' // a leafDone of what was done so far: the leaf is alive
	frameDone     = 'd' // a leafDone; the last
)

// leafDone is what a leaf cost.
type leafDone struct {
	Stats   scan.Stats
	Read    []readSegment
	Sources int64 // finished
}

// leafPace is how often a leaf that has nothing to send says that it is alive.
const leafPace = 500 * time.Millisecond

// Leaf does what another node's query asks of the segments that are this node's. emit is called by one goroutine at a time; a frame is valid during the call only.
// A segment that is gone is NotFound: the asking query needs a new snapshot. RateLimited says that the node has no place for it: others are to be asked.
func (e *Engine) Leaf(ctx context.Context, ask []byte, emit func(frame []byte) error) error {
	var a leafAsk
	body, err := ofThisForm(ask)
	if err != nil {
		return err
	}
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&a); err != nil {
		return millstream.Wrap(millstream.Invalid, err, "a leaf's request cannot be read: are all nodes of one release?")
	}
	if err := a.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Limits.Timeout, errTimeout)
	defer cancel()
	l := &leaf{e: e, q: &task{}, emit: emit}
	l.q.reset()
	stop := l.keepTelling(ctx)
	stats, err := l.admitted(ctx, &a)
	stop()
	if err != nil {
		return e.explain(ctx, err)
	}
	return l.tell(frameDone, l.done(stats))
}

// leaf is one request under way.
type leaf struct {
	e *Engine
	q *task

	mu   sync.Mutex
	emit func([]byte) error
	buf  []byte
}

// admitted is run in one of the places that the node has for an organization's leaves. One that waits says that it is alive, since others should leave its segments to
// the node that has them cached; one that may not even wait is RateLimited, and they read them. Whoever has a place waits for nobody who needs one: a leaf asks no
// other node, and what it finds is taken by a query that was admitted where it is coordinated.
func (l *leaf) admitted(ctx context.Context, a *leafAsk) (scan.Stats, error) {
	release, err := l.e.leaves.enter(ctx, a.org())
	if err != nil {
		if millstream.KindOf(err) == millstream.RateLimited {
			l.e.metrics.refused.Inc()
			err = millstream.Errorf(millstream.RateLimited, "the node is busy with parts of %d queries of the organization, and %d wait", l.e.cfg.Limits.MaxConcurrent, l.e.cfg.Limits.LeafQueue)
		}
		return scan.Stats{}, err
	}
	defer release()
	return l.run(ctx, a)
}

func (l *leaf) run(ctx context.Context, a *leafAsk) (scan.Stats, error) {
	switch {
	case a.Samples != nil:
		return scan.Stats{}, l.samples(ctx, a)
	case a.Services != nil:
		return l.services(ctx, a)
	case a.Fields:
		return scan.Stats{}, l.fields(ctx, a)
	}
	req := scan.Request{Plan: a.Plan, Range: a.Range, Schema: a.Schema, Inputs: l.e.localInputs(l.q, a.Segments), Workers: l.e.cfg.Workers, Memory: l.e.cfg.Limits.Memory, Progress: &l.q.progress}
	if a.Plan == nil || a.Plan.Aggregate || a.Plan.Filter != nil {
		defer l.e.prefetch(ctx, l.q, a.Segments)()
	}
	if a.Plan != nil {
		state, stats, err := scan.Groups(ctx, req)
		if err != nil {
			return stats, err
		}
		return stats, l.state(state)
	}
	return scan.Batches(ctx, req, *a.Scan, func(b *millstream.Batch) error {
		return l.send(frameBatch, b.AppendTo)
	})
}

// send sends one frame.
func (l *leaf) send(kind byte, body func([]byte) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = body(append(l.buf[:0], kind))
	return l.emit(l.buf)
}

// maxFrame bounds a frame of bytes that can be cut anywhere; the wire takes a good deal more.
const maxFrame = 1 << 20

// state sends the bytes of an answer.
func (l *leaf) state(b []byte) error {
	for part := range slices.Chunk(b, maxFrame) {
		if err := l.send(frameState, func(dst []byte) []byte { return append(dst, part...) }); err != nil {
			return err
		}
	}
	return nil
}

// stateOf sends a value for heard.decode.
func (l *leaf) stateOf(v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	return l.state(b.Bytes())
}

func (l *leaf) tell(kind byte, d leafDone) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		return err
	}
	return l.send(kind, func(dst []byte) []byte { return append(dst, b.Bytes()...) })
}

func (l *leaf) done(stats scan.Stats) leafDone {
	return leafDone{Stats: stats, Read: l.q.counts.own(), Sources: l.q.progress.Sources.Load()}
}

// keepTelling sends progress until the returned function is called, which waits for the last one.
func (l *leaf) keepTelling(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(leafPace)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p := &l.q.progress
				d := leafDone{Sources: p.Sources.Load(), Stats: scan.Stats{ScannedRows: p.Rows.Load(), ScannedBytes: p.Bytes.Load()}}
				if l.tell(frameProgress, d) != nil {
					return
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// heard is what came of a leaf.
type heard struct {
	batches []*millstream.Batch
	state   []byte
	here    any                                         // found by this node itself, in place of state
	series  map[millstream.SegmentID][][]metrics.Series // lists of each segment, in the order in which they were written
	done    leafDone
}

// hear reads the frames of a leaf. Without onBatch batches are kept; frames are passed to alive as they come.
func hear(ctx context.Context, n LeafNode, ask []byte, alive func(), onBatch func(*millstream.Batch) error) (*heard, error) {
	h, ended := &heard{}, false
	err := n.Leaf(ctx, ask, func(frame []byte) error {
		alive()
		if len(frame) == 0 {
			return errFrame
		}
		switch kind, body := frame[0], frame[1:]; kind {
		case frameBatch:
			b, err := millstream.DecodeBatch(bytes.Clone(body))
			switch {
			case err != nil:
				return fmt.Errorf("%w: %w", errFrame, err)
			case onBatch != nil:
				return onBatch(b)
			}
			h.batches = append(h.batches, b)
		case frameState:
			h.state = append(h.state, body...)
		case frameSeries:
			return h.addSeries(bytes.Clone(body))
		case frameProgress:
		case frameDone:
			ended = true
			if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&h.done); err != nil {
				return fmt.Errorf("%w: %w", errFrame, err)
			}
		default:
			return errFrame
		}
		return nil
	})
	if err == nil && !ended { // never take a part for the whole
		err = millstream.Errorf(millstream.Unavailable, "a node ended its part of a query without saying that it is complete")
	}
	return h, err
}

// decode reads what stateOf sent.
func (h *heard) decode(v any) error {
	if err := gob.NewDecoder(bytes.NewReader(h.state)).Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

var errFrame = millstream.Errorf(millstream.Internal, "another node's part of a query cannot be read: are all nodes of one release?")
