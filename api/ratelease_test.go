package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// leases gives what it is asked for, as long as it is well, and remembers the reports.
type leases struct {
	mu      sync.Mutex
	err     error
	share   float64
	reports []store.RateReport
}

func (l *leases) LeaseRates(_ context.Context, r store.RateReport) (out []store.RateLease, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	l.reports = append(l.reports, r)
	for _, a := range r.Asks {
		out = append(out, store.RateLease{Org: a.Org, Class: a.Class, QPS: a.Limit * l.share})
	}
	return out, nil
}

func (l *leases) set(err error, share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.share = err, share
}

func (l *leases) last() store.RateReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reports) == 0 {
		return store.RateReport{}
	}
	return l.reports[len(l.reports)-1]
}

// TestALeaseLimits runs a limiter on a clock of its own: the first request gets a lease, demand is reported each second, and so on.
func TestALeaseLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &leases{share: 0.5}
		l := NewRateLimiter(RateLimits{Organizations: &orgList{all: []auth.Organization{{ID: "a"}}}, Defaults: Rates{IntakeQPS: 100}, Leases: from, Node: "r", Incarnation: func() int64 { return 7 },
			Routers: func() int { return 2 }, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- l.Run(ctx, func() {}) }()
		synctest.Wait()
		burst := func() (n int) {
			for l.Allow(ctx, "a", rateIntake).OK {
				n++
			}
			return n
		}
		start := time.Now()
		if n := burst(); n != 100 || time.Since(start) != 0 {
			t.Errorf("%d pass at once after %v, want two seconds' worth of 50", n, time.Since(start))
		}
		if r := from.last(); r.Node != "r" || r.Incarnation != 7 || r.Routers != 2 || r.TTL != leaseTTL || len(r.Asks) != 1 || r.Asks[0].Limit != 100 || r.Asks[0].Held != 0 {
			t.Errorf("report %+v", r)
		}
		for range 5 * 200 { // 200 a second, of which 50 pass
			l.Allow(ctx, "a", rateIntake)
			time.Sleep(5 * time.Millisecond)
		}
		if r := from.last(); math.Abs(r.Asks[0].Demand-200) > 20 || r.Asks[0].Held != 50 {
			t.Errorf("report %+v", r)
		}

		// The last lease holds while the database is away, but who has none gets little.
		from.set(errors.New("away"), 0)
		time.Sleep(time.Minute)
		if n := burst(); n != 100 {
			t.Errorf("%d pass while the database is away", n)
		}
		if v := l.Allow(ctx, "b", rateIntake); !v.OK || v.Remaining != 9 {
			t.Errorf("without a lease: %+v, want a tenth of half of 100", v)
		}
		from.set(nil, 0.25)
		time.Sleep(leaseIdle + 2*leasePeriod)
		if r := from.last(); len(r.Asks) != 1 || r.Asks[0].Limit != 0 {
			t.Errorf("an idle part is not given back: %+v", r)
		}
		if n := burst(); n != 50 {
			t.Errorf("%d pass with a quarter", n)
		}
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r := from.last(); len(r.Asks) != 1 || r.Asks[0].Limit != 0 {
			t.Errorf("the lease of a router that stops is not given back: %+v", r)
		}
	})
}

// TestAPausedRouterAsksFirst: what was leased before a pause may be others' by now.
func TestAPausedRouterAsksFirst(t *testing.T) {
	now := time.Now()
	from := &leases{share: 1}
	l := NewRateLimiter(RateLimits{Defaults: Rates{QueryQPS: 10}, Leases: from, Incarnation: func() int64 { return 1 }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	gone, cancel := context.WithCancel(t.Context())
	cancel() // nobody runs the limiter: do not wait
	l.Allow(gone, "a", rateQuery)
	l.report(t.Context())
	if v := l.Allow(gone, "a", rateQuery); !v.OK || v.Remaining != 18 { // one came before
		t.Errorf("with a lease: %+v", v)
	}
	now = now.Add(leaseTTL)
	passed := 0
	for l.Allow(gone, "a", rateQuery).OK {
		passed++
	}
	if passed != 2 {
		t.Errorf("%d pass after a pause, want two seconds' worth of a tenth", passed)
	}
	l.report(t.Context())
	if r := from.last(); r.Asks[0].Held != 0 {
		t.Errorf("the report after a pause says that %v is held", r.Asks[0].Held)
	}
	if v := l.Allow(gone, "a", rateQuery); !v.OK {
		t.Errorf("with the new lease: %+v", v)
	}
}

// routers are limiters over one database, on a clock that the test moves.
type routers struct {
	t    *testing.T
	st   *store.Store
	org  millstream.OrgID
	now  time.Time
	away bool
	in   map[string]*RateLimiter
	gone context.Context
}

func newRouters(t *testing.T, names ...string) *routers {
	st := storetest.New(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := &routers{t: t, st: st, org: storetest.Org(t, st), now: time.Unix(1_900_000_000, 0), in: map[string]*RateLimiter{}, gone: gone}
	for _, n := range names {
		r.join(n)
	}
	return r
}

const testLimit = 200

func (r *routers) join(name string) {
	r.in[name] = NewRateLimiter(RateLimits{Defaults: Rates{IntakeQPS: testLimit}, Leases: r, Node: millstream.NodeID(name), Incarnation: func() int64 { return 1 },
		Routers: func() int { return len(r.in) }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now }})
}

func (r *routers) LeaseRates(ctx context.Context, report store.RateReport) ([]store.RateLease, error) {
	if r.away {
		return nil, errors.New("the database is away")
	}
	report.Now = r.now
	return r.st.LeaseRates(ctx, report)
}

// second lets a second pass in which requests come to routers evenly; each router reports once. It returns how many passed.
func (r *routers) second(requests map[string]int) map[string]int {
	r.t.Helper()
	passed := map[string]int{}
	const steps = 20
	names := slices.Sorted(maps.Keys(r.in))
	for step := range steps {
		for _, name := range names {
			if r.in[name] == nil {
				continue
			}
			for range requests[name]*(step+1)/steps - requests[name]*step/steps {
				if r.in[name].Allow(r.gone, r.org, rateIntake).OK {
					passed[name]++
				}
			}
		}
		if i := step * len(names) / steps; step == (i*steps+len(names)-1)/len(names) {
			r.in[names[i]].report(r.t.Context())
		}
		r.now = r.now.Add(time.Second / steps)
	}
	return passed
}

func TestOneClientGetsTheWholeLimit(t *testing.T) {
	t.Parallel()
	r := newRouters(t, "a", "b", "c")
	for range 5 {
		r.second(map[string]int{"a": 2 * testLimit})
	}
	passed := 0
	for range 10 {
		passed += r.second(map[string]int{"a": 2 * testLimit})["a"]
	}
	if passed < 10*testLimit*98/100 || passed > 10*testLimit*102/100 {
		t.Errorf("%d requests of 10 seconds passed, want %d", passed, 10*testLimit)
	}
}

func TestRoutersShareByDemand(t *testing.T) {
	t.Parallel()
	r := newRouters(t, "a", "b")
	passed := map[string]int{}
	for i := range 20 {
		for name, n := range r.second(map[string]int{"a": 600, "b": 200}) {
			if i >= 10 {
				passed[name] += n
			}
		}
	}
	for name, want := range map[string]int{"a": 1500, "b": 500} {
		if math.Abs(float64(passed[name]-want)) > 50 {
			t.Errorf("router %s let %d requests through, want %d", name, passed[name], want)
		}
	}
	r.away = true
	for range 10 {
		for name, n := range r.second(map[string]int{"a": 600, "b": 200}) {
			passed[name] += n
		}
	}
	if sum := passed["a"] + passed["b"]; sum > 20*testLimit*102/100 || passed["b"] < 950 {
		t.Errorf("%d and %d requests of 20 seconds passed", passed["a"], passed["b"])
	}
}

// TestRoutersTogetherKeepTheLimit: whatever routers do, their leases never add up to more than the limit, and what passes is the limit and a burst a change.
func TestRoutersTogetherKeepTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		r := newRouters(t, "r0", "r1")
		rnd := rand.New(rand.NewPCG(seed, 9))
		for step := range 40 {
			switch rnd.IntN(6) {
			case 0:
				r.join(fmt.Sprint("r", len(r.in)+step))
			case 1:
				if names := slices.Sorted(maps.Keys(r.in)); len(names) > 1 {
					name := names[rnd.IntN(len(names))]
					if rnd.IntN(2) == 0 {
						r.in[name].giveBack(t.Context())
					}
					delete(r.in, name)
				}
			case 2:
				r.now = r.now.Add(time.Duration(rnd.IntN(6000)) * time.Millisecond) // everything is paused
			}
			requests := map[string]int{}
			for name := range r.in {
				requests[name] = []int{0, 1, 50, 300}[rnd.IntN(4)]
			}
			r.second(requests)
			sum := 0.0
			for _, l := range r.in {
				if a := l.keys[rateKey{r.org, rateIntake}]; a != nil && l.leased(a) {
					sum += a.qps
				}
			}
			if sum > testLimit+0.001 {
				t.Fatalf("seed %d, step %d: %.3f are leased", seed, step, sum)
			}
		}
	}
}
