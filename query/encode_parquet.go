package query

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/millstream/millstream"
)

// parquetEncoder writes one Parquet file. Types beyond bool, int64, double, timestamp and text are text.
type parquetEncoder struct {
	*output
	w *parquetWriter
}

func (e *parquetEncoder) Columns(cs []Column) error {
	fields := make([]parquetColumn, len(cs))
	used := map[string]bool{}
	for i, c := range cs {
		name := c.Name
		for n := 1; used[name]; n++ { // a Parquet file cannot have two columns of one name
			name = fmt.Sprintf("%s_%d", c.Name, n)
		}
		used[name] = true
		fields[i] = parquetColumn{name, fieldType(c.Type)}
	}
	e.w = newParquetWriter(e.output, fields, parquet.Compression(&parquet.Zstd))
	return nil
}

// fieldType is the type in which a value of a SQL type is kept in a file.
func fieldType(sqlType string) millstream.Type {
	switch sqlType {
	case "BOOLEAN":
		return millstream.Bool
	case "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT":
		return millstream.Int64
	case "DOUBLE", "FLOAT":
		return millstream.Double
	}
	if strings.HasPrefix(sqlType, "TIMESTAMP") {
		return millstream.Timestamp
	}
	return millstream.String
}

func (e *parquetEncoder) Rows(r *Rows) error {
	cols := make([]*millstream.Column, len(r.Columns))
	for i := range r.Columns {
		cols[i] = &r.Columns[i]
	}
	return e.w.write(cols, r.N)
}

func (e *parquetEncoder) Close(*Answer) error {
	if err := e.w.close(); err != nil {
		return err
	}
	return e.flush()
}

func (e *parquetEncoder) Fail(any) bool { return false }

// parquetColumn is a column of a file; all are optional.
type parquetColumn struct {
	name string
	typ  millstream.Type
}

// parquetWriter writes columns in the given order, which a parquet.Group alone would sort by name.
type parquetWriter struct {
	w    *parquet.Writer
	cols []parquetColumn
	rows []parquet.Row
	size int // of the row group's values
}

// At most parquetRows rows and about parquetBytes are handed to the library at once. It keeps a row group in memory until it is complete, and DuckDB reads one in
// chunks of 2,048 rows: groupBytes bounds both.
const (
	parquetRows  = 256
	parquetBytes = 4 << 20
	groupBytes   = 32 << 20
)

func newParquetWriter(w io.Writer, cols []parquetColumn, options ...parquet.WriterOption) *parquetWriter {
	root := &orderedGroup{Group: parquet.Group{}}
	for _, c := range cols {
		f := &orderedField{Node: parquet.Optional(parquetNode(c.typ)), name: c.name}
		root.Group[c.name] = f.Node
		root.fields = append(root.fields, f)
	}
	options = append(options, parquet.NewSchema("rows", root))
	return &parquetWriter{w: parquet.NewWriter(w, options...), cols: cols}
}

func parquetNode(t millstream.Type) parquet.Node {
	switch t {
	case millstream.Bool:
		return parquet.Leaf(parquet.BooleanType)
	case millstream.Int64:
		return parquet.Leaf(parquet.Int64Type)
	case millstream.Double:
		return parquet.Leaf(parquet.DoubleType)
	case millstream.Timestamp:
		return parquet.TimestampAdjusted(parquet.Nanosecond, false)
	}
	return parquet.String()
}

// write adds n rows; a nil column has nulls only.
func (p *parquetWriter) write(cols []*millstream.Column, n int) error {
	for from := 0; from < n; {
		rows, size := 0, 0
		for ; rows < parquetRows && from < n && size < parquetBytes; rows, from = rows+1, from+1 {
			if rows == len(p.rows) {
				p.rows = append(p.rows, make(parquet.Row, 0, len(cols)))
			}
			row := p.rows[rows][:0]
			for i, c := range cols {
				v := p.value(c, from, i)
				row, size = append(row, v), size+8
				if v.Kind() == parquet.ByteArray {
					size += len(v.ByteArray())
				}
			}
			p.rows[rows] = row
		}
		if _, err := p.w.WriteRows(p.rows[:rows]); err != nil {
			return fmt.Errorf("write Parquet rows: %w", err)
		}
		if p.size += size; p.size < groupBytes {
			continue
		}
		if err := p.w.Flush(); err != nil {
			return fmt.Errorf("write Parquet row group: %w", err)
		}
		p.size = 0
	}
	return nil
}

func (p *parquetWriter) value(c *millstream.Column, row, i int) parquet.Value {
	if c == nil || !c.IsValid(row) {
		return parquet.NullValue().Level(0, 0, i)
	}
	var v parquet.Value
	switch p.cols[i].typ {
	case millstream.Bool:
		v = parquet.BooleanValue(c.Ints[row] != 0)
	case millstream.Int64, millstream.Timestamp:
		v = parquet.Int64Value(c.Ints[row])
	case millstream.Double:
		v = parquet.DoubleValue(c.Floats[row])
	default:
		v = parquet.ByteArrayValue([]byte(c.Text(row)))
	}
	return v.Level(0, 1, i)
}

func (p *parquetWriter) close() error {
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("end Parquet file: %w", err)
	}
	return nil
}

// orderedGroup is a group whose fields keep their order.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (g *orderedGroup) Fields() []parquet.Field { return g.fields }

type orderedField struct {
	parquet.Node
	name string
}

func (f *orderedField) Name() string { return f.name }

func (f *orderedField) Value(base reflect.Value) reflect.Value {
	return base.MapIndex(reflect.ValueOf(f.name))
}
