package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
)

// Append takes batches of one or more streams in and returns when all their rows are durable and visible to every query that starts from then on. Each batch
// has Org, Signal and Name; one without an ID gets one. The batches belong to the Writer afterwards. A batch whose ID was written in the last 15 minutes is
// not written again. Unavailable: nothing was taken in, unless errors.Is(err, wal.ErrUnknown): then some rows may yet appear, and only the same batch with the same ID may be sent again.
func (w *Writer) Append(ctx context.Context, batches ...*millstream.Batch) error {
	_, err := w.Write(ctx, batches...)
	return err
}

// Write is Append; it also tells how many of the batches had been written before.
func (w *Writer) Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error) {
	var fresh []*millstream.Batch
	var mine, others []*outcome
	release := func(err error) {
		for i, o := range mine {
			w.ids.finish(fresh[i].ID, o, 0, err)
		}
	}
	now := w.cfg.Clock().UnixNano()
	for _, b := range batches {
		if err := check(b); err != nil {
			release(err)
			return 0, err
		}
		b, err := identified(b)
		if err != nil {
			release(err)
			return 0, err
		}
		known, wait, own, err := w.ids.claim(b.ID, now)
		switch {
		case err != nil:
			release(err)
			return 0, err
		case known:
			repeated++
		case wait != nil:
			others = append(others, wait)
		default:
			fresh, mine = append(fresh, b), append(mine, own)
		}
	}
	if len(fresh) > 0 { // looked up before the phase is: a draining node still answers repeats
		if err := w.write(ctx, fresh, mine); err != nil {
			return repeated, err
		}
	}
	for _, o := range others {
		select {
		case <-o.done:
			if o.err != nil {
				return repeated, o.err
			}
			repeated++
		case <-ctx.Done():
			return repeated, unknown(ctx.Err())
		}
	}
	return repeated, nil
}

func check(b *millstream.Batch) error {
	switch {
	case b == nil || b.Rows() == 0 && (b.Samples == nil || len(b.Samples.Exemplars)+len(b.Samples.Metadata) == 0):
		return millstream.Errorf(millstream.Invalid, "a batch holds no records")
	case b.Org == "" || b.Name == "":
		return millstream.Errorf(millstream.Invalid, "a batch names no organization or no stream")
	case (b.Signal == millstream.Metrics) != (b.Samples != nil) || b.Signal < millstream.Logs || b.Signal > millstream.Traces:
		return millstream.Errorf(millstream.Invalid, "a batch of signal %d does not hold what the signal says", b.Signal)
	}
	return nil
}

// identified gives a batch an id if it has none. The caller's batch is not changed.
func identified(b *millstream.Batch) (*millstream.Batch, error) {
	if b.ID != (millstream.BatchID{}) {
		return b, nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a batch id: %w", err)
	}
	c := *b
	c.ID = millstream.BatchID(id)
	return &c, nil
}

func unknown(cause error) error {
	return &millstream.Error{Kind: millstream.Unavailable, Msg: "the wait for the write's outcome ended before it was known", RetryAfter: 1, Err: errors.Join(wal.ErrUnknown, cause)}
}

// payloads are the buffers that batches are encoded into for the log.
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// keepPayload is the largest buffer worth keeping.
const keepPayload = 4 << 20

// write logs batches that no other write has claimed. However it ends, every claim is finished exactly once.
func (w *Writer) write(ctx context.Context, batches []*millstream.Batch, claims []*outcome) error {
	items, err := w.prepare(ctx, batches)
	if err != nil {
		for i, o := range claims {
			w.ids.finish(batches[i].ID, o, 0, err)
		}
		return err
	}
	defer w.inFlight.Done()
	buf := payloads.Get().(*[]byte)
	entries := encode(items, buf)
	done := make(chan error, 1)
	finish := func(first millstream.LSN, now int64, err error) {
		w.logged(items, entries, first, err)
		if cap(*buf) <= keepPayload {
			payloads.Put(buf)
		}
		for i, o := range claims {
			w.ids.finish(batches[i].ID, o, now, err)
		}
		done <- err
	}
	if err := w.wal.Append(ctx, entries, finish); err != nil {
		finish(0, 0, err)
		return err
	}
	if w.mutant.ackBeforeSync {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
}

// prepare does everything that can refuse a write: phase, streams, room, fields. On success inFlight is counted and room is taken.
func (w *Writer) prepare(ctx context.Context, batches []*millstream.Batch) (items []logged, err error) {
	if err := w.enter(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.inFlight.Done()
		}
	}()
	items = make([]logged, len(batches))
	owners := make([]*stream, len(batches))
	sizes := make(map[millstream.StreamID]int64, len(batches))
	for i, b := range batches {
		s, err := w.streams.resolve(ctx, millstream.StreamKey{Org: b.Org, Signal: b.Signal, Name: b.Name})
		if err != nil {
			return nil, err
		}
		owners[i], items[i] = s, logged{batch: b, size: int64(b.Size())}
		sizes[s.id] += items[i].size
	}
	if err := w.room.wait(ctx, sizes, w.kickFlush); err != nil {
		return nil, err
	}
	for i, b := range batches {
		admitted, moved := owners[i].admit(b)
		c := *admitted
		c.Stream = owners[i].id
		items[i].batch = &c
		w.metrics.overflowed.Add(float64(moved))
	}
	return items, nil
}

// enter counts a write in, if writes are taken.
func (w *Writer) enter() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	switch w.phase {
	case running:
		w.inFlight.Add(1)
		return nil
	case starting:
		return &millstream.Error{Kind: millstream.Unavailable, Msg: "the node is starting and takes no writes yet", RetryAfter: 1}
	case draining:
		return &millstream.Error{Kind: millstream.Unavailable, Msg: "the node is stopping and takes no more writes", RetryAfter: 1}
	}
	return &millstream.Error{Kind: millstream.Unavailable, Msg: "a newer process of this node has taken over: this one takes no writes", RetryAfter: 5, Err: ErrFenced}
}

func encode(items []logged, buf *[]byte) []wal.Entry {
	entries, ends := make([]wal.Entry, len(items)), make([]int, len(items))
	b := (*buf)[:0]
	for i, it := range items {
		b = it.batch.AppendTo(b)
		ends[i] = len(b)
	}
	*buf = b
	start := 0
	for i, it := range items {
		entries[i] = wal.Entry{Org: it.batch.Org, Stream: it.batch.Stream, Signal: it.batch.Signal, Batch: it.batch.ID, Payload: b[start:ends[i]]}
		start = ends[i]
	}
	return entries
}

// logged is called by the log, in LSN order, once the entries are durable: now the rows become visible. Only after that is the write acknowledged.
func (w *Writer) logged(items []logged, entries []wal.Entry, first millstream.LSN, err error) {
	if err != nil {
		for _, it := range items {
			w.room.free(it.batch.Stream, it.size, 0)
		}
		w.metrics.refused.Inc()
		return
	}
	rows := 0
	for i := range items {
		items[i].sum = entries[i].Sum
		rows += items[i].batch.Rows()
	}
	w.insertMu.Lock()
	w.mu.RLock()
	r := w.ranges[len(w.ranges)-1]
	w.mu.RUnlock()
	w.insert(r, first, items...)
	w.insertMu.Unlock()
	w.metrics.rows.Add(float64(rows))
	for _, it := range items {
		w.metrics.tailMissed.Add(float64(w.tails.tell(it.batch)))
	}
}

// Resolve finds or creates a stream and gives its id.
func (w *Writer) Resolve(ctx context.Context, k millstream.StreamKey) (millstream.StreamID, error) {
	s, err := w.streams.resolve(ctx, k)
	if err != nil {
		return "", err
	}
	return s.id, nil
}

// Forget drops what is cached of a stream that was changed or deleted, so that the next write asks the catalog; without an id any may have changed.
func (w *Writer) Forget(id millstream.StreamID) {
	w.streams.forget(id)
	w.streamsChanged()
}
