package api

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
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

// rateLeaser gives a router its parts of the organizations' limits. *store.Store fits.
type rateLeaser interface {
	LeaseRates(ctx context.Context, r store.RateReport) ([]store.RateLease, error)
}

const (
	defaultBurst = 2
	// ratesFresh is how often the organizations' settings are read.
	ratesFresh = 5 * time.Second
	// settingsTimeout bounds that reading, so that the leases do not wait long for it.
	settingsTimeout = 2 * time.Second
)

// RateLimits says what a RateLimiter works with.
type RateLimits struct {
	Organizations organizationLister
	Defaults      Rates
	Leases        rateLeaser // nil: nobody else lets requests through, so all of a limit is this node's
	Node          millstream.NodeID
	Incarnation   func() int64 // of this process; called once Run begins
	Routers       func() int   // how many live, this one included
	Log           *slog.Logger
	Now           func() time.Time // must go on while the process is paused, as time.Now does
}

// RateLimiter limits requests per organization and rate class. The settings are read in the background, so that a request never waits for them; while they
// cannot be read the last ones hold. Of each limit it lets through the part that it has leased, see ratelease.go.
type RateLimiter struct {
	cfg RateLimits
	log *slog.Logger

	settings atomic.Pointer[map[millstream.OrgID]auth.Organization]
	kick     chan struct{} // somebody waits for a lease

	mu      sync.Mutex
	keys    map[rateKey]*allowance // one entry per known organization and class
	round   chan struct{}          // closed when the next report is answered, or has failed
	failing bool                   // the last report has
}

type rateKey struct {
	org   millstream.OrgID
	class string
}

// allowance is what one organization may do in one class.
type allowance struct {
	next int64   // theoretical arrival time of the generic cell rate algorithm, ns
	rate float64 // by which it was reckoned

	last     time.Time // request
	seen     int       // requests since the last report
	reported time.Time
	demand   float64   // requests a second, of the last seconds
	qps      float64   // leased
	sent     time.Time // when the report was sent that the lease answers; zero: there is no lease
}

// NewRateLimiter makes a limiter that knows the defaults only until Run has read the settings.
func NewRateLimiter(cfg RateLimits) *RateLimiter {
	if cfg.Defaults.Burst <= 0 {
		cfg.Defaults.Burst = defaultBurst
	}
	if cfg.Routers == nil {
		cfg.Routers = func() int { return 1 }
	}
	l := &RateLimiter{cfg: cfg, log: cfg.Log.With("component", "rate limits"), keys: map[rateKey]*allowance{}, kick: make(chan struct{}, 1), round: make(chan struct{})}
	l.settings.Store(&map[millstream.OrgID]auth.Organization{})
	return l
}

// Run reads the settings and renews the leases until ctx ends; then it gives the leases back. It is ready at once: the defaults hold until the first answer.
func (l *RateLimiter) Run(ctx context.Context, ready func()) error {
	ready()
	settings, lease := time.NewTicker(ratesFresh), time.NewTicker(leasePeriod)
	defer settings.Stop()
	defer lease.Stop()
	l.readSettings(ctx)
	for {
		select {
		case <-ctx.Done():
			l.giveBack(context.WithoutCancel(ctx))
			return nil
		case <-settings.C:
			l.readSettings(ctx)
		case <-lease.C:
			l.report(ctx)
		case <-l.kick:
			l.report(ctx)
		}
	}
}

func (l *RateLimiter) readSettings(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	if err := l.Refresh(bounded); err != nil && ctx.Err() == nil {
		l.log.Warn("settings of organizations cannot be read, the last ones hold", keyError, err)
	}
}

// Refresh reads the settings now and forgets organizations that are gone.
func (l *RateLimiter) Refresh(ctx context.Context) error {
	all, err := l.cfg.Organizations.Organizations(ctx, "")
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
	for k := range l.keys {
		if _, ok := settings[k.org]; !ok {
			delete(l.keys, k)
		}
	}
	return nil
}

// RateVerdict is what becomes of one request.
type RateVerdict struct {
	OK        bool
	Limit     int           // of the organization, requests a second; 0: none, and the rest says nothing
	Remaining int           // requests that may come now
	Reset     time.Duration // until there is no trace of this and earlier requests; refused: until the next one may come
}

// Allow counts one request. One too many is not counted. Only the first request of an organization in a while waits, for a lease, up to leaseWait.
func (l *RateLimiter) Allow(ctx context.Context, org millstream.OrgID, class string) RateVerdict {
	limit := l.rate(org, class)
	if limit <= 0 {
		return RateVerdict{OK: true}
	}
	key := rateKey{org, class}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.allowance(key)
	a.seen++
	a.last = l.cfg.Now()
	if l.cfg.Leases != nil {
		l.awaitLease(ctx, key)
		a = l.allowance(key)
	}
	v := a.take(l.cfg.Now().UnixNano(), l.part(a, limit), time.Duration(l.cfg.Defaults.Burst)*time.Second)
	v.Limit = limit
	return v
}

// allowance finds or makes an entry. The caller holds mu.
func (l *RateLimiter) allowance(k rateKey) *allowance {
	a := l.keys[k]
	if a == nil {
		a = &allowance{reported: l.cfg.Now()}
		l.keys[k] = a
	}
	return a
}

// take counts a request at a time against a rate, if there is room: in a burst's length as many may come as the rate permits in it, and one at least.
func (a *allowance) take(at int64, qps float64, burst time.Duration) RateVerdict {
	if qps <= 0 {
		return RateVerdict{Reset: leasePeriod}
	}
	interval := int64(float64(time.Second) / qps)
	ahead := max(int64(math.Round(qps*burst.Seconds()))*interval, interval)
	if a.rate != qps { // the requests that next stands for stay the same, but never are more than a burst
		a.next = at + min(int64(float64(max(a.next-at, 0))*a.rate/qps), ahead)
		a.rate = qps
	}
	next := max(a.next, at) + interval
	if next-at > ahead {
		return RateVerdict{Reset: time.Duration(next - at - ahead)}
	}
	a.next = next
	return RateVerdict{OK: true, Remaining: int((ahead - (next - at)) / interval), Reset: time.Duration(next - at)}
}

// rate is an organization's own limit of a class, else the node's.
func (l *RateLimiter) rate(org millstream.OrgID, class string) int {
	o := (*l.settings.Load())[org]
	switch {
	case class == rateIntake && o.IntakeQPS > 0:
		return o.IntakeQPS
	case class == rateIntake:
		return l.cfg.Defaults.IntakeQPS
	case class == rateQuery && o.QueryQPS > 0:
		return o.QueryQPS
	case class == rateQuery:
		return l.cfg.Defaults.QueryQPS
	}
	return 0
}
