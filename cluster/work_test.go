package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
)

func unitNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("unit-", i)
	}
	return out
}

// until is how long it takes until f holds.
func until(t testing.TB, most time.Duration, f func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !f() {
		if time.Since(begin) > most {
			t.Fatalf("not within %v", most)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begin)
}

func TestEveryUnitHasOneOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, units := newDatabase(), unitNames(500)
		peers := []*peer{d.join(t, "a"), d.join(t, "b"), d.join(t, "c"), d.join(t, "all", func(c *Config) { c.Self.Roles = []string{Standalone} }), d.join(t, "q", func(c *Config) { c.Self.Roles = []string{Querier} })}
		time.Sleep(20 * time.Second)
		if n := owners(units, peers); !once(n) {
			t.Errorf("owners a unit: %v", n)
		}
		sum, primaries := 0, 0.0
		for _, p := range peers {
			mine := p.compactor.Share(units)
			p.compactor.Owned(Compaction, len(mine))
			sum += int(value(t, p.reg, "work_ownership_owned_units", "work=compaction"))
			primaries += value(t, p.reg, "work_ownership_owned_units", "work=primary")
			if n := value(t, p.reg, "work_ownership_members", "role=compactor"); n != 4 {
				t.Errorf("%s sees %v members", p.Self(), n)
			}
		}
		if sum != len(units) || primaries != 1 {
			t.Errorf("%d units are owned of %d, by %v primaries", sum, len(units), primaries)
		}
		if q := peers[4]; q.compactor.Active() || value(t, q.reg, "work_ownership_active", "role=compactor") != 0 {
			t.Error("a querier takes the compactor's work")
		}
		if owner, ok := peers[0].compactor.Owner("unit-1"); !ok || !slicesHas(peers, owner.ID) {
			t.Errorf("owner %v", owner.ID)
		}
		killAll(t, peers...)
	})
}

func slicesHas(peers []*peer, id millstream.NodeID) bool {
	for _, p := range peers {
		if p.Self() == id && p.compactor.Mine("unit-1") {
			return true
		}
	}
	return false
}

// The tenth node takes a tenth, all of it moves to that node, and in between its share waits instead of being worked on twice.
func TestAJoinMovesItsShareOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, units := newDatabase(), unitNames(5000)
		var peers []*peer
		for i := range 9 {
			peers = append(peers, d.join(t, fmt.Sprint("node-", i)))
		}
		time.Sleep(20 * time.Second)
		before := holders(units, peers)
		joiner := d.join(t, "node-9")
		peers = append(peers, joiner)
		time.Sleep(2 * time.Second)
		waiting := 0
		for unit, n := range owners(units, peers) {
			if n > 1 {
				t.Fatalf("%s is on %d nodes", unit, n)
			}
			waiting += 1 - n
		}
		if joiner.compactor.Active() || value(t, joiner.reg, "work_ownership_active", "role=alert") != 0 {
			t.Error("the joiner takes work at once")
		}
		time.Sleep(13*time.Second + 100*time.Millisecond)
		after := holders(units, peers)
		moved := 0
		for _, u := range units {
			if before[u] != after[u] {
				moved++
				if after[u] != "node-9" {
					t.Fatalf("%s moved from %s to %s", u, before[u], after[u])
				}
			}
		}
		if moved != waiting || moved > len(units)*2/10 || moved < len(units)/20 {
			t.Errorf("%d of %d moved, %d waited", moved, len(units), waiting)
		}
		t.Logf("moved %.1f %%", 100*float64(moved)/float64(len(units)))
		killAll(t, peers...)
	})
}

func holders(units []string, peers []*peer) map[string]millstream.NodeID {
	out := map[string]millstream.NodeID{}
	for _, p := range peers {
		for _, u := range units {
			if p.compactor.Mine(u) {
				out[u] = p.Self()
			}
		}
	}
	return out
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	units := unitNames(60)
	run := func(t *testing.T, announced bool, leave func(t *testing.T, p *peer), atLeast, atMost time.Duration) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			// Whatever the moment within the periods of heartbeats and readings.
			for phase := range 12 {
				d := newDatabase()
				a, b, c := d.join(t, "a"), d.join(t, "b"), d.join(t, "c")
				if announced {
					d.announceTo(a, b)
				}
				time.Sleep(20*time.Second + time.Duration(phase)*437*time.Millisecond)
				left := d.now()
				leave(t, c)
				d.mu.Lock()
				if row, stays := d.rows["c"]; stays {
					left = row.HeartbeatAt
				}
				d.mu.Unlock()
				until(t, time.Minute, func() bool { return once(owners(units, []*peer{a, b})) })
				if since := d.now().Sub(left); since < atLeast || since > atMost {
					t.Errorf("taken over after %v, not between %v and %v", since, atLeast, atMost)
				}
				killAll(t, a, b)
			}
		})
	}
	t.Run("crash, since the last heartbeat", func(t *testing.T) {
		run(t, true, func(t *testing.T, p *peer) { p.kill(t) }, 15*time.Second, 17*time.Second)
	})
	stop := func(t *testing.T, p *peer) {
		if err := p.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if p.compactor.Active() || p.alert.Primary() {
			t.Error("works on after it has left")
		}
		p.kill(t)
	}
	t.Run("stop, not announced", func(t *testing.T) { run(t, false, stop, 0, 2*time.Second) })
	t.Run("stop, announced", func(t *testing.T) { run(t, true, stop, 0, 150*time.Millisecond) })
}

func TestThePrimaryPausesUntilItIsWarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		// Of these two b is the owner of the primary's key.
		a := d.join(t, "a")
		if a.alert.Primary() {
			t.Error("primary at once")
		}
		time.Sleep(15 * time.Second)
		if !a.alert.Primary() || value(t, a.reg, "work_ownership_owned_units", "work=primary") != 1 {
			t.Error("not primary when warm and alone")
		}
		b := d.join(t, "b")
		if owner, _ := b.View().Owner(Alert, primaryKey); owner.ID != "b" {
			t.Fatalf("%s owns the key", owner.ID)
		}
		time.Sleep(2 * time.Second)
		if a.alert.Primary() || b.alert.Primary() {
			t.Error("the primary's jobs do not pause")
		}
		time.Sleep(13*time.Second + time.Millisecond)
		if a.alert.Primary() || !b.alert.Primary() {
			t.Error("the new primary is warm and does not work")
		}
		killAll(t, a, b)
	})
}

// ran is what jobs did, by unit.
type ran struct {
	mu    sync.Mutex
	units map[string]int
}

func (r *ran) add(unit string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units[unit]++
}

func (r *ran) times(unit string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.units[unit]
}

func TestJobsRunTheOwnedUnits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, units := newDatabase(), unitNames(40)
		a, b := d.join(t, "a"), d.join(t, "b")
		var log logged
		var now, most atomic.Int64
		done, once := &ran{units: map[string]int{}}, &ran{units: map[string]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var runners sync.WaitGroup
		for _, p := range []*peer{a, b} {
			jobs := NewJobs(time.Minute, slog.New(slog.NewTextHandler(&log, nil)), p.reg)
			lists := 0
			jobs.Add(p.compactor, Job{Work: Compaction, Interval: time.Minute, Parallel: 3,
				Units: func(context.Context) ([]string, error) {
					if lists++; lists == 3 {
						return nil, errors.New("no list")
					}
					return units, nil
				},
				Run: func(_ context.Context, unit string) error {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
					time.Sleep(100 * time.Millisecond)
					done.add(unit)
					switch unit {
					case "unit-7":
						return errors.New("broken")
					case "unit-8":
						return fmt.Errorf("looked at: %w", ErrOverlap)
					}
					return nil
				}})
			jobs.Add(p.alert, Job{Work: "reports", Interval: time.Minute, Run: func(context.Context, string) error { once.add("x"); return nil }})
			if n := value(t, p.reg, "work_ownership_owned_units", "work=compaction") + value(t, p.reg, "work_overlap_skipped_total", "work=compaction"); n != 0 {
				t.Error("metrics do not begin at 0")
			}
			runners.Go(func() {
				if err := jobs.Run(ctx, func() {}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(14 * time.Second)
		for _, u := range units {
			if done.times(u) != 0 {
				t.Error("work during the warm-up")
			}
		}
		// The first round comes when the node is warm though the interval is long; the second a minute later; of the third there is no list.
		time.Sleep(3*time.Minute + 20*time.Second)
		for _, u := range units {
			if n := done.times(u); n != 3 {
				t.Errorf("%s ran %d times in four rounds of which one had no list", u, n)
			}
		}
		if n := once.times("x"); n != 4 {
			t.Errorf("the primary's job ran %d times in four rounds", n)
		}
		if most.Load() > 6 || most.Load() < 4 {
			t.Errorf("%d units at once on two nodes of three each", most.Load())
		}
		sums := map[string]float64{}
		for _, p := range []*peer{a, b} {
			sums["owned"] += value(t, p.reg, "work_ownership_owned_units", "work=compaction")
			sums["skipped"] += value(t, p.reg, "work_overlap_skipped_total", "work=compaction")
		}
		if sums["owned"] != 40 || sums["skipped"] != 3 || log.count("level=ERROR") != 3 || log.count("no list") != 2 {
			t.Errorf("%v; %d errors logged, %d lists", sums, log.count("level=ERROR"), log.count("no list"))
		}
		cancel()
		runners.Wait()
		killAll(t, a, b)
	})
}

// A stop starts nothing new and waits for what is under way, up to the grace.
func TestAStopWaitsForUnitsUnderWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ takes, stops time.Duration }{{3 * time.Second, 3 * time.Second}, {time.Hour, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDatabase()
			a := d.join(t, "a")
			time.Sleep(16 * time.Second)
			jobs := NewJobs(10*time.Second, slog.New(slog.DiscardHandler), a.reg)
			runs := 0
			jobs.Add(a.compactor, Job{Work: IndexRebuild, Interval: time.Millisecond,
				Units: func(context.Context) ([]string, error) { return unitNames(100), nil },
				Run: func(ctx context.Context, _ string) error {
					runs++
					select {
					case <-ctx.Done():
					case <-time.After(c.takes):
					}
					return ctx.Err()
				}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- jobs.Run(ctx, func() {}) }()
			synctest.Wait()
			cancel()
			begin := time.Now()
			if err := <-done; err != nil || time.Since(begin) != c.stops || runs != 1 {
				t.Errorf("stopped after %v and %d runs: %v", time.Since(begin), runs, err)
			}
			if n := value(t, a.reg, "work_ownership_owned_units", "work=index_rebuild"); n != 0 {
				t.Errorf("%v units are said to be owned after the stop", n)
			}
			a.kill(t)
		})
	}
}
