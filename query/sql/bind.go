package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bind resolves the statement's names against the schemas of its streams, tables[i] being what Tables()[i] is, and decides how it can run. now is the time
// that now() and its like mean. Errors are of kind Invalid, with the position and, where there is one, a hint.
func (s *Statement) Bind(ctx context.Context, tables []Table, now time.Time) (*Bound, error) {
	if s.Kind != Select || len(tables) != len(s.refs) {
		return nil, fmt.Errorf("bind: %d tables for %d references", len(tables), len(s.refs))
	}
	bound := &Bound{stmt: s, tables: tables, now: now}
	var err error
	if bound.Plan, bound.Columns, err = s.plan(ctx, tables, now); err != nil || bound.Plan != nil {
		return bound, err
	}
	if bound.exact, err = s.bind(tables, now, false); err != nil {
		return nil, err
	}
	bound.Columns = bound.exact.outputs
	return bound, nil
}

// Exact is the query over tables that hold exactly the rows that pass each table's Filter and the request's time range, with the computed columns filled in.
func (b *Bound) Exact(ctx context.Context) (*Query, error) {
	if b.exact == nil {
		e, err := b.stmt.bind(b.tables, b.now, false)
		if err != nil {
			return nil, err
		}
		b.exact = e
	}
	return b.exact.query(ctx)
}

// Direct is the query over tables that may hold any rows of the request's time range, such as whole segment files: what can be filtered is filtered by the SQL
// itself. Filter still says which rows are needed, for pruning. It is nil without an error if only a scan can evaluate the statement's match functions.
//
// DuckDB casts a file's column to the type of the view. Int64 to Double is what the schema means by it; a field that is String in the schema and another type
// in a file must not be cast by DuckDB, whose texts differ from ours: such a file has to go through a scan.
func (b *Bound) Direct(ctx context.Context) (*Query, error) {
	if b.direct == nil {
		d, err := b.stmt.bind(b.tables, b.now, true)
		if err != nil {
			return nil, err
		}
		b.direct = d
	}
	if b.direct.needScan {
		return nil, nil
	}
	return b.direct.query(ctx)
}

// binder resolves one copy of a statement's tree and rewrites it on the way.
type binder struct {
	stmt     *Statement
	tables   []Table
	now      time.Time
	direct   bool // keep in the SQL what filters rows
	tree     node
	views    []*view
	prefix   string // of the views' names
	computed int
	width    int  // columns of all tables and queries so far
	needScan bool // a match function occurs
	changed  int  // counts rewrites that change how an expression reads
	unnamed  []unnamed
	stars    []starred
	outputs  []string
}

// unnamed is an output expression whose text changed: its name is the text it had.
type unnamed struct{ now, before node }

// starred is a * over views, which must not show their computed columns.
type starred struct {
	star  node
	views []*view
}

func (s *Statement) bind(tables []Table, now time.Time, direct bool) (*binder, error) {
	b := &binder{stmt: s, tables: tables, now: now.UTC(), direct: direct, tree: clone(s.tree).(node), prefix: viewPrefix(s.tree)}
	out, open, err := b.bindQuery(b.tree, nil, nil, true)
	if err != nil {
		return nil, err
	}
	if !open {
		b.outputs = make([]string, len(out))
		for i := range out {
			b.outputs[i] = out[i].name
		}
	}
	for _, s := range b.stars {
		hideComputed(s)
	}
	return b, nil
}

// maxColumns bounds the columns of all tables and queries of a statement together. Each * may double those of the query before it, so that a short text can
// stand for any number of them.
const maxColumns = 500_000

// widen counts the columns of one more table or query, before memory is taken for them.
func (b *binder) widen(at node, columns int) error {
	if b.width += columns; b.width > maxColumns {
		return invalid(b.stmt.text, nearest(at), "name the columns that are needed instead of writing *", "the tables and subqueries of the statement have more than %d columns", maxColumns)
	}
	return nil
}

// query renders the bound tree.
func (b *binder) query(ctx context.Context) (*Query, error) {
	for _, u := range b.unnamed {
		name, err := b.stmt.gate.name(ctx, u.before)
		if err != nil {
			return nil, err
		}
		u.now["alias"] = name
	}
	b.unnamed = nil
	sql, err := b.stmt.gate.render(ctx, b.tree)
	if err != nil {
		return nil, err
	}
	q := &Query{SQL: sql, Columns: b.outputs, Ordered: ordered(b.tree)}
	for _, v := range b.views {
		q.Tables = append(q.Tables, v.bound())
	}
	return q, nil
}

// ordered says whether a query's own rows, not those of a query within, are sorted.
func ordered(q node) bool {
	return slices.ContainsFunc(nodes(q, "modifiers"), func(m node) bool { return text(m, "type") == "ORDER_MODIFIER" })
}

// name is what DuckDB calls an output column without an alias: the text of its expression.
func (g *Gate) name(ctx context.Context, expression node) (string, error) {
	sql, err := g.render(ctx, selectOf(expression))
	return strings.TrimPrefix(sql, "SELECT "), err
}

func selectOf(expression node) node {
	return node{"type": "SELECT_NODE", "modifiers": []any{}, "cte_map": node{"map": []any{}}, "select_list": []any{expression},
		"from_table":   node{"type": "EMPTY", "alias": "", "sample": nil, "query_location": 0},
		"where_clause": nil, "group_expressions": []any{}, "group_sets": []any{}, "aggregate_handling": "STANDARD_HANDLING", "having": nil, "sample": nil,
		"qualify": nil}
}

// viewPrefix is "t", or longer if a common table expression has such a name: views must not be mistaken for those.
func viewPrefix(tree node) string {
	var names []string
	walk(tree, func(n node) bool {
		for _, entry := range nodes(child(n, "cte_map"), "map") {
			names = append(names, strings.ToLower(text(entry, "key")))
		}
		return true
	})
	prefix := "t"
	for slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
		prefix += "_"
	}
	return prefix
}
