package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
)

type weightedBody struct {
	ID     string  `json:"id"`
	Weight float64 `json:"weight" doc:"in vCPU"`
}

type simulateBody struct {
	Add     []weightedBody `json:"add,omitempty"`
	Remove  []string       `json:"remove,omitempty" doc:"ids of nodes"`
	Reweigh []weightedBody `json:"reweigh,omitempty"`
	IDs     *int           `json:"ids,omitempty" doc:"simulate over so many generated segment ids, which have no size, instead of the organization's segments; at most 2000000"`
	Members []weightedBody `json:"members,omitempty" doc:"start from these nodes instead of those that own segments now"`
}

type moveView struct {
	From     string `json:"from" doc:"empty: nobody owned them"`
	To       string `json:"to"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
}

type shareView struct {
	ID       string  `json:"id"`
	Weight   float64 `json:"weight" doc:"in vCPU"`
	Expected float64 `json:"expected" doc:"its part of all weights, of 1"`
	Actual   float64 `json:"actual" doc:"its part of the segments, of 1"`
	Segments int     `json:"segments"`
	Bytes    int64   `json:"bytes"`
}

type simulationView struct {
	Segments      int         `json:"segments"`
	Bytes         int64       `json:"bytes"`
	MovedSegments int         `json:"moved_segments"`
	MovedBytes    int64       `json:"moved_bytes"`
	Moves         []moveView  `json:"moves" doc:"by from and to"`
	Shares        []shareView `json:"shares" doc:"after the change, by id"`
	Between       int         `json:"moved_between_others" doc:"of the moved segments, those that went from and to nodes that the change does not name; placement promises 0, and this is the count"`
}

// Bounds of a simulation, which takes its time on the processors of the node that is asked.
const (
	maxSimulated = 2_000_000 // generated ids
	maxPlaced    = 1000      // nodes
	maxVCPU      = 100_000
	maxNodeID    = 256 // bytes
)

func (a *API) simulate(w http.ResponseWriter, r *http.Request) error {
	var b simulateBody
	if err := read(r, &b); err != nil {
		return err
	}
	nodes, names, err := a.simulated(b)
	if err != nil {
		return err
	}
	change, err := b.change(names)
	if err != nil {
		return err
	}
	s, err := cluster.NewSimulator(nodes, change)
	if err != nil {
		return err
	}
	select {
	case a.simulating <- struct{}{}: // one at a time: each takes all processors
		defer func() { <-a.simulating }()
	case <-r.Context().Done():
		return millstream.Wrap(millstream.Unavailable, r.Context().Err(), "another simulation is running on this node: try again in a moment")
	}
	if b.IDs != nil {
		err = generate(r.Context(), *b.IDs, s.Add)
	} else {
		err = a.eachPlaced(r.Context(), who(r).Org, "", func(part []cluster.Timed) { s.Add(pieces(part)) })
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, simulationOf(s.Result(), change, names))
}

// identities tells a node's id and its placement id apart: people name nodes, segments are placed on cache directories.
type identities struct {
	placement map[string]string // by a node's id
	node      map[string]string // by a placement id
}

func (n identities) placementOf(id string) string {
	if p, ok := n.placement[id]; ok {
		return p
	}
	return id
}

func (n identities) nameOf(placement string) string {
	if id, ok := n.node[placement]; ok {
		return id
	}
	return placement
}

// simulated are the nodes that a simulation starts from.
func (a *API) simulated(b simulateBody) ([]cluster.Node, identities, error) {
	names := identities{map[string]string{}, map[string]string{}}
	if b.IDs != nil && (*b.IDs < 1 || *b.IDs > maxSimulated) {
		return nil, names, millstream.Errorf(millstream.Invalid, "ids is %d, it must be a number from 1 to %d", *b.IDs, maxSimulated)
	}
	if b.Members == nil {
		nodes := a.View().Placement().Nodes()
		for _, n := range nodes {
			names.placement[string(n.Node)], names.node[n.ID] = n.ID, string(n.Node)
		}
		return nodes, names, b.few(len(nodes))
	}
	if len(b.Members) == 0 {
		return nil, names, &millstream.Error{Kind: millstream.Invalid, Msg: "members is empty", Hint: "name at least one node, or leave members out to start from those that own segments now"}
	}
	if err := b.few(len(b.Members)); err != nil {
		return nil, names, err
	}
	nodes, err := weighted("members", b.Members, names)
	if err != nil {
		return nil, names, err
	}
	known := map[string]bool{}
	for _, n := range nodes {
		if known[n.ID] {
			return nil, names, millstream.Errorf(millstream.Invalid, "members: node %q is given twice", n.ID)
		}
		known[n.ID] = true
	}
	return nodes, names, nil
}

// few refuses a simulation of too many nodes.
func (b simulateBody) few(nodes int) error {
	if n := nodes + len(b.Add); n > maxPlaced || len(b.Remove) > maxPlaced || len(b.Reweigh) > maxPlaced {
		return millstream.Errorf(millstream.Invalid, "a simulation takes at most %d nodes", maxPlaced)
	}
	return nil
}

func (b simulateBody) change(names identities) (c cluster.Change, err error) {
	for _, id := range b.Remove {
		c.Remove = append(c.Remove, names.placementOf(id))
	}
	if c.Reweigh, err = weighted("reweigh", b.Reweigh, names); err == nil {
		c.Add, err = weighted("add", b.Add, names)
	}
	return c, err
}

// weighted reads nodes with their weights; what names them in errors.
func weighted(what string, list []weightedBody, names identities) ([]cluster.Node, error) {
	out := make([]cluster.Node, len(list))
	for i, n := range list {
		switch {
		case n.ID == "" || len(n.ID) > maxNodeID:
			return nil, millstream.Errorf(millstream.Invalid, "%s: a node needs an id of 1 to %d bytes", what, maxNodeID)
		case n.Weight < .001 || n.Weight > maxVCPU:
			return nil, millstream.Errorf(millstream.Invalid, "%s: the weight of node %q is %v, it must be from 0.001 to %d vCPU", what, n.ID, n.Weight, maxVCPU)
		}
		out[i] = cluster.Node{ID: names.placementOf(n.ID), MilliCPU: int(n.Weight*1000 + .5)}
	}
	return out, nil
}

func pieces(part []cluster.Timed) []cluster.Piece {
	out := make([]cluster.Piece, len(part))
	for i, s := range part {
		out[i] = s.Piece
	}
	return out
}

// generate gives n segments whose ids are always the same, in parts.
func generate(ctx context.Context, n int, f func([]cluster.Piece)) error {
	part := make([]cluster.Piece, 0, min(n, placedAtOnce))
	for i := range n {
		part = append(part, cluster.Piece{Key: cluster.SegmentKey(millstream.SegmentID(fmt.Sprintf("00000000-0000-7000-8000-%012x", i)))})
		if len(part) == cap(part) || i == n-1 {
			if err := ctx.Err(); err != nil {
				return err
			}
			f(part)
			part = part[:0]
		}
	}
	return nil
}

func simulationOf(s cluster.Simulation, c cluster.Change, names identities) simulationView {
	out := simulationView{Segments: s.Segments, Bytes: s.Bytes, MovedSegments: s.MovedSegments, MovedBytes: s.MovedBytes, Moves: []moveView{}, Shares: make([]shareView, len(s.Shares))}
	named := map[string]bool{}
	for _, n := range slices.Concat(c.Add, c.Reweigh) {
		named[n.ID] = true
	}
	for _, id := range c.Remove {
		named[id] = true
	}
	for _, m := range s.Moves {
		out.Moves = append(out.Moves, moveView{names.nameOf(m.From), names.nameOf(m.To), m.Segments, m.Bytes})
		if !named[m.From] && !named[m.To] && m.From != "" {
			out.Between += m.Segments
		}
	}
	for i, n := range s.Shares {
		out.Shares[i] = shareView{names.nameOf(n.ID), vCPU(n.MilliCPU), n.Expected, n.Actual, n.Segments, n.Bytes}
	}
	slices.SortFunc(out.Moves, func(a, b moveView) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) })
	slices.SortFunc(out.Shares, func(a, b shareView) int { return strings.Compare(a.ID, b.ID) })
	return out
}
