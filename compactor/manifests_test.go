package compactor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// sealedDays is a world with a stream of so many sealed days of 16 segments each, and one more day that is not sealed.
func sealedDays(t *testing.T, days int) (*world, store.Stream) {
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	w.register(st)
	first := time.Now().AddDate(0, 0, -days-5).Truncate(24 * time.Hour)
	for day := range days + 1 {
		at := first.AddDate(0, 0, day)
		for i := range leastSeal {
			w.flush(part{st, rows(100*day+i, 1, at.Add(time.Duration(i)*time.Minute))})
		}
		if day == days {
			break
		}
		if n, err := w.store.SealDay(ctx, st.ID, floorDiv(at.UnixNano(), dayLength), 0, leastSeal); err != nil || n != leastSeal {
			t.Fatalf("%d segments were sealed, %v", n, err)
		}
	}
	return w, st
}

// manifestReads is how many manifests were read, wherever from.
func (w *world) manifestReads() (n int) {
	w.t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(w.store.Collector())
	families, err := r.Gather()
	check(w.t, err)
	for _, f := range families {
		if f.GetName() == "millstream_store_manifests_read_total" {
			for _, m := range f.GetMetric() {
				n += int(m.GetCounter().GetValue())
			}
			return n
		}
	}
	w.t.Fatal("reads of manifests are not counted")
	return 0
}

// TestReconciliationReadsEachManifestOnce, however many pages of objects there are: also with orphans, and once more if an object is lost.
func TestReconciliationReadsEachManifestOnce(t *testing.T) {
	t.Parallel()
	const days, orphans = 6, 20
	w, _ := sealedDays(t, days)
	c := w.compactor(func(cfg *Config) { cfg.OrphanAge = time.Nanosecond })
	c.page = 3 // some 40 pages, each of which may have objects of all days
	reconcile := func(most int) Report {
		t.Helper()
		before := w.manifestReads()
		report, err := c.Reconcile(ctx, string(w.org))
		check(t, err)
		if n := w.manifestReads() - before; n < days || n > most {
			t.Errorf("%d reads of %d manifests, want %d at most", n, days, most)
		}
		return report
	}
	if r := reconcile(days); r.Objects != (days+1)*leastSeal || r.Orphans != 0 || len(r.Missing) != 0 {
		t.Errorf("%+v", r)
	}
	some := w.objects()
	for _, key := range some[:orphans] {
		check(t, w.bucket.Put(ctx, strings.TrimSuffix(key, ".pack")+"0.pack", strings.NewReader("x"), 1))
	}
	if r := reconcile(days); r.Orphans != orphans || r.Deleted != orphans {
		t.Errorf("%+v", r)
	}
	check(t, w.bucket.Delete(ctx, some[len(some)/2], some[len(some)-1]))
	if r := reconcile(2 * days); len(r.Missing) != 2 || r.Orphans != 0 {
		t.Errorf("%+v", r)
	}
}

// TestADamagedManifestIsPassedOver by the collection and the reconciliation, which say so; whatever else is dead goes, and its own objects stay.
func TestADamagedManifestIsPassedOver(t *testing.T) {
	t.Parallel()
	const days = 3
	w, st := sealedDays(t, days)
	var log bytes.Buffer
	c := w.compactor(func(cfg *Config) {
		cfg.OrphanAge, cfg.Grace, cfg.Log = time.Nanosecond, time.Nanosecond, slog.New(slog.NewTextHandler(&log, nil))
	})
	w.exec("UPDATE manifests SET data = substring(data FROM 1 FOR length(data) - 1) WHERE day = (SELECT min(day) FROM manifests)")
	w.exec("UPDATE manifests SET state = 'expired', dead_at = now() - interval '1 hour' WHERE stream_id = $1", string(st.ID))
	check(t, c.Collect(ctx))
	if n := len(w.objects()); n != 2*leastSeal {
		t.Errorf("%d objects are left, want those of a damaged day and of one that is not dead", n)
	}
	report, err := c.Reconcile(ctx, string(w.org))
	if err != nil || report.Orphans != 0 || report.Objects != 2*leastSeal {
		t.Errorf("%+v, %v", report, err)
	}
	for _, work := range []string{"collect", "reconcile"} {
		if n := testutil.ToFloat64(c.metrics.unreadable.WithLabelValues(work)); n != 1 {
			t.Errorf("%s counted %v damaged manifests, want 1", work, n)
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "work="+work) {
			t.Errorf("%s does not say that a manifest is damaged: %s", work, log.String())
		}
	}
}

// TestOutdatedSealedIndexesAreBuilt from manifests that are unsealed when their turn comes; a damaged one is passed over.
func TestOutdatedSealedIndexesAreBuilt(t *testing.T) {
	t.Parallel()
	const days = 3
	w, st := sealedDays(t, days)
	w.exec("UPDATE manifests SET data = substring(data FROM 1 FOR length(data) - 1) WHERE day = (SELECT max(day) FROM manifests)")
	w.index(st, "message")
	before := w.manifestReads()
	c := w.compactor(old)
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	built := 0
	c.hook = func(step string) {
		if step == "built" {
			if built++; built == leastSeal+leastSeal/2 { // after the day that was not sealed and the damaged one, within the next
				stop()
			}
		}
	}
	if err := c.RebuildIndexes(stopped, string(w.org)); err == nil {
		t.Error("a round that was stopped, and could not read a manifest, has no error")
	}
	if n := w.manifestReads() - before; n != 2 {
		t.Errorf("%d manifests were read when the round was stopped, want 2 of %d", n, days)
	}
	if err := c.RebuildIndexes(ctx, string(w.org)); !errors.Is(err, store.ErrUnreadable) || built < days*leastSeal {
		t.Errorf("%d indexes were built: %v", built, err)
	}
	if n := testutil.ToFloat64(c.metrics.unreadable.WithLabelValues("index_rebuild")); n != 2 {
		t.Errorf("counted %v damaged manifests, want 1 in each round", n)
	}
	rest, err := w.store.OutdatedIndexes(ctx, w.org, nil, 100)
	if err != nil || len(rest) != 0 {
		t.Errorf("%d indexes are still outdated, %v", len(rest), err)
	}
}
