package ingest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
)

// disk is the operating system's file system with calls that fail on demand.
type disk struct {
	wal.OS
	mu        sync.Mutex
	failSyncs int
	before    func() // each sync
	after     func()
}

type diskFile struct {
	wal.File
	disk *disk
}

var errDisk = errors.New("simulated disk error")

func (d *disk) Create(name string) (wal.File, error) {
	f, err := d.OS.Create(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	fail := f.disk.failSyncs > 0
	if fail {
		f.disk.failSyncs--
	}
	f.disk.mu.Unlock()
	if fail {
		return errDisk
	}
	if f.disk.before != nil {
		f.disk.before()
	}
	err := f.File.Sync()
	if f.disk.after != nil {
		f.disk.after()
	}
	return err
}

func (d *disk) fail(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failSyncs = n
}

func newRouterSite(t *testing.T) (*site, *disk, func() *Router) {
	s, d := newSite(t), &disk{}
	s.change = func(c *WriterConfig) { c.WAL.FS = d }
	return s, d, func() *Router { s.start(); return NewRouter(RouterConfig{Self: "node", Local: s.w, Pins: s.model}) }
}

func keyed(key string, body byte, batches ...*millstream.Batch) Write {
	return Write{Org: testOrg, Batches: batches, Key: key, BodyHash: [16]byte{body}}
}

func TestKeyedWritesHappenOnce(t *testing.T) {
	s, _, start := newRouterSite(t)
	r := start()
	ctx := context.Background()
	send := func() (bool, error) { return r.Write(ctx, keyed("k1", 1, rows("a", 0, 3), rows("b", 0, 4))) }
	if replayed, err := send(); err != nil || replayed {
		t.Fatalf("first: %v, %v", replayed, err)
	}
	if replayed, err := send(); err != nil || !replayed {
		t.Fatalf("second: %v, %v", replayed, err)
	}
	if _, err := r.Write(ctx, keyed("k1", 2, rows("a", 0, 3))); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("the same key with another body: %v", err)
	}
	s.flush()
	s.kill()
	r = start()
	if replayed, err := send(); err != nil || !replayed {
		t.Fatalf("after a restart: %v, %v", replayed, err)
	}
	s.want(s.stream("a"), 3)
	s.want(s.stream("b"), 4)
	if _, err := r.Write(ctx, Write{Org: testOrg, Batches: []*millstream.Batch{rows("a", 3, 1)}}); err != nil {
		t.Fatal(err)
	}
	if replayed, err := r.Write(ctx, Write{Org: testOrg}); err != nil || replayed {
		t.Errorf("an empty request: %v, %v", replayed, err)
	}
	s.want(s.stream("a"), 4)
}

func TestTheReservedStreamTakesNothingFromSenders(t *testing.T) {
	s, _, start := newRouterSite(t)
	r := start()
	b := rows(millstream.SelfStream, 0, 1)
	if _, err := r.Write(context.Background(), Write{Org: testOrg, Batches: []*millstream.Batch{rows("app", 0, 1), b}}); millstream.KindOf(err) != millstream.Forbidden {
		t.Errorf("through the router: %v", err)
	}
	if err := s.w.Append(context.Background(), b); err != nil {
		t.Errorf("from the node itself: %v", err)
	}
}

func TestKeyedWritesNeedTheDatabase(t *testing.T) {
	s, _, start := newRouterSite(t)
	r := start()
	ctx := context.Background()
	if _, err := r.Write(ctx, keyed("k1", 1, rows("a", 0, 1))); err != nil {
		t.Fatal(err)
	}
	s.model.setDown(true)
	if _, err := r.Write(ctx, keyed("k1", 1, rows("a", 0, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("keyed: %v", err)
	}
	if _, err := r.Write(ctx, keyed("k2", 1, rows("never seen", 0, 1))); millstream.Message(err) != millstream.Message(unreachable(nil)) {
		t.Errorf("keyed, to a stream that is not known: %v", err)
	}
	if _, err := r.Write(ctx, Write{Org: testOrg, Batches: []*millstream.Batch{rows("a", 1, 1)}}); err != nil {
		t.Errorf("without a key: %v", err)
	}
	s.model.setDown(false)
	s.want(s.stream("a"), 2)
}

func TestPinToAnotherWAL(t *testing.T) {
	s, _, start := newRouterSite(t)
	r := start()
	wr := keyed("k1", 1, rows("a", 0, 1))
	if _, err := r.Write(context.Background(), wr); err != nil {
		t.Fatal(err)
	}
	for k, p := range s.model.state.Pins {
		p.WAL = "another"
		s.model.state.Pins[k] = p
	}
	if _, err := r.Write(context.Background(), wr); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("%v", err)
	}
}

// TestPinsSurviveAFailover: a database that went back has lost the pin; the node puts it back before it takes keyed writes again.
func TestPinsSurviveAFailover(t *testing.T) {
	s, _, start := newRouterSite(t)
	r := start()
	ctx := context.Background()
	s.append(rows("a", 0, 1))
	s.flush()
	old := s.model.save()
	if _, err := r.Write(ctx, keyed("k1", 1, rows("a", 1, 1))); err != nil {
		t.Fatal(err)
	}
	s.w.Beat(s.model.beat("node", s.incarnation))
	s.model.failover(old)
	s.model.setDown(true) // it is not confirmed at once
	s.w.Beat(s.model.beat("node", s.incarnation))
	if _, err := r.Write(ctx, keyed("k1", 1, rows("a", 1, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a keyed write before the confirmation: %v", err)
	}
	s.model.setDown(false)
	s.flush()
	if _, err := r.Write(ctx, keyed("k1", 2, rows("a", 1, 1))); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("another body after the failover: %v", err)
	}
	if replayed, err := r.Write(ctx, keyed("k1", 1, rows("a", 1, 1))); err != nil || !replayed {
		t.Errorf("the same body after the failover: %v, %v", replayed, err)
	}
	s.want(s.stream("a"), 2)
}

func TestUnknownOutcomesAreRepeatedWithTheSameID(t *testing.T) {
	s, d, start := newRouterSite(t)
	r := start()
	ctx := context.Background()
	for i := range 5 {
		d.fail(1)
		if replayed, err := r.Write(ctx, Write{Org: testOrg, Batches: []*millstream.Batch{rows("a", i, 1)}}); err != nil || replayed {
			t.Fatalf("%v, %v", replayed, err)
		}
	}
	s.want(s.stream("a"), 5)
	s.kill()
	start()
	s.want(s.stream("a"), 5)
}

// answers is a writer whose answers get lost after the work was done.
type answers struct {
	*Writer
	lose int
}

func (a *answers) Write(ctx context.Context, b ...*millstream.Batch) (int, error) {
	n, err := a.Writer.Write(ctx, b...)
	if err == nil && a.lose > 0 {
		a.lose--
		return 0, unknown(errors.New("lost"))
	}
	return n, err
}

func lostAnswer(t *testing.T, m mutant) error {
	s, _, start := newRouterSite(t)
	r := start()
	r.mutant = m
	r.local = &answers{Writer: s.w, lose: 2}
	replayed, err := r.Write(context.Background(), Write{Org: testOrg, Batches: []*millstream.Batch{rows("a", 0, 3)}})
	if err != nil || replayed {
		t.Fatalf("%v, %v", replayed, err)
	}
	got, err := s.read(s.stream("a"))
	if err != nil {
		t.Fatal(err)
	}
	return exactly(got, 3)
}

func TestLostAnswersDoNotDouble(t *testing.T) {
	if err := lostAnswer(t, mutant{}); err != nil {
		t.Error(err)
	}
	if lostAnswer(t, mutant{newBatchID: true}) == nil {
		t.Error("a retry with a new batch id went unnoticed")
	}
}

func TestUnknownIsSticky(t *testing.T) {
	s, _, start := newRouterSite(t)
	r := start()
	r.local = &answers{Writer: s.w, lose: 1 << 30}
	ctx, cancel := context.WithCancel(context.Background())
	d := &refusing{localIntake: r.local}
	r.local = d
	d.after = func() { cancel() }
	_, err := r.Write(ctx, Write{Org: testOrg, Batches: []*millstream.Batch{rows("a", 0, 3)}})
	if !errors.Is(err, wal.ErrUnknown) || millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a refusal after an unknown outcome: %v", err)
	}
	s.want(s.stream("a"), 3)
}

// refusing refuses from the second write on.
type refusing struct {
	localIntake
	n     int
	after func()
}

func (d *refusing) Write(ctx context.Context, b ...*millstream.Batch) (int, error) {
	if d.n++; d.n > 1 {
		d.after()
		return 0, millstream.Errorf(millstream.Unavailable, "refused")
	}
	return d.localIntake.Write(ctx, b...)
}
