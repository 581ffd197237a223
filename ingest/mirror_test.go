package ingest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	mirrorSeeds = flag.Int("mirror.seeds", campaign(10, 2000), "seeds of the mirror simulation")
	mirrorSeed  = flag.Int64("mirror.seed", -1, "run this seed of the mirror simulation alone")
)

// TestMirrorSimulation reads other nodes' rows between writes, seals, flushes, restarts and failovers: every acknowledged record is there once.
func TestMirrorSimulation(t *testing.T) {
	seeds := make([]uint64, *mirrorSeeds)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	if *mirrorSeed >= 0 {
		seeds = []uint64{uint64(*mirrorSeed)}
	}
	for _, seed := range seeds {
		if err := simulateMirror(t, seed); err != nil {
			t.Fatalf("seed %d (-mirror.seed): %v", seed, err)
		}
	}
}

func simulateMirror(t *testing.T, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 7))
	x := newWorld(t, 2, func(w *Writer) { w.sealRows = []int{20, 100, sealRows}[rnd.IntN(3)] })
	x.mirror = x.newMirror(MirrorConfig{Limit: []int64{1, 4 << 10, 1 << 30}[rnd.IntN(3)]})
	old := x.sites[0].model.save()
	for step := range 60 {
		i := rnd.IntN(2)
		s := x.sites[i]
		act := func() {
			switch rnd.IntN(16) {
			case 0, 1:
				x.flush(i)
			case 2: // built, not published
				s.model.setDown(true)
				x.flush(i)
				s.model.setDown(false)
			case 3:
				x.end(i, rnd.IntN(2) == 0)
				x.start(i)
			case 4:
				if rnd.IntN(3) == 0 && i == 0 {
					s.model.failover(old)
					s.w.Beat(s.model.beat("node", s.incarnation))
				} else if i == 0 {
					old = s.model.save()
				}
			case 5:
				s.w.reap()
			case 6:
				s.w.mu.Lock()
				s.w.recent.limit = []int64{1, 500, 1 << 20}[rnd.IntN(3)]
				s.w.mu.Unlock()
			case 7: // small batches that are merged
				for k := rnd.IntN(3); rnd.IntN(20) > 0; {
					x.write(i, k, 1)
				}
			default:
				x.write(i, rnd.IntN(3), []int{1, 1, 3, 40}[rnd.IntN(4)])
			}
		}
		act()
		streams := rnd.Perm(3)[:1+rnd.IntN(3)]
		between := func() {}
		if rnd.IntN(4) == 0 {
			between = act
		}
		got, err := x.read(x.mirror, streams, between)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		for k, stream := range streams {
			has := func(i int) int { return x.next[i][stream] }
			if err := x.check(stream, got.records[k], len(got.missing) > 0, has, has); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
	}
	for i := range x.sites {
		if err := x.sites[i].w.Flush(t.Context()); err != nil {
			return err
		}
	}
	got, err := x.read(x.mirror, []int{0, 1, 2}, func() {})
	if err != nil || len(got.missing) > 0 {
		return fmt.Errorf("at the end: %v, %w", got.missing, err)
	}
	for i := range x.sites {
		x.end(i, true)
	}
	return x.closed()
}

func (x *world) flush(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = x.sites[i].w.flushAll(ctx) // what does not succeed is tried again
}

// closed checks that the mirror lets go of everything.
func (x *world) closed() error {
	m := x.mirror
	m.mu.Lock()
	defer m.mu.Unlock()
	var spools []*spool
	for _, e := range m.entries {
		if e.flight != nil {
			return errors.New("a flight is left")
		}
		for _, p := range e.pieces {
			if p.spool != nil {
				spools = append(spools, p.spool)
				if p.spool.holds != 1 {
					return fmt.Errorf("a segment has %d holders", p.spool.holds)
				}
			}
		}
	}
	m.cfg.Limit, m.cfg.Now = 0, func() time.Time { return time.Now().Add(time.Hour) }
	m.evict()
	if m.size != 0 || len(m.entries) != 0 {
		return fmt.Errorf("%d bytes in %d entries are left", m.size, len(m.entries))
	}
	for _, s := range spools {
		if s.holds != 0 {
			return fmt.Errorf("a segment that was evicted has %d holders", s.holds)
		}
	}
	return nil
}

// TestMirrorUnderLoad: queries that run while nodes take rows, flush and start again see all that was acknowledged before they began.
func TestMirrorUnderLoad(t *testing.T) {
	x := newWorld(t, 2, func(w *Writer) { w.sealRows = 500 })
	var acked, sent [2][3]atomic.Int64
	const enough = 50 // whole answers
	began, length := time.Now(), time.Duration(campaign(3, 60))*time.Second
	ctx, stop := context.WithTimeout(t.Context(), length+time.Minute)
	defer stop()
	var work sync.WaitGroup
	for i := range x.sites {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 9))
			for ctx.Err() == nil {
				switch rnd.IntN(60) {
				case 0, 1:
					x.flush(i)
				case 2:
					x.end(i, true)
					x.start(i)
				default:
					k, n := rnd.IntN(3), 1+rnd.IntN(30)
					sent[i][k].Add(int64(n))
					x.write(i, k, n)
					acked[i][k].Add(int64(n))
				}
			}
		})
	}
	var queries, whole atomic.Int64
	for q := range 6 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(q), 11))
			for ctx.Err() == nil {
				streams := rnd.Perm(3)[:1+rnd.IntN(3)]
				var low [2][3]int
				for i := range low {
					for k := range low[i] {
						low[i][k] = int(acked[i][k].Load())
					}
				}
				got, err := x.read(x.mirror, streams, func() {})
				if errors.Is(err, ErrStale) { // four times
					continue
				}
				if err != nil {
					t.Errorf("query: %v", err)
					return
				}
				queries.Add(1)
				if len(got.missing) == 0 && whole.Add(1) >= enough && time.Since(began) > length {
					stop()
				}
				for k, stream := range streams {
					err := x.check(stream, got.records[k], len(got.missing) > 0, func(i int) int { return low[i][stream] }, func(i int) int { return int(sent[i][stream].Load()) })
					if err != nil {
						t.Error(err)
						stop()
						return
					}
				}
			}
		})
	}
	work.Wait()
	t.Logf("%d queries, %d of them whole", queries.Load(), whole.Load())
	if whole.Load() < enough {
		t.Errorf("%d whole answers", whole.Load())
	}
	for i := range x.sites {
		x.end(i, true)
	}
	if err := x.closed(); err != nil {
		t.Error(err)
	}
}
