package ingest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
)

// roster is a view of members that a test changes.
type roster struct {
	mu      sync.Mutex
	at      time.Time
	members map[millstream.NodeID]millstream.Member
}

func (r *roster) View() *cluster.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []millstream.Member
	for _, m := range r.members {
		m.HeartbeatAt = r.at
		all = append(all, m)
	}
	return cluster.NewView(all, r.at, cluster.Timeouts{})
}

// enter makes a node of the world a member.
func (r *roster) enter(x *world, i int, started time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := millstream.NodeID([]string{"a", "b", "c"}[i])
	r.members[id] = millstream.Member{ID: id, WAL: x.sites[i].w.WAL(), Incarnation: x.sites[i].incarnation, StartedAt: started}
}

func (r *roster) leave(id millstream.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, id)
}

// following is a follower of the first stream of a world.
type following struct {
	*world
	*roster
	open   chan struct{}
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	seen   []int64
	missed int64
	gaps   []string
	slow   chan struct{} // what each batch waits for, if not nil
	err    error         // that is returned
}

func follow(t *testing.T, nodes int) *following {
	f := &following{world: newWorld(t, nodes, nil), open: make(chan struct{}), ended: make(chan error, 1)}
	f.roster = &roster{at: time.Now(), members: map[millstream.NodeID]millstream.Member{}}
	for i := range nodes {
		f.write(i, 0, 3) // from before it begins
		f.enter(f.world, i, f.at.Add(-time.Hour))
	}
	return f
}

func (f *following) begin() {
	f.mirror = f.newMirror(MirrorConfig{Members: f.roster})
	f.mirror.followEvery = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { f.ended <- f.mirror.Follow(ctx, f.ids[0], f.take) }()
	<-f.open
}

func (f *following) take(e Followed) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e == (Followed{}) {
		close(f.open)
		return nil
	}
	f.missed += e.Missed
	if e.Gap != "" {
		f.gaps = append(f.gaps, e.Gap)
	}
	if e.Batch != nil {
		f.seen = append(f.seen, e.Batch.Column("seq").Ints...)
	}
	if f.slow != nil {
		<-f.slow
	}
	return f.err
}

// want waits until so many records were seen or missed, and as many gaps told; the records are those from a number of each node on.
func (f *following) wantSeen(seen int, missed int64, gaps ...string) {
	f.t.Helper()
	waitFor(f.t, "the records", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.seen) >= seen && f.missed >= missed && len(f.gaps) >= len(gaps)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) != seen || f.missed != missed || len(f.gaps) != len(gaps) {
		f.t.Fatalf("%d seen, %d missed, gaps %q; want %d, %d, %q", len(f.seen), f.missed, f.gaps, seen, missed, gaps)
	}
	for i, g := range gaps {
		if !strings.Contains(f.gaps[i], g) {
			f.t.Errorf("gap %q instead of %q", f.gaps[i], g)
		}
	}
	last := map[int64]int64{}
	for _, v := range f.seen {
		if v%1e9 < 3 {
			f.t.Fatalf("record %d was there before", v)
		}
		if before, ok := last[v/1e9]; ok && v <= before {
			f.t.Fatalf("record %d after %d", v, before)
		}
		last[v/1e9] = v
	}
}

func (f *following) end() {
	f.t.Helper()
	f.cancel()
	if err := <-f.ended; err != nil {
		f.t.Error(err)
	}
}

func TestFollowAllNodes(t *testing.T) {
	f := follow(t, 2)
	f.begin()
	for range 10 {
		f.write(0, 0, 2)
		f.write(1, 0, 1)
		f.write(1, 1, 1) // of another stream
	}
	f.wantSeen(30, 0)
	f.end()
}

func TestFollowCountsWhatASlowReaderMisses(t *testing.T) {
	f := follow(t, 1)
	f.begin()
	f.mu.Lock()
	f.slow = make(chan struct{})
	f.mu.Unlock()
	n := tailBacklog * 3
	for range n {
		f.write(0, 0, 1)
	}
	close(f.slow)
	waitFor(t, "all to be seen or told as missed", func() bool {
		f.mu.Lock()
		known := len(f.seen) + int(f.missed)
		f.mu.Unlock()
		if known < n { // what was missed is told with the next record, which is missed itself while the reader has not caught up
			f.write(0, 0, 1)
			n++
		}
		return known == n
	})
	if f.missed == 0 {
		t.Error("nothing was missed")
	}
	f.end()
}

// TestFollowSeesNodesComeAndGo: what a new node took before it was seen is counted as missed; one that leaves in order leaves no gap.
func TestFollowSeesNodesComeAndGo(t *testing.T) {
	f := follow(t, 2)
	f.leave("b")
	f.begin()
	f.write(0, 0, 1)
	f.wantSeen(1, 0)
	f.enter(f.world, 1, f.at.Add(time.Second)) // which took 3
	f.wantSeen(1, 3)
	f.write(1, 0, 2)
	f.wantSeen(3, 3)
	f.leave("b") // it still takes some
	f.write(1, 0, 2)
	f.wantSeen(5, 3)
	f.world.end(1, false)
	f.write(0, 0, 1)
	f.wantSeen(6, 3)
	f.end()
}

// TestFollowTellsGaps: a node that was lost is told; what it took meanwhile is counted when it is back.
func TestFollowTellsGaps(t *testing.T) {
	f := follow(t, 1)
	cut := make(chan struct{})
	f.wires[0].cut = cut
	f.begin()
	f.write(0, 0, 1)
	f.wantSeen(1, 0)
	w := f.wires[0].w.Swap(nil)
	close(cut)
	f.wantSeen(1, 0, "node a cannot be reached")
	f.write(0, 0, 4)
	f.wires[0].cut = nil
	f.wires[0].w.Store(w)
	f.wantSeen(1, 4, "node a cannot be reached")
	f.write(0, 0, 1)
	f.wantSeen(2, 4, "node a cannot be reached")
	f.wires[0].w.Store(nil) // in order, and another process follows
	f.world.end(0, false)
	f.world.start(0)
	f.enter(f.world, 0, f.at.Add(time.Second))
	f.write(0, 0, 1)
	waitFor(t, "the new process's record", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.seen)+int(f.missed) == 7
	})
	f.end()
}

// TestFollowBeginsWithoutANodeThatIsAway: it says so, and goes on with the others.
func TestFollowBeginsWithoutANodeThatIsAway(t *testing.T) {
	f := follow(t, 2)
	w := f.wires[1].w.Swap(nil)
	f.begin()
	f.write(0, 0, 1)
	f.wantSeen(1, 0, "node b cannot be reached")
	f.wires[1].w.Store(w)
	waitFor(t, "the subscription", func() bool {
		w.tails.mu.Lock()
		defer w.tails.mu.Unlock()
		return len(w.tails.subs) == 1
	})
	f.write(1, 0, 1)
	f.wantSeen(2, 0, "node b cannot be reached")
	f.mu.Lock()
	f.err = errors.New("the reader has gone")
	f.mu.Unlock()
	f.write(0, 0, 1)
	if err := <-f.ended; err == nil || err.Error() != "the reader has gone" {
		t.Errorf("%v", err)
	}
}

// TestFollowTheLocalWriter needs no other node.
func TestFollowTheLocalWriter(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	m := NewMirror(MirrorConfig{Writer: s.w})
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan Followed, 10), make(chan error)
	go func() {
		ended <- m.Follow(ctx, id, func(e Followed) error {
			got <- e
			return nil
		})
	}()
	<-got
	s.append(rows("app", 0, 3))
	if e := <-got; e.Batch.Rows() != 3 || e.Missed != 0 || e.Gap != "" {
		t.Errorf("%+v", e)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
