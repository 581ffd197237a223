package rpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/internal/netfault"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// TestWriteIntoOneWAL: a node whose data directory was replaced must not take what the former one may have.
func TestWriteIntoOneWAL(t *testing.T) {
	in := &fakeIntake{wal: "mine"}
	c := connect(t, &Server{Intake: in})
	for w, taken := range map[millstream.WALID]bool{"mine": true, "": true, "another": false} {
		before := len(in.batches())
		_, err := Into{c, w}.Write(t.Context(), logs(2, 1))
		if (err == nil) != taken || len(in.batches()) > before != taken {
			t.Errorf("into %q: %v", w, err)
		}
		if !taken && (millstream.KindOf(err) != millstream.Unavailable || errors.Is(err, wal.ErrUnknown)) {
			t.Errorf("into %q: %v is not a refusal", w, err)
		}
	}
}

func TestWriteCarriesBatchesWhole(t *testing.T) {
	in := &fakeIntake{}
	c := connect(t, &Server{Intake: in})
	samples := &millstream.Batch{Org: "o", Signal: millstream.Metrics, Name: millstream.MetricStream, ID: millstream.BatchID{9}, Samples: &millstream.Samples{
		Series: []string{"a", "b"}, Ref: []uint32{0, 1, 1}, Time: []int64{1, 2, 3}, Value: []float64{1.5, 2, -1}, Metadata: []millstream.Metadata{{Name: "x", Type: "counter"}},
	}}
	sent := []*millstream.Batch{logs(700, 1), logs(3, 2), samples}
	if n, err := c.Write(t.Context(), sent...); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	got := in.batches()
	if len(got) != len(sent) {
		t.Fatalf("%d batches arrived, want %d", len(got), len(sent))
	}
	for i, b := range got {
		if b.Org != sent[i].Org || b.Name != sent[i].Name || b.ID != sent[i].ID || b.Signal != sent[i].Signal || b.Rows() != sent[i].Rows() {
			t.Errorf("batch %d: %v %v %v %v, %d rows", i, b.Org, b.Name, b.ID, b.Signal, b.Rows())
		}
		if !bytes.Equal(b.AppendTo(nil), sent[i].AppendTo(nil)) {
			t.Errorf("batch %d arrived changed", i)
		}
	}
	if !reflect.DeepEqual(got[2].Samples, samples.Samples) {
		t.Errorf("samples arrived as %+v", got[2].Samples)
	}
}

// What a small stream keeps of a call must not hold what the call brought for another, which may be gone long before.
func TestBatchesOfOneCallDoNotHoldEachOther(t *testing.T) {
	var small *millstream.Batch
	var large weak.Pointer[byte]
	in := &fakeIntake{write: func(_ context.Context, bs []*millstream.Batch) (int, error) {
		small, large = bs[0], weak.Make(&bs[1].Column("message").Bytes[0])
		clear(bs)
		return 0, nil
	}}
	c := connect(t, &Server{Intake: in})
	if _, err := c.Write(t.Context(), logs(1, 1), logs(5000, 2)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); large.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the batch that is left holds the other one's memory")
		}
	}
	if small.Rows() != 1 {
		t.Errorf("%d rows are left", small.Rows())
	}
}

func TestWriteTellsRepetitions(t *testing.T) {
	c := connect(t, &Server{Intake: &fakeIntake{write: func(_ context.Context, bs []*millstream.Batch) (int, error) { return len(bs), nil }}})
	if n, err := c.Write(t.Context(), logs(1, 1), logs(1, 2)); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// failure of a Write: what its caller has to know.
func check(t *testing.T, err error, unknown bool) {
	t.Helper()
	if millstream.KindOf(err) != millstream.Unavailable || errors.Is(err, wal.ErrUnknown) != unknown {
		t.Errorf("%v (kind %d, unknown %v), want Unavailable and unknown %v", err, millstream.KindOf(err), errors.Is(err, wal.ErrUnknown), unknown)
	}
}

func TestWhatWasNotSentWasNotTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	c := clientsWith(t, ClientConfig{}).To(millstream.Member{ID: "peer", Addr: nobody})
	_, err = c.Write(t.Context(), logs(10, 1))
	check(t, err, false)

	c, p := connectThrough(t, &Server{Intake: &fakeIntake{}}, ClientConfig{})
	p.Set(netfault.Cut)
	_, err = c.Write(t.Context(), logs(10, 1))
	check(t, err, false)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Write(ctx, logs(10, 1))
	check(t, err, false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not tell that its context ended", err)
	}

	p.Set(netfault.Blackhole) // the connection stands and never says a word
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	for errors.Is(err, context.Canceled) { // the first call may still see the refusal
		_, err = c.Write(short, logs(10, 1))
	}
	check(t, err, false)
	if took := time.Since(began); took > 15*time.Second { // connectTimeout, not gRPC's 20 s
		t.Errorf("a peer that takes connections only was tried for %v", took)
	}
}

func TestLostRepliesAreUnknown(t *testing.T) {
	in := &fakeIntake{}
	c, p := connectThrough(t, &Server{Intake: in, Log: quietLog()}, ClientConfig{})
	if _, err := c.Write(t.Context(), logs(10, 1)); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(ctx expiring, cancel func()){
		"deadline": func(ctx expiring, _ func()) { close(ctx.over) },
		"cancel":   func(_ expiring, cancel func()) { cancel() },
		"reset":    func(expiring, func()) { reset(p) },
	} {
		before := len(in.batches())
		p.Set(netfault.NoReplies)
		parent := expires(t)
		ctx, cancel := context.WithCancel(parent)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.Write(ctx, logs(10, 2))
			check(t, err, true)
		})
		eventually(t, name+": the peer took the batch", func() bool { return len(in.batches()) > before })
		end(parent, cancel)
		wg.Wait()
		cancel()
		if len(in.batches()) != before+1 {
			t.Errorf("%s: the peer took %d batches, want one", name, len(in.batches())-before)
		}
		p.Set(netfault.Whole)
		eventually(t, "the peer is reached again", func() bool { _, err := c.Status(t.Context()); return err == nil })
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestASilentPeerIsNoticed: calls that wait for a peer that fell silent end by themselves, and the next ones fail at once without having been sent.
func TestASilentPeerIsNoticed(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	in := &fakeIntake{}
	c, p := connectThrough(t, &Server{Intake: in}, ClientConfig{Registerer: reg})
	if _, err := c.Write(t.Context(), logs(10, 1)); err != nil {
		t.Fatal(err)
	}
	p.Set(netfault.Blackhole)
	began := time.Now()
	_, err := c.Write(t.Context(), logs(10, 2))
	check(t, err, true)
	if took := time.Since(began); took > 12*time.Second { // gRPC's own keepalive takes 13 s
		t.Errorf("noticed after %v", took)
	}
	began = time.Now()
	_, err = c.Write(t.Context(), logs(10, 3))
	check(t, err, false)
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("the second write was refused after %v", took)
	}
	if n := counted(t, reg, "millstream_rpc_client_broken_connections_total", ""); n < 1 {
		t.Errorf("%v broken connections counted", n)
	}
	p.Set(netfault.Whole)
	back := time.Now()
	eventually(t, "writes pass again", func() bool { _, err := c.Write(t.Context(), logs(10, 4)); return err == nil })
	if took := time.Since(back); took > 30*time.Second { // gRPC's own pauses grow to two minutes
		t.Errorf("reached again after %v", took)
	}
}

// TestASlowPeerIsNotTakenForASilentOne: an answer may take much longer than a sign of life.
func TestASlowPeerIsNotTakenForASilentOne(t *testing.T) {
	t.Parallel()
	wait := 5 * time.Second
	if testing.Short() {
		wait = time.Second
	}
	c := connect(t, &Server{Intake: &fakeIntake{write: func(context.Context, []*millstream.Batch) (int, error) { time.Sleep(wait); return 0, nil }}})
	if _, err := c.Write(t.Context(), logs(1, 1)); err != nil {
		t.Error(err)
	}
}

func TestLargeWritesGoInSeveralCalls(t *testing.T) {
	small, large := logs(1, 1), logs(100, 2)
	size := func(bs ...*millstream.Batch) int {
		var all []byte
		for _, b := range bs {
			all, _ = appendPart(all, b)
		}
		return len(all)
	}
	most := size(large, small, small)
	for name, c := range map[string]struct {
		batches []*millstream.Batch
		want    []int // parts of each request
	}{
		"none":              {nil, []int{0}},
		"one":               {[]*millstream.Batch{small}, []int{1}},
		"what just fits":    {[]*millstream.Batch{small, large, small}, []int{3}},
		"what does not":     {[]*millstream.Batch{large, large, small}, []int{1, 2}},
		"the last does not": {[]*millstream.Batch{large, small, large}, []int{2, 1}},
		"each alone":        {[]*millstream.Batch{large, large, large}, []int{1, 1, 1}},
	} {
		requests, err := encode(c.batches, limits{batch: most, message: most})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		var parts []*rpcpb.Part
		for _, r := range requests {
			var req rpcpb.WriteRequest
			if err := proto.Unmarshal(*r.buf, &req); err != nil || len(*r.buf) > most {
				t.Fatalf("%s: a request of %d bytes: %v", name, len(*r.buf), err)
			}
			got, parts = append(got, len(req.GetParts())), append(parts, req.GetParts()...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: requests of %v parts, want %v", name, got, c.want)
		}
		for i, b := range c.batches {
			if !bytes.Equal(parts[i].GetBatch(), b.AppendTo(nil)) || parts[i].GetOrg() != string(b.Org) || parts[i].GetName() != b.Name {
				t.Errorf("%s: part %d is not its batch", name, i)
			}
		}
	}
	named := &millstream.Batch{Org: millstream.OrgID(strings.Repeat("o", 128)), Name: strings.Repeat("s", 512)}
	if around := size(named); wal.MaxPayload+around > maxMessage {
		t.Errorf("the largest batch and %d bytes beside it do not fit into %d", around, maxMessage)
	}
}

// TestHalfAWriteIsUnknown: a Write of two calls of which the second fails is neither taken nor not taken.
func TestHalfAWriteIsUnknown(t *testing.T) {
	calls := 0
	c := connect(t, &Server{Log: quietLog(), Intake: &fakeIntake{write: func(context.Context, []*millstream.Batch) (int, error) {
		if calls++; calls == 1 {
			return 0, nil
		}
		return 0, millstream.Errorf(millstream.Unavailable, "no room")
	}}})
	size := len(logs(100, 1).AppendTo(nil))
	c.limits = limits{batch: size, message: size * 3 / 2}
	_, err := c.Write(t.Context(), logs(100, 1), logs(100, 2))
	check(t, err, true)
	_, err = c.Write(t.Context(), logs(100, 3), logs(100, 4))
	check(t, err, false) // here the first call fails
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
	if _, err = c.Write(t.Context(), logs(1, 5), logs(101, 6)); millstream.KindOf(err) != millstream.TooLarge || calls != 3 {
		t.Errorf("%v after %d calls, want TooLarge without one", err, calls)
	}
}

// TestWritesAtOnce runs many writers over one connection.
func TestWritesAtOnce(t *testing.T) {
	in := &fakeIntake{}
	c := connect(t, &Server{Intake: in})
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for range 20 {
				if _, err := c.Write(t.Context(), logs(50, byte(w))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, b := range in.batches() {
		if !bytes.Equal(b.AppendTo(nil), logs(50, b.ID[0]).AppendTo(nil)) {
			t.Fatal("a batch arrived changed")
		}
	}
	if n := len(in.batches()); n != 320 {
		t.Errorf("%d batches arrived", n)
	}
}

func TestDamagedBatchesAreRefused(t *testing.T) {
	in := &fakeIntake{}
	addr := serveOn(t, &Server{Trusted: true, Intake: in, Log: quietLog()})
	c := clientsWith(t, ClientConfig{}).To(millstream.Member{ID: "peer", Addr: addr})
	whole := logs(20, 1).AppendTo(nil)
	for cut := 0; cut < len(whole); cut += 97 {
		_, err := c.intake.Write(t.Context(), &rpcpb.WriteRequest{Parts: []*rpcpb.Part{{Org: "o", Name: "s", Batch: whole[:cut]}}})
		if status.Code(err) != codes.InvalidArgument {
			t.Fatalf("%d of %d bytes: %v", cut, len(whole), err)
		}
	}
	if len(in.batches()) != 0 {
		t.Error("a damaged batch was taken")
	}
}

// TestPoolKeepsOneConnectionAPeer also shows that idle ones go and come back.
func TestPoolKeepsOneConnectionAPeer(t *testing.T) {
	in := &fakeIntake{}
	addr := serveOn(t, &Server{Trusted: true, Intake: in})
	cs := clientsWith(t, ClientConfig{})
	m := millstream.Member{ID: "peer", Addr: addr}
	for range 3 {
		if _, err := cs.To(m).Write(t.Context(), logs(1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(cs.list()); n != 1 {
		t.Fatalf("%d clients", n)
	}
	tr := cs.Traffic()
	if len(tr) != 1 || tr[0].Node != "peer" || tr[0].Writes != 3 || tr[0].Sent == 0 || tr[0].Received == 0 {
		t.Errorf("traffic %+v", tr)
	}
	old := cs.To(m)
	cs.sweep(time.Now().Add(idleFor / 2))
	if len(cs.list()) != 1 {
		t.Error("a client in use was closed")
	}
	cs.sweep(time.Now().Add(2 * idleFor))
	if len(cs.list()) != 0 {
		t.Error("an idle client stayed")
	}
	if _, err := old.Write(t.Context(), logs(1, 1)); millstream.KindOf(err) != millstream.Unavailable || errors.Is(err, wal.ErrUnknown) {
		t.Errorf("through a closed client: %v", err)
	}
	if _, err := cs.To(m).Write(t.Context(), logs(1, 1)); err != nil {
		t.Errorf("after the sweep: %v", err)
	}
}

func TestFlushAndStatus(t *testing.T) {
	started := time.Unix(1_700_000_000, 5)
	st := Status{Incarnation: 7, Started: started, Draining: true, CPU: 1.5, Memory: 1 << 30, Buffered: 5, Queries: 3, Traffic: []Traffic{{Node: "b", Addr: "x:1", Writes: 1, Queries: 2, Sent: 3, Received: 4}}}
	drained := false
	c := connect(t, &Server{Version: "v9", Intake: &fakeIntake{}, Status: func() Status { return st }, Drain: func(context.Context) error { drained = true; return nil }})
	if err := c.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	got, err := c.Status(t.Context())
	st.Node, st.Version, st.Protocol = "peer", "v9", Protocol
	if err != nil || !got.Started.Equal(started) {
		t.Errorf("%v, %v", got, err)
	}
	if got.Started = started; !reflect.DeepEqual(got, st) {
		t.Errorf("status %+v, want %+v", got, st)
	}
	if err := c.Drain(t.Context()); err != nil || !drained {
		t.Errorf("drained %v, %v", drained, err)
	}
}
