package compactor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

var ctx = context.Background()

// world is a real catalog, an object store in memory and an intake that publishes what the test says.
type world struct {
	t           testing.TB
	url         string // of the database
	store       *store.Store
	bucket      *blob.Memory
	org         millstream.OrgID
	node        millstream.Member
	wal         millstream.WALID
	lsn         millstream.LSN
	incarnation func() int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	url := storetest.URL(t)
	w := &world{t: t, url: url, store: storetest.Open(t, url), bucket: blob.NewMemory(), wal: millstream.WALID(uuid.NewString())}
	w.org = storetest.Org(t, w.store)
	w.node = millstream.Member{ID: "node-1", Addr: "127.0.0.1:1", Roles: []string{"standalone"}, MilliCPU: 2000, Version: "test"}
	var err error
	if w.node.Incarnation, err = w.store.StartNode(ctx, w.node); err != nil {
		t.Fatal(err)
	}
	w.incarnation = func() int64 { return w.node.Incarnation }
	if _, err := w.store.TakeWAL(ctx, store.WALTake{ID: w.wal, Node: w.node.ID, Incarnation: w.node.Incarnation, Addr: w.node.Addr, Identity: "8:1"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) compactor(change func(*Config)) *Compactor {
	w.t.Helper()
	segments, err := cache.Open(cache.Config{Bucket: w.bucket, Dir: w.t.TempDir(), Open: query.SegmentOpener()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = segments.Close() })
	cfg := Config{Node: w.node.ID, Incarnation: w.incarnation, Catalog: w.store, Bucket: w.bucket, Segments: segments, TempDir: w.t.TempDir()}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func (w *world) stream(signal millstream.Signal, name string) store.Stream {
	w.t.Helper()
	st, err := w.store.EnsureStream(ctx, millstream.StreamKey{Org: w.org, Signal: signal, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// rows is a batch of numbered records.
func rows(first, n int, at time.Time) *millstream.Batch {
	b := &millstream.Batch{Times: make([]int64, n)}
	seq, text := millstream.Column{Name: "seq", Type: millstream.Int64}, millstream.Column{Name: "message", Type: millstream.String, Offsets: []uint32{0}}
	for i := range n {
		b.Times[i] = at.Add(time.Duration(i) * time.Millisecond).UnixNano()
		seq.Ints = append(seq.Ints, int64(first+i))
		text.Bytes = fmt.Appendf(text.Bytes, "request %d took %d ms", first+i, i%17)
		text.Offsets = append(text.Offsets, uint32(len(text.Bytes)))
	}
	b.Columns = []millstream.Column{seq, text}
	return b
}

// flush publishes segments of one range whose objects are one pack, as the intake does with small streams.
func (w *world) flush(parts ...part) []millstream.Segment {
	w.t.Helper()
	var pack bytes.Buffer
	f := millstream.Flush{WAL: w.wal, Node: w.node.ID, Incarnation: w.node.Incarnation, From: w.lsn, To: w.lsn + 1, Checksum: fmt.Sprint(w.lsn)}
	key := fmt.Sprintf("segments/%s/%s/%s-1-%d.pack", w.org, parts[0].st.Key.Signal, uuid.NewString(), w.lsn)
	for _, p := range parts {
		var data, index bytes.Buffer
		info, err := p.encode(&data, &index)
		if err != nil {
			w.t.Fatal(err)
		}
		g := millstream.Segment{ID: millstream.SegmentID(uuid.NewString()), Org: w.org, Stream: p.st.ID, Signal: p.st.Key.Signal, MinTime: info.MinTime, MaxTime: info.MaxTime, Rows: info.Rows, SchemaVersion: 1}
		g.Data = millstream.Extent{Key: key, Offset: int64(pack.Len()), Length: int64(data.Len()), Checksum: info.DataSum}
		pack.Write(data.Bytes())
		g.Index = millstream.Extent{Key: key, Offset: int64(pack.Len()), Length: int64(index.Len()), Checksum: info.IndexSum}
		pack.Write(index.Bytes())
		f.Segments = append(f.Segments, g)
	}
	if err := w.bucket.Put(ctx, key, bytes.NewReader(pack.Bytes()), int64(pack.Len())); err != nil {
		w.t.Fatal(err)
	}
	if _, _, err := w.store.Publish(ctx, f); err != nil {
		w.t.Fatal(err)
	}
	w.lsn++
	return f.Segments
}

// part is one stream's share of a flush: a batch or samples.
type part struct {
	st    store.Stream
	batch *millstream.Batch
}

func (p part) encode(data, index *bytes.Buffer) (segment.Info, error) {
	if p.batch.Samples == nil {
		return segment.Encode(data, index, []*millstream.Batch{p.batch}, segment.Options{})
	}
	h := metrics.NewHead()
	if _, err := h.Append(p.batch.Samples); err != nil {
		return segment.Info{}, err
	}
	return h.Encode(data, index)
}

func (w *world) live(st store.Stream) []millstream.Segment {
	w.t.Helper()
	all, err := w.store.StreamSegments(ctx, st.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// sequences reads every seq of a stream's live segments back from the object store, sorted.
func (w *world) sequences(st store.Stream) (out []int64) {
	w.t.Helper()
	for _, g := range w.live(st) {
		r, err := segment.Open(w.reader(g.Data), g.Data.Length, w.reader(g.Index), g.Index.Length)
		if err != nil {
			w.t.Fatal(err)
		}
		_, err = r.Scan(ctx, segment.Scan{Range: millstream.TimeRange{Start: 0, End: 1 << 62}, Fields: []string{"seq"}}, func(b *millstream.Batch) error {
			out = append(out, b.Columns[0].Ints...)
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) reader(x millstream.Extent) *bytes.Reader {
	w.t.Helper()
	r, err := w.bucket.Get(ctx, x.Key, x.Offset, x.Length)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, x.Length)
	if _, err := readFull(r, b); err != nil {
		w.t.Fatal(err)
	}
	return bytes.NewReader(b)
}

func readFull(r interface{ Read([]byte) (int, error) }, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := r.Read(b[n:])
		if n += m; err != nil && n < len(b) {
			return n, err
		}
	}
	return n, nil
}

func (w *world) objects() (keys []string) {
	w.t.Helper()
	for o, err := range w.bucket.List(ctx, "segments/") {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

func (w *world) delete(st store.Stream) {
	w.t.Helper()
	if err := w.store.DeleteStream(ctx, st.ID, auth.Entry{Actor: "system", Action: "stream.delete", Org: w.org, At: time.Now()}); err != nil {
		w.t.Fatal(err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantSequences(t testing.TB, got []int64, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, v := range got {
		if v != int64(i) {
			t.Fatalf("record %d is %d", i, v)
		}
	}
}

func emptyReader() *bytes.Reader { return bytes.NewReader(nil) }

func entry(w *world) auth.Entry {
	return auth.Entry{Actor: "system", Action: "stream.update", Org: w.org, At: time.Now()}
}
