package sql

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/spelling"
	"github.com/millstream/millstream/segment"
)

// MaxText is the longest statement the gate reads, in bytes.
const MaxText = 64 << 10

// Kind says what a statement asks for.
type Kind uint8

// The kinds of statements. ShowTables and Describe are answered by the caller from the catalog; Describe has one table.
const (
	Select Kind = iota
	ShowTables
	Describe
)

// Statement is one parsed statement that the gate let through: it names only tables that may be streams and calls only functions of the allow-list.
// It is immutable.
type Statement struct {
	Kind Kind
	gate *Gate
	text string
	tree node // the query node; never changed, binding works on a copy
	refs []TableRef
}

// TableRef is one place where a statement names a stream. A stream that is named twice has two.
type TableRef struct {
	Signal   millstream.Signal
	Name     string
	Position int // 1-based character in the text; 0 if unknown
	offset   int
}

// Tables are the statement's references to streams, in the order of the text. Names of common table expressions are not among them.
func (s *Statement) Tables() []TableRef { return s.refs }

// Table is what a reference resolved to: the stream and its schema in the query's snapshot. _timestamp is implied.
type Table struct {
	Key    millstream.StreamKey
	Fields []millstream.Field
}

// Bound is a statement whose names are resolved. It is for one goroutine.
type Bound struct {
	// Plan is set if kernels can run the statement; then no SQL is needed.
	Plan *Plan
	// Columns are the names of the output columns; nil if only DuckDB can tell how many there are (COLUMNS(…), struct.*), and an empty name where DuckDB's own
	// is right.
	Columns []string

	stmt   *Statement
	tables []Table
	now    time.Time
	exact  *binder // made when they are asked for
	direct *binder
}

// Query is what DuckDB has to run: SQL over views, one for each table reference.
type Query struct {
	SQL     string
	Columns []string // see Bound.Columns
	Tables  []BoundTable
	Ordered bool // the statement sorts its rows
}

// BoundTable is one view of a query: which columns of which stream it shows, and which rows.
type BoundTable struct {
	Ref  int    // index into Statement.Tables
	View string // its name in the SQL, such as t0
	// Columns are what the view shows, _timestamp first if it is needed, then by name. Computed columns come last.
	Columns []ViewColumn
	// Filter holds for every row the query can use; nil: all rows are needed. In an exact query the scan must have applied it.
	Filter   segment.Expr
	Computed []Computed
}

// Fields are the stream's fields that the view shows, without _timestamp: what a scan has to emit.
func (t *BoundTable) Fields() []string {
	var out []string
	for _, c := range t.Columns {
		if c.Field != "" && c.Field != millstream.TimestampField {
			out = append(out, c.Field)
		}
	}
	return out
}

// ViewColumn is one column of a view.
type ViewColumn struct {
	Field string          // the stream's field; empty for a computed column
	ID    string          // the column's name inside Parquet files: FieldID, _timestamp, or the name of the computed column
	Name  string          // the name that the view shows
	Type  millstream.Type // the field's type in the stream's schema
}

// Computed is a boolean column that the scan has to add to an exact query: Expr's truth for each row, null where unknown.
type Computed struct {
	Name string
	Expr segment.Expr
}

// position turns a byte offset in the text to a 1-based character; 0 if it is unknown.
func position(text string, offset int) int {
	if offset < 0 || offset > len(text) {
		return 0
	}
	return utf8.RuneCountInString(text[:offset]) + 1
}

// invalid is an error about the text at a byte offset.
func invalid(text string, offset int, hint, format string, args ...any) error {
	return &millstream.Error{Kind: millstream.Invalid, Msg: fmt.Sprintf(format, args...), Hint: hint, Position: position(text, offset)}
}

// UnknownTable is the error for a reference to a stream that does not exist; names are the streams that do, for the hint.
func UnknownTable(ref TableRef, names []string) error {
	err := &millstream.Error{Kind: millstream.NotFound, Msg: fmt.Sprintf("there is no stream %q of signal %s", ref.Name, ref.Signal), Hint: spelling.Hint(ref.Name, names), Position: ref.Position}
	switch {
	case err.Hint != "":
	case ref.Signal == millstream.Metrics:
		err.Hint = `a metric is named as it was sent, such as metrics."http.server.duration_count"; GET /api/v1/query/prometheus/api/v1/label/__name__/values lists them`
	default:
		err.Hint = "SHOW TABLES lists the streams"
	}
	return err
}
