package compactor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

var today = time.Now().UTC().Add(-time.Minute)

// app publishes n flushes of 100 records of a stream each.
func (w *world) app(n int) store.Stream {
	w.t.Helper()
	st := w.stream(millstream.Logs, "app")
	for i := range n {
		w.flush(part{st, rows(100*i, 100, today)})
	}
	return st
}

func TestCompactMergesAndKeepsEveryRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	before := w.live(st)
	c := w.compactor(nil)
	var warmed []millstream.SegmentID
	c.cfg.Warm = func(_ context.Context, s millstream.Segment) {
		warmed = append(warmed, s.ID)
		if got := w.live(st); len(got) != 6 {
			t.Errorf("the owner is told when %d segments are live: the merged one must not be yet", len(got))
		}
	}
	check(t, c.Compact(ctx, string(st.ID)))
	got := w.live(st)
	if len(got) != 1 || got[0].Level != young || got[0].Rows != 600 || got[0].WAL != "" {
		t.Fatalf("live: %+v, want one young segment of 600 rows", got)
	}
	newest := slices.MaxFunc(before, func(a, b millstream.Segment) int { return cmp.Compare(a.Written, b.Written) }).Written
	if got[0].Written != newest {
		t.Errorf("written at %d, want when its newest input was, %d", got[0].Written, newest)
	}
	if len(warmed) != 1 || warmed[0] != got[0].ID {
		t.Errorf("told of %v, want the merged segment", warmed)
	}
	wantSequences(t, w.sequences(st), 600)
	check(t, c.Compact(ctx, string(st.ID)))
	if again := w.live(st); len(again) != 1 || again[0].ID != got[0].ID {
		t.Fatalf("a second round changed %v", again)
	}
}

func TestCompactMetricsKeepsTheSampleWrittenLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Metrics, millstream.MetricStream)
	labels, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "up"}})
	check(t, err)
	key := string(labels)
	at := today.UnixMilli()
	for i := range 4 {
		w.flush(part{st, &millstream.Batch{Samples: &millstream.Samples{Series: []string{key}, Ref: []uint32{0, 0}, Time: []int64{at, at + int64(i) + 1}, Value: []float64{float64(i), 1}}}})
	}
	check(t, w.compactor(nil).Compact(ctx, string(st.ID)))
	got := w.live(st)
	if len(got) != 1 || got[0].Rows != 5 {
		t.Fatalf("live %+v, want one segment of 5 samples", got)
	}
	r, err := metrics.Open(w.reader(got[0].Data), got[0].Data.Length, w.reader(got[0].Index), got[0].Index.Length)
	check(t, err)
	series, err := r.Select(ctx, metrics.Query{Min: at, Max: at})
	check(t, err)
	it := metrics.NewIterator(series[0].Chunks)
	it.Next()
	if _, v := it.At(); v != 3 {
		t.Fatalf("the first sample is %v, want 3, which was written last", v)
	}
}

// Two compactors that are forced onto the same inputs: one wins, the other's output goes, and no record is counted twice or missed at any moment.
func TestTwoCompactorsOnTheSameInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	var both sync.WaitGroup
	both.Add(2)
	meet := func(step string) {
		if step == "uploaded" {
			both.Done()
			both.Wait()
		}
	}
	stop := make(chan struct{})
	var reads atomic.Int64
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := int64(0)
			for _, g := range w.live(st) {
				n += g.Rows
			}
			if reads.Add(1); n != 600 {
				t.Errorf("a reader saw %d rows", n)
			}
		}
	})
	a, b := w.compactor(nil), w.compactor(nil)
	a.hook, b.hook = meet, meet
	var wg sync.WaitGroup
	for _, c := range []*Compactor{a, b} {
		wg.Go(func() { check(t, c.Compact(ctx, string(st.ID))) })
	}
	wg.Wait()
	close(stop)
	reader.Wait()
	if got := w.live(st); len(got) != 1 {
		t.Fatalf("%d live segments, want 1", len(got))
	}
	if n := len(w.objects()); n != 6+2 {
		t.Fatalf("%d objects, want the 6 packs and the winner's 2: the loser's are deleted", n)
	}
	wantSequences(t, w.sequences(st), 600)
	t.Logf("%d reads", reads.Load())
}

// A compactor that dies between upload and publish changes nothing that readers see; what it left is found later, and nothing else is deleted with it.
func TestKilledBetweenUploadAndPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	dying, kill := context.WithCancel(ctx)
	c := w.compactor(nil)
	c.hook = func(step string) {
		if step == "uploaded" {
			kill()
		}
	}
	if err := c.Compact(dying, string(st.ID)); err == nil {
		t.Fatal("a compactor that was stopped says that it is done")
	}
	if got := w.live(st); len(got) != 6 {
		t.Fatalf("%d live segments, want the 6 inputs", len(got))
	}
	check(t, w.compactor(nil).Compact(ctx, string(st.ID)))
	if n := len(w.objects()); n != 6+2+2 {
		t.Fatalf("%d objects, want 6 packs, 2 of the merge and 2 orphans", n)
	}
	wrong := func(c *Config) { c.Now = func() time.Time { return time.Now().Add(25 * time.Hour) } } // the store's clock counts
	early, err := w.compactor(wrong).Reconcile(ctx, string(w.org))
	check(t, err)
	if early.Deleted != 0 {
		t.Fatalf("%d fresh objects were deleted: they might be about to be published", early.Deleted)
	}
	late := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond })
	rep, err := late.Reconcile(ctx, string(w.org))
	check(t, err)
	if rep.Orphans != 2 || rep.Deleted != 2 || len(rep.Missing) != 0 || rep.Objects != 10 {
		t.Fatalf("report %+v, want 2 orphans deleted of 10 objects", rep)
	}
	wantSequences(t, w.sequences(st), 600)
}

// lossy loses the replies of publishes that went through.
type lossy struct {
	*store.Store
	lost atomic.Int64
}

func (l *lossy) ReplaceSegments(ctx context.Context, r store.Replacement) error {
	if err := l.Store.ReplaceSegments(ctx, r); err != nil {
		return err
	}
	if l.lost.Add(1) < 3 {
		return errors.New("the connection broke")
	}
	return nil
}

func TestLostRepliesOfAPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(4)
	l := &lossy{Store: w.store}
	check(t, w.compactor(func(c *Config) { c.Catalog = l }).Compact(ctx, string(st.ID)))
	if got := w.live(st); len(got) != 1 || l.lost.Load() != 3 {
		t.Fatalf("%d live segments after %d publishes, want 1 after 3", len(got), l.lost.Load())
	}
	wantSequences(t, w.sequences(st), 400)
}

func TestStreamDeletedDuringAMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(4)
	c := w.compactor(nil)
	c.hook = func(step string) {
		if step == "uploaded" {
			w.delete(st)
		}
	}
	check(t, c.Compact(ctx, string(st.ID)))
	if got := w.live(st); len(got) != 0 {
		t.Fatalf("%d live segments of a deleted stream", len(got))
	}
	if n := len(w.objects()); n != 4 {
		t.Fatalf("%d objects, want the 4 packs", n)
	}
}

func TestFencedCompactorPublishesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(4)
	c := w.compactor(func(c *Config) { c.Incarnation = func() int64 { return 1 } })
	if _, err := w.store.StartNode(ctx, w.node); err != nil {
		t.Fatal(err)
	}
	if err := c.Compact(ctx, string(st.ID)); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("error %v, want fenced", err)
	}
	if got := w.live(st); len(got) != 4 {
		t.Fatalf("%d live segments, want 4", len(got))
	}
	if n := len(w.objects()); n != 4 {
		t.Fatalf("%d objects, want the 4 packs", n)
	}
}

// An older process of a node does not know by which retention its successor was started.
func TestFencedCompactorExpiresNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	w.flush(part{st, rows(0, 10, time.Now().Add(-10*24*time.Hour))})
	c := w.compactor(func(c *Config) { c.RetentionDays, c.Incarnation = 7, func() int64 { return 1 } })
	if _, err := w.store.StartNode(ctx, w.node); err != nil {
		t.Fatal(err)
	}
	if err := c.Compact(ctx, string(st.ID)); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("error %v, want fenced", err)
	}
	if got := w.live(st); len(got) != 1 {
		t.Fatalf("%d live segments, want 1", len(got))
	}
	if n := testutil.ToFloat64(c.metrics.expired); n != 0 {
		t.Fatalf("%v segments are counted as expired", n)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream, fallback int
		age              time.Duration
		live             int
	}{
		"the installation's": {fallback: 30, age: 31 * 24 * time.Hour},
		"kept":               {fallback: 30, age: 29 * 24 * time.Hour, live: 1},
		"the stream's own":   {stream: 7, fallback: 30, age: 8 * 24 * time.Hour},
		"longer than usual":  {stream: 90, fallback: 30, age: 60 * 24 * time.Hour, live: 1},
		"for ever":           {age: 3000 * 24 * time.Hour, live: 1},
		"a million days":     {fallback: 1_000_000, age: time.Hour, live: 1}, // as an organization may have: more than 64 bits hold of nanoseconds
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			st := w.stream(millstream.Logs, "app")
			if c.stream > 0 {
				if _, err := w.store.UpdateStream(ctx, st.ID, store.StreamPatch{RetentionDays: &c.stream}, entry(w)); err != nil {
					t.Fatal(err)
				}
			}
			w.flush(part{st, rows(0, 10, time.Now().Add(-c.age))})
			check(t, w.compactor(func(cfg *Config) { cfg.RetentionDays = c.fallback }).Compact(ctx, string(st.ID)))
			if got := w.live(st); len(got) != c.live {
				t.Fatalf("%d live segments, want %d", len(got), c.live)
			}
		})
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, web := w.stream(millstream.Logs, "app"), w.stream(millstream.Logs, "web")
	shared := w.flush(part{app, rows(0, 10, today)}, part{web, rows(0, 10, today)})[0].Data.Key
	w.flush(part{app, rows(10, 10, today)})
	w.delete(app)
	c := w.compactor(nil)
	c.cfg.Grace = time.Hour
	check(t, c.Collect(ctx))
	if n := len(w.objects()); n != 2 {
		t.Fatalf("%d objects before the grace is over, want 2", n)
	}
	c.cfg.Grace = 0
	pin := uuid.NewString()
	check(t, w.store.PinSnapshot(ctx, pin, time.Now().Add(-time.Hour)))
	check(t, c.Collect(ctx))
	if n := len(w.objects()); n != 2 {
		t.Fatalf("%d objects while a snapshot from before is pinned, want 2", n)
	}
	check(t, w.store.UnpinSnapshot(ctx, pin))
	check(t, c.Collect(ctx))
	if got := w.objects(); len(got) != 1 || got[0] != shared {
		t.Fatalf("objects %v, want the one that web's segment shares", got)
	}
	wantSequences(t, w.sequences(web), 10)
	w.delete(web)
	check(t, c.Collect(ctx))
	if got := w.objects(); len(got) != 0 {
		t.Fatalf("objects %v, want none", got)
	}
}

// A node that dies between deleting objects and forgetting them: the next one deletes them again, which does no harm.
func TestCollectIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(3)
	w.delete(st)
	dying, kill := context.WithCancel(ctx)
	c := w.compactor(nil)
	c.cfg.Grace = 0
	c.hook = func(step string) {
		if step == "delete" {
			kill()
		}
	}
	if err := c.Collect(dying); err == nil {
		t.Fatal("a collection that was stopped says that it is done")
	}
	var wg sync.WaitGroup
	for range 3 {
		other := w.compactor(nil)
		other.cfg.Grace = 0
		wg.Go(func() { check(t, other.Collect(ctx)) })
	}
	wg.Wait()
	keys, err := w.store.Garbage(ctx, 10)
	if check(t, err); len(keys) != 0 || len(w.objects()) != 0 {
		t.Fatalf("garbage %v and objects %v are left", keys, w.objects())
	}
}

func TestReconcileDoesNotBelieveTooManyOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(3)
	for i := range fewOrphans + 1 {
		key := fmt.Sprintf("segments/%s/logs/%s/%s-1-%d.parquet", w.org, st.ID, uuid.NewString(), i)
		check(t, w.bucket.Put(ctx, key, emptyReader(), 0))
	}
	late := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond })
	rep, err := late.Reconcile(ctx, string(w.org))
	check(t, err)
	if rep.Orphans != fewOrphans+1 || rep.Deleted != 0 {
		t.Fatalf("report %+v: nothing may be deleted", rep)
	}
}

func TestReconcileNamesMissingObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(3)
	lost := w.live(st)[1].Data.Key
	check(t, w.bucket.Delete(ctx, lost))
	rep, err := w.compactor(nil).Reconcile(ctx, string(w.org))
	check(t, err)
	if len(rep.Missing) != 1 || rep.Missing[0] != lost {
		t.Fatalf("missing %v, want %s", rep.Missing, lost)
	}
	if n := len(w.live(st)); n != 3 {
		t.Fatalf("%d live segments: a missing object changes nothing", n)
	}
}
