package scan

import (
	"math"
	"math/bits"
	"slices"

	"github.com/millstream/millstream"
)

// another is a further quantile of values that a quantile keeps already.
type another struct {
	of *quantile
	p  float64
}

func (a *another) grow(int) int64                        { return 0 }
func (a *another) add(*millstream.Batch, []uint32) int64 { return 0 }
func (a *another) merge(accumulator, []uint32) int64     { return 0 }
func (a *another) column(n int) millstream.Column        { return a.of.at(n, a.p) }

// quantile keeps every value and interpolates between the two nearest ranks, as quantile_cont does.
type quantile struct {
	field  string
	p      float64
	groups int
	gids   []uint32
	values []float64
}

func (a *quantile) grow(groups int) int64 {
	a.groups = max(a.groups, groups)
	return 0
}

func (a *quantile) add(b *millstream.Batch, gids []uint32) int64 {
	c := b.Column(a.field)
	if c == nil {
		return 0
	}
	before := cap(a.gids)
	for i, g := range gids {
		if !c.IsValid(i) {
			continue
		}
		a.gids = append(a.gids, g)
		if c.Type == millstream.Double {
			a.values = append(a.values, c.Floats[i])
		} else {
			a.values = append(a.values, float64(c.Ints[i]))
		}
	}
	return int64(cap(a.gids)-before) * 12
}

func (a *quantile) merge(o accumulator, to []uint32) int64 {
	q := o.(*quantile)
	before := cap(a.gids)
	for _, g := range q.gids {
		a.gids = append(a.gids, to[g])
	}
	a.values = append(a.values, q.values...)
	return int64(cap(a.gids)-before) * 12
}

func (a *quantile) column(n int) millstream.Column { return a.at(n, a.p) }

// at is the quantile p of each group.
func (a *quantile) at(n int, p float64) millstream.Column {
	starts := make([]int, n+1)
	for _, g := range a.gids {
		starts[g+1]++
	}
	for i := range n {
		starts[i+1] += starts[i]
	}
	sorted, next := make([]float64, len(a.values)), append([]int(nil), starts...)
	for i, g := range a.gids {
		sorted[next[g]] = a.values[i]
		next[g]++
	}
	c := millstream.Column{Type: millstream.Double, Floats: make([]float64, n)}
	v := newNulls(n)
	for g := range n {
		if starts[g] == starts[g+1] {
			v.null(g)
			continue
		}
		c.Floats[g] = interpolate(sorted[starts[g]:starts[g+1]], p)
	}
	c.Valid = v.valid()
	return c
}

// interpolate gives the continuous quantile p of values, which it reorders.
func interpolate(values []float64, p float64) float64 {
	rank := float64(len(values)-1) * p
	lo := int(math.Floor(rank))
	sel(values, lo)
	low := values[lo]
	if float64(lo) == rank {
		return low
	}
	high := values[lo+1] // the least of what sel left above lo
	for _, v := range values[lo+2:] {
		if compareFloats(v, high) < 0 {
			high = v
		}
	}
	return low + (high-low)*(rank-float64(lo))
}

// sel reorders v so that v[k] is what sorting would put there, nothing before it is greater and nothing after it is less. It is quickselect with three-way
// partitions around a median of nine; should that go badly, it sorts.
func sel(v []float64, k int) {
	depth := 4 * bits.Len(uint(len(v)))
	lo, hi := 0, len(v)
	for hi-lo > 64 {
		if depth--; depth == 0 {
			break
		}
		lt, gt := partition(v[lo:hi])
		switch {
		case k < lo+lt:
			hi = lo + lt
		case k >= lo+gt:
			lo += gt
		default:
			return
		}
	}
	slices.SortFunc(v[lo:hi], compareFloats)
}

// partition divides v into less than, equal to and greater than a pivot: v[:lt], v[lt:gt], v[gt:].
func partition(v []float64) (lt, gt int) {
	pivot := pivotOf(v)
	lt, gt = 0, len(v)
	for i := 0; i < gt; {
		x := v[i]
		switch {
		case x < pivot, pivot != pivot && x == x:
			v[i], v[lt] = v[lt], x
			lt++
			i++
		case x > pivot, x != x && pivot == pivot:
			gt--
			v[i], v[gt] = v[gt], x
		default:
			i++
		}
	}
	return lt, gt
}

// pivotOf is the median of nine elements spread over v.
func pivotOf(v []float64) float64 {
	var s [9]float64
	step := (len(v) - 1) / 8
	for i := range s {
		s[i] = v[i*step]
	}
	slices.SortFunc(s[:], compareFloats)
	return s[4]
}
