package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/netfault"
)

var _ rows = (*ingest.Writer)(nil)

// The client is what it calls: whoever takes the one takes the other.
var (
	_ rows          = (*Client)(nil)
	_ ingest.Target = (*Client)(nil)
	_ ingest.Target = Into{}
)

// fakeRows answers what the test says.
type fakeRows struct {
	ask     atomic.Pointer[ingest.Ask]
	runs    func(ctx context.Context, emit func(ingest.Run) error) error
	reach   ingest.Reach
	pending map[millstream.StreamID]ingest.Pending
	of      atomic.Pointer[ingest.PendingAsk]
	meta    []millstream.Metadata
	tail    func(ctx context.Context, emit func(ingest.Tailed) error) error
	err     error
}

func (f *fakeRows) Runs(ctx context.Context, a ingest.Ask, emit func(ingest.Run) error) (ingest.Reach, error) {
	f.ask.Store(&a)
	if f.err != nil {
		return ingest.Reach{}, f.err
	}
	if err := f.runs(ctx, emit); err != nil {
		return ingest.Reach{}, err
	}
	return f.reach, nil
}

func (f *fakeRows) Pending(_ context.Context, a ingest.PendingAsk) (map[millstream.StreamID]ingest.Pending, error) {
	f.of.Store(&a)
	return f.pending, f.err
}

func (f *fakeRows) Metadata(_ context.Context, id millstream.WALID, org millstream.OrgID) ([]millstream.Metadata, error) {
	if id != "wal" || org != "org" {
		return nil, fmt.Errorf("asked for %q %q", id, org)
	}
	return f.meta, f.err
}

func (f *fakeRows) Subscribe(ctx context.Context, _ millstream.StreamID, emit func(ingest.Tailed) error) error {
	return f.tail(ctx, emit)
}

// pattern is n bytes that differ by place and seed.
func pattern(n int, seed byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i>>8)*7 ^ byte(i) ^ seed
	}
	return out
}

func segmentRun(first, last millstream.LSN, data, index []byte) ingest.Run {
	return ingest.Run{Stream: "s1", Signal: millstream.Logs, First: first, Last: last, Part: first, DataSize: int64(len(data)), IndexSize: int64(len(index)), Data: bytes.NewReader(data), Index: bytes.NewReader(index)}
}

// flat is a run as text, its content read.
func flat(r ingest.Run) (string, error) {
	out := fmt.Sprintf("%s %v %d-%d/%d ", r.Stream, r.Signal, r.First, r.Last, r.Part)
	if r.Batch != nil {
		return out + string(r.Batch.Stream) + string(r.Batch.AppendTo(nil)), nil
	}
	data, err := io.ReadAll(r.Data)
	if err != nil {
		return "", err
	}
	index, err := io.ReadAll(r.Index)
	return out + fmt.Sprintf("%d %d ", r.DataSize, r.IndexSize) + string(data) + "|" + string(index), err
}

// everyRun has runs of each kind around the borders of messages.
func everyRun() (out []ingest.Run) {
	lsn := millstream.LSN(1)
	for _, size := range []int{0, 1, 1000, maxRuns - 1, maxRuns, maxRuns + 1, 3*maxRuns + 17} {
		out = append(out, segmentRun(lsn, lsn+9, pattern(size, 1), pattern(size/3, 2)))
		lsn += 10
	}
	for i, rows := range []int{1, 10, 12_000, 1} {
		b := logs(rows, byte(i))
		b.Stream = "s2"
		out = append(out, ingest.Run{Stream: "s2", Signal: millstream.Logs, First: lsn, Last: lsn, Part: 3, Batch: b})
		lsn++
	}
	samples := &millstream.Batch{Signal: millstream.Metrics, Stream: "m", Samples: &millstream.Samples{Series: []string{"a"}, Ref: []uint32{0}, Time: []int64{5}, Value: []float64{2}}}
	return append(out, ingest.Run{Stream: "m", Signal: millstream.Metrics, First: lsn, Last: lsn, Part: lsn, Batch: samples})
}

func TestRunsArriveAsTheyAre(t *testing.T) {
	f := &fakeRows{reach: ingest.Reach{Incarnation: 4, To: 999}}
	f.runs = func(_ context.Context, emit func(ingest.Run) error) error {
		for _, r := range everyRun() {
			if err := emit(r); err != nil {
				return err
			}
		}
		return nil
	}
	c := connect(t, &Server{Rows: f})
	ask := ingest.Ask{WAL: "wal", Incarnation: 4, Above: 7, Streams: []ingest.StreamAsk{{Stream: "s1", Have: 8, Segments: []millstream.LSN{9, 10}}, {Stream: "s2"}}}
	var got []string
	reach, err := c.Runs(t.Context(), ask, func(r ingest.Run) error {
		text, err := flat(r)
		got = append(got, text)
		return err
	})
	if err != nil || reach != f.reach {
		t.Fatalf("%v, %v", reach, err)
	}
	if a := f.ask.Load(); !reflect.DeepEqual(*a, ask) {
		t.Errorf("asked %+v, want %+v", *a, ask)
	}
	want := everyRun()
	if len(got) != len(want) {
		t.Fatalf("%d runs, want %d", len(got), len(want))
	}
	for i, r := range want {
		if text, err := flat(r); err != nil || got[i] != text {
			t.Errorf("run %d arrived changed (%d bytes, want %d)", i, len(got[i]), len(text))
		}
	}
	n := 0
	if _, err := c.Runs(t.Context(), ask, func(r ingest.Run) error { // a reader that reads little
		if n++; r.Data != nil && n%2 == 0 {
			_, err := io.CopyN(io.Discard, r.Data, min(10, r.DataSize))
			return err
		}
		return nil
	}); err != nil || n != len(want) {
		t.Errorf("%d runs, %v", n, err)
	}
}

func TestRunsEndWithTheirErrors(t *testing.T) {
	f := &fakeRows{runs: func(ctx context.Context, emit func(ingest.Run) error) error {
		for ctx.Err() == nil {
			if err := emit(segmentRun(1, 2, pattern(maxRuns, 1), nil)); err != nil {
				return err
			}
		}
		return ctx.Err()
	}}
	c, link := connectThrough(t, &Server{Rows: f, Log: quietLog()}, ClientConfig{})
	enough := errors.New("enough")
	if _, err := c.Runs(t.Context(), ingest.Ask{}, func(ingest.Run) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("emit's error became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.Runs(ctx, ingest.Ask{}, func(ingest.Run) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
	if _, err := c.Runs(t.Context(), ingest.Ask{}, func(r ingest.Run) error { reset(link); return nil }); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("after a reset: %v", err)
	}
	for _, want := range []error{ingest.ErrStale, ingest.ErrNotReady} {
		f.err = fmt.Errorf("position 5: %w", want)
		eventually(t, "the peer answers", func() bool { _, err := c.Status(t.Context()); return err == nil })
		if _, err := c.Runs(t.Context(), ingest.Ask{}, nil); !errors.Is(err, want) {
			t.Errorf("%v became %v", want, err)
		}
	}
}

// TestASlowReaderOfRunsHoldsTheWriterBack: what is under way is a few messages, however much there is.
func TestASlowReaderOfRunsHoldsTheWriterBack(t *testing.T) {
	var emitted atomic.Int64
	const all = 40
	f := &fakeRows{runs: func(_ context.Context, emit func(ingest.Run) error) error {
		for range all {
			if err := emit(segmentRun(1, 2, pattern(maxRuns, 1), nil)); err != nil {
				return err
			}
			emitted.Add(1)
		}
		return nil
	}}
	c := connect(t, &Server{Rows: f})
	got := 0
	if _, err := c.Runs(t.Context(), ingest.Ask{}, func(ingest.Run) error {
		if got++; got == 1 {
			time.Sleep(200 * time.Millisecond)
			if n := emitted.Load(); n > 8 {
				t.Errorf("%d MiB were sent to a reader that has read one", n)
			}
		}
		return nil
	}); err != nil || got != all {
		t.Errorf("%d runs, %v", got, err)
	}
}

func TestPendingAndMetadata(t *testing.T) {
	f := &fakeRows{
		pending: map[millstream.StreamID]ingest.Pending{
			"s1": {Rows: 5, Bytes: 6, MinTime: -7, MaxTime: 8, Fields: []millstream.Field{
				{Name: "ok", Type: millstream.String, WideInt: true, Conflict: true, Seen: []millstream.Type{millstream.Int64, millstream.String}}, {Name: "not \xff UTF-8", Type: millstream.Bool},
			}},
			"s2": {},
		},
		meta: []millstream.Metadata{{Name: "up", Type: "gauge", Unit: "s", Help: "hélp \xfe"}, {Name: "x"}},
	}
	c := connect(t, &Server{Rows: f, Log: quietLog()})
	for _, ask := range []ingest.PendingAsk{{WAL: "wal", Streams: []millstream.StreamID{"s1", "s2"}}, {WAL: "wal", Org: "org"}} {
		got, err := c.Pending(t.Context(), ask)
		if err != nil || !reflect.DeepEqual(got, f.pending) || !reflect.DeepEqual(*f.of.Load(), ask) {
			t.Errorf("%+v, %v of %+v", got, err, f.of.Load())
		}
	}
	if got, err := c.Metadata(t.Context(), "wal", "org"); err != nil || !reflect.DeepEqual(got, f.meta) {
		t.Errorf("%+v, %v", got, err)
	}
	f.err = ingest.ErrNotReady
	if _, err := c.Pending(t.Context(), ingest.PendingAsk{}); !errors.Is(err, ingest.ErrNotReady) {
		t.Errorf("%v", err)
	}
	none := connect(t, &Server{Log: quietLog()})
	if _, err := none.Pending(t.Context(), ingest.PendingAsk{}); millstream.KindOf(err) != millstream.Unavailable || !strings.Contains(err.Error(), "has no intake") {
		t.Errorf("%v", err)
	}
}

func TestSubscribe(t *testing.T) {
	ended := make(chan struct{}, 8)
	f := &fakeRows{}
	f.tail = func(ctx context.Context, emit func(ingest.Tailed) error) error {
		defer func() { ended <- struct{}{} }()
		if err := emit(ingest.Tailed{Incarnation: 3, Told: 100}); err != nil {
			return err
		}
		if err := emit(ingest.Tailed{Incarnation: 3, Told: 105, Batch: logs(5, 1)}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	c, link := connectThrough(t, &Server{Rows: f, Log: quietLog()}, ClientConfig{})
	var events []ingest.Tailed
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Subscribe(ctx, "s1", func(e ingest.Tailed) error {
		if events = append(events, e); e.Batch != nil {
			cancel()
		}
		return nil
	})
	<-ended
	if err != nil || len(events) != 2 || events[0] != (ingest.Tailed{Incarnation: 3, Told: 100}) {
		t.Fatalf("%+v, %v", events, err)
	}
	if e := events[1]; e.Told != 105 || e.Incarnation != 3 || e.Batch.Stream != "s1" || !bytes.Equal(e.Batch.AppendTo(nil), logs(5, 1).AppendTo(nil)) {
		t.Errorf("%+v", e)
	}
	enough := errors.New("enough")
	if err := c.Subscribe(t.Context(), "s1", func(ingest.Tailed) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("emit's error became %v", err)
	}
	<-ended
	err = c.Subscribe(t.Context(), "s1", func(e ingest.Tailed) error {
		if e.Batch != nil {
			link.Set(netfault.Cut)
		}
		return nil
	})
	if millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a broken connection: %v", err)
	}
	<-ended
	link.Set(netfault.Whole)
	f.tail = func(context.Context, func(ingest.Tailed) error) error { return nil } // the writer stops
	eventually(t, "the peer answers", func() bool { _, err := c.Status(t.Context()); return err == nil })
	if err := c.Subscribe(t.Context(), "s1", nil); err != nil {
		t.Errorf("the end of the writer's life: %v", err)
	}
}

// TestALeavingNodeEndsWhatWouldNeverEnd and lets the rest go on.
func TestALeavingNodeEndsWhatWouldNeverEnd(t *testing.T) {
	f := &fakeRows{tail: func(ctx context.Context, emit func(ingest.Tailed) error) error {
		err := emit(ingest.Tailed{})
		<-ctx.Done()
		return err
	}}
	slow := make(chan struct{})
	s := &Server{Rows: f, Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tail" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-slow:
			_, _ = io.WriteString(w, ", done")
		}
	})}
	c := connect(t, s)
	begun, ended := make(chan struct{}, 3), make(chan string, 3)
	go func() {
		err := c.Subscribe(t.Context(), "s1", func(ingest.Tailed) error { begun <- struct{}{}; return nil })
		ended <- fmt.Sprint("subscription ", err)
	}()
	for _, path := range []string{"/tail", "/query"} {
		go func() {
			w := httptest.NewRecorder()
			err := c.Forward(&onWrite{w, func() { begun <- struct{}{} }}, get(path), nil)
			ended <- fmt.Sprint(path, " ", w.Body, " ", err)
		}()
	}
	for range 3 {
		<-begun
	}
	s.Leave()
	first := []string{<-ended, <-ended}
	slices.Sort(first)
	if want := []string{"/tail begun <nil>", "subscription <nil>"}; !slices.Equal(first, want) {
		t.Errorf("%q, want %q", first, want)
	}
	close(slow)
	<-begun // its second write
	if got := <-ended; got != "/query begun, done <nil>" {
		t.Errorf("%q", got)
	}
}
