package wal

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

var (
	powerSeeds = flag.Int("power.seeds", 1000, "seeds of the power-loss simulation; 20 times as many if MS_FAULTS=full")
	powerSeed  = flag.Int64("power.seed", -1, "run this seed of the power-loss simulation alone")
)

// powerLoss runs one seed: several lives of a log, each ended by a power loss, with failing syncs and writes in between. It returns what is wrong.
func powerLoss(seed uint64, m mutant) error {
	rnd := rand.New(rand.NewPCG(seed, 2))
	fsys := newSimFS(rnd)
	o := options(fsys)
	o.SegmentSize, o.mutant = int64(500+rnd.IntN(5000)), m
	now := time.Unix(1, 0)
	o.Now = func() time.Time { now = now.Add(time.Second); return now }
	acked, attempted := map[uint64]millstream.LSN{}, map[uint64]bool{}
	next := uint64(0)
	for life := range 4 {
		l, err := Open(o)
		if err != nil {
			return fmt.Errorf("life %d: open: %w", life, err)
		}
		if err := verify(l, acked, attempted); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if err := l.Start(0); err != nil {
			return fmt.Errorf("life %d: start: %w", life, err)
		}
		for range 1 + rnd.IntN(25) {
			if rnd.IntN(8) == 0 {
				fsys.failNext([]string{"sync", "write", "create", "rename", "syncdir"}[rnd.IntN(5)], 1)
			}
			batch := 1 + rnd.IntN(3)
			var es []Entry
			for i := range batch {
				attempted[next+uint64(i)] = true
				es = append(es, entry(next+uint64(i), rnd.IntN(800)))
			}
			if first, err := write(l, es...); err == nil {
				for i := range batch {
					acked[next+uint64(i)] = first + millstream.LSN(i)
				}
			}
			next += uint64(batch)
		}
		switch rnd.IntN(4) {
		case 0:
			l.Close()
		case 1: // the power goes while a write is under way
			fsys.failNext("sync", 2)
			fsys.failNext("create", 2)
			attempted[next] = true
			if _, err := write(l, entry(next, 200+rnd.IntN(3000))); err == nil && !m.skipSync {
				return fmt.Errorf("life %d: a write without a sync was acknowledged", life)
			}
			next++
		}
		fsys.failing = map[string]int{}
		fsys.crash()
		l.Close() // ends its goroutines; nothing is written
	}
	l, err := Open(o)
	if err != nil {
		return err
	}
	return verify(l, acked, attempted)
}

// verify compares a replay with the ledger: lost, dup and ghost must be zero.
func verify(l *Log, acked map[uint64]millstream.LSN, attempted map[uint64]bool) error {
	got := map[uint64]millstream.LSN{}
	last := millstream.LSN(0)
	err := l.Replay(context.Background(), 0, l.Last(), func(f Frame) error {
		n := number(f)
		if f.LSN <= last {
			return fmt.Errorf("LSN %d after %d", f.LSN, last)
		}
		last = f.LSN
		if _, dup := got[n]; dup {
			return fmt.Errorf("%d is there twice", n)
		}
		if want := entry(n, len(f.Payload)); !attempted[n] || !bytes.Equal(f.Payload, want.Payload) {
			return fmt.Errorf("LSN %d holds what was never sent", f.LSN)
		}
		got[n] = f.LSN
		return nil
	})
	if err != nil {
		return err
	}
	for n, lsn := range acked {
		if got[n] != lsn {
			return fmt.Errorf("%d was acknowledged as LSN %d and is now at %d (0: lost)", n, lsn, got[n])
		}
	}
	return nil
}

func TestPowerLoss(t *testing.T) {
	if *powerSeed >= 0 {
		if err := powerLoss(uint64(*powerSeed), mutant{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	seeds := *powerSeeds
	if os.Getenv("MS_FAULTS") == "full" {
		seeds *= 20
	}
	for seed := range uint64(seeds) {
		if err := powerLoss(seed, mutant{}); err != nil {
			t.Fatalf("seed %d (replay with -power.seed=%d): %v", seed, seed, err)
		}
	}
}

func TestPowerLossCatchesMutants(t *testing.T) {
	for name, m := range map[string]mutant{"acknowledged before the sync": {skipSync: true}, "checksums ignored": {skipCRC: true}} {
		caught := 0
		for seed := range uint64(200) {
			if powerLoss(seed, m) != nil {
				caught++
			}
		}
		if caught == 0 {
			t.Errorf("%s: no seed of 200 noticed", name)
		}
	}
}
