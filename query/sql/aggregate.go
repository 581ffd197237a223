package sql

import (
	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

var aggregateFunctions = nameSet(aggregateNames)

// isAggregate says whether an expression is or contains a call of an aggregate, outside of windows and subqueries.
func isAggregate(n node) bool {
	found := false
	walk(n, func(x node) bool {
		switch text(x, "class") {
		case "WINDOW", "SUBQUERY":
			return false
		case "FUNCTION":
			found = found || aggregateFunctions[function(x)]
		}
		return !found
	})
	return found
}

// aggregate reads a call of an aggregate that kernels compute exactly as DuckDB does, and the type of its answer.
func (p *planner) aggregate(n node) (a Agg, typ string, ok bool) {
	if text(n, "class") != "FUNCTION" || len(nodes(child(n, "order_bys"), "orders")) > 0 || flag(n, "export_state") {
		return Agg{}, "", false
	}
	if f := child(n, "filter"); f != nil {
		if a.Filter, ok = p.filter(f); !ok {
			return Agg{}, "", false
		}
	}
	args, distinct := nodes(n, "children"), flag(n, "distinct")
	switch name := function(n); {
	case name == "count_star" && len(args) == 0, name == "count" && len(args) == 0:
		a.Func = Count
		return a, "BIGINT", !distinct
	case name == "count" && len(args) == 1:
		return p.count(a, args[0], distinct)
	case distinct:
		return Agg{}, "", false
	case (name == "count_if" || name == "countif") && len(args) == 1:
		return p.conditional(a, args[0], "HUGEINT")
	case name == "sum" && len(args) == 1 && text(args[0], "class") == "CASE":
		return p.sumCase(a, args[0])
	case name == "median" && len(args) == 1:
		a.P = 0.5
		return p.quantile(a, args[0])
	case name == "quantile_cont" && len(args) == 2:
		l, ok := p.b.literal(args[1])
		f, isNumber := asFloat(l)
		if !ok || !isNumber || f.f < 0 || f.f > 1 {
			return Agg{}, "", false
		}
		a.P = f.f
		return p.quantile(a, args[0])
	case len(args) == 1:
		return p.simple(a, name, args[0])
	}
	return Agg{}, "", false
}

func (p *planner) count(a Agg, arg node, distinct bool) (Agg, string, bool) {
	c := p.column(arg)
	switch {
	case c != nil && distinct:
		a.Func, a.Field = CountDistinct, c.name
	case c != nil:
		a.Func, a.Field = CountField, c.name
	case text(arg, "class") == "CONSTANT" && !flag(child(arg, "value"), "is_null") && !distinct:
		a.Func = Count // count(1)
	case text(arg, "class") == "CASE" && !distinct:
		return p.countCase(a, arg)
	default:
		return Agg{}, "", false
	}
	return a, "BIGINT", true
}

// quantile: of integers and doubles the answer is a DOUBLE; of times DuckDB interpolates in another way.
func (p *planner) quantile(a Agg, arg node) (Agg, string, bool) {
	c := p.column(arg)
	if c == nil || (c.typ() != millstream.Int64 && c.typ() != millstream.Double) {
		return Agg{}, "", false
	}
	a.Func, a.Field = Quantile, c.name
	return a, "DOUBLE", true
}

func (p *planner) simple(a Agg, name string, arg node) (Agg, string, bool) {
	c := p.column(arg)
	if c == nil {
		return Agg{}, "", false
	}
	a.Field = c.name
	numeric := c.typ() == millstream.Int64 || c.typ() == millstream.Double
	switch name {
	case "sum":
		a.Func = Sum
		if c.typ() == millstream.Int64 {
			return a, "HUGEINT", true
		}
		return a, "DOUBLE", c.typ() == millstream.Double
	case "avg", "mean":
		a.Func = Avg
		return a, "DOUBLE", numeric
	case "min":
		a.Func = Min
		return a, sqlType(c.typ()), true
	case "max":
		a.Func = Max
		return a, sqlType(c.typ()), true
	}
	return Agg{}, "", false
}

// oneCase splits CASE WHEN p THEN x [ELSE y] END with one branch; y is nil if there is none or it is NULL.
func oneCase(n node) (p, x, y node, ok bool) {
	checks := nodes(n, "case_checks")
	if len(checks) != 1 {
		return nil, nil, nil, false
	}
	y = child(n, "else_expr")
	if text(y, "class") == "CONSTANT" && flag(child(y, "value"), "is_null") {
		y = nil
	}
	return child(checks[0], "when_expr"), child(checks[0], "then_expr"), y, true
}

// conditional is a count of the records for which a condition holds, as an aggregate that is null over no record at all.
func (p *planner) conditional(a Agg, condition node, typ string) (Agg, string, bool) {
	e, ok := p.filter(condition)
	if !ok || a.Filter != nil {
		return Agg{}, "", false
	}
	a.Func, a.Filter, a.NullIfEmpty = Count, e, true
	return a, typ, true
}

// sumCase reads sum(CASE WHEN p THEN 1 ELSE 0 END), a count, and sum(CASE WHEN p THEN field END), a sum over the records with p.
func (p *planner) sumCase(a Agg, n node) (Agg, string, bool) {
	when, then, otherwise, ok := oneCase(n)
	if !ok {
		return Agg{}, "", false
	}
	if one, ok := intLiteral(then); ok && one == 1 {
		if zero, ok := intLiteral(otherwise); ok && zero == 0 {
			return p.conditional(a, when, "HUGEINT")
		}
		return Agg{}, "", false
	}
	if otherwise != nil {
		return Agg{}, "", false
	}
	agg, typ, ok := p.simple(a, "sum", then)
	if !ok {
		return Agg{}, "", false
	}
	return p.also(agg, when, typ)
}

// countCase reads count(CASE WHEN p THEN 1 END), a count of the records with p, which is 0 over none.
func (p *planner) countCase(a Agg, n node) (Agg, string, bool) {
	when, then, otherwise, ok := oneCase(n)
	if !ok || otherwise != nil || text(then, "class") != "CONSTANT" || flag(child(then, "value"), "is_null") {
		return Agg{}, "", false
	}
	a.Func = Count
	return p.also(a, when, "BIGINT")
}

// also narrows an aggregate to the records for which a condition holds, besides its own FILTER.
func (p *planner) also(a Agg, condition node, typ string) (Agg, string, bool) {
	e, ok := p.filter(condition)
	if !ok {
		return Agg{}, "", false
	}
	if a.Filter != nil {
		e = segment.And{a.Filter, e}
	}
	a.Filter = e
	return a, typ, true
}
