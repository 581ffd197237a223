package compactor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/store"
)

// observed is a compactor with a clock of its own, whose log and metrics are looked at.
type observed struct {
	*Compactor
	t    *testing.T
	now  time.Time
	said bytes.Buffer
	reg  *prometheus.Registry
}

func (w *world) observed(t *testing.T, change func(*Config)) *observed {
	t.Helper()
	c := &observed{t: t, now: time.Now(), reg: prometheus.NewRegistry()}
	c.Compactor = w.compactor(func(cfg *Config) {
		cfg.Log, cfg.Registerer, cfg.Now = slog.New(slog.NewTextHandler(&c.said, nil)), c.reg, func() time.Time { return c.now }
		if change != nil {
			change(cfg)
		}
	})
	return c
}

// round compacts a stream and wants so many segments to be known as missing after it.
func (c *observed) round(st store.Stream, missing int) {
	c.t.Helper()
	check(c.t, c.Compact(ctx, string(st.ID)))
	c.wantMissing(missing)
}

func (c *observed) wantMissing(n int) {
	c.t.Helper()
	families, err := c.reg.Gather()
	check(c.t, err)
	for _, f := range families {
		if f.GetName() == "millstream_compactor_missing_segments" {
			if got := f.GetMetric()[0].GetGauge().GetValue(); got != float64(n) {
				c.t.Fatalf("%v segments are known as missing, want %d\n%s", got, n, &c.said)
			}
			return
		}
	}
	c.t.Fatal("no metric of missing segments")
}

// errors are the lines of the log that an operator must look at.
func (c *observed) errors() (out []string) {
	for line := range strings.Lines(c.said.String()) {
		if strings.Contains(line, "level=ERROR") {
			out = append(out, line)
		}
	}
	return out
}

func (c *observed) failures() float64 {
	return testutil.ToFloat64(c.metrics.failures.WithLabelValues("nursery"))
}

// lose takes an object out of the store, and gives what puts it back.
func (w *world) lose(key string) (back func()) {
	w.t.Helper()
	r, err := w.bucket.Get(ctx, key, 0, -1)
	check(w.t, err)
	b, err := io.ReadAll(r)
	check(w.t, err)
	check(w.t, w.bucket.Delete(ctx, key))
	return func() { check(w.t, w.bucket.Put(ctx, key, bytes.NewReader(b), int64(len(b)))) }
}

func (w *world) liveIDs(st store.Stream) (out []millstream.SegmentID) {
	for _, g := range w.live(st) {
		out = append(out, g.ID)
	}
	return out
}

// A segment whose object was deleted by hand holds up no other, is told once, and is merged when the object is back.
func TestMergesGoOnWithoutAMissingObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	gone := w.live(st)[2]
	back := w.lose(gone.Data.Key)
	c := w.observed(t, nil)
	c.round(st, 1)
	c.round(st, 1)
	if got := w.live(st); len(got) != 2 || !slices.Contains(w.liveIDs(st), gone.ID) || got[0].Rows+got[1].Rows != 600 {
		t.Fatalf("live %+v, want the other five merged and %s as it was", got, gone.ID)
	}
	if _, err := c.cfg.Segments.Get(ctx, gone); !errors.Is(err, cache.ErrGone) {
		t.Fatalf("the segment is read: %v", err)
	}
	for i := range 4 { // what comes is merged
		w.flush(part{st, rows(600+100*i, 100, today)})
	}
	for ; c.now.Sub(time.Now()) < missingWait-time.Minute; c.now = c.now.Add(10 * time.Minute) {
		c.round(st, 1)
	}
	told := c.errors()
	if len(told) != 1 || c.failures() != 1 {
		t.Fatalf("%v merges failed and the log says %q, want one of each", c.failures(), told)
	}
	for _, want := range []string{string(w.org), string(st.ID), string(gone.ID), gone.Data.Key} {
		if !strings.Contains(told[0], want) {
			t.Errorf("the log does not name %s: %s", want, told[0])
		}
	}
	back()
	c.now = c.now.Add(missingWait)
	for i := range 3 {
		w.flush(part{st, rows(1000+100*i, 100, today)})
	}
	c.round(st, 0)
	if slices.Contains(w.liveIDs(st), gone.ID) || c.failures() != 1 || len(c.errors()) != 1 {
		t.Fatalf("it is not merged although its object is back:\n%s", &c.said)
	}
	wantSequences(t, w.sequences(st), 1300)
}

// staleCatalog lists the segments of a stream as they were when it was made, once.
type staleCatalog struct {
	*store.Store
	old []store.Candidate
}

func (s *staleCatalog) MergeCandidates(ctx context.Context, id millstream.StreamID) ([]store.Candidate, error) {
	if old := s.old; old != nil {
		s.old = nil
		return old, nil
	}
	return s.Store.MergeCandidates(ctx, id)
}

// Objects that went with their rows, after those were listed, are no loss.
func TestCollectedInputsAreNotMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(4)
	listed, err := w.store.MergeCandidates(ctx, st.ID)
	check(t, err)
	check(t, w.compactor(nil).Compact(ctx, string(st.ID)))
	check(t, w.compactor(func(c *Config) { c.Grace = time.Nanosecond }).Collect(ctx))
	c := w.observed(t, func(c *Config) { c.Catalog = &staleCatalog{w.store, listed} })
	c.round(st, 0)
	if n := testutil.ToFloat64(c.metrics.lost.WithLabelValues("nursery")); n != 1 || c.failures() != 0 || len(c.errors()) != 0 {
		t.Fatalf("%v lost races, %v failures, want 1 and 0:\n%s", n, c.failures(), &c.said)
	}
	wantSequences(t, w.sequences(st), 400)
}

// All inputs without their objects are found at once, and forgotten when they are no longer the stream's, or the stream is no longer this node's.
func TestMissingSegmentsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, other := w.app(6), w.stream(millstream.Logs, "web")
	for i, g := range w.live(st) {
		if i%2 == 0 {
			w.lose(g.Data.Key)
		}
	}
	c := w.observed(t, nil)
	c.round(st, 3)
	if len(c.errors()) != 3 || c.failures() != 1 {
		t.Fatalf("%v failures, want 1, and three errors:\n%s", c.failures(), &c.said)
	}
	c.round(other, 3)
	c.now = c.now.Add(2*missingWait + time.Second) // the rounds of the stream are made elsewhere
	c.wantMissing(0)
	c.round(other, 0)
	if len(c.missing) != 0 {
		t.Fatalf("%d segments of another node's stream are kept in mind", len(c.missing))
	}
	c.round(st, 3) // it is this node's again
	w.delete(st)
	c.round(st, 0)
}

// Who gives the records of a lost object up ends its rows, as docs/operations.md says; a sealed day is taken out first.
func TestALostObjectIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	g := w.flush(part{st, rows(10, 10, today)})[0]
	w.flush(part{st, rows(0, 10, today)})
	n, err := w.store.SealDay(ctx, st.ID, g.MaxTime/dayLength, 0, 1)
	if check(t, err); n != 2 {
		t.Fatalf("%d segments were sealed, want 2", n)
	}
	w.lose(g.Data.Key)
	c := w.observed(t, func(c *Config) { c.Grace = time.Nanosecond })
	w.exec("UPDATE manifests SET index_version = 0 WHERE state = 'live' AND $1 BETWEEN first_key AND last_key", g.Data.Key)
	check(t, c.RebuildIndexes(ctx, string(w.org)))
	w.exec("UPDATE segment_rows SET state = 'expired', dead_at = now() WHERE state = 'live' AND data_key = $1", g.Data.Key)
	wantSequences(t, w.sequences(st), 10)
	check(t, c.Collect(ctx))
	report, err := c.Reconcile(ctx, string(w.org))
	if check(t, err); len(report.Missing) != 0 || report.Objects != 1 {
		t.Fatalf("report %+v, want one object and none missing", report)
	}
}

// While the store fails nobody knows what is missing, and what was missing is still left out.
func TestAStoreThatFailsHasLostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(5)
	back := w.lose(w.live(st)[0].Data.Key)
	b := &failing{Memory: w.bucket}
	c := w.observed(t, func(c *Config) { c.Bucket = b })
	b.fails = true
	if err := c.Compact(ctx, string(st.ID)); err == nil || errors.Is(err, errMissing) {
		t.Fatalf("error %v, want the store's", err)
	}
	c.wantMissing(0)
	b.fails = false
	c.round(st, 1)
	c.round(st, 1)
	b.fails, c.now = true, c.now.Add(missingWait)
	c.round(st, 1)
	back()
	b.fails, c.now = false, c.now.Add(missingWait)
	c.round(st, 0)
	wantSequences(t, w.sequences(st), 500)
}

// failing is an object store that does not say what it has.
type failing struct {
	*blob.Memory
	fails bool
}

func (f *failing) Stat(ctx context.Context, key string) (blob.Info, error) {
	if f.fails {
		return blob.Info{}, millstream.Errorf(millstream.Unavailable, "the store is away")
	}
	return f.Memory.Stat(ctx, key)
}

// Of samples that several segments hold the one written last counts, so no merge jumps over a segment that may hold some, be its object there or not.
func TestMergesOfMetricsDoNotJumpOverAMissingObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Metrics, millstream.MetricStream)
	labels, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "up"}})
	check(t, err)
	at := today.UnixMilli()
	for i := range 9 {
		w.flush(part{st, &millstream.Batch{Samples: &millstream.Samples{Series: []string{string(labels)}, Ref: []uint32{0, 0}, Time: []int64{at, at + int64(i) + 1}, Value: []float64{float64(i), 1}}}})
	}
	all, err := w.store.MergeCandidates(ctx, st.ID)
	check(t, err)
	gone := all[4].Segment
	back := w.lose(gone.Data.Key)
	c := w.observed(t, nil)
	c.round(st, 1)
	c.round(st, 1)
	got := w.live(st)
	slices.SortFunc(got, func(a, b millstream.Segment) int { return int(a.Written - b.Written) })
	if len(got) != 3 || got[0].Rows != 5 || got[1].ID != gone.ID || got[2].Rows != 5 {
		t.Fatalf("live %+v, want four merged before %s and four after it", got, gone.ID)
	}
	back()
	c.now = c.now.Add(missingWait)
	c.round(st, 0)
}

// A day with a segment that is known to lack its object stays in rows, which can be ended by hand.
func TestADayWithAMissingObjectIsNotSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	at := time.Now().Add(-5 * 24 * time.Hour).Truncate(24 * time.Hour)
	for i := range leastSeal + 1 {
		w.flush(part{st, rows(10*i, 10, at)})
	}
	c := w.observed(t, func(c *Config) { c.Catalog, c.TargetSize = agedCatalog{w.store}, 2 })
	c.knownSince = time.Now().Add(-sealQuiet)
	g := w.live(st)[0]
	back := w.lose(g.Data.Key)
	c.miss(g, g.Data.Key)
	check(t, c.Seal(ctx, string(st.ID)))
	if n := len(w.rows(st)); n != leastSeal+1 {
		t.Fatalf("%d rows are left of %d", n, leastSeal+1)
	}
	back()
	c.now = c.now.Add(missingWait)
	c.round(st, 0)
	check(t, c.Seal(ctx, string(st.ID)))
	if n := len(w.rows(st)); n != 0 {
		t.Fatalf("%d rows are left of a day at rest", n)
	}
}

// Without its data a segment gets no index. That is told once, and others get theirs.
func TestMissingDataGetsNoIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	w.register(st)
	bad := w.flush(part{st, addresses(0, 100, today.Add(time.Second))})[0] // the newer, hence the first
	good := w.flush(part{st, addresses(100, 100, today)})[0]
	back := w.lose(bad.Data.Key)
	w.index(st, "addr")
	c := w.observed(t, old)
	for range 3 {
		check(t, c.RebuildIndexes(ctx, string(w.org)))
		c.wantMissing(1)
		c.now = c.now.Add(missingWait - time.Second)
	}
	if ids := w.liveIDs(st); len(ids) != 2 || !slices.Contains(ids, bad.ID) || slices.Contains(ids, good.ID) || len(c.errors()) != 1 {
		t.Fatalf("live are %v, want %s as it was and %s rebuilt, and one error:\n%s", ids, bad.ID, good.ID, &c.said)
	}
	back()
	c.now = c.now.Add(missingWait)
	check(t, c.RebuildIndexes(ctx, string(w.org)))
	if slices.Contains(w.liveIDs(st), bad.ID) {
		t.Fatal("no index is built although the data is back")
	}
	c.round(st, 0)
	wantSequences(t, w.sequences(st), 200)
}

func (w *world) rows(st store.Stream) []store.Candidate {
	w.t.Helper()
	all, err := w.store.MergeCandidates(ctx, st.ID)
	check(w.t, err)
	return all
}
