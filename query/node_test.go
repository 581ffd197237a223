package query_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// TestMain lets the test binary be the SQL engine's child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engine.ChildArg {
		if err := engine.ChildMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

const org = millstream.OrgID("org-1")

var (
	epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()
	day   = millstream.TimeRange{Start: epoch, End: epoch + 24*3600e9}
)

// node is a catalog and a writer in one, over a bucket in memory, with an engine on top. It keeps the promises of both: what was appended is in exactly one
// of buffer and catalog at any time.
type node struct {
	*query.Engine
	t      testing.TB
	bucket *blob.Memory

	mu       sync.Mutex
	streams  []store.Stream
	segments []millstream.Segment
	position millstream.LSN
	end      millstream.LSN
	buffers  []buffered
	other    []store.WALState // WALs of other nodes
	holds    int
	stale    int // so many of the next Unflushed calls find the snapshot stale
	subs     []func(*millstream.Batch)
	subbed   chan struct{}
	snapshot func() // called after each snapshot was taken
}

// buffered is an unflushed batch.
type buffered struct {
	stream millstream.StreamID
	lsn    millstream.LSN
	batch  *millstream.Batch
	head   *metrics.Head
}

func newNode(t testing.TB, change func(*query.Config)) *node {
	t.Helper()
	n := &node{t: t, bucket: blob.NewMemory(), subbed: make(chan struct{}, 16)}
	dir := t.TempDir()
	c, err := cache.Open(cache.Config{Bucket: n.bucket, Dir: filepath.Join(dir, "cache"), Open: query.SegmentOpener()})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := sql.NewGate()
	if err != nil {
		t.Fatal(err)
	}
	engineDir := filepath.Join(dir, "engine")
	if err := os.Mkdir(engineDir, 0o700); err != nil {
		t.Fatal(err)
	}
	pool, err := engine.New(engine.Options{Dir: engineDir})
	if err != nil {
		t.Fatal(err)
	}
	cfg := query.Config{Catalog: n, Unflushed: n, Cache: c, Gate: gate, SQL: pool, TempDir: filepath.Join(dir, "query"), Workers: 2}
	if change != nil {
		change(&cfg)
	}
	if n.Engine, err = query.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.holds != 0 {
			t.Errorf("%d holds were not released", n.holds)
		}
		if left, err := os.ReadDir(cfg.TempDir); err != nil || len(left) > 0 {
			t.Errorf("temporary files are left: %v %v", left, err)
		}
		for _, err := range []error{pool.Close(), gate.Close(), c.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return n
}

func (n *node) stream(sig millstream.Signal, name string) *store.Stream {
	for i := range n.streams {
		if k := n.streams[i].Key; k.Signal == sig && k.Name == name {
			return &n.streams[i]
		}
	}
	id := millstream.StreamID(fmt.Sprintf("stream-%d", len(n.streams)))
	n.streams = append(n.streams, store.Stream{ID: id, Key: millstream.StreamKey{Org: org, Signal: sig, Name: name}})
	return &n.streams[len(n.streams)-1]
}

// append buffers a batch. Its fields are registered at the flush, as they are while the database is away.
func (n *node) append(sig millstream.Signal, name string, b *millstream.Batch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end++
	x := buffered{stream: n.stream(sig, name).ID, lsn: n.end, batch: b}
	if b.Samples != nil {
		x.head = metrics.NewHead()
		if _, err := x.head.Append(b.Samples); err != nil {
			n.t.Fatal(err)
		}
	}
	n.buffers = append(n.buffers, x)
	for _, f := range n.subs {
		f(b)
	}
}

// flush publishes everything: one object for all streams' data, one for their indexes.
func (n *node) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	var data, index bytes.Buffer
	dataKey, indexKey := fmt.Sprintf("data/%d", n.end), fmt.Sprintf("index/%d", n.end)
	for i := range n.streams {
		st := &n.streams[i]
		s, ok := n.encode(st, &data, &index)
		if !ok {
			continue
		}
		s.ID, s.Org, s.Stream, s.Signal = millstream.SegmentID(fmt.Sprintf("%s-%d", st.ID, n.end)), org, st.ID, st.Key.Signal
		s.Data.Key, s.Index.Key, s.WAL, s.From, s.To = dataKey, indexKey, "wal-1", n.position, n.end
		n.segments = append(n.segments, s)
	}
	for key, buf := range map[string]*bytes.Buffer{dataKey: &data, indexKey: &index} {
		if err := n.bucket.Put(context.Background(), key, bytes.NewReader(buf.Bytes()), int64(buf.Len())); err != nil {
			n.t.Fatal(err)
		}
	}
	n.position, n.buffers = n.end, nil
}

// encode appends a stream's unflushed rows as extents and registers their fields.
func (n *node) encode(st *store.Stream, data, index *bytes.Buffer) (millstream.Segment, bool) {
	var batches []*millstream.Batch
	var heads []metrics.Source
	for _, b := range n.buffers {
		switch {
		case b.stream != st.ID:
		case b.head != nil:
			heads = append(heads, b.head)
		default:
			batches = append(batches, b.batch)
		}
	}
	var info segment.Info
	var err error
	dataAt, indexAt := data.Len(), index.Len()
	switch {
	case len(heads) > 0:
		info, err = metrics.Merge(data, index, heads)
	case len(batches) > 0:
		info, err = segment.Encode(data, index, batches, segment.Options{})
	default:
		return millstream.Segment{}, false
	}
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range info.Fields {
		register(&st.Schema, millstream.Field{Name: f.Name, Type: f.Type, WideInt: f.WideInt, Seen: []millstream.Type{f.Type}})
	}
	return millstream.Segment{
		MinTime: info.MinTime, MaxTime: info.MaxTime, Rows: info.Rows,
		Data:  millstream.Extent{Offset: int64(dataAt), Length: info.DataSize, Checksum: info.DataSum},
		Index: millstream.Extent{Offset: int64(indexAt), Length: info.IndexSize, Checksum: info.IndexSum},
	}, true
}

func register(s *millstream.Schema, f millstream.Field) {
	s.Fields = slices.Clone(s.Fields)
	for i := range s.Fields {
		if s.Fields[i].Name == f.Name {
			s.Fields[i] = s.Fields[i].Join(f)
			return
		}
	}
	s.Fields = append(s.Fields, f)
}

// snapshotAt is when snapshots are taken, by the clock of the test's catalog.
var snapshotAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Snapshot is the catalog's.
func (n *node) Snapshot(_ context.Context, o millstream.OrgID, keys []millstream.StreamKey, r millstream.TimeRange) (store.Snapshot, error) {
	n.mu.Lock()
	if n.snapshot != nil {
		defer n.snapshot()
	}
	defer n.mu.Unlock()
	out := store.Snapshot{At: snapshotAt, WALs: append([]store.WALState{{ID: "wal-1", Node: "node-1", Position: n.position}}, n.other...)}
	for _, st := range n.streams {
		match := func(k millstream.StreamKey) bool {
			return k.Signal == st.Key.Signal && (k.Name == "" || k.Name == st.Key.Name)
		}
		if o != org || !slices.ContainsFunc(keys, match) {
			continue
		}
		out.Streams = append(out.Streams, st)
		for _, s := range n.segments {
			if s.Stream == st.ID && r.Overlaps(s.MinTime, s.MaxTime) {
				out.Segments = append(out.Segments, s)
			}
		}
	}
	return out, nil
}

// Streams is the catalog's.
func (n *node) Streams(_ context.Context, o millstream.OrgID, sig millstream.Signal) (out []store.StreamSummary, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, st := range n.streams {
		if o == org && (sig == 0 || sig == st.Key.Signal) {
			out = append(out, store.StreamSummary{Stream: st})
		}
	}
	return out, nil
}

// Hold is the writer's.
func (n *node) Hold() func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holds++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.holds--
	}
}

// Unflushed is the mirror's.
func (n *node) Unflushed(_ context.Context, wals []store.WALState, ids []millstream.StreamID, add func(int, ingest.Unflushed)) (missing []ingest.Missing, release func(), err error) {
	for _, w := range wals {
		if w.Clean {
			continue
		}
		for i, id := range ids {
			u, err := n.unflushed(w.ID, id, w.Position)
			if errors.Is(err, ingest.ErrStale) {
				return nil, nil, err
			}
			if err != nil {
				missing = append(missing, ingest.Missing{WAL: w, Err: err})
				break
			}
			add(i, u)
		}
	}
	return missing, nil, nil
}

func (n *node) unflushed(wal millstream.WALID, id millstream.StreamID, above millstream.LSN) (out ingest.Unflushed, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if wal != "wal-1" {
		return out, ingest.ErrNotReady
	}
	if n.stale--; n.stale >= 0 || above < n.position {
		return out, ingest.ErrStale
	}
	for _, b := range n.buffers {
		switch {
		case b.stream != id || b.lsn <= above:
		case b.head != nil:
			out.Metrics = append(out.Metrics, b.head)
		default:
			out.Logs = append(out.Logs, segment.Memory(b.batch))
		}
	}
	return out, nil
}

// Follow is the mirror's.
func (n *node) Follow(ctx context.Context, _ millstream.StreamID, emit func(ingest.Followed) error) error {
	if err := emit(ingest.Followed{}); err != nil {
		return err
	}
	n.mu.Lock()
	n.subs = append(n.subs, func(b *millstream.Batch) { _ = emit(ingest.Followed{Batch: b}) })
	n.mu.Unlock()
	n.subbed <- struct{}{}
	<-ctx.Done()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs = nil
	return nil
}

// lines makes a batch of records of the form `k=v k=v`; the n-th record's time is n seconds after the given one. A value is an integer, a double, a bool or
// a text, whichever it looks like first.
func lines(at int64, records ...string) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for i, rec := range records {
		for _, pair := range strings.Split(rec, " ") {
			k, v, ok := strings.Cut(pair, "=")
			if !ok {
				continue
			}
			v = strings.ReplaceAll(v, "_", " ")
			var n int64
			var f float64
			switch {
			case v == "true" || v == "false":
				b.Bool([]byte(k), v == "true")
			case scanned(v, "%d", &n):
				b.Int([]byte(k), n)
			case scanned(v, "%g", &f):
				b.Double([]byte(k), f)
			default:
				b.String([]byte(k), []byte(v))
			}
		}
		if err := b.Commit(at + int64(i)*1e9); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

func scanned(s, format string, v any) bool {
	var rest string
	n, _ := fmt.Sscanf(s+"|", format+"|%s", v, &rest)
	return n == 1 && fmt.Sprint(deref(v)) == s
}

func deref(v any) any {
	switch v := v.(type) {
	case *int64:
		return *v
	case *float64:
		return *v
	}
	return v
}

// ask runs a statement and gives its rows, each as JSON values joined by commas.
func (n *node) ask(t testing.TB, statement string) ([]string, *query.Answer) {
	t.Helper()
	rows, answer, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return rows, answer
}

func (n *node) try(t testing.TB, req query.Request) ([]string, *query.Answer, error) {
	t.Helper()
	var out bytes.Buffer
	enc := query.NewEncoder(query.CSV, &out)
	answer, err := n.Run(t.Context(), req, enc)
	if err != nil {
		return nil, nil, err
	}
	if err := enc.Close(answer); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\r\n"), "\r\n"), answer, nil
}

func expect(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
