package sql

import (
	"slices"
	"strings"

	"github.com/millstream/millstream"
)

// show recognises SHOW TABLES and DESCRIBE <stream>, which DuckDB parses to a SELECT over a table of its own. It fails for their like that we do not answer.
func (s *Statement) show() (done bool, err error) {
	ref := child(s.tree, "from_table")
	if text(ref, "type") != "SHOW_REF" {
		return false, nil
	}
	switch kind, name := text(ref, "show_type"), strings.Trim(text(ref, "table_name"), `"`); {
	case kind == "SHOW_UNQUALIFIED" && (name == "tables" || name == "__show_tables_expanded"):
		s.Kind = ShowTables
		return true, nil
	case kind == "DESCRIBE" || kind == "SHOW_UNQUALIFIED":
		base := child(child(ref, "query"), "from_table")
		if text(base, "type") != "BASE_TABLE" || text(child(ref, "query"), "type") != "SELECT_NODE" {
			return false, invalid(s.text, 0, "", "DESCRIBE is only answered for a stream")
		}
		s.Kind, s.refs = Describe, []TableRef{s.tableRef(base)}
		return true, nil
	}
	return false, invalid(s.text, 0, "SHOW TABLES, DESCRIBE <stream> and SELECT are answered", "this statement is not allowed")
}

// tableRef reads the name of a table: `app` and `logs.app` are log streams, `metrics.<name>` and `traces.<name>` those of the other signals. A name with dots
// may be written bare: DuckDB splits it, and it is joined again here.
func (s *Statement) tableRef(n node) TableRef {
	parts := make([]string, 0, 3)
	for _, key := range []string{"catalog_name", "schema_name", "table_name"} {
		if p := text(n, key); p != "" {
			parts = append(parts, p)
		}
	}
	ref := TableRef{Signal: millstream.Logs, offset: offset(n), Position: position(s.text, offset(n))}
	if len(parts) > 1 {
		if sig, err := millstream.ParseSignal(strings.ToLower(parts[0])); err == nil {
			ref.Signal, parts = sig, parts[1:]
		}
	}
	ref.Name = strings.Join(parts, ".")
	return ref
}

// collectTables finds every reference to a stream. Names of common table expressions in scope are not streams.
func (s *Statement) collectTables() {
	seen := make(map[int]bool)
	eachTable(s.tree, nil, func(base node) {
		ref := s.tableRef(base)
		if !seen[ref.offset] {
			seen[ref.offset] = true
			s.refs = append(s.refs, ref)
		}
	})
	slices.SortFunc(s.refs, func(a, b TableRef) int { return a.offset - b.offset })
}

// eachTable visits the BASE_TABLE nodes below x that are not names of common table expressions. A name is in scope for the expressions after its own, for the
// query that carries the WITH and all inside it; and for its own query if that is recursive.
func eachTable(x any, ctes []string, visit func(node)) {
	switch x := x.(type) {
	case []any:
		for _, v := range x {
			eachTable(v, ctes, visit)
		}
	case node:
		if text(x, "type") == "BASE_TABLE" && !isCTE(x, ctes) {
			visit(x)
		}
		for _, entry := range nodes(child(x, "cte_map"), "map") {
			name, query := text(entry, "key"), child(entry, "value")
			inner := ctes
			if text(child(child(query, "query"), "node"), "type") == "RECURSIVE_CTE_NODE" {
				inner = append(slices.Clip(ctes), name)
			}
			eachTable(query, inner, visit)
			ctes = append(slices.Clip(ctes), name)
		}
		for k, v := range x {
			if k != "cte_map" {
				eachTable(v, ctes, visit)
			}
		}
	}
}

func isCTE(base node, ctes []string) bool {
	if text(base, "schema_name") != "" || text(base, "catalog_name") != "" {
		return false
	}
	return slices.ContainsFunc(ctes, func(name string) bool { return strings.EqualFold(name, text(base, "table_name")) })
}
