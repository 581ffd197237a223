package promql

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

const (
	// maxText bounds an expression, as SQL's statements are bounded: the work of the parser and of the engine's preparation grows with the square of its nesting,
	// and the engine's stack with its nesting.
	maxText = 64 << 10
	// maxSubquerySteps bounds the steps of all subqueries of an expression together. The engine takes memory for each step before it evaluates the first, outside
	// of its limit of samples.
	maxSubquerySteps = 1_000_000
	// defaultStep is the resolution of a subquery that names none.
	defaultStep = time.Minute
)

// checkText refuses an expression that is too long.
func checkText(query string) error {
	if len(query) <= maxText {
		return nil
	}
	return badParameter("query", fmt.Errorf("the expression has %d bytes, at most %d are allowed", len(query), maxText))
}

// checkSubqueries refuses a statement whose subqueries have too many steps.
func checkSubqueries(s parser.Statement) error {
	eval, ok := s.(*parser.EvalStmt)
	if !ok {
		return nil
	}
	if subquerySteps(eval.Expr, eval.End.Sub(eval.Start)) <= maxSubquerySteps {
		return nil
	}
	return badParameter("query", errors.New("the subqueries have more than 1,000,000 steps: widen their resolution or shorten their range"))
}

// subquerySteps is how many steps the subqueries below a node have when it is evaluated over a span of time. A subquery is evaluated over the span of what
// encloses it and its own range before that, unless an @ pins it to one time.
func subquerySteps(n parser.Node, span time.Duration) float64 {
	var steps float64
	if sub, ok := n.(*parser.SubqueryExpr); ok {
		if sub.Timestamp != nil || sub.StartOrEnd != 0 {
			span = 0
		}
		step := sub.Step
		if step <= 0 {
			step = defaultStep
		}
		if span > math.MaxInt64-sub.Range {
			return math.Inf(1)
		}
		span += sub.Range
		steps = float64(span) / float64(step)
	}
	for c := range parser.ChildrenIter(n) {
		steps += subquerySteps(c, span)
	}
	return steps
}
