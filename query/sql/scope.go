package sql

import (
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/spelling"
)

// column is one column of a relation: the name by which the statement knows it and the one by which DuckDB does. They differ where DuckDB, which folds case,
// could not tell two columns apart.
type column struct {
	name, actual string
	view         *view // the column of a stream; nil: of a derived table
	field        int   // index into view.fields
}

func (c *column) typ() millstream.Type {
	if c.view == nil {
		return 0
	}
	return c.view.fields[c.field].Type
}

// relation is one table of a FROM clause.
type relation struct {
	name    string // its alias
	schema  string // what may stand before an unaliased name
	columns []column
	open    bool // there are columns we cannot know: a name that is not found may be one of them
	view    *view
}

// find gives the column of that name: an exact match first, else those that match without case.
func (r *relation) find(name string) []*column {
	var folded []*column
	for i := range r.columns {
		c := &r.columns[i]
		if c.name == name {
			return []*column{c}
		}
		if len(c.name) == len(name) && strings.EqualFold(c.name, name) {
			folded = append(folded, c)
		}
	}
	return folded
}

// scope is what names can mean at one place of a statement.
type scope struct {
	parent    *scope
	relations []*relation
	using     []string // names that a USING or NATURAL join made one
	aliases   []string // of the SELECT list
	aliased   bool     // aliases come before columns here, as in ORDER BY
	lambda    []string // parameters
}

func (s *scope) hasAlias(name string) bool { return containsFold(s.aliases, name) }

func containsFold(l []string, name string) bool {
	return slices.ContainsFunc(l, func(x string) bool { return strings.EqualFold(x, name) })
}

// target is what a column reference means.
type target struct {
	column    *column
	relation  *relation
	qualified bool
	rest      []string  // fields of a struct
	row       *relation // the reference is a whole row of a table
	keep      bool      // not a column of ours: an alias, a lambda's parameter, or something only DuckDB can resolve
}

// resolve finds what the parts of a reference mean, innermost scope first. A nil target without an error means nothing was found.
func (s *scope) resolve(parts []string) (*target, []*column) {
	for ; s != nil; s = s.parent {
		if containsFold(s.lambda, parts[0]) {
			return &target{keep: true}, nil
		}
		if s.aliased && len(parts) == 1 && s.hasAlias(parts[0]) {
			return &target{keep: true}, nil
		}
		if t, ambiguous := s.here(parts); t != nil || ambiguous != nil {
			return t, ambiguous
		}
		if len(parts) == 1 && s.hasAlias(parts[0]) {
			return &target{keep: true}, nil
		}
		if slices.ContainsFunc(s.relations, func(r *relation) bool { return r.open }) {
			return &target{keep: true}, nil
		}
	}
	return nil, nil
}

// here looks into the relations of one scope: table.column first, then the whole as one name with dots, then a column and the fields of a struct in it, then
// a table's name, which means its row.
func (s *scope) here(parts []string) (*target, []*column) {
	for q := min(2, len(parts)-1); q >= 0; q-- {
		if t, ambiguous := s.named(parts[:q], strings.Join(parts[q:], "."), nil); t != nil || ambiguous != nil {
			return t, ambiguous
		}
	}
	for q := min(2, len(parts)-1); q >= 0; q-- {
		if t, ambiguous := s.named(parts[:q], parts[q], parts[q+1:]); t != nil || ambiguous != nil {
			return t, ambiguous
		}
	}
	if len(parts) == 1 {
		for _, r := range s.relations {
			if strings.EqualFold(r.name, parts[0]) {
				return &target{row: r}, nil
			}
		}
	}
	return nil, nil
}

// named finds a column in the relations that the qualifier leaves. rest is only allowed below a column that may be a struct, which a stream's never is.
func (s *scope) named(qualifier []string, name string, rest []string) (*target, []*column) {
	var found []*column
	var in *relation
	for _, r := range s.relations {
		if !r.matches(qualifier) {
			continue
		}
		for _, c := range r.find(name) {
			if len(rest) == 0 || c.view == nil {
				found, in = append(found, c), r
			}
		}
	}
	if exact := slices.DeleteFunc(slices.Clone(found), func(c *column) bool { return c.name != name }); len(exact) > 0 {
		found = exact
	}
	switch {
	case len(found) == 0:
		return nil, nil
	case len(found) > 1 && (len(qualifier) > 0 || !containsFold(s.using, name)):
		return nil, found
	}
	return &target{column: found[0], relation: in, qualified: len(qualifier) > 0, rest: rest}, nil
}

func (r *relation) matches(qualifier []string) bool {
	switch len(qualifier) {
	case 0:
		return true
	case 1:
		return strings.EqualFold(r.name, qualifier[0])
	}
	return strings.EqualFold(r.schema, qualifier[0]) && strings.EqualFold(r.name, qualifier[1])
}

// candidates are the names that a hint may propose.
func (s *scope) candidates() []string {
	var out []string
	for ; s != nil; s = s.parent {
		for _, r := range s.relations {
			for i := range r.columns {
				out = append(out, r.columns[i].name)
			}
		}
		out = append(out, s.aliases...)
	}
	return out
}

// hint proposes a name for one that was not found; after a table's alias only the column can be wrong.
func (s *scope) hint(parts []string) string {
	if h := spelling.Hint(strings.Join(parts, "."), s.candidates()); h != "" || len(parts) == 1 {
		return h
	}
	return spelling.Hint(parts[len(parts)-1], s.candidates())
}

// cte is a common table expression in scope.
type cte struct {
	outer   *cte
	name    string
	columns []column
	open    bool
}

func (c *cte) find(base node) *cte {
	if text(base, "schema_name") != "" || text(base, "catalog_name") != "" {
		return nil
	}
	for ; c != nil; c = c.outer {
		if strings.EqualFold(c.name, text(base, "table_name")) {
			return c
		}
	}
	return nil
}
