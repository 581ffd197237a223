package ingest

import (
	"context"

	"github.com/millstream/millstream/ingest/wal"
)

// replay rebuilds the buffer and the memory of batch ids from the log. When the buffer gets half full it flushes, so that its memory is bounded whatever the
// log holds.
func (w *Writer) replay(ctx context.Context) error {
	w.mu.RLock()
	after := w.position
	w.mu.RUnlock()
	return w.wal.Replay(ctx, after, w.wal.Last(), func(f wal.Frame) error {
		w.ids.remember(f.Batch, f.Time)
		if f.LSN <= after {
			return nil
		}
		if err := w.makeRoom(ctx); err != nil {
			return err
		}
		it, ok := w.fromFrame(f)
		w.insertMu.Lock()
		defer w.insertMu.Unlock()
		w.mu.RLock()
		r := w.ranges[len(w.ranges)-1]
		w.mu.RUnlock()
		if ok {
			w.insert(r, f.LSN, it)
			return nil
		}
		w.mu.Lock()
		r.to = f.LSN
		w.mu.Unlock()
		return nil
	})
}

// makeRoom waits while seals will free memory, and flushes if only that helps.
func (w *Writer) makeRoom(ctx context.Context) error {
	for {
		freed, sealing, high := w.room.pressure()
		switch {
		case !high:
			return nil
		case sealing:
			select {
			case <-freed:
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			if err := w.Flush(ctx); err != nil {
				return err
			}
		}
	}
}
