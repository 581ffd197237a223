package segment

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/millstream/millstream"
)

// compare is a comparison with a literal.
type compare struct {
	op    Op
	value Value
}

func never() *test {
	return &test{
		ints: func(int64) tri { return unknown }, floats: func(float64) tri { return unknown }, text: func(string) tri { return unknown },
		zoneInts: func(_, _ int64) (bool, bool) { return false, false }, zoneFloats: func(_, _ float64) (bool, bool) { return false, false },
	}
}

func (p compare) test(t millstream.Type) *test {
	switch t {
	case millstream.String:
		return p.testText()
	case millstream.Double:
		v, ok := p.value.float()
		if !ok {
			return never()
		}
		return &test{
			floats:     func(x float64) tri { return triOf(p.op.holds(cmpFloat(x, v))) },
			zoneFloats: func(lo, hi float64) (bool, bool) { return p.op.zone(cmpFloat(lo, v), cmpFloat(hi, v)) },
		}
	}
	if p.value.Kind == FloatValue {
		return &test{
			ints: func(x int64) tri { return triOf(p.op.holds(cmpFloat(float64(x), p.value.Float))) },
			zoneInts: func(lo, hi int64) (bool, bool) {
				return p.op.zone(cmpFloat(float64(lo), p.value.Float), cmpFloat(float64(hi), p.value.Float))
			},
		}
	}
	v, ok := p.value.int(t)
	if !ok {
		return never()
	}
	return &test{
		ints:     func(x int64) tri { return triOf(p.op.holds(cmp.Compare(x, v))) },
		zoneInts: func(lo, hi int64) (bool, bool) { return p.op.zone(cmp.Compare(lo, v), cmp.Compare(hi, v)) },
	}
}

// testText compares texts with a string, and with any other literal the text cast to the literal's type, unknown where it cannot be.
func (p compare) testText() *test {
	cast := func(x string) (order int, ok bool) {
		v := Value{Kind: StringValue, Str: x}
		switch p.value.Kind {
		case BoolValue, TimeValue:
			t := millstream.Bool
			if p.value.Kind == TimeValue {
				t = millstream.Timestamp
			}
			n, ok := v.int(t)
			return cmp.Compare(n, p.value.Int), ok
		}
		f, ok := v.float()
		want, _ := p.value.float()
		return cmpFloat(f, want), ok
	}
	if p.value.Kind == StringValue {
		return &test{text: func(x string) tri { return triOf(p.op.holds(strings.Compare(x, p.value.Str))) }}
	}
	return &test{text: func(x string) tri {
		order, ok := cast(x)
		if !ok {
			return unknown
		}
		return triOf(p.op.holds(order))
	}}
}

func (p compare) literals() []literal {
	if p.op == Eq && p.value.Kind == StringValue {
		return []literal{{text: p.value.Str, left: true, right: true}}
	}
	return nil
}

// holds says whether the operator is true of two values in that order.
func (o Op) holds(order int) bool {
	switch o {
	case Eq:
		return order == 0
	case Ne:
		return order != 0
	case Lt:
		return order < 0
	case Le:
		return order <= 0
	case Gt:
		return order > 0
	}
	return order >= 0
}

// zone decides for a block from how its least and greatest value compare with the literal.
func (o Op) zone(lo, hi int) (may, must bool) {
	switch o {
	case Eq:
		return lo <= 0 && hi >= 0, lo == 0 && hi == 0
	case Ne:
		return lo != 0 || hi != 0, hi < 0 || lo > 0
	}
	a, b := o.holds(lo), o.holds(hi)
	return a || b, a && b
}

// cmpFloat orders doubles as SQL does: NaN equals itself and is above all others.
func cmpFloat(a, b float64) int {
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

// float is the literal cast to a double.
func (v Value) float() (float64, bool) {
	switch v.Kind {
	case FloatValue:
		return v.Float, true
	case StringValue:
		return parseDouble(v.Str)
	}
	return float64(v.Int), true
}

// int is the literal cast to a type that columns keep as integers.
func (v Value) int(t millstream.Type) (int64, bool) {
	if v.Kind != StringValue {
		return v.Int, true
	}
	s := strings.TrimSpace(v.Str)
	switch t {
	case millstream.Bool:
		switch strings.ToLower(s) {
		case "true", "t", "yes", "y", "1":
			return 1, true
		case "false", "f", "no", "n", "0":
			return 0, true
		}
		return 0, false
	case millstream.Timestamp:
		return parseTime(s)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseDouble reads what a cast to DOUBLE reads: decimal notation, infinities and NaN.
func parseDouble(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "xXpP_") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// timeLayouts are the forms of a time in a text; a fraction of a second is read without being named. A time without a zone is UTC.
var timeLayouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02"}

func parseTime(s string) (int64, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			if y := t.Year(); y < 1678 || y > 2261 {
				return 0, false
			}
			return t.UnixNano(), true
		}
	}
	return 0, false
}

// in is the Or of equalities.
type in struct {
	values []Value
	texts  map[string]struct{} // set if every literal is a string
	nums   map[int64]struct{}  // set if every literal is a whole number
}

func newIn(values []Value) *in {
	p := &in{values: values, texts: map[string]struct{}{}, nums: map[int64]struct{}{}}
	for _, v := range values {
		p.texts[v.Str], p.nums[v.Int] = struct{}{}, struct{}{}
	}
	for _, v := range values {
		if v.Kind != StringValue {
			p.texts = nil
		}
		if v.Kind != IntValue {
			p.nums = nil
		}
	}
	return p
}

func (p *in) test(t millstream.Type) *test {
	subs := make([]*test, len(p.values))
	for i, v := range p.values {
		subs[i] = compare{Eq, v}.test(t)
	}
	out := &test{
		ints:   func(v int64) tri { return anyOf(subs, func(s *test) tri { return s.ints(v) }) },
		floats: func(v float64) tri { return anyOf(subs, func(s *test) tri { return s.floats(v) }) },
		text:   func(v string) tri { return anyOf(subs, func(s *test) tri { return s.text(v) }) },
		zoneInts: func(lo, hi int64) (may, must bool) {
			for _, s := range subs {
				a, b := s.zoneInts(lo, hi)
				may, must = may || a, must || b
			}
			return may, must
		},
		zoneFloats: func(lo, hi float64) (may, must bool) {
			for _, s := range subs {
				a, b := s.zoneFloats(lo, hi)
				may, must = may || a, must || b
			}
			return may, must
		},
	}
	if t == millstream.String && p.texts != nil {
		out.text = func(v string) tri { _, ok := p.texts[v]; return triOf(ok) }
	}
	if t == millstream.Int64 && p.nums != nil {
		out.ints = func(v int64) tri { _, ok := p.nums[v]; return triOf(ok) }
	}
	return out
}

func (p *in) literals() []literal {
	if len(p.values) == 1 {
		return compare{Eq, p.values[0]}.literals()
	}
	return nil
}

func anyOf(subs []*test, f func(*test) tri) tri {
	out := no
	for _, s := range subs {
		switch f(s) {
		case yes:
			return yes
		case unknown:
			out = unknown
		}
	}
	return out
}

// textTest makes the test of a predicate on texts: other types are tested by their canonical text.
func textTest(t millstream.Type, ok func(string) bool) *test {
	one := millstream.Column{Type: t, Ints: make([]int64, 1), Floats: make([]float64, 1)}
	return &test{
		text:   func(v string) tri { return triOf(ok(v)) },
		ints:   func(v int64) tri { one.Ints[0] = v; return triOf(ok(one.Text(0))) },
		floats: func(v float64) tri { one.Floats[0] = v; return triOf(ok(one.Text(0))) },
	}
}

type like struct{ pattern likePattern }

func (p *like) test(t millstream.Type) *test { return textTest(t, p.pattern.match) }
func (p *like) literals() []literal          { return p.pattern.literals() }

type contains struct{ needle string }

func (p contains) test(t millstream.Type) *test {
	out := textTest(t, func(v string) bool { return strings.Contains(v, p.needle) })
	out.bulk = func(c *millstream.Column, active, t *bitmap) {
		if p.needle == "" {
			*t = *active
			return
		}
		searchRows(c, p.needle, func(int) bool { return true }, active, t)
	}
	return out
}

func (p contains) literals() []literal { return []literal{{text: p.needle}} }

// searchRows sets t for the active rows of a plain column that contain the needle and for which ok holds. It searches the text of all rows as one.
func searchRows(c *millstream.Column, needle string, ok func(i int) bool, active, t *bitmap) {
	searchText(c.Bytes[c.Offsets[0]:], c.Offsets, needle, ok, active, t)
}

// searchText is searchRows over a text that starts with the first row. The needle is not empty.
func searchText(text []byte, offsets []uint32, needle string, ok func(i int) bool, active, t *bitmap) {
	rows, want := len(offsets)-1, unsafe.Slice(unsafe.StringData(needle), len(needle))
	base := int(offsets[0])
	at, end := base, int(offsets[rows])
	for row := 0; ; row++ {
		k := bytes.Index(text[at-base:end-base], want)
		if k < 0 {
			return
		}
		at += k
		row += rowAt(offsets[row+1:], at)
		if at+len(want) > int(offsets[row+1]) { // stands across two rows: look on from the next byte
			at++
			row--
			continue
		}
		if active.has(row) && ok(row) {
			t.set(row)
		}
		at = int(offsets[row+1])
	}
}

// rowAt counts the rows that end at or before the byte; ends are their ends. The row is mostly near, so it gallops.
func rowAt(ends []uint32, at int) int {
	step := 1
	for step < len(ends) && int(ends[step]) <= at {
		step *= 2
	}
	lo, hi := step/2, min(step, len(ends))
	for lo < hi {
		if mid := (lo + hi) / 2; int(ends[mid]) <= at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

type regex struct {
	re    *regexp.Regexp
	texts []literal
	exact string
}

func newRegex(re *regexp.Regexp) *regex {
	texts, exact := regexLiterals(re)
	return &regex{re, texts, exact}
}

func (p *regex) test(t millstream.Type) *test {
	out := textTest(t, p.re.MatchString)
	if p.exact != "" {
		out.bulk = func(c *millstream.Column, active, t *bitmap) {
			searchRows(c, p.exact, func(i int) bool { return p.re.MatchString(c.Str(i)) }, active, t)
		}
	}
	return out
}

func (p *regex) literals() []literal { return p.texts }
