package store_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

const ttl = 3 * time.Second

// rates is a set of routers that lease the limit of one organization, on a clock of their own.
type rates struct {
	t     *testing.T
	w     *world
	now   time.Time
	limit float64
	in    map[string]*leaser // live ones
}

type leaser struct {
	incarnation int64
	held        float64   // what it lets through
	sent        time.Time // its last report that was answered
}

func newRates(t *testing.T, limit float64) *rates {
	return &rates{t: t, w: newWorld(t), now: time.Unix(1_900_000_000, 0), limit: limit, in: map[string]*leaser{}}
}

func (r *rates) join(names ...string) {
	for _, n := range names {
		r.in[n] = &leaser{incarnation: 1}
	}
}

// ask is a report without taking the answer.
func (r *rates) ask(name string, demand float64) float64 {
	r.t.Helper()
	l := r.in[name]
	got, err := r.w.LeaseRates(ctx, store.RateReport{Node: millstream.NodeID(name), Incarnation: l.incarnation, Routers: len(r.in), TTL: ttl, Now: r.now,
		Asks: []store.RateAsk{{Org: r.w.org, Class: "intake", Limit: r.limit, Demand: demand, Held: l.held}}})
	if err != nil || len(got) != 1 || got[0].Org != r.w.org || got[0].Class != "intake" {
		r.t.Fatalf("%+v, %v", got, err)
	}
	return got[0].QPS
}

func (r *rates) report(name string, demand float64) float64 {
	r.t.Helper()
	l := r.in[name]
	l.held, l.sent = r.ask(name, demand), r.now
	return l.held
}

// rounds lets every router report so often, a second apart.
func (r *rates) rounds(n int, demand map[string]float64) {
	r.t.Helper()
	for range n {
		for _, name := range slices.Sorted(maps.Keys(demand)) {
			r.report(name, demand[name])
		}
		r.now = r.now.Add(time.Second)
	}
}

func (r *rates) want(want map[string]float64) {
	r.t.Helper()
	for name, qps := range want {
		if got := r.in[name].held; math.Abs(got-qps) > 0.001*r.limit {
			r.t.Errorf("router %s has %.2f, want %.2f", name, got, qps)
		}
	}
}

func TestRatesFollowTheDemand(t *testing.T) {
	t.Parallel()
	r := newRates(t, 100)
	r.join("a", "b")
	r.rounds(1, map[string]float64{"a": 10})
	r.want(map[string]float64{"a": 95}) // a tenth of b's half is left for it
	r.rounds(2, map[string]float64{"a": 100})
	r.want(map[string]float64{"a": 100}) // unless a needs it
	if got := r.report("b", 1); got != 0 {
		t.Errorf("b got %.2f while a holds all", got)
	}
	r.rounds(4, map[string]float64{"a": 100, "b": 1})
	r.want(map[string]float64{"a": 100 * 100 / 105.05, "b": 100 * 5.05 / 105.05}) // a tenth of the mean, 5.05
	r.rounds(4, map[string]float64{"a": 60, "b": 20})
	r.want(map[string]float64{"a": 75, "b": 25})
	r.rounds(4, map[string]float64{"a": 0, "b": 0})
	r.want(map[string]float64{"a": 50, "b": 50})

	// One that gives its part back is idle, one that dies is so after a while.
	r.limit = 0
	r.report("b", 0)
	r.limit = 100
	r.rounds(2, map[string]float64{"a": 100})
	r.want(map[string]float64{"a": 100})
	r.rounds(4, map[string]float64{"a": 50, "b": 50})
	r.want(map[string]float64{"a": 50, "b": 50})
	r.in = map[string]*leaser{"a": r.in["a"]}
	r.rounds(2, map[string]float64{"a": 50})
	r.want(map[string]float64{"a": 50})
	r.rounds(4, map[string]float64{"a": 50})
	r.want(map[string]float64{"a": 100})
}

// TestAPartIsFreeOnceItsRouterKeepsToLess: what a router has not heard yet it does not keep to.
func TestAPartIsFreeOnceItsRouterKeepsToLess(t *testing.T) {
	t.Parallel()
	r := newRates(t, 100)
	r.join("a", "b")
	r.rounds(2, map[string]float64{"a": 100})
	r.report("b", 100)
	for range 3 { // the answers to a get lost
		if got := r.ask("a", 100); got != 50 {
			t.Errorf("a is to keep to %.2f, want 50", got)
		}
		if got := r.report("b", 100); got != 0 {
			t.Errorf("b got %.2f while a lets 100 through", got)
		}
		r.now = r.now.Add(time.Second)
	}
	r.rounds(2, map[string]float64{"a": 100, "b": 100})
	r.want(map[string]float64{"a": 50, "b": 50})
}

func TestRatesAfterTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	r := newRates(t, 100)
	r.join("a", "b")
	r.rounds(4, map[string]float64{"a": 50, "b": 50})
	r.now = r.now.Add(time.Minute)
	if got := r.report("a", 50); got != 50 {
		t.Errorf("a got %.2f, though b goes on with its 50", got)
	}
	r.rounds(3, map[string]float64{"a": 50, "b": 50})
	r.want(map[string]float64{"a": 50, "b": 50})
	r.now = r.now.Add(time.Minute)
	delete(r.in, "b")
	r.rounds(5, map[string]float64{"a": 50}) // b does not come back
	r.want(map[string]float64{"a": 100})
}

func TestANewerProcessTakesTheLease(t *testing.T) {
	t.Parallel()
	r := newRates(t, 100)
	r.join("a")
	r.rounds(1, map[string]float64{"a": 50})
	old := r.in["a"]
	r.in["a"] = &leaser{incarnation: 2}
	r.rounds(1, map[string]float64{"a": 50})
	r.want(map[string]float64{"a": 100})
	r.in["a"] = old
	r.rounds(1, map[string]float64{"a": 50})
	r.want(map[string]float64{"a": 0})
}

func TestAnotherLimit(t *testing.T) {
	t.Parallel()
	r := newRates(t, 100)
	r.join("a", "b")
	both := map[string]float64{"a": 50, "b": 50}
	r.rounds(4, both)
	r.limit = 40
	r.rounds(1, both)
	r.want(map[string]float64{"a": 20, "b": 20})
	r.limit = 1000
	r.rounds(3, both)
	r.want(map[string]float64{"a": 500, "b": 500})
}

func TestLeasesOfAnOrganizationThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := storetest.Org(t, w.Store)
	gone := millstream.OrgID("99999999-9999-4999-8999-999999999999")
	got, err := w.LeaseRates(ctx, store.RateReport{Node: "a", Incarnation: 1, Routers: 1, TTL: ttl, Asks: []store.RateAsk{
		{Org: w.org, Class: "query", Limit: 5, Demand: 1}, {Org: gone, Class: "query", Limit: 5, Demand: 1}, {Org: other, Class: "intake", Limit: 7, Demand: 1},
	}})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, l := range got {
		if want := map[millstream.OrgID]float64{w.org: 5, other: 7}[l.Org]; l.QPS != want {
			t.Errorf("%+v, want %v", l, want)
		}
	}
}

// TestLeasesNeverExceedTheLimit: routers join, leave in order, die, pause, lose answers, are cut off all at once; at no moment do they let through more than the limit.
func TestLeasesNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := newRates(t, 1000)
		rnd := rand.New(rand.NewPCG(seed, 1))
		r.join("r0", "r1", "r2")
		paused := map[string]bool{}
		check := func(step int) {
			t.Helper()
			sum := 0.0
			for _, l := range r.in {
				if r.now.Sub(l.sent) < ttl { // older ones are not used without asking first
					sum += l.held
				}
			}
			if sum > r.limit+0.001 {
				t.Fatalf("seed %d, step %d: the routers let %.3f through", seed, step, sum)
			}
		}
		for step := range 250 {
			names := slices.Sorted(maps.Keys(r.in))
			name := names[rnd.IntN(len(names))]
			switch rnd.IntN(14) {
			case 0:
				r.join(fmt.Sprint("r", rnd.IntN(6)+3))
			case 1:
				if len(names) > 1 {
					delete(r.in, name)
				}
			case 2:
				paused[name] = !paused[name]
			case 3:
				if l := r.in[name]; r.now.Sub(l.sent) < ttl {
					r.ask(name, rnd.Float64()*1000) // the answer is lost
				}
			case 4:
				r.now = r.now.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
			default:
				if l := r.in[name]; !paused[name] {
					if r.now.Sub(l.sent) >= ttl {
						l.held = 0
					}
					r.report(name, []float64{0, 1, 100, 1000, 5000}[rnd.IntN(5)])
				}
			}
			check(step)
			r.now = r.now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
			check(step)
		}
	}
}
