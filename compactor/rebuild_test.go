package compactor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// old makes every segment one that no merge will take, and does not slow down.
func old(c *Config) { c.TargetSize, c.RebuildRate = 1, 1<<40 }

// addresses is a batch of records whose addresses consist of tokens that are everywhere.
func addresses(first, n int, at time.Time) *millstream.Batch {
	b := rows(first, n, at)
	c := millstream.Column{Name: "addr", Type: millstream.String, Offsets: []uint32{0}}
	for i := range n {
		c.Bytes = fmt.Appendf(c.Bytes, "10.%d.%d.%d", (first+i)%7, (first+i)%11, (first+i)%13)
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	}
	b.Columns = append(b.Columns, c)
	return b
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	db, err := pgx.Connect(ctx, w.url)
	check(w.t, err)
	defer db.Close(ctx)
	tag, err := db.Exec(ctx, sql, args...)
	check(w.t, err)
	if tag.RowsAffected() == 0 {
		w.t.Fatalf("%s changed nothing", sql)
	}
}

func (w *world) index(st store.Stream, fields ...string) {
	w.t.Helper()
	_, err := w.store.UpdateStream(ctx, st.ID, store.StreamPatch{IndexedFields: &fields}, entry(w))
	check(w.t, err)
}

// register puts fields into a stream's schema, as an intake does before it publishes them.
func (w *world) register(st store.Stream) {
	w.t.Helper()
	_, err := w.store.RegisterFields(ctx, st.ID, []millstream.Field{{Name: "seq", Type: millstream.Int64}, {Name: "message", Type: millstream.String}, {Name: "addr", Type: millstream.String}})
	check(w.t, err)
}

// grown publishes records of a stream and merges them, so that data and index are objects of their own.
func (w *world) grown(n int) (store.Stream, millstream.Segment) {
	w.t.Helper()
	st := w.stream(millstream.Logs, "app")
	w.register(st)
	for i := range 4 {
		w.flush(part{st, addresses(n*i, n, today)})
	}
	check(w.t, w.compactor(nil).Compact(ctx, string(st.ID)))
	live := w.live(st)
	if len(live) != 1 {
		w.t.Fatalf("%d live segments, want 1", len(live))
	}
	return st, live[0]
}

// scan counts the records of a segment with an address, and those that were looked at.
func (w *world) scan(g millstream.Segment, addr string) segment.ScanStats {
	w.t.Helper()
	r, err := segment.Open(w.reader(g.Data), g.Data.Length, w.reader(g.Index), g.Index.Length)
	check(w.t, err)
	s, err := r.Scan(ctx, segment.Scan{Range: millstream.TimeRange{Start: 0, End: 1 << 62}, CountOnly: true,
		Filter: segment.Compare{Field: "addr", Op: segment.Eq, Value: segment.Value{Kind: segment.StringValue, Str: addr}}}, nil)
	check(w.t, err)
	return s
}

// rebuilt runs a round and gives the segment that came in place of another: of the same records and the same data.
func (w *world) rebuilt(c *Compactor, st store.Stream, g millstream.Segment) millstream.Segment {
	w.t.Helper()
	check(w.t, c.RebuildIndexes(ctx, string(w.org)))
	live := w.live(st)
	if len(live) != 1 {
		w.t.Fatalf("%d live segments, want 1", len(live))
	}
	got := live[0]
	if got.ID == g.ID || got.Data != g.Data || got.Index.Key == g.Index.Key || got.Level != g.Level || got.Written != g.Written || got.Rows != g.Rows {
		w.t.Fatalf("rebuilt is %+v\nof %+v", got, g)
	}
	check(w.t, c.RebuildIndexes(ctx, string(w.org)))
	if again := w.live(st); len(again) != 1 || again[0].ID != got.ID {
		w.t.Fatal("a second round built the index once more")
	}
	return got
}

func TestIndexedFieldsAreBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, g := w.grown(3000)
	w.index(st, "addr", "seq")
	const there, absent = "10.1.1.1", "10.6.12.10"
	before := w.scan(g, there)
	if n := w.scan(g, absent); n.Selected != 0 || n.ScannedRows == 0 {
		t.Fatalf("without a filter %+v: the test needs an absent value that the tokens do not rule out", n)
	}
	young := w.compactor(func(c *Config) { c.RebuildRate = 1 << 40 })
	check(t, young.RebuildIndexes(ctx, string(w.org)))
	if live := w.live(st); live[0].ID != g.ID {
		t.Fatal("a young segment is rebuilt, although the next merge makes its filters")
	}
	var told []millstream.SegmentID
	c := w.compactor(old)
	c.cfg.Warm = func(_ context.Context, s millstream.Segment) { told = append(told, s.ID) }
	got := w.rebuilt(c, st, g)
	if len(told) != 1 || told[0] != got.ID {
		t.Errorf("told of %v, want the rebuilt segment", told)
	}
	if n := w.scan(got, absent); n.Selected != 0 || n.ScannedRows != 0 {
		t.Errorf("an absent value: %+v, want nothing looked at", n)
	}
	if n := w.scan(got, there); n.Selected != before.Selected || n.Selected == 0 {
		t.Errorf("%d records, want %d", n.Selected, before.Selected)
	}
	wantSequences(t, w.sequences(st), 12000)
	if n := testutil.ToFloat64(c.metrics.rebuilds.WithLabelValues("done")); n != 1 {
		t.Errorf("counted %v rebuilds", n)
	}
	if n := testutil.ToFloat64(c.metrics.rebuildBytes); n != float64(g.Data.Length) {
		t.Errorf("counted %v bytes, want %d", n, g.Data.Length)
	}

	// Whoever has the old snapshot reads the old index until the grace is over; the data stays.
	if n := w.scan(g, there); n.Selected != before.Selected {
		t.Errorf("by the old snapshot %d records", n.Selected)
	}
	check(t, c.Collect(ctx))
	if objects := w.objects(); !slices.Contains(objects, g.Index.Key) {
		t.Fatal("the old index went before the grace was over")
	}
	c.cfg.Grace = time.Nanosecond
	check(t, c.Collect(ctx))
	objects := w.objects()
	if slices.Contains(objects, g.Index.Key) || !slices.Contains(objects, g.Data.Key) || !slices.Contains(objects, got.Index.Key) {
		t.Fatalf("left are %v, want the data and the new index of %+v", objects, got)
	}
	rep, err := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond }).Reconcile(ctx, string(w.org))
	check(t, err)
	if rep.Orphans != 0 || len(rep.Missing) != 0 || rep.Indexes != 0 {
		t.Fatalf("report %+v, want nothing amiss", rep)
	}
	wantSequences(t, w.sequences(st), 12000)
}

// A merge makes the filters of what it encodes anew, so nothing is left to rebuild.
func TestMergesMakeFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	w.register(st)
	w.index(st, "addr")
	for i := range 4 {
		w.flush(part{st, addresses(100*i, 100, today)})
	}
	check(t, w.compactor(nil).Compact(ctx, string(st.ID)))
	g := w.live(st)[0]
	check(t, w.compactor(old).RebuildIndexes(ctx, string(w.org)))
	if got := w.live(st); len(got) != 1 || got[0].ID != g.ID {
		t.Fatalf("live %+v, want the merged segment as it was", got)
	}
}

func TestOlderIndexesAreBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, g := w.grown(500)
	w.exec("UPDATE segment_rows SET index_version = 1 WHERE id = $1", string(g.ID))
	got := w.rebuilt(w.compactor(old), st, g)
	if got.Index.Checksum != g.Index.Checksum {
		t.Error("an index that was of the present form already differs from what was built")
	}
	wantSequences(t, w.sequences(st), 2000)
}

func TestMissingIndexesAreBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, g := w.grown(500)
	check(t, w.bucket.Delete(ctx, g.Index.Key))
	c := w.compactor(nil) // young segments as well: they cannot be merged
	rep, err := c.Reconcile(ctx, string(w.org))
	check(t, err)
	if rep.Indexes != 1 || len(rep.Missing) != 0 || testutil.ToFloat64(c.metrics.lostIndexes) != 1 || testutil.ToFloat64(c.metrics.missing) != 0 {
		t.Fatalf("report %+v, want one index missing and no data", rep)
	}
	got := w.rebuilt(c, st, g)
	if got.Index.Checksum != g.Index.Checksum {
		t.Error("the index differs from the lost one")
	}
	wantSequences(t, w.sequences(st), 2000)
	if rep, err = c.Reconcile(ctx, string(w.org)); err != nil || rep.Indexes != 0 {
		t.Fatalf("report %+v (%v)", rep, err)
	}
}

// spoil changes a byte of an extent in the store.
func (w *world) spoil(x millstream.Extent) {
	w.t.Helper()
	r, err := w.bucket.Get(ctx, x.Key, 0, -1)
	check(w.t, err)
	b, err := io.ReadAll(r)
	check(w.t, err)
	b[x.Offset+x.Length/2] ^= 1
	check(w.t, w.bucket.Delete(ctx, x.Key))
	check(w.t, w.bucket.Put(ctx, x.Key, bytes.NewReader(b), int64(len(b))))
}

// A damaged index is found by whoever reads it, in an object of its own and in one that it shares with the data.
func TestDamagedIndexesAreBuilt(t *testing.T) {
	t.Parallel()
	for name, packed := range map[string]bool{"own object": false, "with the data": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var st store.Stream
			var g millstream.Segment
			if packed {
				st = w.stream(millstream.Logs, "app")
				w.register(st)
				other := w.stream(millstream.Traces, "app")
				w.flush(part{st, addresses(0, 2000, today)}, part{other, rows(0, 10, today)})
				g = w.live(st)[0]
			} else {
				st, g = w.grown(500)
			}
			w.spoil(g.Index)
			lost := 0
			local, err := cache.Open(cache.Config{Bucket: w.bucket, Dir: t.TempDir(), Open: query.SegmentOpener(), Lost: func(ctx context.Context, s millstream.Segment) {
				news, err := w.store.LoseIndex(ctx, s)
				check(t, err)
				if news {
					lost++
				}
			}})
			check(t, err)
			defer local.Close()
			for range 2 {
				if _, err := local.Get(ctx, g); err == nil {
					t.Fatal("a damaged index is opened")
				}
			}
			if lost != 1 {
				t.Fatalf("noted %d times", lost)
			}
			got := w.rebuilt(w.compactor(old), st, g)
			if got.Index.Checksum != g.Index.Checksum {
				t.Error("the index differs from the damaged one")
			}
			h, err := local.Get(ctx, got)
			check(t, err)
			h.Release()
			wantSequences(t, w.sequences(st), 2000)
		})
	}
}

// Data that is damaged gets no index: the error says so, and other segments are rebuilt all the same.
func TestDamagedDataGetsNoIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Logs, "app")
	w.register(st)
	bad := w.flush(part{st, addresses(0, 100, today.Add(time.Second))})[0] // the newer, hence the first
	good := w.flush(part{st, addresses(100, 100, today)})[0]
	w.spoil(bad.Data)
	w.index(st, "addr")
	c := w.compactor(old)
	if err := c.RebuildIndexes(ctx, string(w.org)); err == nil {
		t.Fatal("no error")
	}
	var ids []millstream.SegmentID
	for _, g := range w.live(st) {
		ids = append(ids, g.ID)
	}
	if len(ids) != 2 || !slices.Contains(ids, bad.ID) || slices.Contains(ids, good.ID) {
		t.Fatalf("live are %v, want the damaged %s as it was and %s rebuilt", ids, bad.ID, good.ID)
	}
	if n := testutil.ToFloat64(c.metrics.rebuilds.WithLabelValues("failed")); n != 1 {
		t.Errorf("counted %v failures", n)
	}
}

func TestIndexesOfMetricsAreBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream(millstream.Metrics, millstream.MetricStream)
	labels, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "up"}})
	check(t, err)
	w.flush(part{st, &millstream.Batch{Samples: &millstream.Samples{Series: []string{string(labels)}, Ref: []uint32{0, 0}, Time: []int64{today.UnixMilli(), today.UnixMilli() + 1}, Value: []float64{1, 2}}}})
	g := w.live(st)[0]
	w.index(st, "ignored") // metrics have no filters of fields
	check(t, w.compactor(old).RebuildIndexes(ctx, string(w.org)))
	if live := w.live(st); live[0].ID != g.ID {
		t.Fatal("an index of metrics is rebuilt for a filter")
	}
	w.exec("UPDATE segment_rows SET index_version = 0 WHERE id = $1", string(g.ID))
	got := w.rebuilt(w.compactor(old), st, g)
	r, err := metrics.Open(w.reader(got.Data), got.Data.Length, w.reader(got.Index), got.Index.Length)
	check(t, err)
	if r.Samples() != 2 || got.Index.Checksum != g.Index.Checksum {
		t.Fatalf("%d samples, want 2 and the same index", r.Samples())
	}
}

// A compactor that dies between upload and publish changes nothing; the next one builds the index again, and the first one's object is an orphan.
func TestKilledWhileRebuilding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, g := w.grown(100)
	w.index(st, "addr")
	dying, kill := context.WithCancel(ctx)
	c := w.compactor(old)
	c.hook = func(step string) {
		if step == "uploaded" {
			kill()
		}
	}
	if err := c.RebuildIndexes(dying, string(w.org)); err == nil {
		t.Fatal("a compactor that was stopped says that it is done")
	}
	if live := w.live(st); len(live) != 1 || live[0].ID != g.ID {
		t.Fatalf("live %+v, want the segment as it was", live)
	}
	w.rebuilt(w.compactor(old), st, g)
	rep, err := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond }).Reconcile(ctx, string(w.org))
	check(t, err)
	if rep.Orphans != 1 || rep.Deleted != 1 {
		t.Fatalf("report %+v, want the dead one's index deleted", rep)
	}
	wantSequences(t, w.sequences(st), 400)
}

// Two nodes on the same segment, and a reader: one wins, the other's index goes at once, and every snapshot can be read with all its rows.
func TestTwoNodesRebuildTheSameIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, g := w.grown(100)
	w.index(st, "addr")
	objects := len(w.objects())
	var both sync.WaitGroup
	both.Add(2)
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				wantSequences(t, w.sequences(st), 400)
			}
		}
	})
	a, b := w.compactor(old), w.compactor(old)
	var nodes sync.WaitGroup
	for _, c := range []*Compactor{a, b} {
		c.hook = func(step string) {
			if step == "uploaded" {
				both.Done()
				both.Wait()
			}
		}
		nodes.Go(func() { check(t, c.RebuildIndexes(ctx, string(w.org))) })
	}
	nodes.Wait()
	close(stop)
	reader.Wait()
	if live := w.live(st); len(live) != 1 || live[0].ID == g.ID {
		t.Fatalf("live %+v, want one rebuilt segment", live)
	}
	if n := len(w.objects()); n != objects+1 {
		t.Fatalf("%d objects, want %d and the winner's index", n, objects)
	}
	sum := func(outcome string) float64 {
		return testutil.ToFloat64(a.metrics.rebuilds.WithLabelValues(outcome)) + testutil.ToFloat64(b.metrics.rebuilds.WithLabelValues(outcome))
	}
	if sum("done") != 1 || sum("lost") != 1 {
		t.Errorf("%v done, %v lost; want one each", sum("done"), sum("lost"))
	}
}

// The rate bounds how much data is read a second.
func TestRebuildKeepsToItsRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, g := w.grown(100)
	w.index(st, "addr")
	c := w.compactor(func(c *Config) { old(c); c.RebuildRate = g.Data.Length * 5 }) // 200 ms
	began := time.Now()
	check(t, c.RebuildIndexes(ctx, string(w.org)))
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("took %v, the rate allows no less than 200 ms", took)
	}
}
