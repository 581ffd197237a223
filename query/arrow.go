package query

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/query/scan"
)

// arrowReader passes the engine's record batches on as rows.
type arrowReader struct {
	names []string // output names as the statement gives them; where it gives none, or all nil: as the engine says
}

func (r *arrowReader) send(b arrow.RecordBatch, out *limited) error {
	cols := make([]Column, b.NumCols())
	for i, f := range b.Schema().Fields() {
		cols[i] = Column{Name: f.Name, Type: sqlTypeOf(f)}
		if i < len(r.names) && r.names[i] != "" {
			cols[i].Name = r.names[i]
		}
	}
	if err := out.Columns(cols); err != nil {
		return err
	}
	for from := 0; from < int(b.NumRows()); from += scan.BlockRows {
		n := min(int(b.NumRows())-from, scan.BlockRows)
		rows := &Rows{N: n, Columns: make([]millstream.Column, len(cols))}
		for i := range cols {
			c, err := fromArrow(b.Column(i), from, n)
			if err != nil {
				return fmt.Errorf("column %q: %w", cols[i].Name, err)
			}
			c.Name, rows.Columns[i] = cols[i].Name, c
		}
		if err := out.Rows(rows); err != nil {
			return err
		}
	}
	return nil
}

// sqlTypeOf is the type the engine gave a field, or the nearest to its Arrow type.
func sqlTypeOf(f arrow.Field) string {
	if t, ok := f.Metadata.GetValue(engine.TypeKey); ok {
		return t
	}
	switch f.Type.ID() {
	case arrow.BOOL:
		return "BOOLEAN"
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32:
		return "BIGINT"
	case arrow.FLOAT32, arrow.FLOAT64:
		return "DOUBLE"
	case arrow.TIMESTAMP:
		return "TIMESTAMP_NS"
	}
	return "VARCHAR"
}

// fromArrow copies n values of an array.
func fromArrow(a arrow.Array, from, n int) (millstream.Column, error) {
	c := millstream.Column{}
	for i := range n {
		if a.IsNull(from + i) {
			if c.Valid == nil {
				c.Valid = make([]uint64, (n+63)/64)
				for k := range i {
					c.Valid[k>>6] |= 1 << (k & 63)
				}
			}
		} else if c.Valid != nil {
			c.Valid[i>>6] |= 1 << (i & 63)
		}
	}
	if ints := arrowInts(a); ints != nil {
		c.Type, c.Ints = millstream.Int64, make([]int64, n)
		switch a.(type) {
		case *array.Boolean:
			c.Type = millstream.Bool
		case *array.Timestamp:
			c.Type = millstream.Timestamp
		}
		for i := range n {
			if c.IsValid(i) {
				c.Ints[i] = ints(from + i)
			}
		}
		return c, nil
	}
	switch a := a.(type) {
	case *array.Float64:
		c.Type, c.Floats = millstream.Double, append([]float64(nil), a.Float64Values()[from:from+n]...)
	case *array.Float32:
		c.Type, c.Floats = millstream.Double, make([]float64, n)
		for i := range n {
			c.Floats[i] = float64(a.Value(from + i))
		}
	default:
		text := arrowText(a)
		if text == nil {
			return c, fmt.Errorf("the engine's type %s is not known", a.DataType())
		}
		c.Type, c.Offsets = millstream.String, make([]uint32, 1, n+1)
		for i := range n {
			if c.IsValid(i) {
				c.Bytes = append(c.Bytes, text(from+i)...)
			}
			c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
		}
	}
	return c, nil
}

// arrowInts reads what is kept as an int64; nil for other types.
func arrowInts(a arrow.Array) func(i int) int64 {
	switch a := a.(type) {
	case *array.Int64:
		return a.Value
	case *array.Int32:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int16:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int8:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Uint32:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Uint16:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Uint8:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Boolean:
		return func(i int) int64 {
			if a.Value(i) {
				return 1
			}
			return 0
		}
	case *array.Timestamp:
		unit := int64(a.DataType().(*arrow.TimestampType).Unit.Multiplier())
		return func(i int) int64 { return int64(a.Value(i)) * unit }
	}
	return nil
}

// arrowText reads what is kept as text; nil for types the engine never sends.
func arrowText(a arrow.Array) func(i int) string {
	switch a := a.(type) {
	case *array.String:
		return a.Value
	case *array.LargeString:
		return a.Value
	case *array.StringView:
		return a.Value
	case *array.Binary:
		return func(i int) string { return fmt.Sprintf("%x", a.Value(i)) }
	case *array.Uint64:
		return func(i int) string { return fmt.Sprint(a.Value(i)) }
	case *array.Decimal128:
		scale := int(a.DataType().(*arrow.Decimal128Type).Scale)
		return func(i int) string { return decimalText(a.Value(i).BigInt(), scale) }
	case *array.Date32, *array.Time64, *array.Time32:
		return a.ValueStr
	}
	return nil
}

// decimalText writes a scaled integer with its point.
func decimalText(v *big.Int, scale int) string {
	s := v.String()
	if scale <= 0 {
		return s
	}
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	if len(s) <= scale {
		s = strings.Repeat("0", scale-len(s)+1) + s
	}
	return sign + s[:len(s)-scale] + "." + s[len(s)-scale:]
}
