package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millstream/millstream"
)

// Term is what a search looks for, for marking it in results. Only positive terms are listed.
type Term struct {
	Field string `json:"field,omitempty"` // empty: any field
	Text  string `json:"text"`
	// Kind is "word" (whole words, in any case, one after another), "value" (the whole value), "wildcard" (a word or value with *) or "regex" (RE2).
	Kind string `json:"kind"`
}

// Condition is a search as SQL.
type Condition struct {
	SQL      string // empty: all records
	Warnings []string
	Terms    []Term
}

// maxTerms bounds the terms and the warnings of an answer; the search itself is not cut.
const maxTerms = 200

// Compile turns a search to a condition over a stream's fields. now is what relative times refer to.
func (q *Query) Compile(list []millstream.Field, now time.Time) Condition {
	c := &compiler{fields: newFields(list), now: now, out: Condition{Warnings: []string{}, Terms: []Term{}}}
	if q.root != nil {
		c.out.SQL = c.compile(q.root, false).sql
	}
	return c.out
}

type compiler struct {
	fields *fields
	now    time.Time
	out    Condition
}

// expr is SQL with how strongly it binds. An empty one is a condition that says nothing.
type expr struct {
	sql  string
	bind int
}

const (
	bindOr = iota
	bindAnd
	bindNot
	bindAtom
)

func atom(sql string) expr { return expr{sql, bindAtom} }

func truth(b bool) expr {
	if b {
		return atom("TRUE")
	}
	return atom("FALSE")
}

// join makes one condition of several; those that say nothing are left out.
func join(word string, bind int, all ...expr) expr {
	all = slices.DeleteFunc(all, func(x expr) bool { return x.sql == "" })
	if len(all) == 0 {
		return expr{}
	}
	if len(all) == 1 {
		return all[0]
	}
	parts := make([]string, len(all))
	for i, x := range all {
		parts[i] = x.sql
		if x.bind <= bindAnd && x.bind != bind {
			parts[i] = "(" + x.sql + ")"
		}
	}
	return expr{strings.Join(parts, " "+word+" "), bind}
}

func and(all ...expr) expr { return join("AND", bindAnd, all...) }
func or(all ...expr) expr  { return join("OR", bindOr, all...) }

func negate(x expr) expr {
	if x.bind < bindAtom {
		x.sql = "(" + x.sql + ")"
	}
	return expr{"NOT " + x.sql, bindNot}
}

// compile carries a negation down to the terms.
func (c *compiler) compile(n node, neg bool) expr {
	switch n := n.(type) {
	case not:
		return c.compile(n.x, !neg)
	case allOf:
		if !neg {
			c.contradictions(n)
		}
		return c.several(n, neg, !neg)
	case anyOf:
		return c.several(n, neg, neg)
	}
	return c.term(n.(*term), neg)
}

func (c *compiler) several(nodes []node, neg, all bool) expr {
	parts := make([]expr, len(nodes))
	for i, n := range nodes {
		parts[i] = c.compile(n, neg)
	}
	if all {
		return and(parts...)
	}
	return or(parts...)
}

// contradictions warns of a field that would have to have two values at once, which is what field:(a b) says.
func (c *compiler) contradictions(all allOf) {
	first := map[string]string{}
	for _, n := range all {
		t, ok := n.(*term)
		if !ok || t.field == "" || IsProse(t.field) || t.kind != phrase && (t.kind != word || len(t.parts) > 1) {
			continue
		}
		text := t.text
		if t.kind == word {
			text = t.parts[0]
		}
		if before, ok := first[t.field]; ok && !strings.EqualFold(before, text) {
			c.warn("%q cannot be %q and %q at once: write or between them", t.field, before, text)
		}
		first[t.field] = text
	}
}

func (c *compiler) warn(format string, args ...any) {
	w := fmt.Sprintf(format, args...)
	if len(c.out.Warnings) < maxTerms && !slices.Contains(c.out.Warnings, w) {
		c.out.Warnings = append(c.out.Warnings, w)
	}
}

// mark lists a positive term.
func (c *compiler) mark(neg bool, t Term) {
	if !neg && t.Text != "" && len(c.out.Terms) < maxTerms && !slices.Contains(c.out.Terms, t) {
		c.out.Terms = append(c.out.Terms, t)
	}
}

func (c *compiler) term(t *term, neg bool) expr {
	if t.field == "" {
		return c.record(t, neg)
	}
	f, warning := c.fields.find(t.field)
	if warning != "" {
		c.warn("%s", warning)
		return truth(neg)
	}
	switch t.kind {
	case exists:
		if neg {
			return atom(Name(f.Name) + " IS NULL")
		}
		return atom(Name(f.Name) + " IS NOT NULL")
	case regex:
		c.mark(neg, Term{f.Name, t.text, "regex"})
		return onField(f, atom("re_match("+Name(f.Name)+", "+Text(t.text)+")"), neg)
	case compare:
		return c.compare(f, t.op, t.text, neg)
	case span:
		return c.span(f, t, neg)
	case phrase:
		return c.value(f, t.kind, []string{t.text}, neg)
	}
	return c.value(f, t.kind, t.parts, neg)
}

// record compiles a word or phrase that any text field may have.
func (c *compiler) record(t *term, neg bool) expr {
	parts := t.parts
	if t.kind == phrase {
		parts = []string{t.text}
	}
	if t.kind == word && strings.Join(parts, "") == "" {
		return truth(!neg) // * alone is every record
	}
	query, ok := matchQuery(parts)
	if !ok {
		c.warn("%q has no letter or digit to search for and is left out", strings.Join(parts, "*"))
		return expr{}
	}
	c.markWords(neg, "", parts)
	found := atom("match_all(" + Text(query) + ")")
	if neg {
		found = negate(found)
	}
	if t.kind != word || len(parts) > 1 || !looksLikeID(parts[0]) {
		return found
	}
	all := []expr{found}
	for _, f := range c.fields.ids() {
		all = append(all, c.compare(f, "=", parts[0], neg))
	}
	if neg {
		return and(all...)
	}
	return or(all...)
}

func (c *compiler) markWords(neg bool, field string, parts []string) {
	kind := "word"
	if len(parts) > 1 {
		kind = "wildcard"
	}
	c.mark(neg, Term{field, strings.Join(parts, "*"), kind})
}

// onField is a condition on a field, or what is true where it is not: also where there is no value.
func onField(f millstream.Field, x expr, neg bool) expr {
	if !neg {
		return x
	}
	return otherwise(f, negate(x))
}

// otherwise adds the records without the field to the negation of a condition on it.
func otherwise(f millstream.Field, negation expr) expr {
	return or(atom(Name(f.Name)+" IS NULL"), negation)
}

// Name is a field's name in SQL.
func Name(field string) string { return `"` + strings.ReplaceAll(field, `"`, `""`) + `"` }

// Text is a text as a literal of SQL.
func Text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
