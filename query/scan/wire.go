package scan

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// Share is a part of the request's inputs that other nodes group: they run the same plan over them and give the states of their groups, which are merged with ours.
// The results are those of one run over all inputs, but that sums of doubles are added in another order.
type Share func(ctx context.Context, r Request) (states [][]byte, st Stats, err error)

// Groups runs an aggregating plan over the inputs and gives the state of its groups, for an Input with a Share on another node.
func Groups(ctx context.Context, r Request) (state []byte, st Stats, err error) {
	run := newRun(r)
	p, st, err := run.collect(ctx)
	if err != nil {
		return nil, st, err
	}
	state, err = p.encode()
	return state, st, err
}

// wirePartial is the state of a partial. Values are numbered by their place, as in the tables that hold them.
type wirePartial struct {
	Keys  []wireKey
	Pairs [][]uint64
	Rows  []int64
	Aggs  []wireAgg
}

type wireKey struct {
	Strings []string
	Words   []uint64
}

// wireAgg is the state of any accumulator; each fills what it has.
type wireAgg struct {
	N      []int64
	Ints   []int64
	Low    []uint64 // of 128-bit sums, whose high halves are in Ints
	Floats []float64
	Has    []bool
	Texts  []string
	Key    wireKey
	Pairs  []uint64
	Groups []uint32
}

func (p *partial) encode() ([]byte, error) {
	p.grow()
	w := wirePartial{Rows: p.rows.n[:p.groups()]}
	for _, k := range p.keys {
		w.Keys = append(w.Keys, k.wire())
	}
	for _, t := range p.pairs {
		w.Pairs = append(w.Pairs, t.words.words)
	}
	for _, a := range p.aggs {
		var s wireAgg
		if a != accumulator(&p.rows) {
			s = wireOf(a, p.groups())
		}
		w.Aggs = append(w.Aggs, s)
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(w)
	return b.Bytes(), err
}

func (k *keyCoder) wire() wireKey { return wireKey{k.strs.strs, k.words.words} }

func wireOf(a accumulator, n int) (s wireAgg) {
	switch a := a.(type) {
	case *counter:
		s.N = a.n[:n]
	case *masked:
		s.N = a.n[:n]
	case *distinct:
		s.Key, s.Pairs = a.keys.wire(), a.pairs.words.words
	case *extreme:
		s.Has = a.has[:n]
		s.Ints, s.Floats, s.Texts = a.ints, a.floats, a.strs
	case *summer:
		s.N, s.Floats = a.n[:n], a.floats
		for _, x := range a.ints {
			s.Ints, s.Low = append(s.Ints, x.hi), append(s.Low, x.lo)
		}
	case *quantile:
		s.Groups, s.Floats = a.gids, a.values
	}
	return s
}

// decode makes a partial of this run of another node's state. What does not fit together is an error: nodes of two releases, or damage.
func (r *run) decode(state []byte) (*partial, int64, error) {
	var w wirePartial
	if err := gob.NewDecoder(bytes.NewReader(state)).Decode(&w); err != nil {
		return nil, 0, fmt.Errorf("the state of groups: %w", err)
	}
	p, err := r.newPartial()
	if err != nil {
		return nil, 0, err
	}
	if len(w.Keys) != len(p.keys) || len(w.Pairs) != len(p.pairs) || len(w.Aggs) != len(p.aggs) {
		return nil, 0, errForeign
	}
	grown := int64(0)
	for i, k := range w.Keys {
		g, err := p.keys[i].load(k)
		if err != nil {
			return nil, 0, err
		}
		grown += g
	}
	for i, t := range p.pairs {
		left := uint32(p.keys[0].values())
		if i > 0 {
			left = uint32(p.pairs[i-1].len())
		}
		g, err := t.load(w.Pairs[i], left, uint32(p.keys[i+1].values()))
		if err != nil {
			return nil, 0, err
		}
		grown += g
	}
	n := p.groups()
	if len(w.Rows) != n {
		return nil, 0, errForeign
	}
	p.rows.n = w.Rows
	for i, a := range p.aggs {
		if a == accumulator(&p.rows) {
			continue
		}
		g, err := load(a, &w.Aggs[i], n)
		if err != nil {
			return nil, 0, err
		}
		grown += g
	}
	return p, grown + int64(len(w.Rows))*8, nil
}

var errForeign = millstream.Errorf(millstream.Internal, "another node's state of groups does not fit the plan: are all nodes of one release?")

// load fills an empty coder.
func (k *keyCoder) load(w wireKey) (grown int64, err error) {
	for i, s := range w.Strings {
		id, g := k.strs.find(s)
		if id != uint32(i+1) {
			return grown, errForeign
		}
		grown += g
	}
	for i, v := range w.Words {
		id, g := k.words.find(v)
		if id != uint32(i+1) {
			return grown, errForeign
		}
		grown += g
	}
	return grown, nil
}

// load fills an empty table with pairs of numbers below a and b.
func (t *pairTable) load(pairs []uint64, a, b uint32) (grown int64, err error) {
	for i, w := range pairs {
		if uint32(w>>32) >= a || uint32(w) >= b {
			return grown, errForeign
		}
		id, g := t.find(uint32(w>>32), uint32(w))
		if id != uint32(i) {
			return grown, errForeign
		}
		grown += g
	}
	return grown, nil
}

// load fills an accumulator of n groups that nothing was added to.
func load(a accumulator, s *wireAgg, n int) (grown int64, err error) {
	fits := func(lengths ...int) error {
		for _, l := range lengths {
			if l < n {
				return errForeign
			}
		}
		return nil
	}
	switch a := a.(type) {
	case *counter:
		a.n, err = s.N, fits(len(s.N))
	case *masked:
		a.n, err = s.N, fits(len(s.N))
	case *distinct:
		if grown, err = a.keys.load(s.Key); err != nil {
			return grown, err
		}
		a.grow(n)
		for _, w := range s.Pairs {
			if int(w>>32) >= n || int(uint32(w)) >= a.keys.values() {
				return grown, errForeign
			}
			grown += a.put(uint32(w>>32), uint32(w))
		}
	case *extreme:
		a.has, a.ints, a.floats, a.strs = s.Has, s.Ints, s.Floats, s.Texts
		values := len(s.Ints)
		switch a.typ {
		case millstream.String:
			values = len(s.Texts)
		case millstream.Double:
			values = len(s.Floats)
		}
		err = fits(len(s.Has), values)
		for _, t := range s.Texts {
			grown += int64(len(t)) + 16
		}
	case *summer:
		a.n, a.floats = s.N, s.Floats
		if err = fits(len(s.N)); err != nil || len(s.Low) != len(s.Ints) {
			return 0, errForeign
		}
		if a.double {
			return int64(16 * n), fits(len(s.Floats))
		}
		a.ints = make([]int128, len(s.Ints))
		for i, hi := range s.Ints {
			a.ints[i] = int128{hi, s.Low[i]}
		}
		err = fits(len(a.ints))
	case *quantile:
		if len(s.Groups) != len(s.Floats) {
			return 0, errForeign
		}
		for _, g := range s.Groups {
			if int(g) >= n {
				return 0, errForeign
			}
		}
		a.gids, a.values, a.groups = s.Groups, s.Floats, n
		return int64(12 * len(s.Groups)), nil
	}
	return grown + int64(8*n), err
}

// filters are the kinds of expressions that plans and scans carry between nodes.
var filters = []any{segment.And{}, segment.Or{}, segment.Not{}, segment.Compare{}, segment.In{}, segment.IsNull{}, segment.Like{}, segment.Contains{}, segment.Regex{}, segment.Match{}}

func init() {
	for _, x := range filters {
		gob.Register(x)
	}
}

// WireTypes are what travels between nodes and is not to be seen in the types of this package's interface: the state of groups, and the kinds of filters.
func WireTypes() []any { return append([]any{wirePartial{}}, filters...) }
