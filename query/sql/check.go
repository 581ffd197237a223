package sql

import (
	"encoding/json"
	"strings"

	"github.com/millstream/millstream/internal/spelling"
)

const (
	// maxPadding bounds the product of the counts of all repeat, lpad and rpad calls of a statement: nested in subqueries, they multiply.
	maxPadding = 1_000_000
	maxRange   = 10_000_000 // values of one range or generate_series
	maxWidth   = 1_000      // of a printf or format directive
	maxItems   = 4096       // of all SELECT lists together: each without a name costs a call of the parser
	maxSetOps  = 256        // UNIONs and their like nest to the left without any bracket
)

// The kinds of syntax that a statement may have. Everything else is refused, known or not.
var (
	allowedClasses = nameSet("BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR POSITIONAL_REFERENCE STAR SUBQUERY WINDOW")
	allowedRefs    = nameSet("BASE_TABLE EMPTY EXPRESSION_LIST JOIN SUBQUERY TABLE_FUNCTION")
	allowedQueries = nameSet("SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE")
	// otherTypes are objects of the tree that are neither expression, table nor query.
	otherTypes = nameSet(`ORDER_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER
		ORDER_DEFAULT ASCENDING DESCENDING`)
)

// check walks every object of the tree, wherever it stands, and refuses what is not allowed. It does not need to know the tree's shape: an object with a
// class is an expression, one with a type and no class is a table, a query, a modifier or part of a literal's type.
func check(statement string, tree node) error {
	c := checker{text: statement, padding: 1}
	c.visit(tree, false)
	return c.err
}

type checker struct {
	text    string
	err     error
	padding int64
	setOps  int
	items   int
}

// visit checks x and all below it. tableFunction says that x is the call of a TABLE_FUNCTION.
func (c *checker) visit(x any, tableFunction bool) {
	if c.err != nil {
		return
	}
	switch x := x.(type) {
	case []any:
		for _, v := range x {
			c.visit(v, false)
		}
	case node:
		if text(x, "class") != "" {
			c.expression(x, tableFunction)
		} else if kind, ok := x["type"].(string); ok {
			c.structure(x, kind)
		}
		if items, ok := x["select_list"].([]any); ok {
			if c.items += len(items); c.items > maxItems {
				c.fail(x, "select fewer columns, or *", "the statement has more than %d expressions in its SELECT lists", maxItems)
			}
		}
		if text(x, "class") == "CONSTANT" {
			return // a literal holds values, and types of values, not syntax
		}
		for k, v := range x {
			if k != "cast_type" {
				c.visit(v, k == "function" && text(x, "type") == "TABLE_FUNCTION")
			}
		}
	}
}

func (c *checker) fail(n node, hint, format string, args ...any) {
	if c.err == nil {
		c.err = invalid(c.text, nearest(n), hint, format, args...)
	}
}

// structure checks a table reference, a query or a modifier.
func (c *checker) structure(n node, kind string) {
	switch {
	case kind == "PIVOT":
		c.fail(n, "write one aggregate with FILTER (WHERE …) per column", "PIVOT and UNPIVOT are not supported")
	case kind == "SHOW_REF":
		c.fail(n, "", "SHOW, DESCRIBE and SUMMARIZE cannot be part of a query; SHOW TABLES and DESCRIBE <stream> stand alone")
	case kind == "SET_OPERATION_NODE":
		if c.setOps++; c.setOps > maxSetOps {
			c.fail(n, "", "the statement has more than %d set operations", maxSetOps)
		}
	case kind == "BASE_TABLE" && n["at_clause"] != nil:
		c.fail(n, "", "AT (…) is not supported")
	case !allowedRefs[kind] && !allowedQueries[kind] && !otherTypes[kind]:
		c.fail(n, "", "%s is not allowed", strings.ToLower(strings.ReplaceAll(kind, "_", " ")))
	}
}

func (c *checker) expression(n node, tableFunction bool) {
	class := text(n, "class")
	switch {
	case class == "PARAMETER":
		c.fail(n, "send a value for each parameter in params", "parameter %q has no value", text(n, "identifier"))
	case !allowedClasses[class]:
		c.fail(n, "", "%s is not allowed", strings.ToLower(strings.ReplaceAll(class, "_", " ")))
	case class == "FUNCTION" || class == "WINDOW":
		c.call(n, tableFunction)
	}
}

func (c *checker) call(n node, tableFunction bool) {
	name, set := function(n), scalarFunctions
	if tableFunction {
		set = tableFunctions
	}
	schema := text(n, "schema")
	switch {
	case text(n, "catalog") != "" || (schema != "" && schema != "main"):
		c.fail(n, "", "a function has no schema: %s.%s", schema, name)
	case !set[name] && tableFunction:
		c.fail(n, "", "%s is not an allowed table function: only range, generate_series and unnest are", name)
	case !set[name]:
		c.fail(n, spelling.Hint(name, functionNames(set)), "function %s is unknown or not allowed", name)
	case name == "repeat" || name == "lpad" || name == "rpad":
		c.pad(n, name)
	case name == "range" || name == "generate_series":
		c.bounds(n, name, tableFunction)
	case name == "printf" || name == "format":
		c.directive(n, name)
	}
}

// pad wants a literal count, so that the size of the result is known.
func (c *checker) pad(n node, name string) {
	args := nodes(n, "children")
	if len(args) < 2 {
		return // DuckDB says what is wrong
	}
	count, ok := intLiteral(args[1])
	if !ok {
		c.fail(n, "", "the count of %s has to be a number", name)
		return
	}
	if count > 1 {
		if count > maxPadding {
			count = maxPadding + 1
		}
		if c.padding *= count; c.padding > maxPadding {
			c.fail(n, "", "%s makes too long a text: the counts of a statement may multiply to %d", name, maxPadding)
		}
	}
}

// bounds limits ranges of numbers. A range of times has an interval as its third argument and is left to the query's memory and time limits.
func (c *checker) bounds(n node, name string, tableFunction bool) {
	args := nodes(n, "children")
	if len(args) == 3 && isInterval(args[2]) {
		return
	}
	var v [3]int64
	for i, a := range args {
		x, ok := intLiteral(a)
		switch {
		case ok && i < 3:
			v[i] = x
		case tableFunction:
			return // rows stream: time and the row limit bound them
		default:
			c.fail(a, "", "the bounds of %s have to be numbers here", name)
			return
		}
	}
	start, stop, step := v[0], v[1], int64(1)
	switch len(args) {
	case 1:
		start, stop = 0, v[0]
	case 3:
		step = v[2]
	}
	if step != 0 && (float64(stop)-float64(start))/float64(step) > maxRange {
		c.fail(n, "", "%s makes more than %d values", name, maxRange)
	}
}

// directive refuses widths and precisions that would make a long text of a short one.
func (c *checker) directive(n node, name string) {
	args := nodes(n, "children")
	if len(args) == 0 {
		return
	}
	pattern, ok := stringLiteral(args[0])
	if !ok {
		c.fail(n, "", "the pattern of %s has to be a literal", name)
		return
	}
	width := 0
	for _, r := range pattern {
		if r < '0' || r > '9' {
			width = 0
			if r == '*' {
				c.fail(n, "", "the pattern of %s may not take a width from an argument", name)
			}
			continue
		}
		if width = width*10 + int(r-'0'); width > maxWidth {
			c.fail(n, "", "the pattern of %s asks for a width over %d", name, maxWidth)
			return
		}
	}
	if name == "format" && nestedBraces(pattern) {
		c.fail(n, "", "the pattern of format may not take a width from an argument")
	}
}

func nestedBraces(pattern string) bool {
	depth := 0
	for _, r := range strings.ReplaceAll(strings.ReplaceAll(pattern, "{{", ""), "}}", "") {
		switch r {
		case '{':
			if depth++; depth > 1 {
				return true
			}
		case '}':
			depth--
		}
	}
	return false
}

// intLiteral is the value of a whole-number literal.
func intLiteral(n node) (int64, bool) {
	if text(n, "class") != "CONSTANT" || flag(child(n, "value"), "is_null") {
		return 0, false
	}
	num, ok := child(n, "value")["value"].(json.Number)
	if !ok {
		return 0, false
	}
	switch text(child(child(n, "value"), "type"), "id") {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT":
		v, err := num.Int64()
		return v, err == nil
	}
	return 0, false
}

// isInterval says whether an expression is written as an INTERVAL.
func isInterval(n node) bool {
	_, unit := intervalFunctions[function(n)]
	return unit || function(n) == "to_months" || function(n) == "to_years" || text(child(n, "cast_type"), "id") == "INTERVAL"
}

func stringLiteral(n node) (string, bool) {
	if text(n, "class") != "CONSTANT" {
		return "", false
	}
	s, ok := child(n, "value")["value"].(string)
	return s, ok && text(child(child(n, "value"), "type"), "id") == "VARCHAR"
}
