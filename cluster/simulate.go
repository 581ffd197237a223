package cluster

import (
	"cmp"
	"slices"

	"github.com/millstream/millstream"
)

// Change is what a simulation does to the nodes, which it names by placement id.
type Change struct {
	Add, Reweigh []Node
	Remove       []string
}

// Piece is a segment of a simulation.
type Piece struct {
	Key   Key
	Bytes int64
}

// Move is what would go from one node to another; From is empty when nobody owned it.
type Move struct {
	From, To string
	Segments int
	Bytes    int64
}

// Share is what a node would own: Expected by its weight, Actual by the number of segments, both of 1.
type Share struct {
	Node
	Segments         int
	Bytes            int64
	Expected, Actual float64
}

// Simulation is what a change would do.
type Simulation struct {
	Segments, MovedSegments int
	Bytes, MovedBytes       int64
	Moves                   []Move  // by from and to
	Shares                  []Share // after the change, by placement id
}

// Simulate computes what a change of the nodes would move; nothing is changed. An impossible change is Invalid.
func Simulate(nodes []Node, c Change, pieces []Piece) (Simulation, error) {
	before := NewPlacement(nodes)
	changed, err := c.apply(before.nodes)
	if err != nil {
		return Simulation{}, err
	}
	after := NewPlacement(changed)
	s := Simulation{Segments: len(pieces), Shares: after.shares()}
	moves := map[[2]string]*Move{}
	for _, p := range pieces {
		var from string
		if n, ok := before.Owner(p.Key); ok {
			from = n.ID
		}
		to := after.best(p.Key).index
		s.Bytes += p.Bytes
		s.Shares[to].Segments++
		s.Shares[to].Bytes += p.Bytes
		if id := after.nodes[to].ID; id != from {
			m := moves[[2]string{from, id}]
			if m == nil {
				m = &Move{From: from, To: id}
				moves[[2]string{from, id}] = m
			}
			m.Segments++
			m.Bytes += p.Bytes
			s.MovedSegments++
			s.MovedBytes += p.Bytes
		}
	}
	for i := range s.Shares {
		s.Shares[i].Actual = float64(s.Shares[i].Segments) / float64(max(len(pieces), 1))
	}
	for _, m := range moves {
		s.Moves = append(s.Moves, *m)
	}
	slices.SortFunc(s.Moves, func(a, b Move) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return s, nil
}

// shares are those of the nodes by their weights.
func (p *Placement) shares() []Share {
	total := 0
	for _, n := range p.nodes {
		total += n.MilliCPU
	}
	out := make([]Share, len(p.nodes))
	for i, n := range p.nodes {
		out[i] = Share{Node: n, Expected: float64(n.MilliCPU) / float64(total)}
	}
	return out
}

func (c Change) apply(nodes []Node) ([]Node, error) {
	out := slices.Clone(nodes)
	find := func(id string) int { return slices.IndexFunc(out, func(n Node) bool { return n.ID == id }) }
	for _, id := range c.Remove {
		i := find(id)
		if i < 0 {
			return nil, millstream.Errorf(millstream.Invalid, "remove: there is no node %q among those that own segments", id)
		}
		out = slices.Delete(out, i, i+1)
	}
	for _, n := range c.Reweigh {
		i := find(n.ID)
		if i < 0 {
			return nil, millstream.Errorf(millstream.Invalid, "reweigh: there is no node %q among those that own segments", n.ID)
		}
		if n.MilliCPU < 1 {
			return nil, millstream.Errorf(millstream.Invalid, "reweigh: the weight of node %q must be more than 0", n.ID)
		}
		out[i].MilliCPU = n.MilliCPU
	}
	for _, n := range c.Add {
		if n.ID == "" || find(n.ID) >= 0 {
			return nil, millstream.Errorf(millstream.Invalid, "add: node %q needs an id that no other has", n.ID)
		}
		if n.MilliCPU < 1 {
			return nil, millstream.Errorf(millstream.Invalid, "add: the weight of node %q must be more than 0", n.ID)
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		return nil, millstream.Errorf(millstream.Invalid, "no node would be left that owns segments")
	}
	return out, nil
}
