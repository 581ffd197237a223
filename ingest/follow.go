package ingest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/store"
)

const (
	// followEvery is how often a follower looks for nodes that joined, and tries those again that it lost.
	followEvery = time.Second
	// followOpen is how long the beginning waits for the nodes to answer.
	followOpen = 2 * time.Second
)

// Followed is an event of a stream that is followed on all nodes. Without a batch it only tells what is missing.
type Followed struct {
	Batch  *millstream.Batch // not to be changed
	Missed int64             // records that were taken before the batch, and are not given
	Gap    string            // why records may be missing whose number is not known; "": none are
}

// Follow calls emit with the batches of a stream that any node takes from now on, each once, those of a node in order, never two calls at a time, until ctx ends,
// which is no error, or emit fails. The first event is empty: from it on nothing is left out that a later event does not tell.
func (m *Mirror) Follow(ctx context.Context, stream millstream.StreamID, emit func(Followed) error) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{m: m, stream: stream, emit: emit, stop: cancel, nodes: map[millstream.WALID]*followed{}}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	f.telling.Lock() // until the first event
	if m.cfg.Writer != nil {
		n := f.node(store.WALState{ID: m.cfg.Writer.WAL()}, true)
		running.Go(func() { f.local(ctx, n) })
	}
	f.began = m.view().At()
	f.join(ctx, &running, true)
	f.opened(ctx)
	err := emit(Followed{})
	f.telling.Unlock()
	if err != nil {
		return err
	}
	tick := time.NewTicker(m.followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.telling.Lock()
			defer f.telling.Unlock()
			return f.failed
		case <-tick.C:
			f.join(ctx, &running, false)
		}
	}
}

// noView is what a node sees that has no members.
var noView = cluster.NewView(nil, time.Time{}, cluster.Timeouts{})

func (m *Mirror) view() *cluster.View {
	if m.cfg.Members == nil || m.cfg.Dial == nil {
		return noView
	}
	return m.cfg.Members.View()
}

// follower follows one stream.
type follower struct {
	m      *Mirror
	stream millstream.StreamID
	stop   context.CancelFunc
	began  time.Time // the database's clock

	telling sync.Mutex // held by the one who calls emit
	emit    func(Followed) error
	failed  error // of emit

	nodes map[millstream.WALID]*followed // the loop's own
}

// followed is one WAL of a follower. Its goroutine runs as long as the node is a member or connected; the fields belong to it, but for running.
type followed struct {
	wal     store.WALState
	initial bool // it was there when the follower began
	running atomic.Bool
	open    chan struct{} // closed when the first try has begun or failed
	tried   bool

	known       bool // it was connected before: up to told of incarnation
	incarnation int64
	told        int64
	started     time.Time
	lost        bool // a gap was told, and it is not back yet
	ended       bool // the last connection ended in order: nothing came after it
}

func (f *follower) node(w store.WALState, initial bool) *followed {
	n := f.nodes[w.ID]
	if n == nil {
		n = &followed{wal: w, initial: initial, open: make(chan struct{})}
		f.nodes[w.ID] = n
	}
	return n
}

// join follows the members that are not followed yet.
func (f *follower) join(ctx context.Context, running *sync.WaitGroup, initial bool) {
	v := f.m.view()
	for _, member := range v.Members() {
		if member.WAL == "" || f.m.own(member.WAL) || v.State(member) == cluster.Silent {
			continue
		}
		n := f.node(heldBy(member), initial)
		if n.running.CompareAndSwap(false, true) {
			running.Go(func() {
				defer n.running.Store(false)
				f.follow(ctx, n)
			})
		}
	}
}

// heldBy is a member's WAL as the registry has it, but for what says how far it is published.
func heldBy(m millstream.Member) store.WALState {
	return store.WALState{ID: m.WAL, Node: m.ID, Addr: m.Addr, Incarnation: m.Incarnation}
}

// opened waits until each node's first try has begun or failed.
func (f *follower) opened(ctx context.Context) {
	late := time.NewTimer(followOpen)
	defer late.Stop()
	for _, n := range f.nodes {
		select {
		case <-n.open:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// local follows this node's own writer; it is lost with the process only.
func (f *follower) local(ctx context.Context, n *followed) {
	_ = f.m.cfg.Writer.Subscribe(ctx, f.stream, func(e Tailed) error { return f.take(n, e) })
}

// follow follows one node until it has left the members.
func (f *follower) follow(ctx context.Context, n *followed) {
	for {
		member, there := f.member(n.wal.ID)
		if !there {
			return
		}
		n.wal, n.started = heldBy(member), member.StartedAt
		err := f.connect(ctx, n)
		if ctx.Err() != nil {
			return
		}
		n.begun()
		n.ended = err == nil
		if err != nil && !n.lost {
			f.m.log.Warn("a live tail lost a node", "node", n.wal.Node, "error", err)
			f.tell(Followed{Gap: fmt.Sprintf("node %s cannot be reached: records that it takes are missing until it is back", n.wal.Node)})
			n.lost = true
		}
		if sleep(ctx, f.m.followEvery) != nil {
			return
		}
	}
}

// member finds the member that holds a WAL.
func (f *follower) member(id millstream.WALID) (millstream.Member, bool) {
	for _, m := range f.m.view().Members() {
		if m.WAL == id {
			return m, true
		}
	}
	return millstream.Member{}, false
}

func (f *follower) connect(ctx context.Context, n *followed) error {
	holder, err := f.m.cfg.Dial(n.wal)
	if err != nil {
		return err
	}
	return holder.Subscribe(ctx, f.stream, func(e Tailed) error { return f.take(n, e) })
}

// begun says that the first try is over.
func (n *followed) begun() {
	if !n.tried {
		n.tried = true
		close(n.open)
	}
}

// take passes a node's event on, with what the counts say is missing.
func (f *follower) take(n *followed, e Tailed) error {
	out := Followed{Batch: e.Batch}
	switch {
	case n.known && e.Incarnation == n.incarnation:
		out.Missed = e.Told - n.told
	case n.known: // it was started again, and counts anew
		out.Missed = e.Told
		if !n.ended && !n.lost {
			out.Gap = fmt.Sprintf("node %s was started again: the last records that it took before are missing", n.wal.Node)
		}
	case n.initial || n.lost: // it begins here, or what it took before was told as a gap
	case !f.began.IsZero() && n.started.After(f.began):
		out.Missed = e.Told
	default:
		out.Gap = fmt.Sprintf("node %s is followed from now on: records that it took before are missing", n.wal.Node)
	}
	if e.Batch != nil {
		out.Missed -= int64(e.Batch.Rows())
	}
	n.known, n.incarnation, n.told, n.lost = true, e.Incarnation, e.Told, false
	n.begun()
	if out.Batch == nil && out.Missed <= 0 && out.Gap == "" {
		return nil
	}
	return f.tell(out)
}

// tell emits an event; a failure ends the following.
func (f *follower) tell(e Followed) error {
	f.telling.Lock()
	defer f.telling.Unlock()
	if f.failed == nil {
		f.failed = f.emit(e)
	}
	if f.failed != nil {
		f.stop()
	}
	return f.failed
}
