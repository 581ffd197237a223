package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

const testOrg = millstream.OrgID("11111111-1111-4111-8111-111111111111")

// site is a place where one node lives and dies: its directories, the database and the object store.
type site struct {
	t      testing.TB
	node   millstream.NodeID
	dir    string
	model  *model
	bucket blob.Bucket
	change func(*WriterConfig)
	mutant mutant
	grace  time.Duration
	adjust func(*Writer)

	w           *Writer
	catalog     *mortal
	incarnation int64
	stopped     chan error
	cancel      context.CancelFunc
}

func newSite(t testing.TB) *site {
	s := &site{t: t, node: "node", dir: t.TempDir(), model: newModel(), bucket: blob.NewMemory(), change: func(*WriterConfig) {}, adjust: func(*Writer) {}, grace: bufferGrace}
	t.Cleanup(func() {
		if s.w != nil {
			s.kill()
		}
	})
	return s
}

// start starts a process and waits until it is ready.
func (s *site) start() *Writer {
	s.t.Helper()
	w, err := s.tryStart()
	if err != nil {
		s.t.Fatalf("start: %v", err)
	}
	return w
}

func (s *site) tryStart() (*Writer, error) {
	s.incarnation = s.model.start(s.node, s.incarnation)
	s.catalog = &mortal{model: s.model}
	own := s.incarnation
	cfg := WriterConfig{
		Node: s.node, Incarnation: func() int64 { return own }, Catalog: s.catalog, Bucket: s.bucket, FlushInterval: time.Hour,
		WAL: wal.Options{Dir: filepath.Join(s.dir, "wal"), MinFree: -1}, BufferDir: filepath.Join(s.dir, "buffer"),
	}
	s.change(&cfg)
	s.w = NewWriter(cfg)
	s.w.mutant, s.w.grace = s.mutant, s.grace
	s.adjust(s.w)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.stopped = cancel, make(chan error, 1)
	ready := make(chan struct{})
	go func(w *Writer, stopped chan error) { stopped <- w.Run(ctx, func() { close(ready) }) }(s.w, s.stopped)
	select {
	case <-ready:
		return s.w, nil
	case err := <-s.stopped:
		s.w = nil
		return nil, err
	}
}

// stop is an orderly end.
func (s *site) stop() error {
	s.cancel()
	err := <-s.stopped
	s.w = nil
	return err
}

// kill ends the process without a last word: what it has not published by now it will not.
func (s *site) kill() {
	s.catalog.kill()
	s.cancel()
	<-s.stopped
	s.w = nil
}

func (s *site) stream(name string) millstream.StreamID {
	st, err := s.model.EnsureStream(context.Background(), millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	return st.ID
}

// rows is a batch of log records numbered first, first+1, …
func rows(stream string, first, n int) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for i := first; i < first+n; i++ {
		b.Int([]byte("seq"), int64(i))
		b.String([]byte("message"), fmt.Appendf(nil, "record %d of %s", i, stream))
		if err := b.Commit(int64(1e18) + int64(i)); err != nil {
			panic(err)
		}
	}
	out := b.Batch()
	out.Org, out.Signal, out.Name = testOrg, millstream.Logs, stream
	return out
}

func (s *site) append(b ...*millstream.Batch) {
	s.t.Helper()
	if err := s.w.Append(context.Background(), b...); err != nil {
		s.t.Fatalf("append: %v", err)
	}
}

func (s *site) flush() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.w.Flush(ctx); err != nil {
		s.t.Fatalf("flush: %v", err)
	}
}

// read is a query: every record's seq of one stream, sorted. It does what the query engine does: hold, snapshot, segments and unflushed rows, and again if stale.
func (s *site) read(stream millstream.StreamID) ([]int64, error) {
	var err error
	for range 4 {
		var got []int64
		if got, err = s.readOnce(stream); err == nil {
			slices.Sort(got)
			return got, nil
		}
		if !errors.Is(err, ErrStale) {
			return nil, err
		}
	}
	return nil, err
}

func (s *site) readOnce(stream millstream.StreamID) ([]int64, error) {
	defer s.w.Hold()()
	segments, positions := s.model.snapshot(stream)
	var sources []segment.Source
	for _, g := range segments {
		r, err := s.open(g)
		if err != nil {
			return nil, err
		}
		sources = append(sources, r)
	}
	for id, at := range positions {
		u, err := s.w.Unflushed(context.Background(), id, stream, at)
		if err != nil {
			return nil, err
		}
		sources = append(sources, u.Logs...)
	}
	var got []int64
	all := segment.Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Fields: []string{"seq"}}
	for _, src := range sources {
		_, err := src.Scan(context.Background(), all, func(b *millstream.Batch) error {
			got = append(got, b.Column("seq").Ints...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (s *site) open(g millstream.Segment) (*segment.Reader, error) {
	data, err := s.fetch(g.Data)
	if err != nil {
		return nil, err
	}
	index, err := s.fetch(g.Index)
	if err != nil {
		return nil, err
	}
	return segment.Open(data, data.Size(), index, index.Size())
}

func (s *site) fetch(e millstream.Extent) (*bytes.Reader, error) {
	rc, err := s.bucket.Get(context.Background(), e.Key, e.Offset, e.Length)
	if err != nil {
		return nil, fmt.Errorf("segment object: %w", err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	return bytes.NewReader(b), err
}

// want checks that a stream has exactly the records [0, n).
func (s *site) want(stream millstream.StreamID, n int) {
	s.t.Helper()
	got, err := s.read(stream)
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
	if err := exactly(got, n); err != nil {
		s.t.Fatal(err)
	}
}

func exactly(got []int64, n int) error {
	for i, v := range got {
		if i >= n || v != int64(i) {
			return fmt.Errorf("record %d of %d (want %d records) is %d: lost, doubled or made up", i, len(got), n, v)
		}
	}
	if len(got) != n {
		return fmt.Errorf("%d records of %d", len(got), n)
	}
	return nil
}

// samples reads the number of samples of the metric stream, buffered and published.
func (s *site) samples(stream millstream.StreamID) int64 {
	s.t.Helper()
	defer s.w.Hold()()
	segments, positions := s.model.snapshot(stream)
	n := int64(0)
	for _, g := range segments {
		data, err := s.fetch(g.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		index, err := s.fetch(g.Index)
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := metrics.Open(data, data.Size(), index, index.Size())
		if err != nil {
			s.t.Fatal(err)
		}
		n += r.Samples()
	}
	for id, at := range positions {
		u, err := s.w.Unflushed(context.Background(), id, stream, at)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, src := range u.Metrics {
			n += src.Samples()
		}
	}
	return n
}

func waitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
