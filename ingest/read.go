package ingest

import (
	"context"
	"fmt"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

// Unflushed are rows of one stream that a snapshot does not have in segments, in the order in which they were logged.
type Unflushed struct {
	Logs    []segment.Source // logs and traces
	Metrics []metrics.Source
}

// hold is a query's mark; its address is what counts, so it has a size.
type hold struct{ _ byte }

// Hold keeps every row that is unflushed now readable until release is called. A query takes one when it arrives, before its snapshot, and releases it when it
// is done with what Unflushed gave.
func (w *Writer) Hold() (release func()) {
	h := &hold{}
	w.mu.Lock()
	w.holds[h] = w.epoch
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.holds, h)
		w.mu.Unlock()
	}
}

// Unflushed gives the rows of a stream above the position that a snapshot has of the WAL. It is ErrStale if rows above it are no longer buffered, so that a new
// snapshot has them in segments, and ErrNotReady if the rows cannot be told. The sources are good until the caller's Hold is released.
func (w *Writer) Unflushed(_ context.Context, id millstream.WALID, stream millstream.StreamID, above millstream.LSN) (Unflushed, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	ranges, _, err := w.above(id, above)
	if err != nil {
		return Unflushed{}, err
	}
	var out Unflushed
	for _, r := range ranges {
		if sb := r.streams[stream]; sb != nil {
			sb.sources(&out)
		}
	}
	return out, nil
}

// above gives the ranges that hold what was logged above a position, up to the end. The caller holds mu.
func (w *Writer) above(id millstream.WALID, above millstream.LSN) (ranges []*bufferRange, end millstream.LSN, err error) {
	if err := w.tells(id); err != nil {
		return nil, 0, err
	}
	if w.doubt != "" {
		return nil, 0, ErrNotReady
	}
	end = w.ranges[len(w.ranges)-1].to
	i := slices.IndexFunc(w.ranges, func(r *bufferRange) bool { return r.to > above })
	switch {
	case above == end:
		return nil, end, nil
	case above > end:
		return nil, 0, fmt.Errorf("position %d is above the WAL's end %d: %w", above, end, ErrNotReady)
	case w.ranges[i].from != above && above < w.position:
		return nil, 0, ErrStale
	case w.ranges[i].from != above:
		return nil, 0, ErrNotReady // rows in between are being read from the log again
	}
	at := above
	for _, r := range w.ranges[i:] {
		if r.from != at {
			return nil, 0, ErrNotReady
		}
		at = r.to
	}
	return w.ranges[i:], end, nil
}

// tells says whether this writer knows the unflushed rows of a WAL. The caller holds mu.
func (w *Writer) tells(id millstream.WALID) error {
	switch {
	case id != w.id:
		return fmt.Errorf("WAL %s is not this node's: %w", id, ErrNotReady)
	case w.phase == starting || w.phase == fenced || len(w.ranges) == 0:
		return ErrNotReady
	}
	return nil
}

// sources lists what holds the buffer's rows. The caller holds mu.
func (sb *streamBuffer) sources(out *Unflushed) {
	switch {
	case sb.whole != nil && sb.whole.metrics != nil:
		out.Metrics = append(out.Metrics, sb.whole.metrics)
		return
	case sb.whole != nil:
		out.Logs = append(out.Logs, sb.whole.logs)
		return
	case sb.head != nil:
		out.Metrics = append(out.Metrics, sb.head)
		return
	}
	for _, p := range sb.parts {
		if p.sealed != nil {
			out.Logs = append(out.Logs, p.sealed.logs)
			continue
		}
		for _, t := range p.runs {
			out.Logs = append(out.Logs, t.read())
		}
	}
	for _, t := range sb.tail {
		out.Logs = append(out.Logs, t.read())
	}
}

// reap drops published ranges that no query can ask for any more. A query that holds was there before the publish may have a snapshot from before it; one
// without a hold has bufferGrace.
func (w *Writer) reap() {
	w.mu.Lock()
	oldest := w.epoch
	for _, epoch := range w.holds {
		oldest = min(oldest, epoch)
	}
	deadline := w.cfg.Now().Add(-w.grace)
	var dead []*bufferRange
	droppable := func(r *bufferRange) bool {
		done := r.state == published || w.phase == fenced && !r.publishedAt.IsZero() // drop has taken it out
		return done && r.epoch <= oldest && r.publishedAt.Before(deadline)
	}
	for len(w.ranges) > 0 && droppable(w.ranges[0]) {
		dead, w.ranges = append(dead, w.ranges[0]), w.ranges[1:]
	}
	w.trash = slices.DeleteFunc(w.trash, func(r *bufferRange) bool {
		if droppable(r) {
			dead = append(dead, r)
			return true
		}
		return false
	})
	w.recent.reap(w.position, w.cfg.Now())
	w.mu.Unlock()
	for _, r := range dead {
		r.discard()
	}
	memory, held := w.room.levels()
	w.metrics.memory.Set(float64(memory))
	w.metrics.held.Set(float64(held))
	w.metrics.ids.Set(float64(w.ids.size()))
}
