package cluster

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/config"
)

// Roles of a node, as the configuration names them. A standalone node has all of them.
const (
	Standalone = config.Standalone
	Router     = config.Router
	Intake     = config.Intake
	Querier    = config.Querier
	Compactor  = config.Compactor
	Alert      = config.Alert
)

var roles = config.Roles

// HasRole says whether a node does the work of a role.
func HasRole(m millstream.Member, role string) bool {
	return slices.Contains(m.Roles, role) || slices.Contains(m.Roles, Standalone)
}

// Timeouts are the silences that count; zeros are the defaults.
type Timeouts struct {
	Peer time.Duration // no work goes to a node that is silent for longer; 15 s
	Drop time.Duration // a querier that is silent for longer owns no segments; 30 s
}

func (t Timeouts) orDefault() Timeouts {
	return Timeouts{Peer: cmp.Or(t.Peer, 15*time.Second), Drop: cmp.Or(t.Drop, 30*time.Second)}
}

// View is what one reading of the members said. It never changes: whoever takes several decisions that must agree takes them from one view.
type View struct {
	at        time.Time
	timeouts  Timeouts
	members   []millstream.Member // by id
	keys      []Key               // of their ids
	live      map[string]*roster  // by role
	placement *Placement
	readers   []int32 // into members, of the placement's nodes that are up; -1: it is not
}

// roster is who does the work of a role, in the order of ids.
type roster struct {
	keys  []Key
	index []int32 // into members
}

// NewView makes a view of the members as they were read at a time of the database's clock.
func NewView(members []millstream.Member, at time.Time, t Timeouts) *View {
	return newView(members, at, t, &View{placement: &Placement{}})
}

// newView takes over from the last view what is still right: keys, and the placement.
func newView(members []millstream.Member, at time.Time, t Timeouts, last *View) *View {
	v := &View{at: at, timeouts: t.orDefault(), members: slices.Clone(members), keys: make([]Key, len(members)), live: make(map[string]*roster, len(roles))}
	slices.SortFunc(v.members, func(a, b millstream.Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, role := range roles {
		v.live[role] = &roster{}
	}
	was := 0
	for i := range v.members {
		m := &v.members[i]
		m.HeartbeatAge = max(at.Sub(m.HeartbeatAt), 0)
		for was < len(last.members) && last.members[was].ID < m.ID {
			was++
		}
		if was < len(last.members) && last.members[was].ID == m.ID {
			v.keys[i] = last.keys[was]
		} else {
			v.keys[i] = KeyOf(m.ID)
		}
		if v.State(*m) != Up {
			continue
		}
		for _, role := range roles {
			if HasRole(*m, role) {
				r := v.live[role]
				r.keys, r.index = append(r.keys, v.keys[i]), append(r.index, int32(i))
			}
		}
	}
	v.placement = newPlacement(v.placeable(), last.placement)
	v.readers = make([]int32, len(v.placement.nodes))
	for i, n := range v.placement.nodes {
		v.readers[i] = -1
		if m, ok := v.find(n.Node); ok && v.state(&v.members[m]) == Up {
			v.readers[i] = int32(m)
		}
	}
	return v
}

// placeable are the queriers that own segments. Of two rows with one cache directory, as after a restart under another id, the later started holds it.
func (v *View) placeable() []Node {
	index := make([]int32, 0, len(v.members))
	for i := range v.members {
		if m := &v.members[i]; !m.Draining && m.HeartbeatAge <= v.timeouts.Drop && HasRole(*m, Querier) {
			index = append(index, int32(i))
		}
	}
	id := func(i int32) string { return cmp.Or(v.members[i].PlacementID, string(v.members[i].ID)) }
	slices.SortFunc(index, func(a, b int32) int {
		if c := strings.Compare(id(a), id(b)); c != 0 {
			return c
		}
		return cmp.Or(v.members[b].StartedAt.Compare(v.members[a].StartedAt), cmp.Compare(a, b))
	})
	nodes := make([]Node, len(index))
	for i, m := range index {
		nodes[i] = Node{ID: id(m), Node: v.members[m].ID, MilliCPU: v.members[m].MilliCPU}
	}
	return nodes
}

// Placement says which querier owns a segment. Views of one membership share it as long as it stays the same.
func (v *View) Placement() *Placement { return v.placement }

// Owners are the querier that owns a segment and its standbys in order, at most most of them. One that is silent for longer than the peer timeout keeps its
// segments for a while; State tells, and its work goes to the next.
func (v *View) Owners(segment Key, most int) []millstream.Member {
	ranked := v.placement.Rank(segment, most)
	out := make([]millstream.Member, len(ranked))
	for i, r := range ranked {
		out[i], _ = v.Member(r.Node.Node)
	}
	return out
}

// Reader is the node to read a segment: its owner, or the first of its standbys, of most nodes in all, that is up and not among those that failed; nil: there is none. It is
// the view's own.
func (v *View) Reader(segment Key, most int, failed []millstream.NodeID) *millstream.Member {
	if len(v.readers) == 0 {
		return nil
	}
	if m := v.reader(v.placement.best(segment), failed); m != nil { // it takes a fraction of the time of a rank, and is nearly always up
		return m
	}
	bids := v.placement.rank(segment)
	for _, b := range bids[:min(max(most, 0), len(bids))] {
		if m := v.reader(b, failed); m != nil {
			return m
		}
	}
	return nil
}

// reader is whose bid it is, if that node is up and not among those that failed.
func (v *View) reader(b bid, failed []millstream.NodeID) *millstream.Member {
	i := v.readers[b.index]
	if i < 0 || slices.Contains(failed, v.members[i].ID) {
		return nil
	}
	return &v.members[i]
}

// At is the database's time at which the members were read; zero if there were none.
func (v *View) At() time.Time { return v.at }

// Members are all that have a row, by id. The slice is the view's own.
func (v *View) Members() []millstream.Member { return v.members }

// Member finds a node by id, live or not.
func (v *View) Member(id millstream.NodeID) (millstream.Member, bool) {
	i, ok := v.find(id)
	if !ok {
		return millstream.Member{}, false
	}
	return v.members[i], true
}

func (v *View) find(id millstream.NodeID) (int, bool) {
	return sort.Find(len(v.members), func(i int) int { return strings.Compare(string(id), string(v.members[i].ID)) }) // members are large to copy
}

// States of a member.
const (
	Up       = "up"
	Silent   = "silent"   // for longer than the peer timeout
	Draining = "draining" // it takes nothing new
)

// State is how a member of the view is.
func (v *View) State(m millstream.Member) string { return v.state(&m) }

func (v *View) state(m *millstream.Member) string {
	switch {
	case m.Draining:
		return Draining
	case m.HeartbeatAge > v.timeouts.Peer:
		return Silent
	}
	return Up
}

// Live are the members to which work of a role may be sent, by id: heard of within the peer timeout and not draining.
func (v *View) Live(role string) []millstream.Member {
	r := v.roster(role)
	out := make([]millstream.Member, len(r.index))
	for i, m := range r.index {
		out[i] = v.members[m]
	}
	return out
}

// Count is how many Live has.
func (v *View) Count(role string) int { return len(v.roster(role).index) }

func (v *View) roster(role string) *roster {
	if r := v.live[role]; r != nil {
		return r
	}
	return &roster{} // a role that this release does not know
}

// isLive says whether work of a role may be sent to a node.
func (v *View) isLive(role string, id millstream.NodeID) bool {
	i, ok := v.find(id)
	return ok && slices.Contains(v.roster(role).index, int32(i))
}

// Owner is the first in the order of Rank; false without a live member of the role.
func (v *View) Owner(role string, key Key) (millstream.Member, bool) {
	var best rank
	r := v.roster(role)
	for i, k := range r.keys {
		if h := pair(key, k); i == 0 || h > best.hash {
			best = rank{h, int32(i)}
		}
	}
	if len(r.keys) == 0 {
		return millstream.Member{}, false
	}
	return v.members[r.index[best.i]], true
}

type rank struct {
	hash uint64
	i    int32
}

// Rank orders the live members of a role for a key by rendezvous hashing of their ids, the same on every node that sees the same members, and returns the
// first of them, at most most. Weights do not count. A member that comes or goes changes nothing in the order of the others.
func (v *View) Rank(role string, key Key, most int) []millstream.Member {
	r := v.roster(role)
	most = min(most, len(r.keys))
	if most <= 0 {
		return nil
	}
	top := make([]rank, 0, most)
	for i, k := range r.keys {
		h := pair(key, k)
		if len(top) == most {
			if h <= top[most-1].hash { // equal hashes: the lower id, which came first
				continue
			}
			top = top[:most-1]
		}
		at, _ := slices.BinarySearchFunc(top, h, func(r rank, h uint64) int {
			if r.hash >= h {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, at, rank{h, int32(i)})
	}
	out := make([]millstream.Member, len(top))
	for i, t := range top {
		out[i] = v.members[r.index[t.i]]
	}
	return out
}
