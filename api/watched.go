package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc"
)

const (
	nodesFresh  = 900 * time.Millisecond // how old a list of the nodes may be
	statusFresh = 4 * time.Second        // and what they say of themselves, unless a node came or went
	statusWait  = time.Second            // how long one may take to say it
	statusMost  = 32                     // that are asked at once
	ratesWithin = time.Minute            // how far apart two readings of counters may be for a rate
)

// watched is the cluster as this node saw it last. However many watch, the nodes are asked once.
type watched struct {
	mu     sync.Mutex // over all below; held while the nodes are asked
	read   time.Time  // when all this was read, by this node's clock
	asked  time.Time  // when the nodes were asked how they are
	known  map[millstream.NodeID]millstream.Member
	status map[millstream.NodeID]sample
	view   nodesView
	shape  string // what differs when there is news
	err    error  // of the last reading; view is of the one before then
}

// sample is what a node said of itself, and what it had said before.
type sample struct {
	said, before rpc.Status
	at, beforeAt time.Time // zero: it said nothing
	refused      bool      // and takes no call of this node
}

// now lists the nodes. shape is the same as long as none comes, goes or changes its state.
func (l *watched) now(ctx context.Context, a *API) (view nodesView, shape string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := a.Now(); now.Sub(l.read) >= nodesFresh {
		l.refresh(context.WithoutCancel(ctx), a, now)
		l.read = now
	}
	return l.view, l.shape, l.err
}

// statuses is what the nodes that could be asked said of themselves.
func (l *watched) statuses(ctx context.Context, a *API) map[millstream.NodeID]rpc.Status {
	if _, _, err := l.now(ctx, a); err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[millstream.NodeID]rpc.Status, len(l.status))
	for id, s := range l.status {
		if !s.at.IsZero() {
			out[id] = s.said
		}
	}
	return out
}

func (l *watched) refresh(ctx context.Context, a *API, now time.Time) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	members, err := a.Nodes.Nodes(bounded, listedSilence)
	if l.err = err; err != nil {
		l.shape = "unread"
		return
	}
	members, news := l.withLeaving(members)
	if news || now.Sub(l.asked) >= statusFresh {
		l.ask(ctx, a, members, now)
		l.asked = now
	}
	l.known = make(map[millstream.NodeID]millstream.Member, len(members))
	l.view = nodesView{Nodes: make([]nodeView, 0, len(members))}
	var shape strings.Builder
	for _, m := range members {
		s := l.status[m.ID]
		if m.HeartbeatAge < 0 && (s.at.IsZero() || !s.said.Draining) {
			continue // it has stopped
		}
		l.known[m.ID] = m
		n := a.nodeOf(m, s)
		l.view.Nodes = append(l.view.Nodes, n)
		fmt.Fprintln(&shape, n.ID, n.Incarnation, n.State, n.Roles, n.Version, n.Address, n.Weight, n.Load != nil)
	}
	l.shape = shape.String()
}

// withLeaving adds the nodes that were members a moment ago, with a negative age: one that drains deletes its row first and then works on for a while. news says
// that a node came, started anew or went.
func (l *watched) withLeaving(members []millstream.Member) (all []millstream.Member, news bool) {
	have := make(map[millstream.NodeID]bool, len(members))
	for _, m := range members {
		have[m.ID] = true
		old, known := l.known[m.ID]
		news = news || !known || old.Incarnation != m.Incarnation || old.HeartbeatAge < 0
	}
	for id, m := range l.known {
		if !have[id] {
			news = news || m.HeartbeatAge >= 0
			m.HeartbeatAge, m.Draining = -1, true
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(x, y millstream.Member) int { return strings.Compare(string(x.ID), string(y.ID)) })
	return members, news
}

// ask has every node say how it is, all at once as far as statusMost allows.
func (l *watched) ask(ctx context.Context, a *API, members []millstream.Member, now time.Time) {
	samples := make([]sample, len(members))
	slots := make(chan struct{}, statusMost)
	var wg sync.WaitGroup
	for i, m := range members {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			bounded, cancel := context.WithTimeout(ctx, statusWait)
			defer cancel()
			said, err := a.statusOf(bounded, m)
			if err != nil {
				samples[i].refused = errors.Is(err, rpc.ErrRefused)
				a.Log.Debug("a node does not say how it is", "node", m.ID, keyError, err)
				return
			}
			samples[i] = sample{said: said, at: now}
		})
	}
	wg.Wait()
	status := make(map[millstream.NodeID]sample, len(members))
	for i, m := range members {
		s := samples[i]
		if old := l.status[m.ID]; old.said.Incarnation == s.said.Incarnation {
			s.before, s.beforeAt = old.said, old.at
		}
		status[m.ID] = s
	}
	l.status = status
}

var errNotAsked = errors.New("nodes do not talk to each other here")

func (a *API) statusOf(ctx context.Context, m millstream.Member) (rpc.Status, error) {
	switch {
	case string(m.ID) == a.Node && a.Status != nil:
		return a.Status(), nil
	case a.Peers == nil || string(m.ID) == a.Node:
		return rpc.Status{}, errNotAsked
	}
	return a.Peers.To(m).Status(ctx)
}

// nodeOf is a member with what it said of itself.
func (a *API) nodeOf(m millstream.Member, s sample) nodeView {
	n := nodeView{
		ID: string(m.ID), Self: string(m.ID) == a.Node, Roles: m.Roles, State: stateUp, Version: m.Version, Address: m.Addr, Weight: float64(m.MilliCPU) / 1000,
		HeartbeatAgeSeconds: max(m.HeartbeatAge.Seconds(), 0), Since: stamp{m.StartedAt}, Incarnation: m.Incarnation,
	}
	switch {
	case s.said.Fenced:
		n.State = stateFenced
	case m.Draining || s.said.Draining:
		n.State = stateDraining
	case m.HeartbeatAge > cmp.Or(a.PeerTimeout, defaultPeerTimeout):
		n.State = stateSilent
	case s.refused:
		n.State = stateRefused
	}
	if s.at.IsZero() {
		return n
	}
	n.Load = &loadView{CPU: s.said.CPU, MemoryBytes: s.said.Memory, MemoryTotalBytes: s.said.MemoryTotal, UnflushedBytes: s.said.Buffered, QueriesRunning: s.said.Queries}
	took := s.at.Sub(s.beforeAt)
	if s.beforeAt.IsZero() || took > ratesWithin || took <= 0 {
		return n
	}
	rate := func(now, before uint64) float64 { return float64(now-min(before, now)) / took.Seconds() }
	n.Load.Rates = &ratesView{
		RowsPerSecond: rate(s.said.Rows, s.before.Rows), StoredBytesPerSecond: rate(s.said.Stored, s.before.Stored), FetchedBytesPerSecond: rate(s.said.Fetched, s.before.Fetched),
	}
	for _, t := range s.said.Traffic {
		var old rpc.Traffic // a peer that was not called before has sent nothing
		if i := slices.IndexFunc(s.before.Traffic, func(o rpc.Traffic) bool { return o.Node == t.Node && o.Addr == t.Addr }); i >= 0 {
			old = s.before.Traffic[i]
		}
		n.Traffic = append(n.Traffic, trafficView{
			To: string(t.Node), WritesPerSecond: rate(t.Writes, old.Writes), QueriesPerSecond: rate(t.Queries, old.Queries), BytesPerSecond: rate(t.Sent+t.Received, old.Sent+old.Received),
		})
	}
	return n
}
