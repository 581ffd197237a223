package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/duckdb/duckdb-go/v2/mapping"
	"github.com/millstream/millstream"
)

// builder collects one column of the answer as Arrow buffers. DuckDB's vectors and Arrow's arrays have the same layout for numbers and times, so these are
// copied as they are.
type builder struct {
	name    string
	sql     string // the SQL type
	typ     arrow.DataType
	width   int // bytes of a value in DuckDB's vector; 0: boolean, -1: text or bytes
	rows    int
	nulls   int
	data    []byte
	offsets []int32
	valid   []byte
}

// newBuilder makes the builder for a column of a type, and the expression that brings DuckDB's column ref to a type it knows.
func newBuilder(name string, t mapping.LogicalType, ref string) (*builder, string) {
	b := &builder{name: name, sql: typeName(t)}
	expr := ref
	switch mapping.GetTypeId(t) {
	case mapping.TypeBoolean:
		b.typ, b.width = arrow.FixedWidthTypes.Boolean, 0
	case mapping.TypeTinyInt:
		b.typ, b.width = arrow.PrimitiveTypes.Int8, 1
	case mapping.TypeSmallInt:
		b.typ, b.width = arrow.PrimitiveTypes.Int16, 2
	case mapping.TypeInteger:
		b.typ, b.width = arrow.PrimitiveTypes.Int32, 4
	case mapping.TypeBigInt:
		b.typ, b.width = arrow.PrimitiveTypes.Int64, 8
	case mapping.TypeUTinyInt:
		b.typ, b.width = arrow.PrimitiveTypes.Uint8, 1
	case mapping.TypeUSmallInt:
		b.typ, b.width = arrow.PrimitiveTypes.Uint16, 2
	case mapping.TypeUInteger:
		b.typ, b.width = arrow.PrimitiveTypes.Uint32, 4
	case mapping.TypeUBigInt:
		b.typ, b.width = arrow.PrimitiveTypes.Uint64, 8
	case mapping.TypeFloat:
		b.typ, b.width = arrow.PrimitiveTypes.Float32, 4
	case mapping.TypeDouble:
		b.typ, b.width = arrow.PrimitiveTypes.Float64, 8
	case mapping.TypeHugeInt:
		b.typ, b.width = &arrow.Decimal128Type{Precision: 38, Scale: 0}, 16
	case mapping.TypeDecimal:
		width, scale := mapping.DecimalWidth(t), mapping.DecimalScale(t)
		b.typ, b.width = &arrow.Decimal128Type{Precision: int32(width), Scale: int32(scale)}, 16
		expr = fmt.Sprintf("CAST(%s AS DECIMAL(38,%d))", ref, scale) // 128 bits whatever the width
	case mapping.TypeDate:
		b.typ, b.width = arrow.FixedWidthTypes.Date32, 4
	case mapping.TypeTime:
		b.typ, b.width = arrow.FixedWidthTypes.Time64us, 8
	case mapping.TypeTimestamp:
		b.typ, b.width = &arrow.TimestampType{Unit: arrow.Microsecond}, 8
	case mapping.TypeTimestampS:
		b.typ, b.width = &arrow.TimestampType{Unit: arrow.Second}, 8
	case mapping.TypeTimestampMS:
		b.typ, b.width = &arrow.TimestampType{Unit: arrow.Millisecond}, 8
	case mapping.TypeTimestampNS:
		b.typ, b.width = &arrow.TimestampType{Unit: arrow.Nanosecond}, 8
	case mapping.TypeTimestampTZ:
		b.typ, b.width = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, 8
	case mapping.TypeBlob:
		b.typ, b.width = arrow.BinaryTypes.Binary, -1
	case mapping.TypeVarchar:
		b.typ, b.width = arrow.BinaryTypes.String, -1
	case mapping.TypeList, mapping.TypeArray, mapping.TypeStruct, mapping.TypeMap, mapping.TypeUnion:
		b.typ, b.width = arrow.BinaryTypes.String, -1
		expr = fmt.Sprintf("CAST(to_json(%s) AS VARCHAR)", ref)
	default:
		b.typ, b.width = arrow.BinaryTypes.String, -1
		expr = fmt.Sprintf("CAST(%s AS VARCHAR)", ref)
	}
	return b, expr
}

// plainNames are the SQL names of the types without parameters.
var plainNames = map[mapping.Type]string{
	mapping.TypeBoolean: "BOOLEAN", mapping.TypeTinyInt: "TINYINT", mapping.TypeSmallInt: "SMALLINT", mapping.TypeInteger: "INTEGER",
	mapping.TypeBigInt: "BIGINT", mapping.TypeUTinyInt: "UTINYINT", mapping.TypeUSmallInt: "USMALLINT", mapping.TypeUInteger: "UINTEGER",
	mapping.TypeUBigInt: "UBIGINT", mapping.TypeFloat: "FLOAT", mapping.TypeDouble: "DOUBLE", mapping.TypeTimestamp: "TIMESTAMP", mapping.TypeDate: "DATE",
	mapping.TypeTime: "TIME", mapping.TypeInterval: "INTERVAL", mapping.TypeHugeInt: "HUGEINT", mapping.TypeUHugeInt: "UHUGEINT",
	mapping.TypeVarchar: "VARCHAR", mapping.TypeBlob: "BLOB", mapping.TypeTimestampS: "TIMESTAMP_S", mapping.TypeTimestampMS: "TIMESTAMP_MS",
	mapping.TypeTimestampNS: "TIMESTAMP_NS", mapping.TypeEnum: "ENUM", mapping.TypeUUID: "UUID", mapping.TypeUnion: "UNION", mapping.TypeBit: "BIT",
	mapping.TypeTimeTZ: "TIME WITH TIME ZONE", mapping.TypeTimestampTZ: "TIMESTAMP WITH TIME ZONE", mapping.TypeBigNum: "BIGNUM",
	mapping.TypeSQLNull: "INTEGER", mapping.TypeTimeNS: "TIME_NS", mapping.TypeVariant: "VARIANT",
}

// typeName is a type as DuckDB writes it.
func typeName(t mapping.LogicalType) string {
	if alias := mapping.LogicalTypeGetAlias(t); alias != "" {
		return alias
	}
	of := func(c mapping.LogicalType) string {
		defer mapping.DestroyLogicalType(&c)
		return typeName(c)
	}
	switch id := mapping.GetTypeId(t); id {
	case mapping.TypeDecimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", mapping.DecimalWidth(t), mapping.DecimalScale(t))
	case mapping.TypeList:
		return of(mapping.ListTypeChildType(t)) + "[]"
	case mapping.TypeArray:
		return fmt.Sprintf("%s[%d]", of(mapping.ArrayTypeChildType(t)), mapping.ArrayTypeArraySize(t))
	case mapping.TypeMap:
		return fmt.Sprintf("MAP(%s, %s)", of(mapping.MapTypeKeyType(t)), of(mapping.MapTypeValueType(t)))
	case mapping.TypeStruct:
		parts := make([]string, int(mapping.StructTypeChildCount(t)))
		for k := range parts {
			name := mapping.StructTypeChildName(t, mapping.IdxT(k))
			parts[k] = identifier(name) + " " + of(mapping.StructTypeChildType(t, mapping.IdxT(k)))
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	default:
		if name, ok := plainNames[id]; ok {
			return name
		}
		return "VARCHAR"
	}
}

func (b *builder) field() arrow.Field {
	return arrow.Field{Name: b.name, Type: b.typ, Nullable: true, Metadata: arrow.NewMetadata([]string{TypeKey}, []string{b.sql})}
}

// append copies the values [from, to) of a vector.
func (b *builder) append(v mapping.Vector, from, to int) error {
	if from == to {
		return nil
	}
	data := mapping.VectorGetData(v)
	valid := (*uint64)(mapping.VectorGetValidity(v))
	b.appendValidity(valid, from, to)
	switch {
	case b.width > 0:
		b.data = append(b.data, unsafe.Slice((*byte)(data), to*b.width)[from*b.width:]...)
	case b.width == 0:
		b.appendBools(unsafe.Slice((*byte)(data), to)[from:])
	default:
		if err := b.appendTexts(unsafe.Slice((*[16]byte)(data), to), valid, from); err != nil {
			return err
		}
	}
	b.rows += to - from
	return nil
}

// addSizes adds what the first values of a vector take to sizes.
func (b *builder) addSizes(sizes []int, v mapping.Vector) {
	if b.width >= 0 || len(sizes) == 0 {
		for i := range sizes {
			sizes[i] += b.width
		}
		return
	}
	values := unsafe.Slice((*[16]byte)(mapping.VectorGetData(v)), len(sizes))
	valid := (*uint64)(mapping.VectorGetValidity(v))
	for i := range sizes {
		if isValid(valid, i) {
			sizes[i] += textLength(&values[i])
		}
	}
}

// isValid reads DuckDB's mask, where no mask means that no value is null.
func isValid(mask *uint64, row int) bool {
	if mask == nil {
		return true
	}
	word := *(*uint64)(unsafe.Add(unsafe.Pointer(mask), 8*(row>>6)))
	return word&(1<<(row&63)) != 0
}

func (b *builder) appendValidity(mask *uint64, from, to int) {
	for row := from; row < to; row++ {
		at := b.rows + row - from
		if at&7 == 0 {
			b.valid = append(b.valid, 0)
		}
		if isValid(mask, row) {
			b.valid[at>>3] |= 1 << (at & 7)
		} else {
			b.nulls++
		}
	}
}

// appendBools packs DuckDB's bytes to bits.
func (b *builder) appendBools(values []byte) {
	for row, v := range values {
		at := b.rows + row
		if at&7 == 0 {
			b.data = append(b.data, 0)
		}
		if v != 0 {
			b.data[at>>3] |= 1 << (at & 7)
		}
	}
}

// appendTexts reads DuckDB's strings: four bytes of length, then the text itself if it has at most twelve bytes, else four of its bytes and a pointer. What
// stands in place of a null is not defined.
func (b *builder) appendTexts(values [][16]byte, mask *uint64, from int) error {
	if len(b.offsets) == 0 {
		b.offsets = append(b.offsets, 0)
	}
	for row := from; row < len(values); row++ {
		if isValid(mask, row) {
			s := &values[row]
			n := textLength(s)
			if n <= 12 {
				b.data = append(b.data, s[4:4+n]...)
			} else {
				b.data = append(b.data, unsafe.Slice(*(**byte)(unsafe.Pointer(&s[8])), n)...)
			}
			if len(b.data) > math.MaxInt32 {
				return millstream.Errorf(millstream.Unprocessable, "a text of the answer is too long")
			}
		}
		b.offsets = append(b.offsets, int32(len(b.data)))
	}
	return nil
}

func textLength(s *[16]byte) int { return int(binary.NativeEndian.Uint32(s[:4])) }

// finish gives the array of what was collected and starts anew.
func (b *builder) finish() arrow.Array {
	var buffers []*memory.Buffer
	var valid *memory.Buffer
	if b.nulls > 0 {
		valid = memory.NewBufferBytes(b.valid)
	}
	if b.width < 0 {
		if len(b.offsets) == 0 {
			b.offsets = []int32{0}
		}
		buffers = []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(b.offsets)), memory.NewBufferBytes(b.data)}
	} else {
		buffers = []*memory.Buffer{valid, memory.NewBufferBytes(b.data)}
	}
	a := array.MakeFromData(array.NewData(b.typ, b.rows, buffers, nil, b.nulls, 0))
	b.rows, b.nulls, b.data, b.offsets, b.valid = 0, 0, nil, nil, nil
	return a
}

func newRecord(schema *arrow.Schema, arrays []arrow.Array, rows int) arrow.RecordBatch {
	return array.NewRecordBatch(schema, arrays, int64(rows))
}
