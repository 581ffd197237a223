package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

func TestRowsAreVisibleAtOnceAfterAFlushAndAfterARestart(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	n := 0
	add := func(k int) {
		t.Helper()
		s.append(rows("app", n, k))
		n += k
		s.want(id, n)
	}
	for range 40 {
		add(1)
	}
	add(100)
	s.flush()
	s.want(id, n)
	add(5)
	s.kill()
	s.start()
	s.want(id, n)
	add(3)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.model.state.Wals {
		if !w.Clean || w.Position != 43 {
			t.Errorf("after a stop: %+v", w)
		}
	}
	s.start()
	s.want(id, n)
}

func TestSealedRunsMerge(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	n := 0
	for range 5 {
		s.append(rows("app", n, sealRows/2+10))
		n += sealRows/2 + 10
		s.want(id, n)
	}
	s.flush()
	s.want(id, n)
	if m, _ := s.w.room.levels(); m != 0 {
		t.Errorf("%d bytes of memory are still accounted after the flush", m)
	}
	s.kill()
	s.start()
	s.want(id, n)
}

func sampleBatch(first, n int) *millstream.Batch {
	key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "up"}, {Name: "job", Value: "a"}})
	if err != nil {
		panic(err)
	}
	sm := &millstream.Samples{Series: []string{string(key)}, Metadata: []millstream.Metadata{{Name: "up", Type: "gauge"}}}
	for i := first; i < first+n; i++ {
		sm.Ref, sm.Time, sm.Value = append(sm.Ref, 0), append(sm.Time, int64(1e12+i*1000)), append(sm.Value, float64(i))
	}
	return &millstream.Batch{Org: testOrg, Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: sm}
}

func TestMetrics(t *testing.T) {
	s := newSite(t)
	s.start()
	st, _ := s.model.EnsureStream(context.Background(), millstream.StreamKey{Org: testOrg, Signal: millstream.Metrics, Name: millstream.MetricStream})
	s.append(sampleBatch(0, 100))
	if got := s.samples(st.ID); got != 100 {
		t.Fatalf("%d samples", got)
	}
	s.flush()
	s.append(sampleBatch(100, 50))
	if got := s.samples(st.ID); got != 150 {
		t.Fatalf("%d samples after a flush", got)
	}
	s.kill()
	s.start()
	if got := s.samples(st.ID); got != 150 {
		t.Fatalf("%d samples after a restart", got)
	}
	segments, _ := s.model.snapshot(st.ID)
	if len(segments) != 1 || segments[0].MinTime != 1e18 || segments[0].MaxTime != 1e18+99e9 {
		t.Fatalf("segments: %+v", segments)
	}
	only := sampleBatch(0, 0) // a description without samples makes no segment, and stops nothing
	s.append(only)
	s.flush()
	if s.model.state.Metadata["up"].Type != "gauge" {
		t.Error("the metadata did not reach the catalog")
	}
}

func TestSeveralStreamsInOneWrite(t *testing.T) {
	s := newSite(t)
	s.start()
	s.append(rows("a", 0, 10), rows("b", 0, 20), rows("c", 0, 30))
	for name, n := range map[string]int{"a": 10, "b": 20, "c": 30} {
		s.want(s.stream(name), n)
	}
}

func TestInvalidBatches(t *testing.T) {
	s := newSite(t)
	s.start()
	nameless, empty, wrong := rows("a", 0, 1), rows("a", 0, 1), rows("a", 0, 1)
	nameless.Name, empty.Times, wrong.Signal = "", nil, millstream.Metrics
	for _, b := range []*millstream.Batch{nil, nameless, empty, wrong} {
		good := rows("a", 0, 1)
		good.ID[0] = 1
		if err := s.w.Append(context.Background(), good, b); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%v", err)
		}
	}
	good := rows("a", 0, 1)
	good.ID[0] = 1
	s.append(good) // its claim was given back
	s.want(s.stream("a"), 1)
}

func batchWithID(id byte, first, n int) *millstream.Batch {
	b := rows("app", first, n)
	b.ID = millstream.BatchID{id, 6: 0x80}
	return b
}

func TestRepeatedBatchesAreWrittenOnce(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	write := func() int {
		t.Helper()
		n, err := s.w.Write(context.Background(), batchWithID(1, 0, 5), batchWithID(2, 5, 5))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var wg sync.WaitGroup
	for range 8 { // at the same time
		wg.Add(1)
		go func() {
			defer wg.Done()
			write()
		}()
	}
	wg.Wait()
	s.want(id, 10)
	if n := write(); n != 2 {
		t.Errorf("%d of 2 repeated", n)
	}
	s.flush()
	s.kill()
	s.start()
	if n := write(); n != 2 {
		t.Errorf("after a restart %d of 2 repeated", n)
	}
	s.want(id, 10)
	s.w.setPhase(draining)
	if n := write(); n != 2 {
		t.Errorf("a draining node: %d of 2 repeated", n)
	}
	if _, err := s.w.Write(context.Background(), batchWithID(3, 0, 1)); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a draining node takes new writes: %v", err)
	}
}

// What is forgotten, of ids and of the log, goes by the clock that the database has, not by the node's own: that one may be set, and may have been wrong in a former life.
func TestTheNodesClockForgetsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var own atomic.Int64 // how far the node's clock is ahead
	s.change = func(c *WriterConfig) {
		c.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(own.Load())) }
		c.Clock = time.Now
	}
	id := s.stream("app")
	write := func(n, known int) {
		t.Helper()
		if got, err := s.w.Write(t.Context(), batchWithID(byte(n), 10*n, 10)); err != nil || got != known {
			t.Fatalf("the clock is %v ahead: %d batches were known, want %d; %v", time.Duration(own.Load()), got, known, err)
		}
	}
	own.Store(int64(-20 * time.Minute))
	s.start()
	write(0, 0)
	s.flush()
	s.kill()
	own.Store(0) // by the next start somebody has set it right
	s.start()
	write(0, 1)
	write(1, 0)
	for _, step := range []time.Duration{17 * time.Minute, 10 * time.Hour, -10 * time.Hour} {
		own.Store(int64(step))
		write(0, 1)
		write(1, 1)
		s.flush() // and retires what the log need not keep
		s.kill()
		s.start()
		write(0, 1)
		write(1, 1)
	}
	s.want(id, 20)
}

func TestBatchIDsAreForgottenInTime(t *testing.T) {
	d := newDedupe()
	minute := int64(time.Minute)
	id := func(n int, keyed bool) (b millstream.BatchID) {
		b[0], b[1], b[2], b[6] = byte(n), byte(n>>8), byte(n>>16), 0x70
		if keyed {
			b[6] = 0x80
		}
		return b
	}
	known := func(b millstream.BatchID, now int64) bool {
		k, _, mine, err := d.claim(b, now)
		if err != nil {
			t.Fatal(err)
		}
		if mine != nil {
			d.finish(b, mine, now, errors.New("not written"))
		}
		return k
	}
	d.remember(id(1, true), 0)
	if !known(id(1, true), 15*minute) || known(id(1, true), 18*minute) {
		t.Error("a key is remembered for 15 minutes, and not for ever")
	}
	for n := range maxIDs + 10 {
		d.remember(id(n, false), int64(n)*minute/(maxIDs/4))
	}
	if d.size() > maxIDs || known(id(0, false), 5*minute) || !known(id(maxIDs+9, false), 5*minute) {
		t.Errorf("%d made ids are remembered", d.size())
	}
}

func TestFieldLimitAndConflicts(t *testing.T) {
	s := newSite(t)
	s.change = func(c *WriterConfig) { c.MaxFields = 3 }
	s.start()
	build := func(f func(b *millstream.Builder)) *millstream.Batch {
		b := millstream.NewBuilder(millstream.Limits{})
		f(b)
		if err := b.Commit(1); err != nil {
			t.Fatal(err)
		}
		out := b.Batch()
		out.Org, out.Signal, out.Name = testOrg, millstream.Logs, "wide"
		return out
	}
	s.append(build(func(b *millstream.Builder) { b.Int([]byte("a"), 1); b.Int([]byte("b"), 2) }))
	s.append(build(func(b *millstream.Builder) {
		b.String([]byte("a"), []byte("x"))
		b.Bool([]byte("c"), true)
		b.String([]byte("d"), []byte("\"\x00ü"))
		b.Double([]byte("e"), 1.5)
	}))
	within := millstream.NewBuilder(millstream.Limits{}) // a conflict that one request brings with it
	for _, v := range []string{"1", "text"} {
		if v == "1" {
			within.Int([]byte("mixed"), 1)
		} else {
			within.String([]byte("mixed"), []byte(v))
		}
		if err := within.Commit(1); err != nil {
			t.Fatal(err)
		}
	}
	mixed := within.Batch()
	mixed.Org, mixed.Signal, mixed.Name = testOrg, millstream.Logs, "mixed"
	s.append(mixed)
	s.flush()
	ms, _ := s.model.EnsureStream(context.Background(), millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "mixed"})
	if f, _ := ms.Schema.Field("mixed"); !f.Conflict || fmt.Sprint(f.Seen) != "[int64 string]" {
		t.Errorf("the conflict within one batch is not in the schema: %+v", f)
	}
	st, _ := s.model.EnsureStream(context.Background(), millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "wide"})
	a, _ := st.Schema.Field("a")
	if a.Type != millstream.String || !a.Conflict || len(st.Schema.Fields) != 4 {
		t.Fatalf("schema: %+v", st.Schema)
	}
	u, err := s.w.Unflushed(context.Background(), s.w.WAL(), st.ID, 0)
	if err != nil || len(u.Logs) != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	texts := columnTexts(t, u.Logs[0], millstream.OverflowField)
	if want := []string{"", `{"d":"\"\u0000ü","e":1.5}`}; fmt.Sprint(texts) != fmt.Sprint(want) {
		t.Errorf("overflow: %q", texts)
	}
}

func columnTexts(t *testing.T, src segment.Source, field string) (out []string) {
	t.Helper()
	all := segment.Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Fields: []string{field}, Times: true}
	_, err := src.Scan(context.Background(), all, func(b *millstream.Batch) error {
		for i := range b.Rows() {
			out = append(out, strings.Clone(b.Column(field).Str(i)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestFewPutsForManyStreams(t *testing.T) {
	s := newSite(t)
	b := &bucket{Bucket: s.bucket}
	s.bucket = b
	s.start()
	const streams = 1000
	for i := range streams {
		s.append(rows(fmt.Sprintf("s%d", i), 0, 1))
	}
	b.set(func(b *bucket) { b.puts = 0 })
	s.flush()
	if b.puts > 20 {
		t.Errorf("%d puts for %d streams", b.puts, streams)
	}
	for i := 0; i < streams; i += 97 {
		s.want(s.stream(fmt.Sprintf("s%d", i)), 1)
	}
}

func TestStaleAndNotReady(t *testing.T) {
	s := newSite(t)
	s.grace = 0
	s.start()
	id := s.stream("app")
	s.append(rows("app", 0, 10))
	release := s.w.Hold()
	s.flush()
	if u, err := s.w.Unflushed(context.Background(), s.w.WAL(), id, 0); err != nil || len(u.Logs) == 0 {
		t.Errorf("held rows are gone: %v", err)
	}
	release()
	s.w.reap()
	if _, err := s.w.Unflushed(context.Background(), s.w.WAL(), id, 0); !errors.Is(err, ErrStale) {
		t.Errorf("rows that are gone: %v", err)
	}
	if _, err := s.w.Unflushed(context.Background(), s.w.WAL(), id, 99); !errors.Is(err, ErrNotReady) {
		t.Errorf("above the end: %v", err)
	}
	if _, err := s.w.Unflushed(context.Background(), "other", id, 0); !errors.Is(err, ErrNotReady) {
		t.Errorf("another WAL: %v", err)
	}
	w := NewWriter(WriterConfig{Catalog: s.model})
	if _, err := w.Unflushed(context.Background(), "", id, 0); !errors.Is(err, ErrNotReady) {
		t.Errorf("not started: %v", err)
	}
}

func TestSubscribe(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	ctx, cancel := context.WithCancel(context.Background())
	got, ended := make(chan Tailed, 1000), make(chan error)
	subscribe := func() {
		ended <- s.w.Subscribe(ctx, id, func(e Tailed) error {
			got <- e
			return nil
		})
	}
	s.append(rows("app", 0, 3))
	go subscribe()
	if e := <-got; e.Batch != nil || e.Told != 3 || e.Incarnation != s.incarnation {
		t.Errorf("a subscription begins with %+v", e)
	}
	s.append(rows("app", 3, 7), rows("other", 0, 1))
	if e := <-got; e.Batch.Rows() != 7 || e.Batch.Stream != id || e.Told != 10 || e.Incarnation != s.incarnation {
		t.Errorf("%+v", e)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	slow := &tail{events: make(chan Tailed, tailBacklog)}
	s.w.tails.add(id, slow)
	missed := 0
	for range tailBacklog + 5 {
		missed += s.w.tails.tell(&millstream.Batch{Stream: id})
	}
	if missed != 5 {
		t.Errorf("a slow subscriber missed %d of 5", missed)
	}
	s.w.tails.remove(id, slow)
	ctx = context.Background()
	go subscribe()
	<-got
	s.append(rows("app", 10, 1))
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if e := <-got; e.Batch.Rows() != 1 {
		t.Errorf("%+v", e)
	}
	if err := <-ended; err != nil {
		t.Errorf("a subscription ends with its writer, by %v", err)
	}
}

func TestReplayIsBounded(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	const n = 20_000
	for i := 0; i < n; i += 500 {
		s.append(rows("app", i, 500))
	}
	s.kill()
	s.change = func(c *WriterConfig) { c.BufferTotal, c.BufferSize = 512<<10, 512<<10 }
	s.start()
	s.want(id, n)
	if len(s.model.outcomes()) < 2 {
		t.Errorf("%d flushes during a replay of several times the buffer", len(s.model.outcomes()))
	}
}
