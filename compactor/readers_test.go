package compactor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/store"
)

// published is an intake of whose rows none is unflushed.
type published struct{}

func (published) Hold() func() { return func() {} }

func (published) Unflushed(context.Context, []store.WALState, []millstream.StreamID, func(int, ingest.Unflushed)) ([]ingest.Missing, func(), error) {
	return nil, nil, nil
}

func (published) Follow(context.Context, millstream.StreamID, func(ingest.Followed) error) error {
	return nil
}

// engine answers queries over the world's catalog and objects, from a cache of its own that keeps little.
func (w *world) engine() *query.Engine {
	w.t.Helper()
	segments, err := cache.Open(cache.Config{Bucket: w.bucket, Dir: w.t.TempDir(), Open: query.SegmentOpener(), MaxSize: 64 << 10})
	check(w.t, err)
	gate, err := sql.NewGate()
	check(w.t, err)
	e, err := query.New(query.Config{Catalog: w.store, Unflushed: published{}, Cache: segments, Gate: gate, TempDir: filepath.Join(w.t.TempDir(), "query")})
	check(w.t, err)
	w.t.Cleanup(func() {
		check(w.t, gate.Close())
		check(w.t, segments.Close())
	})
	return e
}

// figures is a sink for the numbers of one row.
type figures []float64

func (f *figures) Columns([]query.Column) error { return nil }

func (f *figures) Rows(r *query.Rows) error {
	for i := range r.Columns {
		switch c := &r.Columns[i]; {
		case c.Type == millstream.Double:
			*f = append(*f, c.Floats[0])
		default:
			*f = append(*f, float64(c.Ints[0]))
		}
	}
	return nil
}

// house is an installation in which an intake publishes numbered rows of all signals while compactors merge, expire and delete, and readers count.
type house struct {
	*world
	engine              *query.Engine
	logs, spans, points store.Stream
	key                 string
	begun, done         atomic.Int64 // flushes
	reads               atomic.Int64
}

// flushRows is how many rows of each signal a flush has.
const flushRows = 40

// publish makes the next flush; each but the first few has records that are past their retention as well.
func (h *house) publish() {
	n := int(h.begun.Add(1)) - 1
	b := rows(n*flushRows, flushRows, today)
	s := &millstream.Samples{Series: []string{h.key}}
	for i := range flushRows {
		s.Ref, s.Time, s.Value = append(s.Ref, 0), append(s.Time, today.UnixMilli()+int64(n*flushRows+i)), append(s.Value, float64(n*flushRows+i))
	}
	parts := []part{{h.logs, b}, {h.spans, b}, {h.points, &millstream.Batch{Samples: s}}}
	if n%5 == 4 {
		parts = append(parts, part{h.logs, rows(0, 10, today.Add(-40*24*time.Hour))})
	}
	h.flush(parts...)
	h.done.Add(1)
}

// read counts the rows of one signal: they are those of all flushes that had been published when it began, and of no part of one.
func (h *house) read(table, field string) {
	before := h.done.Load()
	var got figures
	req := query.Request{Org: h.org, Statement: fmt.Sprintf("SELECT count(*) AS n, sum(%s) AS s, max(%[1]s) AS m FROM %s", field, table),
		Range: millstream.TimeRange{Start: today.Add(-24 * time.Hour).UnixNano(), End: math.MaxInt64}}
	answer, err := h.engine.Run(ctx, req, &got)
	after := h.begun.Load()
	h.reads.Add(1)
	if err != nil || answer.Partial || len(got) != 3 {
		h.t.Errorf("%s: %v %v", table, got, err)
		return
	}
	if n := got[0]; n < float64(before*flushRows) || n > float64(after*flushRows) || int64(n)%flushRows != 0 || got[1] != n*(n-1)/2 || got[2] != n-1 {
		h.t.Errorf("%s: %v rows with the sum %v and the greatest %v, while %d to %d flushes of %d were published", table, n, got[1], got[2], before, after, flushRows)
	}
}

// compact is a round of a node with the role compactor.
func (h *house) compact(c *Compactor) {
	for _, st := range []store.Stream{h.logs, h.spans, h.points} {
		check(h.t, c.Compact(ctx, string(st.ID)))
	}
	check(h.t, c.Collect(ctx))
	_, err := c.Reconcile(ctx, string(h.org))
	check(h.t, err)
}

// Readers count rows of all signals while an intake goes on and two compactors merge in both tiers, expire and delete what has been dead for a second. The long version
// runs with MS_FAULTS=full.
func TestReadersSeeEveryRowOnce(t *testing.T) {
	t.Parallel()
	reads, limit := int64(500), 5*time.Minute
	if os.Getenv("MS_FAULTS") == "full" {
		reads, limit = 10_000, 30*time.Minute
	}
	w := newWorld(t)
	h := &house{world: w, engine: w.engine(), logs: w.stream(millstream.Logs, "app"), spans: w.stream(millstream.Traces, "app"), points: w.stream(millstream.Metrics, millstream.MetricStream)}
	key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "requests"}})
	check(t, err)
	h.key = string(key)
	for _, st := range []store.Stream{h.logs, h.spans} {
		_, err := w.store.RegisterFields(ctx, st.ID, []millstream.Field{{Name: "seq", Type: millstream.Int64, Seen: []millstream.Type{millstream.Int64}},
			{Name: "message", Type: millstream.String, Seen: []millstream.Type{millstream.String}}})
		check(t, err)
	}
	h.publish()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(pause time.Duration, f func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(pause):
					f()
				}
			}
		})
	}
	loop(10*time.Millisecond, h.publish)
	var tiers [grown + 1]atomic.Bool
	var deleted atomic.Bool
	for range 2 {
		c := w.compactor(func(c *Config) { c.TargetSize, c.RetentionDays, c.Grace = 48<<10, 30, time.Second })
		c.hook = func(step string) { deleted.Store(deleted.Load() || step == "delete") }
		c.cfg.Warm = func(_ context.Context, s millstream.Segment) { tiers[s.Level].Store(true) }
		loop(20*time.Millisecond, func() { h.compact(c) })
	}
	for table, field := range map[string]string{"app": "seq", "traces.app": "seq", "metrics.requests": "value"} {
		loop(time.Millisecond, func() { h.read(table, field) })
	}
	for end := time.Now().Add(limit); time.Now().Before(end) && !t.Failed(); time.Sleep(20 * time.Millisecond) {
		if h.reads.Load() >= reads && tiers[young].Load() && tiers[grown].Load() && deleted.Load() {
			break
		}
	}
	close(stop)
	wg.Wait()
	if h.reads.Load() < reads || !tiers[young].Load() || !tiers[grown].Load() || !deleted.Load() {
		t.Errorf("%d reads, merges of the nursery %v and the janitor %v, deletions %v: not all happened", h.reads.Load(), tiers[young].Load(), tiers[grown].Load(), deleted.Load())
	}
	h.compact(w.compactor(func(c *Config) { c.RetentionDays = 30 }))
	for _, s := range w.live(h.logs) {
		if s.MaxTime < today.Add(-30*24*time.Hour).UnixNano() {
			t.Errorf("segment %s is past its retention and live", s.ID)
		}
	}
	t.Logf("%d reads of %d flushes, %d objects at the end", h.reads.Load(), h.done.Load(), len(w.objects()))
}

// Two compactors have made the same merge; one of them, or both, are killed before they publish. Each input is replaced once, whoever reads sees all rows at any
// moment, and what the dead have left is collected.
func TestTwoCompactorsKilledBetweenUploadAndPublish(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string][2]bool{"one": {true, false}, "the other": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			st := w.app(6)
			var both sync.WaitGroup
			both.Add(2)
			left := 0
			var wg sync.WaitGroup
			for _, dies := range killed {
				c := w.compactor(nil)
				c.hook = func(step string) {
					if step != "uploaded" {
						return
					}
					both.Done()
					both.Wait()
					if dies {
						runtime.Goexit() // nothing that follows is done
					}
				}
				if dies {
					left++
				}
				wg.Go(func() { check(t, c.Compact(ctx, string(st.ID))) })
			}
			wg.Wait()
			w.wantRows(st, 600)
			if live := len(w.live(st)); live != map[bool]int{true: 6, false: 1}[left == 2] {
				t.Fatalf("%d live segments after %d of 2 were killed", live, left)
			}
			check(t, w.compactor(nil).Compact(ctx, string(st.ID)))
			w.wantRows(st, 600)
			if live := len(w.live(st)); live != 1 {
				t.Fatalf("%d live segments at the end, want 1", live)
			}
			late := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond })
			rep, err := late.Reconcile(ctx, string(w.org))
			check(t, err)
			if rep.Orphans != 2*left || rep.Deleted != rep.Orphans || len(rep.Missing) != 0 {
				t.Fatalf("report %+v, want %d orphans, deleted", rep, 2*left)
			}
			late.cfg.Grace = 0
			check(t, late.Collect(ctx))
			if n := len(w.objects()); n != 2 {
				t.Fatalf("%d objects at the end, want the 2 of the merged segment: each input was replaced", n)
			}
			w.wantRows(st, 600)
		})
	}
}

// wantRows compares what is stored with what was published, row by row.
func (w *world) wantRows(st store.Stream, n int) {
	w.t.Helper()
	wantSequences(w.t, w.sequences(st), n)
}
