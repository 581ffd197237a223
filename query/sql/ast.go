package sql

import (
	"encoding/json"
	"strings"
)

// node is one object of DuckDB's syntax tree as json_serialize_sql prints it. The tree is kept in this form, and not as types of our own, because it is
// handed back to DuckDB after a few edits, and what we do not know of must survive that trip.
type node = map[string]any

// noLocation is what the tree holds where a position is unknown.
const noLocation = "18446744073709551615"

func text(n node, key string) string {
	s, _ := n[key].(string)
	return s
}

func flag(n node, key string) bool {
	b, _ := n[key].(bool)
	return b
}

func child(n node, key string) node {
	c, _ := n[key].(node)
	return c
}

func list(n node, key string) []any {
	l, _ := n[key].([]any)
	return l
}

// nodes are the objects of a list; nulls are left out.
func nodes(n node, key string) []node {
	l := list(n, key)
	out := make([]node, 0, len(l))
	for _, x := range l {
		if c, ok := x.(node); ok {
			out = append(out, c)
		}
	}
	return out
}

func strs(n node, key string) []string {
	l := list(n, key)
	out := make([]string, 0, len(l))
	for _, x := range l {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// function is the lower-case name of a FUNCTION or WINDOW node.
func function(n node) string { return strings.ToLower(text(n, "function_name")) }

// offset is the byte offset of a node in the statement's text, or -1.
func offset(n node) int {
	num, ok := n["query_location"].(json.Number)
	if !ok || num.String() == noLocation {
		return -1
	}
	i, err := num.Int64()
	if err != nil {
		return -1
	}
	return int(i)
}

// nearest is the offset of a node, or of the first part of it that has one: casts and some operators have none themselves.
func nearest(n node) int {
	if at := offset(n); at >= 0 {
		return at
	}
	best := -1
	walk(n, func(c node) bool {
		if at := offset(c); at >= 0 && (best < 0 || at < best) {
			best = at
		}
		return true
	})
	return best
}

// walk visits every object below x, x first, until visit says not to go deeper.
func walk(x any, visit func(node) bool) {
	switch x := x.(type) {
	case node:
		if !visit(x) {
			return
		}
		for _, v := range x {
			walk(v, visit)
		}
	case []any:
		for _, v := range x {
			walk(v, visit)
		}
	}
}

func clone(x any) any {
	switch x := x.(type) {
	case node:
		out := make(node, len(x))
		for k, v := range x {
			out[k] = clone(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = clone(v)
		}
		return out
	}
	return x
}

// replace turns n into with, in place, so that whoever holds n sees the new expression. The alias stays.
func replace(n, with node) {
	alias := n["alias"]
	clear(n)
	for k, v := range with {
		n[k] = v
	}
	n["alias"] = alias
}

// The makers of nodes that the rewriter puts in.

func newConstant(typeID string, value any) node {
	return node{"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": json.Number(noLocation),
		"value": node{"type": node{"id": typeID, "type_info": nil}, "is_null": false, "value": value}}
}

func newColumn(names ...string) node {
	l := make([]any, len(names))
	for i, n := range names {
		l[i] = n
	}
	return node{"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": json.Number(noLocation), "column_names": l}
}

func newCall(name string, args ...node) node {
	l := make([]any, len(args))
	for i, a := range args {
		l[i] = a
	}
	return node{"class": "FUNCTION", "type": "FUNCTION", "alias": "", "query_location": json.Number(noLocation), "function_name": name, "schema": "",
		"children": l, "filter": nil, "order_bys": node{"type": "ORDER_MODIFIER", "orders": []any{}}, "distinct": false, "is_operator": false,
		"export_state": false, "catalog": ""}
}

func newOperator(name string, args ...node) node {
	n := newCall(name, args...)
	n["is_operator"] = true
	return n
}

func newCast(x node, typeID string, try bool) node {
	return node{"class": "CAST", "type": "OPERATOR_CAST", "alias": "", "query_location": json.Number(noLocation), "child": x,
		"cast_type": node{"id": typeID, "type_info": nil}, "try_cast": try}
}
