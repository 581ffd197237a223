package cluster

import (
	"cmp"
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
		top, at := c.top(segment)
		if b := (bid{negLog2(top) / c.weight, top, c.index[at]}); ci == 0 || b.beats(best) {
			best = b
		}
	}
	return best
}

// top is the highest hash and which of the class's nodes has it. Inlined, the loop would have to share the registers and take half as long again; and which hash is higher
// no processor foresees, hence no branch for it.
//
//go:noinline
func (c *class) top(segment Key) (top uint64, at int) {
	for i, k := range c.keys {
		h := pair(segment, k)
		if h > top {
			at = i
		}
		top = max(top, h)
	}
	return top, at
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

// PerCPU is the cost for a weight in CPUs, as a number.
func (r Ranked) PerCPU() float64 { return float64(r.Cost) / (1 << fraction) * 1000 }

// Rank is the owner of a segment and its standbys in order, at most most of them.
func (p *Placement) Rank(segment Key, most int) []Ranked {
	most = min(most, len(p.nodes))
	if most <= 0 {
		return nil
	}
	bids := p.rank(segment)
	out := make([]Ranked, most)
	for i, b := range bids[:most] {
		out[i] = Ranked{p.nodes[b.index], b.cost}
	}
	return out
}

// rank is all bids for a segment, the best first.
func (p *Placement) rank(segment Key) []bid {
	bids := make([]bid, len(p.nodes))
	for i := range p.nodes {
		bids[i] = p.bid(segment, i)
	}
	slices.SortFunc(bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.hash, a.hash), cmp.Compare(a.index, b.index))
	})
	return bids
}
