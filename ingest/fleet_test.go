package ingest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/segment"
)

var (
	fleetSeeds = flag.Int("fleet.seeds", campaign(20, 1000), "seeds of the simulation of routers and intakes")
	fleetSeed  = flag.Int64("fleet.seed", -1, "run this seed of the simulation of routers and intakes alone")
)

// fleet is two routers before three intakes over one catalog and one object store, with lines between them that lose requests and replies, refuse and linger.
type fleet struct {
	t       *testing.T
	rnd     *rand.Rand // of the steps
	model   *model
	disks   map[millstream.NodeID]*disk
	sites   []*site
	routers []*Router
	late    sync.WaitGroup // requests that linger on a line

	mu    sync.Mutex
	dice  *rand.Rand // of the lines
	bad   int        // of 100 calls so many meet a fault
	procs map[millstream.NodeID]*Writer
	views []*cluster.View // a router's

	next  int64
	acked map[int64]bool
	sent  map[int64]bool
	keyed []*keyedRequest
	old   *modelState
}

type keyedRequest struct {
	write Write
	seqs  []int64
	acked bool
	err   error // of the last try
}

func newFleet(t *testing.T, seed uint64, m mutant) (*fleet, error) {
	f := &fleet{t: t, rnd: rand.New(rand.NewPCG(seed, 5)), dice: rand.New(rand.NewPCG(seed, 7)), model: newModel(), disks: map[millstream.NodeID]*disk{},
		procs: map[millstream.NodeID]*Writer{}, views: make([]*cluster.View, 2), acked: map[int64]bool{}, sent: map[int64]bool{}}
	shared := newSite(t).bucket
	for i := range 3 {
		s, d := newSite(t), &disk{}
		s.node, s.model, s.bucket, s.grace = millstream.NodeID(fmt.Sprint("intake", i)), f.model, shared, 0
		s.change = func(c *WriterConfig) {
			c.WAL.FS, c.WAL.SegmentSize, c.BufferTotal, c.BufferSize = d, 8000, 1<<20, 1<<20
		}
		f.sites, f.disks[s.node] = append(f.sites, s), d
		if err := f.up(s); err != nil {
			return nil, err
		}
	}
	for i := range f.views {
		r := NewRouter(RouterConfig{Self: millstream.NodeID(fmt.Sprint("router", i)), View: func() *cluster.View { return f.view(i) },
			Dial: func(m millstream.Member) Target { return line{f, m} }, Streams: NewStreams(f.model, time.Now), Pins: f.model})
		r.mutant, r.patience, r.tryTimeout = m, 100*time.Millisecond, 40*time.Millisecond
		r.Beat(f.model.beat(r.cfg.Self, 0))
		f.routers = append(f.routers, r)
		f.look(i)
	}
	return f, nil
}

// up starts a node.
func (f *fleet) up(s *site) error {
	w, err := s.tryStart()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.node, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.procs[s.node] = w
	return nil
}

// down ends a node: from now on nobody is heard there.
func (f *fleet) down(s *site, end func()) {
	f.mu.Lock()
	delete(f.procs, s.node)
	f.mu.Unlock()
	end()
}

func (f *fleet) view(router int) *cluster.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.views[router]
}

// look gives a router a fresh view.
func (f *fleet) look(router int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ms []millstream.Member
	for id, w := range f.procs {
		ms = append(ms, millstream.Member{ID: id, Roles: []string{cluster.Intake}, WAL: w.WAL()})
	}
	f.views[router] = cluster.NewView(ms, time.Time{}, cluster.Timeouts{})
}

// line is the way from a router to one node.
type line struct {
	f  *fleet
	to millstream.Member
}

func (l line) Write(ctx context.Context, batches ...*millstream.Batch) (int, error) {
	f := l.f
	f.mu.Lock()
	w, fault := f.procs[l.to.ID], -1
	if f.dice.IntN(100) < f.bad {
		fault = f.dice.IntN(5)
	}
	f.mu.Unlock()
	wire, err := overTheWire(batches)
	switch {
	case err != nil:
		return 0, err
	case fault == 0 || w == nil || w.WAL() != l.to.WAL:
		return 0, millstream.Errorf(millstream.Unavailable, "node %s cannot be reached", l.to.ID)
	case fault == 1:
		return 0, unknown(errors.New("the request was lost"))
	case fault == 2:
		f.late.Go(func() {
			time.Sleep(3 * time.Millisecond)
			_, _ = w.Write(context.Background(), wire...) // nobody waits for the answer
		})
		return 0, unknown(errors.New("the request lingers"))
	}
	n, err := w.Write(ctx, wire...)
	f.mu.Lock()
	died := f.procs[l.to.ID] != w
	f.mu.Unlock()
	if fault >= 3 || died {
		return 0, unknown(errors.New("the reply was lost"))
	}
	return n, err
}

// overTheWire is what arrives of batches at another node.
func overTheWire(batches []*millstream.Batch) (out []*millstream.Batch, err error) {
	for _, b := range batches {
		c, err := millstream.DecodeBatch(b.AppendTo(nil))
		if err != nil {
			return nil, err
		}
		c.Org, c.Name = b.Org, b.Name
		out = append(out, c)
	}
	return out, nil
}

func (f *fleet) step() error {
	switch s := f.sites[f.rnd.IntN(len(f.sites))]; f.rnd.IntN(13) {
	case 0, 1, 2, 3:
		return f.writes(1+f.rnd.IntN(4), func() {})
	case 4, 5:
		return f.again()
	case 6:
		f.flush()
	case 7:
		return f.writes(3, func() { f.leaveOrJoin(s) })
	case 8:
		f.look(f.rnd.IntN(len(f.routers)))
	case 9:
		f.disks[s.node].fail(1)
		return f.writes(2, func() {})
	case 10:
		f.model.setDown(true)
		defer f.model.setDown(false)
		return errors.Join(f.writes(2, func() {}), f.again())
	case 11, 12:
		return f.failover()
	}
	return nil
}

// leaveOrJoin takes a node down, in order or not, or brings it back.
func (f *fleet) leaveOrJoin(s *site) {
	switch {
	case s.w == nil:
		f.disks[s.node].fail(0)
		if err := f.up(s); err != nil {
			f.t.Error(err)
		}
	case f.rnd.IntN(3) == 0:
		f.down(s, func() { _ = s.stop() }) // what a bad moment kept it from publishing is in its log
	default:
		f.down(s, s.kill)
	}
	f.look(f.rnd.IntN(len(f.routers)))
}

// writes sends requests at once, each through one of the routers and half of them with a key, while meanwhile happens.
func (f *fleet) writes(n int, meanwhile func()) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		k := f.request()
		r := f.routers[f.rnd.IntN(len(f.routers))]
		wg.Go(func() { errs[i] = f.send(r, k) })
	}
	time.Sleep(time.Duration(f.rnd.IntN(1000)) * time.Microsecond)
	meanwhile()
	wg.Wait()
	return errors.Join(errs...)
}

// request makes a request of one to three streams.
func (f *fleet) request() *keyedRequest {
	k := &keyedRequest{write: Write{Org: testOrg}}
	names := f.rnd.Perm(4)
	for _, name := range names[:1+f.rnd.IntN(3)] {
		n := 1 + f.rnd.IntN(5)
		k.write.Batches = append(k.write.Batches, rows(fmt.Sprint("s", name), int(f.next), n))
		for range n {
			k.seqs = append(k.seqs, f.next)
			f.sent[f.next] = true
			f.next++
		}
	}
	if f.rnd.IntN(2) == 0 {
		k.write.Key = fmt.Sprint("key", f.next)
		f.keyed = append(f.keyed, k)
	}
	return k
}

// again repeats an earlier keyed request, as a sender does that got no answer, or that forgot the answer it got.
func (f *fleet) again() error {
	if len(f.keyed) == 0 {
		return nil
	}
	return f.send(f.routers[f.rnd.IntN(len(f.routers))], f.keyed[f.rnd.IntN(len(f.keyed))])
}

func (f *fleet) send(r *Router, k *keyedRequest) error {
	write, err := k.write, error(nil)
	if write.Batches, err = overTheWire(write.Batches); err != nil { // a sender's next try is decoded anew
		return err
	}
	replayed, err := r.Write(context.Background(), write)
	f.mu.Lock()
	defer f.mu.Unlock()
	k.err = err
	switch {
	case err == nil && k.acked && !replayed && f.bad == 0: // a try of unknown outcome hides the repetition
		return fmt.Errorf("request %s was done before, and is told to be new", k.write.Key)
	case err == nil:
		k.acked = true
		for _, seq := range k.seqs {
			f.acked[seq] = true
		}
	case millstream.KindOf(err) != millstream.Unavailable:
		return fmt.Errorf("a write was refused as %v", err)
	}
	return nil
}

func (f *fleet) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, s := range f.sites {
		if s.w != nil {
			_ = s.w.flushAll(ctx) // what could not be done stays for later
		}
	}
}

// failover puts the database back to an earlier state once all nodes are up, and lets everybody notice.
func (f *fleet) failover() error {
	if f.old == nil {
		old := f.model.save()
		f.old = &old
		return nil
	}
	if !f.allUp() {
		return nil
	}
	f.late.Wait()
	f.old.Streams = f.model.save().Streams
	f.model.failover(*f.old)
	f.old = nil
	for _, s := range f.sites {
		s.w.Beat(f.model.beat(s.node, s.incarnation))
	}
	f.flush()
	for _, r := range f.routers {
		r.Beat(f.model.beat(r.cfg.Self, 0))
		if err := r.settle(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) allUp() bool {
	return !slices.ContainsFunc(f.sites, func(s *site) bool { return s.w == nil })
}

// check asks for everything, if every node can answer: nothing that was acknowledged is lost, nothing is there twice, nothing was made up.
func (f *fleet) check() error {
	if !f.allUp() {
		return nil
	}
	for _, s := range f.sites {
		if !s.w.Confirmed() {
			return nil
		}
	}
	var got []int64
	for i := range 4 {
		seqs, err := f.read(f.sites[0].stream(fmt.Sprint("s", i)))
		if err != nil {
			return err
		}
		got = append(got, seqs...)
	}
	slices.Sort(got)
	for i, v := range got {
		switch {
		case i > 0 && got[i-1] == v:
			return fmt.Errorf("record %d is there twice", v)
		case !f.sent[v]:
			return fmt.Errorf("record %d was never sent", v)
		}
	}
	for v := range f.acked {
		if _, ok := slices.BinarySearch(got, v); !ok {
			return fmt.Errorf("record %d was acknowledged and is lost", v)
		}
	}
	return nil
}

// read is a query over all nodes.
func (f *fleet) read(stream millstream.StreamID) ([]int64, error) {
	for {
		got, err := f.readOnce(stream)
		if errors.Is(err, ErrNotReady) { // a node is behind the database, and catches up
			f.flush()
		}
		if !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotReady) {
			return got, err
		}
	}
}

func (f *fleet) readOnce(stream millstream.StreamID) (got []int64, err error) {
	for _, s := range f.sites {
		defer s.w.Hold()()
	}
	segments, positions := f.model.snapshot(stream)
	var sources []segment.Source
	for _, g := range segments {
		r, err := f.sites[0].open(g)
		if err != nil {
			return nil, err
		}
		sources = append(sources, r)
	}
	for _, s := range f.sites {
		u, err := s.w.Unflushed(context.Background(), s.w.WAL(), stream, positions[s.w.WAL()])
		if err != nil {
			return nil, err
		}
		sources = append(sources, u.Logs...)
	}
	all := segment.Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Fields: []string{"seq"}}
	for _, src := range sources {
		_, err := src.Scan(context.Background(), all, func(b *millstream.Batch) error {
			got = append(got, b.Column("seq").Ints...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

// simulateFleet runs one seed and returns what is wrong.
func simulateFleet(t *testing.T, seed uint64, m mutant, steps int) error {
	f, err := newFleet(t, seed, m)
	if err != nil {
		return err
	}
	defer f.late.Wait()
	f.bad = 30
	for step := range steps {
		if err := f.step(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	f.late.Wait()
	f.bad = 0
	for _, s := range f.sites {
		f.disks[s.node].fail(0)
		if s.w == nil {
			if err := f.up(s); err != nil {
				return err
			}
		}
	}
	for i, r := range f.routers {
		f.look(i)
		r.patience, r.tryTimeout = time.Minute, time.Minute
	}
	for _, k := range f.keyed { // every sender comes back until it has an answer
		for _, r := range f.routers {
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // a log that failed takes a moment
				if err := f.send(r, k); err != nil {
					return err
				}
				if k.err == nil || time.Now().After(deadline) {
					break
				}
			}
		}
		if k.err != nil {
			return fmt.Errorf("request %s is not taken when all is well: %w", k.write.Key, k.err)
		}
	}
	f.flush()
	return f.check()
}

func TestFleetSimulation(t *testing.T) {
	if *fleetSeed >= 0 {
		if err := simulateFleet(t, uint64(*fleetSeed), mutant{}, 40); err != nil {
			t.Fatal(err)
		}
		return
	}
	for seed := range uint64(*fleetSeeds) {
		if err := simulateFleet(t, seed, mutant{}, 40); err != nil {
			t.Fatalf("seed %d (run it with -fleet.seed=%d): %v", seed, seed, err)
		}
	}
}

func TestFleetSimulationCatchesMutants(t *testing.T) {
	for name, m := range map[string]mutant{
		"a retry has a new batch id":     {newBatchID: true},
		"unknown is taken for refused":   {unknownIsRefused: true},
		"a refusal ends what is unknown": {unknownForgotten: true},
		"a key is not pinned":            {noPin: true},
		"pins are not put back":          {noRestore: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				if simulateFleet(t, seed, m, 40) != nil {
					return
				}
			}
			t.Error("no seed of 60 noticed")
		})
	}
}
