package ingest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
)

var (
	simSeeds = flag.Int("sim.seeds", campaign(60, 2000), "seeds of the publish simulation")
	simSeed  = flag.Int64("sim.seed", -1, "run this seed of the publish simulation alone")
)

// simulate runs one node through appends, flushes, deaths, lost replies, delayed statements, failing disks and stores, and database failovers, and
// compares every answer with the ledger of what was sent and acknowledged. It returns what is wrong.
func simulate(t *testing.T, seed uint64, m mutant, steps int) error {
	rnd := rand.New(rand.NewPCG(seed, 3))
	s, d := newSite(t), &disk{}
	b := &bucket{Bucket: s.bucket}
	s.bucket, s.mutant, s.grace = b, m, 0
	s.model.noFence = m.noFence
	s.change = func(c *WriterConfig) {
		c.WAL.FS, c.WAL.SegmentSize = d, int64(1000+rnd.IntN(20000))
		c.BufferTotal, c.BufferSize = 1<<20, 1<<20
	}
	x := &simulation{site: s, disk: d, rnd: rnd, bucket: b, acked: map[int64]bool{}, sent: map[int64]bool{}}
	if _, err := s.tryStart(); err != nil {
		return err
	}
	x.stream = s.stream("app")
	for step := range steps {
		if err := x.step(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if err := x.check(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	x.heal()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.w.Flush(ctx); err != nil {
		return fmt.Errorf("the last flush: %w", err)
	}
	return x.check()
}

type simulation struct {
	*site
	rnd    *rand.Rand
	disk   *disk
	bucket *bucket
	stream millstream.StreamID
	next   int64
	acked  map[int64]bool
	sent   map[int64]bool
	old    *modelState
}

func (x *simulation) step() error {
	switch x.rnd.IntN(12) {
	case 0, 1, 2, 3:
		x.write()
	case 4, 5:
		x.tryFlush()
	case 6:
		return x.restart()
	case 7:
		x.model.mu.Lock()
		if x.rnd.IntN(2) == 0 {
			x.model.losePublish = 1
		} else {
			x.model.delay = 1
		}
		x.model.mu.Unlock()
		x.tryFlush()
	case 8:
		x.bucket.set(func(b *bucket) { b.loseReply, b.failPuts = x.rnd.IntN(2), x.rnd.IntN(3) })
		x.tryFlush()
	case 9:
		x.disk.fail(1)
		x.write()
	case 10:
		x.model.arrive()
	case 11:
		x.failover()
	}
	return nil
}

func (x *simulation) write() {
	n := 1 + x.rnd.IntN(30)
	b := rows("app", int(x.next), n)
	for i := range n {
		x.sent[x.next+int64(i)] = true
	}
	err := x.w.Append(context.Background(), b)
	for i := range n {
		if err == nil {
			x.acked[x.next+int64(i)] = true
		}
	}
	x.next += int64(n)
}

// tryFlush gives a flush one chance; what it could not do stays for later.
func (x *simulation) tryFlush() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	x.w.flushAll(ctx)
}

func (x *simulation) restart() error {
	if x.rnd.IntN(3) == 0 {
		x.site.stop()
	} else {
		x.site.kill()
	}
	x.heal()
	if _, err := x.tryStart(); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

// failover puts the database back to a state of some time ago, at most one failover deep.
func (x *simulation) failover() {
	if x.old == nil {
		old := x.model.save()
		x.old = &old
		return
	}
	x.w.Beat(x.model.beat("node", x.incarnation))
	streams := x.model.save().Streams
	x.old.Streams = streams
	x.model.failover(*x.old)
	x.old = nil
	x.w.Beat(x.model.beat("node", x.incarnation))
	x.tryFlush()
}

func (x *simulation) heal() {
	x.disk.fail(0)
	x.bucket.set(func(b *bucket) { b.loseReply, b.failPuts, b.down = 0, 0, false })
	x.model.mu.Lock()
	defer x.model.mu.Unlock()
	x.model.losePublish, x.model.delay = 0, 0
}

// check asks for everything: lost, doubled and made-up records must be none, or the node must say that it does not know.
func (x *simulation) check() error {
	got, err := x.read(x.stream)
	if errors.Is(err, ErrNotReady) {
		if x.w.Confirmed() {
			if err = x.settle(); err != nil {
				return err
			}
			got, err = x.read(x.stream)
		} else {
			return nil // partial, and it says so
		}
	}
	if err != nil {
		return err
	}
	for i, v := range got {
		if i > 0 && got[i-1] == v {
			return fmt.Errorf("record %d is there twice", v)
		}
		if !x.sent[v] {
			return fmt.Errorf("record %d was never sent", v)
		}
	}
	for v := range x.acked {
		if _, ok := slices.BinarySearch(got, v); !ok {
			return fmt.Errorf("record %d was acknowledged and is lost", v)
		}
	}
	return nil
}

// settle lets a node that is behind catch up.
func (x *simulation) settle() error {
	x.heal()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return x.w.Flush(ctx)
}

func TestPublishSimulation(t *testing.T) {
	if *simSeed >= 0 {
		if err := simulate(t, uint64(*simSeed), mutant{}, 40); err != nil {
			t.Fatal(err)
		}
		return
	}
	for seed := range uint64(*simSeeds) {
		if err := simulate(t, seed, mutant{}, 40); err != nil {
			t.Fatalf("seed %d (run it with -sim.seed=%d): %v", seed, seed, err)
		}
	}
}

func TestSimulationCatchesMutants(t *testing.T) {
	mutants := map[string]mutant{
		"buffer dropped too early":   {dropBeforeVisible: true},
		"WAL deleted before publish": {retireEarly: true},
		"upload error is success":    {uploadErrorIsSuccess: true},
		"acknowledged before logged": {ackBeforeSync: true},
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				if simulate(t, seed, m, 40) != nil {
					return
				}
			}
			t.Error("no seed of 60 noticed")
		})
	}
}

// TestQueriesDuringFlushes reads in a loop while rows are written and flushed: what was acknowledged before a read is in it, what was not attempted after it is
// not, no record is doubled, and the count never falls.
func TestQueriesDuringFlushes(t *testing.T) {
	s := newSite(t)
	s.grace = 0
	s.start()
	id := s.stream("app")
	var mu sync.Mutex
	acked, attempted := 0, 0
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Add(2)
	go func() {
		defer wg.Done()
		for ctx.Err() == nil {
			mu.Lock()
			first := attempted
			attempted += 20
			mu.Unlock()
			if err := s.w.Append(context.Background(), rows("app", first, 20)); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			acked += 20
			mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}()
	go func() {
		defer wg.Done()
		for ctx.Err() == nil {
			if err := s.w.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	last := 0
	for range 500 {
		mu.Lock()
		before := acked
		mu.Unlock()
		got, err := s.read(id)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		after := attempted
		mu.Unlock()
		if err := exactly(got, len(got)); err != nil || len(got) < before || len(got) > after || len(got) < last {
			t.Fatalf("%d records, %d acknowledged before, %d attempted after, %d last: %v", len(got), before, after, last, err)
		}
		last = len(got)
	}
	cancel()
	wg.Wait()
}

var _ blob.Bucket = (*bucket)(nil)

func BenchmarkAppend(b *testing.B) {
	s := newSite(b)
	s.start()
	defer s.stop()
	work := make(chan int, b.N)
	for i := range b.N {
		work <- i
	}
	close(work)
	text := make([]byte, 900)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			bl := millstream.NewBuilder(millstream.Limits{})
			for i := range work {
				bl.String([]byte("message"), text)
				bl.Int([]byte("seq"), int64(i))
				bl.String([]byte("service"), []byte("checkout"))
				if err := bl.Commit(int64(i)); err != nil {
					b.Error(err)
				}
				batch := bl.Batch()
				batch.Org, batch.Signal, batch.Name = testOrg, millstream.Logs, "app"
				if err := s.w.Append(context.Background(), batch); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
