package scan

import (
	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
)

// accumulator is the state of one aggregate for every group of a partial result. Groups are numbered; a number that was never added to reads as empty.
type accumulator interface {
	// grow makes room for groups and says by how many bytes the state grew.
	grow(groups int) int64
	// add takes the rows of a batch: row i belongs to group gids[i].
	add(b *millstream.Batch, gids []uint32) (grown int64)
	// merge takes the state of another partial: its group i is our group to[i].
	merge(o accumulator, to []uint32) (grown int64)
	// column gives the results of groups 0..n.
	column(n int) millstream.Column
}

// newAccumulator makes the state of an aggregate over a field of type t. alone says that there is one group only.
func newAccumulator(a sql.Agg, t millstream.Type, alone bool) (accumulator, error) {
	switch a.Func {
	case sql.Count:
		return &counter{}, nil
	case sql.CountField:
		return &counter{field: a.Field}, nil
	case sql.CountDistinct:
		return &distinct{keys: keyCoder{field: a.Field, typ: t}, alone: alone}, nil
	case sql.Min, sql.Max:
		return &extreme{field: a.Field, typ: t, max: a.Func == sql.Max}, nil
	case sql.Sum, sql.Avg:
		if t == millstream.Int64 || t == millstream.Double {
			return &summer{field: a.Field, double: t == millstream.Double, avg: a.Func == sql.Avg}, nil
		}
	case sql.Quantile:
		if t == millstream.Int64 || t == millstream.Double {
			return &quantile{field: a.Field, p: a.P}, nil
		}
	}
	return nil, millstream.Errorf(millstream.Internal, "no kernel for aggregate %d over a field of type %s", a.Func, t)
}

// enlarge gives s at least n elements, with room to spare.
func enlarge[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		return s[:n]
	}
	out := make([]T, n, max(n, 2*cap(s), 16))
	copy(out, s)
	return out
}

// extreme keeps the least or the greatest value of a field. NaN is greater than any number, and strings compare by their bytes.
type extreme struct {
	field  string
	typ    millstream.Type
	max    bool
	has    []bool
	ints   []int64
	floats []float64
	strs   []string
}

func (a *extreme) grow(groups int) int64 {
	before := cap(a.has) + 8*cap(a.ints) + 8*cap(a.floats) + 16*cap(a.strs)
	a.has = enlarge(a.has, groups)
	switch a.typ {
	case millstream.String:
		a.strs = enlarge(a.strs, groups)
	case millstream.Double:
		a.floats = enlarge(a.floats, groups)
	default:
		a.ints = enlarge(a.ints, groups)
	}
	return int64(cap(a.has) + 8*cap(a.ints) + 8*cap(a.floats) + 16*cap(a.strs) - before)
}

func (a *extreme) add(b *millstream.Batch, gids []uint32) (grown int64) {
	if a.field == millstream.TimestampField {
		for i, g := range gids {
			a.putInt(g, b.Times[i])
		}
		return 0
	}
	c := b.Column(a.field)
	if c == nil {
		return 0
	}
	for i, g := range gids {
		if !c.IsValid(i) {
			continue
		}
		switch a.typ {
		case millstream.String:
			grown += a.putString(g, c.Str(i), true)
		case millstream.Double:
			a.putFloat(g, c.Floats[i])
		default:
			a.putInt(g, c.Ints[i])
		}
	}
	return grown
}

func (a *extreme) putInt(g uint32, v int64) {
	if !a.has[g] || a.max && v > a.ints[g] || !a.max && v < a.ints[g] {
		a.has[g], a.ints[g] = true, v
	}
}

func (a *extreme) putFloat(g uint32, v float64) {
	if c := compareFloats(v, a.floats[g]); !a.has[g] || a.max && c > 0 || !a.max && c < 0 {
		a.has[g], a.floats[g] = true, v
	}
}

func (a *extreme) putString(g uint32, v string, clone bool) (grown int64) {
	if a.has[g] && (a.max && v <= a.strs[g] || !a.max && v >= a.strs[g]) {
		return 0
	}
	grown = int64(len(v) - len(a.strs[g]))
	if clone {
		v = string(append([]byte(nil), v...))
	}
	a.has[g], a.strs[g] = true, v
	return grown
}

func (a *extreme) merge(o accumulator, to []uint32) (grown int64) {
	e := o.(*extreme)
	for i, has := range e.has {
		if !has {
			continue
		}
		switch a.typ {
		case millstream.String:
			grown += a.putString(to[i], e.strs[i], false)
		case millstream.Double:
			a.putFloat(to[i], e.floats[i])
		default:
			a.putInt(to[i], e.ints[i])
		}
	}
	return grown
}

func (a *extreme) column(n int) millstream.Column {
	c := millstream.Column{Type: a.typ}
	v := newNulls(n)
	for i, has := range a.has[:n] {
		if !has {
			v.null(i)
		}
	}
	c.Valid = v.valid()
	switch a.typ {
	case millstream.String:
		c.Offsets = make([]uint32, 1, n+1)
		for _, s := range a.strs[:n] {
			c.Bytes = append(c.Bytes, s...)
			c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
		}
	case millstream.Double:
		c.Floats = a.floats[:n:n]
	default:
		c.Ints = a.ints[:n:n]
	}
	return c
}

// compareFloats orders doubles as SQL does: NaN is equal to itself and greater than any number.
func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	case a != a && b != b:
		return 0
	case a != a:
		return 1
	}
	return -1
}
