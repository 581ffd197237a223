package scan

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
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

// counter counts rows, or a field's values.
type counter struct {
	field string
	n     []int64
}

func (a *counter) grow(groups int) int64 {
	before := cap(a.n)
	a.n = enlarge(a.n, groups)
	return int64(cap(a.n)-before) * 8
}

func (a *counter) add(b *millstream.Batch, gids []uint32) int64 {
	if a.field == "" || a.field == millstream.TimestampField {
		for _, g := range gids {
			a.n[g]++
		}
		return 0
	}
	c := b.Column(a.field)
	switch {
	case c == nil:
	case c.Valid == nil:
		for _, g := range gids {
			a.n[g]++
		}
	default:
		for i, g := range gids {
			a.n[g] += int64(c.Valid[i>>6] >> (i & 63) & 1)
		}
	}
	return 0
}

func (a *counter) merge(o accumulator, to []uint32) int64 {
	for i, n := range o.(*counter).n {
		if n != 0 {
			a.n[to[i]] += n
		}
	}
	return 0
}

func (a *counter) column(n int) millstream.Column {
	return millstream.Column{Type: millstream.Int64, Ints: a.n[:n:n]}
}

// masked counts the rows in which a text field is one of some values.
type masked struct {
	counter
	values map[string]bool
	dict   *string // the first entry of the dictionary that hits is for, see keyCoder
	hits   []bool  // per entry: whether it is one of the values
}

// newMasked makes the state of a count with a filter that is an equality of a text field, or several; nil if it is not.
func newMasked(a sql.Agg, typeOf func(field string) millstream.Type) *masked {
	m := &masked{values: map[string]bool{}}
	var values []segment.Value
	switch f := a.Filter.(type) {
	case segment.In:
		m.field, values = f.Field, f.Values
	case segment.Compare:
		m.field, values = f.Field, []segment.Value{f.Value}
		if f.Op != segment.Eq {
			return nil
		}
	}
	if a.Func != sql.Count || len(values) == 0 || m.field == millstream.TimestampField || typeOf(m.field) != millstream.String {
		return nil
	}
	for _, v := range values {
		if v.Kind != segment.StringValue {
			return nil
		}
		m.values[v.Str] = true
	}
	return m
}

func (a *masked) add(b *millstream.Batch, gids []uint32) (grown int64) {
	c := b.Column(a.field)
	switch {
	case c == nil:
	case c.Codes == nil:
		for i, g := range gids {
			if c.IsValid(i) && a.values[c.Str(i)] {
				a.n[g]++
			}
		}
	case len(c.Dict) > 0:
		if a.dict != &c.Dict[0] || len(a.hits) != len(c.Dict) {
			a.dict, a.hits = &c.Dict[0], enlarge(a.hits[:0], len(c.Dict))
			for i, s := range c.Dict {
				a.hits[i] = a.values[s]
			}
		}
		for i, g := range gids {
			if a.hits[c.Codes[i]] && c.IsValid(i) {
				a.n[g]++
			}
		}
	}
	return 0
}

func (a *masked) merge(o accumulator, to []uint32) int64 {
	return a.counter.merge(&o.(*masked).counter, to)
}

// distinct counts a field's distinct values per group.
type distinct struct {
	keys  keyCoder
	alone bool      // there is one group, whose values are those that keys knows
	pairs pairTable // (group, value code) that were seen
	n     []int64
	codes []uint32
}

func (a *distinct) grow(groups int) int64 {
	before := cap(a.n)
	a.n = enlarge(a.n, groups)
	return int64(cap(a.n)-before) * 8
}

func (a *distinct) add(b *millstream.Batch, gids []uint32) int64 {
	a.codes = enlarge(a.codes, len(gids))
	grown := a.keys.codes(b, len(gids), a.codes)
	if a.alone {
		return grown
	}
	for i, g := range gids {
		if code := a.codes[i]; code != 0 {
			grown += a.put(g, code)
		}
	}
	return grown
}

func (a *distinct) put(group, code uint32) int64 {
	before := a.pairs.len()
	_, grown := a.pairs.find(group, code)
	a.n[group] += int64(a.pairs.len() - before)
	return grown
}

func (a *distinct) merge(o accumulator, to []uint32) int64 {
	d := o.(*distinct)
	codes, grown := a.keys.translate(&d.keys)
	for _, w := range d.pairs.words.words {
		grown += a.put(to[w>>32], codes[uint32(w)])
	}
	return grown
}

func (a *distinct) column(n int) millstream.Column {
	if a.alone {
		a.n[0] = int64(a.keys.values() - 1)
	}
	return millstream.Column{Type: millstream.Int64, Ints: a.n[:n:n]}
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
