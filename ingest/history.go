package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/millstream/millstream/store"
)

// restoreRetry is how long a router waits before it tries again to put its pins back.
const restoreRetry = time.Second

// history is what a Router knows of the database's history. The pins of keyed requests are in the database alone: if it goes back to an older state, a repetition
// would look like a new request. So once another history shows, keyed requests wait until the routers have put the pins back that they remember.
type history struct {
	kick chan struct{} // there is a doubt to settle

	mu        sync.Mutex
	system    string // as the last heartbeat showed it, "" before the first
	forgotten bool
	doubt     bool
	until     time.Time // no keyed request is taken before
}

func (h *history) quiet(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = until
}

// Beat takes in what a heartbeat of a node without a Writer learned: another system or timeline, or that the database does not know this start of the node any
// more, means another history.
func (r *Router) Beat(b store.Beat) {
	h := &r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.system != "" && (h.system != b.SystemID || b.Forgotten && !h.forgotten) {
		h.doubt = true
		select {
		case h.kick <- struct{}{}:
		default:
		}
	}
	h.system, h.forgotten = b.SystemID, b.Forgotten
}

// Run puts the pins back when the database has another history, until ctx ends. A node with a Writer need not run it.
func (r *Router) Run(ctx context.Context, ready func()) error {
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.history.kick:
		}
		for r.settle(ctx) != nil {
			if sleep(ctx, restoreRetry) != nil {
				return nil
			}
		}
	}
}

// settle puts the pins back, and ends the doubt unless a further one came up meanwhile.
func (r *Router) settle(ctx context.Context) error {
	h := &r.history
	h.mu.Lock()
	system := h.system
	h.mu.Unlock()
	if err := r.restorePins(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubt = h.system != system
	return nil
}

// confirmed says whether keyed requests may be taken: the history is the one that is known, here and, by now, on every other router.
func (r *Router) confirmed() bool {
	if r.local != nil && !r.local.Confirmed() {
		return false
	}
	h := &r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.doubt && !r.cfg.Now().Before(h.until)
}
