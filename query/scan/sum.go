package scan

import (
	"math/big"
	"math/bits"

	"github.com/millstream/millstream"
)

// summer sums a field, in 128 bits if it is an integer, and divides for an average.
type summer struct {
	field  string
	double bool
	avg    bool
	n      []int64
	floats []float64
	ints   []int128
}

// int128 is a two's complement integer.
type int128 struct {
	hi int64
	lo uint64
}

func (x *int128) add(hi int64, lo uint64) {
	var carry uint64
	x.lo, carry = bits.Add64(x.lo, lo, 0)
	x.hi += hi + int64(carry)
}

// int64 gives the value if it fits.
func (x int128) int64() (int64, bool) { return int64(x.lo), x.hi == int64(x.lo)>>63 }

func (x int128) big() *big.Int {
	b := new(big.Int).SetInt64(x.hi)
	return b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(x.lo))
}

func (x int128) float() float64 {
	if v, ok := x.int64(); ok {
		return float64(v)
	}
	f, _ := new(big.Float).SetInt(x.big()).Float64()
	return f
}

func (a *summer) grow(groups int) int64 {
	before := 8*cap(a.n) + 8*cap(a.floats) + 16*cap(a.ints)
	a.n = enlarge(a.n, groups)
	if a.double {
		a.floats = enlarge(a.floats, groups)
	} else {
		a.ints = enlarge(a.ints, groups)
	}
	return int64(8*cap(a.n) + 8*cap(a.floats) + 16*cap(a.ints) - before)
}

func (a *summer) add(b *millstream.Batch, gids []uint32) int64 {
	c := b.Column(a.field)
	if c == nil {
		return 0
	}
	for i, g := range gids {
		if !c.IsValid(i) {
			continue
		}
		a.n[g]++
		if a.double {
			a.floats[g] += c.Floats[i]
		} else {
			a.ints[g].add(c.Ints[i]>>63, uint64(c.Ints[i]))
		}
	}
	return 0
}

func (a *summer) merge(o accumulator, to []uint32) int64 {
	s := o.(*summer)
	for i, n := range s.n {
		if n == 0 {
			continue
		}
		g := to[i]
		a.n[g] += n
		if a.double {
			a.floats[g] += s.floats[i]
		} else {
			a.ints[g].add(s.ints[i].hi, s.ints[i].lo)
		}
	}
	return 0
}

func (a *summer) column(n int) millstream.Column {
	v := newNulls(n)
	for i, k := range a.n[:n] {
		if k == 0 {
			v.null(i)
		}
	}
	c := millstream.Column{Type: millstream.Double, Valid: v.valid()}
	switch {
	case a.avg:
		c.Floats = make([]float64, n)
		for i, k := range a.n[:n] {
			if k > 0 && a.double {
				c.Floats[i] = a.floats[i] / float64(k)
			} else if k > 0 {
				c.Floats[i] = a.ints[i].float() / float64(k)
			}
		}
	case a.double:
		c.Floats = a.floats[:n:n]
	default:
		c = integers(a.ints[:n])
		c.Valid = v.valid()
	}
	return c
}

// integers gives 128-bit sums as integers, or as decimal text if one does not fit.
func integers(xs []int128) millstream.Column {
	c := millstream.Column{Type: millstream.Int64, Ints: make([]int64, len(xs))}
	for i, x := range xs {
		v, ok := x.int64()
		if !ok {
			return decimals(xs)
		}
		c.Ints[i] = v
	}
	return c
}

func decimals(xs []int128) millstream.Column {
	c := millstream.Column{Type: millstream.String, Offsets: make([]uint32, 1, len(xs)+1)}
	for _, x := range xs {
		c.Bytes = append(c.Bytes, x.big().String()...)
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	}
	return c
}
