package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/store"
)

// peers are nodes that answer as they are told, and the view of them.
type peers struct {
	mu     sync.Mutex
	live   []millstream.NodeID
	answer map[millstream.NodeID]func(try int) (int, error)
	calls  map[millstream.NodeID][][]*millstream.Batch
}

func newPeers(live ...millstream.NodeID) *peers {
	return &peers{live: live, answer: map[millstream.NodeID]func(int) (int, error){}, calls: map[millstream.NodeID][][]*millstream.Batch{}}
}

func (p *peers) view() *cluster.View {
	var ms []millstream.Member
	for _, id := range p.live {
		ms = append(ms, millstream.Member{ID: id, Roles: []string{cluster.Intake}, WAL: walOf(id)})
	}
	return cluster.NewView(ms, time.Time{}, cluster.Timeouts{})
}

// walOf is the WAL of a node of that name.
func walOf(id millstream.NodeID) millstream.WALID {
	return millstream.WALID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(id)).String())
}

type peer struct {
	id millstream.NodeID
	p  *peers
}

func (t peer) Write(_ context.Context, batches ...*millstream.Batch) (int, error) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.calls[t.id] = append(t.p.calls[t.id], slices.Clone(batches))
	if f := t.p.answer[t.id]; f != nil {
		return f(len(t.p.calls[t.id]))
	}
	return 0, nil
}

func (p *peers) router(pins pinner) *Router {
	return NewRouter(RouterConfig{Self: "router", View: p.view, Dial: func(m millstream.Member) Target { return peer{m.ID, p} }, Pins: pins, Streams: oneStream{}})
}

// oneStream gives every stream the same id but for its name.
type oneStream struct{}

func (oneStream) Resolve(_ context.Context, k millstream.StreamKey) (millstream.StreamID, error) {
	return millstream.StreamID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(k.Name)).String()), nil
}

// order is the nodes in rank order for a stream of logs.
func (p *peers) order(stream string) (ids []millstream.NodeID) {
	for _, m := range p.view().Rank(cluster.Intake, cluster.StreamKey(testOrg, millstream.Logs, stream), 9) {
		ids = append(ids, m.ID)
	}
	return ids
}

var (
	errRefused = &millstream.Error{Kind: millstream.Unavailable, Msg: "the node is stopping and takes no more writes", RetryAfter: 1}
	errLost    = unknown(errors.New("no reply"))
)

func always(err error) func(int) (int, error) { return func(int) (int, error) { return 0, err } }

// first gives the errors in turn, then success.
func first(errs ...error) func(int) (int, error) {
	return func(try int) (int, error) {
		if try <= len(errs) {
			return 0, errs[try-1]
		}
		return 0, nil
	}
}

func TestWhatEachAnswerOfANodeMeans(t *testing.T) {
	p := newPeers("a", "b", "c", "d")
	order := p.order("app")
	for name, c := range map[string]struct {
		answers [4]func(int) (int, error) // by rank
		want    error                     // by its kind; nil: success
		unknown bool
		calls   [4]int // 0 for "at least two" of the first when unknown
	}{
		"taken by the first":               {calls: [4]int{1}},
		"refused goes to the next at once": {answers: [4]func(int) (int, error){always(errRefused)}, calls: [4]int{1, 1}},
		"rate limited goes to the next":    {answers: [4]func(int) (int, error){always(millstream.Errorf(millstream.RateLimited, "full"))}, calls: [4]int{1, 1}},
		"three nodes at most":              {answers: [4]func(int) (int, error){always(errRefused), always(errRefused), always(errRefused)}, want: errRefused, calls: [4]int{1, 1, 1, 0}},
		"invalid is the answer":            {answers: [4]func(int) (int, error){always(millstream.Errorf(millstream.Invalid, "x"))}, want: millstream.Errorf(millstream.Invalid, ""), calls: [4]int{1}},
		"too large is the answer":          {answers: [4]func(int) (int, error){always(millstream.Errorf(millstream.TooLarge, "x"))}, want: millstream.Errorf(millstream.TooLarge, ""), calls: [4]int{1}},
		"not found is the answer":          {answers: [4]func(int) (int, error){always(millstream.Errorf(millstream.NotFound, "x"))}, want: millstream.Errorf(millstream.NotFound, ""), calls: [4]int{1}},
		"internal is the answer":           {answers: [4]func(int) (int, error){always(errors.New("x"))}, want: errors.New(""), calls: [4]int{1}},
		"unknown is repeated there":        {answers: [4]func(int) (int, error){first(errLost, errLost)}, calls: [4]int{3}},
		"its deadline ended there":         {answers: [4]func(int) (int, error){first(context.DeadlineExceeded)}, calls: [4]int{2}},
		"it was canceled there":            {answers: [4]func(int) (int, error){first(context.Canceled)}, calls: [4]int{2}},
		"refused, then unknown":            {answers: [4]func(int) (int, error){always(errRefused), first(errLost)}, calls: [4]int{1, 2}},
		"unknown, then refused, then done": {answers: [4]func(int) (int, error){first(errLost, errRefused, errRefused)}, calls: [4]int{4}},
		"unknown for good":                 {answers: [4]func(int) (int, error){first(errLost, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused, errRefused)}, want: errLost, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeers("a", "b", "c", "d")
			for i, f := range c.answers {
				p.answer[order[i]] = f
			}
			var err error
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if c.unknown {
					ctx, cancel = context.WithTimeout(t.Context(), 400*time.Millisecond)
				}
				defer cancel()
				_, err = p.router(nil).Write(ctx, Write{Org: testOrg, Batches: []*millstream.Batch{rows("app", 0, 2)}})
			})
			if (err == nil) != (c.want == nil) || err != nil && millstream.KindOf(err) != millstream.KindOf(c.want) || errors.Is(err, wal.ErrUnknown) != c.unknown {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if c.unknown {
				if len(p.calls[order[0]]) < 2 || len(p.calls) != 1 {
					t.Errorf("calls %d of the first, %d nodes called: unknown is sticky", len(p.calls[order[0]]), len(p.calls))
				}
				return
			}
			id := millstream.BatchID{}
			for i, n := range c.calls {
				if got := len(p.calls[order[i]]); got != n {
					t.Errorf("node %d of the order was called %d times, want %d", i, got, n)
				}
				for _, call := range p.calls[order[i]] {
					if id == (millstream.BatchID{}) {
						id = call[0].ID
					}
					if call[0].ID != id || isKeyed(id) {
						t.Errorf("batch id %x, then %x", id, call[0].ID)
					}
				}
			}
		})
	}
}

// TestUnknownStaysWithItsNode: while the registry has lost the WALs, as after a failover, no member's is known. None of the others holds the one that may have the
// write.
func TestUnknownStaysWithItsNode(t *testing.T) {
	p := newPeers("a", "b", "c")
	r := p.router(nil)
	var members []millstream.Member
	for _, id := range p.live {
		members = append(members, millstream.Member{ID: id, Roles: []string{cluster.Intake}})
	}
	r.cfg.View = func() *cluster.View { return cluster.NewView(members, time.Time{}, cluster.Timeouts{}) }
	for _, id := range p.live {
		p.answer[id] = first(errLost)
	}
	for i := range 20 {
		stream := fmt.Sprint("s", i)
		clear(p.calls)
		if _, err := r.Write(t.Context(), Write{Org: testOrg, Batches: []*millstream.Batch{rows(stream, 0, 1)}}); err != nil {
			t.Fatal(err)
		}
		if owner := p.order(stream)[0]; len(p.calls) != 1 || len(p.calls[owner]) != 2 {
			t.Errorf("stream %s of node %s: %d nodes got it, its own %d times", stream, owner, len(p.calls), len(p.calls[owner]))
		}
	}
}

func TestNoIntake(t *testing.T) {
	p := newPeers()
	_, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: []*millstream.Batch{rows("app", 0, 1)}})
	var e *millstream.Error
	if !errors.As(err, &e) || e.Kind != millstream.Unavailable || e.RetryAfter == 0 || e.Msg != "no intake node is available" {
		t.Errorf("%+v", err)
	}
	_, err = p.router(newModel()).Write(t.Context(), keyed("k", 1, rows("app", 0, 1)))
	if !errors.As(err, &e) || e.Msg != "no intake node is available" {
		t.Errorf("keyed: %+v", err)
	}
}

// TestPartsOfOneNodeGoInOneCall: streams spread over the nodes, each node is called once, and a refused part finds its own next node.
func TestPartsOfOneNodeGoInOneCall(t *testing.T) {
	p := newPeers("a", "b", "c")
	var batches []*millstream.Batch
	want := map[millstream.NodeID]int{}
	for i := range 30 {
		name := fmt.Sprint("s", i)
		batches = append(batches, rows(name, 0, 1))
		want[p.order(name)[0]]++
	}
	if _, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: batches}); err != nil {
		t.Fatal(err)
	}
	for id, n := range want {
		if len(p.calls[id]) != 1 || len(p.calls[id][0]) != n {
			t.Errorf("node %s: %d calls", id, len(p.calls[id]))
		}
	}
	if len(want) != 3 {
		t.Errorf("30 streams use %d nodes", len(want))
	}
	p.calls = map[millstream.NodeID][][]*millstream.Batch{}
	p.answer["a"] = always(errRefused)
	if _, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: batches}); err != nil {
		t.Fatal(err)
	}
	got := map[string]millstream.NodeID{}
	for _, id := range []millstream.NodeID{"b", "c"} {
		for _, call := range p.calls[id] {
			for _, b := range call {
				got[b.Name] = id
			}
		}
	}
	for _, b := range batches {
		order := p.order(b.Name)
		if order[0] == "a" {
			order = order[1:]
		}
		if got[b.Name] != order[0] {
			t.Errorf("stream %s went to %s, want %s", b.Name, got[b.Name], order[0])
		}
	}
}

// TestARequestFailsAsAWhole: one part is refused for good, the others are stored all the same.
func TestARequestFailsAsAWhole(t *testing.T) {
	p := newPeers("a", "b", "c")
	p.answer["b"] = always(millstream.Errorf(millstream.TooLarge, "x"))
	var batches []*millstream.Batch
	for i := range 30 {
		batches = append(batches, rows(fmt.Sprint("s", i), 0, 1))
	}
	if _, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: batches}); millstream.KindOf(err) != millstream.TooLarge {
		t.Errorf("%v", err)
	}
	if len(p.calls["a"]) != 1 || len(p.calls["c"]) != 1 {
		t.Errorf("%d and %d calls of the others", len(p.calls["a"]), len(p.calls["c"]))
	}
	p.calls = map[millstream.NodeID][][]*millstream.Batch{}
	bad := rows("app", 0, 1)
	bad.Name = ""
	if _, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: append(batches, bad)}); millstream.KindOf(err) != millstream.Invalid || len(p.calls) != 0 {
		t.Errorf("a batch that no node would take: %v, %d nodes were called", err, len(p.calls))
	}
}

// crowd counts the calls that are under way at a time.
type crowd struct{ now, most *atomic.Int64 }

func (c crowd) Write(context.Context, ...*millstream.Batch) (int, error) {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(2 * time.Millisecond)
	c.now.Add(-1)
	return 0, nil
}

func TestTheFanOutIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers()
		for i := range 100 {
			p.live = append(p.live, millstream.NodeID(fmt.Sprint("n", i)))
		}
		r, c := p.router(nil), crowd{new(atomic.Int64), new(atomic.Int64)}
		r.cfg.Dial = func(millstream.Member) Target { return c }
		var batches []*millstream.Batch
		for i := range 200 {
			batches = append(batches, rows(fmt.Sprint("s", i), 0, 1))
		}
		if _, err := r.Write(t.Context(), Write{Org: testOrg, Batches: batches}); err != nil {
			t.Fatal(err)
		}
		if most := c.most.Load(); most != fanOut {
			t.Errorf("%d calls at a time, want %d", most, fanOut)
		}
	})
}

// TestTheWorstAnswerCounts: what would fail again is told first, then what is unknown; what a node refused for now last.
func TestTheWorstAnswerCounts(t *testing.T) {
	invalid := millstream.Errorf(millstream.Invalid, "x")
	for _, c := range []struct{ a, b, want error }{
		{nil, nil, nil}, {nil, errRefused, errRefused}, {errRefused, errLost, errLost}, {invalid, errLost, invalid}, {errRefused, invalid, invalid}, {errLost, nil, errLost},
	} {
		if got := worse(c.a, c.b); got != c.want {
			t.Errorf("worse(%v, %v) = %v", c.a, c.b, got)
		}
		if got := worse(c.b, c.a); got != c.want {
			t.Errorf("worse(%v, %v) = %v", c.b, c.a, got)
		}
	}
}

// silent takes what is sent and answers nothing until the call is given up.
type silent struct{}

func (silent) Write(ctx context.Context, _ ...*millstream.Batch) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestANodeThatDoesNotAnswerIsGivenUpAsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("a", "b")
		r := p.router(nil)
		r.cfg.Dial = func(millstream.Member) Target { return silent{} }
		start := time.Now()
		_, err := r.Write(t.Context(), Write{Org: testOrg, Batches: []*millstream.Batch{rows("app", 0, 1)}})
		if took := time.Since(start); !errors.Is(err, wal.ErrUnknown) || millstream.KindOf(err) != millstream.Unavailable || took < 4*time.Second || took > 7*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestKeyedPartsGoWhereTheyArePinned(t *testing.T) {
	p, m := newPeers("a", "b", "c"), newModel()
	r := p.router(m)
	first, other := p.order("app")[0], ""
	for i := 0; other == ""; i++ {
		if name := fmt.Sprint("web", i); p.order(name)[0] != first {
			other = name
		}
	}
	wr := keyed("k", 1, rows("app", 0, 1), rows(other, 0, 1))
	if _, err := r.Write(t.Context(), wr); err != nil {
		t.Fatal(err)
	}
	if len(p.calls[first]) != 1 || !isKeyed(p.calls[first][0][0].ID) {
		t.Fatalf("calls %+v", p.calls)
	}
	p.answer[first] = func(int) (int, error) { return 1, nil }
	if replayed, err := r.Write(t.Context(), wr); err != nil || replayed {
		t.Errorf("one part of two was repeated: %v, %v", replayed, err)
	}
	for _, id := range p.live {
		p.answer[id] = func(int) (int, error) { return len(p.calls[id][len(p.calls[id])-1]), nil }
	}
	if replayed, err := r.Write(t.Context(), wr); err != nil || !replayed {
		t.Errorf("all parts were repeated: %v, %v", replayed, err)
	}

	// The node does not take it: nobody else may.
	p.answer[first] = always(errRefused)
	before := len(p.calls["a"]) + len(p.calls["b"]) + len(p.calls["c"])
	if _, err := r.Write(t.Context(), keyed("k", 1, rows("app", 0, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("%v", err)
	}
	if after := len(p.calls["a"]) + len(p.calls["b"]) + len(p.calls["c"]); after != before+1 {
		t.Errorf("%d calls for a pinned part", after-before)
	}

	// Its node is gone, then its WAL is held by another one.
	p.live = slices.DeleteFunc(slices.Clone(p.live), func(id millstream.NodeID) bool { return id == first })
	if _, err := r.Write(t.Context(), keyed("k", 1, rows("app", 0, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("without the node: %v", err)
	}
	r.cfg.View = func() *cluster.View {
		return cluster.NewView([]millstream.Member{{ID: "moved", Roles: []string{cluster.Intake}, WAL: walOf(first), Draining: true}}, time.Time{}, cluster.Timeouts{})
	}
	if _, err := r.Write(t.Context(), keyed("k", 1, rows("app", 0, 1))); err != nil || len(p.calls["moved"]) != 1 {
		t.Errorf("the WAL moved: %v", err)
	}
	m.setDown(true)
	if _, err := r.Write(t.Context(), keyed("k2", 1, rows("app", 0, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("without the database: %v", err)
	}
}

// TestARouterPutsItsPinsBack: a router without a writer learns of another history by its heartbeat.
func TestARouterPutsItsPinsBack(t *testing.T) {
	p, m := newPeers("a", "b", "c"), newModel()
	r := p.router(m)
	now := time.Now()
	var mu sync.Mutex
	r.cfg.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r.recent.now, r.cfg.Settle = r.cfg.Now, 15*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx, func() {}) }()
	beat := func() { r.Beat(store.Beat{SystemID: m.save().System}) }
	beat()
	old := m.save()
	for i := range 50 {
		if _, err := r.Write(t.Context(), keyed(fmt.Sprint("k", i), 1, rows("app", i, 1))); err != nil {
			t.Fatal(err)
		}
	}
	m.failover(old)
	m.setDown(true)
	beat()
	if _, err := r.Write(t.Context(), keyed("k0", 1, rows("app", 0, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("in doubt: %v", err)
	}
	m.setDown(false)
	waitFor(t, "the pins", func() bool { return len(m.save().Pins) == 100 })
	waitFor(t, "the end of the doubt", func() bool { r.history.mu.Lock(); defer r.history.mu.Unlock(); return !r.history.doubt })
	if _, err := r.Write(t.Context(), keyed("k0", 1, rows("app", 0, 1))); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("before the other routers have had their time: %v", err)
	}
	mu.Lock()
	now = now.Add(16 * time.Second)
	mu.Unlock()
	beat()
	if _, err := r.Write(t.Context(), keyed("k0", 2, rows("app", 0, 1))); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("another body: %v", err)
	}
	if _, err := r.Write(t.Context(), keyed("k0", 1, rows("app", 0, 1))); err != nil {
		t.Errorf("the same body: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
