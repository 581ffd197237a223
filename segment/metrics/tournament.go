package metrics

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
)

// input is one source of a merge and the series on which it stands.
type input struct {
	position
	steps walker
	leaf  int    // its place in the tournament
	order uint64 // of its series among those that are not before some other series: see orderAfter
}

// What an input has as its order if its name is not that of the other series, and at its end.
const (
	ofOtherName = 1 << 62
	ofEnd       = 1 << 63
)

// orderAfter tells the order of a series among all that have the name of some series before them and begin with as many bytes of its key as this one: the more, the
// earlier; of those that have as many in common with it, the next byte tells. If these are equal as well, the keys have to be read.
func orderAfter(shared int, key string) uint64 {
	if shared == len(key) {
		return uint64(math.MaxInt32-shared) << 9
	}
	return uint64(math.MaxInt32-shared)<<9 | (1 + uint64(key[shared]))
}

// merger merges walks by a tournament: a binary tree of matches, each of which is won by the input that stands on the earlier series; a node keeps the loser. When the
// winner goes on, the matches from its leaf to the root are played again, and few of them read a key: neither side is before the series that was taken last, so what
// they share with that tells the order, and it is known, since keys are front coded and whoever lost a match knows what it shares with the winner.
type merger struct {
	winner *input   // that stands on the first series
	losers []*input // of node n those below are 2n and 2n+1; 1 is the root
	same   []*input // that stand on the series that was taken, in the order of writing
}

// newMerger begins a merge of sources given in the order in which they were written, which is that of the leaves.
func newMerger[T any](in []T, walk func(T) (walker, error)) (*merger, error) {
	leaves := 1 << bits.Len(uint(max(len(in), 1)-1))
	m := &merger{losers: make([]*input, leaves)}
	winners := make([]*input, 2*leaves)
	for i := range leaves {
		x := &input{leaf: leaves + i}
		winners[x.leaf] = x
		if x.order = ofEnd; i >= len(in) {
			continue
		}
		var err error
		if x.steps, err = walk(in[i]); err != nil {
			return nil, err
		}
		if err := x.next(); err != nil {
			return nil, err
		}
	}
	for n := leaves - 1; n > 0; n-- {
		winners[n], m.losers[n] = match(winners[2*n], winners[2*n+1])
	}
	m.winner = winners[1]
	return m, nil
}

// next moves an input to its next series.
func (x *input) next() error {
	switch ok, err := x.steps.next(&x.position); {
	case !ok || err != nil:
		x.order = ofEnd
		return err
	case x.shared == otherName:
		x.order = ofOtherName
	default:
		x.order = orderAfter(x.shared, x.key)
	}
	return nil
}

// shares is what the series of an input that is not at its end shares with the one that its order refers to: of the winner, with the one that was taken before.
func (x *input) shares() int {
	if x.order == ofOtherName {
		return otherName
	}
	return math.MaxInt32 - int(x.order>>9)
}

// match tells who wins a match.
func match(x, y *input) (winner, loser *input) {
	if x.order == y.order {
		return matchKeys(x, y)
	}
	winner, loser = x, y
	if y.order < x.order { // a matter of chance, so these are two moves and no branch
		winner = y
	}
	if y.order < x.order {
		loser = x
	}
	return winner, loser
}

// matchKeys is match of two that what they share with another series does not tell apart.
func matchKeys(x, y *input) (winner, loser *input) {
	if x.order == ofEnd {
		return x, y
	}
	if x.order == ofOtherName {
		if c := strings.Compare(x.name, y.name); c < 0 {
			return x, y
		} else if c > 0 {
			return y, x
		}
	}
	n := max(x.shares(), 0)
	n += sharedPrefix(x.key[n:], y.key[n:])
	a, b := orderAfter(n, x.key), orderAfter(n, y.key)
	if a < b || a == b && x.leaf < y.leaf { // of one series, the one that was written first
		y.order = b
		return x, y
	}
	x.order = a
	return y, x
}

// take finds the first series and all inputs that stand on it; ok is false if none is left.
func (m *merger) take() (ok bool) {
	m.same = m.same[:0]
	if m.winner.order == ofEnd {
		return false
	}
	m.collect(m.winner, 0)
	return true
}

// collect adds an input that won all its matches below a node, and of those it beat, who know by what they share with it, the ones that stand on the same series. They
// were written later, so they are to the right of it: the farther up they met, the farther.
func (m *merger) collect(x *input, node int) {
	m.same = append(m.same, x)
	same := orderAfter(len(x.key), x.key)
	for n := x.leaf / 2; n > node; n /= 2 {
		if y := m.losers[n]; y.order == same {
			m.collect(y, n)
		}
	}
}

// pass goes on from the series that was taken. Those who stand on it win one after the other.
func (m *merger) pass() error {
	for _, x := range m.same {
		if err := x.next(); err != nil {
			return err
		}
		for n := x.leaf / 2; n > 0; n /= 2 {
			x, m.losers[n] = match(x, m.losers[n])
		}
		m.winner = x
	}
	return nil
}

// sharedPrefix is how many bytes both begin with.
func sharedPrefix(a, b string) (n int) {
	x, y := bytesOf(a), bytesOf(b)
	for len(x) >= 8 && len(y) >= 8 {
		if d := binary.LittleEndian.Uint64(x) ^ binary.LittleEndian.Uint64(y); d != 0 {
			return n + bits.TrailingZeros64(d)/8
		}
		x, y, n = x[8:], y[8:], n+8
	}
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y, n = x[1:], y[1:], n+1
	}
	return n
}
