package cluster

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/millstream/millstream"
)

// Node is a querier as placement sees it.
type Node struct {
	ID       string            // its placement id, which names the cache directory: the same volume owns the same segments
	Node     millstream.NodeID // whose it is at present; no part of any choice
	MilliCPU int               // the weight; less than 1 counts as 1
}

// Placement says which node owns a segment: weighted rendezvous hashing. Each node has a cost for each segment, which depends on nothing but the two ids and
// the node's weight; the lowest owns the segment and the others follow in standby order. So a node that comes, goes or changes its weight moves its own share
// and nothing between others. Never changes; safe for concurrent use.
type Placement struct {
	version uint64
	nodes   []Node // by placement id
	keys    []Key
	classes []class
}

// class is all nodes of one weight: among them the lowest cost is the highest hash, so that only one logarithm is needed for all.
type class struct {
	weight uint64
	keys   []Key
	index  []int32 // into nodes, ascending
}

// NewPlacement places segments on nodes. Of nodes with one placement id only the first counts.
func NewPlacement(nodes []Node) *Placement { return newPlacement(nodes, &Placement{}) }

// newPlacement is last itself if it has the same nodes, else the version after it.
func newPlacement(nodes []Node, last *Placement) *Placement {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	nodes = slices.CompactFunc(nodes, func(a, b Node) bool { return a.ID == b.ID })
	for i := range nodes {
		nodes[i].MilliCPU = max(nodes[i].MilliCPU, 1)
	}
	if slices.Equal(nodes, last.nodes) {
		return last
	}
	p := &Placement{version: last.version + 1, nodes: nodes, keys: make([]Key, len(nodes))}
	byWeight := map[int]int{}
	for i, n := range nodes {
		p.keys[i] = KeyOf(n.ID)
		c, ok := byWeight[n.MilliCPU]
		if !ok {
			c = len(p.classes)
			byWeight[n.MilliCPU] = c
			p.classes = append(p.classes, class{weight: uint64(n.MilliCPU)})
		}
		p.classes[c].keys = append(p.classes[c].keys, p.keys[i])
		p.classes[c].index = append(p.classes[c].index, int32(i))
	}
	return p
}

// Version grows by one whenever a membership's placement changes; it compares placements of one process only.
func (p *Placement) Version() uint64 { return p.version }

// Nodes are those that own segments, by placement id. The slice is the placement's own.
func (p *Placement) Nodes() []Node { return p.nodes }

// bid is a node's claim on a segment.
type bid struct {
	cost, hash uint64
	index      int32
}

// beats is the order of claims: lower costs first, then higher hashes, then lower ids. Costs of one weight are rounded from hashes, so they order like them.
func (b bid) beats(o bid) bool {
	if b.cost != o.cost {
		return b.cost < o.cost
	}
	if b.hash != o.hash {
		return b.hash > o.hash
	}
	return b.index < o.index
}

func (p *Placement) bid(segment Key, i int) bid {
	h := pair(segment, p.keys[i])
	return bid{negLog2(h) / uint64(p.nodes[i].MilliCPU), h, int32(i)}
}

// best is the owner's claim; p has a node.
func (p *Placement) best(segment Key) (best bid) {
	for ci := range p.classes {
		c := &p.classes[ci]
		var top uint64
		var at int
		for i, k := range c.keys {
			if h := pair(segment, k); h > top {
				top, at = h, i
			}
		}
		if b := (bid{negLog2(top) / c.weight, top, c.index[at]}); ci == 0 || b.beats(best) {
			best = b
		}
	}
	return best
}

// Owner is the node that caches and scans a segment; false without nodes.
func (p *Placement) Owner(segment Key) (Node, bool) {
	if len(p.nodes) == 0 {
		return Node{}, false
	}
	return p.nodes[p.best(segment).index], true
}

// Ranked is a node's place in the order of a segment.
type Ranked struct {
	Node
	Cost uint64 // -log2 of the pair's hash over the weight, in Q6.57
}

// Rank is the owner of a segment and its standbys in order, at most most of them.
func (p *Placement) Rank(segment Key, most int) []Ranked {
	most = min(most, len(p.nodes))
	if most <= 0 {
		return nil
	}
	bids := make([]bid, len(p.nodes))
	for i := range p.nodes {
		bids[i] = p.bid(segment, i)
	}
	slices.SortFunc(bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.hash, a.hash), cmp.Compare(a.index, b.index))
	})
	out := make([]Ranked, most)
	for i, b := range bids[:most] {
		out[i] = Ranked{p.nodes[b.index], b.cost}
	}
	return out
}

// Table is the owners of many segments, kept while nodes come and go at the cost of what changes. It is not safe for concurrent use.
type Table struct {
	placement *Placement
	keys      []Key
	owner     []int32 // into the placement's nodes; -1 without any
	cost      []uint64
}

// NewTable computes the owners of segments; it keeps the slice of keys.
func NewTable(p *Placement, keys []Key) *Table {
	t := &Table{placement: p, keys: keys, owner: make([]int32, len(keys)), cost: make([]uint64, len(keys))}
	for i := range keys {
		t.place(i)
	}
	return t
}

func (t *Table) place(i int) {
	if len(t.placement.nodes) == 0 {
		t.owner[i], t.cost[i] = -1, 0
		return
	}
	b := t.placement.best(t.keys[i])
	t.owner[i], t.cost[i] = b.index, b.cost
}

// Len is the number of segments.
func (t *Table) Len() int { return len(t.keys) }

// Owner is that of the i-th segment, as an index into the placement's nodes; -1 without any.
func (t *Table) Owner(i int) int { return int(t.owner[i]) }

// Placement is what the table is computed for.
func (t *Table) Placement() *Placement { return t.placement }

// Move brings the table to another placement and returns how many segments have another owner then. Only segments of nodes that went or became lighter are
// computed anew; of the others nodes that came or became heavier may take some, which is one comparison each.
func (t *Table) Move(to *Placement) (moved int) {
	c := changes(t.placement, to)
	if len(t.placement.nodes) == 0 {
		*t = *NewTable(to, t.keys)
		if len(to.nodes) > 0 {
			moved = len(t.keys)
		}
		return moved
	}
	t.placement = to
	for i, was := range t.owner {
		now := c.now[was]
		switch c.fate[was] {
		case lost:
			t.place(i)
			if now < 0 || t.owner[i] != now {
				moved++
			}
			continue
		case raised:
			t.cost[i] = to.bid(t.keys[i], int(now)).cost
		}
		t.owner[i] = now
		if t.challenge(i, c.challengers) {
			moved++
		}
	}
	return moved
}

// challenge gives the i-th segment to the best of the challengers that beats its owner.
func (t *Table) challenge(i int, challengers []int32) (changed bool) {
	p, key := t.placement, t.keys[i]
	for _, c := range challengers {
		if c == t.owner[i] {
			continue
		}
		weight := uint64(p.nodes[c].MilliCPU)
		h := pair(key, p.keys[c])
		// cost <= t.cost[i] without the division: most challengers lose.
		if hi, lo := bits.Mul64(t.cost[i]+1, weight); hi == 0 && negLog2(h) >= lo {
			continue
		}
		if b := p.bid(key, int(c)); b.beats(p.bid(key, int(t.owner[i]))) {
			t.owner[i], t.cost[i] = c, b.cost
			changed = true
		}
	}
	return changed
}

// What a change of the placement means for a node that was there.
type fate uint8

const (
	stays  fate = iota
	raised      // keeps what it has
	lost        // may lose any of its segments
)

type change struct {
	now         []int32 // where a former node is now; -1: gone
	fate        []fate
	challengers []int32 // nodes that came or became heavier
}

func changes(from, to *Placement) change {
	c := change{now: make([]int32, len(from.nodes)), fate: make([]fate, len(from.nodes))}
	j := 0
	for i, was := range from.nodes {
		for ; j < len(to.nodes) && to.nodes[j].ID < was.ID; j++ {
			c.challengers = append(c.challengers, int32(j))
		}
		if j == len(to.nodes) || to.nodes[j].ID != was.ID {
			c.now[i], c.fate[i] = -1, lost
			continue
		}
		c.now[i] = int32(j)
		switch is := to.nodes[j]; {
		case is.MilliCPU > was.MilliCPU:
			c.fate[i] = raised
			c.challengers = append(c.challengers, int32(j))
		case is.MilliCPU < was.MilliCPU:
			c.fate[i] = lost
		}
		j++
	}
	for ; j < len(to.nodes); j++ {
		c.challengers = append(c.challengers, int32(j))
	}
	return c
}
