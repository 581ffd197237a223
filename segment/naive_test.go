package segment

import (
	"regexp"
	"slices"
	"strings"

	"github.com/millstream/millstream"
)

// naive evaluates a filter on one record without any of the package's machinery but the meaning of single values.
func naive(e Expr, b *millstream.Batch, i int) tri {
	col := func(name string) *millstream.Column {
		if name == millstream.TimestampField {
			return &millstream.Column{Type: millstream.Timestamp, Ints: b.Times}
		}
		if c := b.Column(name); c != nil && c.IsValid(i) {
			return c
		}
		return nil
	}
	value := func(name string, f func(c *millstream.Column) tri) tri {
		if c := col(name); c != nil {
			return f(c)
		}
		return unknown
	}
	switch e := e.(type) {
	case nil:
		return yes
	case And:
		out := yes
		for _, x := range e {
			if v := naive(x, b, i); v == no {
				return no
			} else if v == unknown {
				out = unknown
			}
		}
		return out
	case Or:
		out := no
		for _, x := range e {
			if v := naive(x, b, i); v == yes {
				return yes
			} else if v == unknown {
				out = unknown
			}
		}
		return out
	case Not:
		switch naive(e.X, b, i) {
		case yes:
			return no
		case no:
			return yes
		}
		return unknown
	case IsNull:
		return triOf(col(e.Field) == nil)
	case Compare:
		return value(e.Field, func(c *millstream.Column) tri { return testOne(compare{e.Op, e.Value}.test(c.Type), c, i) })
	case In:
		any := Or{}
		for _, v := range e.Values {
			any = append(any, Compare{e.Field, Eq, v})
		}
		if len(any) == 0 {
			return value(e.Field, func(*millstream.Column) tri { return no })
		}
		return naive(any, b, i)
	case Like:
		return value(e.Field, func(c *millstream.Column) tri { return triOf(naiveLike(e.Pattern, c.Text(i), e.Fold)) })
	case Contains:
		return value(e.Field, func(c *millstream.Column) tri { return triOf(strings.Contains(c.Text(i), e.Text)) })
	case Regex:
		return value(e.Field, func(c *millstream.Column) tri { return triOf(e.Re.MatchString(c.Text(i))) })
	case Match:
		return naiveMatch(e, b, i, col)
	}
	panic("unknown filter")
}

func testOne(t *test, c *millstream.Column, i int) tri {
	switch c.Type {
	case millstream.String:
		return t.text(c.Str(i))
	case millstream.Double:
		return t.floats(c.Floats[i])
	}
	return t.ints(c.Ints[i])
}

// naiveLike goes by a regular expression.
func naiveLike(pattern, text string, fold bool) bool {
	var b strings.Builder
	b.WriteString("(?s)^")
	if fold {
		b.WriteString("(?i)")
	}
	esc := false
	for _, r := range pattern {
		switch {
		case esc:
			b.WriteString(regexp.QuoteMeta(string(r)))
			esc = false
		case r == '\\':
			esc = true
		case r == '%':
			b.WriteString(".*")
		case r == '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile(b.String() + "$").MatchString(text)
}

// naivePhrase says whether tokens fit the patterns of a phrase.
func naivePhrase(tokens, phrase []string) bool {
	return slices.EqualFunc(tokens, phrase, func(token, pattern string) bool {
		return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(token)
	})
}

func naiveMatch(e Match, b *millstream.Batch, i int, col func(string) *millstream.Column) tri {
	fields := []string{e.Field}
	if e.Field == "" {
		fields = fields[:0]
		for k := range b.Columns {
			if b.Columns[k].Type == millstream.String && !IsID(b.Columns[k].Name) {
				fields = append(fields, b.Columns[k].Name)
			}
		}
	} else if len(parseMatch(e.Query)) > 0 && col(e.Field) == nil {
		return unknown
	}
	for _, phrase := range parseMatch(e.Query) {
		found := false
		for _, f := range fields {
			if c := col(f); c != nil {
				have := Tokens(nil, c.Text(i))
				for k := range have {
					found = found || k+len(phrase) <= len(have) && naivePhrase(have[k:k+len(phrase)], phrase)
				}
			}
		}
		if !found {
			return no
		}
	}
	return yes
}
