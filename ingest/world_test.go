package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

var _ Holder = (*Writer)(nil)

// wire is a writer as another node sees it: what is given is encoded and decoded, and counted.
type wire struct {
	w            atomic.Pointer[Writer]
	hang         atomic.Bool
	asks, silent atomic.Int64
	rows, bytes  atomic.Int64
	change       func(r *Run) error // called for each run that is given
	cut          chan struct{}      // breaks subscriptions when it is closed
}

func (x *wire) holder(ctx context.Context) (*Writer, error) {
	if x.hang.Load() {
		x.silent.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w := x.w.Load(); w != nil {
		return w, nil
	}
	return nil, millstream.Errorf(millstream.Unavailable, "connection refused")
}

func (x *wire) Runs(ctx context.Context, a Ask, emit func(Run) error) (Reach, error) {
	w, err := x.holder(ctx)
	if err != nil {
		return Reach{}, err
	}
	x.asks.Add(1)
	return w.Runs(ctx, a, func(r Run) error {
		if x.change != nil {
			if err := x.change(&r); err != nil {
				return err
			}
		}
		if r.Batch == nil {
			x.bytes.Add(r.DataSize + r.IndexSize)
			data, err := io.ReadAll(r.Data)
			if err != nil {
				return err
			}
			r.Data = bytes.NewReader(data)
			return emit(r)
		}
		b := r.Batch.AppendTo(nil)
		x.bytes.Add(int64(len(b)))
		x.rows.Add(int64(r.Batch.Rows()))
		if r.Batch, err = millstream.DecodeBatch(b); err != nil {
			return err
		}
		return emit(r)
	})
}

func (x *wire) Pending(ctx context.Context, a PendingAsk) (map[millstream.StreamID]Pending, error) {
	w, err := x.holder(ctx)
	if err != nil {
		return nil, err
	}
	return w.Pending(ctx, a)
}

func (x *wire) Metadata(ctx context.Context, id millstream.WALID, org millstream.OrgID) ([]millstream.Metadata, error) {
	w, err := x.holder(ctx)
	if err != nil {
		return nil, err
	}
	return w.Metadata(ctx, id, org)
}

func (x *wire) Subscribe(ctx context.Context, stream millstream.StreamID, emit func(Tailed) error) error {
	w, err := x.holder(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cut := x.cut
	if cut == nil {
		return w.Subscribe(ctx, stream, emit)
	}
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = w.Subscribe(ctx, stream, emit)
	select {
	case <-cut:
		return millstream.Errorf(millstream.Unavailable, "connection lost")
	default:
		return err
	}
}

// names of the streams of a world; the last is the metrics'.
var worldStreams = []string{"app", "other", millstream.MetricStream}

// world is some nodes that write to the same streams, and a mirror on a further one.
type world struct {
	t      testing.TB
	sites  []*site
	wires  []*wire
	ids    []millstream.StreamID
	mirror *Mirror
	next   [][]int // by site and stream: how many records it has
}

func newWorld(t testing.TB, nodes int, adjust func(*Writer)) *world {
	x := &world{t: t}
	for i := range nodes {
		s := newSite(t)
		s.grace = 0
		if adjust != nil {
			s.adjust = adjust
		}
		for k, name := range worldStreams {
			key := millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: name}
			if name == millstream.MetricStream {
				key.Signal = millstream.Metrics
			}
			if i == 0 {
				st, err := s.model.EnsureStream(context.Background(), key)
				if err != nil {
					t.Fatal(err)
				}
				x.ids = append(x.ids, st.ID)
			}
			s.model.state.Streams[key] = store.Stream{ID: x.ids[k], Key: key}
		}
		x.sites, x.wires, x.next = append(x.sites, s), append(x.wires, &wire{}), append(x.next, make([]int, len(worldStreams)))
		x.start(i)
	}
	x.mirror = x.newMirror(MirrorConfig{})
	return x
}

func (x *world) newMirror(c MirrorConfig) *Mirror {
	c.Dial, c.TempDir = x.dial, x.t.TempDir()
	return NewMirror(c)
}

func (x *world) dial(w store.WALState) (Holder, error) {
	for i, s := range x.sites {
		if s.model.holds(w.ID) {
			return x.wires[i], nil
		}
	}
	return nil, errDown
}

func (m *model) holds(id millstream.WALID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.state.Wals[id]
	return ok
}

func (x *world) start(i int) {
	s := x.sites[i]
	x.wires[i].w.Store(s.start())
	s.w.Beat(s.model.beat("node", s.incarnation)) // the history that it knows
}

func (x *world) end(i int, kill bool) {
	x.wires[i].w.Store(nil)
	if kill {
		x.sites[i].kill()
	} else if err := x.sites[i].stop(); err != nil {
		x.t.Log(err)
	}
}

// write appends n records to a stream on a node.
func (x *world) write(i, stream, n int) {
	x.t.Helper()
	first := i*1e9 + x.next[i][stream]
	b := rows(worldStreams[stream], first, n)
	if worldStreams[stream] == millstream.MetricStream {
		b = sampleBatch(first, n)
	}
	x.sites[i].append(b)
	x.next[i][stream] += n
}

// reading is what a query found of each stream: records by node.
type reading struct {
	records [][]int64
	missing []Missing
}

// read is a query of some streams. between is called after the snapshot.
func (x *world) read(m *Mirror, streams []int, between func()) (reading, error) {
	var r reading
	var err error
	for range 4 {
		if r, err = x.readOnce(m, streams, between); !errors.Is(err, ErrStale) {
			break
		}
		between = func() {}
	}
	return r, err
}

func (x *world) readOnce(m *Mirror, streams []int, between func()) (r reading, err error) {
	defer m.Hold()()
	var wals []store.WALState
	var ids []millstream.StreamID
	found := make([]Unflushed, len(streams))
	for _, k := range streams {
		ids = append(ids, x.ids[k])
	}
	for _, s := range x.sites {
		now := s.model.save()
		for id, w := range now.Wals {
			wals = append(wals, store.WALState{ID: id, Node: w.Holder, Incarnation: w.Incarnation, Position: w.Position, Clean: w.Clean})
		}
		for _, g := range now.Segments {
			k := slices.Index(ids, g.Stream)
			if k < 0 {
				continue
			}
			if err := s.openInto(g, &found[k]); err != nil {
				return r, err
			}
		}
	}
	between()
	missing, release, err := m.Unflushed(context.Background(), wals, ids, func(k int, u Unflushed) {
		found[k].Logs, found[k].Metrics = append(found[k].Logs, u.Logs...), append(found[k].Metrics, u.Metrics...)
	})
	if err != nil {
		return r, err
	}
	if release != nil {
		defer release()
	}
	r.missing, r.records = missing, make([][]int64, len(streams))
	for k := range streams {
		if r.records[k], err = recordsOf(found[k]); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (s *site) openInto(g millstream.Segment, u *Unflushed) error {
	if g.Signal != millstream.Metrics {
		rd, err := s.open(g)
		u.Logs = append(u.Logs, rd)
		return err
	}
	data, err := s.fetch(g.Data)
	if err != nil {
		return err
	}
	index, err := s.fetch(g.Index)
	if err != nil {
		return err
	}
	rd, err := metrics.Open(data, data.Size(), index, index.Size())
	u.Metrics = append(u.Metrics, rd)
	return err
}

// recordsOf lists the numbers of all records, sorted. The sources may not count more samples than a query gets of them.
func recordsOf(u Unflushed) (out []int64, err error) {
	all := segment.Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Fields: []string{"seq"}}
	for _, src := range u.Logs {
		if _, err := src.Scan(context.Background(), all, func(b *millstream.Batch) error {
			out = append(out, b.Column("seq").Ints...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	counted := int64(0)
	for _, src := range u.Metrics {
		counted += src.Samples()
	}
	series, err := metrics.Select(context.Background(), u.Metrics, metrics.Query{Min: math.MinInt64, Max: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	var it metrics.Iterator
	for _, s := range series {
		for it.Reset(s.Chunks); it.Next() != chunkenc.ValNone; {
			_, v := it.At()
			out = append(out, int64(v))
		}
	}
	if len(u.Metrics) > 0 && counted > int64(len(out)) { // a head may have grown since
		return nil, fmt.Errorf("%d samples are counted, %d found", counted, len(out))
	}
	slices.Sort(out)
	return out, nil
}

// check says whether records of a stream are those that each node has, each once: at least low, at most high of it. A node may be missing.
func (x *world) check(stream int, got []int64, missing bool, low, high func(node int) int) error {
	by := make([][]int64, len(x.sites))
	for _, v := range got {
		i := int(v / 1e9)
		by[i] = append(by[i], v%1e9)
	}
	for i := range by {
		n := len(by[i])
		if !missing && n < low(i) || n > high(i) {
			return fmt.Errorf("%s: %d records of node %d instead of %d to %d", worldStreams[stream], n, i, low(i), high(i))
		}
		for k, v := range by[i] {
			if !missing && v != int64(k) || k > 0 && by[i][k-1] == v {
				return fmt.Errorf("%s: record %d of node %d is %d", worldStreams[stream], k, i, v)
			}
		}
	}
	return nil
}
