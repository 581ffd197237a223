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
	s, err := NewSimulator(nodes, c)
	if err != nil {
		return Simulation{}, err
	}
	s.Add(pieces)
	return s.Result(), nil
}

// Simulator is Simulate for more segments than are kept at a time. It is not safe for concurrent use.
type Simulator struct {
	before, after   *Placement
	segments, moved int
	bytes, shifted  int64 // shifted are the bytes that moved
	moves           map[[2]int32]*Move
	shares          []Share
}

// NewSimulator prepares the simulation of a change. An impossible change is Invalid.
func NewSimulator(nodes []Node, c Change) (*Simulator, error) {
	before := NewPlacement(nodes)
	changed, err := c.apply(before.nodes)
	if err != nil {
		return nil, err
	}
	after := NewPlacement(changed)
	return &Simulator{before: before, after: after, moves: map[[2]int32]*Move{}, shares: after.shares()}, nil
}

// Add counts some segments.
func (s *Simulator) Add(pieces []Piece) {
	keys := make([]Key, len(pieces))
	for i, p := range pieces {
		keys[i] = p.Key
	}
	t := NewTable(s.before, keys)
	was := slices.Clone(t.owner)
	t.Move(s.after)
	s.segments += len(pieces)
	for i, p := range pieces {
		to := &s.shares[t.owner[i]]
		to.Segments++
		to.Bytes += p.Bytes
		s.bytes += p.Bytes
		s.move(was[i], t.owner[i], p.Bytes)
	}
}

// move counts a segment's way from its owner before to the one after, which may be the same.
func (s *Simulator) move(from, to int32, bytes int64) {
	var left string
	if from >= 0 {
		left = s.before.nodes[from].ID
	}
	if left == s.after.nodes[to].ID {
		return
	}
	m := s.moves[[2]int32{from, to}]
	if m == nil {
		m = &Move{From: left, To: s.after.nodes[to].ID}
		s.moves[[2]int32{from, to}] = m
	}
	m.Segments++
	m.Bytes += bytes
	s.moved++
	s.shifted += bytes
}

// Result is what the change would do with the segments that were added.
func (s *Simulator) Result() Simulation {
	out := Simulation{Segments: s.segments, MovedSegments: s.moved, Bytes: s.bytes, MovedBytes: s.shifted, Shares: slices.Clone(s.shares)}
	setActual(out.Shares, s.segments)
	for _, m := range s.moves {
		out.Moves = append(out.Moves, *m)
	}
	slices.SortFunc(out.Moves, func(a, b Move) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}

// setActual sets which part of all segments each share is.
func setActual(shares []Share, segments int) {
	for i := range shares {
		shares[i].Actual = float64(shares[i].Segments) / float64(max(segments, 1))
	}
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
