package promql

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

func TestSubquerySteps(t *testing.T) {
	p := testAPI(t).parser
	for _, c := range []struct {
		expr string
		span time.Duration
		want float64
	}{
		{"up", time.Hour, 0},
		{"max_over_time(up[1h:1m])", 0, 60},
		{"max_over_time(up[1h:1m])", time.Hour, 120},
		{"max_over_time(up[1h:1m] @ 5)", time.Hour, 60},
		{"max_over_time(up[1h:1m] @ end())", time.Hour, 60},
		{"max_over_time(up[1h:])", 0, 60},
		{"max_over_time(up[1h:1m]) + max_over_time(up[1h:1m])", 0, 120},
		{"max_over_time(max_over_time(up[1h:1s])[1h:1m])", 0, 60 + 7200},
		{"max_over_time(up[1000d:1ms])", 0, 86_400_000_000},
	} {
		expr, err := p.ParseExpr(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := subquerySteps(expr, c.span); got != c.want {
			t.Errorf("%s over %s: %g steps, want %g", c.expr, c.span, got, c.want)
		}
	}
}

// An expression that is too much must be refused before the engine takes memory or time for it: a failed allocation ends the whole process.
func TestExpressionsThatAreTooMuch(t *testing.T) {
	a := testAPI(t)
	open := func(context.Context, int64, int64) (Snapshot, error) { return Snapshot{}, nil }
	deep := strings.Repeat("(", 400_000) + "1" + strings.Repeat(")", 400_000)
	for name, ask := range map[string]func() (*Response, error){
		"steps": func() (*Response, error) {
			return a.Query(t.Context(), open, url.Values{"query": {"max_over_time(up[1000d:1ms])"}})
		},
		"steps of a range": func() (*Response, error) {
			return a.QueryRange(t.Context(), open, url.Values{"query": {"max_over_time(up[1m:1s])"}, "start": {"0"}, "end": {"9999999999"}, "step": {"1000000"}})
		},
		"text":           func() (*Response, error) { return a.Query(t.Context(), open, url.Values{"query": {deep}}) },
		"text to format": func() (*Response, error) { return a.FormatQuery(url.Values{"query": {deep}}) },
		"text of exemplars": func() (*Response, error) {
			return a.Exemplars(t.Context(), open, url.Values{"query": {deep}, "start": {"0"}, "end": {"1"}})
		},
	} {
		var e *Error
		if _, err := ask(); !errors.As(err, &e) || e.Status != 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if checkSubqueries(&parser.EvalStmt{Expr: &parser.NumberLiteral{}}) != nil {
		t.Error("an expression without subqueries is refused")
	}
}
