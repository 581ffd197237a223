package scan

import (
	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

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
