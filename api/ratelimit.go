package api

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// Rates are the limits of an organization that sets none itself. 0: no limit.
type Rates struct {
	IntakeQPS int // requests per second
	QueryQPS  int
	Burst     int // seconds' worth of requests that may come at once; 0: 2
}

// organizationLister is where organizations say what they may do. *store.Store fits; an empty user means all of them.
type organizationLister interface {
	Organizations(ctx context.Context, user string) ([]auth.Organization, error)
}

const (
	defaultBurst = 2
	// ratesFresh is how often the organizations' settings are read.
	ratesFresh = 5 * time.Second
)

// RateLimiter limits requests per organization and rate class. The settings are read in the background, so that a request never waits for them; while they
// cannot be read the last ones hold.
type RateLimiter struct {
	orgs     organizationLister
	defaults Rates
	log      *slog.Logger
	now      func() time.Time

	settings atomic.Pointer[map[millstream.OrgID]auth.Organization]
	mu       sync.Mutex
	next     map[rateKey]int64 // theoretical arrival time of the generic cell rate algorithm, ns; one entry per known organization and class
}

type rateKey struct {
	org   millstream.OrgID
	class string
}

// NewRateLimiter makes a limiter that knows the defaults only until Run has read the settings.
func NewRateLimiter(orgs organizationLister, defaults Rates, log *slog.Logger, now func() time.Time) *RateLimiter {
	if defaults.Burst <= 0 {
		defaults.Burst = defaultBurst
	}
	l := &RateLimiter{orgs: orgs, defaults: defaults, log: log.With("component", "rate limits"), now: now, next: map[rateKey]int64{}}
	l.settings.Store(&map[millstream.OrgID]auth.Organization{})
	return l
}

// Run reads the settings until ctx ends. It is ready at once: the defaults hold until the first answer.
func (l *RateLimiter) Run(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(ratesFresh)
	defer tick.Stop()
	for {
		if err := l.Refresh(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("settings of organizations cannot be read, the last ones hold", keyError, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Refresh reads the settings now and forgets organizations that are gone.
func (l *RateLimiter) Refresh(ctx context.Context) error {
	all, err := l.orgs.Organizations(ctx, "")
	if err != nil {
		return err
	}
	settings := make(map[millstream.OrgID]auth.Organization, len(all))
	for _, o := range all {
		settings[o.ID] = o
	}
	l.settings.Store(&settings)
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.next {
		if _, ok := settings[k.org]; !ok {
			delete(l.next, k)
		}
	}
	return nil
}

// Allow counts one request. When it is one too many it is not counted, and wait says when the next may come.
func (l *RateLimiter) Allow(org millstream.OrgID, class string) (wait time.Duration, ok bool) {
	qps := l.rate(org, class)
	if qps <= 0 {
		return 0, true
	}
	interval := int64(time.Second) / int64(qps)
	ahead := interval * int64(qps) * int64(l.defaults.Burst)
	at, key := l.now().UnixNano(), rateKey{org, class}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := max(l.next[key], at) + interval
	if next-at > ahead {
		return time.Duration(next - at - ahead), false
	}
	l.next[key] = next
	return 0, true
}

// rate is an organization's own limit of a class, else the node's.
func (l *RateLimiter) rate(org millstream.OrgID, class string) int {
	o := (*l.settings.Load())[org]
	switch {
	case class == rateIntake && o.IntakeQPS > 0:
		return o.IntakeQPS
	case class == rateIntake:
		return l.defaults.IntakeQPS
	case class == rateQuery && o.QueryQPS > 0:
		return o.QueryQPS
	case class == rateQuery:
		return l.defaults.QueryQPS
	}
	return 0
}
