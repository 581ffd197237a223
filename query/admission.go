package query

import (
	"context"
	"sync"

	"github.com/millstream/millstream"
)

// admission lets so many queries of each organization run at a time and so many wait.
type admission struct {
	slots, queue int
	mu           sync.Mutex
	orgs         map[millstream.OrgID]*turnstile
}

// turnstile is one organization's; it is forgotten when nobody is in it.
type turnstile struct {
	slots  chan struct{}
	inside int // running and waiting
}

func newAdmission(slots, queue int) *admission {
	return &admission{slots: slots, queue: queue, orgs: map[millstream.OrgID]*turnstile{}}
}

// enter waits for a slot; release gives it back. A full queue is RateLimited.
func (a *admission) enter(ctx context.Context, org millstream.OrgID) (release func(), err error) {
	t, err := a.join(org)
	if err != nil {
		return nil, err
	}
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots; a.leave(org, t) }, nil
	case <-ctx.Done():
		a.leave(org, t)
		return nil, ctx.Err()
	}
}

func (a *admission) join(org millstream.OrgID) (*turnstile, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.orgs[org]
	if t == nil {
		t = &turnstile{slots: make(chan struct{}, a.slots)}
		a.orgs[org] = t
	}
	if t.inside >= a.slots+a.queue {
		return nil, millstream.Errorf(millstream.RateLimited, "%d queries of the organization are running and %d are waiting: try again later", a.slots, a.queue)
	}
	t.inside++
	return t, nil
}

func (a *admission) leave(org millstream.OrgID, t *turnstile) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.inside--; t.inside == 0 {
		delete(a.orgs, org)
	}
}
