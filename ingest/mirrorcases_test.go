package ingest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// want reads streams and checks that every record is there once and that no node is missing.
func (x *world) want(streams ...int) {
	x.t.Helper()
	if len(streams) == 0 {
		streams = []int{0, 1, 2}
	}
	got, err := x.read(x.mirror, streams, func() {})
	if err != nil {
		x.t.Fatal(err)
	}
	for k, stream := range streams {
		has := func(i int) int { return x.next[i][stream] }
		if err := x.check(stream, got.records[k], false, has, has); err != nil {
			x.t.Fatal(err)
		}
	}
	for _, m := range got.missing {
		x.t.Fatalf("node %s is missing: %v", m.WAL.Node, m.Err)
	}
}

func TestMirrorFetchesARowOnce(t *testing.T) {
	x := newWorld(t, 1, func(w *Writer) { w.sealRows = 100 })
	wire, s := x.wires[0], x.sites[0]
	total := int64(0)
	write := func(stream, n int) {
		x.write(0, stream, n)
		total += int64(n)
	}
	write(2, 3)
	x.want(2) // a head that was not read before comes as a segment
	total -= 3
	for i := range 90 {
		write([]int{0, 2}[i%2], 1+i%3)
		if i%4 == 0 {
			x.want(0, 2)
		}
	}
	x.want()
	if got := wire.rows.Load(); got != total {
		t.Errorf("%d rows came as batches, %d were written", got, total)
	}
	came := wire.bytes.Load()
	x.want()
	x.want(1)
	if wire.bytes.Load() != came {
		t.Errorf("%d bytes came of what was kept", wire.bytes.Load()-came)
	}
	write(0, 100) // sealed: the part comes again as one segment
	waitFor(t, "the seal", func() bool {
		s.w.mu.RLock()
		defer s.w.mu.RUnlock()
		parts := s.w.ranges[0].streams[x.ids[0]].parts
		return len(parts) == 1 && parts[0].sealed != nil
	})
	x.want(0)
	if got := wire.rows.Load(); got != total-100 {
		t.Errorf("%d rows came as batches instead of a segment", got-total+100)
	}
	m := x.mirror
	m.mu.Lock()
	if e := m.entries[entryKey{s.w.WAL(), x.ids[0]}]; len(e.pieces) != 1 || e.pieces[0].logs == nil {
		t.Errorf("%d pieces are kept beside the segment", len(e.pieces)-1)
	}
	m.mu.Unlock()
	came = wire.bytes.Load()
	x.flush(0)
	x.want()
	if wire.bytes.Load() != came {
		t.Errorf("%d bytes came of what is published", wire.bytes.Load()-came)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size != 0 {
		t.Errorf("%d bytes are kept of what is published", m.size)
	}
}

// TestMirrorSharesFetches: queries that come while one is under way wait for the next, which sees what was acknowledged before they came, and share it.
func TestMirrorSharesFetches(t *testing.T) {
	x := newWorld(t, 1, nil)
	var used atomic.Int64 // how often a query looked for what is kept
	x.mirror = x.newMirror(MirrorConfig{Now: func() time.Time {
		used.Add(1)
		return time.Now()
	}})
	x.write(0, 0, 5)
	began, go1 := make(chan struct{}), make(chan struct{})
	var once sync.Once
	x.wires[0].change = func(*Run) error { // what the first is given is decided
		once.Do(func() {
			close(began)
			<-go1
		})
		return nil
	}
	var queries sync.WaitGroup
	query := func(low int) {
		queries.Go(func() {
			got, err := x.read(x.mirror, []int{0}, func() {})
			if err != nil {
				t.Error(err)
				return
			}
			if n := len(got.records[0]); n < low {
				t.Errorf("%d records of %d", n, low)
			}
		})
	}
	query(5)
	<-began
	x.write(0, 0, 5)
	for range 5 {
		query(10)
	}
	waitFor(t, "the queries", func() bool { return used.Load() == 6 })
	close(go1)
	queries.Wait()
	if n := x.wires[0].asks.Load(); n != 2 {
		t.Errorf("6 queries made %d fetches", n)
	}
	if got := x.wires[0].rows.Load(); got != 10 {
		t.Errorf("%d rows came of 10", got)
	}
}

func TestMirrorEvicts(t *testing.T) {
	x := newWorld(t, 1, func(w *Writer) { w.sealRows = 20_000 })
	x.write(0, 0, 40_000)
	x.write(0, 1, 1000)
	waitFor(t, "the seal", func() bool {
		s := x.sites[0]
		s.w.room.mu.Lock()
		defer s.w.room.mu.Unlock()
		return s.w.room.sealing == 0
	})
	x.want(0, 1)
	x.mirror.cfg.Limit = x.mirror.size - 1
	for range 3 {
		x.want(0)
		x.want(1)
	}
	x.mirror.mu.Lock()
	if x.mirror.size > x.mirror.cfg.Limit || len(x.mirror.entries) != 1 {
		t.Errorf("%d bytes of %d streams are kept", x.mirror.size, len(x.mirror.entries))
	}
	x.mirror.mu.Unlock()
	if err := x.closed(); err != nil {
		t.Error(err)
	}
}

func TestMirrorOfARestartedNode(t *testing.T) {
	x := newWorld(t, 2, nil)
	for i := range 3 {
		for k := range 3 {
			x.write(0, k, 5)
			x.write(1, k, 5)
		}
		x.want()
		x.end(0, i%2 == 0)
		got, err := x.read(x.mirror, []int{0, 1, 2}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if kill := i%2 == 0; kill != (len(got.missing) == 1) { // a clean WAL has nothing unflushed
			t.Errorf("killed %v, missing %v", kill, got.missing)
		}
		x.start(0)
		x.want()
	}
}

// TestMirrorGivesUpOnASilentNode: it waits once for long, then for less, and the others' rows are there.
func TestMirrorGivesUpOnASilentNode(t *testing.T) {
	x := newWorld(t, 2, nil)
	x.mirror.patience = 2 * time.Second // the other node answers within
	x.write(0, 0, 5)
	x.write(1, 0, 5)
	x.want(0)
	x.wires[1].hang.Store(true)
	began := time.Now()
	got, err := x.read(x.mirror, []int{0}, func() {})
	if err != nil || len(got.missing) != 1 || !errors.Is(got.missing[0].Err, errSilent) || len(got.records[0]) != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	if took := time.Since(began); took < x.mirror.patience || took > time.Minute {
		t.Errorf("it took %s", took)
	}
	if !x.mirror.silent[got.missing[0].WAL.ID] {
		t.Error("a silent node is waited for as long again")
	}
	x.wires[1].hang.Store(false)
	waitFor(t, "the node that answers again", func() bool { // it is given little time as long as it counts as silent
		got, err := x.read(x.mirror, []int{0}, func() {})
		return err == nil && len(got.missing) == 0
	})
	x.want(0)
	if len(x.mirror.silent) > 0 {
		t.Error("a node that answers counts as silent")
	}
	x.wires[1].w.Store(nil)
	got, err = x.read(x.mirror, []int{0}, func() {})
	if err != nil || len(got.missing) != 1 || millstream.KindOf(got.missing[0].Err) != millstream.Unavailable {
		t.Errorf("a node that refuses: %+v, %v", got, err)
	}
}

// TestMirrorEndsWithItsQueries: a fetch that nobody waits for any more is given up.
func TestMirrorEndsWithItsQueries(t *testing.T) {
	x := newWorld(t, 1, nil)
	x.wires[0].hang.Store(true)
	w := x.sites[0].model.save().Wals[x.sites[0].w.WAL()]
	wals := []store.WALState{{ID: x.sites[0].w.WAL(), Incarnation: w.Incarnation}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := x.mirror.Unflushed(ctx, wals, x.ids[:1], func(int, Unflushed) {})
			ended <- err
		}()
	}
	waitFor(t, "the fetch", func() bool { return x.wires[0].silent.Load() == 1 })
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	waitFor(t, "its end", func() bool {
		x.mirror.mu.Lock()
		defer x.mirror.mu.Unlock()
		return x.mirror.entries[entryKey{wals[0].ID, x.ids[0]}].flight == nil
	})
	x.wires[0].hang.Store(false)
	x.write(0, 0, 1)
	x.want(0)
}

// TestMirrorMendsAMisfit: a holder that cuts its runs in another way than before is read anew.
func TestMirrorMendsAMisfit(t *testing.T) {
	x := newWorld(t, 1, func(w *Writer) { w.sealRows = 30 })
	x.wires[0].change = func(r *Run) error {
		if r.Batch != nil {
			r.Part = 1 // all of one part, so that the mirror joins what the holder will seal apart
		}
		return nil
	}
	for range 45 {
		x.write(0, 0, 1)
		x.want(0)
	}
	waitFor(t, "the seal", func() bool {
		s := x.sites[0]
		s.w.room.mu.Lock()
		defer s.w.room.mu.Unlock()
		return s.w.room.sealing == 0
	})
	x.want(0)
	x.write(0, 0, 30)
	x.want(0)
}

func TestMirrorReportsAStaleSnapshot(t *testing.T) {
	x := newWorld(t, 1, nil)
	x.write(0, 0, 5)
	x.want(0)
	stale := func() {
		x.write(0, 0, 5)
		x.flush(0)
		x.sites[0].w.reap()
	}
	if _, err := x.readOnce(x.mirror, []int{0}, stale); !errors.Is(err, ErrStale) {
		t.Errorf("a snapshot from before a publish whose rows are gone: %v", err)
	}
	x.want(0)
}

// BenchmarkUnflushed is what a small query spends to find the unflushed rows of one stream: of this node's writer, and with a mirror before it.
func BenchmarkUnflushed(b *testing.B) {
	s := newSite(b)
	s.start()
	ids := []millstream.StreamID{s.stream("app")}
	s.append(rows("app", 0, 10))
	wals := []store.WALState{{ID: s.w.WAL()}}
	var u Unflushed
	b.Run("writer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			release := s.w.Hold()
			for _, w := range wals {
				got, err := s.w.Unflushed(b.Context(), w.ID, ids[0], w.Position)
				if err != nil {
					b.Fatal(err)
				}
				u.Logs = append(u.Logs[:0], got.Logs...)
			}
			release()
		}
	})
	b.Run("mirror", func(b *testing.B) {
		b.ReportAllocs()
		m := NewMirror(MirrorConfig{Writer: s.w})
		for b.Loop() {
			release := m.Hold()
			if _, _, err := m.Unflushed(b.Context(), wals, ids, func(_ int, got Unflushed) { u.Logs = append(u.Logs[:0], got.Logs...) }); err != nil {
				b.Fatal(err)
			}
			release()
		}
	})
}
