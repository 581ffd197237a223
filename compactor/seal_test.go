package compactor

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// agedCatalog lets all that was written be as old as a seal wants it.
type agedCatalog struct{ *store.Store }

func (a agedCatalog) MergeCandidates(ctx context.Context, id millstream.StreamID) ([]store.Candidate, error) {
	all, err := a.Store.MergeCandidates(ctx, id)
	for i := range all {
		all[i].Age += sealAge
	}
	return all, err
}

func (a agedCatalog) SealDay(ctx context.Context, stream millstream.StreamID, day int64, _ time.Duration, least int) (int, error) {
	return a.Store.SealDay(ctx, stream, day, 0, least)
}

// TestSealedDaysAreReadAndKept: a day that is at rest is sealed, its records are read as before, late ones join them, and no object is taken for an orphan.
func TestSealedDaysAreReadAndKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	at := time.Now().Add(-5 * 24 * time.Hour).Truncate(24 * time.Hour)
	const target = 2 // bytes: each segment is large enough, nothing is merged
	c := w.compactor(func(cfg *Config) {
		cfg.Catalog, cfg.TargetSize, cfg.OrphanAge, cfg.Grace = agedCatalog{w.store}, target, time.Nanosecond, time.Nanosecond
	})
	c.knownSince = time.Now().Add(-sealQuiet)
	put := func(first int, at time.Time) { w.flush(part{st, rows(first, 10, at)}) }
	for i := range leastSeal - 1 {
		put(10*i, at.Add(time.Duration(i)*time.Minute))
	}
	check(t, c.Seal(ctx, string(st.ID)))
	if n := testutil.ToFloat64(c.metrics.manifests); n != 0 {
		t.Fatalf("%v manifests of too few segments", n)
	}
	put(10*(leastSeal-1), at.Add(time.Hour))
	check(t, c.Seal(ctx, string(st.ID)))
	if days, segments := testutil.ToFloat64(c.metrics.manifests), testutil.ToFloat64(c.metrics.sealed); days != 1 || segments != leastSeal {
		t.Fatalf("%v manifests of %v segments, want 1 of %d", days, segments, leastSeal)
	}
	if rows, err := w.store.MergeCandidates(ctx, st.ID); err != nil || len(rows) != 0 {
		t.Fatalf("%d rows are left, %v", len(rows), err)
	}
	put(10*leastSeal, at.Add(2*time.Hour)) // late
	check(t, c.Seal(ctx, string(st.ID)))
	wantSequences(t, w.sequences(st), 10*leastSeal+10)
	report, err := c.Reconcile(ctx, string(w.org))
	if err != nil || report.Orphans != 0 || len(report.Missing) != 0 || report.Objects != leastSeal+1 {
		t.Fatalf("%+v, %v", report, err)
	}
	w.delete(st)
	for i := 0; len(w.objects()) > 0; i++ {
		if i == 100 {
			t.Fatalf("%d objects of a deleted stream are left", len(w.objects()))
		}
		check(t, c.Collect(ctx))
	}
}

// TestNothingIsSealedBesideAnOlderRelease, which would not find it and would take its objects for orphans: not while such a node has a row, and not until it has had the
// time to stop after it.
func TestNothingIsSealedBesideAnOlderRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	at := time.Now().Add(-5 * 24 * time.Hour).Truncate(24 * time.Hour)
	for i := range leastSeal {
		w.flush(part{st, rows(10*i, 10, at.Add(time.Duration(i)*time.Minute))})
	}
	c := w.compactor(func(cfg *Config) { cfg.Catalog, cfg.TargetSize = agedCatalog{w.store}, 2 })
	sealed := func(want float64) {
		t.Helper()
		check(t, c.Seal(ctx, string(st.ID)))
		if n := testutil.ToFloat64(c.metrics.sealed); n != want {
			t.Fatalf("%v segments are sealed, want %v", n, want)
		}
	}
	quiet := func() { c.knownSince = c.knownSince.Add(-sealQuiet) }
	sealed(0) // nothing is known of the time before the start
	quiet()
	older := w.node // a heartbeat of a release that has no such column leaves it as it is by default
	older.ID = "node-0"
	older.Incarnation = 0
	if _, err := w.store.StartNode(ctx, older); err != nil {
		t.Fatal(err)
	}
	w.exec(`UPDATE nodes SET knows = DEFAULT WHERE id = 'node-0'`)
	sealed(0)
	check(t, w.store.RemoveNode(ctx, older.ID, 1))
	sealed(0)
	quiet()
	sealed(leastSeal)
}

func TestRestingDays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	day := func(ago int) int64 { return floorDiv(now.UnixNano(), dayLength) - int64(ago) }
	of := func(ago, n int, change func(c *store.Candidate)) (out []store.Candidate) {
		for i := range n {
			c := store.Candidate{Age: sealAge}
			c.Level, c.MinTime = grown, day(ago)*dayLength+int64(i)
			c.MaxTime = c.MinTime + 10
			if change != nil {
				change(&c)
			}
			out = append(out, c)
		}
		return out
	}
	var all []store.Candidate
	for _, some := range [][]store.Candidate{
		of(9, leastSeal, nil),
		of(8, leastSeal-1, nil),
		of(7, leastSeal, func(c *store.Candidate) { c.Level = young }),            // to be merged
		of(6, leastSeal, func(c *store.Candidate) { c.Kept = true }),              // sealed already
		of(5, leastSeal, func(c *store.Candidate) { c.MinTime -= 2 * dayLength }), // of no day
		of(4, leastSeal, func(c *store.Candidate) { c.Age = sealAge - 1 }),        // a flush may be repeated
		of(3, leastSeal+5, nil),
		of(2, leastSeal, nil), // ended 36 hours ago
	} {
		all = append(all, some...)
	}
	got := restingDays(all, now, DefaultTargetSize)
	if len(got) != 2 || got[0] != day(9) || got[1] != day(3) {
		t.Fatalf("%v, want %v", got, []int64{day(9), day(3)})
	}
}

// TestMetricsAreNotMergedOverSealedOnes: of samples with one time the one written last is kept, also if what was written between two inputs is sealed.
func TestMetricsAreNotMergedOverSealedOnes(t *testing.T) {
	t.Parallel()
	metric := func(id string, written int64) store.Candidate {
		c := store.Candidate{Age: time.Hour}
		c.ID, c.Signal, c.Written, c.MinTime, c.MaxTime = millstream.SegmentID(id), millstream.Metrics, written, 0, 100
		return c
	}
	first, between, last := metric("a", 1), metric("b", 2), metric("c", 3)
	now := time.Unix(0, 3*dayLength)
	if got := Plan([]store.Candidate{first, last}, now, DefaultTargetSize); len(got) != 1 || len(got[0].Inputs) != 2 {
		t.Fatalf("%+v, want one merge of both", got)
	}
	between.Kept = true
	if got := Plan([]store.Candidate{first, last, between}, now, DefaultTargetSize); len(got) != 0 {
		t.Fatalf("%+v, want none", got)
	}
}
