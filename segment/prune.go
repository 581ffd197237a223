package segment

import (
	"math"
	"strings"

	"github.com/millstream/millstream"
)

const everywhere = math.MaxUint64

func (n andNode) prune(r *runScan) (verdict, error) {
	v := verdict{may: everywhere, must: everywhere}
	for _, sub := range n {
		s, err := sub.prune(r)
		if err != nil {
			return v, err
		}
		v.may, v.must, v.none = v.may&s.may, v.must&s.must, v.none|s.none
	}
	return v, nil
}

func (n orNode) prune(r *runScan) (verdict, error) {
	v := verdict{none: everywhere}
	for _, sub := range n {
		s, err := sub.prune(r)
		if err != nil {
			return v, err
		}
		v.may, v.must, v.none = v.may|s.may, v.must|s.must, v.none&s.none
	}
	return v, nil
}

func (n notNode) prune(r *runScan) (verdict, error) {
	s, err := n.x.prune(r)
	return verdict{may: ^s.must, must: s.none, none: s.must}, err
}

func (n nullNode) prune(r *runScan) (verdict, error) {
	c := r.h.column(n.field)
	if c == nil {
		return verdict{may: everywhere, must: everywhere}, nil
	}
	return verdict{may: c.someNull, must: ^c.someValue, none: ^c.someNull}, nil
}

func (l *leaf) prune(r *runScan) (verdict, error) {
	c := r.h.column(l.field)
	if c == nil {
		return verdict{}, nil
	}
	v := verdict{may: c.someValue}
	if widened(r.types, c.name, c.typ) != c.typ {
		return v, nil // the index knows the values under their own type
	}
	x := l.test(c.typ)
	switch {
	case c.values != nil:
		v = l.pruneDict(c, x)
	case c.lo != nil && (x.zoneInts != nil || x.zoneFloats != nil):
		v = pruneZones(c, x)
	case c.typ == millstream.String:
		texts := l.pred.literals()
		if w, ok := l.pred.(*hasWords); ok {
			return r.pruneWords(c, w.phrase)
		}
		may, err := r.pruneTexts(c, texts)
		if err != nil {
			return v, err
		}
		v.may &= may
		v.none = ^may
	}
	v.may &= c.someValue
	v.must &^= c.someNull
	v.none &^= c.someNull
	return v, nil
}

// pruneDict asks each value of a small dictionary.
func (l *leaf) pruneDict(c *column, x *test) verdict {
	l.forDict(c.values)
	var t, f, u uint64
	for i := range c.values {
		switch l.entry(x, uint32(i)) {
		case yes:
			t |= c.masks[i]
		case no:
			f |= c.masks[i]
		default:
			u |= c.masks[i]
		}
	}
	return verdict{may: t, must: t &^ f &^ u, none: ^(t | u)}
}

func pruneZones(c *column, x *test) verdict {
	var v verdict
	for b := range c.lo {
		var may, must bool
		if c.typ == millstream.Double {
			if x.zoneFloats == nil {
				may = true
			} else {
				may, must = x.zoneFloats(math.Float64frombits(uint64(c.lo[b])), math.Float64frombits(uint64(c.hi[b])))
			}
		} else if x.zoneInts == nil {
			may = true
		} else {
			may, must = x.zoneInts(c.lo[b], c.hi[b])
		}
		if may {
			v.may |= 1 << b
		}
		if must {
			v.must |= 1 << b
		}
	}
	return v
}

// pruneTexts gives the blocks in which all the literals may stand in one value.
func (r *runScan) pruneTexts(c *column, all []literal) (uint64, error) {
	may := uint64(everywhere)
	for _, l := range all {
		if c.bloom.size > 0 && l.left && l.right {
			p, err := readRegion(r.r.index, r.info.base, c.bloom, r.info.base+r.info.size, nil)
			if err != nil {
				return 0, err
			}
			if len(p) == 0 || len(p)%32 != 0 {
				return 0, damaged("a bloom filter")
			}
			if !bloomHas(p, l.text) {
				return 0, nil
			}
		}
		if c.tokens.size == 0 {
			continue
		}
		words := l.wholeTokens(nil)
		if len(words) == 0 {
			blocks, err := r.lookupPart(c, l.fragment())
			if err != nil {
				return 0, err
			}
			may &= blocks
		}
		for _, w := range words {
			blocks, _, err := r.lookup(c, w)
			if err != nil {
				return 0, err
			}
			if may &= blocks; may == 0 {
				return 0, nil
			}
		}
	}
	return may, nil
}

// pruneWords gives the blocks that have all the words; of a single word also those all of whose rows have it.
func (r *runScan) pruneWords(c *column, words []string) (verdict, error) {
	v := verdict{may: c.someValue}
	if c.tokens.size == 0 {
		return v, nil
	}
	for _, w := range words {
		lookup := r.lookup
		if strings.Contains(w, "*") {
			lookup = r.lookupPattern
		}
		blocks, full, err := lookup(c, w)
		if err != nil {
			return v, err
		}
		v.may &= blocks
		if len(words) == 1 {
			v.must = full
		}
		if v.may == 0 {
			break
		}
	}
	v.none = ^v.may &^ c.someNull
	return v, nil
}

func (m *match) prune(r *runScan) (verdict, error) {
	all := verdict{may: everywhere, must: everywhere}
	for i := range m.words {
		m.words[i].may = map[string]uint64{}
		fields := r.words
		if m.field != "" {
			fields = []string{m.field}
		}
		v := verdict{none: everywhere}
		for _, f := range fields {
			s, err := m.words[i].leaf(f).prune(r)
			if err != nil {
				return all, err
			}
			m.words[i].may[f] = s.may
			if m.field == "" { // a null is no hit here, not unknown
				s.none = ^s.may
			}
			v.may, v.must, v.none = v.may|s.may, v.must|s.must, v.none&s.none
		}
		all.may, all.must, all.none = all.may&v.may, all.must&v.must, all.none|v.none
	}
	return all, nil
}
