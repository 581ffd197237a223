package query

import (
	"context"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
)

// tableName is a stream's name in SQL, unquoted.
func tableName(k millstream.StreamKey) string {
	if k.Signal == millstream.Logs {
		return k.Name
	}
	return k.Signal.String() + "." + k.Name
}

// texts makes a block of text columns from rows.
func texts(names []string, rows [][]string) *Rows {
	out := &Rows{N: len(rows), Columns: make([]millstream.Column, len(names))}
	for i, name := range names {
		c := millstream.Column{Name: name, Type: millstream.String, Offsets: make([]uint32, 1, len(rows)+1)}
		for _, r := range rows {
			c.Bytes = append(c.Bytes, r[i]...)
			c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
		}
		out.Columns[i] = c
	}
	return out
}

func sendTexts(out *limited, names []string, rows [][]string) error {
	cols := make([]Column, len(names))
	for i, n := range names {
		cols[i] = Column{n, "VARCHAR"}
	}
	if err := out.Columns(cols); err != nil || len(rows) == 0 {
		return err
	}
	return out.Rows(texts(names, rows))
}

// showTables answers SHOW TABLES: the organization's streams by their names in SQL.
func (e *Engine) showTables(ctx context.Context, q *task, out *limited) error {
	all, err := e.cfg.Catalog.Streams(ctx, q.Org, 0)
	if err != nil {
		return err
	}
	rows := [][]string{}
	for _, s := range all {
		if s.Key.Signal != millstream.Metrics { // its tables are the names of its series, which may be very many
			rows = append(rows, []string{tableName(s.Key)})
		}
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return sendTexts(out, []string{"name"}, rows)
}

// describe answers DESCRIBE of a stream: its columns and their types, _timestamp first.
func (e *Engine) describe(ctx context.Context, q *task, stmt *sql.Statement, out *limited) error {
	v, err := e.open(ctx, q.Org, keysOf(q.Org, stmt.Tables()), q.Range)
	if err != nil {
		return err
	}
	defer v.release()
	ts, err := e.resolve(ctx, q, stmt, v)
	if err != nil {
		return err
	}
	rows := [][]string{{millstream.TimestampField, SQLType(millstream.Timestamp)}}
	fields := slices.Clone(ts.refs[0].schema.Fields)
	slices.SortFunc(fields, func(a, b millstream.Field) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range fields {
		if f.Name != millstream.TimestampField {
			rows = append(rows, []string{f.Name, SQLType(f.Type)})
		}
	}
	return sendTexts(out, []string{"column_name", "column_type"}, rows)
}

// unknown is the error for a name that is no stream, with the nearest that is one.
func (e *Engine) unknown(ctx context.Context, org millstream.OrgID, ref sql.TableRef) error {
	return sql.UnknownTable(ref, e.streamNames(ctx, org, ref.Signal))
}

// streamNames are the names of an organization's streams, for a hint: without a catalog there is none.
func (e *Engine) streamNames(ctx context.Context, org millstream.OrgID, sig millstream.Signal) []string {
	if sig == millstream.Metrics {
		return nil
	}
	all, err := e.cfg.Catalog.Streams(ctx, org, sig)
	if err != nil {
		e.log.Warn("streams cannot be listed", "org", org, "error", err)
		return nil
	}
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, s.Key.Name)
	}
	return names
}
