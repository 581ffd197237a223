package warm_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/warm"
	"github.com/millstream/millstream/store"
)

// world is a catalog and an object store that notes what is read, and a placement on queriers.
type world struct {
	blob.Bucket
	t        *testing.T
	mu       sync.Mutex
	segments []millstream.Segment
	read     []string // keys, in the order in which they were read
	down     bool
	placed   *cluster.Placement
}

func newWorld(t *testing.T, queriers ...string) *world {
	w := &world{Bucket: blob.NewMemory(), t: t}
	w.members(queriers...)
	return w
}

// members makes the queriers those; each has a placement of its own.
func (w *world) members(queriers ...string) {
	var nodes []cluster.Node
	for _, q := range queriers {
		nodes = append(nodes, cluster.Node{ID: "cache of " + q, Node: millstream.NodeID(q), MilliCPU: 4000})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.placed = cluster.NewPlacement(nodes)
}

func (w *world) placement() *cluster.Placement {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.placed
}

// publish adds segments whose newest records are at the given times.
func (w *world) publish(times ...int64) []millstream.Segment {
	var out []millstream.Segment
	for _, at := range times {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", at)
		s := millstream.Segment{ID: millstream.SegmentID(id), Org: "org", MaxTime: at, Data: w.put(id+"-data", 5000), Index: w.put(id+"-index", 1000)}
		out = append(out, s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.segments = append(w.segments, out...)
	return out
}

// away says whether the object store fails.
func (w *world) away(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = yes
}

func (w *world) put(key string, size int) millstream.Extent {
	body := bytes.Repeat([]byte(key), size/len(key)+1)[:size]
	if err := w.Put(context.Background(), key, bytes.NewReader(body), int64(size)); err != nil {
		w.t.Fatal(err)
	}
	sum := blake3.Sum256(body)
	return millstream.Extent{Key: key, Length: int64(size), Checksum: hex.EncodeToString(sum[:])}
}

func (w *world) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	w.mu.Lock()
	w.read = append(w.read, key)
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, millstream.Errorf(millstream.Unavailable, "the object store is away")
	}
	return w.Bucket.Get(ctx, key, off, n)
}

func (w *world) LiveSegments(_ context.Context, after store.Place, most int) ([]millstream.Segment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.segments)
	slices.SortFunc(all, func(a, b millstream.Segment) int { return cmp.Compare(b.MaxTime, a.MaxTime) })
	if after.ID != "" {
		all = slices.DeleteFunc(all, func(s millstream.Segment) bool { return s.MaxTime >= after.MaxTime })
	}
	return all[:min(most, len(all))], nil
}

func (w *world) reads() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.read)
}

func (w *world) cache(dir string, size int64) *cache.Cache {
	w.t.Helper()
	c, err := cache.Open(cache.Config{Bucket: w, Dir: dir, MaxSize: size, Open: func(_ millstream.Segment, data, _ cache.File) (any, error) { return data.ReaderAt, nil }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// run runs the warmer of the node "a" until the test ends.
func (w *world) run(c *cache.Cache, change func(*warm.Config)) *warm.Warmer {
	w.t.Helper()
	cfg := warm.Config{Catalog: w, Cache: c, Placement: w.placement, Self: "a", Settle: time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	x := warm.New(cfg)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx, func() {}) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return x
}

func (w *world) wait(what string, reached func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// owned are the segments of the node "a" newest first.
func (w *world) owned() (out []millstream.Segment) {
	p := w.placement()
	all, _ := w.LiveSegments(context.Background(), store.Place{}, 1<<20)
	for _, s := range all {
		if owner, ok := p.Owner(cluster.SegmentKey(s.ID)); ok && owner.Node == "a" {
			out = append(out, s)
		}
	}
	return out
}

func (w *world) warmed(c *cache.Cache) func() bool {
	return func() bool {
		return !slices.ContainsFunc(w.owned(), func(s millstream.Segment) bool { return !c.Has(s) })
	}
}

func numbers(from, to int64) (out []int64) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// TestTheOwnShareNewestFirst: indexes of owned segments only, in order, then those that are published, and those of a node that left; once each.
func TestTheOwnShareNewestFirst(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.publish(numbers(0, 1500)...)
	c := w.cache(t.TempDir(), 0)
	x := w.run(c, func(cfg *warm.Config) { cfg.Parallel = 1 })
	w.wait("the share", w.warmed(c))
	var want []string
	for _, s := range w.owned() {
		want = append(want, s.Index.Key)
	}
	if got := w.reads(); !slices.Equal(got, want) {
		t.Fatalf("%d objects were read, want the %d indexes of the share, newest first", len(got), len(want))
	}
	if len(want) < 350 || len(want) > 650 {
		t.Errorf("a third of 1,500 segments are %d", len(want))
	}
	w.publish(numbers(2000, 2030)...)
	w.publish(-5)
	x.Changed()
	w.wait("what was published", w.warmed(c))
	w.members("a", "c")
	w.wait("the share of a node that left", w.warmed(c))
	w.wait("the count", func() bool { s := x.Share(); return s.Segments == len(w.owned()) && s.Warm == s.Segments })
	if got := w.reads(); len(got) != len(w.owned()) {
		t.Errorf("%d reads for %d segments", len(got), len(w.owned()))
	}
}

// TestAShareIsNotKnownBeforeItIsCounted: a node that owned nothing does not call itself warm once it owns something.
func TestAShareIsNotKnownBeforeItIsCounted(t *testing.T) {
	w := newWorld(t, "b")
	w.publish(numbers(0, 50)...)
	x := w.run(w.cache(t.TempDir(), 0), nil)
	w.wait("nothing is owned", func() bool { p := x.Share().Percent(); return p != nil && *p == 100 })
	w.away(true)
	w.members("a", "b")
	w.wait("the count", func() bool {
		p := x.Share().Percent()
		if p != nil && *p != 0 {
			t.Fatalf("nothing is here, and the node is warm to %v percent", *p)
		}
		return p != nil
	})
	w.away(false)
	w.wait("the share", func() bool { p := x.Share().Percent(); return p != nil && *p == 100 })
	if n := len(w.owned()); n == 0 || x.Share().Segments != n {
		t.Errorf("the share is %+v, want %d segments", x.Share(), n)
	}
}

// TestRestartFetchesNothingAgain: the files are there, whatever the process.
func TestRestartFetchesNothingAgain(t *testing.T) {
	w := newWorld(t, "a")
	w.publish(numbers(0, 50)...)
	dir := t.TempDir()
	c := w.cache(dir, 0)
	t.Run("first", func(t *testing.T) {
		own := w.t
		w.t = t
		defer func() { w.t = own }()
		x := w.run(c, nil)
		w.wait("the share", func() bool { s := x.Share(); return s.Warm == 50 })
	})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	before := len(w.reads())
	x := w.run(w.cache(dir, 0), nil)
	w.wait("the share", func() bool { s := x.Share(); return s.Rounds > 0 && s.Warm == 50 })
	if p := x.Share().Percent(); p == nil || *p != 100 {
		t.Errorf("warm to %v percent", p)
	}
	if n := len(w.reads()) - before; n != 0 {
		t.Errorf("%d reads after a restart", n)
	}
}

// TestAnOutageIsWaitedFor: what fails is tried again.
func TestAnOutageIsWaitedFor(t *testing.T) {
	w := newWorld(t, "a")
	w.publish(numbers(0, 20)...)
	w.away(true)
	c := w.cache(t.TempDir(), 0)
	w.run(c, nil)
	w.wait("some tries", func() bool { return len(w.reads()) > 8 })
	w.away(false)
	w.wait("the share", w.warmed(c))
}

// TestBandwidthIsBounded: no more than the rate, after what a second gives.
func TestBandwidthIsBounded(t *testing.T) {
	w := newWorld(t, "a")
	w.publish(numbers(0, 60)...) // 60 kB
	c := w.cache(t.TempDir(), 0)
	began := time.Now()
	w.run(c, func(cfg *warm.Config) { cfg.Rate = 40_000 })
	w.wait("the share", w.warmed(c))
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("60 kB at 40 kB/s after a second's worth took %s", took)
	}
}

// TestTheNewestFitFirst: indexes take three quarters of the cache at most, and the newest are there; later rounds do not churn.
func TestTheNewestFitFirst(t *testing.T) {
	w := newWorld(t, "a")
	w.publish(numbers(0, 100)...)
	c := w.cache(t.TempDir(), 40_000)
	x := w.run(c, func(cfg *warm.Config) { cfg.Parallel, cfg.Every = 1, 20*time.Millisecond })
	w.wait("some rounds", func() bool { return x.Share().Rounds > 4 })
	if s := x.Share(); s.Segments != 100 || s.Warm != 30 {
		t.Errorf("%+v, want 30 of 100", s)
	}
	for i, s := range w.owned() {
		if c.Has(s) != (i < 30) {
			t.Errorf("segment %d: %v", i, c.Has(s))
		}
	}
	if n := len(w.reads()); n != 30 {
		t.Errorf("%d reads", n)
	}
}

// TestPushes are taken before anybody can query the segment, with small data; at the limits they are declined.
func TestPushes(t *testing.T) {
	w := newWorld(t, "a")
	reg := prometheus.NewRegistry()
	c := w.cache(t.TempDir(), 20_000)
	x := w.run(c, func(cfg *warm.Config) { cfg.Registerer, cfg.Rate, cfg.Every = reg, 8_000, 10*time.Millisecond })
	pushed := w.publish(1)[0]
	w.mu.Lock()
	w.segments = nil // not published yet
	w.mu.Unlock()
	if accepted, err := x.Push(t.Context(), pushed); !accepted || err != nil || !c.Has(pushed) {
		t.Fatalf("%v, %v", accepted, err)
	}
	before := len(w.reads())
	h, err := c.Get(t.Context(), pushed)
	if err != nil {
		t.Fatal(err)
	}
	if !h.Cached || !h.Local() || len(w.reads()) != before {
		t.Error("the pushed segment is not there as a whole")
	}
	h.Release()
	over := w.publish(2, 3)
	if accepted, err := x.Push(t.Context(), over[0]); !accepted || err != nil { // overdraws
		t.Errorf("%v, %v", accepted, err)
	}
	if accepted, err := x.Push(t.Context(), over[1]); accepted || err != nil {
		t.Errorf("beyond the rate: %v, %v", accepted, err)
	}
	lost := over[1]
	lost.Index.Key = "nowhere"
	lost.Index.Checksum = lost.Data.Checksum
	w.wait("a failed push", func() bool { _, err := x.Push(t.Context(), lost); return err != nil })
	for outcome, n := range map[string]float64{"accepted": 2, "failed": 1} {
		if got := value(t, reg, outcome); got != n {
			t.Errorf("%s: %v, want %v", outcome, got, n)
		}
	}
	if value(t, reg, "declined") < 1 {
		t.Error("no push was counted as declined")
	}
}

// TestMovedSegmentsAreCounted: as queriers come and go, by which the share's gauges go as well.
func TestMovedSegmentsAreCounted(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.publish(numbers(0, 300)...)
	reg := prometheus.NewRegistry()
	c := w.cache(t.TempDir(), 0)
	x := w.run(c, func(cfg *warm.Config) { cfg.Registerer = reg })
	shares := func(in, out int) {
		t.Helper()
		own := len(w.owned())
		w.wait("the share", func() bool { s := x.Share(); return s.Segments == own && s.Warm == own })
		for _, g := range []struct {
			name, label string
			want        float64
		}{
			{"moved_segments_total", "in", float64(in)}, {"moved_segments_total", "out", float64(out)},
			{"share_segments", "", float64(own)}, {"warm_segments", "", float64(own)}, {"warm_ratio", "", 1},
		} {
			w.wait(fmt.Sprint(g.name, " ", g.label, " is ", g.want), func() bool { return sample(t, reg, "millstream_warmer_"+g.name, g.label) == g.want })
		}
	}
	two := len(w.owned())
	shares(0, 0)
	w.members("a", "b", "c")
	left := two - len(w.owned())
	if left < 20 {
		t.Fatalf("%d of %d segments go to a third node", left, two)
	}
	shares(0, left)
	w.members("a", "b")
	shares(left, left)
	if n := sample(t, reg, "millstream_warmer_fetched_bytes_total", ""); n != 1000*float64(two) {
		t.Errorf("%v bytes were fetched for %d indexes of 1,000", n, two)
	}
}

func value(t *testing.T, reg *prometheus.Registry, outcome string) float64 {
	return sample(t, reg, "millstream_warmer_pushes_total", outcome)
}

// sample is a metric without a label, or with one of a value.
func sample(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s of %q", name, label)
	return 0
}
