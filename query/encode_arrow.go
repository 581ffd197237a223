package query

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millstream/millstream"
)

// arrowEncoder writes an Arrow IPC stream, uncompressed. Types without an Arrow counterpart of ours are text; HUGEINT and DECIMAL are decimal128. The schema's
// metadata cannot be written after the rows, so what the JSON format says beside them has no place here.
type arrowEncoder struct {
	*output
	schema *arrow.Schema
	w      *ipc.Writer
}

func (e *arrowEncoder) Columns(cs []Column) error {
	fields := make([]arrow.Field, len(cs))
	for i, c := range cs {
		fields[i] = arrow.Field{Name: c.Name, Type: arrowType(c.Type), Nullable: true}
	}
	e.schema = arrow.NewSchema(fields, nil)
	e.w = ipc.NewWriter(e.output, ipc.WithSchema(e.schema))
	return nil
}

func arrowType(sqlType string) arrow.DataType {
	switch sqlType {
	case "BOOLEAN":
		return arrow.FixedWidthTypes.Boolean
	case "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT":
		return arrow.PrimitiveTypes.Int64
	case "DOUBLE", "FLOAT":
		return arrow.PrimitiveTypes.Float64
	case "HUGEINT":
		return &arrow.Decimal128Type{Precision: 38}
	}
	if strings.HasPrefix(sqlType, "TIMESTAMP") {
		return &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	}
	var p, s int32
	if n, _ := fmt.Sscanf(sqlType, "DECIMAL(%d,%d)", &p, &s); n == 2 {
		return &arrow.Decimal128Type{Precision: p, Scale: s}
	}
	return arrow.BinaryTypes.String
}

func (e *arrowEncoder) Rows(r *Rows) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, e.schema)
	defer b.Release()
	for i := range r.Columns {
		if err := appendArrow(b.Field(i), &r.Columns[i], r.N); err != nil {
			return fmt.Errorf("column %q: %w", e.schema.Field(i).Name, err)
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	return e.w.Write(rec)
}

func appendArrow(b array.Builder, c *millstream.Column, n int) error {
	b.Reserve(n)
	for i := range n {
		if !c.IsValid(i) {
			b.AppendNull()
			continue
		}
		switch b := b.(type) {
		case *array.BooleanBuilder:
			b.Append(c.Ints[i] != 0)
		case *array.Int64Builder:
			b.Append(c.Ints[i])
		case *array.Float64Builder:
			b.Append(c.Floats[i])
		case *array.TimestampBuilder:
			b.Append(arrow.Timestamp(c.Ints[i]))
		case *array.Decimal128Builder:
			d, err := decimal(c, i)
			if err != nil {
				return err
			}
			b.Append(d)
		case *array.StringBuilder:
			b.Append(c.Text(i))
		default:
			return fmt.Errorf("no conversion to %s", b.Type())
		}
	}
	return nil
}

// decimal reads a number's canonical text, without its point, as a 128-bit integer.
func decimal(c *millstream.Column, i int) (decimal128.Num, error) {
	if c.Type == millstream.Int64 {
		return decimal128.FromI64(c.Ints[i]), nil
	}
	v, ok := new(big.Int).SetString(strings.Replace(c.Text(i), ".", "", 1), 10)
	if !ok || v.BitLen() > 127 {
		return decimal128.Num{}, fmt.Errorf("%q is not a decimal", c.Text(i))
	}
	return decimal128.FromBigInt(v), nil
}

func (e *arrowEncoder) Close(*Answer) error {
	if err := e.w.Close(); err != nil {
		return err
	}
	return e.flush()
}

func (e *arrowEncoder) Fail(any) bool { return false }
