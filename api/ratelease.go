package api

import (
	"context"
	"time"

	"github.com/millstream/millstream/store"
)

// A limit holds for all routers together. So each second every router reports to the database how many requests it sees of each organization, in one statement,
// and is told what part of the limit it may let through until three seconds later: see store.LeaseRates. A router that cannot reach the database goes on with the
// part it had; one that was paused for longer than its lease asks before it goes on, as others may have its part by now.
const (
	leasePeriod = time.Second
	leaseTTL    = 3 * leasePeriod
	// leaseTimeout bounds a report.
	leaseTimeout = time.Second
	// leaseWait is how long the first request of an organization waits for a lease. Then, and while the database is away, a router without a lease lets a
	// tenth of an equal part through, which is what others leave for it as long as they can.
	leaseWait = 200 * time.Millisecond
	// leaseIdle is after how long without a request a part is given back.
	leaseIdle = 10 * time.Second
	// leaseMemory is over how long the demand is averaged.
	leaseMemory = 2 * time.Second
)

// leased says whether there is a lease that nobody else can have got meanwhile. The caller holds mu.
func (l *RateLimiter) leased(a *allowance) bool {
	return !a.sent.IsZero() && (l.failing || l.cfg.Now().Sub(a.sent) < leaseTTL)
}

// part is what may be let through of a limit, in requests a second. The caller holds mu.
func (l *RateLimiter) part(a *allowance, limit int) float64 {
	switch {
	case l.cfg.Leases == nil:
		return float64(limit)
	case l.leased(a):
		return a.qps
	}
	return 0.1 * float64(limit) / float64(max(l.cfg.Routers(), 1))
}

// awaitLease asks for a report and waits until there is a lease, or none to be had. The caller holds mu, and gets it back.
func (l *RateLimiter) awaitLease(ctx context.Context, k rateKey) {
	patience := time.NewTimer(leaseWait)
	defer patience.Stop()
	for !l.failing && !l.leased(l.allowance(k)) {
		if !l.awaitRound(ctx, patience.C) {
			return
		}
	}
}

// awaitRound waits for the end of a report. The caller holds mu, and gets it back.
func (l *RateLimiter) awaitRound(ctx context.Context, patience <-chan time.Time) bool {
	round := l.round
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
	select {
	case <-round:
		return true
	case <-patience:
	case <-ctx.Done():
	}
	return false
}

// report sends what was seen and takes in what was leased.
func (l *RateLimiter) report(ctx context.Context) {
	if l.cfg.Leases == nil {
		return
	}
	sent := l.cfg.Now()
	l.mu.Lock()
	asks := l.asks(sent)
	l.mu.Unlock()
	var got []store.RateLease
	var err error
	if len(asks) > 0 {
		got, err = l.send(ctx, asks)
	}
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if failing := err != nil; failing != l.failing {
		l.failing = failing
		if failing {
			l.log.Warn("the rates of organizations cannot be shared with the other routers; each goes on with the part it had", keyError, err)
		} else {
			l.log.Info("the rates of organizations are shared with the other routers again")
		}
	}
	for _, g := range got {
		if a := l.keys[rateKey{g.Org, g.Class}]; a != nil {
			a.qps, a.sent = g.QPS, sent
		}
	}
	if err == nil {
		l.forgetIdle(asks)
	}
	close(l.round)
	l.round = make(chan struct{})
}

func (l *RateLimiter) send(ctx context.Context, asks []store.RateAsk) ([]store.RateLease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	return l.cfg.Leases.LeaseRates(ctx, store.RateReport{Node: l.cfg.Node, Incarnation: l.cfg.Incarnation(), Routers: l.cfg.Routers(), TTL: leaseTTL, Asks: asks})
}

// asks are the lines of a report. An organization that is idle, or has no limit any more, gives its part back. The caller holds mu.
func (l *RateLimiter) asks(now time.Time) []store.RateAsk {
	var out []store.RateAsk
	for k, a := range l.keys {
		if passed := now.Sub(a.reported); passed > 0 { // the weight of what is new grows with the time
			weight := min(float64(passed)/float64(leaseMemory), 1)
			a.demand += weight * (float64(a.seen)/passed.Seconds() - a.demand)
			a.seen, a.reported = 0, now
		}
		limit := l.rate(k.org, k.class)
		ask := store.RateAsk{Org: k.org, Class: k.class}
		if now.Sub(a.last) < leaseIdle && limit > 0 {
			ask.Limit, ask.Demand = float64(limit), a.demand
			if l.leased(a) || l.failing {
				ask.Held = l.part(a, limit)
			}
		}
		out = append(out, ask)
	}
	return out
}

// forgetIdle drops what was given back, unless a request has come since. The caller holds mu.
func (l *RateLimiter) forgetIdle(asks []store.RateAsk) {
	for _, ask := range asks {
		k := rateKey{ask.Org, ask.Class}
		if a := l.keys[k]; a != nil && ask.Limit == 0 {
			a.sent, a.qps = time.Time{}, 0
			if a.seen == 0 {
				delete(l.keys, k)
			}
		}
	}
}

// giveBack ends the leases of a router that stops, so that the others need not wait until they expire.
func (l *RateLimiter) giveBack(ctx context.Context) {
	l.mu.Lock()
	var asks []store.RateAsk
	for k, a := range l.keys {
		if !a.sent.IsZero() {
			asks = append(asks, store.RateAsk{Org: k.org, Class: k.class})
		}
	}
	l.mu.Unlock()
	if len(asks) == 0 {
		return
	}
	if _, err := l.send(ctx, asks); err != nil {
		l.log.Warn("leased rates could not be given back; they end by themselves", keyError, err)
	}
}
