package segment

import (
	"github.com/millstream/millstream"
)

// tri is a value of SQL's three-valued logic.
type tri uint8

const (
	no tri = iota
	yes
	unknown
)

func triOf(b bool) tri {
	if b {
		return yes
	}
	return no
}

// block is up to blockRows records on which a filter is evaluated. Columns load when they are first asked for.
type block interface {
	rows() int
	// column gives a field's values in the block, nil if the source lacks the field. TimestampField gives the records' times.
	column(name string) (*millstream.Column, error)
	// some is column, but only the values of the given rows are sure to be there: it must not be passed on.
	some(name string, rows *bitmap) (*millstream.Column, error)
	// number is the block's place in its run.
	number() int
	// texts are the fields that Match searches when it names none.
	texts() []string
}

// node is a compiled filter. It keeps results per dictionary entry, so it belongs to one scan.
type node interface {
	// eval sets t to the active rows for which the node is true and u to those for which it is unknown.
	eval(b block, active, t, u *bitmap) error
	// prune says from a run's index in which blocks the node can be true.
	prune(r *runScan) (verdict, error)
	// reads adds the fields that eval reads in some blocks of the run that was pruned last, or more.
	reads(r *runScan, blocks uint64, add func(field string, blocks uint64))
}

// verdict is what an index knows of a filter, a bit for each block of a run: may be true in some row, must be true in all rows, is false in all (none).
// No bit set means nothing is known but that no row is true.
type verdict struct{ may, must, none uint64 }

func compile(e Expr) (node, error) {
	switch e := e.(type) {
	case nil:
		return andNode(nil), nil
	case And:
		subs, err := compileAll(e)
		return andNode(subs), err
	case Or:
		subs, err := compileAll(e)
		return orNode(subs), err
	case Not:
		sub, err := compile(e.X)
		return notNode{sub}, err
	case IsNull:
		return nullNode{e.Field}, nil
	case Compare:
		return &leaf{field: e.Field, pred: compare{e.Op, e.Value}}, nil
	case In:
		return &leaf{field: e.Field, pred: newIn(e.Values)}, nil
	case Like:
		p := parseLike(e.Pattern, e.Fold)
		if text, ok := p.plain(); ok {
			return &leaf{field: e.Field, pred: contains{text}}, nil
		}
		return &leaf{field: e.Field, pred: &like{p}}, nil
	case Contains:
		return &leaf{field: e.Field, pred: contains{e.Text}}, nil
	case Regex:
		if e.Re == nil {
			return nil, millstream.Errorf(millstream.Invalid, "a regular expression is missing")
		}
		return &leaf{field: e.Field, pred: newRegex(e.Re)}, nil
	case Match:
		return newMatch(e), nil
	}
	return nil, millstream.Errorf(millstream.Invalid, "a filter of type %T is not known", e)
}

func compileAll(es []Expr) ([]node, error) {
	out := make([]node, len(es))
	for i, e := range es {
		var err error
		if out[i], err = compile(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type andNode []node

func (n andNode) eval(b block, active, t, u *bitmap) error {
	left := *active // rows that are not false so far
	*t, *u = *active, bitmap{}
	for _, sub := range n {
		if left.empty() {
			break
		}
		var st, su bitmap
		if err := sub.eval(b, &left, &st, &su); err != nil {
			return err
		}
		t.and(&st)
		u.or(&su)
		left = st
		left.or(&su)
		u.and(&left)
	}
	t.and(&left)
	t.andNot(u)
	return nil
}

type orNode []node

func (n orNode) eval(b block, active, t, u *bitmap) error {
	left := *active // rows that are not true so far
	*t, *u = bitmap{}, bitmap{}
	for _, sub := range n {
		if left.empty() {
			break
		}
		var st, su bitmap
		if err := sub.eval(b, &left, &st, &su); err != nil {
			return err
		}
		t.or(&st)
		u.or(&su)
		left.andNot(&st)
	}
	u.andNot(t)
	return nil
}

type notNode struct{ x node }

func (n notNode) eval(b block, active, t, u *bitmap) error {
	var st bitmap
	if err := n.x.eval(b, active, &st, u); err != nil {
		return err
	}
	*t = *active
	t.andNot(&st)
	t.andNot(u)
	return nil
}

type nullNode struct{ field string }

func (n nullNode) eval(b block, active, t, u *bitmap) error {
	*t, *u = *active, bitmap{}
	c, err := b.column(n.field)
	if err != nil || c == nil {
		return err
	}
	validRows(c, active, u)
	t.andNot(u)
	*u = bitmap{}
	return nil
}

// validRows sets out to the active rows that have a value.
func validRows(c *millstream.Column, active, out *bitmap) {
	*out = *active
	if c.Valid == nil {
		return
	}
	for i := range out {
		if i < len(c.Valid) {
			out[i] &= c.Valid[i]
		} else {
			out[i] = 0
		}
	}
}

// leaf is a predicate on the value of one field; it is unknown where the value is null.
type leaf struct {
	field    string
	pred     predicate
	tests    [millstream.String + 1]*test // by column type, made when first met
	dict     []string                     // the dictionary that verdicts are of
	verdicts []tri                        // per dictionary entry; unasked until it is first needed
}

const unasked tri = 255

// predicate makes the test for columns of a type.
type predicate interface {
	test(t millstream.Type) *test
	// literals are texts of which each must stand in a true value's text.
	literals() []literal
}

// test decides on single values; which function is set follows from the column's type.
type test struct {
	ints   func(v int64) tri
	floats func(v float64) tri
	text   func(v string) tri
	// bulk, if set, decides on many rows of a plain String column at once: it sets t for the active rows that are true; the others are false.
	bulk func(c *millstream.Column, active, t *bitmap)
	// zones, if set, decide from the least and greatest value of a block: may some be true, must all be.
	zoneInts   func(lo, hi int64) (may, must bool)
	zoneFloats func(lo, hi float64) (may, must bool)
}

func (l *leaf) test(t millstream.Type) *test {
	if l.tests[t] == nil {
		l.tests[t] = l.pred.test(t)
	}
	return l.tests[t]
}

func (l *leaf) eval(b block, active, t, u *bitmap) error {
	*t, *u = bitmap{}, *active
	c, err := b.column(l.field)
	if err != nil || c == nil {
		return err
	}
	var valid bitmap
	validRows(c, active, &valid)
	u.andNot(&valid)
	if valid.empty() {
		return nil
	}
	put := func(i int, v tri) {
		switch v {
		case yes:
			t.set(i)
		case unknown:
			u.set(i)
		}
	}
	x := l.test(c.Type)
	switch {
	case c.Codes != nil:
		l.forDict(c.Dict)
		valid.each(func(i int) { put(i, l.entry(x, c.Codes[i])) })
	case c.Type == millstream.Double:
		valid.each(func(i int) { put(i, x.floats(c.Floats[i])) })
	case c.Type != millstream.String:
		valid.each(func(i int) { put(i, x.ints(c.Ints[i])) })
	case x.bulk != nil && valid.count() >= 16:
		x.bulk(c, &valid, t)
	default:
		valid.each(func(i int) { put(i, x.text(c.Str(i))) })
	}
	return nil
}

// forDict forgets the verdicts of another dictionary.
func (l *leaf) forDict(dict []string) {
	if len(l.dict) == len(dict) && (len(dict) == 0 || &l.dict[0] == &dict[0]) {
		return
	}
	l.dict = dict
	if cap(l.verdicts) < len(dict) {
		l.verdicts = make([]tri, len(dict))
	}
	l.verdicts = l.verdicts[:len(dict)]
	for i := range l.verdicts {
		l.verdicts[i] = unasked
	}
}

func (l *leaf) entry(x *test, code uint32) tri {
	if l.verdicts[code] == unasked {
		l.verdicts[code] = x.text(l.dict[code])
	}
	return l.verdicts[code]
}

// match finds words: each in the one field, or in any of the source's text fields.
type match struct {
	field string
	words []matchWord
}

type matchWord struct {
	phrase []string
	leaves map[string]*leaf
	may    map[string]uint64 // per field, as prune last found: blocks that may have it; nil: no index was asked
}

func newMatch(e Match) *match {
	m := &match{field: e.Field}
	for _, w := range parseMatch(e.Query) {
		m.words = append(m.words, matchWord{phrase: w, leaves: map[string]*leaf{}})
	}
	return m
}

func (w *matchWord) leaf(field string) *leaf {
	l := w.leaves[field]
	if l == nil {
		l = &leaf{field: field, pred: &hasWords{phrase: w.phrase}}
		w.leaves[field] = l
	}
	return l
}

func (m *match) eval(b block, active, t, u *bitmap) error {
	*t, *u = *active, bitmap{}
	for i := range m.words {
		if t.empty() {
			return nil
		}
		var st, su bitmap
		var err error
		if m.field != "" {
			err = m.words[i].leaf(m.field).eval(b, active, &st, &su)
			u.or(&su)
		} else {
			err = m.words[i].anywhere(b, t, &st)
		}
		if err != nil {
			return err
		}
		t.and(&st)
	}
	return nil
}

func (w *matchWord) anywhere(b block, active, t *bitmap) error {
	left := *active
	*t = bitmap{}
	for _, f := range b.texts() {
		if left.empty() {
			return nil
		}
		if w.may != nil && w.may[f]&(1<<b.number()) == 0 {
			continue
		}
		var st, su bitmap
		if err := w.leaf(f).eval(b, &left, &st, &su); err != nil {
			return err
		}
		t.or(&st)
		left.andNot(&st)
	}
	return nil
}
