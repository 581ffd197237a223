package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/spelling"
)

// bindFrom adds the tables of a FROM clause to a scope. pushable says that a filter on them may run before everything in the clause.
func (b *binder) bindFrom(n node, sc *scope, ctes *cte, pushable bool) error {
	pushable = pushable && n["sample"] == nil
	switch text(n, "type") {
	case "BASE_TABLE":
		return b.bindTable(n, sc, ctes, pushable)
	case "JOIN":
		return b.bindJoin(n, sc, ctes, pushable)
	case "SUBQUERY":
		out, open, err := b.bindQuery(child(child(n, "subquery"), "node"), sc, ctes, false)
		if err != nil {
			return err
		}
		if err := b.widen(n, len(out)); err != nil {
			return err
		}
		sc.relations = append(sc.relations, &relation{name: text(n, "alias"), columns: renamed(out, strs(n, "column_name_alias")), open: open})
	case "TABLE_FUNCTION":
		call := child(n, "function")
		if err := b.bindAll(sc, ctes, nodes(call, "children")...); err != nil {
			return err
		}
		name := text(n, "alias")
		if name == "" {
			name = function(call)
		}
		// What the columns are called depends on the arguments.
		sc.relations = append(sc.relations, &relation{name: name, open: true})
	case "EXPRESSION_LIST":
		return b.bindValues(n, sc, ctes)
	}
	return nil
}

func (b *binder) bindValues(n node, sc *scope, ctes *cte) error {
	width := 0
	for _, row := range list(n, "values") {
		cells, _ := row.([]any)
		width = len(cells)
		for _, cell := range cells {
			if x, ok := cell.(node); ok {
				if err := b.bindExpr(x, sc, ctes); err != nil {
					return err
				}
			}
		}
	}
	columns := make([]column, width)
	for i := range columns {
		name := fmt.Sprintf("col%d", i)
		columns[i] = column{name: name, actual: name}
	}
	sc.relations = append(sc.relations, &relation{name: text(n, "alias"), columns: renamed(columns, strs(n, "column_name_alias"))})
	return nil
}

// bindTable makes a reference to a stream one to a view.
func (b *binder) bindTable(n node, sc *scope, ctes *cte, pushable bool) error {
	alias, aliases := text(n, "alias"), strs(n, "column_name_alias")
	if c := ctes.find(n); c != nil {
		if alias == "" {
			alias = text(n, "table_name")
		}
		if err := b.widen(n, len(c.columns)); err != nil {
			return err
		}
		sc.relations = append(sc.relations, &relation{name: alias, columns: renamed(c.columns, aliases), open: c.open})
		return nil
	}
	ref := slices.IndexFunc(b.stmt.refs, func(r TableRef) bool { return r.offset == offset(n) })
	if ref < 0 {
		return invalid(b.stmt.text, offset(n), "", "the table %q cannot be resolved", text(n, "table_name"))
	}
	if err := b.widen(n, len(b.tables[ref].Fields)); err != nil {
		return err
	}
	v := newView(ref, fmt.Sprintf("%s%d", b.prefix, len(b.views)), &b.tables[ref])
	v.pushable = pushable
	b.views = append(b.views, v)
	r := &relation{name: alias, columns: v.columns(), view: v}
	if alias == "" {
		r.name, r.schema = text(n, "table_name"), text(n, "schema_name")
		if text(n, "schema_name") != "" && millstream.Signal(0) == signalOf(text(n, "schema_name")) {
			r.name = b.stmt.refs[ref].Name // a bare name with dots: its parts are one name
		}
	}
	if len(aliases) > 0 {
		v.needAll() // the aliases count columns
		for i := range min(len(aliases), len(r.columns)) {
			r.columns[i].name, r.columns[i].actual = aliases[i], aliases[i]
		}
	}
	n["alias"], n["table_name"], n["schema_name"], n["catalog_name"] = r.name, v.name, "", ""
	sc.relations = append(sc.relations, r)
	return nil
}

func signalOf(name string) millstream.Signal {
	s, err := millstream.ParseSignal(strings.ToLower(name))
	if err != nil {
		return 0
	}
	return s
}

// bindJoin binds both sides and then the condition. A filter may not run before a join on the side whose missing rows the join fills with nulls, nor where
// which rows meet depends on all rows being there.
func (b *binder) bindJoin(n node, sc *scope, ctes *cte, pushable bool) error {
	leftOK, rightOK := pushable, pushable
	switch text(n, "join_type") {
	case "INNER":
	case "LEFT", "SEMI", "ANTI", "MARK", "SINGLE":
		rightOK = false
	case "RIGHT":
		leftOK = false
	default:
		leftOK, rightOK = false, false
	}
	switch text(n, "ref_type") {
	case "ASOF":
		rightOK = false
	case "POSITIONAL":
		leftOK, rightOK = false, false
	}
	before := len(sc.relations)
	if err := b.bindFrom(child(n, "left"), sc, ctes, leftOK); err != nil {
		return err
	}
	middle := len(sc.relations)
	if err := b.bindFrom(child(n, "right"), sc, ctes, rightOK); err != nil {
		return err
	}
	left, right := sc.relations[before:middle], sc.relations[middle:]
	if text(n, "ref_type") == "NATURAL" {
		b.natural(sc, left, right)
	}
	if err := b.bindUsing(n, sc, left, right); err != nil {
		return err
	}
	if err := b.bindAll(sc, ctes, child(n, "condition")); err != nil {
		return err
	}
	if jt := text(n, "join_type"); jt == "SEMI" || jt == "ANTI" {
		sc.relations = sc.relations[:middle:middle] // only the left side is visible after it
	}
	return nil
}

// natural keeps every column of a NATURAL join's streams: DuckDB joins on those that both views show.
func (b *binder) natural(sc *scope, left, right []*relation) {
	for _, r := range slices.Concat(left, right) {
		if r.view != nil {
			r.view.needAll()
		}
	}
	for _, l := range left {
		for i := range l.columns {
			for _, r := range right {
				if len(r.find(l.columns[i].name)) > 0 {
					sc.using = append(sc.using, l.columns[i].name)
				}
			}
		}
	}
}

func (b *binder) bindUsing(n node, sc *scope, left, right []*relation) error {
	names := strs(n, "using_columns")
	for i, name := range names {
		for _, side := range [][]*relation{left, right} {
			here := &scope{relations: side}
			t, ambiguous := here.resolve([]string{name})
			if ambiguous == nil && t == nil {
				return invalid(b.stmt.text, nearest(n), spelling.Hint(name, here.candidates()), "there is no field %q on one side of USING", name)
			}
			if t != nil && t.column != nil {
				b.need(t.column)
				list(n, "using_columns")[i] = t.column.actual
			}
		}
		sc.using = append(sc.using, name)
	}
	return nil
}

func (b *binder) need(c *column) {
	if c.view != nil {
		c.view.needed[c.field] = true
	}
}
