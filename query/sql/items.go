package sql

import (
	"slices"
	"strings"
)

// bindItems binds a SELECT list and gives its output columns.
func (b *binder) bindItems(q node, sc *scope, ctes *cte, top bool) (out []column, open bool, err error) {
	for _, item := range nodes(q, "select_list") {
		if text(item, "class") == "STAR" {
			columns, more, err := b.bindStar(item, sc, ctes)
			if err != nil {
				return nil, false, err
			}
			out, open = append(out, columns...), open || more
			continue
		}
		c, known, err := b.bindItem(item, sc, ctes)
		if err != nil {
			return nil, false, err
		}
		if known && !top {
			c = distinguish(c, item, out)
		}
		out = append(out, c)
		// An expression's text can be used as its name outside; we do not know that text. Inside COLUMNS(…) there may be many columns.
		open = open || (!known && !top) || manyColumns(item)
	}
	return out, open, nil
}

// bindItem binds one expression of a SELECT list. Its output name is its alias, or, for a column, the name as it was typed.
func (b *binder) bindItem(item node, sc *scope, ctes *cte) (c column, known bool, err error) {
	alias := text(item, "alias")
	switch {
	case alias != "":
		return column{name: alias, actual: alias}, true, b.bindExpr(item, sc, ctes)
	case text(item, "class") == "COLUMN_REF":
		return b.bindColumnItem(item, sc, ctes)
	}
	before, changed := clone(item).(node), b.changed
	if err := b.bindExpr(item, sc, ctes); err != nil {
		return column{}, false, err
	}
	if b.changed != changed {
		b.unnamed = append(b.unnamed, unnamed{now: item, before: before})
	}
	return column{}, false, nil
}

func (b *binder) bindColumnItem(item node, sc *scope, ctes *cte) (column, bool, error) {
	parts := strs(item, "column_names")
	t, _ := sc.resolve(parts)
	if err := b.bindExpr(item, sc, ctes); err != nil {
		return column{}, false, err
	}
	switch {
	case t == nil || t.column == nil || len(t.rest) > 0:
		if text(item, "class") != "COLUMN_REF" { // current_timestamp became a literal
			item["alias"] = parts[0]
			return column{name: parts[0], actual: parts[0]}, true, nil
		}
		return column{}, false, nil
	}
	typed := strings.Join(parts, ".")
	if t.qualified {
		typed = typed[max(0, len(typed)-len(t.column.name)):]
	}
	if typed != t.column.actual {
		item["alias"] = typed
	}
	return column{name: typed, actual: typed}, true, nil
}

// distinguish gives an inner output column another name where DuckDB could not tell it from one before it, though we can.
func distinguish(c column, item node, before []column) column {
	for slices.ContainsFunc(before, func(o column) bool { return strings.EqualFold(o.actual, c.actual) && o.name != c.name }) {
		c.actual += "#2"
		item["alias"] = c.actual
	}
	return c
}

func manyColumns(n node) bool {
	many := false
	walk(n, func(x node) bool {
		if text(x, "class") == "STAR" {
			many = true
		}
		return !many && text(x, "class") != "SUBQUERY"
	})
	return many
}

// bindStar binds *, table.* and COLUMNS(…) and gives what they stand for.
func (b *binder) bindStar(n node, sc *scope, ctes *cte) (out []column, open bool, err error) {
	from := sc.relations
	if name := text(n, "relation_name"); name != "" {
		from = nil
		for _, r := range sc.relations {
			if strings.EqualFold(r.name, name) {
				from = []*relation{r}
			}
		}
		if from == nil { // the fields of a struct, or a mistake that DuckDB names
			return nil, true, nil
		}
	}
	s := starred{star: n}
	for _, r := range from {
		if r.view != nil {
			s.views = append(s.views, r.view)
		}
		if err := b.widen(n, len(r.columns)); err != nil {
			return nil, false, err
		}
		for i := range r.columns {
			c := r.columns[i]
			b.need(&c)
			if len(from) > 1 && containsFold(sc.using, c.name) && slices.ContainsFunc(out, func(o column) bool { return strings.EqualFold(o.name, c.name) }) {
				continue
			}
			out = append(out, column{name: c.name, actual: c.actual})
		}
		open = open || r.open
	}
	b.stars = append(b.stars, s)
	if flag(n, "columns") || n["expr"] != nil {
		return nil, true, b.bindColumns(n, sc, ctes)
	}
	out, err = b.bindStarLists(n, out, sc, ctes)
	return out, open, err
}

// bindColumns binds the argument of COLUMNS(…): a text, a list, or a function of the column's name.
func (b *binder) bindColumns(n node, sc *scope, ctes *cte) error {
	x := child(n, "expr")
	if x == nil || text(x, "class") == "STAR" {
		return nil
	}
	if text(x, "class") == "LAMBDA" {
		return b.bindLambda(x, sc, ctes)
	}
	return b.bindExpr(x, sc, ctes)
}

// bindStarLists applies EXCLUDE, REPLACE and RENAME. Their names become those of the views; a name with dots may be written bare.
func (b *binder) bindStarLists(n node, out []column, sc *scope, ctes *cte) ([]column, error) {
	star := &relation{columns: out}
	actual := func(name string) string {
		if c := star.find(name); len(c) > 0 {
			return c[0].actual
		}
		return name
	}
	var exclude []any
	for _, name := range strs(n, "exclude_list") {
		exclude = append(exclude, actual(name))
	}
	var qualified []any
	for _, x := range nodes(n, "qualified_exclude_list") {
		if joined := text(x, "table") + "." + text(x, "column"); len(star.find(joined)) > 0 {
			exclude = append(exclude, actual(joined))
			continue
		}
		x["column"] = actual(text(x, "column"))
		qualified = append(qualified, x)
	}
	for _, r := range nodes(n, "replace_list") {
		r["key"] = actual(text(r, "key"))
		if err := b.bindAll(sc, ctes, child(r, "value")); err != nil {
			return nil, err
		}
	}
	renames := make(map[string]string)
	for _, r := range nodes(n, "rename_list") {
		key := child(r, "key")
		key["column"] = actual(text(key, "column"))
		renames[text(key, "column")] = text(r, "value")
	}
	n["exclude_list"], n["qualified_exclude_list"] = nonNil(exclude), nonNil(qualified)
	return remaining(out, exclude, qualified, renames), nil
}

func nonNil(l []any) []any {
	if l == nil {
		return []any{}
	}
	return l
}

func remaining(out []column, exclude, qualified []any, renames map[string]string) []column {
	gone := func(c column) bool {
		return slices.ContainsFunc(exclude, func(x any) bool { return strings.EqualFold(x.(string), c.actual) }) ||
			slices.ContainsFunc(qualified, func(x any) bool { return strings.EqualFold(text(x.(node), "column"), c.actual) })
	}
	out = slices.DeleteFunc(out, gone)
	for i := range out {
		if to, ok := renames[out[i].actual]; ok {
			out[i] = column{name: to, actual: to}
		}
	}
	return out
}

// hideComputed keeps the columns that scans compute out of a *.
func hideComputed(s starred) {
	exclude := list(s.star, "exclude_list")
	for _, v := range s.views {
		for _, c := range v.computed {
			exclude = append(exclude, c.Name)
		}
	}
	s.star["exclude_list"] = nonNil(exclude)
}
