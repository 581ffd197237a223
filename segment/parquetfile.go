package segment

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/bits"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/millstream/millstream"
)

// parquetFile is a data object as its own footer describes it. Only Rebuild goes by it: readers go by the index.
type parquetFile struct {
	data   io.ReaderAt
	fields []FieldStat // without TimestampField
	groups []parquetGroup
}

// parquetGroup is a run: where it lies, and its columns without what only their values tell.
type parquetGroup struct {
	info runInfo
	cols []column
}

// openParquet reads the footer and the headers of all pages.
func openParquet(data io.ReaderAt, size int64, names map[string]string) (*parquetFile, error) {
	m, err := readParquetFooter(data, size)
	if err != nil {
		return nil, err
	}
	p := &parquetFile{data: data}
	all := make([]FieldStat, 0, len(m.Schema))
	for _, e := range m.Schema[1:] {
		f := FieldStat{Name: names[e.Name], Type: typeOf(e)}
		if e.Name == millstream.TimestampField {
			f.Name = e.Name
		} else if f.Name == "" {
			return nil, millstream.Errorf(millstream.NotFound, "the data has the column %s, but the stream has no field of that id: its name cannot be told", e.Name)
		}
		if all = append(all, f); e.Name != millstream.TimestampField {
			p.fields = append(p.fields, f)
		}
	}
	for _, g := range m.RowGroups {
		if len(g.Columns) != len(all) || g.NumRows < 1 || g.NumRows > runRows {
			return nil, damaged("a row group does not fit the file's schema")
		}
		x := parquetGroup{info: runInfo{rows: int(g.NumRows), dataBase: math.MaxInt64}}
		for i := range g.Columns {
			// A field that the run lacks is a chunk of nulls, which the index leaves out.
			if c := &g.Columns[i].MetaData; c.Statistics.NullCount < c.NumValues {
				x.info.dataBase = min(x.info.dataBase, chunkStart(c))
			}
		}
		for i := range g.Columns {
			c := &g.Columns[i].MetaData
			if c.Statistics.NullCount >= c.NumValues {
				continue
			}
			col, err := openChunk(data, size, all[i], c, &x.info)
			if err != nil {
				return nil, err
			}
			x.info.dataSize = max(x.info.dataSize, col.offset+c.TotalCompressedSize)
			x.cols = append(x.cols, col)
		}
		p.groups = append(p.groups, x)
	}
	if len(p.groups) == 0 {
		return nil, damaged("the data holds no rows")
	}
	return p, nil
}

func readParquetFooter(data io.ReaderAt, size int64) (*format.FileMetaData, error) {
	tail := make([]byte, 8)
	if size < int64(len(tail)+len(parquetMagic)) {
		return nil, damaged("the data is too short")
	}
	if err := readFull(data, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != parquetMagic || n > size-int64(len(tail)) {
		return nil, damaged("the data does not end as a Parquet file")
	}
	footer := make([]byte, n)
	if err := readFull(data, footer, size-int64(len(tail))-n); err != nil {
		return nil, err
	}
	m := &format.FileMetaData{}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, m); err != nil || len(m.Schema) < 2 {
		return nil, millstream.Wrap(millstream.Internal, err, "the segment is damaged: its Parquet footer")
	}
	return m, nil
}

// typeOf is what schemaElement made an element of; 0 of any other.
func typeOf(e format.SchemaElement) millstream.Type {
	_, timestamp := e.LogicalType.Value.(*format.TimestampType)
	for t, physical := range parquetTypes {
		if e.Type.Valid && e.Type.V == physical && (t == millstream.Timestamp) == timestamp {
			return t
		}
	}
	return 0
}

func chunkStart(c *format.ColumnMetaData) int64 {
	if c.DictionaryPageOffset > 0 {
		return c.DictionaryPageOffset
	}
	return c.DataPageOffset
}

// openChunk finds the pages of a column chunk and takes their checksums.
func openChunk(data io.ReaderAt, size int64, f FieldStat, c *format.ColumnMetaData, run *runInfo) (column, error) {
	at := chunkStart(c)
	col := column{name: f.Name, typ: f.Type, offset: at - run.dataBase, rawSize: c.TotalUncompressedSize, compressed: c.Codec == format.Zstd}
	if c.TotalCompressedSize < 0 || c.TotalCompressedSize > math.MaxInt32 || at < 0 || at > size-c.TotalCompressedSize || f.Type == 0 {
		return col, damaged("a column lies outside of its object")
	}
	chunk := make([]byte, c.TotalCompressedSize)
	if err := readFull(data, chunk, at); err != nil {
		return col, err
	}
	col.enc = encodingOf(f.Type, c.DictionaryPageOffset > 0)
	first := int64(0) // rows of the first page
	for off := 0; off < len(chunk); {
		r := bytes.NewReader(chunk[off:])
		var h format.PageHeader
		if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r)).Decode(&h); err != nil {
			return col, millstream.Wrap(millstream.Internal, err, "the segment is damaged: a page's header")
		}
		pg := page{off: int64(off), header: len(chunk) - off - r.Len(), size: int(h.CompressedPageSize), raw: int(h.UncompressedPageSize)}
		if pg.size < 0 || pg.raw < 0 || pg.size > r.Len() {
			return col, damaged("a page lies outside of its column")
		}
		end := off + pg.header + pg.size
		pg.sum = checksum(chunk[off:end])
		switch {
		case h.Type == format.DictionaryPage && off == 0 && col.enc == encDict && h.DictionaryPageHeader.Valid:
			col.dictPage, col.dictCount = pg, int(h.DictionaryPageHeader.V.NumValues)
			if col.dictCount < 1 || col.dictCount > runRows {
				return col, damaged("a dictionary's size")
			}
			if col.compressed {
				col.dictParts = findParts(chunk[off+pg.header:end], col.dictCount)
			}
		case h.Type == format.DataPage && h.DataPageHeader.Valid:
			if len(col.pages) == 0 {
				first = int64(h.DataPageHeader.V.NumValues)
			}
			col.pages = append(col.pages, pg)
		default:
			return col, damaged("a page of another kind")
		}
		off = end
	}
	// All pages but the last hold the same number of blocks, a power of two; a single one may be shorter than its number says.
	col.pageBlocks = 1 << bits.Len(uint((first-1)/blockRows))
	if blocks := run.blocks(); first < 1 || col.pageBlocks > runBlocks || len(col.pages) != (blocks+col.pageBlocks-1)/col.pageBlocks || !col.fits() {
		return col, damaged("the pages of a column do not hold its rows")
	}
	return col, nil
}

// findParts finds the frames that a dictionary page is made of. One that is a single frame, or not made of whole values, has no parts.
func findParts(p []byte, values int) (parts []dictPart) {
	for len(p) > 0 {
		n := frameSize(p)
		if n == 0 {
			return nil
		}
		raw, err := decompressor().DecodeAll(p[:n], nil)
		if err != nil {
			return nil
		}
		x := dictPart{size: n, raw: len(raw), sum: checksum(p[:n])}
		for ; len(raw) >= 4; x.values++ {
			k := uint64(binary.LittleEndian.Uint32(raw)) + 4
			if k > uint64(len(raw)) {
				return nil
			}
			raw = raw[k:]
		}
		if len(raw) > 0 {
			return nil
		}
		parts, p, values = append(parts, x), p[n:], values-x.values
	}
	if values != 0 || len(parts) < 2 {
		return nil
	}
	return parts
}

// frameSize is the length of the zstd frame that p begins with; 0: it does not begin with one.
func frameSize(p []byte) int {
	var h zstd.Header
	if h.Decode(p) != nil || h.Skippable {
		return 0
	}
	at := h.HeaderSize
	for last := false; !last; {
		if at+3 > len(p) {
			return 0
		}
		block := int(p[at]) | int(p[at+1])<<8 | int(p[at+2])<<16
		last = block&1 != 0
		size := block >> 3
		if block>>1&3 == 1 { // one byte that is repeated
			size = 1
		}
		at += 3 + size
	}
	if h.HasCheckSum {
		at += 4
	}
	if at > len(p) {
		return 0
	}
	return at
}
