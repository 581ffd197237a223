package sql

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// planner turns a statement to a Plan. Every method gives up (ok false) on what it does not know; then the statement is DuckDB's.
type planner struct {
	b     *binder
	scope *scope
	view  *view
	plan  Plan
	items []node   // of the SELECT list
	names []string // output names; empty: the expression's text
}

// plan makes the kernels' plan of a statement and the names of its columns, or nil. A mistake in the statement makes no plan: binding finds and reports it.
func (s *Statement) plan(ctx context.Context, tables []Table, now time.Time) (*Plan, []string, error) {
	q := s.tree
	from := child(q, "from_table")
	if len(s.refs) != 1 || text(q, "type") != "SELECT_NODE" || text(from, "type") != "BASE_TABLE" || len(nodes(child(q, "cte_map"), "map")) > 0 ||
		q["having"] != nil || q["qualify"] != nil || q["sample"] != nil || from["sample"] != nil || len(strs(from, "column_name_alias")) > 0 {
		return nil, nil, nil
	}
	b := &binder{stmt: s, tables: tables, now: now.UTC()}
	p := &planner{b: b, scope: &scope{}, items: nodes(q, "select_list"), plan: Plan{Stream: tables[0].Key, Limit: -1}}
	if err := b.bindTable(clone(from).(node), p.scope, nil, true); err != nil {
		return nil, nil, err
	}
	p.view = b.views[0]
	if !p.where(q) || !p.grouping(q) || !p.outputs() || !p.modifiers(q) {
		return nil, nil, nil
	}
	columns, err := p.columns(ctx)
	return &p.plan, columns, err
}

// columns gives the outputs their names. One without an alias is called as its text, as DuckDB writes it.
func (p *planner) columns(ctx context.Context) (all []string, err error) {
	if p.plan.Star {
		for _, f := range p.view.fields {
			all = append(all, f.Name)
		}
		return all, nil
	}
	for i, name := range p.names {
		if name == "" {
			if name, err = p.b.stmt.gate.name(ctx, p.items[i]); err != nil {
				return nil, err
			}
		}
		p.plan.Out[i].Name = name
		all = append(all, name)
	}
	return all, nil
}

func (p *planner) where(q node) bool {
	where := child(q, "where_clause")
	if where == nil {
		return true
	}
	var all segment.And
	for _, c := range conjuncts(where) {
		e, ok := p.filter(c)
		if !ok {
			return false
		}
		all = append(all, e)
	}
	p.plan.Filter = all
	if len(all) == 1 {
		p.plan.Filter = all[0]
	}
	return true
}

func (p *planner) filter(n node) (segment.Expr, bool) {
	t := &translator{b: p.b, scope: p.scope}
	e, ok := t.expr(n)
	return e, ok && t.err == nil
}

// column is the field that n names, or nil.
func (p *planner) column(n node) *column {
	return (&translator{b: p.b, scope: p.scope}).field(n)
}

// grouping reads GROUP BY. An entry is a field, a histogram, an alias or the number of an output; with ALL the entries are the outputs that have no aggregate.
func (p *planner) grouping(q node) bool {
	sets := list(q, "group_sets")
	groups := nodes(q, "group_expressions")
	if len(sets) > 1 || len(sets) == 1 && len(sets[0].([]any)) != len(groups) {
		return false
	}
	distinct, ok := p.distinct(q)
	if !ok {
		return false
	}
	if text(q, "aggregate_handling") == "FORCE_AGGREGATES" || distinct {
		if distinct && (len(groups) > 0 || text(q, "aggregate_handling") == "FORCE_AGGREGATES") {
			return false
		}
		groups = nil
		for _, item := range p.items {
			if !isAggregate(item) {
				groups = append(groups, item)
			} else if distinct {
				return false
			}
		}
		p.plan.Aggregate = true
	}
	for _, g := range groups {
		k, ok := p.key(p.referred(g))
		if !ok {
			return false
		}
		p.plan.Keys = append(p.plan.Keys, k)
	}
	p.plan.Aggregate = p.plan.Aggregate || len(groups) > 0
	for _, item := range p.items {
		p.plan.Aggregate = p.plan.Aggregate || isAggregate(item)
	}
	return true
}

// distinct says whether the statement is a plain SELECT DISTINCT; it is not ok with DISTINCT ON.
func (p *planner) distinct(q node) (distinct, ok bool) {
	for _, m := range nodes(q, "modifiers") {
		if text(m, "type") == "DISTINCT_MODIFIER" {
			if len(list(m, "distinct_on_targets")) > 0 {
				return false, false
			}
			distinct = true
		}
	}
	return distinct, true
}

// referred is the SELECT item that an entry of GROUP BY stands for, or the entry itself. A field comes before an alias of the same name.
func (p *planner) referred(n node) node {
	if i, ok := intLiteral(n); ok && i >= 1 && i <= int64(len(p.items)) {
		return p.items[i-1]
	}
	if names := strs(n, "column_names"); len(names) == 1 && p.column(n) == nil {
		for _, item := range p.items {
			if strings.EqualFold(text(item, "alias"), names[0]) {
				return item
			}
		}
	}
	return n
}

func (p *planner) key(n node) (Key, bool) {
	if c := p.column(n); c != nil {
		return Key{Field: c.name}, true
	}
	if text(n, "class") != "FUNCTION" || function(n) != "histogram" {
		return Key{}, false
	}
	args := nodes(n, "children")
	width, ok := p.b.bucket(args)
	if !ok {
		return Key{}, false
	}
	c := p.column(args[0])
	if c == nil || c.name != millstream.TimestampField {
		return Key{}, false
	}
	return Key{Field: c.name, Bucket: width}, true
}

// outputs reads the SELECT list.
func (p *planner) outputs() bool {
	if len(p.items) == 1 && text(p.items[0], "class") == "STAR" {
		of := text(p.items[0], "relation_name")
		p.plan.Star = plainStar(p.items[0]) && (of == "" || strings.EqualFold(of, p.scope.relations[0].name))
		return p.plan.Star && !p.plan.Aggregate
	}
	for _, item := range p.items {
		out, name, ok := p.output(item)
		if !ok {
			return false
		}
		if alias := text(item, "alias"); alias != "" {
			name = alias
		}
		p.plan.Out, p.names = append(p.plan.Out, out), append(p.names, name)
	}
	return true
}

// plainStar says whether a * stands for all fields as they are.
func plainStar(n node) bool {
	return !flag(n, "columns") && n["expr"] == nil && len(list(n, "exclude_list")) == 0 && len(list(n, "qualified_exclude_list")) == 0 &&
		len(list(n, "replace_list")) == 0 && len(list(n, "rename_list")) == 0
}

// output reads one item; name is empty where it is the text of the expression.
func (p *planner) output(item node) (out Output, name string, ok bool) {
	c := p.column(item)
	if !p.plan.Aggregate {
		if c == nil {
			return Output{}, "", false
		}
		return Output{Field: c.name, Key: -1, Agg: -1, Type: sqlType(c.typ())}, typedName(item, c), true
	}
	if k, isKey := p.key(item); isKey {
		for i := range p.plan.Keys {
			if p.plan.Keys[i] == k {
				out = Output{Key: i, Agg: -1, Type: "TIMESTAMP_NS"}
				if c != nil {
					return Output{Key: i, Agg: -1, Type: sqlType(c.typ())}, typedName(item, c), true
				}
				return out, "", true
			}
		}
		return Output{}, "", false // DuckDB says that it has to be grouped by
	}
	agg, typ, ok := p.aggregate(item)
	if !ok {
		return Output{}, "", false
	}
	return Output{Key: -1, Agg: p.addAggregate(agg), Type: typ}, "", true
}

// typedName is a column's output name: what was typed after the table's alias.
func typedName(item node, c *column) string {
	typed := strings.Join(strs(item, "column_names"), ".")
	return typed[max(0, len(typed)-len(c.name)):]
}

// addAggregate gives the index of an aggregate; plain ones that occur twice are computed once.
func (p *planner) addAggregate(a Agg) int {
	if a.Filter == nil {
		for i, b := range p.plan.Aggs {
			if b.Filter == nil && b.Func == a.Func && b.Field == a.Field && b.P == a.P && b.NullIfEmpty == a.NullIfEmpty {
				return i
			}
		}
	}
	p.plan.Aggs = append(p.plan.Aggs, a)
	return len(p.plan.Aggs) - 1
}

func sqlType(t millstream.Type) string {
	switch t {
	case millstream.Bool:
		return "BOOLEAN"
	case millstream.Int64:
		return "BIGINT"
	case millstream.Double:
		return "DOUBLE"
	case millstream.Timestamp:
		return "TIMESTAMP_NS"
	}
	return "VARCHAR"
}

// modifiers reads ORDER BY, LIMIT and OFFSET.
func (p *planner) modifiers(q node) bool {
	for _, m := range nodes(q, "modifiers") {
		ok := true
		switch text(m, "type") {
		case "ORDER_MODIFIER":
			ok = p.order(nodes(m, "orders"))
		case "LIMIT_MODIFIER":
			ok = p.limit(m)
		case "DISTINCT_MODIFIER":
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

func (p *planner) limit(m node) bool {
	if n := child(m, "limit"); n != nil {
		limit, ok := intLiteral(n)
		if !ok || limit < 0 || limit > 1<<31 {
			return false
		}
		p.plan.Limit = int(limit)
	}
	if n := child(m, "offset"); n != nil {
		skip, ok := intLiteral(n)
		if !ok || skip < 0 || skip > 1<<31 {
			return false
		}
		p.plan.Offset = int(skip)
	}
	return true
}

func (p *planner) order(orders []node) bool {
	for _, o := range orders {
		out, ok := p.orderOutput(child(o, "expression"))
		if !ok {
			return false
		}
		// DuckDB puts nulls last, whatever the direction.
		p.plan.Order = append(p.plan.Order, Order{Out: out, Desc: text(o, "type") == "DESCENDING", NullsFirst: text(o, "null_order") == "NULLS FIRST"})
	}
	if p.plan.Aggregate || len(p.plan.Order) == 0 {
		return true
	}
	out := p.plan.Order[0].Out
	return len(p.plan.Order) == 1 && (p.plan.Star || out < 0 || p.plan.Out[out].Field == millstream.TimestampField)
}

// orderOutput finds the output column that an entry of ORDER BY names: by number, alias, field, or the same expression.
func (p *planner) orderOutput(n node) (int, bool) {
	if i, ok := intLiteral(n); ok {
		return int(i) - 1, i >= 1 && i <= int64(len(p.plan.Out)) || p.plan.Star && i == 1
	}
	if names := strs(n, "column_names"); len(names) == 1 {
		for i, item := range p.items {
			if strings.EqualFold(text(item, "alias"), names[0]) {
				return i, true
			}
		}
	}
	c := p.column(n)
	if p.plan.Star {
		return 0, c != nil && c.name == millstream.TimestampField
	}
	for i, item := range p.items {
		if c != nil {
			if other := p.column(item); other != nil && other.name == c.name {
				return i, true
			}
		} else if sameExpression(item, n) {
			return i, true
		}
	}
	return -1, !p.plan.Aggregate && c != nil && c.name == millstream.TimestampField
}

// sameExpression compares two expressions but for their alias and position.
func sameExpression(a, b node) bool {
	return fingerprint(a) == fingerprint(b)
}

func fingerprint(n node) string {
	c := clone(n).(node)
	walk(c, func(x node) bool {
		delete(x, "query_location")
		return true
	})
	delete(c, "alias")
	out, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return string(out)
}
