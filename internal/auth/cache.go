package auth

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millstream/millstream"
)

const (
	// fresh is how long rights are believed without asking: the time within which a revocation is in force everywhere.
	fresh = 5 * time.Second
	// stale is how long known rights keep serving intake while the database cannot be reached.
	stale = 10 * time.Minute
	// pause is how long after a failed attempt the database is not asked again while stale rights can serve.
	pause = time.Second
	// entries bounds a cache; more distinct credentials than this within ten minutes only cost look-ups.
	entries = 20_000
	// patience is how long a request waits for the database.
	patience = 5 * time.Second
	// haste is how long one that sends data does, if what was known before lets it go on: senders and routers do not wait for long.
	haste = 250 * time.Millisecond
)

// cache keeps what credentials are worth, keyed by something that only the credential's holder knows or that is harmless to know.
type cache[K comparable] struct {
	now    func() time.Time
	flight singleflight.Group

	mu      sync.RWMutex
	entries map[K]*cached
	down    time.Time // when the database last failed to answer
	slow    time.Time // when it last did not answer within haste
	epoch   uint64    // counts forget: what was asked before it is not kept
}

// cached is one answer of the database; it never changes once it is in the map.
type cached struct {
	value any   // *Principal of an API token, *SessionRights of a session
	err   error // or why it is worth nothing
	at    time.Time
}

func newCache[K comparable](now func() time.Time) *cache[K] {
	return &cache[K]{now: now, entries: map[K]*cached{}}
}

// hit is the answer for a key if it is fresh. It allocates nothing.
func (c *cache[K]) hit(key K) *cached {
	c.mu.RLock()
	e := c.entries[key]
	c.mu.RUnlock()
	if e != nil && c.now().Sub(e.at) < fresh {
		return e
	}
	return nil
}

// get asks the database for a key that had no hit; concurrent requests share one question, named by name. While the database cannot be reached, an answer of
// the last ten minutes is returned as degraded; to the hasty, also while the database takes its time, which then is asked behind their backs.
func (c *cache[K]) get(ctx context.Context, key K, name string, hasty bool, ask func(context.Context) (any, error)) (e *cached, degraded bool, err error) {
	c.mu.RLock()
	old, down, slow, epoch := c.entries[key], c.down, c.slow, c.epoch
	c.mu.RUnlock()
	now := c.now()
	usable := old != nil && old.err == nil && now.Sub(old.at) < stale
	hasty = hasty && usable
	if usable && now.Sub(down) < pause || hasty && now.Sub(slow) < pause {
		return old, true, nil
	}
	// The question outlives the one request that happens to ask it for all.
	got := c.flight.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		v, err := ask(ctx)
		if err != nil && !final(err) {
			c.mu.Lock()
			c.down = c.now()
			c.mu.Unlock()
			return nil, err
		}
		e := &cached{value: v, err: err, at: now}
		c.put(key, e, epoch)
		return e, nil
	})
	var late <-chan time.Time
	if hasty {
		late = time.After(haste)
	}
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-late:
		c.mu.Lock()
		c.slow = c.now()
		c.mu.Unlock()
		return old, true, nil
	case r := <-got:
		if r.Err == nil {
			return r.Val.(*cached), false, nil
		}
		if usable {
			return old, true, nil
		}
		return nil, false, millstream.Wrap(millstream.Unavailable, r.Err, "credentials cannot be checked now: the database does not answer")
	}
}

// final says whether an error is the database's answer rather than the lack of one.
func final(err error) bool {
	k := millstream.KindOf(err)
	return k == millstream.NotFound || k == millstream.Unauthenticated
}

// put keeps an answer unless something was forgotten since it was asked for.
func (c *cache[K]) put(key K, e *cached, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		return
	}
	if len(c.entries) >= entries {
		c.shrink(e.at)
	}
	c.entries[key] = e
}

// shrink makes room for a quarter of the entries, so that the next walk over all of them is that many answers away: refusals and stale answers go first, and
// if that is not enough, any. The caller holds mu.
func (c *cache[K]) shrink(now time.Time) {
	for k, e := range c.entries {
		if e.err != nil || now.Sub(e.at) >= stale {
			delete(c.entries, k)
		}
	}
	for k := range c.entries {
		if len(c.entries) <= entries*3/4 {
			return
		}
		delete(c.entries, k)
	}
}

// forget makes the next request with a key ask the database.
func (c *cache[K]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	delete(c.entries, key)
}

// clear makes every next request ask the database. What was known is kept for the case that it cannot answer.
func (c *cache[K]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	for k, e := range c.entries {
		if e.err != nil {
			delete(c.entries, k)
			continue
		}
		aged := *e
		aged.at = aged.at.Add(-fresh)
		c.entries[k] = &aged
	}
}
