package ingest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/store"
)

func TestDatabaseAway(t *testing.T) {
	s := newSite(t)
	s.start()
	s.append(rows("known", 0, 1))
	id := s.stream("known")
	s.model.setDown(true)
	s.append(rows("known", 1, 1))
	if err := s.w.Append(context.Background(), rows("unknown", 0, 1)); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("an unknown stream without a database: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := s.w.Flush(ctx); err == nil {
		t.Error("a flush without a database succeeded")
	}
	s.append(rows("known", 2, 1))
	s.model.setDown(false)
	s.want(id, 3)
	s.flush()
	s.want(id, 3)
}

func TestObjectStoreAway(t *testing.T) {
	s := newSite(t)
	faulty := &bucket{Bucket: s.bucket}
	s.bucket = faulty
	s.change = func(c *WriterConfig) { c.BufferTotal = 256 << 10; c.BufferSize = 256 << 10 }
	s.start()
	id := s.stream("app")
	faulty.set(func(b *bucket) { b.down = true })
	n := 0
	var err error
	for ; err == nil && n < 1_000_000; n += 100 {
		if err = s.w.Append(context.Background(), rows("app", n, 100)); err != nil {
			break
		}
	}
	var e *millstream.Error
	if !errors.As(err, &e) || e.Kind != millstream.Unavailable || e.RetryAfter == 0 {
		t.Fatalf("after %d records: %v", n, err)
	}
	s.want(id, n)
	if memory, held := s.w.room.levels(); held > 256<<10 || memory > 128<<10 {
		t.Errorf("memory %d, held %d", memory, held)
	}
	faulty.set(func(b *bucket) { b.down = false })
	waitFor(t, "the backlog to drain", func() bool { return s.w.Append(context.Background(), rows("app", n, 1)) == nil })
	s.flush()
	s.want(id, n+1)
}

// bucket misbehaves on demand.
type bucket struct {
	blob.Bucket
	mu        sync.Mutex
	down      bool
	loseReply int
	failPuts  int
	puts      int
}

func (b *bucket) Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error {
	b.mu.Lock()
	b.puts++
	down, lose, fail := b.down, b.loseReply > 0, b.failPuts > 0
	if lose {
		b.loseReply--
	}
	if fail {
		b.failPuts--
	}
	b.mu.Unlock()
	if down || fail {
		return millstream.Errorf(millstream.Unavailable, "the object store is away")
	}
	if err := b.Bucket.Put(ctx, key, r, size); err != nil || !lose {
		return err
	}
	return millstream.Errorf(millstream.Timeout, "no answer")
}

func (b *bucket) set(f func(*bucket)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

func TestUncertainUploads(t *testing.T) {
	s := newSite(t)
	b := &bucket{Bucket: s.bucket}
	s.bucket = b
	s.start()
	id := s.stream("app")
	s.append(rows("app", 0, 10))
	b.set(func(b *bucket) { b.loseReply, b.puts = 1, 0 })
	s.flush()
	if b.puts != 1 {
		t.Errorf("%d puts: a stored object whose reply was lost is found by asking", b.puts)
	}
	s.append(rows("app", 10, 10))
	b.set(func(b *bucket) { b.failPuts = 2 })
	s.flush()
	s.want(id, 20)
	if b.puts != 4 {
		t.Errorf("%d puts: a failed one gets a new attempt", b.puts)
	}
}

func TestLostPublishReply(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	s.append(rows("app", 0, 10))
	s.model.losePublish = 1
	s.flush()
	s.want(id, 10)
	if o := s.model.outcomes(); len(o) != 1 || o[0] != store.Already {
		t.Errorf("outcomes %v", o)
	}
}

// TestFencedWriterStays: it takes nothing, gives its memory back and keeps its log, until it is stopped, which is then no orderly end.
func TestFencedWriterStays(t *testing.T) {
	for _, by := range []string{"publish", "heartbeat"} {
		t.Run(by, func(t *testing.T) {
			s := newSite(t)
			s.start()
			s.append(rows("app", 0, 10))
			s.model.start("node", 0)
			if by == "publish" {
				if err := s.w.Flush(context.Background()); !errors.Is(err, ErrFenced) {
					t.Fatalf("flush: %v", err)
				}
				s.w.kickFlush()
			} else {
				s.w.Beat(s.model.beat("node", s.incarnation))
			}
			if err := s.w.Append(context.Background(), rows("app", 10, 1)); millstream.KindOf(err) != millstream.Unavailable || !errors.Is(err, ErrFenced) {
				t.Errorf("a fenced writer takes writes: %v", err)
			}
			id := s.stream("app")
			waitFor(t, "the rows are dropped", func() bool {
				s.w.mu.RLock()
				defer s.w.mu.RUnlock()
				return len(s.w.ranges) == 1 && len(s.w.ranges[0].streams) == 0
			})
			if _, err := s.w.Unflushed(context.Background(), s.w.WAL(), id, 0); !errors.Is(err, ErrNotReady) {
				t.Errorf("rows of a fenced writer: %v", err)
			}
			if memory, _ := s.w.room.levels(); memory != 0 {
				t.Errorf("%d bytes are kept", memory)
			}
			if err := s.w.Flush(context.Background()); !errors.Is(err, ErrFenced) {
				t.Errorf("flush: %v", err)
			}
			select {
			case err := <-s.stopped:
				t.Fatalf("Run ended: %v", err)
			default:
			}
			if err := s.stop(); !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), s.dir) {
				t.Errorf("Run: %v", err)
			}
			s.start() // the next incarnation of the directory publishes it
			s.flush()
			s.want(s.stream("app"), 10)
		})
	}
}

func TestCopiedDirectoryIsRefused(t *testing.T) {
	s := newSite(t)
	s.start()
	s.append(rows("app", 0, 1))
	s.stop()
	for id, w := range s.model.state.Wals {
		w.Identity = "another"
		s.model.state.Wals[id] = w
	}
	if _, err := s.tryStart(); !errors.Is(err, store.ErrIdentity) {
		t.Errorf("%v", err)
	}
}

func TestMarkerIsThereBeforeTheFirstAcknowledgement(t *testing.T) {
	s := newSite(t)
	s.start()
	for range 2 {
		take, err := s.w.readMarker(context.Background(), s.w.markerKey(s.incarnation))
		if err != nil || take.Incarnation != s.incarnation || take.Node != "node" || take.ID != s.w.WAL() {
			t.Fatalf("%+v, %v", take, err)
		}
		s.kill()
		s.start()
	}
	markers := 0
	for range s.bucket.List(context.Background(), markerPrefix) {
		markers++
	}
	if markers != 1 {
		t.Errorf("%d markers: those of earlier starts must go", markers)
	}
}

func TestDeletedStream(t *testing.T) {
	s := newSite(t)
	s.start()
	s.append(rows("app", 0, 5))
	old := s.stream("app")
	s.model.deleteStream(old)
	s.w.Forget(old)
	s.append(rows("app", 0, 3))
	s.flush()
	id := s.stream("app")
	if id == old {
		t.Fatal("the stream was not made anew")
	}
	s.want(id, 3)
	if segments, _ := s.model.snapshot(old); len(segments) != 0 {
		t.Errorf("rows of the deleted stream were published: %+v", segments)
	}
}

func TestDatabaseWentBack(t *testing.T) {
	for _, held := range []bool{true, false} { // published ranges that are still buffered, or gone
		s := newSite(t)
		s.grace = 0
		if held {
			s.grace = time.Hour
		}
		s.start()
		id := s.stream("app")
		s.append(rows("app", 0, 10))
		s.flush()
		old := s.model.save()
		s.append(rows("app", 10, 10))
		s.flush()
		s.append(rows("app", 20, 10))
		s.flush()
		s.append(rows("app", 30, 10))
		s.w.Beat(s.model.beat("node", s.incarnation))
		s.model.failover(old)
		s.model.setDown(true) // so that the confirmation waits
		s.w.Beat(s.model.beat("node", s.incarnation))
		if s.w.Confirmed() {
			t.Fatal("another history was trusted at once")
		}
		if _, err := s.read(id); !errors.Is(err, ErrNotReady) {
			t.Errorf("a query before the confirmation: %v", err)
		}
		s.model.setDown(false)
		s.flush()
		s.want(id, 40)
		if !s.w.Confirmed() {
			t.Error("not confirmed")
		}
	}
}

func TestIdleWriterNoticesThatThePositionIsBehind(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	old := s.model.save()
	s.append(rows("app", 0, 10))
	s.flush()
	s.w.Beat(s.model.beat("node", s.incarnation))
	s.model.failover(old)
	s.model.state.System = "1" // the history looks the same: only the position tells
	s.w.Beat(s.model.beat("node", s.incarnation))
	waitFor(t, "the rows to be published again", func() bool {
		segments, _ := s.model.snapshot(id)
		return len(segments) > 0
	})
	s.want(id, 10)
}

func TestForgottenWALIsRestored(t *testing.T) {
	s := newSite(t)
	empty := s.model.save()
	s.start()
	s.append(rows("app", 0, 10))
	id := s.stream("app")
	streams := s.model.save().Streams
	s.flush()
	empty.Streams = streams
	s.model.failover(empty) // it knows neither the node's incarnation nor the WAL
	s.w.Beat(s.model.beat("node", s.incarnation))
	s.flush()
	s.want(id, 10)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	s := newSite(t)
	s.start()
	other := *s
	other.t = t
	if _, err := other.tryStart(); millstream.KindOf(err) != millstream.Conflict || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
}

func TestWALFullIsUnavailable(t *testing.T) {
	s := newSite(t)
	s.change = func(c *WriterConfig) { c.WAL.MaxDisk = 20_000 }
	s.start()
	var err error
	n := 0
	for ; err == nil && n < 1000; n += 10 {
		err = s.w.Append(context.Background(), rows("app", n, 10))
	}
	if !errors.Is(err, wal.ErrFull) || millstream.KindOf(err) != millstream.Unavailable {
		t.Fatalf("%v", err)
	}
	s.want(s.stream("app"), n-10)
}

// latePublish is a statement of a dead process that reaches the database after the next process has taken the WAL.
func latePublish(t *testing.T, m mutant) error {
	s := newSite(t)
	s.model.noFence = m.noFence
	s.start()
	id := s.stream("app")
	s.append(rows("app", 0, 10))
	s.model.delay = 1
	if err := s.w.flushAll(context.Background()); err == nil {
		t.Fatal("a publish without an answer counts as done")
	}
	s.kill()
	s.start()
	s.append(rows("app", 10, 10))
	s.model.arrive()
	within := time.Minute
	if m.noFence {
		within = time.Second // what came late is in the way for good
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := s.w.Flush(ctx); err != nil {
		return err
	}
	got, err := s.read(id)
	if err != nil {
		return err
	}
	return exactly(got, 20)
}

func TestLatePublishIsFenced(t *testing.T) {
	if err := latePublish(t, mutant{}); err != nil {
		t.Error(err)
	}
	if latePublish(t, mutant{noFence: true}) == nil {
		t.Error("a catalog without the fence went unnoticed")
	}
}

// TestWakingUp: after a long sleep a process asks whether it is still the one before it goes on.
func TestWakingUp(t *testing.T) {
	s := newSite(t)
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	s.change = func(c *WriterConfig) {
		c.FlushInterval = 5 * time.Millisecond
		c.Now = func() time.Time { return time.Unix(0, now.Load()) }
	}
	s.start()
	s.model.start("node", 0)
	time.Sleep(30 * time.Millisecond)
	if s.w.phaseNow() != running {
		t.Fatal("an idle writer has nothing to ask")
	}
	now.Add(int64(time.Minute))
	waitFor(t, "the writer knows that it is fenced", func() bool { return s.w.phaseNow() == fenced })
	if err := s.stop(); err != nil {
		t.Errorf("nothing was written, and Run: %v", err)
	}
}

// TestStopWithoutTheDatabase: an end that leaves rows unpublished is an error, which says where they are.
func TestStopWithoutTheDatabase(t *testing.T) {
	s := newSite(t)
	s.start()
	s.append(rows("app", 0, 10))
	id := s.w.WAL()
	s.model.setDown(true)
	err := s.stop()
	if err == nil || !strings.Contains(err.Error(), string(id)) || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("Run: %v", err)
	}
	s.model.setDown(false)
	s.start()
	s.flush()
	s.want(s.stream("app"), 10)
}
