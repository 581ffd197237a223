package promql

import (
	"net/url"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// ParseQuery answers /parse_query: the expression as a tree, in the form of Prometheus' own API. Beyond that form, each node has the place of its text: start and
// end are bytes of the expression, the end is not included.
func (a *API) ParseQuery(values url.Values) (*Response, error) {
	if err := checkText(values.Get("query")); err != nil {
		return nil, err
	}
	expr, err := a.parser.ParseExpr(values.Get("query"))
	if err != nil {
		return nil, badParameter("query", err)
	}
	return &Response{data: tree(expr)}, nil
}

// node is one part of an expression; its fields depend on its type.
type node map[string]any

func tree(e parser.Expr) node {
	n := parts(e)
	r := e.PositionRange()
	n["start"], n["end"] = r.Start, r.End
	return n
}

func parts(e parser.Expr) node {
	switch e := e.(type) {
	case *parser.AggregateExpr:
		return node{"type": "aggregation", "op": e.Op.String(), "expr": tree(e.Expr), "param": optional(e.Param), "grouping": list(e.Grouping), "without": e.Without}
	case *parser.BinaryExpr:
		return node{"type": "binaryExpr", "op": e.Op.String(), "lhs": tree(e.LHS), "rhs": tree(e.RHS), "matching": matching(e.VectorMatching), "bool": e.ReturnBool}
	case *parser.Call:
		args := []node{}
		for _, a := range e.Args {
			args = append(args, tree(a))
		}
		types := []string{}
		for _, t := range e.Func.ArgTypes {
			types = append(types, string(t))
		}
		return node{"type": "call", "args": args, "func": node{"name": e.Func.Name, "argTypes": types, "variadic": e.Func.Variadic, "returnType": string(e.Func.ReturnType)}}
	case *parser.MatrixSelector:
		n := selector(e.VectorSelector.(*parser.VectorSelector))
		n["type"], n["range"] = "matrixSelector", e.Range.Milliseconds()
		return n
	case *parser.SubqueryExpr:
		return node{
			"type": "subquery", "expr": tree(e.Expr), "range": e.Range.Milliseconds(), "offset": e.OriginalOffset.Milliseconds(), "step": e.Step.Milliseconds(),
			"timestamp": e.Timestamp, "startOrEnd": edge(e.StartOrEnd),
		}
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64)}
	case *parser.StringLiteral:
		return node{"type": "stringLiteral", "val": e.Val}
	case *parser.ParenExpr:
		return node{"type": "parenExpr", "expr": tree(e.Expr)}
	case *parser.UnaryExpr:
		return node{"type": "unaryExpr", "op": e.Op.String(), "expr": tree(e.Expr)}
	case *parser.StepInvariantExpr:
		return parts(e.Expr)
	case *parser.VectorSelector:
		return selector(e)
	}
	return node{"type": "unknown"}
}

// optional is null for an expression that is not there.
func optional(e parser.Expr) any {
	if e == nil {
		return nil
	}
	return tree(e)
}

func selector(e *parser.VectorSelector) node {
	return node{
		"type": "vectorSelector", "name": e.Name, "offset": e.OriginalOffset.Milliseconds(), "matchers": matchers(e.LabelMatchers), "timestamp": e.Timestamp,
		"startOrEnd": edge(e.StartOrEnd),
	}
}

// edge says whether a selector is fixed to the start or the end of the query.
func edge(t parser.ItemType) any {
	if t == 0 {
		return nil
	}
	return t.String()
}

func matchers(ms []*labels.Matcher) []node {
	out := []node{}
	for _, m := range ms {
		out = append(out, node{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return out
}

func matching(m *parser.VectorMatching) any {
	if m == nil {
		return nil
	}
	return node{"card": m.Card.String(), "labels": list(m.MatchingLabels), "on": m.On, "include": list(m.Include), "fillValues": node{"lhs": m.FillValues.LHS, "rhs": m.FillValues.RHS}}
}

// list is empty rather than null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
