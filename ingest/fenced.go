package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/millstream/millstream"
)

// sitOut is what is left to a fenced writer: it answers that it takes nothing, so that senders turn to others, says why until it is stopped, and gives the memory
// of its rows back. They stay in its log, and the next start on the directory publishes them.
func (w *Writer) sitOut(ctx context.Context) {
	w.inFlight.Wait()
	w.drop()
	reap := time.NewTicker(time.Second)
	defer reap.Stop()
	remind := time.NewTicker(time.Minute)
	defer remind.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-reap.C:
			w.reap()
		case <-remind.C:
			w.log.Error("this process is fenced and takes no writes: another one runs under this node's id; give each node its own [node].id and restart", "node", w.cfg.Node, "wal", w.id)
		}
	}
}

// drop takes the rows of a fenced writer out of its buffer; queries that began before may still read them. Nothing is written into the buffer any more.
func (w *Writer) drop() {
	w.flushMu.Lock() // a flush that was asked for ends at the fence
	defer w.flushMu.Unlock()
	w.insertMu.Lock()
	defer w.insertMu.Unlock()
	for _, r := range w.ranges {
		r.seals.Wait()
		w.release(r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch++
	for _, r := range w.ranges {
		r.epoch, r.publishedAt = w.epoch, w.cfg.Now()
	}
	w.trash = append(w.trash, w.ranges...)
	w.ranges = []*bufferRange{newRange(w.wal.Last())}
}

// unpublished says whether the log has rows that the catalog has not.
func (w *Writer) unpublished() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.wal.Last() > w.position
}

// kept is the error of a writer that stops before everything is published: nothing is lost, and it says where the rows are.
func (w *Writer) kept(cause error) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return millstream.Wrap(millstream.Unavailable, fmt.Errorf("%w: stopped before everything was published", cause),
		"the rows above position %d stay in WAL %s in %s: the next start on this directory publishes them", w.position, w.id, w.cfg.WAL.Dir)
}
