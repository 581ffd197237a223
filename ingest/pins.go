package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

const (
	pinMemory = 15 * time.Minute
	// maxPins bounds the memory of pins; above it keyed writes are refused, never forgotten.
	maxPins = 1 << 20
)

// recentPins remembers the pins of the last 15 minutes, to put them back into a database that lost them.
type recentPins struct {
	now       func() time.Time
	confirmed func() bool

	mu    sync.Mutex
	pins  map[pinKey]time.Time
	order []store.Pin // by time; may hold a pin twice
	times []time.Time
}

type pinKey struct {
	org  millstream.OrgID
	key  string
	part millstream.StreamID
}

func keyOf(p store.Pin) pinKey { return pinKey{p.Org, p.Key, p.Part} }

func (r *recentPins) add(pins []store.Pin) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.forget(now)
	if len(r.order)+len(pins) > maxPins {
		return &millstream.Error{Kind: millstream.RateLimited, Msg: "too many writes with an idempotency key in the last 15 minutes", RetryAfter: 60}
	}
	if r.pins == nil {
		r.pins = map[pinKey]time.Time{}
	}
	for _, p := range pins {
		if _, ok := r.pins[keyOf(p)]; ok {
			continue
		}
		r.pins[keyOf(p)] = now
		r.order, r.times = append(r.order, p), append(r.times, now)
	}
	return nil
}

func (r *recentPins) forget(now time.Time) {
	n := 0
	for n < len(r.times) && now.Sub(r.times[n]) > pinMemory {
		delete(r.pins, keyOf(r.order[n]))
		n++
	}
	r.order, r.times = r.order[n:], r.times[n:]
}

// restorePins puts the recent pins into a database that may have lost them. It must be done before a keyed write is taken again.
func (r *Router) restorePins(ctx context.Context) error {
	r.recent.mu.Lock()
	r.recent.forget(r.now())
	pins := append([]store.Pin(nil), r.recent.order...)
	r.recent.mu.Unlock()
	for len(pins) > 0 {
		n := 1 // the pins of one request stand together
		for n < len(pins) && pins[n].Org == pins[0].Org && pins[n].Key == pins[0].Key {
			n++
		}
		if _, err := r.pins.Pin(ctx, pins[:n]); err != nil && millstream.KindOf(err) != millstream.Conflict {
			return fmt.Errorf("put the idempotency pins back: %w", err)
		}
		pins = pins[n:]
	}
	return nil
}
