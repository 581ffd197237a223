package sql

import (
	"slices"
	"strings"
)

// bindQuery binds a query node and gives its output columns. open says that there may be others. top marks the statement's own output, whose names are only
// shown and never resolved.
func (b *binder) bindQuery(q node, outer *scope, ctes *cte, top bool) (out []column, open bool, err error) {
	if ctes, err = b.bindCTEs(q, outer, ctes); err != nil {
		return nil, false, err
	}
	switch text(q, "type") {
	case "SELECT_NODE":
		return b.bindSelect(q, outer, ctes, top)
	case "RECURSIVE_CTE_NODE":
		if out, open, err = b.bindQuery(child(q, "left"), outer, ctes, false); err != nil {
			return nil, false, err
		}
		if err := b.widen(q, len(out)); err != nil {
			return nil, false, err
		}
		self := &cte{outer: ctes, name: text(q, "cte_name"), columns: renamed(out, strs(q, "aliases")), open: open}
		_, _, err = b.bindQuery(child(q, "right"), outer, self, false)
		return out, open, err
	}
	return b.bindSetOperation(q, outer, ctes, top)
}

func (b *binder) bindSetOperation(q node, outer *scope, ctes *cte, top bool) (out []column, open bool, err error) {
	byName := strings.HasSuffix(text(q, "setop_type"), "BY_NAME")
	out, open, err = b.bindQuery(child(q, "left"), outer, ctes, top && !byName)
	if err != nil {
		return nil, false, err
	}
	right, rightOpen, err := b.bindQuery(child(q, "right"), outer, ctes, top && !byName)
	if err != nil {
		return nil, false, err
	}
	if byName {
		open = open || rightOpen
		for _, c := range right {
			if !slices.ContainsFunc(out, func(o column) bool { return strings.EqualFold(o.actual, c.actual) }) {
				out = append(out, c)
			}
		}
	}
	sc := &scope{parent: outer, relations: []*relation{{columns: out, open: open}}}
	return out, open, b.bindModifiers(q, sc, ctes)
}

// bindCTEs binds the queries of a WITH, each in the scope of those before it.
func (b *binder) bindCTEs(q node, outer *scope, ctes *cte) (*cte, error) {
	for _, entry := range nodes(child(q, "cte_map"), "map") {
		info := child(entry, "value")
		out, open, err := b.bindQuery(child(child(info, "query"), "node"), outer, ctes, false)
		if err != nil {
			return nil, err
		}
		if err := b.widen(child(info, "query"), len(out)); err != nil {
			return nil, err
		}
		ctes = &cte{outer: ctes, name: text(entry, "key"), columns: renamed(out, strs(info, "aliases")), open: open}
	}
	return ctes, nil
}

// renamed gives a derived table's columns the names of a column alias list. A derived column is never a stream's own.
func renamed(out []column, aliases []string) []column {
	derived := make([]column, len(out))
	for i, c := range out {
		derived[i] = column{name: c.name, actual: c.actual}
		if i < len(aliases) {
			derived[i] = column{name: aliases[i], actual: aliases[i]}
		}
	}
	return derived
}

func (b *binder) bindSelect(q node, outer *scope, ctes *cte, top bool) (out []column, open bool, err error) {
	sc := &scope{parent: outer}
	if from := child(q, "from_table"); from != nil {
		if err := b.bindFrom(from, sc, ctes, q["sample"] == nil); err != nil {
			return nil, false, err
		}
	}
	for _, item := range nodes(q, "select_list") {
		if alias := text(item, "alias"); alias != "" {
			sc.aliases = append(sc.aliases, alias)
		}
	}
	if err := b.bindWhere(q, sc, ctes); err != nil {
		return nil, false, err
	}
	if err := b.bindAll(sc, ctes, nodes(q, "group_expressions")...); err != nil {
		return nil, false, err
	}
	if err := b.bindAll(sc, ctes, child(q, "having"), child(q, "qualify")); err != nil {
		return nil, false, err
	}
	if out, open, err = b.bindItems(q, sc, ctes, top); err != nil {
		return nil, false, err
	}
	return out, open, b.bindModifiers(q, sc, ctes)
}

// bindModifiers binds DISTINCT ON, ORDER BY and LIMIT, where an alias comes before a column of the same name.
func (b *binder) bindModifiers(q node, sc *scope, ctes *cte) error {
	ordered := *sc
	ordered.aliased = true
	for _, m := range nodes(q, "modifiers") {
		if err := b.bindAll(&ordered, ctes, nodes(m, "distinct_on_targets")...); err != nil {
			return err
		}
		if err := b.bindAll(&ordered, ctes, child(m, "limit"), child(m, "offset")); err != nil {
			return err
		}
		if err := b.bindOrders(m, &ordered, ctes); err != nil {
			return err
		}
	}
	return nil
}

func (b *binder) bindOrders(holder node, sc *scope, ctes *cte) error {
	for _, key := range []string{"orders", "arg_orders"} {
		for _, o := range nodes(holder, key) {
			x := child(o, "expression")
			if text(x, "class") == "STAR" && x["expr"] == nil {
				continue // ORDER BY ALL
			}
			if err := b.bindExpr(x, sc, ctes); err != nil {
				return err
			}
		}
	}
	return nil
}

// bindWhere splits the condition at its ANDs: a part that is about one stream and means the same in a segment becomes that stream's filter.
func (b *binder) bindWhere(q node, sc *scope, ctes *cte) error {
	where := child(q, "where_clause")
	if where == nil {
		return nil
	}
	var rest []any
	for _, c := range conjuncts(where) {
		drop, err := b.push(c, sc)
		if err != nil {
			return err
		}
		if drop {
			continue
		}
		if err := b.bindExpr(c, sc, ctes); err != nil {
			return err
		}
		rest = append(rest, c)
	}
	switch len(rest) {
	case 0:
		q["where_clause"] = nil
	case 1:
		q["where_clause"] = rest[0]
	default:
		q["where_clause"] = node{"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "query_location": where["query_location"], "children": rest}
	}
	return nil
}

func conjuncts(n node) []node {
	if text(n, "type") != "CONJUNCTION_AND" {
		return []node{n}
	}
	var out []node
	for _, c := range nodes(n, "children") {
		out = append(out, conjuncts(c)...)
	}
	return out
}

// push makes a condition a filter of its stream, if it can be one, and says whether the SQL can do without it.
func (b *binder) push(condition node, sc *scope) (drop bool, err error) {
	t := &translator{b: b, scope: sc}
	e, ok := t.expr(condition)
	if t.err != nil {
		return false, t.err
	}
	if !ok || t.view == nil || !t.view.pushable || !sc.has(t.view) {
		return false, nil
	}
	t.view.filters = append(t.view.filters, e)
	b.needScan = b.needScan || t.match
	return t.match || !b.direct, nil
}

// has says whether v is a table of this very scope, not of an outer one.
func (s *scope) has(v *view) bool {
	return slices.ContainsFunc(s.relations, func(r *relation) bool { return r.view == v })
}

// matchColumn turns a match function that is no filter of its own to a column that the scan computes.
func (b *binder) matchColumn(n node, sc *scope) error {
	t := &translator{b: b, scope: sc}
	e, ok := t.expr(n)
	switch {
	case t.err != nil:
		return t.err
	case !ok || t.view == nil:
		return invalid(b.stmt.text, offset(n), "write "+usage[function(n)], "%s cannot be evaluated here", function(n))
	}
	b.needScan = true
	name, added := t.view.compute(e, b.computed)
	if added {
		b.computed++
	}
	b.rewrite(n, b.qualified(t.view, sc, name))
	return nil
}

// qualified names a column of a view as it can be named in a scope.
func (b *binder) qualified(v *view, sc *scope, name string) node {
	for ; sc != nil; sc = sc.parent {
		for _, r := range sc.relations {
			if r.view == v {
				return newColumn(r.name, name)
			}
		}
	}
	return newColumn(name)
}

func (b *binder) rewrite(n, with node) {
	replace(n, with)
	b.changed++
}
