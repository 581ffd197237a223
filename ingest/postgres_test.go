package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

var (
	_ catalog = (*store.Store)(nil)
	_ pinner  = (*store.Store)(nil)
)

// database is a node over the real catalog.
type database struct {
	*site
	store *store.Store
	org   millstream.OrgID
}

func newDatabase(t *testing.T) *database {
	st := storetest.New(t)
	return &database{site: newSite(t), store: st, org: storetest.Org(t, st)}
}

func (d *database) run() *Router {
	d.t.Helper()
	incarnation, err := d.store.StartNode(context.Background(), millstream.Member{ID: "node", Addr: "127.0.0.1:1", Roles: []string{"standalone"}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.catalog = &mortal{model: d.model} // of the harness; not used
	d.w = NewWriter(WriterConfig{
		Node: "node", Incarnation: func() int64 { return incarnation }, Catalog: d.store, Bucket: d.bucket, FlushInterval: time.Hour,
		WAL: wal.Options{Dir: filepath.Join(d.dir, "wal"), MinFree: -1}, BufferDir: filepath.Join(d.dir, "buffer"),
	})
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.stopped = cancel, make(chan error, 1)
	ready := make(chan struct{})
	go func() { d.stopped <- d.w.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-d.stopped:
		d.t.Fatal(err)
	}
	return NewRouter(RouterConfig{Self: "node", Local: d.w, Pins: d.store})
}

func (d *database) count(name string) []int64 {
	d.t.Helper()
	defer d.w.Hold()()
	snap, err := d.store.Snapshot(context.Background(), d.org, []millstream.StreamKey{{Signal: millstream.Logs, Name: name}}, millstream.TimeRange{Start: 0, End: math.MaxInt64})
	if err != nil || len(snap.Streams) != 1 {
		d.t.Fatalf("%+v, %v", snap.Streams, err)
	}
	var sources []segment.Source
	for _, g := range snap.Segments {
		r, err := d.open(g)
		if err != nil {
			d.t.Fatal(err)
		}
		sources = append(sources, r)
	}
	for _, w := range snap.WALs {
		u, err := d.w.Unflushed(context.Background(), w.ID, snap.Streams[0].ID, w.Position)
		if err != nil {
			d.t.Fatal(err)
		}
		sources = append(sources, u.Logs...)
	}
	var got []int64
	for _, src := range sources {
		all := segment.Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Fields: []string{"seq"}}
		if _, err := src.Scan(context.Background(), all, func(b *millstream.Batch) error { got = append(got, b.Column("seq").Ints...); return nil }); err != nil {
			d.t.Fatal(err)
		}
	}
	slices.Sort(got)
	return got
}

func TestAgainstPostgreSQL(t *testing.T) {
	d := newDatabase(t)
	r := d.run()
	ctx := context.Background()
	if m, ok := d.bucket.(*blob.Memory); !ok || m == nil {
		t.Fatal("the harness has a bucket in memory")
	}
	write := func(key string, first, n int) bool {
		t.Helper()
		replayed, err := r.Write(ctx, Write{Org: d.org, Batches: []*millstream.Batch{rows("app", first, n)}, Key: key, BodyHash: [16]byte{1}})
		if err != nil {
			t.Fatal(err)
		}
		return replayed
	}
	check := func(n int) {
		t.Helper()
		if err := exactly(d.count("app"), n); err != nil {
			t.Fatal(err)
		}
	}
	write("", 0, 10)
	write("k", 10, 10)
	check(20)
	d.flush()
	check(20)
	if !write("k", 10, 10) {
		t.Error("a repetition went unnoticed")
	}
	write("", 20, 5)
	d.cancelNow()
	r = d.run()
	check(25)
	if !write("k", 10, 10) {
		t.Error("a repetition after a restart went unnoticed")
	}
	if _, err := r.Write(ctx, Write{Org: d.org, Batches: []*millstream.Batch{rows("app", 0, 1)}, Key: "k", BodyHash: [16]byte{2}}); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("another body: %v", err)
	}
	beat, err := d.store.Heartbeat(ctx, millstream.Member{ID: "node", Addr: "127.0.0.1:1", Incarnation: d.w.incarnation}, []millstream.WALID{d.w.WAL()})
	if err != nil {
		t.Fatal(err)
	}
	d.w.Beat(beat)
	if !d.w.Confirmed() {
		t.Error("a quiet heartbeat raised a doubt")
	}
	if _, err := d.store.StartNode(ctx, millstream.Member{ID: "node", Addr: "127.0.0.1:1", Roles: []string{"standalone"}}); err != nil {
		t.Fatal(err)
	}
	write("", 25, 1)
	if err := d.w.Flush(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("a flush of an old incarnation: %v", err)
	}
	d.cancelNow()
	d.run()
	check(26)
}

func (d *database) cancelNow() {
	d.cancel()
	<-d.stopped
	d.w = nil
}

// What was just acknowledged shows in lists and schemas before any flush, once, and stays after it; on the node that took it and on others.
func TestLiveCatalog(t *testing.T) {
	d := newDatabase(t)
	r := d.run()
	lives := map[string]Live{
		"the node itself": {Store: d.store, Mirror: NewMirror(MirrorConfig{Writer: d.w})},
		"another node":    {Store: d.store, Mirror: NewMirror(MirrorConfig{Dial: func(store.WALState) (Holder, error) { return d.w, nil }})},
	}
	ctx := context.Background()
	write := func(b *millstream.Batch) {
		t.Helper()
		if _, err := r.Write(ctx, Write{Org: d.org, Batches: []*millstream.Batch{b}}); err != nil {
			t.Fatal(err)
		}
	}
	write(rows("app", 0, 10))
	build := millstream.NewBuilder(millstream.Limits{})
	build.String([]byte("seq"), []byte("no number"))
	build.Bool([]byte("extra"), true)
	if err := build.Commit(time.Now().Add(time.Hour).UnixNano()); err != nil {
		t.Fatal(err)
	}
	odd := build.Batch()
	odd.Org, odd.Signal, odd.Name = d.org, millstream.Logs, "app"
	write(odd)
	samples := sampleBatch(0, 3)
	samples.Org, samples.Samples.Metadata = d.org, []millstream.Metadata{{Name: "up", Type: "gauge", Help: "as sent"}}
	write(samples)
	for _, flushed := range []bool{false, true} {
		for where, live := range lives {
			t.Run(fmt.Sprintf("%s, flushed %v", where, flushed), func(t *testing.T) { checkLive(t, live, d.org, flushed) })
		}
		d.flush()
	}
	away := Live{Store: d.store, Mirror: NewMirror(MirrorConfig{Dial: func(store.WALState) (Holder, error) { return nil, errDown }})}
	write(rows("app", 10, 5))
	all, reasons, err := away.Streams(ctx, d.org, millstream.Logs)
	if err != nil || len(all) != 1 || all[0].Rows != 11 || len(reasons) != 1 || !strings.Contains(reasons[0], "node node") {
		t.Errorf("a node that is away: %+v, %q, %v", all, reasons, err)
	}
}

func checkLive(t *testing.T, live Live, org millstream.OrgID, flushed bool) {
	ctx := context.Background()
	all, reasons, err := live.Streams(ctx, org, 0)
	if err != nil || len(all) != 2 || len(reasons) > 0 {
		t.Fatalf("%+v, %q, %v", all, reasons, err)
	}
	for _, s := range all {
		want := int64(11)
		if s.Key.Signal == millstream.Metrics {
			want = 3
		} else {
			seq, _ := s.Schema.Field("seq")
			if _, ok := s.Schema.Field("extra"); !ok || !seq.Conflict || seq.Type != millstream.String {
				t.Errorf("schema %+v", s.Schema.Fields)
			}
		}
		unflushed := want
		if flushed {
			unflushed = 0
		}
		if s.Rows != want || s.Unflushed != unflushed || s.Bytes == 0 || s.MinTime == 0 || s.MaxTime < s.MinTime {
			t.Errorf("%+v", s)
		}
		if p, _, err := live.Unflushed(ctx, s.ID); err != nil || p.Rows != unflushed {
			t.Errorf("%+v, %v", p, err)
		}
	}
	ms, reasons, err := live.Metadata(ctx, org)
	if err != nil || len(ms) != 1 || ms[0].Help != "as sent" || len(reasons) > 0 {
		t.Errorf("metadata %+v, %q, %v", ms, reasons, err)
	}
}
