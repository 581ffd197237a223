package segment

import (
	"encoding/binary"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/millstream/millstream"
)

// parquetFooter collects the metadata that makes the data object a Parquet file. Our own reader goes by the index object instead; this is for everyone else.
type parquetFooter struct {
	groups []format.RowGroup
}

// rowGroup describes a run that was just written. A field that the run lacks gets a chunk of nulls, written here.
func (p *parquetFooter) rowGroup(f *fileWriter, info runInfo, cols []column) error {
	g := format.RowGroup{NumRows: int64(info.rows), FileOffset: info.dataBase, Ordinal: int16(min(len(p.groups), 1<<15-1))}
	at := map[string]*column{}
	for i := range cols {
		at[cols[i].name] = &cols[i]
	}
	add := func(m format.ColumnMetaData) {
		g.TotalByteSize += m.TotalUncompressedSize
		g.TotalCompressedSize += m.TotalCompressedSize
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: m})
	}
	add(chunkMeta(at[millstream.TimestampField], millstream.TimestampField, info))
	for i := range f.fields {
		if c := at[f.fields[i].Name]; c != nil {
			add(chunkMeta(c, millstream.FieldID(c.name), info))
			continue
		}
		m, err := nullChunk(f, f.fields[i], info.rows)
		if err != nil {
			return err
		}
		add(m)
	}
	p.groups = append(p.groups, g)
	return nil
}

func chunkMeta(c *column, name string, info runInfo) format.ColumnMetaData {
	m := format.ColumnMetaData{
		Type: parquetTypes[c.typ], PathInSchema: []string{name}, Encoding: []format.Encoding{parquetEncodings[c.enc], format.RLE}, NumValues: int64(info.rows),
		TotalUncompressedSize: c.rawSize, TotalCompressedSize: c.chunkSize(), DataPageOffset: info.dataBase + c.offset,
	}
	if c.compressed {
		m.Codec = format.Zstd
	}
	if c.enc == encDict {
		m.Encoding = append(m.Encoding, format.Plain)
		m.DictionaryPageOffset = m.DataPageOffset
		m.DataPageOffset += int64(c.dictPage.header + c.dictPage.size)
	}
	m.Statistics = format.Statistics{NullCount: int64(info.rows) - c.rows, MinValue: c.min, MaxValue: c.max}
	return m
}

// nullChunk writes a page of nulls.
func nullChunk(f *fileWriter, s FieldStat, rows int) (format.ColumnMetaData, error) {
	p := packer{raw: binary.AppendUvarint([]byte{0, 0, 0, 0}, uint64(rows)<<1)}
	p.raw = append(p.raw, 0)
	binary.LittleEndian.PutUint32(p.raw, uint32(len(p.raw)-4))
	header, body, err := p.finish(rows, format.Plain, false)
	if err != nil {
		return format.ColumnMetaData{}, err
	}
	size := int64(len(header) + len(body))
	m := format.ColumnMetaData{
		Type: parquetTypes[s.Type], PathInSchema: []string{millstream.FieldID(s.Name)}, Encoding: []format.Encoding{format.Plain, format.RLE},
		NumValues: int64(rows), TotalUncompressedSize: size, TotalCompressedSize: size, DataPageOffset: f.data.n,
		Statistics: format.Statistics{NullCount: int64(rows)},
	}
	return m, f.data.write(append(header, body...))
}

var parquetTypes = map[millstream.Type]format.Type{
	millstream.Bool: format.Boolean, millstream.Int64: format.Int64, millstream.Double: format.Double, millstream.Timestamp: format.Int64, millstream.String: format.ByteArray,
}

func schemaElement(name string, t millstream.Type, repetition format.FieldRepetitionType) format.SchemaElement {
	e := format.SchemaElement{Type: thrift.New(parquetTypes[t]), RepetitionType: thrift.New(repetition), Name: name}
	switch t {
	case millstream.String:
		e.ConvertedType = thrift.New(deprecated.UTF8)
		e.LogicalType = format.LogicalType{Value: new(format.StringType)}
	case millstream.Timestamp:
		e.LogicalType = format.LogicalType{Value: &format.TimestampType{Unit: format.TimeUnit{Value: new(format.NanoSeconds)}}}
	}
	return e
}

// bytes is the file's end: metadata, its length and the magic.
func (p *parquetFooter) bytes(f *fileWriter) ([]byte, error) {
	m := format.FileMetaData{Version: 1, RowGroups: p.groups, CreatedBy: "millstream"}
	m.Schema = append(m.Schema, format.SchemaElement{Name: "record", NumChildren: thrift.New(int32(len(f.fields) + 1))},
		schemaElement(millstream.TimestampField, millstream.Timestamp, format.Required))
	for _, s := range f.fields {
		m.Schema = append(m.Schema, schemaElement(millstream.FieldID(s.Name), s.Type, format.Optional))
	}
	for range len(f.fields) + 1 {
		m.ColumnOrders = append(m.ColumnOrders, format.ColumnOrder{Value: new(format.TypeDefinedOrder)})
	}
	for _, g := range p.groups {
		m.NumRows += g.NumRows
	}
	out, err := thrift.Marshal(new(thrift.CompactProtocol), &m)
	if err != nil {
		return nil, err
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(out)))
	return append(out, parquetMagic...), nil
}
