package sql

import (
	"regexp"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// translator turns a boolean expression over the fields of one stream to a segment.Expr of the same meaning. It gives up (ok false) on everything it is not
// sure of: such an expression stays in the SQL.
type translator struct {
	b     *binder
	scope *scope
	view  *view // the stream it is about; nil until a field is met
	match bool  // match_all, match or re_match occur, which SQL cannot evaluate
	err   error // a mistake of the statement that is worth an answer
}

func (t *translator) expr(n node) (segment.Expr, bool) {
	switch text(n, "class") {
	case "CONJUNCTION":
		return t.conjunction(n)
	case "OPERATOR":
		return t.operator(n)
	case "COMPARISON":
		return t.comparison(n)
	case "BETWEEN":
		return t.between(n)
	case "FUNCTION":
		return t.call(n)
	case "COLUMN_REF":
		if c := t.field(n); c != nil && c.typ() == millstream.Bool {
			return segment.Compare{Field: c.name, Op: segment.Eq, Value: boolValue(true)}, true
		}
	case "CAST", "CONSTANT":
		if l, ok := t.b.literal(n); ok && l.kind == boolLiteral {
			if l.i != 0 {
				return segment.And{}, true
			}
			return segment.Or{}, true
		}
	}
	return nil, false
}

func (t *translator) conjunction(n node) (segment.Expr, bool) {
	var parts []segment.Expr
	for _, c := range nodes(n, "children") {
		e, ok := t.expr(c)
		if !ok {
			return nil, false
		}
		parts = append(parts, e)
	}
	if text(n, "type") == "CONJUNCTION_AND" {
		return segment.And(parts), true
	}
	return segment.Or(parts), true
}

func (t *translator) operator(n node) (segment.Expr, bool) {
	args := nodes(n, "children")
	if len(args) == 0 {
		return nil, false
	}
	switch text(n, "type") {
	case "OPERATOR_NOT":
		e, ok := t.expr(args[0])
		return segment.Not{X: e}, ok
	case "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL":
		c := t.field(args[0])
		if c == nil {
			return nil, false
		}
		if text(n, "type") == "OPERATOR_IS_NULL" {
			return segment.IsNull{Field: c.name}, true
		}
		return segment.Not{X: segment.IsNull{Field: c.name}}, true
	case "COMPARE_IN":
		return t.in(args)
	case "COMPARE_NOT_IN":
		e, ok := t.in(args)
		return segment.Not{X: e}, ok
	}
	return nil, false
}

func (t *translator) in(args []node) (segment.Expr, bool) {
	c := t.field(args[0])
	if c == nil || len(args) < 2 {
		return nil, false
	}
	in := segment.In{Field: c.name}
	for _, a := range args[1:] {
		v, ok := t.b.value(a, c.typ())
		if !ok {
			return nil, false
		}
		in.Values = append(in.Values, v)
	}
	return in, true
}

var compareOps = map[string]segment.Op{
	"COMPARE_EQUAL": segment.Eq, "COMPARE_NOTEQUAL": segment.Ne, "COMPARE_LESSTHAN": segment.Lt, "COMPARE_LESSTHANOREQUALTO": segment.Le,
	"COMPARE_GREATERTHAN": segment.Gt, "COMPARE_GREATERTHANOREQUALTO": segment.Ge,
}

// flipped is the operator with its sides exchanged.
var flipped = map[segment.Op]segment.Op{
	segment.Eq: segment.Eq, segment.Ne: segment.Ne, segment.Lt: segment.Gt, segment.Le: segment.Ge, segment.Gt: segment.Lt, segment.Ge: segment.Le,
}

func (t *translator) comparison(n node) (segment.Expr, bool) {
	op, ok := compareOps[text(n, "type")]
	if !ok {
		return nil, false
	}
	left, right := child(n, "left"), child(n, "right")
	c := t.field(left)
	if c == nil {
		if c = t.field(right); c == nil {
			return nil, false
		}
		right, op = left, flipped[op]
	}
	v, ok := t.b.value(right, c.typ())
	return segment.Compare{Field: c.name, Op: op, Value: v}, ok
}

func (t *translator) between(n node) (segment.Expr, bool) {
	c := t.field(child(n, "input"))
	if c == nil {
		return nil, false
	}
	lower, ok1 := t.b.value(child(n, "lower"), c.typ())
	upper, ok2 := t.b.value(child(n, "upper"), c.typ())
	return segment.And{segment.Compare{Field: c.name, Op: segment.Ge, Value: lower}, segment.Compare{Field: c.name, Op: segment.Le, Value: upper}}, ok1 && ok2
}

// field is the stream's column that n names, or nil.
func (t *translator) field(n node) *column {
	if text(n, "class") != "COLUMN_REF" {
		return nil
	}
	target, _ := t.scope.resolve(strs(n, "column_names"))
	if target == nil || target.column == nil || target.column.view == nil || !t.about(target.column.view) {
		return nil
	}
	return target.column
}

// about says whether the whole expression is about one stream, v.
func (t *translator) about(v *view) bool {
	if t.view == nil {
		t.view = v
	}
	return t.view == v
}

func (t *translator) stringField(n node) (string, bool) {
	c := t.field(n)
	if c == nil || c.typ() != millstream.String {
		return "", false
	}
	return c.name, true
}

func (t *translator) call(n node) (segment.Expr, bool) {
	args := nodes(n, "children")
	if flag(n, "distinct") || n["filter"] != nil {
		return nil, false
	}
	name := function(n)
	switch name {
	case "match_all", "match", "re_match":
		return t.matchCall(n, name, args)
	}
	if len(args) < 2 {
		return nil, false
	}
	field, ok := t.stringField(args[0])
	pattern, literal := stringLiteral(args[1])
	if !ok || !literal {
		return nil, false
	}
	if len(args) == 3 {
		return likeEscape(name, field, pattern, args[2])
	}
	if len(args) != 2 {
		return nil, false
	}
	return textPredicate(name, field, pattern)
}

// textPredicate knows SQL's predicates over a text and a literal. SQL's LIKE has no escape character unless one is given; a segment's has the backslash.
func textPredicate(name, field, pattern string) (segment.Expr, bool) {
	escaped := strings.ReplaceAll(pattern, `\`, `\\`)
	switch name {
	case "~~":
		return like(field, escaped, false), true
	case "!~~":
		return segment.Not{X: like(field, escaped, false)}, true
	case "~~*":
		return like(field, escaped, true), true
	case "!~~*":
		return segment.Not{X: like(field, escaped, true)}, true
	case "contains":
		return segment.Contains{Field: field, Text: pattern}, true
	case "starts_with", "prefix", "^@":
		return segment.Like{Field: field, Pattern: escapeLike(pattern) + "%"}, true
	case "ends_with", "suffix":
		return segment.Like{Field: field, Pattern: "%" + escapeLike(pattern)}, true
	case "regexp_matches":
		return regex(field, pattern)
	case "regexp_full_match":
		return regex(field, `\A(?:`+pattern+`)\z`)
	}
	return nil, false
}

func regex(field, pattern string) (segment.Expr, bool) {
	re, err := regexp.Compile(pattern)
	return segment.Regex{Field: field, Re: re}, err == nil
}

func escapeLike(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

// like picks the cheapest form of a LIKE whose escape is the backslash.
func like(field, pattern string, fold bool) segment.Expr {
	if inner, ok := strings.CutPrefix(pattern, "%"); ok && !fold {
		if inner, ok = strings.CutSuffix(inner, "%"); ok && !strings.HasSuffix(inner, `\`) && !strings.ContainsAny(unescaped(inner), "%_") {
			return segment.Contains{Field: field, Text: plain(inner)}
		}
	}
	if !fold && !strings.ContainsAny(unescaped(pattern), "%_") {
		return segment.Compare{Field: field, Op: segment.Eq, Value: segment.Value{Kind: segment.StringValue, Str: plain(pattern)}}
	}
	return segment.Like{Field: field, Pattern: pattern, Fold: fold}
}

// unescaped drops every escaped character of a pattern, so that what is left of % and _ are wildcards.
func unescaped(pattern string) string {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' {
			i++
			continue
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}

// plain is the text that a pattern without wildcards stands for.
func plain(pattern string) string {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}

func likeEscape(name, field, pattern string, escape node) (segment.Expr, bool) {
	esc, ok := stringLiteral(escape)
	if !ok || len(esc) != 1 {
		return nil, false
	}
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == esc[0]:
			if i++; i == len(pattern) || (pattern[i] != '%' && pattern[i] != '_' && pattern[i] != esc[0]) {
				return nil, false // DuckDB says what is wrong
			}
			out.WriteString(escapeLike(pattern[i : i+1]))
		case c == '\\':
			out.WriteString(`\\`)
		default:
			out.WriteByte(c)
		}
	}
	switch name {
	case "like_escape":
		return like(field, out.String(), false), true
	case "not_like_escape":
		return segment.Not{X: like(field, out.String(), false)}, true
	case "ilike_escape":
		return like(field, out.String(), true), true
	case "not_ilike_escape":
		return segment.Not{X: like(field, out.String(), true)}, true
	}
	return nil, false
}
