package ingest

import (
	"context"
	"sync"

	"github.com/millstream/millstream"
)

// tailBacklog is how many batches wait for a subscriber before further ones are dropped for it.
const tailBacklog = 64

// Tailed is one event of a subscription. Told counts the rows of the stream that this incarnation of the writer took, this batch's included: where it grows by
// more than the batch has rows, some were missed. So it also tells what was missed between two subscriptions, or before the first.
type Tailed struct {
	Batch       *millstream.Batch // nil in the first event, which says that the subscription has begun; not to be changed
	Incarnation int64
	Told        int64
}

// tails are the subscriptions of a writer.
type tails struct {
	mu    sync.Mutex
	ended bool
	told  map[millstream.StreamID]int64
	subs  map[millstream.StreamID]map[*tail]struct{}
}

type tail struct{ events chan Tailed }

func newTails() tails {
	return tails{told: map[millstream.StreamID]int64{}, subs: map[millstream.StreamID]map[*tail]struct{}{}}
}

// Subscribe calls emit with every batch of the stream from now on, in order, until ctx or the writer's life ends, which is no error, or emit fails. A subscriber
// that is too slow misses batches; see Tailed.
func (w *Writer) Subscribe(ctx context.Context, stream millstream.StreamID, emit func(Tailed) error) error {
	t := &tail{events: make(chan Tailed, tailBacklog)}
	w.mu.RLock()
	first := Tailed{Incarnation: w.incarnation}
	w.mu.RUnlock()
	first.Told = w.tails.add(stream, t)
	defer w.tails.remove(stream, t)
	if err := emit(first); err != nil {
		return err
	}
	for {
		select {
		case e, ok := <-t.events:
			if !ok {
				return nil
			}
			e.Incarnation = first.Incarnation
			if err := emit(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// add enters a subscriber, and says how many rows it comes too late for.
func (t *tails) add(id millstream.StreamID, s *tail) (told int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		close(s.events)
		return t.told[id]
	}
	if t.subs[id] == nil {
		t.subs[id] = map[*tail]struct{}{}
	}
	t.subs[id][s] = struct{}{}
	return t.told[id]
}

func (t *tails) remove(id millstream.StreamID, s *tail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.subs[id], s); len(t.subs[id]) == 0 {
		delete(t.subs, id)
	}
}

// tell passes a batch to its subscribers without waiting, and returns how many missed it.
func (t *tails) tell(b *millstream.Batch) (missed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	told := t.told[b.Stream] + int64(b.Rows())
	t.told[b.Stream] = told
	for s := range t.subs[b.Stream] {
		select {
		case s.events <- Tailed{Batch: b, Told: told}:
		default:
			missed++
		}
	}
	return missed
}

// end lets each subscription end once its subscriber has what was told.
func (t *tails) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, subs := range t.subs {
		for s := range subs {
			close(s.events)
		}
	}
	clear(t.subs)
}
